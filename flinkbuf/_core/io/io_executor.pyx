"""A thread that waits for the disk so that others do not."""

import os

from flinkbuf._core.ground.errors cimport check


cdef class IOExecutor:
    """A thread for reading or writing files, and the queue of what it is to do; a context manager.

    The thread starts with the first request. One that was made before a fork does nothing in the child.
    Flink: a reader or writer thread of ``IOManagerAsync``.

    Parameters
    ----------
    name : str
        The thread's, for those who look at the process; its first 15 bytes.

    Examples
    --------
    >>> with IOExecutor("reader") as executor:
    ...     executor.run_count, executor.pending_count
    (0, 0)
    """

    def __cinit__(self, str name):
        check(fb_io_executor_open(os.fsencode(name), &self.c))

    def __dealloc__(self):
        if self.c is not NULL:
            with nogil:
                fb_io_executor_drop(self.c)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        """Do what is queued, then end the thread; what comes later is refused. Closing again does nothing."""
        with nogil:
            fb_io_executor_close(self.c)

    @property
    def run_count(self):
        """Requests that have run."""
        return fb_io_executor_run_count(self.c)

    @property
    def pending_count(self):
        """Requests that have not returned: the queued ones, and the one that runs."""
        return fb_io_executor_pending_count(self.c)
