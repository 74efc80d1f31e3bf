"""The I/O thread of a process. It runs no Python: what uses it is written in C and handed its pointer."""

import os
from weakref import WeakSet

from flinkbuf._core.ground.errors cimport check, fail
from flinkbuf._core.ground.errors cimport FB_ETHREAD

cdef void nothing(void* context) noexcept nogil:
    pass


cdef class Reactor:
    """One thread that waits for all sockets and timers of a process.

    Started when it is made, ended by `close` or at the end of a ``with`` block. A forked child must not use its
    parent's: threads do not survive a fork.

    Parameters
    ----------
    keep_idle_s, keep_interval_s, keep_count : int or None
        Seconds of silence before a peer's system is probed, seconds between probes, and how many of them may go
        unanswered; 5, 2 and 3 if left out.
    dead_peer_timeout_ms : int, default 0
        How long the peer's system may leave unanswered what is sent to it again and again before it counts as gone, in
        milliseconds; 0 leaves it to this system.

    Raises
    ------
    OSError
        If the system refuses the thread or its descriptors.

    References
    ----------
    Netty's event loop in Flink's ``NettyServer`` and ``NettyClient``.

    Examples
    --------
    >>> with Reactor() as reactor:
    ...     reactor.wait_for_turn()
    ...     reactor.counters()["sources"]
    0
    """

    def __cinit__(self, *, keep_idle_s=None, keep_interval_s=None, keep_count=None, uint32_t dead_peer_timeout_ms=0):
        cdef int code
        cdef fb_tcp_patience patience
        patience.keep_idle_s, patience.keep_interval_s = keep_idle_s or 0, keep_interval_s or 0
        patience.keep_count, patience.dead_ms = keep_count or 0, dead_peer_timeout_ms
        self.process_id = os.getpid()
        self.users = WeakSet()
        with nogil:
            code = fb_reactor_open(&self.c)
        if code < 0:
            fail(code, "the I/O thread" if code == FB_ETHREAD else "the descriptors of the I/O thread")
        fb_reactor_set_tcp_patience(self.c, &patience)

    def __dealloc__(self):
        # In a forked child there is no thread to join; its memory is the parent's copy.
        if self.c is not NULL and self.process_id == os.getpid():
            with nogil:
                fb_reactor_close(self.c)

    cdef int check_open(self) except -1:
        if self.c is NULL:
            raise RuntimeError("the reactor is closed")
        if self.process_id != os.getpid():
            raise RuntimeError(f"the reactor belongs to process {self.process_id}, this is its child {os.getpid()}")
        return 0

    def __enter__(self):
        self.check_open()
        return self

    def __exit__(self, *error):
        self.close()

    @property
    def is_closed(self):
        """Whether the thread has been ended."""
        return self.c is NULL

    def close(self):
        """End the thread, after closing the servers that it serves. Idempotent."""
        cdef fb_reactor* closing
        for user in list(self.users):
            user.close()
        closing = self.c
        self.c = NULL
        if closing is not NULL and self.process_id == os.getpid():
            with nogil:
                fb_reactor_close(closing)

    def wait_for_turn(self):
        """Return when the thread has run what was posted before."""
        cdef int code
        self.check_open()
        with nogil:
            code = fb_reactor_call(self.c, nothing, NULL)
        check(code)

    def set_tcp_patience(self, int fd):
        """Make a connected TCP socket of somebody else notice a peer that vanished as soon as the reactor's own do.

        Nobody feels that socket's pulse, so the system is asked to: it also gives up a peer that answers, but has no
        room for so long.
        """
        self.check_open()
        fb_tcp_set_patience(fd, fb_reactor_tcp_patience(self.c))
        fb_tcp_set_user_timeout(fd, fb_reactor_tcp_patience(self.c).dead_ms)

    def counters(self):
        """Return what was counted since the start: a dict with turns, wakeups, bytes_read, bytes_written, writes
        (system calls that wrote), and the sources (connections and listeners) that are open now."""
        cdef fb_reactor_counters counters
        self.check_open()
        fb_reactor_get_counters(self.c, &counters)
        return counters
