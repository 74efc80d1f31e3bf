"""An interval of time: what most windows are, and the namespace in which their state is kept. Flink: TimeWindow."""

from libc.stdint cimport int64_t, uint64_t


cdef TimeWindow time_window(int64_t start, int64_t end):
    cdef TimeWindow window = TimeWindow.__new__(TimeWindow)
    window.start = start
    window.end = end
    return window


cdef int64_t window_start(int64_t timestamp, int64_t offset, int64_t size) noexcept:
    """The greatest multiple of `size`, shifted by `offset`, that is not after `timestamp`."""
    cdef int64_t rest = (timestamp % size - offset % size) % size
    return timestamp - (rest if rest >= 0 else rest + size)


cdef class TimeWindow:
    """The time from `start` up to, but without, `end`; in milliseconds.

    Windows are ordered by start, then by end. Flink: TimeWindow.

    Examples
    --------
    >>> window = TimeWindow(0, 1000)
    >>> window.max_timestamp(), window.intersects(TimeWindow(1000, 2000)), window.cover(TimeWindow(500, 1500))
    (999, True, TimeWindow(start=0, end=1500))
    """

    def __init__(self, int64_t start, int64_t end):
        self.start = start
        self.end = end

    cdef int64_t last(self) noexcept:
        return self.end - 1

    def max_timestamp(self):
        """The last millisecond that belongs to it."""
        return self.end - 1

    def intersects(self, TimeWindow other not None):
        """Whether the two have time in common, or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, TimeWindow other not None):
        """The smallest window over both."""
        return time_window(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(int64_t timestamp, int64_t offset, int64_t window_size):
        """Where the window begins in which `timestamp` lies.

        Parameters
        ----------
        timestamp, offset, window_size : int
            Milliseconds. Windows begin at multiples of the size, shifted by the offset, which may be negative.

        Examples
        --------
        >>> TimeWindow.get_window_start_with_offset(13, 2, 10), TimeWindow.get_window_start_with_offset(-3, 0, 10)
        (12, -10)
        """
        if window_size <= 0:
            raise ValueError(f"a window is longer than 0 ms, got {window_size}")
        return window_start(timestamp, offset, window_size)

    @staticmethod
    def merge_windows(windows, callback):
        """Tell `callback.merge(windows, result)` of each group of windows that intersect or touch."""
        cdef TimeWindow candidate, merged = None
        cdef set group = set()
        for candidate in sorted(windows):
            if merged is not None and merged.intersects(candidate):
                merged = merged.cover(candidate)
            else:
                if len(group) > 1:
                    callback.merge(group, merged)
                merged, group = candidate, set()
            group.add(candidate)
        if len(group) > 1:
            callback.merge(group, merged)

    def __hash__(self):
        # Starts are multiples of something: without mixing, many windows would meet in one place of a dict.
        cdef uint64_t mixed = (<uint64_t>self.start * <uint64_t>31 + <uint64_t>self.end) * <uint64_t>0x9E3779B97F4A7C15
        return <Py_ssize_t>((mixed ^ (mixed >> 32)) >> 1)

    def __eq__(self, other):
        if self is other:
            return True
        if type(self) is not type(other):
            return False
        return self.start == (<TimeWindow>other).start and self.end == (<TimeWindow>other).end

    def __lt__(self, other):
        return self.order(other) < 0

    def __le__(self, other):
        return self.order(other) <= 0

    def __gt__(self, other):
        return self.order(other) > 0

    def __ge__(self, other):
        return self.order(other) >= 0

    def order(self, other):
        """Negative, zero or positive: whether this window comes before, with or after `other`."""
        if not isinstance(other, TimeWindow):
            raise TypeError(f"a TimeWindow has an order among TimeWindows only, got {type(other).__name__} {other!r}")
        cdef TimeWindow window = <TimeWindow>other
        if self.start != window.start:
            return -1 if self.start < window.start else 1
        return (self.end > window.end) - (self.end < window.end)

    def __reduce__(self):
        return type(self), (self.start, self.end)

    def __repr__(self):
        return f"TimeWindow(start={self.start}, end={self.end})"
