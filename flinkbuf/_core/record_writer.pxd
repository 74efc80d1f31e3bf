cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t

from flinkbuf._core.channel_selector cimport ChannelSelector
from flinkbuf._core.record_serializer cimport fb_record_serializer
from flinkbuf._core.result_partition cimport ResultPartition, fb_result_partition
from flinkbuf._core.type_codec cimport TypeCodec


cdef class RecordWriter:
    cdef readonly ResultPartition partition
    cdef TypeCodec codec
    cdef ChannelSelector selector
    cdef fb_result_partition* c         # the partition's, retained
    cdef fb_record_serializer serializer
    cdef int64_t _record_count      # written
    cdef int64_t given_count        # number of the record in hand, refused ones counted, from 0; -1: none yet
    cdef int fork_count
    cdef bint has_flusher           # it asked for flushing by time
    cdef bint flushes_always
    cdef bint _is_closed

    @cython.final
    cdef int begin_use(self) except -1
    @cython.final
    cdef int64_t select(self, object record) except? -1
    @cython.final
    cdef int write(self, object record, int64_t channel) except -1
    @cython.final
    cdef int write_unicast(self, object record, uint32_t channel) except -1
    @cython.final
    cdef int write_broadcast(self, object record) except -1
    @cython.final
    cdef int open_unicast(self, uint32_t channel) except -1
    @cython.final
    cdef int open_broadcast(self) except -1
    @cython.final
    cdef int append_unicast(self, uint32_t channel, const uint8_t* data, size_t size) except -1
    @cython.final
    cdef int append_broadcast(self, const uint8_t* data, size_t size) except -1
    @cython.final
    cdef int wait_for_buffer(self) except -1
    @cython.final
    cdef int write_column(self, const uint8_t* values, uint32_t width, size_t count) except -1
    @cython.final
    cdef int write_column_to(self, const uint8_t* values, uint32_t width, size_t count,
                             const uint32_t* channels) except -1
    @cython.final
    cdef int write_edge(self, const uint8_t* value, uint32_t width, uint32_t channel, bint is_broadcast) except -1
    @cython.final
    cdef int check_usable(self) except -1
