from libc.stdint cimport int64_t

from flinkbuf._core.state.key_context cimport KeyContext


cdef class Timer:
    cdef readonly object token, namespace


cdef class Bucket:
    cdef dict spaces            # {namespace: {token: None}}
    cdef int64_t epoch          # that of the queue when they were made

    cdef dict copied(self)


cdef class TimerQueue:
    cdef int64_t* heap          # times, smallest first; a time without timers may be among them
    cdef Py_ssize_t heap_size, heap_capacity
    cdef dict buckets           # time -> Timer, or Bucket where there is more than one
    cdef int64_t epoch          # how many snapshots there were
    cdef dict firing            # {namespace: {token: None}} of firing_time, those that have not been called yet
    cdef int64_t firing_time

    cdef int64_t head(self) noexcept
    cdef Bucket owned(self, object time, Bucket bucket)
    cdef dict frozen(self)
    cdef bint register(self, object token, object namespace, object time, int64_t timestamp) except -1
    cdef bint delete(self, object token, object namespace, object time, int64_t timestamp) except -1
    cdef int push(self, int64_t timestamp) except -1
    cdef void pop(self) noexcept
    cdef int rebuild(self) except -1
    cdef int fire(self, int64_t until, KeyContext keys, object callback, InternalTimerService service) except -1


cdef class InternalTimerService:
    cdef readonly str name
    cdef KeyContext keys
    cdef TimerQueue event_time, processing_time
    cdef object clock, on_event_time, on_processing_time
    cdef object physical        # what the earliest processing-time timer waits in, or None
    cdef int64_t physical_time
    cdef readonly int64_t current_watermark
    cdef readonly bint is_quiesced

    cpdef register_event_time_timer(self, object namespace, object time)
    cpdef delete_event_time_timer(self, object namespace, object time)
    cpdef register_processing_time_timer(self, object namespace, object time)
    cpdef delete_processing_time_timer(self, object namespace, object time)
    cpdef advance_watermark(self, int64_t timestamp)
    cdef int arm(self) except -1


cdef class BatchTimerService(InternalTimerService):
    cpdef end_key(self)
