"""XXH64, and what to append to bytes so that they have a wanted hash."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer


cdef int add_all(fb_xxh64* state, parts) except -1:
    cdef Py_buffer view
    fb_xxh64_start(state)
    for part in parts:
        PyObject_GetBuffer(part, &view, PyBUF_SIMPLE)
        fb_xxh64_add(state, <const uint8_t*>view.buf, view.len)
        PyBuffer_Release(&view)
    return 0


def xxh64(*parts):
    """Return the XXH64, with seed 0, of some bytes one behind the other.

    Examples
    --------
    >>> hex(xxh64(b"ab", b"c"))
    '0x44bc2cf5ad770999'
    """
    cdef fb_xxh64 state
    add_all(&state, parts)
    return fb_xxh64_value(&state)


def last_word(uint64_t wanted, *parts):
    """Return the 8 bytes that, behind `parts`, make their hash `wanted`.

    Raises
    ------
    ValueError
        If the parts have 8 * n + 1 to 7, or 32 * n + 24 bytes.

    Examples
    --------
    >>> xxh64(b"12345678", last_word(4711, b"12345678"))
    4711
    """
    cdef fb_xxh64 state
    add_all(&state, parts)
    if state.size % 32 not in (0, 8, 16):
        raise ValueError(f"no 8 bytes behind {state.size} have a hash of their own choice: make it 32 * n, + 8 or + 16")
    return int(fb_xxh64_last_word(&state, wanted)).to_bytes(8, "little")
