"""The binding of csrc/ground/wakeup.h: the one bell that a task sleeps on."""

from cpython.exc cimport PyErr_CheckSignals

from flinkbuf._core.ground.errors cimport check


cdef class TaskBell:
    """What a task with any number of inputs and outputs sleeps on; whatever it waits for rings it.

    A task notes how often it has rung, looks whether there is anything to do, and sleeps only if there was not: then no
    ring is lost. Result partitions and input gates take it with ``share_bell``, before the first write and read.

    Notes
    -----
    Any thread may ring it, and as long as somebody may, it lives: a reader in another task rings the bell of a producer
    that has gone. Flink: the future that ``StreamTask.processInput`` waits for.

    Examples
    --------
    >>> bell = TaskBell()
    >>> seen = bell.seen()
    >>> bell.wait(seen, 0)
    False
    >>> bell.ring()
    >>> bell.wait(seen, 1000)
    True
    """

    def __cinit__(self):
        check(fb_wakeup_shared_open(&self.c))

    def __dealloc__(self):
        if self.c is not NULL:
            fb_wakeup_shared_drop(self.c)

    cpdef uint64_t seen(self) noexcept:
        """How often it has rung. Call it before looking for work, and give the result to `wait`."""
        return fb_wakeup_seen(&self.c.wakeup)

    cpdef bint wait(self, uint64_t seen, int64_t timeout_ms) except? -1:
        """Sleep, without the GIL, until it has rung since `seen`, or for `timeout_ms` milliseconds.

        Returns
        -------
        bool
            Whether it has rung.
        """
        cdef bint has_rung
        if timeout_ms < 0:
            raise ValueError(f"timeout_ms must not be negative, got {timeout_ms}: signals are seen between two "
                             "waits only")
        with nogil:
            has_rung = fb_wakeup_wait(&self.c.wakeup, seen, timeout_ms)
        PyErr_CheckSignals()
        return has_rung

    cpdef void ring(self) noexcept:
        """Wake whoever sleeps on it."""
        fb_wakeup_ring(&self.c.wakeup)
