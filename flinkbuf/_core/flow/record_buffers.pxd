cimport cython
from cpython.object cimport PyObject
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t

from flinkbuf._core.record.channel_selector cimport ChannelSelector
from flinkbuf._core.partition.data_buffer cimport fb_data_buffer
from flinkbuf._core.ground.data_view cimport fb_data_input
from flinkbuf._core.record.record_deserializer cimport fb_record_deserializer
from flinkbuf._core.record.record_serializer cimport fb_record_serializer
from flinkbuf._core.value.type_codec cimport TypeCodec


# One buffer in the making: a bytes object that is filled where it lies and handed out as it is.
cdef struct page:
    PyObject* bytes     # owned; NULL: none yet
    uint8_t* data
    uint32_t position   # bytes written


cdef class RecordBufferWriter:
    cdef object records
    cdef TypeCodec codec
    cdef ChannelSelector selector
    cdef uint32_t channel_count
    cdef uint32_t segment_size
    cdef fb_record_serializer serializer
    cdef int64_t _record_count  # written
    cdef readonly bint has_record_in_hand  # taken from the iterator, and not stored yet
    cdef int64_t given_count    # number of the record in hand, refused ones counted, from 0; -1: none yet
    cdef list ready             # finished (channel, bytes) pairs, not yet given
    cdef Py_ssize_t ready_next
    cdef bint is_exhausted
    cdef bint is_busy

    @cython.final
    cdef int64_t select(self, object record) except? -1
    @cython.final
    cdef int encode(self, object record, uint8_t* start, uint8_t* end) except -1
    @cython.final
    cdef int add_ready(self, int64_t channel, object buffer) except -1
    @cython.final
    cdef int refill(self) except -1
    cdef int fill_ready(self) except -1


cdef class HashBufferWriter(RecordBufferWriter):
    cdef page* pages

    @cython.final
    cdef int write(self, object record) except -1
    @cython.final
    cdef int finish(self) except -1
    @cython.final
    cdef int open_page(self, page* target) except -1
    @cython.final
    cdef int close_page(self, int64_t channel) except -1
    @cython.final
    cdef int append(self, int64_t channel, const uint8_t* data, size_t size) except -1


cdef class SortBufferWriter(RecordBufferWriter):
    cdef fb_data_buffer log
    cdef uint8_t** segments
    cdef uint32_t segment_count
    cdef bint is_draining
    cdef object spare               # a page that was read into, but not handed out
    cdef int64_t waiting_channel    # of the record in the scratch that waits for the log to be drained; -2: none

    @cython.final
    cdef int write(self, object record) except -1
    @cython.final
    cdef int start_draining(self) except -1
    @cython.final
    cdef int drain_one(self) except -1
    @cython.final
    cdef int store_waiting(self) except -1
    @cython.final
    cdef int cut(self, int64_t channel, const uint8_t* data, size_t size) except -1


cdef class RecordBufferReader:
    cdef object buffers
    cdef TypeCodec codec
    cdef fb_record_deserializer deserializer
    cdef fb_data_input input
    cdef Py_buffer view
    cdef bint has_view
    cdef bint is_busy

    @cython.final
    cdef object next_spanning(self)
    @cython.final
    cdef int find_record(self, const uint8_t** record, size_t* size) except -1
    @cython.final
    cdef int next_buffer(self) except -1
