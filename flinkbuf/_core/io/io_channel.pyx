"""A file that is read or written piece after piece by a thread for it, while its user goes on."""

import os

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.exc cimport PyErr_CheckSignals

from flinkbuf._core.ground.errors cimport fail
from flinkbuf._core.io.file_channel cimport FB_FILE_CREATE, FB_FILE_EXTEND, FB_FILE_READ, raise_file_failure

cdef enum:
    SLICE_MS = 100  # signals are looked for so often

cdef dict MODES = {"read": FB_FILE_READ, "create": FB_FILE_CREATE, "extend": FB_FILE_EXTEND}


cdef class IOOperation:
    """A write or a read of a channel: what it was made for, where it was, how much was done."""

    def __dealloc__(self):
        self.release()

    def release(self):
        """Let go of the bytes, which it holds until it is done."""
        while self.view_count > 0:
            self.view_count -= 1
            PyBuffer_Release(&self.views[self.view_count])

    @property
    def offset(self):
        """Bytes from the file's start."""
        return self.c.offset

    @property
    def size(self):
        """Bytes written or read."""
        return self.c.done_size

    @property
    def is_done(self):
        """Whether it succeeded."""
        return self.c.code == 0


cdef class IOChannel:
    """A file with operations under way, which come back in order; a context manager.

    Parameters
    ----------
    path : path-like
    mode : {"read", "create", "extend"}
    executor : IOExecutor, optional
        Whose thread does the work; without one it is done in the call.

    Raises
    ------
    OSError, CorruptDataError
        By every call after an operation has failed, with path and ``offset``: the first failure stays.

    References
    ----------
    Flink ``AsynchronousFileIOChannel``.
    """

    def __cinit__(self, path, str mode, IOExecutor executor=None):
        cdef fb_file_failure failure
        cdef fb_io_executor* c_executor = NULL if executor is None else executor.c
        cdef fb_file_mode opened = MODES[mode]
        cdef int code
        self.pending = set()
        self.path = os.fsdecode(path)
        encoded = os.fsencode(path)
        cdef const char* name = PyBytes_AS_STRING(encoded)
        with nogil:
            code = fb_io_channel_open(&self.c, name, opened, c_executor, &failure)
        if code < 0:
            raise_file_failure(&failure, self.path)

    def __dealloc__(self):
        cdef fb_file_failure failure
        if self.c.is_open:
            with nogil:
                fb_io_channel_close(&self.c, False, &failure)
            fb_io_channel_discard(&self.c)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    cdef submit(self, IOOperation operation):
        cdef int code
        operation.c.owner = <void*>operation
        self.pending.add(operation)
        with nogil:
            code = fb_io_channel_submit(&self.c, &operation.c)
        if code == 0:
            return operation
        self.pending.discard(operation)
        operation.release()
        self.raise_failure()
        fail(code, f"{self.path} is closed")

    def raise_failure(self):
        """Raise the failure, if there was one."""
        if self.c.failure.code < 0:
            raise_file_failure(&self.c.failure, self.path)

    def write(self, *parts, item=None, uint64_t offset=FB_IO_SEQUENTIAL):
        """Have one or two bytes-like objects written one behind the other; they are held until it is done.

        Parameters
        ----------
        *parts : bytes-like
        item : object, optional
            What the operation is to remember.
        offset : int, optional
            Bytes from the file's start; by default behind the operation before it.

        Returns
        -------
        IOOperation
        """
        return self.submit(self.make(FB_IO_WRITE, parts, item, offset))

    def read(self, *parts, item=None, uint64_t offset=FB_IO_SEQUENTIAL, bint exactly=True):
        """Have one or two writable objects filled; unless `exactly`, as far as the file goes."""
        return self.submit(self.make(FB_IO_READ if exactly else FB_IO_READ_UP, parts, item, offset))

    def make(self, int kind, tuple parts, item, uint64_t offset):
        """An operation with the bytes that it holds."""
        cdef IOOperation operation = IOOperation()
        if not 0 < len(parts) <= 2:
            raise ValueError(f"an operation has one or two parts, got {len(parts)}")
        operation.item = item
        operation.c.kind = <fb_io_operation_kind>kind
        operation.c.offset = offset
        for i, part in enumerate(parts):
            PyObject_GetBuffer(part, &operation.views[<int>i], PyBUF_SIMPLE if kind == FB_IO_WRITE else PyBUF_WRITABLE)
            operation.view_count += 1
            operation.c.parts[<int>i].iov_base = operation.views[<int>i].buf
            operation.c.parts[<int>i].iov_len = <size_t>operation.views[<int>i].len
        return operation

    def take(self, int64_t timeout_ms=-1):
        """Take the operation that is done next.

        Parameters
        ----------
        timeout_ms : int, default -1
            Milliseconds to wait for it; negative: as long as there are any under way.

        Returns
        -------
        IOOperation or None
            None: none is done in time, or none is under way. One that failed is not `is_done`; nothing was raised.
        """
        cdef fb_io_operation* done = NULL
        cdef int64_t slice_ms
        while True:
            slice_ms = SLICE_MS if timeout_ms < 0 or timeout_ms > SLICE_MS else timeout_ms
            with nogil:
                done = fb_io_channel_take(&self.c, slice_ms)
            if done is not NULL:
                return self.adopt(done)
            PyErr_CheckSignals()
            if timeout_ms >= 0:
                timeout_ms -= slice_ms
                if timeout_ms <= 0:
                    return None
            elif fb_io_channel_outstanding(&self.c) == 0:
                # What was done between the two looks.
                done = fb_io_channel_take(&self.c, 0)
                return None if done is NULL else self.adopt(done)

    cdef IOOperation adopt(self, fb_io_operation* done):
        cdef IOOperation operation = <IOOperation>done.owner
        self.pending.discard(operation)
        operation.release()
        return operation

    def close(self, bint deletes=False):
        """Wait for what is under way, then close the file, and delete it if `deletes`; closing again does nothing."""
        cdef fb_file_failure failure
        cdef int code
        with nogil:
            code = fb_io_channel_close(&self.c, deletes, &failure)
        if code < 0:
            raise_file_failure(&failure, self.path)

    @property
    def outstanding_count(self):
        """Operations that are under way."""
        return fb_io_channel_outstanding(&self.c)
