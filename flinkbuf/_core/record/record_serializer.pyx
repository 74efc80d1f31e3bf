"""Length-prefixed records, cut over buffers of one size."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.string cimport memcpy

from flinkbuf._core.memory.buffer cimport (
    FB_DATA_BUFFER, fb_buffer_new_unpooled, fb_buffer_slice_data, fb_buffer_slice_release, fb_buffer_slice_retain,
)
from flinkbuf._core.memory.buffer_builder cimport (
    fb_buffer_builder_append, fb_buffer_builder_close, fb_buffer_builder_commit, fb_buffer_builder_finish,
    fb_buffer_builder_is_full, fb_buffer_builder_open,
)
from flinkbuf._core.ground.data_view cimport fb_data_output_prune, fb_data_output_reserve, fb_data_output_size
from flinkbuf._core.ground.errors cimport FB_NEEDS_BUFFER, check

cdef enum:
    MAX_SEGMENT_SIZE = 0x7FFFFFFF


cdef class RecordSerializer:
    """Writes records one after the other into buffers of `segment_size` bytes.

    A record is its length, 4 bytes big-endian, and its bytes; it starts where the last one ended and spans as many
    buffers as it takes.

    Parameters
    ----------
    segment_size : int, default 32768
        Bytes in a buffer, at least 1.

    References
    ----------
    Flink ``RecordWriter.serializeRecord``; bytes in ``tests/golden/spanning``.

    Examples
    --------
    >>> serializer = RecordSerializer(8)
    >>> serializer.serialize(b"abc")
    []
    >>> serializer.serialize(b"de")
    [b'\\x00\\x00\\x00\\x03abc\\x00']
    >>> serializer.flush()
    b'\\x00\\x00\\x02de'
    """

    def __cinit__(self, size_t segment_size=32768):
        cdef uint8_t* zeros
        cdef int code
        if not 0 < segment_size <= MAX_SEGMENT_SIZE:
            raise ValueError(f"segment_size must be from 1 to {MAX_SEGMENT_SIZE} bytes, got {segment_size}")
        zeros = <uint8_t*>PyMem_Calloc(segment_size, 1)
        if zeros is NULL:
            raise MemoryError
        code = fb_buffer_new_unpooled(zeros, segment_size, FB_DATA_BUFFER, &self.segment)
        PyMem_Free(zeros)
        check(code)

    def __dealloc__(self):
        fb_buffer_builder_close(&self.builder)
        fb_record_serializer_close(&self.c)
        fb_buffer_slice_release(&self.segment)

    cdef int open_builder(self) except -1:
        if self.builder.buffer is NULL:
            fb_buffer_slice_retain(&self.segment)  # for the builder
            fb_buffer_builder_open(&self.builder, self.segment.buffer)
        return 0

    cdef bytes take_buffer(self):
        cdef uint32_t size = fb_buffer_builder_finish(&self.builder)
        taken = PyBytes_FromStringAndSize(<const char*>fb_buffer_slice_data(&self.segment), size)
        fb_buffer_builder_close(&self.builder)
        return taken

    cdef int cut(self, list filled) except -1:
        cdef const uint8_t* data = self.c.output.start
        cdef size_t left = fb_data_output_size(&self.c.output)
        cdef size_t size
        while left > 0:
            self.open_builder()
            size = fb_buffer_builder_append(&self.builder, data, left)
            fb_buffer_builder_commit(&self.builder)
            data += size
            left -= size
            if fb_buffer_builder_is_full(&self.builder):
                filled.append(self.take_buffer())
        fb_data_output_prune(&self.c.output, FB_SCRATCH_KEEP_BYTES)
        return 0

    def serialize(self, record):
        """Append one record.

        Parameters
        ----------
        record : bytes-like
            Its bytes without the length; fewer than 2**31 - 4.

        Returns
        -------
        list of bytes
            The buffers that are full now; often none.
        """
        cdef Py_buffer view
        cdef list filled = []
        PyObject_GetBuffer(record, &view, PyBUF_SIMPLE)
        try:
            self.open_builder()
            check(fb_record_serializer_begin(&self.c, &self.builder))
            check(fb_data_output_reserve(&self.c.output, <size_t>view.len))
            memcpy(self.c.output.pos, view.buf, <size_t>view.len)
            self.c.output.pos += view.len
            if fb_record_serializer_end(&self.c, &self.builder) == FB_NEEDS_BUFFER:
                self.cut(filled)
            elif fb_buffer_builder_is_full(&self.builder):
                filled.append(self.take_buffer())
        finally:
            PyBuffer_Release(&view)
        return filled

    def flush(self):
        """Take what the unfinished buffer holds and start another.

        Returns
        -------
        bytes
            Empty if the last record ended with a buffer.
        """
        return b"" if self.builder.buffer is NULL else self.take_buffer()
