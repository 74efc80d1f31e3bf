from cpython.object cimport PyObject
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t

from flinkbuf._core.value.codec cimport codec_node
from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output

cdef enum:
    LEAF_ROOM = 16  # bytes of the longest leaf whose size does not vary, and more

cdef uint8_t* put_leaf(const codec_node* n, PyObject* value, uint8_t* pos, fb_data_output* out) except? NULL
cdef uint8_t* put_bytes(const codec_node* n, PyObject* value, uint8_t tag, const void* data, Py_ssize_t size,
                        uint8_t* pos, fb_data_output* out) except NULL
cdef object get_leaf(const codec_node* n, uint8_t tag, fb_data_input* source)
cdef size_t get_size(const codec_node* n, fb_data_input* source, size_t least) except? 0xffffffff
