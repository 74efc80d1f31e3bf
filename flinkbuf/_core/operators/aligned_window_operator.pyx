"""`WindowOperator` for tumbling and sliding windows of time that fire at their ends, as most programs have them.

All keys share the windows, the trigger keeps nothing, and what it says is known beforehand: so no assigner and no
trigger is asked, timers are set at the first record of a window and key only, and a record costs a look into a dict
and the call of the user's function. State and timers are those of `WindowOperator`: a snapshot of one is the other's.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

from flinkbuf._core.operators.incremental_window_operator cimport IncrementalWindowOperator
from flinkbuf._core.state.state_table cimport StateTable
from flinkbuf._core.operators.time_window cimport TimeWindow, time_window

cdef enum:
    MANY_PANES = 4096  # of windows in use; made anew when there are more, as they are a cache only

cdef object END_OF_EVENT_TIME = INT64_MAX  # the last watermark of a bounded input


cdef class Pane:
    """A window, and the times that its timers are set for."""


cdef (int64_t, int64_t) bounds_of_time(object assigner):
    """Of times whose windows, and the step before the first of them, fit into 64 bits; so do those of their pane."""
    cdef object size = assigner.size_ms, slide = assigner.slide_ms  # ints of Python, which have no end
    return min(size + 2 * slide - INT64_MAX, 0), max(INT64_MAX - max(size, slide), 0)


cdef class AlignedWindowOperator(IncrementalWindowOperator):
    """Tumbling and sliding windows with their default trigger, without an evictor."""

    def __init__(self, operation):
        IncrementalWindowOperator.__init__(self, operation)
        self.size_ms = self.assigner.size_ms
        self.slide_ms = self.assigner.slide_ms
        self.offset_ms = self.assigner.offset_ms % self.slide_ms
        if self.offset_ms < 0:
            self.offset_ms += self.slide_ms
        self.min_time, self.max_time = bounds_of_time(self.assigner)
        self.fires_at_end = operation.fires_at_end
        self.panes = {}

    cpdef process_element(self, object value, int64_t timestamp):
        self.take_key(value)
        if self.add_at(value, self.time_of(value, timestamp)):
            self.take_late(value, timestamp)

    cdef bint add_at(self, object value, int64_t time) except -1:
        """Put a value of the current key into the windows of a time; returns whether none of them took it."""
        cdef int64_t start, watermark = INT64_MIN
        cdef bint is_skipped = True
        cdef Pane pane = None
        if self.is_event_time:
            watermark = self.timer_service.current_watermark
        start = (time - self.offset_ms) % self.slide_ms
        start = time - (start if start >= 0 else start + self.slide_ms)
        while start > time - self.size_ms:
            pane = self.pane_at(start) if pane is None else self.pane_before(pane, start)
            if pane.cleanup > watermark or not self.is_event_time:
                is_skipped = False
                self.add_to_pane(pane, value, watermark)
            start -= self.slide_ms
        return is_skipped

    cdef int64_t time_of(self, object value, int64_t timestamp) except? -1:
        """The time that says which windows a record belongs to."""
        if not self.is_event_time:
            return self.timer_service.current_processing_time()
        if timestamp == INT64_MIN:
            self.assign(value, timestamp)  # which says what is missing
        if timestamp > self.max_time or timestamp < self.min_time:
            raise OverflowError(f"the window of a record with timestamp {timestamp} does not fit into 64 bits")
        return timestamp

    cdef Pane pane_at(self, int64_t start):
        """The latest one of a record, which is mostly that of the record before, too."""
        if self.recent is None or self.recent.window.start != start:
            self.recent = self.found_pane(start)
        return self.recent

    cdef Pane pane_before(self, Pane pane, int64_t start):
        """The next one of a sliding record; panes know it, so that only the first record looks for it."""
        if pane.earlier is None:
            pane.earlier = self.found_pane(start)
        return pane.earlier

    cdef Pane found_pane(self, int64_t start):
        cdef Pane pane = self.panes.get(start)
        if pane is None:
            if len(self.panes) >= MANY_PANES:
                for start_of_other in list(self.panes):
                    self.forget_pane(start_of_other)
            pane = Pane.__new__(Pane)
            pane.window = time_window(start, start + self.size_ms)
            pane.last = pane.window.end - 1
            pane.cleanup = self.cleanup_time(pane.window)
            pane.last_as_object, pane.cleanup_as_object = pane.last, pane.cleanup
            self.panes[start] = pane
        return pane

    cdef int forget_pane(self, int64_t start) except -1:
        """Panes that are forgotten hold no others, or each would hold all before it."""
        cdef Pane pane = self.panes.pop(start, None)
        if pane is not None:
            pane.earlier = None
        return 0

    cdef int add_to_pane(self, Pane pane, object value, int64_t watermark) except -1:
        cdef StateTable table = self.contents.table
        cdef object token = self.key_context.token
        table.set_namespace(pane.window)
        before = table.own(token)
        if before is None or self.may_lack_timers:
            self.set_timers(pane, watermark)
        before = self.add_contents(before, value)
        if pane.last <= watermark and before is not None:
            self.emit_value(pane.window, before, False)  # late, but not too late: the window fires at each such record
        return 0

    cdef int set_timers(self, Pane pane, int64_t watermark) except -1:
        """The first record of a window and key: it is evaluated at its end, and cleared when it is over."""
        if not self.is_event_time:
            self.timer_service.register_processing_time_timer(pane.window, pane.last_as_object)
            if self.fires_at_end:
                self.timer_service.register_event_time_timer(pane.window, END_OF_EVENT_TIME)
            return 0
        if pane.last > watermark:
            self.timer_service.register_event_time_timer(pane.window, pane.last_as_object)
        if pane.cleanup != pane.last and pane.cleanup != INT64_MAX:
            self.timer_service.register_event_time_timer(pane.window, pane.cleanup_as_object)
        return 0

    def on_event_time(self, timestamp, key, window):
        if self.is_event_time:
            self.end_or_fire(timestamp, window)
        elif self.fires_at_end:  # nothing else is set in event time
            self.fire(window, True)
            self.contents.table.set_namespace(window)
            self.contents.table.remove(self.key_context.token)

    def on_processing_time(self, timestamp, key, window):
        if not self.is_event_time:
            self.end_or_fire(timestamp, window)
            if self.fires_at_end:
                self.timer_service.delete_event_time_timer(window, END_OF_EVENT_TIME)

    cdef int end_or_fire(self, int64_t timestamp, TimeWindow window) except -1:
        cdef bint is_over = timestamp == self.cleanup_time(window)
        if timestamp == window.end - 1:
            self.fire(window, is_over)
        if is_over:
            self.contents.table.set_namespace(window)
            self.contents.table.remove(self.key_context.token)
            self.call_clear(window)
            self.forget_pane(window.start)
        return 0

    cdef int fire(self, TimeWindow window, bint is_over) except -1:
        """Evaluate the window of the current key."""
        cdef StateTable table = self.contents.table
        self.value_in_hand = self.in_hand
        self.in_hand.key, self.in_hand.window = self.key_context.key, window
        table.set_namespace(window)
        value = table.own(self.key_context.token)
        if value is not None:
            self.emit_value(window, value, is_over)
        return 0
