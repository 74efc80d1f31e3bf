"""Numbers for the records that went to each channel, which are the same in whatever order these were written."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Calloc, PyMem_Free


cdef class RecordDigests:
    """A digest for each of the channels that one writer writes to.

    Parameters
    ----------
    channel_count : int

    Examples
    --------
    >>> import flinkbuf as fb
    >>> def digest_of(records):
    ...     digests = RecordDigests(1)
    ...     for channel, buffer in fb.write_buffers(records, "string", 1):
    ...         digests.add(channel, buffer)
    ...     return digests.value(0)
    >>> digest_of(["a", "b", "b"]) == digest_of(["b", "a", "b"]), digest_of(["a", "b"]) == digest_of(["a", "b", "b"])
    (True, False)
    """

    def __cinit__(self, uint32_t channel_count):
        self.channels = <fb_record_digest*>PyMem_Calloc(channel_count, sizeof(fb_record_digest))
        if self.channels is NULL:
            raise MemoryError(f"no memory for {channel_count} channels")
        self.channel_count = channel_count

    def __dealloc__(self):
        PyMem_Free(self.channels)

    def add(self, uint32_t channel, buffer):
        """Take the next buffer of a channel's stream."""
        cdef Py_buffer view
        self.check(channel)
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        fb_record_digest_add(&self.channels[channel], <const uint8_t*>view.buf, view.len)
        PyBuffer_Release(&view)

    def value(self, uint32_t channel):
        """Return the digest of the records of a channel; 0 for none."""
        self.check(channel)
        return self.channels[channel].sum

    cdef int check(self, uint32_t channel) except -1:
        if channel >= self.channel_count:
            raise IndexError(f"channel {channel} of {self.channel_count}")
        return 0
