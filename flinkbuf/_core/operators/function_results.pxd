from libc.stdint cimport int64_t

from flinkbuf._core.operators.stream_operator cimport Output, StreamOperator


cdef class SideOutput:
    cdef readonly str tag_id


cdef int emit_results(StreamOperator operator, object results, int64_t timestamp, str what) except -1
