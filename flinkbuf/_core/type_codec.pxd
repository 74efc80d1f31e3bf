from cpython.object cimport PyObject
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

from flinkbuf._core.data_view cimport fb_input, fb_output

cdef extern from "record/type_codec.h" nogil:
    enum fb_type_kind:
        FB_TYPE_BOOLEAN
        FB_TYPE_BYTE
        FB_TYPE_SHORT
        FB_TYPE_CHAR
        FB_TYPE_INT
        FB_TYPE_LONG
        FB_TYPE_FLOAT
        FB_TYPE_DOUBLE
        FB_TYPE_STRING
        FB_TYPE_STRING_VALUE
        FB_TYPE_VOID
        FB_TYPE_NULL_VALUE
        FB_TYPE_BIG_INT
        FB_TYPE_BIG_DEC
        FB_TYPE_INSTANT
        FB_TYPE_LOCAL_DATE
        FB_TYPE_LOCAL_TIME
        FB_TYPE_LOCAL_DATE_TIME
        FB_TYPE_DATE
        FB_TYPE_SQL_DATE
        FB_TYPE_SQL_TIME
        FB_TYPE_SQL_TIMESTAMP
        FB_TYPE_ENUM
        FB_TYPE_PICKLED_BYTES
        FB_TYPE_PRIMITIVE_ARRAY
        FB_TYPE_STRING_ARRAY
        FB_TYPE_OBJECT_ARRAY
        FB_TYPE_LIST
        FB_TYPE_SET
        FB_TYPE_MAP
        FB_TYPE_TUPLE
        FB_TYPE_ROW
        FB_TYPE_EITHER
        FB_TYPE_NULLABLE
        FB_TYPE_STREAM_ELEMENT
    enum fb_element_tag:
        FB_ELEMENT_RECORD_WITH_TIMESTAMP
        FB_ELEMENT_RECORD
        FB_ELEMENT_WATERMARK
        FB_ELEMENT_LATENCY_MARKER
        FB_ELEMENT_WATERMARK_STATUS
        FB_ELEMENT_RECORD_ATTRIBUTES
        FB_ELEMENT_INTERNAL_WATERMARK
    enum:
        FB_TYPE_MAX_EMPTY_ELEMENTS
    struct fb_type:
        fb_type_kind kind
        uint32_t child_count
        const fb_type* const* children
        uint32_t symbol_count
        uint32_t padding
        uint32_t min_size
    struct fb_text:
        size_t size
        uint32_t units
        uint32_t length
        uint32_t max_point
    void fb_type_codec_measure(fb_type* self)
    bint fb_type_codec_fits(uint32_t count, uint32_t min_size, size_t left)
    int fb_type_codec_skip(const fb_type* self, fb_input* input)
    int fb_type_codec_read_varint(fb_input* input, uint32_t* value)
    int fb_type_codec_measure_text(fb_input* input, uint32_t units, fb_text* text)
    void fb_type_codec_decode_text(const uint8_t* from_, const fb_text* text, int width, void* points)
    bint fb_type_codec_plan_text(const void* points, size_t length, int width, fb_text* text)
    uint8_t* fb_type_codec_encode_text(const void* points, size_t length, int width, uint8_t* to)
    void fb_type_codec_store_array(fb_type_kind kind, const void* from_, size_t count, uint8_t* to)
    void fb_type_codec_load_array(fb_type_kind kind, const uint8_t* from_, size_t count, void* to)
    uint8_t* fb_type_codec_write_varint(uint32_t value, uint8_t* to)
    bint fb_type_codec_is_ascii(const uint8_t* from_, size_t size)

cdef extern from *:
    """
    #define FB_IDENTITY(object) (object)
    """
    object FB_IDENTITY(PyObject* new_reference)  # it is Cython's to count from here on


# What the walk over a value needs of a type, side by side for all fields of a tuple or row.
cdef struct codec_node:
    fb_type_kind kind
    uint32_t child_count
    uint32_t min_size
    uint32_t mask_size      # ROW: bytes
    codec_node* children    # copies of the children's own nodes; owned by the codec of this node
    bint acyclic            # its values hold no object that could refer back to them
    bint holds_bytes        # PRIMITIVE_ARRAY: bytes in Python
    bint merges             # values that differ in Python may have the same bytes
    void* texts             # STRING: the short texts read last; each field has its own
    PyObject* classes[4]    # ROW: by kind of change; borrowed from the codec
    PyObject* codec         # the TypeCodec itself, borrowed: a parent holds its children


cdef class TypeCodec:
    cdef fb_type type
    cdef codec_node node
    cdef const fb_type** child_types
    cdef readonly str kind
    cdef readonly tuple children
    cdef readonly tuple names
    cdef readonly tuple symbols
    cdef readonly tuple classes
    cdef readonly bint numpy
    cdef readonly str field_path_name
    cdef dict ordinals      # ENUM: value to ordinal
    cdef str array_dtype    # PRIMITIVE_ARRAY: of numpy
    cdef str array_formats  # PRIMITIVE_ARRAY: characters of the buffer protocol
    cdef int check_arguments(self, padding) except -1
    cdef str describe(self)
    cdef str step(self, index)
    cdef tuple row_fields(self, PyObject* value)
    cdef tuple fields_by_name(self, v, own)
    cdef int explain(self, fb_output* out) except -1
    cdef int encode(self, object value, fb_output* output) except -1
    cdef object decode(self, fb_input* input)
