from flinkbuf._core.operators.process_operator cimport CoProcessOperator, FiringTimer, ProcessContext


cdef class BroadcastContext(ProcessContext):
    cdef object states       # OperatorStateBackend
    cdef dict known          # name -> (descriptor, what the function is given)
    cdef object keyed_state  # KeyedStateBackend, or None

    cdef object given(self, object state)


cdef class BroadcastProcessOperator(CoProcessOperator):
    cdef BroadcastContext broadcast_context
    cdef tuple descriptors


cdef class KeyedBroadcastProcessOperator(BroadcastProcessOperator):
    cdef object selector, on_timer, event_time, processing_time
    cdef ProcessContext timer_context
    cdef FiringTimer firing
