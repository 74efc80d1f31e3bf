"""Buffer: a counted, read-only view of a part of a memory segment."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize

from flinkbuf._core.ground.errors cimport FB_EREFERENCES, check, fail


cdef class Buffer:
    """A counted, read-only view of a part of a memory segment.

    Made by the library: pools, partitions and gates hand them out; `copy_of` makes one from bytes. It supports
    the buffer protocol. The segment goes back to its pool when every `Buffer` and every memoryview of it is
    gone or released, so release early what came from a pool: ``with buffer: ...``.
    Flink: ``Buffer``, ``NetworkBuffer``, ``ReadOnlySlicedNetworkBuffer``.

    Raises
    ------
    RuntimeError
        By every access after `release`.

    Examples
    --------
    >>> with Buffer.copy_of(b"some bytes", data_type=1) as buffer:
    ...     buffer.size, bytes(buffer), bytes(buffer.slice(5, 5))
    (10, b'some bytes', b'bytes')
    """

    def __init__(self):
        raise TypeError("buffers come from pools, partitions and gates, or from Buffer.copy_of()")

    def __dealloc__(self):
        fb_buffer_slice_release(&self.c)

    @staticmethod
    cdef Buffer adopt(fb_buffer_slice slice):
        cdef Buffer self
        try:
            self = Buffer.__new__(Buffer)
        except BaseException:
            fb_buffer_slice_release(&slice)
            raise
        self.c = slice
        return self

    @staticmethod
    def copy_of(data, int data_type=FB_DATA_BUFFER, bint is_compressed=False):
        """A buffer outside every pool that holds a copy of a bytes-like object.

        Parameters
        ----------
        data : bytes-like
        data_type : DataType
            What the bytes are; a buffer of data unless said otherwise.
        is_compressed : bool, default False
            Whether they are a compressed block.
        """
        cdef Py_buffer view
        cdef fb_buffer_slice slice
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            code = fb_buffer_new_unpooled(
                <const uint8_t*>view.buf, <size_t>view.len, <fb_buffer_data_type>data_type, &slice)
        finally:
            PyBuffer_Release(&view)
        if code < 0:
            fail(code, f"a buffer of {len(data)} items with data type {data_type}")
        slice.is_compressed = is_compressed
        return Buffer.adopt(slice)

    cdef int check_held(self) except -1:
        return fail(FB_EREFERENCES) if self.is_released else 0

    def __len__(self):
        return self.size

    def __bytes__(self):
        self.check_held()
        return PyBytes_FromStringAndSize(<const char*>fb_buffer_slice_data(&self.c), self.c.size)

    def __repr__(self):
        if self.is_released:
            return "<Buffer released>"
        compressed = ", compressed" if self.c.is_compressed else ""
        return f"<Buffer {self.c.size} bytes, data type {self.c.data_type}{compressed}>"

    def __getbuffer__(self, Py_buffer* view, int flags):
        self.check_held()
        PyBuffer_FillInfo(view, self, <void*>fb_buffer_slice_data(&self.c), self.c.size, True, flags)
        self.view_count += 1

    def __releasebuffer__(self, Py_buffer* view):
        self.view_count -= 1
        if self.is_released and self.view_count == 0:
            fb_buffer_slice_release(&self.c)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.release()

    def release(self):
        """Give this reference back; the last memoryview keeps the bytes until it goes. Idempotent."""
        self.is_released = True
        if self.view_count == 0:
            fb_buffer_slice_release(&self.c)

    def slice(self, Py_ssize_t offset, Py_ssize_t size):
        """A buffer of its own over a part of this one's bytes; nothing is copied.

        Raises
        ------
        IndexError
            The part does not lie inside.
        """
        cdef fb_buffer_slice part
        self.check_held()
        if offset < 0 or size < 0 or offset > self.c.size or size > self.c.size - offset:
            raise IndexError(f"{size} bytes at offset {offset} of a buffer of {self.c.size} bytes")
        check(fb_buffer_slice_part(&self.c, <uint32_t>offset, <uint32_t>size, &part))
        fb_buffer_slice_retain(&part)
        return Buffer.adopt(part)

    @property
    def size(self):
        """Readable bytes."""
        self.check_held()
        return self.c.size

    @property
    def data_type(self):
        """What the bytes are: a number of `DataType`."""
        self.check_held()
        return self.c.data_type

    @property
    def is_buffer(self):
        """Whether it holds data of records, not an event."""
        self.check_held()
        return bool(fb_buffer_data_type_is_buffer(<fb_buffer_data_type>self.c.data_type))

    @property
    def is_compressed(self):
        """Whether the bytes are one compressed block."""
        self.check_held()
        return bool(self.c.is_compressed)

    @property
    def is_recycled(self):
        """Whether `release` was called."""
        return bool(self.is_released)
