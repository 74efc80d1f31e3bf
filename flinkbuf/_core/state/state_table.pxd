cdef class FrozenTable:
    cdef dict spaces            # as in the table
    cdef list layers            # what is laid over them, the oldest first
    cdef readonly bint is_released


cdef class StateTable:
    cdef dict spaces            # namespace -> {token: value}; no empty dict but that of the default namespace
    cdef object namespace       # None: the default one
    cdef dict current           # that of the namespace, or None: it has no values
    cdef bint is_shallow        # values are lists or dicts whose parts are never changed
    cdef bint is_plain          # `current` is all there is to ask
    cdef list layers            # laid over `spaces` while snapshots read them, oldest first, in the same form, but with
    # None for a removed value; None if there are none
    cdef dict changes           # the last of them, which alone is written into
    cdef list sweep_namespaces  # those that next_entries has before it
    cdef dict sweep_space       # the dict that it is in, and where in it
    cdef object sweep_namespace
    cdef Py_ssize_t sweep_position
    cdef list frozen            # the snapshots that read them, or None: all layers are on their way back

    cdef object get(self, object token)
    cdef object own(self, object token)
    cdef bint may_be_read(self)
    cdef int put(self, object token, object value) except -1
    cdef int remove(self, object token) except -1
    cdef int clear(self) except -1
    cdef int set_namespace(self, object namespace) except -1
    cdef object get_slowly(self, object token, bint is_to_change)
    cdef int put_slowly(self, object token, object value) except -1
    cdef bint is_read(self) except -1
    cdef int drain(self, Py_ssize_t count) except -1
    cdef list tokens(self)
    cdef int set_in_space(self, object namespace, object token, object value) except -1
    cdef int refresh(self) except -1
    cdef list next_entries(self, Py_ssize_t count)
    cdef FrozenTable freeze(self)
