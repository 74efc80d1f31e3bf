from flinkbuf._core.operator_chain cimport EdgeOutput, OperatorCounters
from flinkbuf._core.record_writer cimport RecordWriter


cdef class RecordWriterOutput(EdgeOutput):
    cdef readonly RecordWriter writer
    cdef OperatorCounters task_counters
    cdef object random


cdef class TaskOutputs:
    cdef readonly list writers
    cdef RecordWriter only              # if there is exactly one

    cdef bint are_available(self) noexcept
    cdef bint are_all_available(self) noexcept
