# cython: nonecheck=True
"""Operators that call a process function: with the record's time, timers and, on keyed streams, state.

The objects that a function is given are the same for each call; they are good for that call. What a function makes
has the record's timestamp, or the timer's. Flink: ProcessOperator, KeyedProcessOperator, CoProcessOperator,
KeyedCoProcessOperator; PyFlink: fn_execution/datastream/process/operations.py.
"""

from libc.stdint cimport INT64_MIN, int64_t

from flinkbuf._core.operators.function_results cimport emit_results
from flinkbuf._core.record.plain_function cimport called


cdef class UserTimers:
    """What a function may ask of time. Flink: TimerService."""

    def __cinit__(self, clock, InternalTimerService service=None):
        self.clock = clock
        self.service = service
        self.watermark = INT64_MIN

    def current_processing_time(self):
        """The task's clock in milliseconds since 1970."""
        return self.clock.now_ms()

    def current_watermark(self):
        """How far event time has come; the smallest 64-bit number before the first watermark."""
        return self.watermark if self.service is None else self.service.current_watermark

    cdef InternalTimerService keyed(self):
        if self.service is None:
            raise RuntimeError(
                "Register timers is only supported on a keyed stream: call key_by() first, and process() with a keyed "
                "function"
            )
        return self.service

    def register_processing_time_timer(self, timestamp):
        """Have on_timer called for the current key once the clock has passed `timestamp`."""
        self.keyed().register_processing_time_timer(None, timestamp)

    def register_event_time_timer(self, timestamp):
        """Have on_timer called for the current key once the watermark has come to `timestamp`."""
        self.keyed().register_event_time_timer(None, timestamp)

    def delete_processing_time_timer(self, timestamp):
        """Take back a timer of the current key, if there is one."""
        self.keyed().delete_processing_time_timer(None, timestamp)

    def delete_event_time_timer(self, timestamp):
        """Take back a timer of the current key, if there is one."""
        self.keyed().delete_event_time_timer(None, timestamp)


cdef class FiringTimer:
    """The timer that a function was called for: what stands in an error where else the record stands."""

    def __repr__(self):
        return f"timer({self.timestamp}, {self.time_domain}, key={self.key!r})"


cdef class CallContext:
    """What a function is given beside its records, good for one call."""

    cdef int check(self) except -1:
        if not self.is_valid:
            raise RuntimeError(
                "this context was good for one call of the function, which is over: keep what you need of it, not "
                "the context itself"
            )
        return 0


cdef class ProcessContext(CallContext):
    """What a process function is given beside the record."""

    def __cinit__(self, UserTimers timers, KeyContext keys=None):
        self.timers = timers
        self.keys = keys

    def timestamp(self):
        """Event time of the record, or time of the timer; the smallest 64-bit number if there is none."""
        self.check()
        return self.element_timestamp

    def timer_service(self):
        """For the time, and for timers of the current key."""
        self.check()
        return self.timers


cdef class KeyedProcessContext(ProcessContext):
    """On a keyed stream."""

    def get_current_key(self):
        """The key of the record or of the timer."""
        self.check()
        return self.keys.key


cdef class OnTimerContext(KeyedProcessContext):
    """When a timer fires."""

    def time_domain(self):
        """Whether the timer was of event time or of processing time."""
        self.check()
        return self.domain


cdef class ProcessOperator(StreamOperator):
    """Calls ``function.process_element(value, ctx)`` for each record."""

    def __init__(self, function):
        self.function = function
        self.process = function.process_element

    def open(self):
        self.prepare()
        if hasattr(self.function, "open"):
            self.function.open(self.context.runtime_context)

    def prepare(self):
        self.user_timers = UserTimers(self.context.processing_time)
        self.process_context = ProcessContext(self.user_timers)

    def close(self):
        if self.key_context is not None:
            self.key_context.clear()
        if hasattr(self.function, "close"):
            self.function.close()

    cpdef emit_watermark(self, int64_t timestamp):
        self.user_timers.watermark = timestamp
        if self.timers is not None:
            self.timers.advance_watermark(timestamp)
        self.output.emit_watermark(timestamp)

    cpdef process_element(self, object value, int64_t timestamp):
        cdef ProcessContext context = self.process_context
        self.value_in_hand = value
        self.is_in_function = True
        context.element_timestamp = timestamp
        context.is_valid = True
        emit_results(self, self.process(value, context), timestamp, "process_element()")
        context.is_valid = False


cdef class KeyedProcessOperator(ProcessOperator):
    """As ProcessOperator, on a keyed stream; ``function.on_timer(timestamp, ctx)`` is called for timers.

    Parameters
    ----------
    function : object
        With process_element and on_timer.
    selector : callable
        Gives the key of a record.
    event_time, processing_time : object
        What ``ctx.time_domain()`` returns.
    """

    def __init__(self, function, selector, event_time, processing_time):
        super().__init__(function)
        self.selector = selector
        self.on_timer = function.on_timer
        self.event_time = event_time
        self.processing_time = processing_time
        self.firing = FiringTimer()

    def prepare(self):
        self.user_timers = UserTimers(self.context.processing_time, self.timers.service("user-timers", self))
        self.process_context = KeyedProcessContext(self.user_timers, self.key_context)
        self.timer_context = OnTimerContext(self.user_timers, self.key_context)

    cpdef process_element(self, object value, int64_t timestamp):
        cdef ProcessContext context = self.process_context
        self.value_in_hand = value
        self.is_in_function = True
        self.key_context.set_key(called(self.selector, value))
        context.element_timestamp = timestamp
        context.is_valid = True
        emit_results(self, self.process(value, context), timestamp, "process_element()")
        context.is_valid = False

    def on_event_time(self, int64_t timestamp, key, namespace):
        """A timer of event time fires; the key is set."""
        call_on_timer(self, self.on_timer, self.timer_context, self.firing, self.event_time, timestamp, key)

    def on_processing_time(self, int64_t timestamp, key, namespace):
        """A timer of processing time fires; the key is set."""
        call_on_timer(self, self.on_timer, self.timer_context, self.firing, self.processing_time, timestamp, key)


cdef int call_on_timer(StreamOperator operator, object on_timer, ProcessContext context, FiringTimer firing,
                       object domain, int64_t timestamp, object key) except -1:
    firing.timestamp = timestamp
    firing.key = key
    firing.time_domain = domain
    operator.value_in_hand = firing
    operator.is_in_function = True
    context.element_timestamp = timestamp
    context.domain = domain
    context.is_valid = True
    emit_results(operator, on_timer(timestamp, context), timestamp, "on_timer()")
    context.is_valid = False
    return 0


cdef class CoProcessOperator(MultipleInputOperator):
    """Calls ``process_element1`` for each record of the first input and ``process_element2`` for the second's."""

    def __init__(self, function, combined):
        super().__init__(2, combined)
        self.function = function
        self.process1, self.process2 = self.methods()

    def methods(self):
        """What is called for the records of each input."""
        return self.function.process_element1, self.function.process_element2

    def open(self):
        self.prepare()
        if hasattr(self.function, "open"):
            self.function.open(self.context.runtime_context)

    def prepare(self):
        self.user_timers = UserTimers(self.context.processing_time)
        self.process_context = ProcessContext(self.user_timers)

    def close(self):
        if self.key_context is not None:
            self.key_context.clear()
        if hasattr(self.function, "close"):
            self.function.close()

    cpdef emit_watermark(self, int64_t timestamp):
        self.user_timers.watermark = timestamp
        if self.timers is not None:
            self.timers.advance_watermark(timestamp)
        self.output.emit_watermark(timestamp)

    cpdef process_input_element(self, Py_ssize_t index, object value, int64_t timestamp):
        self.value_in_hand = value
        self.is_in_function = True
        self.call_function(index, value, timestamp)

    cdef int call_function(self, Py_ssize_t index, object value, int64_t timestamp) except -1:
        cdef ProcessContext context = self.process_context
        context.element_timestamp = timestamp
        context.is_valid = True
        if index == 0:
            emit_results(self, self.process1(value, context), timestamp, "process_element1()")
        else:
            emit_results(self, self.process2(value, context), timestamp, "process_element2()")
        context.is_valid = False
        return 0


cdef class KeyedCoProcessOperator(CoProcessOperator):
    """As CoProcessOperator, on two keyed streams whose keys are of one kind; timers as in KeyedProcessOperator."""

    def __init__(self, function, combined, selector1, selector2, event_time, processing_time):
        super().__init__(function, combined)
        self.selector1 = selector1
        self.selector2 = selector2
        self.on_timer = function.on_timer
        self.event_time = event_time
        self.processing_time = processing_time
        self.firing = FiringTimer()

    def prepare(self):
        self.user_timers = UserTimers(self.context.processing_time, self.timers.service("user-timers", self))
        self.process_context = KeyedProcessContext(self.user_timers, self.key_context)
        self.timer_context = OnTimerContext(self.user_timers, self.key_context)

    cpdef process_input_element(self, Py_ssize_t index, object value, int64_t timestamp):
        self.value_in_hand = value
        self.is_in_function = True
        self.key_context.set_key(called(self.selector1 if index == 0 else self.selector2, value))
        self.call_function(index, value, timestamp)

    def on_event_time(self, int64_t timestamp, key, namespace):
        """A timer of event time fires; the key is set."""
        call_on_timer(self, self.on_timer, self.timer_context, self.firing, self.event_time, timestamp, key)

    def on_processing_time(self, int64_t timestamp, key, namespace):
        """A timer of processing time fires; the key is set."""
        call_on_timer(self, self.on_timer, self.timer_context, self.firing, self.processing_time, timestamp, key)
