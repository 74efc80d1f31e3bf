"""Records of many subpartitions gathered in few segments, then read subpartition after subpartition."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Calloc, PyMem_Free

from flinkbuf._core.buffer cimport FB_DATA_BUFFER, FB_DATA_TYPE_COUNT, fb_buffer_data_type
from flinkbuf._core.errors cimport FB_EARGUMENT, FB_ESTATE, FB_RECORD, check, fail


cdef class DataBuffer:
    """A log of records that is read back sorted by subpartition.

    Its memory is fixed when it is made: `segment_count` segments, however many subpartitions there are. When
    `append` says that it is full, `finish`, read every buffer, `reset`, go on.

    Parameters
    ----------
    subpartition_count : int
        At least 1.
    segment_count : int
        At least 1.
    segment_size : int, default 32768
        Bytes in a segment, at least 16 (the index entry of a record).

    References
    ----------
    Flink ``SortBasedDataBuffer``.

    Examples
    --------
    >>> log = DataBuffer(2, segment_count=1, segment_size=60)
    >>> log.append(1, b"first"), log.append(0, b"second"), log.append(1, b"third")
    (True, True, False)
    >>> log.finish()
    >>> list(log)
    [(0, 1, b'second'), (1, 1, b'first')]
    >>> log.reset()
    >>> log.append(1, b"third")
    True
    """

    def __cinit__(self, uint32_t subpartition_count, uint32_t segment_count, uint32_t segment_size=32768):
        cdef uint32_t i
        if subpartition_count == 0 or segment_count == 0 or segment_size < 16:
            raise ValueError("a data buffer has at least 1 subpartition and 1 segment of at least 16 bytes, got "
                             f"{subpartition_count}, {segment_count} and {segment_size}")
        self.segments = <uint8_t**>PyMem_Calloc(segment_count, sizeof(uint8_t*))
        self.memory = <uint8_t*>PyMem_Calloc(segment_count, segment_size)
        if self.segments is NULL or self.memory is NULL:
            raise MemoryError
        for i in range(segment_count):
            self.segments[i] = self.memory + <size_t>i * segment_size
        check(fb_data_buffer_open(&self.c, subpartition_count, self.segments, segment_count, segment_size))

    def __dealloc__(self):
        fb_data_buffer_close(&self.c)
        PyMem_Free(self.segments)
        PyMem_Free(self.memory)
        PyMem_Free(self.order)

    def append(self, uint32_t subpartition, record, int data_type=FB_DATA_BUFFER):
        """Store one record (or event), whole or not at all.

        Parameters
        ----------
        subpartition : int
            Less than the number of subpartitions.
        record : bytes-like
            At least 1 byte.
        data_type : int, default 1
            The number of Flink's ``Buffer.DataType``: 1 is DATA_BUFFER.

        Returns
        -------
        bool
            False: it does not fit in what is left, and nothing was written.

        Raises
        ------
        ValueError
            For an empty record, or a subpartition or data type that does not exist.
        RuntimeError
            After `finish`.
        """
        cdef Py_buffer view
        cdef int code
        if not 0 < data_type < FB_DATA_TYPE_COUNT:
            raise ValueError(f"data_type must be from 1 to {FB_DATA_TYPE_COUNT - 1}, got {data_type}")
        PyObject_GetBuffer(record, &view, PyBUF_SIMPLE)
        code = fb_data_buffer_append(&self.c, subpartition, <fb_buffer_data_type>data_type, <const uint8_t*>view.buf,
                                     <size_t>view.len)
        size = view.len
        PyBuffer_Release(&view)
        if code == FB_ESTATE:
            fail(code, "the data buffer is finished: read it, then reset()")
        if code == FB_EARGUMENT:
            fail(code, f"{size} bytes for subpartition {subpartition} of {self.c.subpartition_count}")
        return check(code) == FB_RECORD

    def finish(self, order=None):
        """End writing and begin reading.

        Parameters
        ----------
        order : sequence of int, optional
            Each subpartition once, in the order they are to be read; by default 0, 1, 2 and so on.
        """
        cdef uint32_t* numbers
        if self.c.is_finished:
            fail(FB_ESTATE, "the data buffer is finished already")
        if order is not None:
            wanted = [int(number) for number in order]
            if sorted(wanted) != list(range(self.c.subpartition_count)):
                raise ValueError(f"order must hold each of the {self.c.subpartition_count} subpartitions once, got "
                                 f"{wanted}")
            numbers = <uint32_t*>PyMem_Calloc(self.c.subpartition_count, sizeof(uint32_t))
            if numbers is NULL:
                raise MemoryError
            for i, number in enumerate(wanted):
                numbers[<size_t>i] = number
            PyMem_Free(self.order)
            self.order = numbers
            fb_data_buffer_finish(&self.c, numbers)
        else:
            fb_data_buffer_finish(&self.c, NULL)

    def read(self, uint32_t capacity=0):
        """Take the next buffer: bytes of one subpartition and one data type.

        Parameters
        ----------
        capacity : int, optional
            Bytes in a buffer; by default those of a segment.

        Returns
        -------
        tuple of (int, int, bytes) or None
            Subpartition, data type, bytes; None when all has been read.

        Raises
        ------
        RuntimeError
            Before `finish`.
        """
        cdef uint32_t subpartition = 0, size
        cdef fb_buffer_data_type data_type = FB_DATA_BUFFER
        if not self.c.is_finished:
            fail(FB_ESTATE, "the data buffer is still being written: finish() it first")
        if capacity == 0:
            capacity = self.c.segment_size
        filled = PyBytes_FromStringAndSize(NULL, capacity)
        size = fb_data_buffer_read(&self.c, <uint8_t*>PyBytes_AS_STRING(filled), capacity, &subpartition, &data_type)
        return (subpartition, <int>data_type, filled[:size]) if size > 0 else None

    def __iter__(self):
        return iter(self.read, None)

    def reset(self):
        """Forget everything; the segments are empty again."""
        fb_data_buffer_reset(&self.c)

    @property
    def record_count(self):
        """Records stored since the last reset."""
        return self.c.record_count

    @property
    def total_size(self):
        """Bytes of the records stored, without their index entries."""
        return self.c.total_bytes

    @property
    def is_finished(self):
        """Whether it is being read."""
        return self.c.is_finished
