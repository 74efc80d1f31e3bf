cdef class KeyContext:
    cdef readonly object key    # the user's; None if there is none
    cdef object token           # what tables are keyed by: equal for equal keys only; NULL-like NO_KEY outside of a key
    cdef readonly bint is_set

    cpdef set_key(self, object key)
    cpdef clear(self)
