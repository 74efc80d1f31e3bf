"""The records of one channel, joined again from its buffers."""

import os

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Calloc, PyMem_Free

from flinkbuf._core.ground.errors cimport (
    FB_ECORRUPT, FB_EIO, FB_ESTATE, FB_ETOO_LARGE, FB_ETRUNCATED, FB_NEEDS_INPUT, FB_RECORD, fail,
)

from flinkbuf.errors import CorruptDataError

cdef extern from "ground/byte_order.h" nogil:
    uint32_t fb_load_be32(const uint8_t* data)

cdef enum:
    MAX_RECORD_SIZE = 0x7FFFFFFF  # a length is a signed 32-bit number


cdef str describe_length(const fb_record_deserializer* self, int code):
    cdef uint32_t bits = fb_load_be32(self.length_bytes)
    if code == FB_ECORRUPT:
        return (f"its length is negative ({<int64_t>bits - (1 << 32)}); these are not the bytes of a record writer, "
                "or bytes before them are missing")
    return (f"its length is {bits} bytes, over the limit of {self.options.max_record_size} (max_record_size); raise "
            "the limit if such records are meant, otherwise the bytes are damaged")


cdef str describe_rest(const fb_record_deserializer* self):
    if self.record_length < 0:
        return f"{self.length_count} of its 4 length bytes are there"
    return f"{self.accumulated} of its {self.record_length} bytes are there"


cdef int fail_record(const fb_record_deserializer* self, int code, int64_t channel) except -1:
    where = f"record {self.record_count} at byte {fb_record_deserializer_offset(self)}"
    where += f" of channel {channel}" if channel >= 0 else " of the stream"
    if code == FB_ECORRUPT or code == FB_ETOO_LARGE:
        raise CorruptDataError(f"{where}: {describe_length(self, code)}")
    if code == FB_ETRUNCATED:
        raise CorruptDataError(f"{where}: the stream ends inside it, {describe_rest(self)}; its writer failed, "
                               "or the last buffers are missing")
    if code == FB_EIO:
        raise OSError(self.io_errno, f"{os.strerror(self.io_errno)}: cannot spill {where} ({self.record_length} "
                      "bytes) to a temporary file; free or name other directories for spilling")
    return fail(code, where)


cdef class SpillPaths:
    """Directories for records that are too long for memory, as C has them; None: $TMPDIR or /tmp."""

    def __cinit__(self, paths):
        if paths is None:
            return
        self.encoded = [os.fsencode(path) for path in paths]
        if not self.encoded:
            raise ValueError("spill_dirs must name at least one directory, or be None for $TMPDIR or /tmp")
        self.c = <const char**>PyMem_Calloc(len(self.encoded) + 1, sizeof(char*))
        if self.c is NULL:
            raise MemoryError
        for i, path in enumerate(self.encoded):
            self.c[<size_t>i] = PyBytes_AS_STRING(path)

    def __dealloc__(self):
        PyMem_Free(self.c)


@cython.no_gc_clear  # so that __dealloc__ still finds the view's object, to release the view
cdef class RecordDeserializer:
    """Reads the records of one channel out of its buffers, wherever they are cut.

    Give it a buffer with `set_next_buffer`, iterate the records that are complete, give it the next one. A record
    that spans buffers is joined in memory; one longer than `spill_threshold` goes to a temporary file.

    Parameters
    ----------
    channel_index : int, default -1
        For messages: the channel the buffers come from; -1 where there is none.
    spill_threshold : int, default 5242880
        Bytes; a spanning record longer than this is gathered in a file, which no name leads to and which is gone
        with the record.
    max_record_size : int, default 2147483647
        Bytes; a longer length is an error before any memory is taken for it.
    spill_dirs : sequence of path-like, optional
        Where spill files are made; by default ``$TMPDIR`` or ``/tmp``.

    Raises
    ------
    CorruptDataError
        While iterating: a negative length, or one over `max_record_size`. In `finish`: the bytes end inside a
        record. The message names channel, record number (from 0) and byte offset in the channel's stream.
    OSError
        While iterating: a record could not be spilled. Nothing is lost; iterating again goes on.

    References
    ----------
    Flink ``SpillingAdaptiveSpanningRecordDeserializer``; bytes in ``tests/golden/spanning``.

    Examples
    --------
    >>> deserializer = RecordDeserializer()
    >>> deserializer.set_next_buffer(bytes([0, 0, 0, 2, 7, 8, 0, 0, 0, 3, 1]))
    >>> list(deserializer), deserializer.pending_size
    ([b'\\x07\\x08'], 5)
    >>> deserializer.set_next_buffer(bytes([2, 3]))
    >>> list(deserializer), deserializer.pending_size
    ([b'\\x01\\x02\\x03'], 0)
    >>> deserializer.finish()
    """

    def __cinit__(self, int64_t channel_index=-1, *, size_t spill_threshold=FB_SPILL_THRESHOLD_BYTES,
                  size_t max_record_size=MAX_RECORD_SIZE, spill_dirs=None):
        cdef fb_record_deserializer_options options
        if spill_threshold == 0:
            raise ValueError("spill_threshold must be at least 1 byte, got 0")
        if not 0 < max_record_size <= MAX_RECORD_SIZE:
            raise ValueError(f"max_record_size must be from 1 to {MAX_RECORD_SIZE} bytes, got {max_record_size}")
        self.channel_index = channel_index
        self.spill_paths = SpillPaths(spill_dirs)
        options.spill_threshold = spill_threshold
        options.max_record_size = max_record_size
        options.spill_dirs = self.spill_paths.c
        fb_record_deserializer_open(&self.c, &options)

    def __dealloc__(self):
        fb_record_deserializer_close(&self.c)
        if self.has_view:
            PyBuffer_Release(&self.view)

    cdef int enter(self) except -1:
        return fail(FB_ESTATE, "the deserializer is already at work, in this or another thread") if self.is_busy else 0

    cdef int release_buffer(self) except -1:
        if self.has_view:
            self.has_view = False
            self.is_busy = True  # the release may run code of the buffer's class
            PyBuffer_Release(&self.view)
            self.is_busy = False
        return 0

    def set_next_buffer(self, buffer):
        """Give the next bytes of the channel.

        Parameters
        ----------
        buffer : bytes-like
            Held, not copied, until its last record was read.

        Raises
        ------
        RuntimeError
            If the buffer before it still has unread records.
        """
        cdef Py_buffer view
        self.enter()
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        if fb_record_deserializer_set_next_buffer(&self.c, <const uint8_t*>view.buf, <size_t>view.len) < 0:
            PyBuffer_Release(&view)
            fail(FB_ESTATE, "the previous buffer has unread records: iterate them first, or clear()")
        self.release_buffer()
        self.view = view
        self.has_view = True

    def poll(self):
        """Take the next record that is complete, or None if more buffers are needed.

        Returns
        -------
        bytes or None
            The record without its length.
        """
        cdef const uint8_t* record = NULL
        cdef size_t size = 0
        cdef int code = FB_RECORD
        self.enter()
        if not fb_record_deserializer_take(&self.c, &record, &size):
            self.is_busy = True
            with nogil:
                code = fb_record_deserializer_next_spanning(&self.c, &record, &size)
            self.is_busy = False
        if code == FB_RECORD:
            return PyBytes_FromStringAndSize(<const char*>record, <Py_ssize_t>size)
        if code == FB_NEEDS_INPUT:
            self.release_buffer()
            return None
        fail_record(&self.c, code, self.channel_index)

    def __iter__(self):
        return iter(self.poll, None)

    def finish(self):
        """Say that the channel has ended.

        Raises
        ------
        CorruptDataError
            If it ends inside a record, or records are left unread.
        """
        self.enter()
        if self.c.pos != self.c.end:
            fail(FB_ESTATE, "the last buffer has unread records: iterate them first, or clear()")
        if fb_record_deserializer_pending(&self.c) > 0:
            fail_record(&self.c, FB_ETRUNCATED, self.channel_index)

    def clear(self):
        """Forget all partial data, the rest of the buffer and the spill file; it can be used anew."""
        self.enter()
        fb_record_deserializer_clear(&self.c)
        self.release_buffer()

    def unconsumed(self):
        """Return what has to be given first to another deserializer to bring it to this one's state.

        Returns
        -------
        bytes
            The gathered part of the record that is being joined, with its length, then the unread rest of the
            buffer. Flink ``getUnconsumedBuffer``.
        """
        cdef int64_t size
        self.enter()
        size = fb_record_deserializer_unconsumed(&self.c, 0, NULL, 0)
        copied = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
        size = fb_record_deserializer_unconsumed(&self.c, 0, <uint8_t*>PyBytes_AS_STRING(copied), <size_t>size)
        if size < 0:
            fail_record(&self.c, <int>size, self.channel_index)
        return copied

    @property
    def pending_size(self):
        """Bytes taken in that belong to a record not yet complete, its length included."""
        return fb_record_deserializer_pending(&self.c)

    @property
    def record_count(self):
        """Records handed out so far."""
        return self.c.record_count

    @property
    def stream_offset(self):
        """Byte offset of the record being joined, else of the one handed out last."""
        return fb_record_deserializer_offset(&self.c)
