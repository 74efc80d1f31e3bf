"""The loop that feeds a chain: elements from a gate, or what a source operator makes, for one turn of the mailbox loop.

A turn ends when mail waits, an output is full, or a millisecond is over; it never waits. Watermarks and statuses go
through a valve that knows all channels of the input, events to an object that decides what they mean. Flink:
AbstractStreamTaskNetworkInput.emitNext, StreamTaskSourceInput.
"""

cimport cython
from libc.stdint cimport int64_t

from flinkbuf._core.task.input_status cimport MORE_AVAILABLE, NOTHING_AVAILABLE, END_OF_INPUT
from flinkbuf._core.operators.iterator_handover cimport fb_coarse_clock_ns
from flinkbuf._core.task.operator_chain cimport ChainingOutput, OperatorCounters
from flinkbuf._core.value.python_object cimport FB_IDENTITY
from flinkbuf._core.flow.record_reader cimport (
    EVENT, FINISHED, NOTHING, RECORD, STATUS, WATERMARK, RecordReader, stream_element,
)
from flinkbuf._core.task.record_writer_output cimport TaskOutputs
from flinkbuf._core.operators.source_operator cimport SourceOutput
from flinkbuf._core.operators.stream_operator cimport Input, Output
from flinkbuf._core.task.task_mailbox cimport TaskMailbox

cdef enum:
    TURN_NS = 1_000_000
    LOOK_NS = 20_000_000    # after so long a source comes back, however few its records are; a fast one
    RECORDS_A_LOOK = 4      # reads the clock once in so many


@cython.final
cdef class TaskTurn:
    """Whether a turn may go on: no mail waits, the outputs have room, and `length_ns` are not over."""

    def __init__(self, TaskMailbox mailbox not None, TaskOutputs outputs not None, int64_t length_ns=TURN_NS):
        self.mailbox = mailbox
        self.outputs = outputs
        self.length_ns = length_ns


@cython.final
cdef class TaskSourceOutput(SourceOutput):
    """The chain's output, as `emit_next` of a source operator is given it."""

    def __init__(self, Output target not None, TaskTurn turn not None):
        self.last_look_ns = fb_coarse_clock_ns()
        self.target = target
        self.turn = turn
        if isinstance(target, ChainingOutput) and (<ChainingOutput>target).tag is None:
            self.chained = target

    cpdef collect(self, object value, int64_t timestamp):
        if self.chained is not None:
            self.chained.give(value, timestamp)  # in line
        else:
            self.target.collect(value, timestamp)

    cpdef collect_side(self, str tag_id, object value, int64_t timestamp):
        self.target.collect_side(tag_id, value, timestamp)

    cpdef emit_watermark(self, int64_t timestamp):
        self.target.emit_watermark(timestamp)

    cpdef emit_watermark_status(self, bint is_idle):
        self.target.emit_watermark_status(is_idle)

    cpdef emit_latency_marker(self, object marker):
        self.target.emit_latency_marker(marker)

    cpdef bint must_yield(self) except -1:
        """Whether mail waits, an output is full or timers may be due: `emit_next` should return before the next record.

        A source that waits for each of its records would otherwise hold back all timers for as many as a turn has.
        """
        cdef int64_t now_ns
        self.until_look -= 1
        if self.until_look <= 0:
            now_ns = fb_coarse_clock_ns()
            if now_ns - self.last_look_ns >= LOOK_NS:
                self.last_look_ns = now_ns
                self.until_look = 1  # it may be slow: look after the very next one
                return True
            self.until_look = RECORDS_A_LOOK
        return self.turn.must_end()


@cython.final
cdef class NetworkInput:
    """One logical input of the head operator, read from a gate.

    `reader` gives events; `make_valve(channel_count, output)` makes the input's `StatusWatermarkValve`, which calls
    `emit_watermark` and `emit_watermark_status` here; `events.process_event(channel, event)` gives a status,
    `events.process_marker(channel, marker, target, valve)` does what a rare element asks for.
    """

    def __init__(self, RecordReader reader not None, Input target not None, TaskTurn turn not None,
                 OperatorCounters counters not None, OperatorCounters task_counters not None, make_valve, events):
        self.reader = reader
        self.target = target
        self.turn = turn
        self.counters = counters
        self.task_counters = task_counters
        self.valve = make_valve(reader.gate.channel_count, self)
        self.events = events

    cpdef int emit_next(self) except -1:
        """Process elements for one turn; returns an `InputStatus`."""
        cdef stream_element element
        cdef int kind
        cdef int status
        self.turn.begin()
        while True:
            kind = self.reader.poll_element(&element)
            if kind == RECORD:
                value = FB_IDENTITY(element.value)
                self.counters.records_in += 1
                self.task_counters.records_in += 1
                self.target.process_element(value, element.timestamp)
            else:
                status = self.process_other(kind, &element)
                if status != MORE_AVAILABLE or kind == EVENT:
                    return status
            if self.turn.is_over():
                return MORE_AVAILABLE

    cpdef bint process_priority(self) except -1:
        """Take events that overtake records, and nothing else; whether there were any."""
        cdef stream_element element
        cdef bint is_any = False
        while self.reader.poll_priority_element(&element) == EVENT:
            self.events.process_event(element.channel, FB_IDENTITY(element.value))
            is_any = True
        return is_any

    cdef int process_other(self, int kind, stream_element* element) except -1:
        """What is no record; an `InputStatus`."""
        if kind == NOTHING:
            return NOTHING_AVAILABLE
        if kind == FINISHED:
            return END_OF_INPUT
        if kind == WATERMARK:
            self.valve.input_watermark(element.timestamp, element.channel)
        elif kind == STATUS:
            self.valve.input_watermark_status(element.timestamp != 0, element.channel)
        else:
            value = FB_IDENTITY(element.value)
            if kind == EVENT:
                return self.events.process_event(element.channel, value)
            self.events.process_marker(element.channel, value, self.target, self.valve)
        return MORE_AVAILABLE

    def emit_watermark(self, int64_t timestamp):
        """The valve's: event time of all channels has come so far."""
        self.counters.input_watermark = self.task_counters.input_watermark = timestamp
        self.target.process_watermark(timestamp)

    def emit_watermark_status(self, bint is_idle):
        """The valve's: whether any channel takes part in event time."""
        self.target.process_watermark_status(is_idle)
