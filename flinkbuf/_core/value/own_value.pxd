from cpython.object cimport PyObject

from flinkbuf._core.value.type_codec cimport TypeCodec

cdef extern from "_core/value/own_value.h":
    bint fb_own_value_is_atom(PyObject* value) noexcept

cdef bint is_fixed(PyObject* value) except -1
cdef bint is_of_fixed_class(object value)
cdef object own_copy(object value)
cdef object own_if_it_can(object value)
cdef object own_value(TypeCodec codec, object value)
cdef bint gives_fixed(TypeCodec codec)
