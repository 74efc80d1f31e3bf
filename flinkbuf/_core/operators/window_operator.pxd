from libc.stdint cimport int64_t

from flinkbuf._core.state.keyed_state cimport KeyedState
from flinkbuf._core.operators.stream_operator cimport StreamOperator
from flinkbuf._core.state.timer_service cimport InternalTimerService
from flinkbuf._core.operators.window_context cimport (
    WindowAssignerContext, WindowContext, WindowStateStore, WindowTriggerContext,
)


cdef class WindowInHand:
    cdef readonly object key, window


cdef enum action:
    CONTINUE = 0
    FIRE = 1
    PURGE = 2


cdef class WindowOperator(StreamOperator):
    cdef readonly object operation          # what the program says: WindowOperation
    cdef object selector                    # key of a record; None: all have the same
    cdef object assigner, trigger, evictor
    cdef object proceed                     # TriggerResult.CONTINUE
    cdef object call, clear                 # of the user's function; without one contents are results
    cdef str call_name
    cdef bint is_process, is_all            # how `call` is called
    cdef bint is_event_time, is_merging, is_list
    cdef int64_t lateness_ms
    cdef str late_tag_id                    # None: late records are dropped
    cdef object late_counter

    cdef InternalTimerService timer_service
    cdef KeyedState contents
    cdef object window_sets                 # state: {window: state window} of a key
    cdef WindowAssignerContext assigner_context
    cdef WindowTriggerContext trigger_context
    cdef WindowContext function_context
    cdef WindowInHand in_hand

    cdef object take_key(self, object value)
    cdef object assign(self, object value, int64_t timestamp)
    cdef bint add_to_windows(self, object value, int64_t timestamp, object windows) except -1
    cdef bint add_to_merging(self, object value, int64_t timestamp, object windows) except -1
    cdef int add_element(self, object value, int64_t timestamp, object window, object state_window) except -1
    cdef int take_late(self, object value, int64_t timestamp) except -1
    cdef int on_timer(self, object timestamp, object window, bint is_event_time) except -1
    cdef int act(self, object result, object window, object state_window, str asked) except -1
    cdef int emit(self, object window) except -1
    cdef int emit_contents(self, object window, object contents) except -1
    cdef int emit_after_eviction(self, object window) except -1
    cdef int clear_all(self, object window, object state_window) except -1
    cdef int call_clear(self, object window) except -1
    cdef int64_t last_of(self, object window) except? -1
    cdef int64_t cleanup_time(self, object window) except? -1
    cdef bint is_late(self, object window) except -1
    cdef int set_cleanup_timer(self, object window, bint is_wanted) except -1
