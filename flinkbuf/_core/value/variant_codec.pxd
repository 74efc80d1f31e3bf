from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from flinkbuf._core.value.codec cimport codec_node
from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output

cdef uint8_t* put_void(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_null_value(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_enum(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_either(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_nullable(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_element(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef PyObject* get_void(const codec_node* n, fb_data_input* source) except NULL
cdef PyObject* get_null_value(const codec_node* n, fb_data_input* source) except NULL
cdef object get_enum(const codec_node* n, fb_data_input* source)
cdef object get_either(const codec_node* n, fb_data_input* source)
cdef object get_nullable(const codec_node* n, fb_data_input* source)
cdef object get_element(const codec_node* n, fb_data_input* source)
