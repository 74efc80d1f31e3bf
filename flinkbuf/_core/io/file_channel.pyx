"""A file: written from its front by one, read anywhere by many."""

import os

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

from flinkbuf._core.ground.errors cimport FB_ECORRUPT, FB_EIO, FB_ETOO_LARGE, FB_ETRUNCATED, fail

from flinkbuf.errors import CorruptDataError

cdef dict MODES = {"read": FB_FILE_READ, "create": FB_FILE_CREATE, "extend": FB_FILE_EXTEND}


cdef int raise_file_failure(const fb_file_failure* failure, object path) except -1:
    """Raise what a failure says: OSError with errno and path, or CorruptDataError with path and offset."""
    text = fb_file_failure_text(failure).decode("utf-8", "replace")
    if failure.code == FB_EIO:
        error = OSError(failure.error, text)
        error.filename = path
    elif failure.code in (FB_ECORRUPT, FB_ETRUNCATED, FB_ETOO_LARGE):
        error = CorruptDataError(text)
        error.path = path
    else:
        return fail(failure.code, text)
    error.offset = failure.offset
    raise error


cdef class FileChannel:
    """A file that is open; a context manager. Calls go on after signals and short writes.

    Parameters
    ----------
    path : path-like
    mode : {"read", "create", "extend"}, default "read"
        An existing file to read; a new one, which must not exist; an existing one to be written at its end. The last
        two can be read, too.

    Raises
    ------
    OSError
        By each method: with the file's path, the system's error, and the byte where it happened, as ``offset``.
    CorruptDataError
        While reading: the file ends there. It has ``path`` and ``offset``.

    References
    ----------
    Flink ``AbstractFileIOChannel``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory, FileChannel(f"{directory}/data", "create") as channel:
    ...     channel.write(b"some"), channel.write(b" bytes"), channel.read(2, 6), channel.size
    (4, 10, b'me byt', 10)
    """

    def __cinit__(self, path, str mode="read"):
        cdef fb_file_failure failure
        cdef int code
        cdef fb_file_mode opened
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
        self.path = os.fsdecode(path)
        encoded, opened = os.fsencode(path), MODES[mode]
        cdef const char* name = PyBytes_AS_STRING(encoded)
        if b"\0" in encoded:
            raise ValueError("a path has no zero byte")
        with nogil:
            code = fb_file_channel_open(&self.c, name, opened, &failure)
        if code < 0:
            raise_file_failure(&failure, self.path)

    def __dealloc__(self):
        cdef fb_file_failure failure
        fb_file_channel_close(&self.c, &failure)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def write(self, data):
        """Write all of a bytes-like object behind what is there; returns the file's length in bytes."""
        cdef Py_buffer view
        cdef fb_file_failure failure
        cdef iovec part
        cdef int code
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        part.iov_base, part.iov_len = view.buf, <size_t>view.len
        with nogil:
            code = fb_file_channel_write_all(&self.c, &part, 1, &failure)
        PyBuffer_Release(&view)
        if code < 0:
            raise_file_failure(&failure, self.path)
        return self.c.position

    def read(self, uint64_t offset, size_t size):
        """Return exactly `size` bytes from byte `offset` on."""
        cdef fb_file_failure failure
        cdef int code
        if offset + size > self.size:
            size_read = max(0, self.size - offset)  # before memory is taken for what is not there
            raise_short(self.path, offset + size_read, size - size_read)
        data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
        cdef char* to = PyBytes_AS_STRING(data)
        with nogil:
            code = fb_file_channel_read_exactly(&self.c, offset, to, size, &failure)
        if code < 0:
            raise_file_failure(&failure, self.path)
        return data

    def sync(self):
        """Wait until what was written is on the disk."""
        cdef fb_file_failure failure
        cdef int code
        with nogil:
            code = fb_file_channel_sync(&self.c, &failure)
        if code < 0:
            raise_file_failure(&failure, self.path)

    def close(self):
        """Close it; closing again does nothing."""
        cdef fb_file_failure failure
        cdef int code
        with nogil:
            code = fb_file_channel_close(&self.c, &failure)
        if code < 0:
            raise_file_failure(&failure, self.path)

    def close_and_delete(self):
        """Close it; the file is gone."""
        with nogil:
            fb_file_channel_close_and_delete(&self.c)

    @property
    def size(self):
        """Bytes in the file at this moment."""
        cdef fb_file_failure failure
        cdef uint64_t size = 0
        if fb_file_channel_get_size(&self.c, &size, &failure) < 0:
            raise_file_failure(&failure, self.path)
        return size

    @property
    def is_open(self):
        """Whether it is open."""
        return fb_file_channel_is_open(&self.c)


cdef raise_short(path, offset, missing):
    error = CorruptDataError(f"cannot read {path} at byte {offset}: the file ends here, {missing} bytes more were "
                             "expected; the file was cut off, or its writer did not come to its end")
    error.path, error.offset = path, offset
    raise error
