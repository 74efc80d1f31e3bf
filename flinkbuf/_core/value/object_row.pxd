from cpython.object cimport PyObject
from libc.stddef cimport size_t

from flinkbuf._core.value.codec cimport codec_node
from flinkbuf._core.ground.data_view cimport fb_data_input

cdef bytes row_head(const codec_node* n, object type_)
cdef PyObject* get_row_class(const codec_node* n, fb_data_input* source, size_t* count) except NULL
