from flinkbuf._core.type_codec cimport TypeCodec

cdef object convert_value(TypeCodec codec, object value)
