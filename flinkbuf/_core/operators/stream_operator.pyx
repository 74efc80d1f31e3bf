"""What stands in a chain: outputs that take records, inputs that are given them, operators that are both's owners.

A chain is walked in calls: an operator's process_element calls output.collect, which is the next operator's
process_element, or writes to a partition. Values go by reference. Everything runs on the task's thread. Flink: Output,
Input, AbstractStreamOperator, AbstractStreamOperatorV2, MultipleInputStreamOperator.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

from flinkbuf._core.value.conversion cimport convert_value

NO_TIMESTAMP = INT64_MIN
MAX_WATERMARK = INT64_MAX


cdef class Output:
    """Where an operator puts what it makes. Each call may run the whole rest of the chain."""

    cpdef collect(self, object value, int64_t timestamp):
        """A record; `timestamp` INT64_MIN: it has none."""
        raise NotImplementedError(f"{type(self).__name__}.collect")

    cpdef collect_side(self, str tag_id, object value, int64_t timestamp):
        """A record of a side output; nobody may listen."""
        raise NotImplementedError(f"{type(self).__name__}.collect_side")

    cpdef emit_watermark(self, int64_t timestamp):
        """No record with a timestamp up to this one follows."""
        raise NotImplementedError(f"{type(self).__name__}.emit_watermark")

    cpdef emit_watermark_status(self, bint is_idle):
        """Whether those who come after shall wait for watermarks from here."""
        raise NotImplementedError(f"{type(self).__name__}.emit_watermark_status")

    cpdef emit_latency_marker(self, object marker):
        """To one random channel of each edge."""
        raise NotImplementedError(f"{type(self).__name__}.emit_latency_marker")


cdef class Input:
    """One logical input of an operator."""

    cpdef process_element(self, object value, int64_t timestamp):
        """A record; `timestamp` INT64_MIN: it has none."""
        raise NotImplementedError(f"{type(self).__name__}.process_element")

    cpdef process_watermark(self, int64_t timestamp):
        """Event time has come to `timestamp`."""
        raise NotImplementedError(f"{type(self).__name__}.process_watermark")

    cpdef process_watermark_status(self, bint is_idle):
        """Whether this input takes part in event time."""
        raise NotImplementedError(f"{type(self).__name__}.process_watermark_status")

    cpdef process_latency_marker(self, object marker):
        """Take a marker that measures how long records take to this operator."""
        raise NotImplementedError(f"{type(self).__name__}.process_latency_marker")


cdef class ConvertingOutput(Output):
    """Gives on each record as its declared type has it: an int as DOUBLE is a float, a tuple as ROW_NAMED a Row.

    A value that the type refuses is the operator's error, found with the record that it was working on.
    """

    def __init__(self, Output output not None, StreamOperator operator not None, TypeCodec codec not None):
        self.output = output
        self.operator = operator
        self.codec = codec

    cpdef collect(self, object value, int64_t timestamp):
        cdef bint was_in_function = self.operator.is_in_function
        self.operator.is_in_function = True
        value = convert_value(self.codec, value)
        self.operator.is_in_function = was_in_function
        self.output.collect(value, timestamp)

    cpdef collect_side(self, str tag_id, object value, int64_t timestamp):
        self.output.collect_side(tag_id, value, timestamp)

    cpdef emit_watermark(self, int64_t timestamp):
        self.output.emit_watermark(timestamp)

    cpdef emit_watermark_status(self, bint is_idle):
        self.output.emit_watermark_status(is_idle)

    cpdef emit_latency_marker(self, object marker):
        self.output.emit_latency_marker(marker)


cdef class StreamOperator(Input):
    """An operator with one input, which it is itself; or a source, whose input nobody calls.

    Order of calls: setup, initialize_state, open; then elements, snapshots and notifications; then, at a clean end,
    end_input (once an input) and finish; close always, once. A snapshot is taken between two elements.
    """

    def declare_output(self, codec):
        """Before setup: its records have a type, whose codec converts each of them."""
        self.output_codec = codec

    def setup(self, context, Output output not None):
        """The surroundings: clock, state, timers, mailbox come from outside (`OperatorContext`)."""
        self.context = context
        self.output = output if self.output_codec is None else ConvertingOutput(output, self, self.output_codec)
        self.key_context = context.key_context

    @property
    def inputs(self):
        """Its logical inputs, in order."""
        return [self]

    def initialize_state(self, snapshot):
        """Get its state: empty (None), or as an `OperatorSnapshot` left it."""
        self.timers = self.context.timers
        self.context.initialize_state(snapshot)

    def open(self):
        """All operators behind this one are open: it may emit."""

    def end_input(self, int input_number):
        """Nothing more comes from this input (1, 2, ...), but the job goes on to its end: what waited for more
        records is done now."""

    def finish(self):
        """All inputs have ended: emit what is still held back."""

    def close(self):
        """Free what open() took. Called once, also after a failure."""

    def prepare_snapshot_pre_barrier(self, int64_t checkpoint_id):
        """Before the barrier goes out: what must be downstream before it is emitted here."""

    def snapshot_state(self, int64_t checkpoint_id):
        """Its state as an `OperatorSnapshot`: references are taken here, bytes are made later."""
        return self.context.snapshot_state(checkpoint_id)

    def notify_checkpoint_complete(self, int64_t checkpoint_id):
        """The checkpoint counts, everywhere."""

    def notify_checkpoint_aborted(self, int64_t checkpoint_id):
        """The checkpoint will never count."""

    def note_failure(self, value):
        """The user's function has failed for `value`; its error is on its way up."""
        self.value_in_hand = value
        self.is_in_function = True

    cpdef emit_watermark(self, int64_t timestamp):
        """Timers first, then those who come after."""
        if self.timers is not None:
            self.timers.advance_watermark(timestamp)
        self.output.emit_watermark(timestamp)

    cpdef process_watermark(self, int64_t timestamp):
        self.emit_watermark(timestamp)

    cpdef process_watermark_status(self, bint is_idle):
        self.output.emit_watermark_status(is_idle)

    cpdef process_latency_marker(self, object marker):
        self.context.note_latency(marker)
        self.output.emit_latency_marker(marker)


cdef class MultipleInputOperator(StreamOperator):
    """An operator with several logical inputs; event time is the lowest of those that are not idle."""

    def __init__(self, Py_ssize_t input_count, combined):
        self.inputs = [OperatorInput(self, index) for index in range(input_count)]
        self.combined = combined

    cpdef process_input_element(self, Py_ssize_t index, object value, int64_t timestamp):
        """A record of the input `index`, from 0."""
        raise NotImplementedError(f"{type(self).__name__}.process_input_element")

    def process_input_watermark(self, Py_ssize_t index, int64_t timestamp):
        """Event time of one input has come to `timestamp`."""
        if self.combined.update_watermark(index, timestamp):
            self.emit_watermark(self.combined.watermark)

    def process_input_watermark_status(self, Py_ssize_t index, bint is_idle):
        """One input takes part in event time or not; the others may go on without it."""
        was_idle = self.combined.is_idle
        has_advanced = self.combined.update_status(index, is_idle)
        if has_advanced:
            self.emit_watermark(self.combined.watermark)
        if self.combined.is_idle != was_idle:
            self.output.emit_watermark_status(self.combined.is_idle)


cdef class OperatorInput(Input):
    """One of several inputs of an operator."""

    def __init__(self, MultipleInputOperator operator not None, Py_ssize_t index):
        self.operator = operator
        self.index = index

    cpdef process_element(self, object value, int64_t timestamp):
        self.operator.process_input_element(self.index, value, timestamp)

    cpdef process_watermark(self, int64_t timestamp):
        self.operator.process_input_watermark(self.index, timestamp)

    cpdef process_watermark_status(self, bint is_idle):
        self.operator.process_input_watermark_status(self.index, is_idle)

    cpdef process_latency_marker(self, object marker):
        self.operator.process_latency_marker(marker)
