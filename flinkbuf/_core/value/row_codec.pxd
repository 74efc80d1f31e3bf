from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from flinkbuf._core.value.codec cimport codec_node
from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output

cdef uint8_t* put_tuple(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_row(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef PyObject* get_tuple(const codec_node* n, fb_data_input* source) except NULL
cdef PyObject* get_row(const codec_node* n, fb_data_input* source) except NULL
cdef int check_row_class(object type_) except -1
cdef PyObject* new_row(PyObject* type_, Py_ssize_t size) except NULL
cdef unsigned row_kind_of(PyObject* value) except? 9
cdef tuple row_fields(const codec_node* n, PyObject* value)
