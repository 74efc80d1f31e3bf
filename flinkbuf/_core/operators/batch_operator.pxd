cimport cython
from libc.stdint cimport int64_t

from flinkbuf._core.flow.batch_records cimport BatchToRecords, RecordsToBatch
from flinkbuf._core.operators.stream_operator cimport StreamOperator


@cython.final
cdef class MapBatchesOperator(StreamOperator):
    cdef object call
    cdef object lifecycle
    cdef RecordsToBatch gathered
    cdef BatchToRecords given
    cdef object output_codec_of     # for which `given` was made
    cdef int64_t max_delay_ms       # -1: none
    cdef int64_t* timestamps        # of what is gathered
    cdef int64_t timestamp_count, timestamp_room
    cdef bint has_timestamps
    cdef object timer               # of the batch that is being gathered, or an earlier one; None: none waits
    cdef int64_t began_ms           # when the first record of the batch came

    cdef int note_timestamp(self, int64_t timestamp) except -1
    cdef int begin_batch(self) except -1
    cdef int flush(self) except -1
    cdef int emit_rows(self, object batch, object timestamps) except -1
    cdef object take_timestamps(self)
