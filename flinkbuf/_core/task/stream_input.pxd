cimport cython
from libc.stdint cimport int64_t

from flinkbuf._core.task.operator_chain cimport ChainingOutput, OperatorCounters
from flinkbuf._core.flow.record_reader cimport RecordReader, stream_element
from flinkbuf._core.task.record_writer_output cimport TaskOutputs
from flinkbuf._core.operators.source_operator cimport SourceOutput
from flinkbuf._core.operators.stream_operator cimport Input, Output
from flinkbuf._core.task.task_mailbox cimport TaskMailbox, monotonic_ns

cdef enum:
    FIRST_LOOK = 1      # records until the clock is read first; then each time twice as many have gone by,
    MAX_LOOK = 64       # but never more than so many later


@cython.final
cdef class TaskTurn:
    cdef TaskMailbox mailbox
    cdef TaskOutputs outputs
    cdef readonly int64_t length_ns
    cdef int64_t end_ns
    cdef int64_t count                  # records of this turn
    cdef int64_t look                   # at which of them the clock is read

    cdef inline void begin(self) noexcept:
        self.end_ns = monotonic_ns() + self.length_ns
        self.count, self.look = 0, FIRST_LOOK

    # After each record of a turn that has begun.
    cdef inline bint is_over(self) noexcept:
        if self.must_end():
            return True
        self.count += 1
        if self.count == self.look:
            if monotonic_ns() >= self.end_ns:
                return True
            self.look += min(self.count, MAX_LOOK)
        return False

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
    cdef public Input target        # may be set before the first element
    cdef TaskTurn turn
    cdef OperatorCounters counters      # of the head operator
    cdef OperatorCounters task_counters
    cdef object valve
    cdef object events

    cpdef int emit_next(self) except -1
    cpdef bint process_priority(self) except -1
    cdef int process_other(self, int kind, stream_element* element) except -1
