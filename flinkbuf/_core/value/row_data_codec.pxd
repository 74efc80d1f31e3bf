from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from flinkbuf._core.value.codec cimport codec_node
from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output

cdef uint8_t* put_leaf_data(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_sized_data(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef object get_leaf_data(const codec_node* n, fb_data_input* source)
cdef object get_sized_data(const codec_node* n, fb_data_input* source)
