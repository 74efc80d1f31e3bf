from flinkbuf._core.value.codec cimport codec_node

cdef tuple parts_of(const codec_node* n, object value, int* tag)
