"""Operators that begin a chain, and the loops that bring records out of Python iterators.

A turn of a source ends after so many records, or as soon as its output says that something else is waiting. Flink:
SourceOperator, StreamSource, ReaderOutput, SourceOutputWithWatermarks.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport INT64_MIN, int64_t

from flinkbuf._core.record.plain_function cimport called_with_two
from flinkbuf._core.value.own_value cimport is_fixed, own_if_it_can
from flinkbuf._core.operators.stream_operator cimport Output, StreamOperator
from flinkbuf._core.operators.watermark_generator cimport WatermarkGenerator


cdef object MIN_AS_OBJECT = INT64_MIN  # what an assigner is given for a record without a timestamp


cdef extern from "Python.h":
    PyObject* PyIter_Next(object iterator) except? NULL


cdef class SourceOutput(Output):
    """The output that a task gives its source; it knows when the source had better return."""

    cpdef bint must_yield(self) except -1:
        """Whether mail waits or an output is full."""
        return False


cdef SourceOutput as_source_output(Output output):
    return output if isinstance(output, SourceOutput) else None


cdef class SourceOperatorBase(StreamOperator):
    """What a task asks of an operator without an input."""

    cpdef int emit_next(self, Output output, Py_ssize_t max_records) except -1:
        """Emit at most so many records without waiting for any; returns a number of `InputStatus`."""
        raise NotImplementedError(f"{type(self).__name__}.emit_next")

    def stop(self, bint is_drain):
        """Emit nothing more: the next emit_next gives END_OF_INPUT, or STOPPED if event time does not end."""
        raise NotImplementedError(f"{type(self).__name__}.stop")

    def cancel(self):
        """End whatever the source waits in; from any thread, before close()."""


cdef class IteratorSourceOperator(SourceOperatorBase):
    """Emits the elements of ``iter(make_iterator(context))``, on the task's thread.

    With `record_class` and `watermark_class`, elements of exactly these classes are not values: the first have `value`
    and `timestamp` (None: they have none), the second are watermarks. With `copies` no function of the job gets a part
    that can change of an element that the program keeps.
    """

    def __init__(self, make_iterator, record_class=None, watermark_class=None):
        self.make_iterator = make_iterator
        self.record_class = record_class
        self.watermark_class = watermark_class

    def open(self):
        self.iterator = iter(self.make_iterator(self.context))

    def skip(self, Py_ssize_t count):
        """Take so many elements and forget them: they were emitted before a restore."""
        while self.position < count and next(self.iterator, self) is not self:
            self.position += 1

    def stop(self, bint is_drain):
        self.ending = END_OF_INPUT if is_drain else STOPPED

    def close(self):
        """A generator that is not used up runs its `finally` now, on this thread."""
        iterator, self.iterator = self.iterator, None
        close = getattr(iterator, "close", None)
        if close is not None and hasattr(iterator, "gi_frame"):
            close()

    cpdef int emit_next(self, Output output, Py_ssize_t max_records) except -1:
        cdef SourceOutput source_output = as_source_output(output)
        cdef bint knows_elements = self.record_class is not None
        cdef object iterator = self.iterator
        cdef object value
        cdef PyObject* taken
        while not self.ending:
            taken = PyIter_Next(iterator)
            if taken is NULL:
                return END_OF_INPUT
            value = <object>taken
            Py_DECREF(value)  # the variable holds it
            self.position += 1
            if knows_elements:
                self.put_element(output, value)
            else:
                if self.copies and not is_fixed(<PyObject*>value):
                    value = own_if_it_can(value)
                output.collect(value, INT64_MIN)
            max_records -= 1
            if max_records <= 0 or source_output is not None and source_output.must_yield():
                return MORE_AVAILABLE
        return self.ending

    cdef put_element(self, Output output, object element):
        cdef object value = element
        cdef int64_t timestamp = INT64_MIN
        if type(element) is self.record_class:
            value, its_timestamp = element.value, element.timestamp
            if its_timestamp is not None:
                timestamp = its_timestamp
        elif type(element) is self.watermark_class:
            output.emit_watermark(element.timestamp)
            return
        if self.copies and not is_fixed(<PyObject*>value):
            value = own_if_it_can(value)
        output.collect(value, timestamp)


cdef class HandoverSourceOperator(IteratorSourceOperator):
    """Emits what an iterator gives on a thread of its own, which a subclass starts; `position` counts what was emitted.

    What was handed over and not yet emitted is no part of a checkpoint: after a restore the iterator gives it again.
    """

    def __cinit__(self, *arguments, **options):
        self.taken = []

    def resume_at(self, Py_ssize_t position):
        """So many elements were emitted before a restore."""
        self.position = position

    cpdef int emit_next(self, Output output, Py_ssize_t max_records) except -1:
        cdef SourceOutput source_output = as_source_output(output)
        cdef list taken = self.taken
        cdef object value
        while not self.ending:
            if self.taken_count == len(taken):
                taken = self.take_more()
                if taken is None:
                    break
            value = taken[self.taken_count]
            taken[self.taken_count] = None  # it may be large
            self.taken_count += 1
            self.position += 1
            self.put_element(output, value)
            max_records -= 1
            if max_records <= 0 or source_output is not None and source_output.must_yield():
                return MORE_AVAILABLE
        if self.ending:
            return self.ending
        # One that was closed has not come to its end: its task is cancelled.
        is_at_end = self.handover.has_ended and not self.handover.is_closed
        return END_OF_INPUT if is_at_end else NOTHING_AVAILABLE

    cdef list take_more(self):
        """What was handed over since; None: nothing."""
        cdef list taken = self.handover.take()
        if taken is not None:
            self.taken = taken
            self.taken_count = 0
        return taken


cdef class SourceTurn:
    """How much a source may still emit before its task looks after other things."""

    cdef begin(self, Output output, Py_ssize_t max_records):
        self.output = as_source_output(output)
        self.left = max_records

    def end(self):
        """Let it be over after this record."""
        self.left = 0

    cdef bint may_go_on(self) except -1:
        return self.left > 0 and (self.output is None or not self.output.must_yield())


cdef class ReaderOutput:
    """What a `SourceReader` emits into; watermarks of its own go on as they are.

    Flink: ReaderOutput, NoOpTimestampsAndWatermarks' output.
    """

    def __init__(self, Output output not None, SourceTurn turn=None):
        self.output = output
        self.turn = SourceTurn() if turn is None else turn

    cdef put(self, object value, int64_t timestamp):
        self.output.collect(value, timestamp)

    cpdef collect(self, object value, object timestamp=None):
        """Emit one record; `timestamp` in milliseconds since 1970, None: it has none of its own."""
        self.turn.left -= 1
        self.count += 1
        self.put(value, INT64_MIN if timestamp is None else <int64_t>timestamp)

    def collect_from(self, iterator):
        """Emit what an iterator gives until the turn is over; returns whether it may have more."""
        cdef object value
        cdef PyObject* taken
        while True:
            taken = PyIter_Next(iterator)
            if taken is NULL:
                return False
            value = <object>taken
            Py_DECREF(value)  # the variable holds it
            self.turn.left -= 1
            self.count += 1
            self.put(value, INT64_MIN)
            if not self.turn.may_go_on():
                return True

    @property
    def is_turn_over(self):
        """Whether the reader should return now: it has emitted enough, mail waits, or outputs are full."""
        return not self.turn.may_go_on()

    cpdef emit_watermark(self, int64_t timestamp):
        """No record with a timestamp up to this one follows."""
        self.output.emit_watermark(timestamp)

    cpdef mark_idle(self):
        """Others need not wait for watermarks from here."""
        self.output.emit_watermark_status(True)

    cpdef mark_active(self):
        """Watermarks from here count again."""
        self.output.emit_watermark_status(False)

    def create_output_for_split(self, split_id):
        """Return the output of one split: this one, where no watermarks are made."""
        return self

    def release_output_for_split(self, split_id):
        """Release the output of a split that has ended, if it has one of its own."""


cdef class WatermarkingOutput(ReaderOutput):
    """Gives records timestamps and lets a generator see them; the generator's watermarks go to `watermark_output`.

    A split has one of its own, so that its watermarks are its alone. Watermarks of the reader go to `watermark_output`,
    too. Flink: SourceOutputWithWatermarks.
    """

    def __init__(
        self,
        Output output not None,
        SourceTurn turn not None,
        extract_timestamp,
        WatermarkGenerator generator not None,
        watermark_output,
    ):
        self.output = output
        self.turn = turn
        self.extract_timestamp = extract_timestamp
        self.generator = generator
        self.watermark_output = watermark_output

    cdef put(self, object value, int64_t timestamp):
        cdef object seen = value
        if self.extract_timestamp is not None:
            timestamp = called_with_two(
                self.extract_timestamp, value, MIN_AS_OBJECT if timestamp == INT64_MIN else timestamp
            )
        if self.generator.looks_at_events:
            seen = own_if_it_can(value)  # what comes behind may change it
        # The record first: a generator may emit a watermark for it that would make it late.
        self.output.collect(value, timestamp)
        self.generator.on_event(seen, timestamp, self.watermark_output)

    cpdef emit_watermark(self, int64_t timestamp):
        self.watermark_output.emit_watermark(timestamp)

    cpdef mark_idle(self):
        self.watermark_output.mark_idle()

    cpdef mark_active(self):
        self.watermark_output.mark_active()


cdef class ReaderSourceOperator(SourceOperatorBase):
    """The turn of an operator around a `SourceReader`; a subclass has everything else."""

    cdef int poll(self, ReaderOutput reader_output, Output output, Py_ssize_t max_records) except -1:
        """Let the reader emit until the turn is over or it has nothing."""
        cdef int status = MORE_AVAILABLE
        reader_output.turn.begin(output, max_records)
        poll_next = self.poll_next
        while status == MORE_AVAILABLE:
            status = poll_next(reader_output)
            if not reader_output.turn.may_go_on():
                break
        return status

    def poll_reader(self, ReaderOutput reader_output not None, Output output not None, Py_ssize_t max_records):
        """The same for a subclass in Python."""
        return self.poll(reader_output, output, max_records)
