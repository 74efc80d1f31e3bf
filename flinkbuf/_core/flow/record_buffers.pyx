"""Records to buffers and back without a partition: what a Spark shuffle carries.

Writing: each channel fills a bytes object in place and hands it out when it is full, so a record is encoded
where it will be sent from and a buffer is never copied (`HashBufferWriter`, Flink's HashBasedDataBuffer). With so
many channels that one page each would not fit the memory allowed, records go to a shared log that is sorted by
channel when it is full (`SortBufferWriter`, Flink's SortBasedDataBuffer).

Both are iterators that pull records from an iterator of the caller: memory is bounded by the pages, and nothing
is read ahead of what is handed out. One thread at a time; the bytes belong to whoever receives them.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.string cimport memcpy

from flinkbuf._core.memory.buffer cimport FB_DATA_BUFFER, fb_buffer_data_type
from flinkbuf._core.record.channel_selector cimport (
    ChannelSelector, fb_channel_selector_is_blind, fb_channel_selector_next,
)
from flinkbuf._core.partition.data_buffer cimport (
    fb_data_buffer_append, fb_data_buffer_close, fb_data_buffer_finish, fb_data_buffer_open, fb_data_buffer_read,
    fb_data_buffer_reset,
)
from flinkbuf._core.ground.data_view cimport (
    fb_data_input, fb_data_output, fb_data_output_in_scratch, fb_data_output_prune,
)
from flinkbuf._core.ground.errors cimport FB_ETRUNCATED, FB_NEEDS_INPUT, FB_RECORD, check
from flinkbuf._core.value.inline_codec cimport inline_put, put
from flinkbuf._core.record.record_deserializer cimport (
    fail_record, fb_record_deserializer_close, fb_record_deserializer_next_spanning, fb_record_deserializer_open,
    fb_record_deserializer_pending, fb_record_deserializer_set_next_buffer, fb_record_deserializer_take,
)
from flinkbuf._core.record.record_serializer cimport (
    FB_LENGTH_BYTES, FB_SCRATCH_KEEP_BYTES, fb_record_serializer_begin_at, fb_record_serializer_close,
    fb_record_serializer_frame,
)
from flinkbuf._core.value.python_object cimport FB_IDENTITY
from flinkbuf._core.value.type_codec cimport TypeCodec, decode_value, encode_value

from flinkbuf.errors import CorruptDataError

cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject** bytes, Py_ssize_t size) except -1

cdef enum:
    BROADCAST = -1
    NO_RECORD = -2


cdef class RecordBufferWriter:
    """The iterator that both writers share: take records until a buffer is ready, then give it."""

    def __cinit__(self, records, TypeCodec codec not None, ChannelSelector selector not None, uint32_t segment_size,
                  *args):
        if segment_size == 0:
            raise ValueError("segment_size must be at least 1 byte, got 0")
        self.records = iter(records)
        self.codec = codec
        self.selector = selector
        self.channel_count = selector.channel_count
        self.segment_size = segment_size
        self.given_count = -1
        self.ready = []

    def __dealloc__(self):
        fb_record_serializer_close(&self.serializer)

    def __iter__(self):
        return self

    def __next__(self):
        if self.ready_next == len(self.ready):
            self.refill()
        pair = self.ready[self.ready_next]
        self.ready[self.ready_next] = None
        self.ready_next += 1
        return pair

    @property
    def record_count(self):
        """Records written so far."""
        return self._record_count

    cdef int refill(self) except -1:
        """Replace the buffers that were given by at least one more, or raise StopIteration."""
        if self.is_busy:
            raise RuntimeError("the buffer writer was used by the iterable that it is reading, by a value's own "
                               "conversion code, or by another thread")
        del self.ready[:]
        self.ready_next = 0
        self.is_busy = True
        try:
            if not self.fill_ready():
                raise StopIteration
        finally:
            self.is_busy = False
        return 0

    cdef int fill_ready(self) except -1:
        """Make at least one buffer ready; 0 at the end of everything."""
        return 0

    @cython.final
    cdef int64_t select(self, object record) except? -1:
        """The record's channel, or BROADCAST."""
        if fb_channel_selector_is_blind(&self.selector.c):
            return fb_channel_selector_next(&self.selector.c)
        if self.selector.is_broadcast:
            return BROADCAST
        self.selector.record_number = self.given_count - 1  # it counts on by itself
        return self.selector.select(record)

    cdef int encode(self, object record, uint8_t* start, uint8_t* end) except -1:
        """Frame the record in [start, end) or, if that is NULL or too small, in the scratch."""
        check(fb_record_serializer_begin_at(&self.serializer, start, end))
        self.serializer.output.record_number = self.given_count
        encode_value(self.codec, record, &self.serializer.output)
        self._record_count += 1
        return 0

    @cython.final
    cdef int add_ready(self, int64_t channel, object buffer) except -1:
        cdef uint32_t each
        if channel != BROADCAST:
            self.ready.append((channel, buffer))
            return 0
        for each in range(self.channel_count):
            self.ready.append((each, buffer))  # one object for all: nothing is copied
        return 0


cdef class HashBufferWriter(RecordBufferWriter):
    """One page a channel; a broadcast writes one page and gives it to every channel."""

    def __cinit__(self, records, TypeCodec codec not None, ChannelSelector selector not None, uint32_t segment_size):
        self.pages = <page*>PyMem_Calloc(self.channel_count, sizeof(page))
        if self.pages is NULL:
            raise MemoryError(f"no memory for {self.channel_count} channels")

    def __dealloc__(self):
        cdef uint32_t channel
        if self.pages is not NULL:
            for channel in range(self.channel_count):
                Py_XDECREF(self.pages[channel].bytes)
            PyMem_Free(self.pages)

    cdef int fill_ready(self) except -1:
        cdef int is_ready
        if self.is_exhausted:
            return 0
        self.has_record_in_hand = False  # it may be another call after a record that was refused
        for record in self.records:
            self.given_count += 1
            self.has_record_in_hand = True
            is_ready = self.write(record)
            self.has_record_in_hand = False
            if is_ready:
                return 1
        self.is_exhausted = True
        self.records = None
        self.finish()
        return len(self.ready) > 0

    @cython.final
    cdef inline int write(self, object record) except -1:
        """One record; 1 if that has made a buffer ready."""
        cdef int64_t channel = RecordBufferWriter.select(self, record)  # not through the table of virtual functions
        cdef page* target = &self.pages[0 if channel == BROADCAST else channel]
        cdef fb_data_output* output = &self.serializer.output
        cdef uint8_t* pos
        if target.bytes is NULL:
            self.open_page(target)
        check(fb_record_serializer_begin_at(&self.serializer, target.data + target.position,
                                            target.data + self.segment_size))
        output.record_number = self.given_count
        # As encode(), but in this loop: for records of one number the calls would cost as much as the work.
        pos = (<inline_put>put)(&self.codec.node, <PyObject*>record, output.pos, output)
        if pos == NULL:
            return self.codec.fail_encode(output, FB_LENGTH_BYTES)
        output.pos = pos
        self._record_count += 1
        if fb_data_output_in_scratch(output):
            self.append(channel, output.start, fb_record_serializer_frame(&self.serializer))
            return len(self.ready) > 0
        target.position += <uint32_t>fb_record_serializer_frame(&self.serializer)
        if target.position < self.segment_size:
            return 0
        self.close_page(channel)
        return 1

    cdef int append(self, int64_t channel, const uint8_t* data, size_t size) except -1:
        """Cut a framed record over as many pages as it takes."""
        cdef page* target = &self.pages[0 if channel == BROADCAST else channel]
        cdef size_t part
        while size > 0:
            if target.bytes is NULL:
                self.open_page(target)
            part = min(size, <size_t>(self.segment_size - target.position))
            memcpy(target.data + target.position, data, part)
            target.position += <uint32_t>part
            data += part
            size -= part
            if target.position == self.segment_size:
                self.close_page(channel)
        fb_data_output_prune(&self.serializer.output, FB_SCRATCH_KEEP_BYTES)
        return 0

    cdef int open_page(self, page* target) except -1:
        fresh = PyBytes_FromStringAndSize(NULL, self.segment_size)
        Py_INCREF(fresh)
        target.bytes = <PyObject*>fresh
        target.data = <uint8_t*>PyBytes_AS_STRING(fresh)
        target.position = 0
        return 0

    @cython.final
    cdef int close_page(self, int64_t channel) except -1:
        cdef page* target = &self.pages[0 if channel == BROADCAST else channel]
        cdef PyObject* filled = target.bytes
        target.bytes = NULL
        if target.position < self.segment_size:
            _PyBytes_Resize(&filled, target.position)
        buffer = <object>filled
        Py_XDECREF(filled)
        return self.add_ready(channel, buffer)

    cdef int finish(self) except -1:
        cdef uint32_t channel
        for channel in range(self.channel_count):
            if self.pages[channel].bytes is not NULL and self.pages[channel].position > 0:
                self.close_page(BROADCAST if self.selector.is_broadcast else <int64_t>channel)
        return 0


cdef class SortBufferWriter(RecordBufferWriter):
    """A log of `segment_count` segments for all channels, handed out by channel whenever it is full."""

    def __cinit__(self, records, TypeCodec codec not None, ChannelSelector selector not None, uint32_t segment_size,
                  uint32_t segment_count):
        cdef uint32_t i
        if segment_count == 0:
            raise ValueError("segment_count must be at least 1, got 0")
        self.waiting_channel = NO_RECORD
        self.segments = <uint8_t**>PyMem_Calloc(segment_count, sizeof(uint8_t*))
        if self.segments is NULL:
            raise MemoryError(f"no memory for {segment_count} segments")
        self.segment_count = segment_count
        for i in range(segment_count):
            self.segments[i] = <uint8_t*>PyMem_Malloc(segment_size)
            if self.segments[i] is NULL:
                raise MemoryError(f"no memory for {segment_count} segments of {segment_size} bytes")
        check(fb_data_buffer_open(&self.log, self.channel_count, self.segments, segment_count, segment_size))

    def __dealloc__(self):
        cdef uint32_t i
        fb_data_buffer_close(&self.log)
        if self.segments is not NULL:
            for i in range(self.segment_count):
                PyMem_Free(self.segments[i])
            PyMem_Free(self.segments)

    cdef int fill_ready(self) except -1:
        if self.is_draining and self.drain_one():
            return 1
        if self.is_exhausted:
            return 0
        self.has_record_in_hand = False  # it may be another call after a record that was refused
        for record in self.records:
            self.given_count += 1
            self.has_record_in_hand = True
            self.write(record)
            self.has_record_in_hand = False
            if len(self.ready):
                return 1
        self.is_exhausted = True
        self.records = None
        self.start_draining()
        return self.drain_one()

    @cython.final
    cdef int write(self, object record) except -1:
        cdef int64_t channel = self.select(record)
        cdef size_t size
        self.encode(record, NULL, NULL)
        size = fb_record_serializer_frame(&self.serializer)
        # A broadcast lies in the log once, under channel 0; every channel is handed the same buffers (add_ready).
        self.waiting_channel = 0 if channel == BROADCAST else channel
        if check(fb_data_buffer_append(&self.log, <uint32_t>self.waiting_channel, FB_DATA_BUFFER,
                                       self.serializer.output.start, size)) == FB_RECORD:
            self.waiting_channel = NO_RECORD
            return 0
        self.start_draining()  # the record waits in the scratch until the log has been handed out
        self.drain_one()
        return 0

    cdef int start_draining(self) except -1:
        fb_data_buffer_finish(&self.log, NULL)
        self.is_draining = True
        return 0

    cdef int drain_one(self) except -1:
        """Make one buffer of the full log ready; 0 when the log is empty again and the waiting record stored."""
        cdef uint32_t channel = 0
        cdef fb_buffer_data_type kind
        cdef uint32_t size
        cdef uint8_t* to
        page, self.spare = self.spare, None
        if page is None:
            page = PyBytes_FromStringAndSize(NULL, self.segment_size)
        to = <uint8_t*>PyBytes_AS_STRING(page)
        with nogil:
            size = fb_data_buffer_read(&self.log, to, self.segment_size, &channel, &kind)
        if size > 0:
            if size < self.segment_size:
                # With many channels most buffers are far from full: what is handed out is no larger than it has to be.
                self.spare = page
                page = PyBytes_FromStringAndSize(<const char*>to, size)
            self.add_ready(BROADCAST if self.selector.is_broadcast else <int64_t>channel, page)
            return 1
        self.spare = page if not self.is_exhausted else None
        fb_data_buffer_reset(&self.log)
        self.is_draining = False
        return self.store_waiting()

    cdef int store_waiting(self) except -1:
        cdef int64_t channel = self.waiting_channel
        cdef const uint8_t* framed = self.serializer.output.start
        cdef size_t size = <size_t>(self.serializer.output.pos - self.serializer.output.start)
        if channel == NO_RECORD:
            return 0
        self.waiting_channel = NO_RECORD
        if check(fb_data_buffer_append(&self.log, <uint32_t>channel, FB_DATA_BUFFER, framed, size)) == FB_RECORD:
            return 0
        self.cut(channel, framed, size)  # larger than the whole log
        fb_data_output_prune(&self.serializer.output, FB_SCRATCH_KEEP_BYTES)
        return 1

    cdef int cut(self, int64_t channel, const uint8_t* data, size_t size) except -1:
        cdef size_t part
        while size > 0:
            part = min(size, <size_t>self.segment_size)
            self.add_ready(BROADCAST if self.selector.is_broadcast else channel,
                           PyBytes_FromStringAndSize(<const char*>data, part))
            data += part
            size -= part
        return 0


cdef PyObject* decoded(RecordBufferReader reader, const uint8_t* record, size_t size) except NULL:
    """A new reference."""
    cdef fb_data_input* input = &reader.input
    cdef PyObject* value
    input.start = input.pos = record
    input.end = record + size
    input.record_number = <int64_t>reader.deserializer.record_count - 1
    value = decode_value(reader.codec, input)
    if input.pos != input.end:
        Py_XDECREF(value)
        raise CorruptDataError(
            f"record {input.record_number}: {size} bytes long, but the declared type used only "
            f"{input.pos - input.start} of them; was it written with another type?")
    return value


@cython.no_gc_clear  # so that __dealloc__ still finds the view's object, to release the view
cdef class RecordBufferReader:
    """The records in an iterable of buffers: one channel's, in the order they were written."""

    def __cinit__(self, buffers, TypeCodec codec not None, *args):
        self.buffers = iter(buffers)
        self.codec = codec
        self.input.channel = -1
        fb_record_deserializer_open(&self.deserializer, NULL)

    def __dealloc__(self):
        fb_record_deserializer_close(&self.deserializer)
        if self.has_view:
            PyBuffer_Release(&self.view)

    def __iter__(self):
        return self

    def __next__(self):
        cdef const uint8_t* record = NULL
        cdef size_t size = 0
        cdef PyObject* value
        if self.is_busy or not fb_record_deserializer_take(&self.deserializer, &record, &size):
            return self.next_spanning()
        # It lies whole in the buffer in hand, like most: nothing is prepared for an error before there is one.
        self.is_busy = True
        value = (<PyObject* (*)(RecordBufferReader, const uint8_t*, size_t) noexcept>decoded)(self, record, size)
        self.is_busy = False
        return FB_IDENTITY(value)

    @property
    def pending_bytes(self):
        """Bytes of a record that has begun in the buffers taken so far, and has not ended."""
        return fb_record_deserializer_pending(&self.deserializer)

    cdef object next_spanning(self):
        """The next record where it may take another buffer, or more."""
        cdef const uint8_t* record = NULL
        cdef size_t size = 0
        if self.is_busy:
            raise RuntimeError("the buffer reader was used by the iterable that it is reading, by a value's own "
                               "conversion code, or by another thread")
        self.is_busy = True
        try:
            self.find_record(&record, &size)
            return FB_IDENTITY(decoded(self, record, size))
        finally:
            self.is_busy = False

    cdef int find_record(self, const uint8_t** record, size_t* size) except -1:
        """The next record's bytes; StopIteration at the end."""
        cdef int code
        while not fb_record_deserializer_take(&self.deserializer, record, size):
            with nogil:
                code = fb_record_deserializer_next_spanning(&self.deserializer, record, size)
            if code == FB_RECORD:
                return 0
            if code != FB_NEEDS_INPUT:
                fail_record(&self.deserializer, code, -1)
            if not self.next_buffer():
                raise StopIteration
        return 0

    cdef int next_buffer(self) except -1:
        """Take the next buffer; 0 at the end, where nothing may be left of a record."""
        if self.has_view:
            self.has_view = False
            PyBuffer_Release(&self.view)
        if self.buffers is None:
            return 0
        buffer = next(self.buffers, self)
        if buffer is self:
            self.buffers = None
            if fb_record_deserializer_pending(&self.deserializer) > 0:
                fail_record(&self.deserializer, FB_ETRUNCATED, -1)
            return 0
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.has_view = True
        return 1 + check(fb_record_deserializer_set_next_buffer(
            &self.deserializer, <const uint8_t*>self.view.buf, <size_t>self.view.len))
