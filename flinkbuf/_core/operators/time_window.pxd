from libc.stdint cimport int64_t


cdef class TimeWindow:
    cdef readonly int64_t start     # inclusive, milliseconds
    cdef readonly int64_t end       # exclusive

    cdef int64_t last(self) noexcept


cdef TimeWindow time_window(int64_t start, int64_t end)
cdef int64_t window_start(int64_t timestamp, int64_t offset, int64_t size) noexcept
