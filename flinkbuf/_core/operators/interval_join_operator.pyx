"""Joins records of two keyed streams whose times are not too far apart.

Each record is kept in its side's buffer until no record of the other side can be close enough any more, which a timer
of event time says; with each record the other side's buffer is looked through. Flink: IntervalJoinOperator.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

from flinkbuf._core.operators.function_results cimport emit_results
from flinkbuf._core.record.plain_function cimport called
from flinkbuf._core.value.own_value cimport own_copy

cdef str LEFT = "left"
cdef str RIGHT = "right"


cdef int64_t added(int64_t timestamp, int64_t distance) noexcept:
    """The sum, or the end of time that it would lie behind."""
    if distance > 0 and timestamp > INT64_MAX - distance:
        return INT64_MAX
    if distance < 0 and timestamp < INT64_MIN - distance:
        return INT64_MIN
    return timestamp + distance


cdef class ProcessJoinContext(CallContext):
    """What a function is given beside the two records."""

    def get_left_timestamp(self):
        """Event time of the left record."""
        self.check()
        return self.left_timestamp

    def get_right_timestamp(self):
        """Event time of the right record."""
        self.check()
        return self.right_timestamp

    def get_timestamp(self):
        """Event time of the results: that of the later record."""
        self.check()
        return max(self.left_timestamp, self.right_timestamp)


cdef class IntervalJoinOperator(MultipleInputOperator):
    """Calls ``function.process_element(left, right, ctx)`` for each pair of a key that is close enough.

    Parameters
    ----------
    function : object
        With process_element.
    combined : CombinedWatermark
        Of the two inputs.
    selectors : tuple of callable
        Give the key of a record of each input.
    bounds_ms : tuple of int
        The least and the greatest of a right record's time less a left one's, both included.
    late_tags : tuple of str or None
        Side output of the late records of each input.
    descriptors : tuple of MapStateDescriptor
        Of the two buffers.
    """

    def __init__(self, function, combined, selectors, bounds_ms, late_tags, descriptors):
        super().__init__(2, combined)
        self.function = function
        self.process = function.process_element
        self.left_selector, self.right_selector = selectors
        self.lower_ms, self.upper_ms = bounds_ms
        self.left_late_tag, self.right_late_tag = late_tags
        self.left_descriptor, self.right_descriptor = descriptors
        self.join_context = ProcessJoinContext()

    def open(self):
        backend = self.context.keyed_state
        self.left_buffer = backend.get_internal_state(self.left_descriptor)
        self.right_buffer = backend.get_internal_state(self.right_descriptor)
        self.owns_records = self.context.owns_records
        self.cleanup = self.timers.service("CLEANUP_TIMER", self)
        if hasattr(self.function, "open"):
            self.function.open(self.context.runtime_context)

    def close(self):
        self.key_context.clear()
        if hasattr(self.function, "close"):
            self.function.close()

    cpdef process_input_element(self, Py_ssize_t index, object value, int64_t timestamp):
        cdef bint is_left = index == 0
        self.value_in_hand = value
        self.is_in_function = True
        self.key_context.set_key(called(self.left_selector if is_left else self.right_selector, value))
        self.is_in_function = False
        if timestamp == INT64_MIN:
            raise ValueError(
                f"a record of the {LEFT if is_left else RIGHT} stream of an interval join has no timestamp, "
                f"{value!r:.80}: call assign_timestamps_and_watermarks(...) before key_by"
            )
        if timestamp < self.cleanup.current_watermark:
            tag = self.left_late_tag if is_left else self.right_late_tag
            if tag is not None:
                self.output.collect_side(tag, value, timestamp)
        elif is_left:
            self.join_left(value, timestamp)
        else:
            self.join_right(value, timestamp)

    cdef int join_left(self, object left, int64_t timestamp) except -1:
        self.buffer(self.left_buffer, left, timestamp)
        for time, right in self.matches(
            self.right_buffer, added(timestamp, self.lower_ms), added(timestamp, self.upper_ms)
        ):
            self.call_function(own_copy(left), right, timestamp, time)
        self.cleanup.register_event_time_timer(LEFT, added(timestamp, max(self.upper_ms, 0)))
        return 0

    cdef int join_right(self, object right, int64_t timestamp) except -1:
        self.buffer(self.right_buffer, right, timestamp)
        for time, left in self.matches(
            self.left_buffer, added(timestamp, -self.upper_ms), added(timestamp, -self.lower_ms)
        ):
            self.call_function(left, own_copy(right), time, timestamp)
        self.cleanup.register_event_time_timer(RIGHT, added(timestamp, max(-self.lower_ms, 0)))
        return 0

    cdef list matches(self, KeyedMapState other, int64_t first, int64_t last):
        """What the other side has of these times, as pairs of time and record, the earliest first."""
        entries = other.table.get(other.key_context.token)
        if entries is None:
            return []
        times = [time for time in <dict>entries if first <= time <= last]
        times.sort()
        return [(time, own_copy(value)) for time in times for value in (<dict>entries)[time]]

    cdef int call_function(self, object left, object right, int64_t left_time, int64_t right_time) except -1:
        cdef ProcessJoinContext context = self.join_context
        context.left_timestamp = left_time
        context.right_timestamp = right_time
        context.is_valid = True
        self.is_in_function = True
        emit_results(self, self.process(left, right, context), max(left_time, right_time), "process_element()")
        context.is_valid = False
        return 0

    cdef int buffer(self, KeyedMapState own, object value, int64_t timestamp) except -1:
        """Keep a record; a snapshot that is being written may hold the list that was there."""
        cdef dict entries = own.own_map()
        if not self.owns_records:
            value = own_copy(value)
        before = entries.get(timestamp)
        entries[timestamp] = [value] if before is None else [*before, value]
        return 0

    def on_event_time(self, int64_t timestamp, key, namespace):
        """No record of the other side can join those of a time any more; the key is set."""
        if namespace == LEFT:
            self.left_buffer.remove(added(timestamp, -max(self.upper_ms, 0)))
        else:
            self.right_buffer.remove(added(timestamp, min(self.lower_ms, 0)))

    def on_processing_time(self, int64_t timestamp, key, namespace):
        """There are no such timers."""
