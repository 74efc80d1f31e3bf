"""BufferBuilder and BufferConsumer: the writing end and the reading end of a filling buffer."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

from flinkbuf._core.memory.buffer cimport FB_NONE, FB_DATA_TYPE_COUNT, Buffer, fb_buffer_release
from flinkbuf._core.ground.errors cimport FB_EREFERENCES, FB_ESTATE, fail


cdef class BufferBuilder:
    """The writing end of one pooled buffer.

    Comes from `LocalBufferPool.request`. Appended bytes are seen by the consumer after `commit`; after
    `finish` nothing more can be appended. `close`, or leaving the ``with`` block, gives the builder's
    reference back. One thread writes. Flink: ``BufferBuilder``.

    Examples
    --------
    >>> from flinkbuf import NetworkBufferPool
    >>> with NetworkBufferPool(4, segment_size=16) as network, network.create_buffer_pool(min=1) as pool:
    ...     with pool.request() as builder:
    ...         consumer = builder.create_buffer_consumer()
    ...         builder.append_and_commit(b"twenty bytes do not fit")
    ...         bytes(consumer.build())
    16
    b'twenty bytes do '
    """

    def __init__(self):
        raise TypeError("builders come from LocalBufferPool.request()")

    def __dealloc__(self):
        fb_buffer_builder_close(&self.c)

    @staticmethod
    cdef BufferBuilder adopt(fb_buffer* buffer):
        cdef BufferBuilder self
        try:
            self = BufferBuilder.__new__(BufferBuilder)
        except BaseException:
            fb_buffer_release(buffer)
            raise
        fb_buffer_builder_open(&self.c, buffer)
        return self

    cdef int check_writable(self) except -1:
        if self.c.buffer is NULL:
            return fail(FB_EREFERENCES, "this builder is closed")
        return fail(FB_ESTATE, "this builder is finished") if self.c.is_finished else 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def append(self, data):
        """Copy as much as fits; the consumer sees it after `commit`.

        Returns
        -------
        int
            Bytes taken from the front of `data`: fewer than it has when the buffer is full.
        """
        cdef Py_buffer view
        self.check_writable()
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            return fb_buffer_builder_append(&self.c, <const uint8_t*>view.buf, <size_t>view.len)
        finally:
            PyBuffer_Release(&view)

    def append_and_commit(self, data):
        """`append`, then `commit`."""
        taken = self.append(data)
        fb_buffer_builder_commit(&self.c)
        return taken

    def commit(self):
        """Let the consumer see everything appended."""
        self.check_writable()
        fb_buffer_builder_commit(&self.c)

    def finish(self):
        """Commit and mark the end; idempotent. Returns the bytes written."""
        if self.c.buffer is NULL:
            self.check_writable()
        return fb_buffer_builder_finish(&self.c)

    def trim(self, uint32_t size):
        """Set the bytes that may be written: at least what was, at most the segment; shrinks or widens."""
        self.check_writable()
        fb_buffer_builder_trim(&self.c, size)

    def create_buffer_consumer(self):
        """The one consumer of this builder; it reads what is written from now on. RuntimeError the second time."""
        return self.consumer(False)

    def create_buffer_consumer_from_beginning(self):
        """The same, reading from the first byte."""
        return self.consumer(True)

    cdef BufferConsumer consumer(self, bint from_beginning):
        cdef BufferConsumer consumer = BufferConsumer.__new__(BufferConsumer)
        if self.c.buffer is NULL:
            self.check_writable()
        if fb_buffer_builder_consumer(&self.c, from_beginning, &consumer.c) < 0:
            fail(FB_ESTATE, "this builder has its consumer already")
        return consumer

    def close(self):
        """Give the builder's reference back; idempotent."""
        fb_buffer_builder_close(&self.c)

    @property
    def data_type(self):
        """What the consumer will say the bytes are: a number of `DataType`."""
        return self.c.data_type

    @data_type.setter
    def data_type(self, int value):
        self.check_writable()
        if self.c.has_consumer:
            fail(FB_ESTATE, "the data type is fixed once there is a consumer")
        if not FB_NONE < value < FB_DATA_TYPE_COUNT:
            raise ValueError(f"no such data type: {value}")
        self.c.data_type = <uint8_t>value

    @property
    def writable_bytes(self):
        """Bytes that can still be appended."""
        return fb_buffer_builder_writable(&self.c)

    @property
    def is_full(self):
        """Whether nothing more fits."""
        return bool(fb_buffer_builder_is_full(&self.c))

    @property
    def is_finished(self):
        """Whether `finish` was called."""
        return bool(self.c.is_finished)

    @property
    def is_closed(self):
        """Whether `close` was called."""
        return self.c.buffer is NULL


cdef class BufferConsumer:
    """The reading end of a filling buffer, made by its `BufferBuilder`. Flink: ``BufferConsumer``."""

    def __init__(self):
        raise TypeError("consumers come from BufferBuilder.create_buffer_consumer()")

    def __dealloc__(self):
        fb_buffer_consumer_close(&self.c)

    cdef int check_open(self) except -1:
        return fail(FB_EREFERENCES, "this consumer is closed") if self.c.buffer is NULL else 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def build(self):
        """A `Buffer` of what was committed since the last time; may be empty."""
        cdef fb_buffer_slice slice
        self.check_open()
        fb_buffer_consumer_build(&self.c, &slice)
        return Buffer.adopt(slice)

    def skip(self, uint32_t size):
        """Pass over `size` readable bytes. RuntimeError if there are fewer."""
        self.check_open()
        if fb_buffer_consumer_skip(&self.c, size) < 0:
            readable = fb_buffer_consumer_committed(&self.c) - self.c.reader_position
            fail(FB_ESTATE, f"cannot skip {size} bytes where {readable} are readable")

    def copy(self):
        """An independent reader from the same position; it sees later commits too."""
        cdef BufferConsumer copy = BufferConsumer.__new__(BufferConsumer)
        self.check_open()
        fb_buffer_consumer_copy(&self.c, &copy.c)
        return copy

    def copy_with_reader_position(self, uint32_t reader_position):
        """The same from a given position. ValueError beyond what was committed."""
        cdef BufferConsumer copy = BufferConsumer.__new__(BufferConsumer)
        self.check_open()
        code = fb_buffer_consumer_copy_at(&self.c, reader_position, &copy.c)
        if code < 0:
            fail(code, f"reader position {reader_position}, committed {fb_buffer_consumer_committed(&self.c)} bytes")
        return copy

    def close(self):
        """Give the consumer's reference back; idempotent. Built buffers stay."""
        fb_buffer_consumer_close(&self.c)

    @property
    def is_finished(self):
        """Whether a `build` or `skip` has seen the end: a cached fact, as in Flink."""
        return bool(fb_buffer_consumer_is_finished(&self.c))

    @property
    def is_data_available(self):
        """Whether a `build` now would give bytes."""
        self.check_open()
        return bool(fb_buffer_consumer_is_data_available(&self.c))

    @property
    def is_closed(self):
        """Whether `close` was called."""
        return self.c.buffer is NULL
