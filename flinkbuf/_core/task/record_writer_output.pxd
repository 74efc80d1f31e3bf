cimport cython
from libc.stdint cimport int64_t

from flinkbuf._core.task.operator_chain cimport EdgeOutput, OperatorCounters
from flinkbuf._core.flow.record_writer cimport RecordWriter


cdef class RecordWriterOutput(EdgeOutput):
    cdef readonly RecordWriter writer
    cdef OperatorCounters task_counters
    cdef object random


@cython.final
cdef class PageOutput(RecordWriterOutput):
    cdef object pages_of
    cdef readonly object small          # where small elements wait; None: none does
    cdef object processing_time
    cdef int64_t max_delay_ms           # of what waits; -1: as long as event time stands still
    cdef object timer                   # of what waits now, or of what waited earlier; None: none is set
    cdef readonly int64_t row_count     # of all elements

    cdef int send(self, object element, int64_t timestamp) except -1


@cython.final
cdef class TaskOutputs:
    cdef readonly list writers
    cdef RecordWriter only              # if there is exactly one
    cdef Py_ssize_t count

    cdef inline bint are_available(self) noexcept:
        if self.count == 1:
            return self.only.has_room()
        return self.count == 0 or self.are_all_available()

    cdef bint are_all_available(self) noexcept
