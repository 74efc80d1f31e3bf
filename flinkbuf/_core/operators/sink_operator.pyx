"""Operators that end a chain: they hand each record to a function or to a `SinkWriter` of the user.

Flink: StreamSink, SinkWriterOperator.
"""

from libc.stdint cimport INT64_MIN, int64_t

from flinkbuf._core.operators.function_operator cimport FunctionOperator
from flinkbuf._core.operators.stream_operator cimport StreamOperator


cdef class SinkContext:
    """What a sink may ask about the record in hand. One object for all records: ask at once, do not keep it.

    Flink: SinkFunction.Context, SinkWriter.Context.

    Attributes
    ----------
    timestamps : numpy.ndarray of int64 or None
        Of the rows of the batch that ``SinkWriter.write_batch`` is given, in milliseconds since 1970, -2**63 where a
        row has none. None: no row has one.
    """

    def __init__(self, processing_time):
        self.processing_time = processing_time
        self.record_timestamp = self.watermark = INT64_MIN

    def timestamp(self):
        """The record's event time in milliseconds since 1970; None: it has none."""
        return None if self.record_timestamp == INT64_MIN else self.record_timestamp

    def current_watermark(self):
        """How far event time is; -2**63 before the first watermark."""
        return self.watermark

    def current_processing_time(self):
        """The clock's milliseconds since 1970."""
        return self.processing_time.now_ms()


cdef class SinkFunctionOperator(FunctionOperator):
    """Calls ``function(value)`` for each record, or ``function(value, context)``; nothing comes after it."""

    def __init__(self, function, lifecycle=None, bint takes_context=False):
        self.function = function
        self.lifecycle = lifecycle
        self.takes_context = takes_context

    def open(self):
        self.sink_context = SinkContext(self.context.processing_time)
        super().open()

    cpdef process_element(self, object value, int64_t timestamp):
        if self.takes_context:
            self.sink_context.record_timestamp = timestamp
            self.value_in_hand = value
            self.is_in_function = True
            self.function(value, self.sink_context)
            self.is_in_function = False
        else:
            self.call(value)

    cpdef process_watermark(self, int64_t timestamp):
        self.sink_context.watermark = timestamp
        self.emit_watermark(timestamp)

    cpdef process_latency_marker(self, object marker):
        self.context.note_latency(marker)


cdef class SinkWriterOperatorBase(StreamOperator):
    """Calls ``writer.write(value, context)`` for each record; when to flush and to commit is a subclass's matter."""

    def use_writer(self, writer, bint takes_batches=False):
        """Give it the writer: before the first record, in open(). One of a column stream takes batches."""
        self.write = writer.write_batch if takes_batches else writer.write
        self.sink_context = SinkContext(self.context.processing_time)

    cpdef process_element(self, object value, int64_t timestamp):
        self.sink_context.record_timestamp = timestamp
        self.value_in_hand = value
        self.is_in_function = True
        self.write(value, self.sink_context)
        self.is_in_function = False

    cpdef process_watermark(self, int64_t timestamp):
        self.sink_context.watermark = timestamp
        self.emit_watermark(timestamp)

    cpdef process_latency_marker(self, object marker):
        self.context.note_latency(marker)
