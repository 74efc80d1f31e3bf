from libc.stdint cimport int64_t


cdef int64_t monotonic_ns() noexcept nogil


cdef class Mail:
    cdef readonly object action         # called without arguments
    cdef readonly int64_t mail_priority
    cdef readonly str description
    cdef readonly int64_t put_ns        # when, by a clock that never jumps


cdef class TaskMailbox:
    cdef readonly object bell           # rung at each mail
    cdef object poll_timers             # posts timers that are due; gives the milliseconds until the next one, or None
    cdef object lock                    # of `queue`, `urgent` and `state`
    cdef object queue                   # mails of any thread, in order
    cdef object urgent                  # those that overtake what waits
    cdef object batch                   # of the task's thread only
    cdef bint has_new_mail              # `queue` or `urgent` is not empty
    cdef int _state
    cdef unsigned long thread

    # Whether the task's thread should look: a load, no lock.
    cdef inline bint has_mail(self) noexcept:
        return self.has_new_mail

    cdef int check_thread(self) except -1
    cdef Mail take_eligible(self, object mails, int64_t mail_priority)
    cdef int put_locked(self, Mail mail, bint is_urgent) except -1
    cdef int merge_urgent(self) except -1
