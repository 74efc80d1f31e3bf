"""The loop that takes records from an input gate to Python.

Per record: the current channel's deserializer gives a pointer, the codec reads it where it lies. When a buffer is
used up its segment goes back to the pool, and the gate gives the next one, of whichever channel is first in turn.
Waits release the GIL. A priority event is handed out between two records, before the rest of the buffer in hand. A
channel that ends inside a record is an error, never silence. Flink: StreamTaskNetworkInput,
AbstractStreamTaskNetworkInput.emitNext.

Tag and timestamp of a stream element stand before its value and come beside it: no object holds them.
"""

cimport cython
from cpython.exc cimport PyErr_ExceptionMatches, PyErr_Fetch, PyErr_NormalizeException
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from libc.stddef cimport size_t
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t

from flinkbuf._core.memory.buffer cimport (
    FB_END_OF_DATA, FB_END_OF_PARTITION, fb_buffer_data_type, fb_buffer_data_type_blocks_upstream,
    fb_buffer_data_type_is_buffer, fb_buffer_slice_data, fb_buffer_slice_release,
)
from flinkbuf._core.ground.byte_order cimport fb_load_be32, fb_load_be64
from flinkbuf._core.ground.errors cimport FB_ETRUNCATED, FB_NEEDS_INPUT, FB_RECORD, check
from flinkbuf._core.value.inline_codec cimport get
from flinkbuf._core.record.inline_element cimport get_head
from flinkbuf._core.gate.input_gate cimport AbstractInputGate, RecordCounts, fb_gate_item, fb_input_gate_priority_is_set
from flinkbuf._core.record.record_batch cimport fb_record_batch_read
from flinkbuf._core.record.record_deserializer cimport (
    SpillPaths, fail_record, fb_record_deserializer_close,
    fb_record_deserializer_next_spanning, fb_record_deserializer_open, fb_record_deserializer_options,
    fb_record_deserializer_pending, fb_record_deserializer_set_next_buffer, fb_record_deserializer_take,
)
from flinkbuf._core.value.python_object cimport FB_IDENTITY, Py_INCREF
from flinkbuf._core.value.type cimport (
    FB_ELEMENT_RECORD, FB_ELEMENT_WATERMARK, FB_ELEMENT_WATERMARK_STATUS, FB_TYPE_STREAM_ELEMENT,
)
from flinkbuf._core.value.type_codec cimport TypeCodec, decode_value

from flinkbuf.errors import CorruptDataError, located

cdef extern from "Python.h":
    void Py_DECREF(PyObject* value)

cdef enum:
    WAIT_SLICE_MS = 100
    WATERMARK_BYTES = 9


cdef tuple KINDS = ("NOTHING", "RECORD", "WATERMARK", "STATUS", "MARKER", "EVENT", "FINISHED")


cdef PyObject* new_reference(value) noexcept:
    Py_INCREF(<PyObject*>value)
    return <PyObject*>value


cdef inline void begin_record(RecordReader reader, const uint8_t* record, size_t size) noexcept:
    cdef fb_data_input* input = &reader.input
    input.start = input.pos = record
    input.end = record + size
    input.record_number = <int64_t>reader.current.record_count - 1
    input.channel = reader.current_channel = reader.buffer_channel
    reader.is_timed = False


cdef int check_end(RecordReader reader, PyObject* value) except -1:
    """Every byte of a record belongs to its value."""
    cdef fb_data_input* input = &reader.input
    if input.pos == input.end:
        return 0
    Py_DECREF(value)
    raise CorruptDataError(
        f"channel {input.channel}, record {input.record_number}: {input.end - input.start} bytes long, but the "
        f"declared type used only {input.pos - input.start} of them; was it written with another type?")


cdef PyObject* decoded(RecordReader reader, const uint8_t* record, size_t size) except NULL:
    """A new reference: to a value, or to the object of an element that is no record."""
    cdef fb_data_input* input = &reader.input
    cdef PyObject* value
    cdef const uint8_t* pos
    begin_record(reader, record, size)
    if reader.is_of_elements and get_head(input, &reader.is_timed, &reader.last_timestamp):
        pos = input.pos
        value = get(reader.codec.node.children, &pos, input)
        input.pos = pos
    else:
        value = decode_value(reader.codec, input)
    check_end(reader, value)
    return value


cdef int read_element(RecordReader reader, const uint8_t* record, size_t size, stream_element* element) except -1:
    """What `record` is, with tag and timestamp beside the value."""
    element.channel = reader.buffer_channel
    if reader.is_of_elements and size == WATERMARK_BYTES and record[0] == FB_ELEMENT_WATERMARK:
        begin_record(reader, record, size)
        element.value = NULL
        element.timestamp = <int64_t>fb_load_be64(record + 1)
        return WATERMARK
    element.value = decoded(reader, record, size)
    if reader.is_of_elements and record[0] == FB_ELEMENT_WATERMARK_STATUS:
        Py_DECREF(element.value)  # one that is neither active nor idle was refused
        element.value = NULL
        element.timestamp = <int32_t>fb_load_be32(record + 1)
        return STATUS
    element.timestamp = reader.last_timestamp if reader.is_timed else INT64_MIN
    return MARKER if reader.is_of_elements and record[0] > FB_ELEMENT_RECORD else RECORD


@cython.final
cdef class RecordIterator:
    """What a loop over a reader runs on: no Python class can derive from it, so each step is one C call."""

    def __init__(self, RecordReader reader not None):
        self.reader = reader

    def __iter__(self):
        return self

    def __next__(self):
        return self.reader.next_item()


cdef class RecordReader:
    """Reads records of one type from an input gate; see `flinkbuf.RecordReader`."""

    def __cinit__(self, AbstractInputGate gate not None, TypeCodec codec not None, event_of=None, *,
                  size_t spill_threshold=0, spill_dirs=None):
        cdef fb_record_deserializer_options options
        cdef uint32_t channel
        self.gate = gate
        self.codec = codec
        self.is_of_elements = codec.node.kind == FB_TYPE_STREAM_ELEMENT
        self.event_of = event_of
        self.channel_count = gate.channel_count
        self.deserializers = <fb_record_deserializer*>PyMem_Calloc(self.channel_count, sizeof(fb_record_deserializer))
        if self.deserializers is NULL:
            raise MemoryError(f"no memory for {self.channel_count} channels")
        self.spill_paths = SpillPaths(spill_dirs)
        options.spill_threshold, options.max_record_size = spill_threshold, 0
        options.spill_dirs = self.spill_paths.c
        for channel in range(self.channel_count):
            fb_record_deserializer_open(&self.deserializers[channel], &options)
        self.record_counts = RecordCounts(self.channel_count)
        gate.show_counts(self.record_counts, 0)

    def __dealloc__(self):
        cdef uint32_t channel
        fb_buffer_slice_release(&self.slice)
        if self.deserializers is not NULL:
            for channel in range(self.channel_count):
                fb_record_deserializer_close(&self.deserializers[channel])
            PyMem_Free(self.deserializers)

    def __iter__(self):
        return RecordIterator(self)

    def __next__(self):
        return self.next_item()

    @property
    def channel_index(self):
        """The channel that the last record or event came from; after a barrier, the one to resume."""
        return self.current_channel

    @property
    def timestamp(self):
        """The event time of the last record; None if it has none, or what came last is no record."""
        return self.last_timestamp if self.is_timed else None

    @cython.final
    cdef object next_item(self):
        cdef const uint8_t* record = NULL
        cdef size_t size = 0
        cdef PyObject* value
        if self.is_busy or self.current is NULL or self.kept_values is not None or self.pending_event is not None \
                or fb_input_gate_priority_is_set(&self.gate.priority) \
                or not fb_record_deserializer_take(self.current, &record, &size):
            return self.next_of_any_kind()
        # It lies whole in the buffer in hand, like most: nothing is prepared for an error before there is one.
        self.is_busy = True
        value = (<PyObject* (*)(RecordReader, const uint8_t*, size_t) noexcept>decoded)(self, record, size)
        self.is_busy = False
        if value is NULL:
            self.explain()
        return FB_IDENTITY(value)

    def poll(self):
        """Take what comes next, without waiting for it.

        Returns
        -------
        tuple of (str, object, int or None, int)
            What it is: ``"RECORD"``, ``"WATERMARK"``, ``"STATUS"`` (of watermarks; its timestamp is 0, active, or −1,
            idle), ``"MARKER"`` (another element, as its object), ``"EVENT"``, ``"NOTHING"``, if nothing is there now,
            or ``"FINISHED"``, if nothing will come any more. Then the value, the timestamp, each None where it has
            none, and the channel.
        """
        cdef stream_element element
        cdef int kind = self.poll_element(&element)
        value = None if element.value is NULL else FB_IDENTITY(element.value)
        is_timed = kind == WATERMARK or kind == STATUS or (kind == RECORD and self.is_timed)
        return KINDS[kind], value, element.timestamp if is_timed else None, element.channel

    cdef int poll_element(self, stream_element* element) except -1:
        """What comes next, as an element_kind, without waiting for it."""
        cdef const uint8_t* record = NULL
        cdef size_t size = 0
        cdef int kind
        if self.is_busy or self.current is NULL or self.kept_values is not None or self.pending_event is not None \
                or fb_input_gate_priority_is_set(&self.gate.priority) \
                or not fb_record_deserializer_take(self.current, &record, &size):
            return self.poll_other(element)
        self.is_busy = True
        kind = (<int (*)(RecordReader, const uint8_t*, size_t, stream_element*) noexcept>read_element)(
            self, record, size, element)
        self.is_busy = False
        if kind < 0:
            self.explain()
        return kind

    cdef int poll_other(self, stream_element* element) except -1:
        """The same where it may take another buffer, or an event."""
        cdef const uint8_t* record = NULL
        cdef size_t size = 0
        self.begin_use()
        try:
            element.value, element.timestamp, element.channel = NULL, INT64_MIN, self.current_channel
            if self.kept_values is not None:
                element.value = new_reference(self.next_kept())
                return RECORD
            if self.next_record(&record, &size, False):
                return read_element(self, record, size, element)
            element.channel = self.current_channel
            if self.pending_event is None:
                return FINISHED if self.is_finished else NOTHING
            element.value = new_reference(self.pending_event)
            self.pending_event = None
            return EVENT
        except CorruptDataError as error:
            raise self.with_source(error) from None
        finally:
            self.is_busy = False

    @property
    def has_priority(self):
        """Whether a priority event may be there: it overtakes what else has arrived."""
        return fb_input_gate_priority_is_set(&self.gate.priority)

    def poll_priority(self):
        """Take a priority event without touching records, as while output is full.

        Returns
        -------
        tuple of (int, object) or None
            The channel and the event; None if there is none.
        """
        cdef stream_element element
        if self.poll_priority_element(&element) == NOTHING:
            return None
        return element.channel, FB_IDENTITY(element.value)

    cdef int poll_priority_element(self, stream_element* element) except -1:
        """EVENT or NOTHING."""
        self.begin_use()
        try:
            while self.pending_event is None:
                if not self.take_priority():
                    return NOTHING
            element.value, element.timestamp, element.channel = \
                new_reference(self.pending_event), INT64_MIN, self.current_channel
            self.pending_event = None
            return EVENT
        finally:
            self.is_busy = False

    cdef int explain(self) except -1:
        """Add to the error that stands where the bytes came from."""
        cdef PyObject *kind = NULL
        cdef PyObject *error = NULL
        cdef PyObject *traceback = NULL
        if not PyErr_ExceptionMatches(CorruptDataError):
            return -1
        PyErr_Fetch(&kind, &error, &traceback)
        PyErr_NormalizeException(&kind, &error, &traceback)
        corrupt = <object>error
        Py_DECREF(kind)
        Py_DECREF(error)
        if traceback != NULL:
            Py_DECREF(traceback)
        raise self.with_source(corrupt)

    cdef object next_of_any_kind(self):
        cdef const uint8_t* record = NULL
        cdef size_t size = 0
        self.begin_use()
        try:
            if self.kept_values is not None:
                return self.next_kept()
            if self.next_record(&record, &size):
                return self.decode(record, size)
            if self.pending_event is None:
                raise StopIteration
            event, self.pending_event = self.pending_event, None
            self.is_timed = False
            return event
        except CorruptDataError as error:
            raise self.with_source(error) from None
        finally:
            self.is_busy = False

    cdef object with_source(self, error):
        """The error of a record with the partition and the process that its bytes came from."""
        if self.is_polling:  # the gate names the channel itself
            return error
        source = self.gate.source_of(self.current_channel)
        if source is not None:
            error = CorruptDataError(f"{error} (channel {self.current_channel} is {source})")
        return located(error, channel_index=self.current_channel)

    cdef int begin_use(self) except -1:
        """What follows has the reader to itself, until it clears `is_busy`."""
        if self.is_held:
            raise RuntimeError("read_batches() has rows in hand, as a column was full: go on with its iterator")
        if self.is_busy:
            raise RuntimeError("the record reader is already reading: in another thread, in a signal handler, or in a "
                               "value's own conversion code; use one reader a thread")
        self.is_busy = True
        return 0

    cdef object next_kept(self):
        """The next value of a column that an error kept from being given."""
        values = self.kept_values
        self.kept_values = values[1:] if len(values) > 1 else None
        return values[0].item()

    def read_column(self, dtype, size_t count):
        """Read up to `count` records of one fixed width into a numpy array; shorter only at the end.

        `dtype` is the host-order number type whose big-endian form each record is. What was read before an error is
        not lost: the next call, or the iteration, begins with it.
        """
        import numpy  # not before somebody wants columns

        cdef size_t done = 0
        values = numpy.empty(count, dtype)
        self.begin_use()
        try:
            if self.kept_values is not None:
                done = min(count, <size_t>len(self.kept_values))
                values[:done] = self.kept_values[:done]
                self.kept_values = self.kept_values[done:] if done < <size_t>len(self.kept_values) else None
            try:
                self.fill_column(values, &done)
            except BaseException as error:
                if done > 0:
                    self.kept_values = values[:done].copy()
                if isinstance(error, CorruptDataError):
                    raise self.with_source(error) from None
                raise
        finally:
            self.is_busy = False
        return values if done == count else values[:done]

    cdef int fill_column(self, values, size_t* done) except -1:
        cdef uint8_t[::1] raw = values.view("u1")
        cdef size_t count = <size_t>len(values)
        cdef uint32_t width = values.itemsize
        cdef const uint8_t* record = NULL
        cdef size_t size = 0
        while done[0] < count:
            if self.current is not NULL:
                with nogil:
                    done[0] += fb_record_batch_read(self.current, &raw[done[0] * width], width, count - done[0])
                if done[0] == count:
                    break
            if not self.next_record(&record, &size):
                if self.pending_event is not None:
                    raise TypeError("a column cannot hold the event that comes next; take it with next(reader)")
                break
            if size != width:
                self.current_channel = self.buffer_channel
                raise CorruptDataError(f"channel {self.current_channel}, record {self.current.record_count - 1}: "
                                       f"{size} bytes long where {width} were expected")
            # At most once a buffer: the record at an edge.
            self.put_edge(values[done[0]:], record, size)
            done[0] += 1
        return 0

    cdef int put_edge(self, values, const uint8_t* record, size_t size) except -1:
        """One value whose record was cut by the end of a buffer."""
        import numpy

        values[0] = numpy.frombuffer((<const char*>record)[:size], values.dtype.newbyteorder(">"))[0]
        return 0

    def close(self):
        """Give the buffer in hand back. The gate is closed by its owner."""
        if self.is_busy and not self.is_held:
            raise RuntimeError("the record reader cannot be closed while it is reading")
        self.is_busy = self.is_held = False
        if self.current is not NULL:
            self.record_counts.note(self.buffer_channel, self.current.record_count)
        self.current = NULL
        self.is_finished = True
        fb_buffer_slice_release(&self.slice)

    cdef object decode(self, const uint8_t* record, size_t size):
        return FB_IDENTITY(decoded(self, record, size))

    cdef int next_record(self, const uint8_t** record, size_t* size, bint waits=True) except -1:
        """1 and a record; 0 at the end, with `pending_event` set, or if it would have to wait and shall not."""
        cdef int code
        while self.pending_event is None:
            if fb_input_gate_priority_is_set(&self.gate.priority) and self.take_priority():
                continue
            if self.current is not NULL:
                if fb_record_deserializer_take(self.current, record, size):
                    return 1
                with nogil:
                    code = fb_record_deserializer_next_spanning(self.current, record, size)
                if code == FB_RECORD:
                    return 1
                if code != FB_NEEDS_INPUT:
                    self.current_channel = self.buffer_channel
                    fail_record(self.current, code, self.buffer_channel)
                self.record_counts.note(self.buffer_channel, self.current.record_count)
                self.current = NULL
                fb_buffer_slice_release(&self.slice)
            if not self.next_buffer(waits):
                break
        return 0

    cdef int next_buffer(self, bint waits) except -1:
        """1: `current` has a buffer. 0: an event is pending, nothing comes any more, or nothing is there now."""
        cdef fb_gate_item item
        cdef bint is_there
        while not self.is_finished:
            self.is_polling = True
            is_there = self.gate.poll_item(&item)
            self.is_polling = False
            if is_there:
                if self.take(&item):
                    return self.current is not NULL
            elif self.gate.has_finished():
                self.is_finished = True
            elif waits:
                self.gate.wait(WAIT_SLICE_MS)
            else:
                break
        return 0

    cdef int take_priority(self) except -1:
        """Take an event that overtakes the buffer in hand; whether there was one."""
        cdef fb_gate_item item
        if not self.gate.take_priority(&item):
            return 0
        self.take(&item)
        return 1

    cdef int take(self, fb_gate_item* item) except -1:
        """1 if there is something for the caller: a buffer to read, or an event that was asked for."""
        cdef fb_record_deserializer* deserializer = &self.deserializers[item.channel_index]
        cdef int kind = item.slice.data_type
        self.current_channel = item.channel_index
        if fb_buffer_data_type_is_buffer(<fb_buffer_data_type>kind):
            self.slice = item.slice
            self.buffer_channel = item.channel_index
            check(fb_record_deserializer_set_next_buffer(
                deserializer, fb_buffer_slice_data(&self.slice), self.slice.size))
            self.current = deserializer
            return 1
        try:
            data = (<const char*>fb_buffer_slice_data(&item.slice))[:item.slice.size]
        finally:
            fb_buffer_slice_release(&item.slice)
        if kind == FB_END_OF_DATA or kind == FB_END_OF_PARTITION:
            if fb_record_deserializer_pending(deserializer) > 0:
                fail_record(deserializer, FB_ETRUNCATED, item.channel_index)
        if self.event_of is None:
            if kind == FB_END_OF_DATA:
                self.gate.acknowledge_all_records_processed(item.channel_index)  # they have been handed out
            if fb_buffer_data_type_blocks_upstream(<fb_buffer_data_type>kind):
                self.gate.resume_consumption(item.channel_index)  # nobody here aligns barriers
            return 0
        self.pending_event = self.event_of(item.channel_index, data, kind)
        return 1
