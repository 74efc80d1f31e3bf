from flinkbuf._core.state.timer_service cimport InternalTimerService


cdef class WindowTimes:
    cdef InternalTimerService timers
    cdef object runtime_context


cdef class WindowAssignerContext(WindowTimes):
    pass


cdef class WindowTriggerContext(WindowTimes):
    cdef object backend
    cdef dict states            # name -> (descriptor, state) of the states that triggers asked for
    cdef object window          # whose turn it is
    cdef object merged_windows  # those that became `window`; None outside of on_merge

    cdef object state_of(self, object descriptor)


cdef class WindowStateStore:
    cdef object backend
    cdef object window
    cdef bint is_merging


cdef class WindowContext(WindowTimes):
    cdef WindowStateStore store
    cdef object current         # window
