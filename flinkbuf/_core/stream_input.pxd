cimport cython
from libc.stdint cimport int64_t

from flinkbuf._core.operator_chain cimport ChainingOutput, OperatorCounters
from flinkbuf._core.record_reader cimport RecordReader, stream_element
from flinkbuf._core.record_writer_output cimport TaskOutputs
from flinkbuf._core.source_operator cimport SourceOutput
from flinkbuf._core.stream_operator cimport Input, Output
from flinkbuf._core.task_mailbox cimport TaskMailbox


@cython.final
cdef class TaskTurn:
    cdef TaskMailbox mailbox
    cdef TaskOutputs outputs

    # Whether whoever loops over records should come back to the mailbox: after each record.
    cdef inline bint must_end(self) noexcept:
        return self.mailbox.has_mail() or not self.outputs.are_available()


@cython.final
cdef class TaskSourceOutput(SourceOutput):
    cdef Output target
    cdef ChainingOutput chained         # the same, if it is one for the main output; else None
    cdef TaskTurn turn
    cdef int64_t last_look_ns           # when the source came back because of the time
    cdef int until_look                 # records until the clock is read again


@cython.final
cdef class NetworkInput:
    cdef readonly RecordReader reader
    cdef Input target
    cdef TaskTurn turn
    cdef OperatorCounters counters      # of the head operator
    cdef OperatorCounters task_counters
    cdef object valve
    cdef object events

    cpdef int emit_next(self) except -1
    cpdef bint process_priority(self) except -1
    cdef int process_other(self, int kind, stream_element* element) except -1
