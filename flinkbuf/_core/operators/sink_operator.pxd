from libc.stdint cimport int64_t

from flinkbuf._core.operators.function_operator cimport FunctionOperator
from flinkbuf._core.operators.stream_operator cimport StreamOperator


cdef class SinkContext:
    cdef int64_t record_timestamp
    cdef int64_t watermark
    cdef public object timestamps           # of the rows, where what is in hand is a batch
    cdef object processing_time             # ProcessingTimeService


cdef class SinkFunctionOperator(FunctionOperator):
    cdef bint takes_context
    cdef SinkContext sink_context


cdef class SinkWriterOperatorBase(StreamOperator):
    cdef object write                       # the writer's
    cdef readonly SinkContext sink_context
