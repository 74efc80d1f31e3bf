cimport cython
from libc.stdint cimport uint8_t, uint32_t

from flinkbuf._core.buffer cimport fb_buffer_slice
from flinkbuf._core.data_view cimport fb_data_input
from flinkbuf._core.input_gate cimport AbstractInputGate, RecordCounts, fb_gate_item
from flinkbuf._core.record_deserializer cimport fb_record_deserializer
from flinkbuf._core.type_codec cimport TypeCodec


cdef class RecordReader:
    cdef readonly AbstractInputGate gate
    cdef TypeCodec codec
    cdef object event_of            # called with (bytes, data type) of an event; None: events are not given
    cdef fb_record_deserializer* deserializers  # one a channel
    cdef uint32_t channel_count
    cdef RecordCounts record_counts             # shown by the gate
    cdef fb_record_deserializer* current        # the channel being read; NULL: take a buffer first
    cdef uint32_t current_channel
    cdef fb_buffer_slice slice             # the buffer `current` reads from; owned
    cdef fb_data_input input
    cdef object pending_event
    cdef object kept_values         # an array: read for a column that was not given because of an error; else None
    cdef bint is_finished
    cdef bint is_busy
    cdef bint is_polling            # what goes wrong is the gate's

    @cython.final
    cdef object next_item(self)
    @cython.final
    cdef object next_of_any_kind(self)
    @cython.final
    cdef int explain(self) except -1
    @cython.final
    cdef object next_kept(self)
    @cython.final
    cdef object with_source(self, error)
    @cython.final
    cdef int begin_use(self) except -1
    @cython.final
    cdef int fill_column(self, values, size_t* done) except -1
    @cython.final
    cdef int put_edge(self, values, const uint8_t* record, size_t size) except -1
    @cython.final
    cdef int next_record(self, const uint8_t** record, size_t* size, bint waits=*) except -1
    @cython.final
    cdef int next_buffer(self, bint waits) except -1
    @cython.final
    cdef int take(self, fb_gate_item* item) except -1
    @cython.final
    cdef object decode(self, const uint8_t* record, size_t size)


@cython.final
cdef class RecordIterator:
    cdef RecordReader reader
