"""CRC 32, the same as ``zlib.crc32`` but several times faster on most processors."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

cdef enum:
    GIL_FREE_SIZE = 1 << 20  # less is done before the interpreter has changed hands


def crc32(data, uint32_t value=0):
    """Return the checksum of what `value` is the checksum of, followed by `data`.

    Examples
    --------
    >>> hex(crc32(b"123456789"))
    '0xcbf43926'
    >>> crc32(b"6789", crc32(b"12345")) == crc32(b"123456789")
    True
    """
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    if view.len < GIL_FREE_SIZE:
        value = fb_crc32(value, view.buf, view.len)
    else:
        with nogil:
            value = fb_crc32(value, view.buf, view.len)
    PyBuffer_Release(&view)
    return value
