cimport cython
from libc.stdint cimport int64_t

from flinkbuf._core.flow.batch_records cimport BatchToRecords, RecordsToBatch
from flinkbuf._core.operators.delayed_operator cimport DelayedOperator
from flinkbuf._core.operators.stream_operator cimport StreamOperator
from flinkbuf._core.value.type_codec cimport TypeCodec


cdef class GatheringOperator(DelayedOperator):
    cdef RecordsToBatch gathered
    cdef int64_t* timestamps        # of what is gathered
    cdef int64_t timestamp_count, timestamp_room
    cdef bint has_timestamps

    cdef int gather(self, object value, int64_t timestamp) except -1
    cdef int note_timestamp(self, int64_t timestamp) except -1
    cdef int flush(self) except -1
    cdef int give(self, object batch, object timestamps) except -1
    cdef object take_timestamps(self)


cdef class BatchRows:
    cdef BatchToRecords given
    cdef TypeCodec codec            # for which `given` was made

    cdef int emit(self, StreamOperator operator, object batch, object timestamps, TypeCodec codec) except -1


@cython.final
cdef class MapBatchesOperator(GatheringOperator):
    cdef object call
    cdef BatchRows rows


@cython.final
cdef class AsColumnsOperator(GatheringOperator):
    cdef object make
    cdef tuple batch_classes


@cython.final
cdef class AsRecordsOperator(StreamOperator):
    cdef object call
    cdef BatchRows rows
