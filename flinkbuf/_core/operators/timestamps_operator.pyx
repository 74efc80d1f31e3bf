"""Gives records their event time, and the stream its watermarks.

Flink: TimestampsAndWatermarksOperator.
"""

from operator import index

from flinkbuf._core.record.plain_function cimport called_with_two
from flinkbuf._core.record.plain_function import quickened

from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

from flinkbuf._core.operators.stream_operator cimport Output, StreamOperator
from flinkbuf._core.operators.watermark_generator cimport NoWatermarksGenerator, WatermarkOutput
from flinkbuf._core.value.own_value cimport own_if_it_can

cdef object MIN_AS_OBJECT = INT64_MIN  # what an assigner is given for a record without a timestamp


cdef class WatermarkEmitter(WatermarkOutput):
    """Lets watermarks through that increase, and changes of the status."""

    def __init__(self, Output output not None):
        self.output = output
        self.last_watermark = INT64_MIN

    cpdef emit_watermark(self, int64_t timestamp):
        if timestamp > self.last_watermark:
            self.last_watermark = timestamp
            self.mark_active()
            self.output.emit_watermark(timestamp)

    cpdef mark_idle(self):
        if not self.is_idle:
            self.is_idle = True
            self.output.emit_watermark_status(True)

    cpdef mark_active(self):
        if self.is_idle:
            self.is_idle = False
            self.output.emit_watermark_status(False)


cdef class TimestampsAndWatermarksOperator(StreamOperator):
    """What a `WatermarkStrategy` says, done to each record. Watermarks and statuses from its input end here.

    Only the watermark at the end of event time goes through, or all that waits for it would wait for ever. In batch
    execution there is no other: records get their timestamps, and the strategy is not asked for watermarks.
    """

    def __init__(self, strategy):
        self.strategy = strategy

    def open(self):
        settings = self.context.settings
        assigner = self.strategy.create_timestamp_assigner()
        self.extract_timestamp = None if assigner is None else assigner.extract_timestamp
        self.extract = None if assigner is None else quickened(assigner.extract_timestamp, 2)
        if settings.is_batch:
            self.generator = NoWatermarksGenerator()
        else:
            self.generator = self.strategy.create_watermark_generator(self.context.clock)
        self.is_users_generator = not type(self.generator).__module__.startswith("flinkbuf._core.")
        self.emitter = WatermarkEmitter(self.output)
        self.interval_ms = 0 if settings.is_batch else settings.auto_watermark_interval_ms
        self.register_timer()

    def register_timer(self):
        if self.interval_ms > 0:
            service = self.context.processing_time
            self.timer = service.register_timer(service.now_ms() + self.interval_ms, self.on_periodic_emit)

    def on_periodic_emit(self, timestamp_ms):
        """The interval between watermarks is over."""
        self.call_generator()
        self.register_timer()

    def call_generator(self):
        self.value_in_hand = None
        self.is_in_function = self.is_users_generator
        self.generator.on_periodic_emit(self.emitter)
        self.is_in_function = False

    cpdef process_element(self, object value, int64_t timestamp):
        cdef object seen = value
        self.value_in_hand = value
        if self.extract is not None:
            self.is_in_function = True
            timestamp = self.timestamp_of(value, timestamp)
            self.is_in_function = False
        if self.generator.looks_at_events:
            seen = own_if_it_can(value)  # what comes behind may change it
        self.output.collect(value, timestamp)
        self.is_in_function = self.is_users_generator
        self.generator.on_event(seen, timestamp, self.emitter)
        self.is_in_function = False

    cdef int64_t timestamp_of(self, object value, int64_t previous) except? -1:
        cdef object given = called_with_two(
            self.extract, value, MIN_AS_OBJECT if previous == INT64_MIN else previous
        )
        try:
            return given if PyLong_CheckExact(given) else index(given)
        except (TypeError, OverflowError) as error:
            raise type(error)(
                f"a timestamp is an int, milliseconds since 1970 in 64 bits; "
                f"{self.extract_timestamp.__qualname__} gave {type(given).__name__} {given!r}"
            ) from None

    cpdef process_watermark(self, int64_t timestamp):
        if timestamp == INT64_MAX:
            self.emitter.emit_watermark(INT64_MAX)

    cpdef process_watermark_status(self, bint is_idle):
        """What the input's channels do says nothing of the watermarks that are made here."""

    def finish(self):
        self.call_generator()

    def close(self):
        if self.timer is not None:
            self.timer.cancel()
