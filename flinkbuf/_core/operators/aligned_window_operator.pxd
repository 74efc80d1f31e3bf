from libc.stdint cimport int64_t

from flinkbuf._core.operators.incremental_window_operator cimport IncrementalWindowOperator
from flinkbuf._core.operators.time_window cimport TimeWindow


cdef class Pane:
    cdef TimeWindow window
    cdef int64_t last           # the last millisecond of the window
    cdef int64_t cleanup        # when nothing of it is needed any more; the largest number: never
    cdef object last_as_object, cleanup_as_object
    cdef Pane earlier           # the one that begins a slide before it; None: not looked for yet


cdef (int64_t, int64_t) bounds_of_time(object assigner)


cdef class AlignedWindowOperator(IncrementalWindowOperator):
    cdef int64_t size_ms, slide_ms, offset_ms
    cdef int64_t min_time, max_time     # windows of other times would begin before all time or end after it
    cdef bint fires_at_end      # windows of processing time at the end of the input
    cdef dict panes             # start -> Pane, of the windows in use
    cdef Pane recent

    cdef bint add_at(self, object value, int64_t time) except -1
    cdef Pane pane_at(self, int64_t start)
    cdef Pane pane_before(self, Pane pane, int64_t start)
    cdef Pane found_pane(self, int64_t start)
    cdef int forget_pane(self, int64_t start) except -1
    cdef int64_t time_of(self, object value, int64_t timestamp) except? -1
    cdef int add_to_pane(self, Pane pane, object value, int64_t watermark) except -1
    cdef int set_timers(self, Pane pane, int64_t watermark) except -1
    cdef int end_or_fire(self, int64_t timestamp, TimeWindow window) except -1
    cdef int fire(self, TimeWindow window, bint is_over) except -1
