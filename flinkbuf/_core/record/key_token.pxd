from cpython.object cimport PyObject

from flinkbuf._core.ground.data_view cimport fb_data_output
from flinkbuf._core.value.python_object cimport FB_TYPE_OF
from flinkbuf._core.value.type_codec cimport TypeCodec

cdef class KeyToken:
    cdef readonly bytes data  # the key, in the form that keys have
    cdef Py_hash_t hash

# Which keys identify themselves: all; those that Python's equality cannot mix up, which each is looked at for.
cdef enum key_rule:
    ALL
    ALL_BUT_ODD_FLOATS
    SOME

cdef class KeyTokens:
    cdef readonly TypeCodec codec   # of the declared type, else None
    cdef TypeCodec key_codec        # what writes a key for its token
    cdef key_rule rule
    cdef bint declared
    cdef object token_slowly(self, object key)


cdef inline object key_token(KeyTokens tokens, object key):
    """What identifies a key: the key itself, or its KeyToken. A key of a declared type was brought to it before."""
    cdef PyObject* kind = FB_TYPE_OF(<PyObject*>key)
    if tokens.rule == ALL or (tokens.rule == SOME and (kind == <PyObject*>str or kind == <PyObject*>int)):
        return key
    return tokens.token_slowly(key)


cdef object bring_key(KeyTokens tokens, object key)
