"""Batches of columns into the streams of many channels: whole rows at a time, without a Python object for any.

A chunk of rows is measured and hashed, then written straight to where the channels' buffers end; only the row at a
buffer's edge goes the ordinary way. The bytes are those that the same rows have as records.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from flinkbuf._core.columns.arrow_column cimport FB_ARROW_STRUCT, ArrowBatch, ArrowPlan, fb_arrow_column, path_of
from flinkbuf._core.columns.arrow_key cimport fb_arrow_key_close, fb_arrow_key_hash
from flinkbuf._core.columns.arrow_rows cimport (
    FB_ARROW_ROWS_SLACK, fb_arrow_rows, fb_arrow_rows_close, fb_arrow_rows_measure, fb_arrow_rows_open,
    fb_arrow_rows_pack, fb_arrow_rows_scatter,
)
from flinkbuf._core.memory.buffer cimport FB_DATA_BUFFER
from flinkbuf._core.memory.buffer_builder cimport fb_buffer_builder, fb_buffer_builder_commit
from flinkbuf._core.record.channel_selector cimport (
    FB_SELECT_RANGE, ChannelSelector, KeyField, KeyGroupSelector, fb_channel_selector_is_blind,
    fb_channel_selector_next_many, fb_channel_selector_of_hashes,
)
from flinkbuf._core.partition.data_buffer cimport fb_data_buffer_append
from flinkbuf._core.ground.data_view cimport fb_data_output_close, fb_data_output_reserve, fb_data_output_start_scratch
from flinkbuf._core.ground.errors cimport FB_NEEDS_BUFFER, FB_RECORD, check
from flinkbuf._core.columns.range_selector cimport BatchRanges, RangeSelector
from flinkbuf._core.flow.record_buffers cimport RecordBufferWriter, SortBufferWriter
from flinkbuf._core.flow.record_writer cimport RecordWriter, emit_bytes
from flinkbuf._core.partition.result_partition cimport (
    fb_result_partition_flush_all, fb_result_partition_mark_written, unclaim_partition,
)
from flinkbuf._core.value.type_codec cimport TypeCodec

from flinkbuf.errors import record_refused

cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject** bytes, Py_ssize_t size) except -1

cdef enum:
    BROADCAST = -1
    COMMIT_ROWS = 16384  # readers see the rows of so many at once


cdef class RowChunks:
    """The rows of batches, a chunk at a time, with the size and the channel of each.

    Parameters
    ----------
    codec : TypeCodec
        Of the records.
    selector : ChannelSelector
        Where they go.
    """

    def __cinit__(self, TypeCodec codec not None, ChannelSelector selector not None):
        if selector.kind == "custom":
            raise TypeError("a partitioner that is a function of a record cannot be asked for rows of a batch: give "
                            "the channels, by_key(...) of fields, or records")
        self.codec, self.selector = codec, selector
        self.counts = <uint64_t*>PyMem_Calloc(selector.channel_count, sizeof(uint64_t))
        if self.counts is NULL:
            raise MemoryError(f"no memory for {selector.channel_count} channels")

    def __dealloc__(self):
        PyMem_Free(self.counts)
        fb_arrow_rows_close(&self.rows)
        fb_arrow_key_close(&self.key)
        fb_data_output_close(&self.scratch)
        PyMem_Free(self.key.columns)

    cdef int bind(self, ArrowBatch batch) except -1:
        """Begin a batch."""
        if self.plan is None or self.planned_for != batch.schema or self.planned_owner is not batch.owner:
            self.planned_owner = None
            fb_arrow_rows_close(&self.rows)
            self.plan = ArrowPlan(self.codec, batch)
            check(fb_arrow_rows_open(&self.rows, &self.plan.root))
            self.bind_key()
            self.planned_for, self.planned_owner = batch.schema, batch.owner
        self.plan.bind(batch)
        self.batch = batch
        self.next_row = 0
        self.rows.count = self.position = 0
        self.fault.column = NULL
        return 0

    cdef int bind_key(self) except -1:
        cdef KeyField field
        cdef uint32_t i
        if isinstance(self.selector, RangeSelector):
            self.ranges = BatchRanges(self.selector)
            self.ranges.bind(self.plan)
        if not isinstance(self.selector, KeyGroupSelector):
            return 0
        fields = (<KeyGroupSelector>self.selector).fields
        PyMem_Free(self.key.columns)
        self.key.columns = <const fb_arrow_column**>PyMem_Calloc(len(fields), sizeof(fb_arrow_column*))
        if self.key.columns is NULL:
            raise MemoryError
        self.key.column_count = <uint32_t>len(fields)
        for i, field in enumerate(fields):
            if field.function is not None:
                raise TypeError(f"{field.label} is a function of a record, which cannot be asked for rows of a batch: "
                                "key by fields, or write records")
            if field.index < 0 and field.name is None:
                self.key.columns[i] = &self.plan.root
            elif self.plan.root.arrow.kind == FB_ARROW_STRUCT and 0 <= field.index < self.plan.root.child_count:
                self.key.columns[i] = &self.plan.root.children[field.index]
            else:
                raise TypeError(f"{field.label} is no field of {self.codec!r}")
        return 0

    cdef int next_chunk(self) except -1:
        """Whether there are more rows; also with none of them, where the first one is at fault."""
        if self.fault.column is not NULL:
            self.raise_fault()
        if self.next_row >= self.plan.root.length:
            self.batch = None
            return 0
        with nogil:
            fb_arrow_rows_measure(&self.rows, self.next_row, &self.fault)
            self.find_channels()
        self.next_row += self.rows.count
        self.position = 0
        return 1

    cdef int find_channels(self) except -1 nogil:
        cdef uint32_t* to = self.rows.channels
        cdef uint32_t i
        cdef int code = 0
        if self.channels is not NULL:
            memcpy(to, self.channels + self.rows.first, self.rows.count * sizeof(uint32_t))
        elif fb_channel_selector_is_blind(&self.selector.c):
            fb_channel_selector_next_many(&self.selector.c, self.rows.count, to)
        elif self.selector.is_broadcast:
            for i in range(self.rows.count):
                to[i] = 0
        elif self.selector.c.kind == FB_SELECT_RANGE:
            code = self.ranges.find_channels(&self.rows, to)
        else:
            code = fb_arrow_key_hash(&self.key, &self.rows, <int32_t*>to, &self.fault)
            if code >= 0:
                fb_channel_selector_of_hashes(&self.selector.c, <int32_t*>to, self.rows.count, to)
        if code < 0:
            with gil:
                check(code)
        if self.channels is NULL:
            for i in range(self.rows.count):
                self.counts[to[i]] += 1
        return 0

    cdef list channel_counts(self):
        return [self.counts[i] for i in range(self.selector.channel_count)]

    cdef int raise_fault(self) except -1:
        where = path_of(self.fault.column)
        row = self.fault.row
        reason = (<bytes>self.fault.reason).decode("ascii")
        self.fault.column = NULL
        self.batch = None
        text = f"row {row} of the batch: {where}: {reason}; the rows before it were written"
        raise record_refused(ValueError(text), row, "type", where)

    cdef int pack(self, uint32_t start, uint32_t count, size_t* size) except -1:
        """Rows of the chunk one behind the other, in the scratch."""
        cdef uint32_t i
        size[0] = 0
        for i in range(start, start + count):
            size[0] += self.rows.sizes[i]
        fb_data_output_start_scratch(&self.scratch)
        # A chunk may be larger than one record may be; the scratch grows as if it were one.
        check(fb_data_output_reserve(&self.scratch, size[0] + FB_ARROW_ROWS_SLACK))
        with nogil:
            fb_arrow_rows_pack(&self.rows, start, count, self.scratch.start)
        return 0


def channels_of_rows(RowChunks chunks not None, ArrowBatch batch not None):
    """The channel of each row of a batch: an array of uint32."""
    import numpy

    cdef Py_ssize_t count = len(batch)
    cdef Py_ssize_t position = 0
    found = numpy.empty(count, numpy.uint32)
    cdef uint32_t[::1] view = found
    chunks.bind(batch)
    chunks.channels = NULL
    while chunks.next_chunk():
        if chunks.rows.count:
            memcpy(&view[position], chunks.rows.channels, chunks.rows.count * sizeof(uint32_t))
        position += chunks.rows.count
    return found


# --- to a result partition


cdef int write_edge(RecordWriter writer, RowChunks chunks, uint32_t i, bint is_broadcast) except -1:
    """A row whose record is cut by the end of a buffer."""
    cdef size_t size
    chunks.pack(i, 1, &size)
    if is_broadcast:
        return writer.append_broadcast(chunks.scratch.start, size)
    return writer.append_unicast(chunks.rows.channels[i], chunks.scratch.start, size)


cdef int64_t emit_rows(RecordWriter writer, RowChunks chunks, uint32_t start, bint is_broadcast) except -1:
    """Rows of the chunk to a partition that takes records, as long as it does; how many."""
    cdef uint32_t count = chunks.rows.count
    cdef uint32_t target = writer.c.subpartition_count
    cdef uint32_t i = start
    cdef const uint8_t* row
    cdef const uint8_t* rest = NULL
    cdef size_t size
    cdef int code = 0
    chunks.pack(start, count - start, &size)
    row = chunks.scratch.start
    while i < count and writer.c.takes_records:
        with nogil:
            while i < count and writer.c.takes_records:
                if not is_broadcast:
                    target = chunks.rows.channels[i]
                rest, size = row, chunks.rows.sizes[i]
                code = emit_bytes(writer.c, target, &rest, &size)
                if code != FB_RECORD:
                    break
                row += chunks.rows.sizes[i]
                writer.c.record_counts[target] += 1
                i += 1
        if code != FB_RECORD:
            while writer.partition.check_written(code) == FB_NEEDS_BUFFER:
                writer.wait_for_buffer()
                code = emit_bytes(writer.c, target, &rest, &size)
            row += chunks.rows.sizes[i]
            writer.c.record_counts[target] += 1
            i += 1
    return i - start


cdef int64_t write_stopped(RecordWriter writer, RowChunks chunks, uint32_t i, bint is_broadcast) except -1:
    """A row that its channel's builder had no room for, or had no builder; how many rows are written."""
    cdef uint32_t channel = chunks.rows.channels[i]
    cdef uint32_t mark = writer.c.subpartition_count if is_broadcast else channel
    cdef fb_buffer_builder* builder = &writer.c.broadcast if is_broadcast else &writer.c.unicast[channel]
    if builder.buffer is NULL:
        if is_broadcast:
            writer.open_broadcast()
        else:
            writer.open_unicast(channel)
        if builder.buffer is not NULL and builder.capacity - builder.position > chunks.rows.sizes[i]:
            return 0  # now it has room
    if builder.buffer is not NULL:
        fb_buffer_builder_commit(builder)
        write_edge(writer, chunks, i, is_broadcast)
    elif writer.c.takes_records:
        return emit_rows(writer, chunks, i, is_broadcast)
    # else its reader is gone
    writer.c.record_counts[mark] += 1
    fb_result_partition_mark_written(writer.c, mark)
    return 1


cdef int write_chunk(RecordWriter writer, RowChunks chunks) except -1:
    cdef bint is_broadcast = writer.selector.is_broadcast and chunks.channels is NULL
    cdef uint32_t n = writer.c.subpartition_count
    cdef uint32_t i = 0
    writer.has_uncommitted = not is_broadcast
    while i < chunks.rows.count:
        with nogil:
            if is_broadcast:
                i += fb_arrow_rows_scatter(&chunks.rows, i, &writer.c.broadcast, 1, &writer.c.record_counts[n])
            else:
                i += fb_arrow_rows_scatter(&chunks.rows, i, writer.c.unicast, n, writer.c.record_counts)
        if i < chunks.rows.count:
            i += <uint32_t>write_stopped(writer, chunks, i, is_broadcast)
            writer.has_uncommitted = not is_broadcast
    if is_broadcast and writer.c.broadcast.buffer is not NULL:
        fb_buffer_builder_commit(&writer.c.broadcast)
        fb_result_partition_mark_written(writer.c, n)
    return 0


def write_batch(RecordWriter writer not None, RowChunks chunks not None, ArrowBatch batch not None, channels=None):
    """Write the rows of a batch; returns how many. `channels`: an array of uint32, one a row, each a channel."""
    cdef const uint32_t[::1] targets = channels
    cdef int64_t uncommitted = 0
    cdef int64_t before = writer._record_count
    if writer.is_of_elements:
        raise TypeError("a batch is written as records, not as elements of a stream: make the writer with the records' "
                        "own type")
    chunks.bind(batch)
    chunks.channels = NULL if channels is None or targets.shape[0] == 0 else &targets[0]
    writer.begin_use()
    try:
        while chunks.next_chunk():
            write_chunk(writer, chunks)
            writer._record_count += chunks.rows.count
            writer.given_count += chunks.rows.count
            uncommitted += chunks.rows.count
            if uncommitted >= COMMIT_ROWS and writer.has_uncommitted:
                writer.commit_column()
                uncommitted = 0
    finally:
        if writer.has_uncommitted:
            writer.commit_column()
        unclaim_partition(writer.partition)
        if writer.flushes_always:
            with nogil:
                fb_result_partition_flush_all(writer.c)
    return writer._record_count - before


# --- to buffers without a partition


cdef class HashBatchWriter(RecordBufferWriter):
    """As HashBufferWriter, for batches: one page a channel.

    Parameters
    ----------
    batches : iterable of ArrowBatch
    codec, selector, segment_size
        As there.
    """

    cdef RowChunks chunks
    cdef fb_buffer_builder* pages   # `buffer` is not used: data NULL, there is none
    cdef PyObject** bytes
    cdef uint64_t* counts

    def __cinit__(self, batches, TypeCodec codec not None, ChannelSelector selector not None, uint32_t segment_size):
        self.chunks = RowChunks(codec, selector)
        self.pages = <fb_buffer_builder*>PyMem_Calloc(self.channel_count, sizeof(fb_buffer_builder))
        self.bytes = <PyObject**>PyMem_Calloc(self.channel_count, sizeof(PyObject*))
        self.counts = <uint64_t*>PyMem_Calloc(self.channel_count, sizeof(uint64_t))
        if self.pages is NULL or self.bytes is NULL or self.counts is NULL:
            raise MemoryError(f"no memory for {self.channel_count} channels")

    def __dealloc__(self):
        cdef uint32_t channel
        if self.bytes is not NULL:
            for channel in range(self.channel_count):
                Py_XDECREF(self.bytes[channel])
        PyMem_Free(self.bytes)
        PyMem_Free(self.pages)
        PyMem_Free(self.counts)

    @property
    def record_counts(self):
        """Rows that each channel was chosen for, so far; those of a broadcast count for channel 0."""
        return self.chunks.channel_counts()

    cdef int fill_ready(self) except -1:
        if self.is_exhausted:
            return 0
        while not len(self.ready):
            if self.chunks.position < self.chunks.rows.count or (
                    self.chunks.batch is not None and self.chunks.next_chunk()):
                self.write_rows()
                continue
            batch = next(self.records, None)
            if batch is None:
                self.is_exhausted = True
                self.records = None
                self.finish()
                return len(self.ready) > 0
            self.chunks.bind(batch)
        return 1

    cdef int write_rows(self) except -1:
        """Rows of the chunk up to one that makes a page ready."""
        cdef RowChunks chunks = self.chunks
        cdef uint32_t written
        with nogil:
            written = fb_arrow_rows_scatter(&chunks.rows, chunks.position, self.pages, self.channel_count, self.counts)
        chunks.position += written
        self._record_count += written
        self.given_count += written
        if chunks.position < chunks.rows.count:
            self.write_stopped()
        return 0

    cdef int write_stopped(self) except -1:
        cdef RowChunks chunks = self.chunks
        cdef uint32_t channel = chunks.rows.channels[chunks.position]
        cdef fb_buffer_builder* page = &self.pages[channel]
        cdef size_t size, part
        cdef const uint8_t* data
        if page.data is NULL:
            self.open_page(channel)
            if page.capacity > chunks.rows.sizes[chunks.position]:
                return 0
        chunks.pack(chunks.position, 1, &size)
        data = chunks.scratch.start
        while size > 0:
            if page.data is NULL:
                self.open_page(channel)
            part = min(size, <size_t>(page.capacity - page.position))
            memcpy(page.data + page.position, data, part)
            page.position += <uint32_t>part
            data += part
            size -= part
            if page.position == page.capacity:
                self.close_page(channel)
        chunks.position += 1
        self._record_count += 1
        self.given_count += 1
        return 0

    cdef int open_page(self, uint32_t channel) except -1:
        fresh = PyBytes_FromStringAndSize(NULL, self.segment_size)
        Py_INCREF(fresh)
        self.bytes[channel] = <PyObject*>fresh
        self.pages[channel].data = <uint8_t*>PyBytes_AS_STRING(fresh)
        self.pages[channel].position = 0
        self.pages[channel].capacity = self.segment_size
        return 0

    cdef int close_page(self, uint32_t channel) except -1:
        cdef PyObject* filled = self.bytes[channel]
        cdef uint32_t position = self.pages[channel].position
        self.bytes[channel] = NULL
        self.pages[channel].data = NULL
        self.pages[channel].position = self.pages[channel].capacity = 0
        if position < self.segment_size:
            _PyBytes_Resize(&filled, position)
        buffer = <object>filled
        Py_XDECREF(filled)
        return self.add_ready(BROADCAST if self.selector.is_broadcast else <int64_t>channel, buffer)

    cdef int finish(self) except -1:
        cdef uint32_t channel
        for channel in range(self.channel_count):
            if self.bytes[channel] is not NULL and self.pages[channel].position > 0:
                self.close_page(channel)
        return 0


cdef class SortBatchWriter(SortBufferWriter):
    """As SortBufferWriter, for batches: a log for all channels."""

    cdef RowChunks chunks
    cdef size_t offset      # of the row that comes next, in the scratch

    def __cinit__(self, batches, TypeCodec codec not None, ChannelSelector selector not None, uint32_t segment_size,
                  uint32_t segment_count):
        self.chunks = RowChunks(codec, selector)

    @property
    def record_counts(self):
        """Rows that each channel was chosen for, so far; those of a broadcast count for channel 0."""
        return self.chunks.channel_counts()

    cdef int fill_ready(self) except -1:
        cdef size_t size
        if self.is_draining and self.drain_one():
            return 1
        if self.is_exhausted:
            return 0
        while not len(self.ready):
            if self.chunks.position < self.chunks.rows.count:
                self.write_rows()
            elif self.chunks.batch is not None and self.chunks.next_chunk():
                self.chunks.pack(0, self.chunks.rows.count, &size)
                self.offset = 0
            else:
                batch = next(self.records, None)
                if batch is None:
                    self.is_exhausted = True
                    self.records = None
                    self.start_draining()
                    return self.drain_one()
                self.chunks.bind(batch)
        return 1

    cdef int write_rows(self) except -1:
        """Rows of the chunk up to one that the log has no room for."""
        cdef RowChunks chunks = self.chunks
        cdef fb_arrow_rows* rows = &chunks.rows
        cdef uint32_t i = chunks.position
        cdef size_t offset = self.offset
        cdef int code = FB_RECORD
        with nogil:
            while i < rows.count and code == FB_RECORD:
                code = fb_data_buffer_append(&self.log, rows.channels[i], FB_DATA_BUFFER, chunks.scratch.start + offset,
                                             rows.sizes[i])
                if code == FB_RECORD:
                    offset += rows.sizes[i]
                    i += 1
        check(code)
        self._record_count += i - chunks.position
        self.given_count += i - chunks.position
        chunks.position, self.offset = i, offset
        if i == rows.count:
            return 0
        if self.log.record_count == 0:  # larger than the whole log
            self.cut(BROADCAST if self.selector.is_broadcast else <int64_t>rows.channels[i],
                     chunks.scratch.start + offset, rows.sizes[i])
            self.offset += rows.sizes[i]
            chunks.position += 1
            self._record_count += 1
            self.given_count += 1
            return 0
        self.start_draining()
        self.drain_one()
        return 0
