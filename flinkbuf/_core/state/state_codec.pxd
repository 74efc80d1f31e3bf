from libc.stdint cimport int64_t, uint8_t, uint32_t

from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output
from flinkbuf._core.record.key_group cimport KeyGrouper
from flinkbuf._core.state.keyed_state cimport KeyedState
from flinkbuf._core.state.state_table cimport FrozenTable
from flinkbuf._core.value.type_codec cimport TypeCodec


cdef enum:                  # what begins in a section
    ENTRY = 0               # key and value
    STAMPED_ENTRY = 1       # key, value and stamps
    NAMESPACE = 2           # that of the entries to come


cdef struct group_buffer:
    fb_data_output output
    int64_t namespace_number    # of the entry written last; 0: the default one
    uint32_t checksum           # of its bytes, when they are gathered


cdef class GroupWriter:
    cdef KeyGrouper grouper
    cdef TypeCodec key_codec
    cdef object is_cancelled
    cdef group_buffer* buffers      # one a key group
    cdef readonly Py_ssize_t count, size    # of groups; bytes in all buffers
    cdef int64_t slice_end          # when others are to run
    cdef int64_t min_slice_ns       # in which they have asked for it
    cdef Py_ssize_t steps, looked_size  # entries since the last look at the clock; bytes that there were then

    cdef group_buffer* buffer_of(self, object key) except NULL
    cdef int put_entry(self, object namespace, int64_t namespace_number, object key, TypeCodec codec, object value,
                       object stamps) except -1
    cdef bint may_rest(self) noexcept
    cdef int rest(self) except -1
    cdef void copy_all(self, uint8_t* pos) noexcept nogil


cdef class TableEncoder:
    cdef FrozenTable table
    cdef KeyedState state
    cdef TypeCodec codec
    cdef bint has_stamps
    cdef object expire_at
    cdef object layers              # those to come
    cdef object namespace           # of the dict that it is in
    cdef dict space
    cdef list over                  # what was written later: entries of these keys are there
    cdef Py_ssize_t position
    cdef int64_t namespace_number, last_number

    cdef bint write_space(self, GroupWriter writer, Py_ssize_t limit) except -1


cdef class StateReader:
    cdef fb_data_input input
    cdef object view

    cdef object get(self, TypeCodec codec)
    cdef int64_t get_number(self) except? -1


cdef object joined(KeyedState state, object value, object stamps)
