"""Puts records into windows, and makes results of the windows that a trigger fires.

The contents of a window are state of its key under the window as namespace. `AlignedWindowOperator` does the same,
faster, for the windows that most programs have. Flink: WindowOperator, EvictingWindowOperator; PyFlink:
fn_execution/datastream/window/window_operator.py.
"""

from libc.stdint cimport INT64_MAX, int64_t

from flinkbuf._core.operators.function_results cimport emit_results
from flinkbuf._core.record.plain_function cimport called
from flinkbuf._core.value.own_value cimport own_copy
from flinkbuf._core.operators.time_window cimport TimeWindow


cdef class WindowInHand:
    """What stands in an error where else the record stands."""

    def __repr__(self):
        return f"{self.window!r} of key {self.key!r}"


cdef class WindowOperator(StreamOperator):
    """Windows of any assigner, with any trigger. `operation` is a `WindowOperation`."""

    def __init__(self, operation):
        self.operation = operation
        self.selector = operation.key_selector
        self.assigner = operation.assigner
        self.trigger = operation.trigger
        self.evictor = operation.evictor
        self.call = operation.call
        self.clear = operation.clear
        self.call_name = operation.call_name
        self.is_process = operation.is_process
        self.is_all = operation.is_all
        self.is_list = operation.is_list
        self.proceed = operation.proceed
        self.is_event_time = self.assigner.is_event_time()
        self.is_merging = operation.is_merging
        self.lateness_ms = operation.allowed_lateness_ms
        self.late_tag_id = operation.late_tag_id
        self.in_hand = WindowInHand()

    def open(self):
        runtime_context, backend = self.context.runtime_context, self.context.keyed_state
        self.timer_service = self.timers.service("window-timers", self)
        self.contents = backend.get_internal_state(self.operation.contents_descriptor)
        if self.context.owns_records and self.operation.gives_one_window:  # else several would hold a record
            self.contents.own_given()
        if self.is_merging:
            self.window_sets = backend.get_internal_state(self.operation.window_sets_descriptor)
        self.assigner_context = WindowAssignerContext(self.timer_service, runtime_context)
        self.trigger_context = WindowTriggerContext(self.timer_service, runtime_context, backend)
        store = WindowStateStore(backend, self.is_merging)
        self.function_context = WindowContext(self.timer_service, runtime_context, store)
        self.late_counter = self.operation.register_late_counter(self.context.metrics)
        if self.operation.lifecycle is not None:
            self.operation.lifecycle.open(runtime_context)

    def close(self):
        self.key_context.clear()
        if self.operation.lifecycle is not None:
            self.operation.lifecycle.close()

    cpdef process_element(self, object value, int64_t timestamp):
        self.take_key(value)
        windows = self.assign(value, timestamp)
        if self.is_merging:
            is_skipped = self.add_to_merging(value, timestamp, windows)
        else:
            is_skipped = self.add_to_windows(value, timestamp, windows)
        if is_skipped:
            self.take_late(value, timestamp)

    cdef object take_key(self, object value):
        """The record is the one at hand, and its key the current one."""
        self.value_in_hand = value
        self.is_in_function = True
        key = 0 if self.selector is None else called(self.selector, value)
        self.key_context.set_key(key)
        self.is_in_function = False
        return key

    cdef object assign(self, object value, int64_t timestamp):
        self.is_in_function = True
        windows = self.assigner.assign_windows(value, timestamp, self.assigner_context)
        try:
            windows = own_copy(tuple(windows))  # an assigner of the user's may go on holding and changing them
        except TypeError:
            if hasattr(windows, "__iter__"):
                raise
            raise TypeError(
                f"{type(self.assigner).__name__}.assign_windows() must return a collection of windows; it returned "
                f"{type(windows).__name__}, {windows!r:.80}"
            ) from None
        self.is_in_function = False
        return windows

    cdef bint add_to_windows(self, object value, int64_t timestamp, object windows) except -1:
        """Returns whether no window took the record."""
        cdef bint is_skipped = True
        for window in windows:
            if not self.is_late(window):
                is_skipped = False
                self.add_element(value, timestamp, window, window)
        return is_skipped

    cdef bint add_to_merging(self, object value, int64_t timestamp, object windows) except -1:
        """Returns whether no window took the record."""
        cdef bint is_skipped = True
        for window in windows:
            window_set = self.operation.window_set(self.window_sets.value())
            actual = window_set.add_window(window, self.on_merge)
            if self.is_late(actual):
                window_set.retire_window(actual)
                self.keep(window_set)
                continue
            is_skipped = False
            self.keep(window_set)
            self.add_element(value, timestamp, actual, window_set.state_window(actual))
        return is_skipped

    def keep(self, window_set):
        """Put the windows of the current key back into its state."""
        if window_set.is_changed:
            self.window_sets.update(window_set.mapping or None)

    def on_merge(self, result, merged, state_window, other_state_windows):
        """Several windows of the current key became `result`."""
        self.check_not_past(result)
        context = self.trigger_context
        context.window, context.merged_windows = result, merged
        self.is_in_function = True
        self.trigger.on_merge(result, context)
        context.merged_windows = None
        for window in merged:
            if window != result:
                context.window = window
                self.trigger.clear(window, context)
                self.set_cleanup_timer(window, False)
        self.contents.merge_namespaces(state_window, other_state_windows)
        self.is_in_function = False

    def check_not_past(self, window):
        """Merging must not make a window that is over already: its contents would be lost."""
        if self.is_event_time:
            what, now, last = "watermark", self.timer_service.current_watermark, self.cleanup_time(window)
        else:
            what, now = "processing time", self.timer_service.current_processing_time()
            last = self.last_of(window)
        if last <= now:
            raise RuntimeError(
                f"The end timestamp of a window cannot become earlier than the current {what} by merging. Current "
                f"{what}: {now} window: {window}"
            )

    cdef int add_element(self, object value, int64_t timestamp, object window, object state_window) except -1:
        """The record belongs to `window`, whose contents lie under `state_window`."""
        self.contents.table.set_namespace(state_window)
        self.is_in_function = True
        self.contents.add(value if self.evictor is None else (value, timestamp))
        self.trigger_context.window = window
        result = self.trigger.on_element(value, timestamp, window, self.trigger_context)
        self.act(result, window, state_window, "on_element")
        return self.set_cleanup_timer(window, True)

    cdef int take_late(self, object value, int64_t timestamp) except -1:
        """No window took the record. If that is because it is late, it goes to the side output, or is counted."""
        if not self.is_event_time or timestamp > INT64_MAX - self.lateness_ms:
            return 0
        if timestamp + self.lateness_ms > self.timer_service.current_watermark:
            return 0
        if self.late_tag_id is not None:
            self.output.collect_side(self.late_tag_id, value, timestamp)
        else:
            self.late_counter.increment()
        return 0

    def on_event_time(self, timestamp, key, window):
        """A timer of `window` is due by the watermark."""
        self.on_timer(timestamp, window, True)

    def on_processing_time(self, timestamp, key, window):
        """A timer of `window` is due by the clock."""
        self.on_timer(timestamp, window, False)

    cdef int on_timer(self, object timestamp, object window, bint is_event_time) except -1:
        state_window = window
        if self.is_merging:
            state_window = self.operation.window_set(self.window_sets.value()).state_window(window)
            if state_window is None:
                return 0  # of a window that was merged into another, whose trigger left a timer behind
        self.value_in_hand = self.in_hand
        self.in_hand.key, self.in_hand.window = self.key_context.key, window
        self.trigger_context.window = window
        self.is_in_function = True
        if is_event_time:
            result = self.trigger.on_event_time(timestamp, window, self.trigger_context)
            self.act(result, window, state_window, "on_event_time")
        else:
            result = self.trigger.on_processing_time(timestamp, window, self.trigger_context)
            self.act(result, window, state_window, "on_processing_time")
        if is_event_time == self.is_event_time and timestamp == self.cleanup_time(window):
            self.clear_all(window, state_window)
        return 0

    cdef int act(self, object result, object window, object state_window, str asked) except -1:
        """Do what the trigger said; called while `is_in_function` is set, and clears it."""
        if result is self.proceed:
            self.is_in_function = False
            return 0
        cdef object todo = None if type(result).__hash__ is None else self.operation.actions.get(result)
        if todo is None:
            raise TypeError(
                f"{type(self.trigger).__name__}.{asked}() must return a TriggerResult, such as "
                f"TriggerResult.CONTINUE; it returned {type(result).__name__}, {result!r:.80}"
            )
        self.is_in_function = False
        cdef int what = todo
        if what & FIRE:
            self.contents.table.set_namespace(state_window)
            self.emit(window)
        if what & PURGE:
            self.contents.table.set_namespace(state_window)
            self.contents.clear()
        return 0

    cdef int emit(self, object window) except -1:
        """Make results of the contents of `window`; its namespace is set."""
        if self.evictor is not None:
            return self.emit_after_eviction(window)
        self.is_in_function = True
        contents = self.contents.get()
        self.is_in_function = False
        if contents is None or self.is_list and not contents:
            return 0
        return self.emit_contents(window, contents)

    cdef int emit_after_eviction(self, object window) except -1:
        cdef object namespace = self.contents.table.namespace
        elements = self.operation.timestamped(self.contents.get())
        if not elements:
            return 0
        self.trigger_context.window = window
        self.is_in_function = True
        self.evictor.evict_before(elements, len(elements), window, self.trigger_context)
        contents = self.operation.gather([own_copy(element.value) for element in elements])
        self.is_in_function = False
        if contents is not None:
            self.emit_contents(window, contents)
        self.is_in_function = True
        self.evictor.evict_after(elements, len(elements), window, self.trigger_context)
        self.is_in_function = False
        self.contents.table.set_namespace(namespace)
        self.contents.update([tuple(element) for element in elements])
        return 0

    cdef int emit_contents(self, object window, object contents) except -1:
        """Emit what the user's function makes of them, stamped with the last millisecond of the window."""
        cdef int64_t timestamp = self.last_of(window)
        if self.call is None:
            self.output.collect(contents, timestamp)
            return 0
        inputs = contents if self.is_list else [contents]
        self.function_context.current = window
        self.is_in_function = True
        if self.is_process:
            if self.is_all:
                results = self.call(self.function_context, inputs)
            else:
                results = self.call(self.key_context.key, self.function_context, inputs)
        elif self.is_all:
            results = self.call(window, inputs)
        else:
            results = self.call(self.key_context.key, window, inputs)
        if results is None:
            raise TypeError(
                f"{self.call_name} must return an iterable of results, or yield them; it returned None. For no "
                f"results return an empty list"
            )
        return emit_results(self, results, timestamp, self.call_name)

    cdef int clear_all(self, object window, object state_window) except -1:
        """The window is over: nothing of it stays."""
        self.contents.table.set_namespace(state_window)
        self.contents.clear()
        self.trigger_context.window = window
        self.is_in_function = True
        self.trigger.clear(window, self.trigger_context)
        self.is_in_function = False
        self.call_clear(window)
        if self.is_merging:
            # Read again: the user's functions may run what changes it.
            window_set = self.operation.window_set(self.window_sets.value())
            window_set.retire_window(window)
            self.keep(window_set)
        return 0

    cdef int call_clear(self, object window) except -1:
        if self.clear is not None:
            self.function_context.current = window
            self.is_in_function = True
            self.clear(self.function_context)
            self.is_in_function = False
        return 0

    cdef int64_t last_of(self, object window) except? -1:
        if type(window) is TimeWindow:
            return (<TimeWindow>window).end - 1
        return window.max_timestamp()

    cdef int64_t cleanup_time(self, object window) except? -1:
        """When nothing of the window is needed any more; the largest number: never."""
        cdef int64_t last = self.last_of(window)
        if not self.is_event_time:
            return last
        return last + self.lateness_ms if last <= INT64_MAX - self.lateness_ms else INT64_MAX

    cdef bint is_late(self, object window) except -1:
        return self.is_event_time and self.cleanup_time(window) <= self.timer_service.current_watermark

    cdef int set_cleanup_timer(self, object window, bint is_wanted) except -1:
        """Have the window cleared when it is over, or take that back."""
        cdef int64_t time = self.cleanup_time(window)
        if time == INT64_MAX:
            return 0
        if self.is_event_time and is_wanted:
            self.timer_service.register_event_time_timer(window, time)
        elif self.is_event_time:
            self.timer_service.delete_event_time_timer(window, time)
        elif is_wanted:
            self.timer_service.register_processing_time_timer(window, time)
        else:
            self.timer_service.delete_processing_time_timer(window, time)
        return 0
