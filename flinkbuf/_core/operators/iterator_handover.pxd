from libc.stdint cimport int64_t

from flinkbuf._core.ground.wakeup cimport TaskBell

cdef extern from "_core/operators/iterator_handover.h":
    int64_t fb_coarse_clock_ns() noexcept nogil


cdef class IteratorHandover:
    cdef object wake                    # tells the task that there is something
    cdef TaskBell room                  # rung when the task has taken all there was, and when it wants no more
    cdef object record_class            # elements of this class are a value with a timestamp; None: none are
    cdef list elements                  # given by the iterator, not yet taken
    cdef object error                   # what the iterator has raised, until `take` raises it
    cdef Py_ssize_t capacity
    cdef int64_t begun_ns               # when the first of `elements` came
    cdef int until_look                 # elements until the clock is looked at
    cdef bint is_awaited                # the task has found nothing, and is to be woken
    cdef bint is_running                # the iterator's own code
    cdef readonly bint is_closed        # the task wants nothing any more
    cdef readonly bint has_ended        # the iterator gives nothing any more

    cdef list take(self)
    cdef object own(self, object element)
    cdef int put(self, object value) except -1
    cdef int wait_for_room(self) except -1
