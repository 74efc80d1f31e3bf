from cpython.object cimport PyObject

from flinkbuf._core.value.codec cimport codec_node
from flinkbuf._core.value.type_codec cimport TypeCodec

cdef bint stays(const codec_node* n, PyObject* value) noexcept
cdef object convert_value(TypeCodec codec, object value)
cdef object round_trip(TypeCodec codec, object value)
