from cpython.object cimport PyObject
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t

from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output
from flinkbuf._core.value.type cimport fb_type, fb_type_kind

cdef struct codec_node

# The pair of each kind. `put` writes a value at `pos` and returns the position after it; `out.pos` is not kept up to
# date. `get` reads the value at `source.pos`, moves past it and returns a new reference. NULL: an exception is set.
ctypedef uint8_t* (*put_function)(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) noexcept
ctypedef PyObject* (*get_function)(const codec_node* n, fb_data_input* source) noexcept

# What the walk over a value needs of a type, side by side for all fields of a tuple or row.
cdef struct codec_node:
    put_function put
    get_function get
    fb_type_kind kind
    uint32_t child_count
    uint32_t min_size
    uint32_t mask_size      # ROW: bytes
    codec_node* children    # copies of the children's own nodes; owned by the codec of this node
    bint acyclic            # its values hold no object that could refer back to them
    bint merges             # values that differ in Python may have the same bytes
    bint is_key             # OBJECT, SET, MAP: in the form that it has as a key
    void* texts             # STRING: the short texts read last; each field has its own
    PyObject* classes[4]    # ROW: by kind of change; borrowed from the codec
    PyObject* codec         # the TypeCodec itself, borrowed: a parent holds its children


cdef class Codec:
    cdef fb_type type
    cdef codec_node node
    cdef const fb_type** child_types
    cdef readonly str kind
    cdef readonly tuple children
    cdef readonly tuple names
    cdef readonly tuple symbols
    cdef readonly tuple classes
    cdef readonly bint numpy
    cdef readonly bint own_class    # INSTANT: every value is of the class in `classes`
    cdef readonly str field_path_name
    cdef readonly bint trusted  # OBJECT: what is pickled may be unpickled
    cdef object row_classes     # OBJECT: gives the classes of rows with these names
    cdef dict row_heads         # OBJECT: of a class of rows, what stands before the values of its rows
    cdef dict classes_of_heads  # OBJECT: and back
    cdef bytes last_head        # OBJECT: of the row read last, and its class
    cdef object last_class
    cdef dict ordinals      # ENUM: value to ordinal
    cdef str array_dtype    # PRIMITIVE_ARRAY: of numpy
    cdef str array_formats  # PRIMITIVE_ARRAY: characters of the buffer protocol
    cdef readonly tuple required    # ROW, ROW_DATA: whether each field must not be null; None: all may
    cdef str describe(self)
    cdef str step(self, index)


cdef int refuse(const codec_node* n, PyObject* value, object error, str why=*) except -1
cdef int refuse_step(const codec_node* n, object value, object error, str why, str step) except -1
cdef int add_step(const codec_node* n, object step)
cdef int add_key_step(const codec_node* n, object key)
cdef int explain(int64_t record_number, str field_path_name) except -1
cdef uint8_t* make_room(fb_data_output* out, uint8_t* pos, size_t size) except NULL
cdef uint8_t* put_count(const codec_node* n, PyObject* value, Py_ssize_t count, size_t size, uint8_t* pos,
                        fb_data_output* out) except NULL
cdef uint8_t* put_sized(const codec_node* n, PyObject* value, const void* data, Py_ssize_t size, uint8_t* pos,
                        fb_data_output* out) except NULL
cdef PyObject* corrupt(const codec_node* n, fb_data_input* source, int code, str why=*, str advice=*) except NULL
cdef const uint8_t* measured(const codec_node* n, fb_data_input* source) except NULL
cdef int get_flag(const codec_node* n, fb_data_input* source) except -1
cdef Py_ssize_t get_count(const codec_node* n, fb_data_input* source, size_t min_size) except -1
cdef object get_child(const codec_node* child, fb_data_input* source)
cdef bint is_numpy(object value, str name)
cdef bint is_array(object value)
