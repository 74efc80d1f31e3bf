"""What assigners, triggers and window functions are given: time, timers and state of the window at hand.

One object of each kind an operator; the operator says whose turn it is before each call. PyFlink: Context,
WindowContext and WindowAssignerContext in fn_execution/datastream/window/window_operator.py.
"""


cdef class WindowTimes:
    """What all may ask."""

    def __init__(self, InternalTimerService timers not None, runtime_context):
        self.timers = timers
        self.runtime_context = runtime_context

    def get_current_processing_time(self):
        """The time of the task's clock, in milliseconds since 1970."""
        return self.timers.current_processing_time()

    def get_current_watermark(self):
        """How far event time has come; the smallest 64-bit number before the first watermark."""
        return self.timers.current_watermark

    def get_metric_group(self):
        """The operator's metrics."""
        return self.runtime_context.get_metrics_group()


cdef class WindowAssignerContext(WindowTimes):
    """What `WindowAssigner.assign_windows` is given."""

    def get_runtime_context(self):
        """The subtask's context; its states are those of the record's key."""
        return self.runtime_context


cdef class WindowTriggerContext(WindowTimes):
    """What the methods of a `Trigger` are given. Timers and states are those of one window and key."""

    def __init__(self, timers, runtime_context, backend):
        WindowTimes.__init__(self, timers, runtime_context)
        self.backend = backend
        self.states = {}

    def register_event_time_timer(self, time):
        """Have `on_event_time` called once the watermark has come to `time`."""
        self.timers.register_event_time_timer(self.window, time)

    def delete_event_time_timer(self, time):
        """Take such a timer back."""
        self.timers.delete_event_time_timer(self.window, time)

    def register_processing_time_timer(self, time):
        """Have `on_processing_time` called once the clock has passed `time`."""
        self.timers.register_processing_time_timer(self.window, time)

    def delete_processing_time_timer(self, time):
        """Take such a timer back."""
        self.timers.delete_processing_time_timer(self.window, time)

    def get_partitioned_state(self, state_descriptor):
        """The state of that name of this window and key."""
        state = self.state_of(state_descriptor)
        state.set_namespace(self.window)
        return state

    def merge_partitioned_state(self, state_descriptor):
        """Put the state of that name of the windows that became this one together."""
        if self.merged_windows is None:
            raise RuntimeError("merge_partitioned_state() is for on_merge(): nothing is merged here")
        self.state_of(state_descriptor).merge_namespaces(self.window, self.merged_windows)

    cdef object state_of(self, object descriptor):
        known = self.states.get(descriptor.name)
        if known is not None and known[0] is descriptor:
            return known[1]
        state = self.backend.get_internal_state(descriptor)
        self.states[descriptor.name] = (descriptor, state)
        return state


cdef class WindowStateStore:
    """State of one window and key. Flink: WindowOperator.PerWindowStateStore."""

    def __init__(self, backend, bint is_merging):
        self.backend = backend
        self.is_merging = is_merging

    def get_state(self, state_descriptor):
        """The value state of that name."""
        if self.is_merging:
            raise RuntimeError(
                "Per-window state is not allowed when using merging windows: a session's window changes with each "
                "record; use global_state()"
            )
        state = self.backend.get_internal_state(state_descriptor)
        state.set_namespace(self.window)
        return state

    def get_list_state(self, state_descriptor):
        """The list state of that name."""
        return self.get_state(state_descriptor)

    def get_map_state(self, state_descriptor):
        """The map state of that name."""
        return self.get_state(state_descriptor)

    def get_reducing_state(self, state_descriptor):
        """The reducing state of that name."""
        return self.get_state(state_descriptor)

    def get_aggregating_state(self, state_descriptor):
        """The aggregating state of that name."""
        return self.get_state(state_descriptor)


cdef class WindowContext(WindowTimes):
    """What the methods of a `ProcessWindowFunction` are given."""

    def __init__(self, timers, runtime_context, WindowStateStore store not None):
        WindowTimes.__init__(self, timers, runtime_context)
        self.store = store

    def window(self):
        """The window that is evaluated."""
        return self.current

    def current_processing_time(self):
        """The time of the task's clock, in milliseconds since 1970."""
        return self.timers.current_processing_time()

    def current_watermark(self):
        """How far event time has come; the smallest 64-bit number before the first watermark."""
        return self.timers.current_watermark

    def window_state(self):
        """State of this key and this window."""
        self.store.window = self.current
        return self.store

    def global_state(self):
        """State of this key."""
        return self.runtime_context
