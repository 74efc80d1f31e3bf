"""What makes watermarks of the timestamps that go by. Each decides only; time comes from a clock it was given.

Flink: WatermarkGenerator, WatermarkOutput and the generators of its WatermarkStrategy. In Cython because a generator
sees each record: the operator calls those of this module without Python in between.
"""

from libc.stdint cimport INT64_MIN, int64_t


cdef class WatermarkOutput:
    """Where a generator puts what it makes."""

    cpdef emit_watermark(self, int64_t timestamp):
        """No record with a timestamp up to this one follows; ends idleness. One that is no higher is dropped."""
        raise NotImplementedError(f"{type(self).__name__}.emit_watermark")

    cpdef mark_idle(self):
        """Tell the next operators not to wait for watermarks of this stream."""
        raise NotImplementedError(f"{type(self).__name__}.mark_idle")

    cpdef mark_active(self):
        """Tell the next operators to wait for watermarks of this stream again."""
        raise NotImplementedError(f"{type(self).__name__}.mark_active")


cdef class WatermarkGenerator:
    """Sees each record and its timestamp, and is asked for a watermark from time to time. To derive from."""

    def __cinit__(self, *arguments, **options):
        self.looks_at_events = type(self) not in (NoWatermarksGenerator, BoundedOutOfOrdernessWatermarks)

    cpdef on_event(self, object event, int64_t event_timestamp, object output):
        """A record went by; a watermark may be put out at once."""

    cpdef on_periodic_emit(self, object output):
        """The interval between watermarks (pipeline.auto-watermark-interval) is over."""


cdef class NoWatermarksGenerator(WatermarkGenerator):
    """Makes none: the program uses processing time only."""


cdef class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """The highest timestamp so far, less what records may come out of order, less one."""

    def __init__(self, int64_t max_out_of_orderness_ms):
        if max_out_of_orderness_ms < 0:
            raise ValueError(f"maxOutOfOrderness cannot be negative, got {max_out_of_orderness_ms} ms")
        self.max_out_of_orderness_ms = max_out_of_orderness_ms
        # So that the first watermark, before any record, is INT64_MIN and does not wrap around.
        self.max_timestamp = INT64_MIN + max_out_of_orderness_ms + 1

    cpdef on_event(self, object event, int64_t event_timestamp, object output):
        if event_timestamp > self.max_timestamp:
            self.max_timestamp = event_timestamp

    cpdef on_periodic_emit(self, object output):
        output.emit_watermark(self.max_timestamp - self.max_out_of_orderness_ms - 1)


cdef class WatermarksWithIdleness(WatermarkGenerator):
    """Marks the output idle when no record came for a while, and active with the next one.

    The time runs from the first periodic look that found no record since the look before, so an output is idle at most
    the timeout and three intervals after its last record, and never before the timeout.
    """

    def __init__(self, WatermarkGenerator generator not None, int64_t idle_timeout_ms, clock):
        if idle_timeout_ms <= 0:
            raise ValueError(f"idleTimeout must be greater than zero, got {idle_timeout_ms} ms")
        self.generator = generator
        self.looks_at_events = generator.looks_at_events
        self.idle_timeout_ms = idle_timeout_ms
        self.clock = clock
        self.idle_since = INT64_MIN

    cpdef on_event(self, object event, int64_t event_timestamp, object output):
        self.had_event = True
        if self.is_idle:
            self.is_idle = False
            output.mark_active()
        self.generator.on_event(event, event_timestamp, output)

    cpdef on_periodic_emit(self, object output):
        if not self.is_over():
            self.generator.on_periodic_emit(output)
        elif not self.is_idle:
            self.is_idle = True
            output.mark_idle()

    cdef bint is_over(self) except -1:
        """Whether no record came for longer than the timeout."""
        if self.had_event:
            self.had_event = False
            self.idle_since = INT64_MIN
            return False
        cdef int64_t now = self.clock.now_ms()
        if self.idle_since == INT64_MIN:
            self.idle_since = now
        return now - self.idle_since > self.idle_timeout_ms
