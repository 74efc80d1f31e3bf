from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t

from flinkbuf._core.ground.data_view cimport fb_data_output
from flinkbuf._core.state.entry_cache cimport EntryCache
from flinkbuf._core.state.key_context cimport KeyContext
from flinkbuf._core.state.keyed_state cimport KeyedState
from flinkbuf._core.record.key_group cimport KeyGrouper
from flinkbuf._core.state.state_table cimport StateTable
from flinkbuf._core.value.type_codec cimport TypeCodec


cdef class CachedValue:
    cdef object value       # None: there is none
    cdef object saved       # its bytes in the store, None: it is not there, or UNKNOWN
    cdef bint may_differ    # from what is in the store


cdef class RocksDbTable(StateTable):
    cdef object store
    cdef EntryCache cache       # of the store
    cdef object read_written    # what the database itself has at a place
    cdef int state_id
    cdef KeyedState state
    cdef KeyContext keys
    cdef KeyGrouper grouper
    cdef TypeCodec key_codec, codec
    cdef TypeCodec place_codec  # of keys in places
    cdef bint has_stamps
    cdef bint holds_atoms       # a value can be one that never changes, and is not held then
    cdef bint holds_fixed       # each is
    cdef bint is_read_in_place  # no code of Python runs while one is decoded
    cdef bint tells_keys        # each key can be read back out of its place
    cdef dict young, old        # (namespace, token) -> CachedValue; what is used moves to the young ones
    cdef Py_ssize_t capacity    # of each
    cdef dict names             # the form of each window of the user's own that was met lately
    cdef bytes position         # where next_entries goes on, or None
    cdef fb_data_output output
    # The place that was asked for last, for a value is read and then written; and its namespace's form.
    cdef fb_data_output at
    cdef object at_token, at_namespace
    cdef object named
    cdef bytes name
    cdef bint tells_name

    cdef bytes bytes_of(self, TypeCodec codec, object value)
    cdef bytes name_of(self, object namespace)
    cdef int locate(self, object namespace, object token) except -1
    cdef int change(self, object token, object value) except -1
    cdef object read(self, object token, bint is_to_change)
    cdef object decoded_in_place(self, const uint8_t* data, size_t size)
    cdef object encoded(self, object token, object value)
    cdef object decoded(self, object data)
    cdef CachedValue cached(self, object place)
    cdef CachedValue held(self, object token)
    cdef int forget(self, object token) except -1
    cdef int keep(self, object place, CachedValue found) except -1
    cdef int write_back_of(self, dict cache) except -1
