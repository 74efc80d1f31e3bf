cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t

from flinkbuf._core.memory.buffer cimport fb_buffer_slice
from flinkbuf._core.ground.data_view cimport fb_data_input
from flinkbuf._core.gate.input_gate cimport AbstractInputGate, RecordCounts, fb_gate_item
from flinkbuf._core.record.record_deserializer cimport SpillPaths, fb_record_deserializer
from flinkbuf._core.value.type_codec cimport TypeCodec


# What poll_element() has found.
cdef enum element_kind:
    NOTHING = 0     # nothing is there now
    RECORD = 1
    WATERMARK = 2
    STATUS = 3      # of watermarks; the timestamp is 0: active, or -1: idle
    MARKER = 4      # another element, as an object
    EVENT = 5       # what `event_of` made of it
    FINISHED = 6    # nothing will come any more


cdef struct stream_element:
    PyObject* value         # of RECORD, MARKER and EVENT: a new reference, the caller's; else NULL
    int64_t timestamp       # of RECORD (INT64_MIN: none), WATERMARK, STATUS
    uint32_t channel


cdef class RecordReader:
    cdef readonly AbstractInputGate gate
    cdef TypeCodec codec
    cdef object event_of            # called with (bytes, data type) of an event; None: events are not given
    cdef fb_record_deserializer* deserializers  # one a channel
    cdef SpillPaths spill_paths  # where their files go
    cdef uint32_t channel_count
    cdef RecordCounts record_counts             # shown by the gate
    cdef fb_record_deserializer* current        # the channel being read; NULL: take a buffer first
    cdef uint32_t buffer_channel    # its number
    cdef uint32_t current_channel   # which the last record or event came from
    cdef bint is_of_elements        # records have a tag, and perhaps a timestamp, before the value
    cdef bint is_timed              # the last record has a timestamp
    cdef int64_t last_timestamp
    cdef fb_buffer_slice slice             # the buffer `current` reads from; owned
    cdef fb_data_input input
    cdef object pending_event
    cdef object kept_values         # an array: read for a column that was not given because of an error; else None
    cdef bint is_finished
    cdef bint is_busy
    cdef bint is_held               # busy between two batches: the iterator over them has begun rows of the next one
    cdef bint is_polling            # what goes wrong is the gate's

    @cython.final
    cdef int poll_element(self, stream_element* element) except -1
    @cython.final
    cdef int poll_other(self, stream_element* element) except -1
    @cython.final
    cdef int poll_priority_element(self, stream_element* element) except -1
    @cython.final
    cdef int take_priority(self) except -1
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
