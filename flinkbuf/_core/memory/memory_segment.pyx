"""MemorySegment: a block of memory with a fixed size, and checked access to it."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.math cimport isfinite
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from flinkbuf._core.ground.errors cimport FB_EFREED, check, fail


cdef class MemorySegment:
    """A block of zeroed memory with a fixed size, and checked access to numbers in it.

    Offsets and sizes are in bytes. Names without a byte order use that of the host, as in Flink; those that
    end in ``_little_endian`` or ``_big_endian`` say theirs. The segment supports the buffer protocol (writable).
    Flink: ``MemorySegment``.

    Parameters
    ----------
    size : int
        Bytes.

    Raises
    ------
    IndexError
        By every access that does not lie inside; nothing is read or written then.
    RuntimeError
        By every access after `free`.
    OverflowError
        By ``put_...`` of a number that has too many bits.

    Examples
    --------
    >>> segment = MemorySegment(16)
    >>> segment.put_int_big_endian(3, 0x12345678)
    >>> bytes(segment)[3:7].hex()
    '12345678'
    >>> hex(segment.get_int_little_endian(3))
    '0x78563412'
    >>> segment.get_long(9)
    Traceback (most recent call last):
    IndexError: 8 bytes at offset 9 of a segment of 16 bytes: access outside the memory segment
    """

    def __cinit__(self, Py_ssize_t size):
        if size < 0:
            raise ValueError(f"size must not be negative, got {size}")
        check(fb_memory_segment_open(&self.c, <size_t>size))

    def __dealloc__(self):
        fb_memory_segment_close(&self.c)

    def __len__(self):
        return self.c.size

    def __repr__(self):
        return f"<MemorySegment {'freed' if self.is_freed else f'{self.c.size} bytes'}>"

    def __getbuffer__(self, Py_buffer* view, int flags):
        if self.c.data is NULL:
            self.refuse(FB_EFREED, 0, 0)
        # The view holds `self`, and with it the memory, until it is released.
        PyBuffer_FillInfo(view, self, self.c.data, <Py_ssize_t>self.c.size, False, flags)
        self.view_count += 1

    def __releasebuffer__(self, Py_buffer* view):
        self.view_count -= 1

    cdef int refuse(self, int code, Py_ssize_t offset, Py_ssize_t size) except -1:
        if code == FB_EFREED:
            return fail(code)
        return fail(code, f"{size} bytes at offset {offset} of a segment of {self.c.size} bytes")

    @property
    def size(self):
        """Bytes; 0 once freed."""
        return self.c.size

    @property
    def is_freed(self):
        """Whether `free` was called."""
        return bool(fb_memory_segment_is_freed(&self.c))

    def free(self):
        """Give the memory back now. A second call does nothing; a live memoryview is a BufferError."""
        if self.view_count > 0:
            raise BufferError(f"{self.view_count} memoryviews still look at this segment; release them before free()")
        fb_memory_segment_close(&self.c)

    def get(self, Py_ssize_t offset):
        """The byte at `offset`, 0 to 255."""
        cdef uint8_t bits = 0
        cdef int code = fb_memory_segment_get_u8(&self.c, <size_t>offset, &bits)
        return bits if code >= 0 else self.refuse(code, offset, 1)

    def put(self, Py_ssize_t offset, int value):
        """Store one byte, -128 to 255."""
        if not -128 <= value <= 255:
            raise OverflowError(f"a byte holds -128 to 255, got {value}")
        cdef int code = fb_memory_segment_put_u8(&self.c, <size_t>offset, <uint8_t>value)
        if code < 0:
            self.refuse(code, offset, 1)

    def get_boolean(self, Py_ssize_t offset):
        """Whether the byte at `offset` is not 0."""
        return self.get(offset) != 0

    def put_boolean(self, Py_ssize_t offset, bint value):
        """Store 1 for True, 0 for False."""
        self.put(offset, value)

    def get_short(self, Py_ssize_t offset):
        """Load a signed 16-bit number, the host's order."""
        cdef uint16_t bits = 0
        cdef int code = fb_memory_segment_get_u16(&self.c, <size_t>offset, &bits)
        return <int16_t>bits if code >= 0 else self.refuse(code, offset, 2)

    def put_short(self, Py_ssize_t offset, int16_t value):
        """Store a signed 16-bit number, the host's order."""
        cdef int code = fb_memory_segment_put_u16(&self.c, <size_t>offset, <uint16_t>value)
        if code < 0:
            self.refuse(code, offset, 2)

    def get_int(self, Py_ssize_t offset):
        """Load a signed 32-bit number, the host's order."""
        cdef uint32_t bits = 0
        cdef int code = fb_memory_segment_get_u32(&self.c, <size_t>offset, &bits)
        return <int32_t>bits if code >= 0 else self.refuse(code, offset, 4)

    def put_int(self, Py_ssize_t offset, int32_t value):
        """Store a signed 32-bit number, the host's order."""
        cdef int code = fb_memory_segment_put_u32(&self.c, <size_t>offset, <uint32_t>value)
        if code < 0:
            self.refuse(code, offset, 4)

    def get_long(self, Py_ssize_t offset):
        """Load a signed 64-bit number, the host's order."""
        cdef uint64_t bits = 0
        cdef int code = fb_memory_segment_get_u64(&self.c, <size_t>offset, &bits)
        return <int64_t>bits if code >= 0 else self.refuse(code, offset, 8)

    def put_long(self, Py_ssize_t offset, int64_t value):
        """Store a signed 64-bit number, the host's order."""
        cdef int code = fb_memory_segment_put_u64(&self.c, <size_t>offset, <uint64_t>value)
        if code < 0:
            self.refuse(code, offset, 8)

    def get_char(self, Py_ssize_t offset):
        """Load a UTF-16 unit as a string of length 1, the host's order."""
        return chr(self.get_short(offset) & 0xFFFF)

    def put_char(self, Py_ssize_t offset, str value):
        """Store a character that is one UTF-16 unit, the host's order."""
        self.put_short(offset, utf16_unit(value))

    def get_float(self, Py_ssize_t offset):
        """Load a 32-bit float, the host's order."""
        return float_of(<uint32_t><int32_t>self.get_int(offset))

    def put_float(self, Py_ssize_t offset, double value):
        """Store as a 32-bit float (rounded), the host's order."""
        self.put_int(offset, <int32_t>float_bits(value))

    def get_double(self, Py_ssize_t offset):
        """Load a 64-bit float, the host's order."""
        return double_of(<uint64_t><int64_t>self.get_long(offset))

    def put_double(self, Py_ssize_t offset, double value):
        """Store a 64-bit float, the host's order."""
        self.put_long(offset, <int64_t>double_bits(value))

    def get_short_little_endian(self, Py_ssize_t offset):
        """Load a signed 16-bit number, little-endian."""
        cdef uint16_t bits = 0
        cdef int code = fb_memory_segment_get_u16_le(&self.c, <size_t>offset, &bits)
        return <int16_t>bits if code >= 0 else self.refuse(code, offset, 2)

    def put_short_little_endian(self, Py_ssize_t offset, int16_t value):
        """Store a signed 16-bit number, little-endian."""
        cdef int code = fb_memory_segment_put_u16_le(&self.c, <size_t>offset, <uint16_t>value)
        if code < 0:
            self.refuse(code, offset, 2)

    def get_int_little_endian(self, Py_ssize_t offset):
        """Load a signed 32-bit number, little-endian."""
        cdef uint32_t bits = 0
        cdef int code = fb_memory_segment_get_u32_le(&self.c, <size_t>offset, &bits)
        return <int32_t>bits if code >= 0 else self.refuse(code, offset, 4)

    def put_int_little_endian(self, Py_ssize_t offset, int32_t value):
        """Store a signed 32-bit number, little-endian."""
        cdef int code = fb_memory_segment_put_u32_le(&self.c, <size_t>offset, <uint32_t>value)
        if code < 0:
            self.refuse(code, offset, 4)

    def get_long_little_endian(self, Py_ssize_t offset):
        """Load a signed 64-bit number, little-endian."""
        cdef uint64_t bits = 0
        cdef int code = fb_memory_segment_get_u64_le(&self.c, <size_t>offset, &bits)
        return <int64_t>bits if code >= 0 else self.refuse(code, offset, 8)

    def put_long_little_endian(self, Py_ssize_t offset, int64_t value):
        """Store a signed 64-bit number, little-endian."""
        cdef int code = fb_memory_segment_put_u64_le(&self.c, <size_t>offset, <uint64_t>value)
        if code < 0:
            self.refuse(code, offset, 8)

    def get_char_little_endian(self, Py_ssize_t offset):
        """Load a UTF-16 unit as a string of length 1, little-endian."""
        return chr(self.get_short_little_endian(offset) & 0xFFFF)

    def put_char_little_endian(self, Py_ssize_t offset, str value):
        """Store a character that is one UTF-16 unit, little-endian."""
        self.put_short_little_endian(offset, utf16_unit(value))

    def get_float_little_endian(self, Py_ssize_t offset):
        """Load a 32-bit float, little-endian."""
        return float_of(<uint32_t><int32_t>self.get_int_little_endian(offset))

    def put_float_little_endian(self, Py_ssize_t offset, double value):
        """Store as a 32-bit float (rounded), little-endian."""
        self.put_int_little_endian(offset, <int32_t>float_bits(value))

    def get_double_little_endian(self, Py_ssize_t offset):
        """Load a 64-bit float, little-endian."""
        return double_of(<uint64_t><int64_t>self.get_long_little_endian(offset))

    def put_double_little_endian(self, Py_ssize_t offset, double value):
        """Store a 64-bit float, little-endian."""
        self.put_long_little_endian(offset, <int64_t>double_bits(value))

    def get_short_big_endian(self, Py_ssize_t offset):
        """Load a signed 16-bit number, big-endian."""
        cdef uint16_t bits = 0
        cdef int code = fb_memory_segment_get_u16_be(&self.c, <size_t>offset, &bits)
        return <int16_t>bits if code >= 0 else self.refuse(code, offset, 2)

    def put_short_big_endian(self, Py_ssize_t offset, int16_t value):
        """Store a signed 16-bit number, big-endian."""
        cdef int code = fb_memory_segment_put_u16_be(&self.c, <size_t>offset, <uint16_t>value)
        if code < 0:
            self.refuse(code, offset, 2)

    def get_int_big_endian(self, Py_ssize_t offset):
        """Load a signed 32-bit number, big-endian."""
        cdef uint32_t bits = 0
        cdef int code = fb_memory_segment_get_u32_be(&self.c, <size_t>offset, &bits)
        return <int32_t>bits if code >= 0 else self.refuse(code, offset, 4)

    def put_int_big_endian(self, Py_ssize_t offset, int32_t value):
        """Store a signed 32-bit number, big-endian."""
        cdef int code = fb_memory_segment_put_u32_be(&self.c, <size_t>offset, <uint32_t>value)
        if code < 0:
            self.refuse(code, offset, 4)

    def get_long_big_endian(self, Py_ssize_t offset):
        """Load a signed 64-bit number, big-endian."""
        cdef uint64_t bits = 0
        cdef int code = fb_memory_segment_get_u64_be(&self.c, <size_t>offset, &bits)
        return <int64_t>bits if code >= 0 else self.refuse(code, offset, 8)

    def put_long_big_endian(self, Py_ssize_t offset, int64_t value):
        """Store a signed 64-bit number, big-endian."""
        cdef int code = fb_memory_segment_put_u64_be(&self.c, <size_t>offset, <uint64_t>value)
        if code < 0:
            self.refuse(code, offset, 8)

    def get_char_big_endian(self, Py_ssize_t offset):
        """Load a UTF-16 unit as a string of length 1, big-endian."""
        return chr(self.get_short_big_endian(offset) & 0xFFFF)

    def put_char_big_endian(self, Py_ssize_t offset, str value):
        """Store a character that is one UTF-16 unit, big-endian."""
        self.put_short_big_endian(offset, utf16_unit(value))

    def get_float_big_endian(self, Py_ssize_t offset):
        """Load a 32-bit float, big-endian."""
        return float_of(<uint32_t><int32_t>self.get_int_big_endian(offset))

    def put_float_big_endian(self, Py_ssize_t offset, double value):
        """Store as a 32-bit float (rounded), big-endian."""
        self.put_int_big_endian(offset, <int32_t>float_bits(value))

    def get_double_big_endian(self, Py_ssize_t offset):
        """Load a 64-bit float, big-endian."""
        return double_of(<uint64_t><int64_t>self.get_long_big_endian(offset))

    def put_double_big_endian(self, Py_ssize_t offset, double value):
        """Store a 64-bit float, big-endian."""
        self.put_long_big_endian(offset, <int64_t>double_bits(value))

    def get_bytes(self, Py_ssize_t offset, Py_ssize_t size):
        """A copy of `size` bytes."""
        cdef int code = fb_memory_segment_check(&self.c, <size_t>offset, <size_t>size)
        if code < 0:
            self.refuse(code, offset, size)
        return PyBytes_FromStringAndSize(<const char*>self.c.data + offset, size)

    def put_bytes(self, Py_ssize_t offset, data):
        """Store all of a bytes-like object."""
        cdef Py_buffer view
        cdef int code
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            # Not memcpy: `data` may be a view of this segment.
            code = fb_memory_segment_check(&self.c, <size_t>offset, <size_t>view.len)
            if code < 0:
                self.refuse(code, offset, view.len)
            memmove(self.c.data + offset, view.buf, <size_t>view.len)
        finally:
            PyBuffer_Release(&view)

    def copy_to(self, Py_ssize_t offset, MemorySegment target not None, Py_ssize_t target_offset, Py_ssize_t size):
        """Copy `size` bytes into another segment, or to another place of this one."""
        cdef int code = fb_memory_segment_copy_to(&self.c, <size_t>offset, &target.c, <size_t>target_offset,
                                                  <size_t>size)
        if code < 0:
            fail(code, f"{size} bytes from {offset} of {self!r} to {target_offset} of {target!r}")

    def swap_bytes(self, MemorySegment other not None, Py_ssize_t offset, Py_ssize_t other_offset, Py_ssize_t size):
        """Exchange `size` bytes with another segment. Overlapping ranges are a ValueError."""
        cdef int code = fb_memory_segment_swap_bytes(&self.c, <size_t>offset, &other.c, <size_t>other_offset,
                                                     <size_t>size)
        if code < 0:
            fail(code, f"{size} bytes at {offset} of {self!r} with those at {other_offset} of {other!r}")

    def compare(self, MemorySegment other not None, Py_ssize_t offset, Py_ssize_t other_offset, Py_ssize_t size,
                other_size=None):
        """Order two ranges as unsigned bytes, the shorter first.

        Returns
        -------
        int
            Below 0, 0 or above 0; the same values as Flink's ``compare``.
        """
        cdef int32_t order = 0
        cdef fb_segment_range left, right
        set_range(&left, self, offset, size)
        set_range(&right, other, other_offset, size if other_size is None else other_size)
        cdef int code = fb_memory_segment_compare(&left, &right, &order)
        if code < 0:
            fail(code, f"{size} bytes at {offset} of {self!r}, {right.size} at {other_offset} of {other!r}")
        return order

    def equal_to(self, MemorySegment other not None, Py_ssize_t offset, Py_ssize_t other_offset, Py_ssize_t size):
        """Whether two ranges of `size` bytes are the same."""
        cdef c_bool is_equal = False
        cdef fb_segment_range left, right
        set_range(&left, self, offset, size)
        set_range(&right, other, other_offset, size)
        cdef int code = fb_memory_segment_equal_to(&left, &right, &is_equal)
        if code < 0:
            fail(code, f"{size} bytes at {offset} of {self!r} and at {other_offset} of {other!r}")
        return bool(is_equal)


cdef void set_range(fb_segment_range* part, MemorySegment segment, Py_ssize_t offset, Py_ssize_t size) noexcept:
    part.segment = &segment.c
    part.offset = <size_t>offset
    part.size = <size_t>size


cdef int16_t utf16_unit(str value) except? -1:
    if len(value) != 1 or ord(value) > 0xFFFF:
        raise ValueError(f"one UTF-16 unit is one character up to U+FFFF, got {value!r}")
    return <int16_t><uint16_t>ord(value)


cdef uint32_t float_bits(double value) except? 0xFFFFFFFF:
    cdef float narrow = <float>value
    cdef uint32_t bits
    if isfinite(value) and not isfinite(narrow):
        raise OverflowError(f"{value!r} is too large for a 32-bit float")
    memcpy(&bits, &narrow, sizeof(bits))
    return bits


cdef double float_of(uint32_t bits) noexcept:
    cdef float narrow
    memcpy(&narrow, &bits, sizeof(bits))
    return narrow


cdef uint64_t double_bits(double value) noexcept:
    cdef uint64_t bits
    memcpy(&bits, &value, sizeof(bits))
    return bits


cdef double double_of(uint64_t bits) noexcept:
    cdef double value
    memcpy(&value, &bits, sizeof(bits))
    return value
