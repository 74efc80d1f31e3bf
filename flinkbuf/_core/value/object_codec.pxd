from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from flinkbuf._core.value.codec cimport codec_node
from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output

cdef uint8_t* put_object(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef PyObject* get_object(const codec_node* n, fb_data_input* source) except NULL
