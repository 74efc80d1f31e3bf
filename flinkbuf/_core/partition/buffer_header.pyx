"""The eight bytes in front of every buffer in a file."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

from flinkbuf._core.ground.errors cimport fail

HEADER_SIZE = FB_BUFFER_HEADER_SIZE


def write_header(int data_type, bint is_compressed, uint32_t size):
    """Return the header of a buffer.

    Raises
    ------
    ValueError
        Buffers of this data type are not stored.

    Examples
    --------
    >>> write_header(1, True, 258).hex()
    '0000010002010000'
    """
    cdef fb_buffer_slice described
    described.data_type, described.is_compressed, described.size = <uint8_t>data_type, is_compressed, size
    header = PyBytes_FromStringAndSize(NULL, FB_BUFFER_HEADER_SIZE)
    code = fb_buffer_header_write(<uint8_t*>PyBytes_AS_STRING(header), &described)
    if code < 0:
        fail(code, f"a buffer of {size} bytes with data type {data_type} cannot be stored in a file")
    return header


def read_header(const unsigned char[::1] header not None):
    """Return data type, whether it is compressed, and size in bytes.

    Raises
    ------
    CorruptDataError

    Examples
    --------
    >>> read_header(bytes.fromhex("0000010002010000"))
    (1, True, 258)
    """
    cdef fb_buffer_header read
    if header.shape[0] != FB_BUFFER_HEADER_SIZE:
        raise ValueError(f"a header has {FB_BUFFER_HEADER_SIZE} bytes, got {header.shape[0]}")
    code = fb_buffer_header_read(&header[0], &read)
    if code < 0:
        fail(code, f"these are no header's: {bytes(header).hex()}")
    return read.data_type, bool(read.is_compressed), read.size
