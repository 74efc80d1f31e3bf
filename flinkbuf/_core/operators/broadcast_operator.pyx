# cython: nonecheck=True
"""Operators of a stream and a broadcast one: all subtasks get all records of the second, and keep them in state.

The first input is read with the broadcast state at hand, the second writes it. Flink:
CoBroadcastWithNonKeyedOperator, CoBroadcastWithKeyedOperator; PyFlink: fn_execution/datastream/process/operations.py.
"""

from libc.stdint cimport int64_t

from flinkbuf._core.operators.function_results cimport emit_results
from flinkbuf._core.operators.process_operator cimport UserTimers, call_on_timer
from flinkbuf._core.record.plain_function cimport called


cdef class BroadcastContext(ProcessContext):
    """What goes with a broadcast record."""

    def current_processing_time(self):
        """The task's clock in milliseconds since 1970."""
        self.check()
        return self.timers.current_processing_time()

    def current_watermark(self):
        """How far event time has come; the smallest 64-bit number before the first watermark."""
        self.check()
        return self.timers.current_watermark()

    def get_broadcast_state(self, state_descriptor):
        """The broadcast state of that name."""
        self.check()
        known = self.known.get(state_descriptor.name)
        if known is not None and (<tuple>known)[0] is state_descriptor:
            return (<tuple>known)[1]
        given = self.given(self.states.get_broadcast_state(state_descriptor))
        self.known[state_descriptor.name] = state_descriptor, given
        return given

    cdef object given(self, object state):
        return state


cdef class KeyedBroadcastContext(BroadcastContext):
    """What goes with a broadcast record where the other stream is keyed."""

    def apply_to_keyed_state(self, state_descriptor, function):
        """Call ``function(key, state)`` for each key that has a value in a state; beyond PyFlink, as in Java.

        The function may read and change the state of that key.
        """
        self.check()
        state = self.keyed_state.get_state(state_descriptor)
        try:
            for key in self.keyed_state.keys(state):
                self.keys.set_key(key)
                function(key, state)
        finally:
            self.keys.clear()


cdef class ReadOnlyContext(BroadcastContext):
    """What goes with a record of the stream that is not broadcast."""

    cdef object given(self, object state):
        return state.read_only()


cdef class KeyedReadOnlyContext(ReadOnlyContext):
    """Likewise where it is keyed."""

    def get_current_key(self):
        """The key of the record or of the timer."""
        self.check()
        return self.keys.key


cdef class BroadcastOnTimerContext(KeyedReadOnlyContext):
    """What goes with a timer."""

    def time_domain(self):
        """Whether the timer was of event time or of processing time."""
        self.check()
        return self.domain


cdef BroadcastContext fill(BroadcastContext context, object states, object keyed_state):
    context.states = states
    context.known = {}
    context.keyed_state = keyed_state
    return context


cdef class BroadcastProcessOperator(CoProcessOperator):
    """Calls ``process_element`` for records of the first input, ``process_broadcast_element`` for the second's.

    Parameters
    ----------
    function : object
        With these methods.
    combined : CombinedWatermark
        Of the two inputs.
    descriptors : tuple of MapStateDescriptor
        Of the broadcast states that the program named.
    """

    def __init__(self, function, combined, descriptors):
        super().__init__(function, combined)
        self.descriptors = tuple(descriptors)

    @property
    def broadcast_inputs(self):
        """Inputs that batch execution reads before the others, from 1."""
        return (2,)

    def methods(self):
        return self.function.process_element, self.function.process_broadcast_element

    def prepare(self):
        states = self.context.operator_state
        self.user_timers = UserTimers(self.context.processing_time)
        self.process_context = fill(ReadOnlyContext(self.user_timers), states, None)
        self.broadcast_context = fill(BroadcastContext(self.user_timers), states, None)
        self.restore_broadcast_states()

    def restore_broadcast_states(self):
        """What a snapshot has of the named states is found under their types from the start."""
        for descriptor in self.descriptors:
            self.context.operator_state.get_broadcast_state(descriptor)

    cdef int call_function(self, Py_ssize_t index, object value, int64_t timestamp) except -1:
        cdef ProcessContext context = self.process_context if index == 0 else self.broadcast_context
        context.element_timestamp = timestamp
        context.is_valid = True
        if index == 0:
            emit_results(self, self.process1(value, context), timestamp, "process_element()")
        else:
            emit_results(self, self.process2(value, context), timestamp, "process_broadcast_element()")
        context.is_valid = False
        return 0


cdef class KeyedBroadcastProcessOperator(BroadcastProcessOperator):
    """As BroadcastProcessOperator, where the first input is keyed; timers as in KeyedProcessOperator."""

    def __init__(self, function, combined, descriptors, selector, event_time, processing_time):
        super().__init__(function, combined, descriptors)
        self.selector = selector
        self.on_timer = function.on_timer
        self.event_time = event_time
        self.processing_time = processing_time
        self.firing = FiringTimer()

    def prepare(self):
        states, keyed_state = self.context.operator_state, self.context.keyed_state
        self.user_timers = UserTimers(self.context.processing_time, self.timers.service("user-timers", self))
        self.process_context = fill(KeyedReadOnlyContext(self.user_timers, self.key_context), states, keyed_state)
        self.timer_context = fill(BroadcastOnTimerContext(self.user_timers, self.key_context), states, keyed_state)
        self.broadcast_context = fill(KeyedBroadcastContext(self.user_timers, self.key_context), states, keyed_state)
        self.restore_broadcast_states()

    cpdef process_input_element(self, Py_ssize_t index, object value, int64_t timestamp):
        self.value_in_hand = value
        self.is_in_function = True
        if index == 0:
            self.key_context.set_key(called(self.selector, value))
        else:
            self.key_context.clear()
        self.call_function(index, value, timestamp)

    def on_event_time(self, int64_t timestamp, key, namespace):
        """A timer of event time fires; the key is set."""
        call_on_timer(self, self.on_timer, self.timer_context, self.firing, self.event_time, timestamp, key)

    def on_processing_time(self, int64_t timestamp, key, namespace):
        """A timer of processing time fires; the key is set."""
        call_on_timer(self, self.on_timer, self.timer_context, self.firing, self.processing_time, timestamp, key)
