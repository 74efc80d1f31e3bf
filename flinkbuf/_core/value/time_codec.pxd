from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from flinkbuf._core.value.codec cimport codec_node
from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output

cdef uint8_t* put_local(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_instant(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_own_instant(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_timestamp(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef uint8_t* put_millis(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except NULL
cdef object get_local(const codec_node* n, fb_data_input* source)
cdef object get_instant(const codec_node* n, fb_data_input* source)
cdef object get_own_instant(const codec_node* n, fb_data_input* source)
cdef object get_millis(const codec_node* n, fb_data_input* source)
