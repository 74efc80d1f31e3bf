"""Inputs of a keyed operator in batch execution: all is read and sorted, then given key by key, in order of time.

Records go into the sorter as the bytes that they came in; they are decoded for the key selector, and again when it is
their turn. Flink: SortingDataInput, MultiInputSortingDataInput.
"""

from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport INT64_MIN, uint32_t
from libc.string cimport memcmp, memcpy

from flinkbuf._core.ground.byte_order cimport fb_store_be32
from flinkbuf._core.ground.data_view cimport (
    fb_data_input, fb_data_output_close, fb_data_output_reserve, fb_data_output_size, fb_data_output_start_scratch,
)
from flinkbuf._core.ground.errors cimport check
from flinkbuf._core.task.input_status cimport END_OF_DATA, MORE_AVAILABLE
from flinkbuf._core.record.key_token cimport bring_key
from flinkbuf._core.value.python_object cimport FB_IDENTITY
from flinkbuf._core.sort.record_sorter cimport fb_record_order_compare, fb_sorted_record
from flinkbuf._core.value.type_codec cimport decode_value, encode_value

cdef enum:
    TIMED_HEAD = 9      # bytes of an element before its value
    PLAIN_HEAD = 1
    LENGTH_BYTES = 4


cdef class SortedInput(Input):
    """Where one input's records go while they come; of what is no record only the highest watermark counts.

    Parameters
    ----------
    index : int
        The input's number, from 0.
    reader : RecordReader
        That the records come from, of stream elements.
    operator : StreamOperator
        The head of the chain.
    target : Input
        Its input.
    selector : callable or None
        Gives the key of a record; None: they all have the same.
    key_codec : TypeCodec or None
        Of the key's declared type.
    sorter : RecordSorter
    """

    def __init__(self, int index, RecordReader reader not None, StreamOperator operator not None,
                 Input target not None, selector, TypeCodec key_codec, RecordSorter sorter not None):
        self.index = index
        self.reader = reader
        self.operator = operator
        self.target = target
        self.selector = selector
        self.tokens = KeyTokens(key_codec)
        self.is_undeclared = not self.tokens.declared
        self.value_codec = reader.codec.children[0]
        self.sorter = sorter
        self.last_watermark = INT64_MIN

    def __dealloc__(self):
        fb_data_output_close(&self.key_bytes)

    cpdef process_element(self, object value, int64_t timestamp):
        cdef const uint8_t* record = self.reader.input.start + (TIMED_HEAD if self.reader.is_timed else PLAIN_HEAD)
        self.encode_key(value)
        self.sorter.put(self.key_bytes.start, fb_data_output_size(&self.key_bytes), timestamp, record,
                        self.reader.input.end - record)

    cdef int encode_key(self, object value) except -1:
        """Leave the bytes of the record's key in `key_bytes`."""
        cdef fb_data_output* output = &self.key_bytes
        cdef object key
        fb_data_output_start_scratch(output)
        if self.selector is None:
            return 0
        try:
            key = bring_key(self.tokens, self.selector(value))
        except BaseException:
            self.operator.note_failure(value)
            raise
        if self.is_undeclared:  # the shorter first, as keys are whose bytes begin with a length
            check(fb_data_output_reserve(output, LENGTH_BYTES))
            output.pos += LENGTH_BYTES
        encode_value(self.tokens.key_codec, key, output)
        if self.is_undeclared:
            fb_store_be32(output.start, <uint32_t>(fb_data_output_size(output) - LENGTH_BYTES))
        return 0

    cdef object decode(self):
        """The value of the record that is next."""
        cdef fb_data_input input
        cdef fb_sorted_record* head = &self.sorter.head
        input.start = input.pos = head.record
        input.end = head.record + head.record_size
        input.record_number = input.channel = -1
        return FB_IDENTITY(decode_value(self.value_codec, &input))

    cpdef process_watermark(self, int64_t timestamp):
        self.last_watermark = max(self.last_watermark, timestamp)

    cpdef process_watermark_status(self, bint is_idle):
        """Drop a status: while records are sorted no operator waits for watermarks."""

    cpdef process_latency_marker(self, object marker):
        """Drop a marker: how long a record waits to be sorted is no latency."""

    def emit_watermark(self):
        """Tell the operator how far event time has come, after the last record."""
        if self.last_watermark > INT64_MIN:
            self.target.process_watermark(self.last_watermark)


cdef class SortedMerge:
    """Gives the records of all sorted inputs of an operator, as if they were one.

    Parameters
    ----------
    inputs : sequence of SortedInput
        All that they will have is in their sorters.
    turn : TaskTurn
    ends : object or None
        Has ``end_key()``, which is called between two keys.
    on_end : callable
        Called with an input behind its last record.
    """

    def __init__(self, inputs, TaskTurn turn not None, ends, on_end):
        self.live = list(inputs)
        self.turn = turn
        self.ends = ends
        self.on_end = on_end

    def __dealloc__(self):
        PyMem_Free(self.key)

    def begin(self):
        """Sort what was read."""
        cdef SortedInput source
        for source in list(self.live):
            source.sorter.finish()
            self.advance(source)

    cpdef int emit_next(self) except -1:
        """Process records for one turn; MORE_AVAILABLE or END_OF_DATA."""
        cdef SortedInput source
        cdef int64_t timestamp
        self.turn.begin()
        while True:
            source = self.smallest()
            if source is None:
                return END_OF_DATA
            self.take_key(source)
            timestamp = source.sorter.head.timestamp
            source.target.process_element(source.decode(), timestamp)
            self.advance(source)
            if self.turn.is_over():
                return MORE_AVAILABLE

    cdef SortedInput smallest(self):
        """The input whose record is next; None: there are no more."""
        cdef SortedInput each, first = None
        for each in self.live:
            if first is None or fb_record_order_compare(&each.sorter.head, &first.sorter.head) < 0:
                first = each
        return first

    cdef int take_key(self, SortedInput source) except -1:
        """The record's key is the current one; the one before may end with that."""
        cdef fb_sorted_record* head = &source.sorter.head
        cdef void* room
        if self.has_key:
            if head.key_size == self.key_size and (
                    self.key_size == 0 or memcmp(self.key, head.key, self.key_size) == 0):
                return 0
            if self.ends is not None:
                self.ends.end_key()
        if head.key_size > self.key_capacity:
            room = PyMem_Realloc(self.key, 2 * <size_t>head.key_size)
            if room is NULL:
                raise MemoryError(f"no memory for a key of {head.key_size} bytes")
            self.key = <uint8_t*>room
            self.key_capacity = 2 * <size_t>head.key_size
        if head.key_size:
            memcpy(self.key, head.key, head.key_size)
        self.key_size = head.key_size
        self.has_key = True
        return 0

    cdef int advance(self, SortedInput source) except -1:
        """Go to the next record of an input, or let it end."""
        if source.sorter.advance():
            return 0
        self.live.remove(source)
        source.sorter.close()
        self.on_end(source)
        return 0
