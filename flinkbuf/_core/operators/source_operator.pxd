from libc.stdint cimport int64_t

from flinkbuf._core.operators.iterator_handover cimport IteratorHandover
from flinkbuf._core.operators.stream_operator cimport Output, StreamOperator
from flinkbuf._core.operators.watermark_generator cimport WatermarkGenerator


# What a source says at the end of a turn; the numbers are those of flinkbuf.streaming.sources.input_status.
cdef enum:
    MORE_AVAILABLE = 0
    NOTHING_AVAILABLE = 1   # until it wakes its task
    END_OF_INPUT = 3        # for ever
    STOPPED = 4             # for ever, without an end of event time


cdef class SourceOutput(Output):
    cpdef bint must_yield(self) except -1


cdef class SourceOperatorBase(StreamOperator):
    cpdef int emit_next(self, Output output, Py_ssize_t max_records) except -1


cdef class IteratorSourceOperator(SourceOperatorBase):
    cdef object make_iterator
    cdef object iterator
    cdef object record_class                # elements of this class are records with timestamps; None: all are values
    cdef object watermark_class
    cdef public bint copies                 # the program keeps the elements: functions get copies of what can change
    cdef readonly Py_ssize_t position       # elements taken so far
    cdef int ending                         # what ends it, once it was stopped; else 0

    cdef put_element(self, Output output, object element)


cdef class HandoverSourceOperator(IteratorSourceOperator):
    cdef public IteratorHandover handover
    cdef list taken                         # what was handed over at once
    cdef Py_ssize_t taken_count             # how many of these were emitted

    cdef list take_more(self)


cdef class SourceTurn:
    cdef SourceOutput output                # None: nobody tells when to stop
    cdef Py_ssize_t left                    # how many records it may still emit

    cdef begin(self, Output output, Py_ssize_t max_records)
    cdef bint may_go_on(self) except -1


cdef class ReaderOutput:
    cdef Output output
    cdef readonly SourceTurn turn           # that of the operator, shared by the outputs of its splits
    cdef readonly Py_ssize_t count          # records emitted so far

    cpdef collect(self, object value, object timestamp=*)
    cdef put(self, object value, int64_t timestamp)
    cpdef emit_watermark(self, int64_t timestamp)
    cpdef mark_idle(self)
    cpdef mark_active(self)


cdef class WatermarkingOutput(ReaderOutput):
    cdef object extract_timestamp           # None: the record's own
    cdef readonly WatermarkGenerator generator
    cdef object watermark_output


cdef class ReaderSourceOperator(SourceOperatorBase):
    cdef public object poll_next            # the reader's

    cdef int poll(self, ReaderOutput reader_output, Output output, Py_ssize_t max_records) except -1
