"""The binding of csrc/partition/read_buffer_pool.h: the memory into which partition files are read."""

from flinkbuf._core.ground.errors cimport FB_EARGUMENT, check, fail


cdef class ReadBufferPool:
    """A budget of bytes that all readers of partition files share.

    A reader gets no more than a fair share while others want some, and one that holds nothing gets the little it needs
    to go on even when the budget is used up: readers never stop each other for ever.

    Parameters
    ----------
    size : int, default 67108864
        Bytes; ``memory.framework.off-heap.batch-shuffle.size``.
    timeout_ms : int, default 300000
        A reader that waits fails when nothing has moved for so long.

    Raises
    ------
    ValueError
        If `size` is too small for one reader.

    Notes
    -----
    Memory is taken when it is used. Any number of threads, partitions and files.

    References
    ----------
    Flink ``BatchShuffleReadBufferPool``.

    Examples
    --------
    >>> pool = ReadBufferPool(1 << 20)
    >>> pool.size, pool.used_size, pool.reader_count
    (1048576, 0, 0)
    """

    def __cinit__(self, uint64_t size=64 * 1024 * 1024, int64_t timeout_ms=300_000):
        cdef int code = fb_read_buffer_pool_open(size, timeout_ms, &self.c)
        if code == FB_EARGUMENT:
            fail(code, f"a pool of {size} bytes is too small for one reader")
        check(code)

    def __dealloc__(self):
        if self.c is not NULL:
            fb_read_buffer_pool_drop(self.c)

    cdef fb_read_pool_usage usage(self) noexcept:
        cdef fb_read_pool_usage usage
        fb_read_buffer_pool_get_usage(self.c, &usage)
        return usage

    @property
    def size(self):
        """Bytes that may be used."""
        return self.usage().budget

    @property
    def used_size(self):
        """Bytes that readers hold now."""
        return self.usage().used

    @property
    def peak_size(self):
        """Bytes that they held at most."""
        return self.usage().peak

    @property
    def reader_count(self):
        """Readers that draw on it."""
        return self.usage().consumers

    @property
    def waiting_count(self):
        """Readers that wait for memory."""
        return self.usage().waiting
