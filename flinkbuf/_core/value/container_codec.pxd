from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from flinkbuf._core.value.codec cimport codec_node
from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output

cdef uint8_t* put_list(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_any_list(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_array(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_bytes(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_set(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_map(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef PyObject* get_list(const codec_node* n, fb_data_input* source) except NULL
cdef PyObject* get_bytes(const codec_node* n, fb_data_input* source) except NULL
cdef object get_array(const codec_node* n, fb_data_input* source)
cdef object get_set(const codec_node* n, fb_data_input* source)
cdef object get_map(const codec_node* n, fb_data_input* source)
