from libc.stdint cimport uint64_t

from flinkbuf._core.record.key_group cimport KeyGrouper
from flinkbuf._core.record.key_token cimport KeyTokens


cdef class HeldKey:
    cdef readonly object token
    cdef readonly object key


cdef class NoKey:
    pass


cdef class KeyContext:
    cdef readonly object key    # the user's; None if there is none
    cdef object token           # what tables are keyed by: equal for equal keys only; outside of a key a NoKey
    cdef readonly bint is_set
    cdef readonly KeyTokens tokens  # of the type of the keys
    cdef KeyGrouper grouper     # of the subtask; None: any key is taken
    cdef uint64_t key_count     # that were set so far
    cdef list listeners         # called without arguments after each change of the key; None: nobody listens

    cpdef set_key(self, object key)
    cpdef object token_of(self, object key)
    cpdef clear(self)


cdef object key_of_token(object token)
cdef object given_key(object token)
