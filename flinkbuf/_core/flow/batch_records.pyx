"""Python's records into columns and back, in one process: through their bytes, which are what both sides know.

A record is encoded as if it were to be sent; some hundred of them become columns at once, without the GIL. Columns
become records the other way round. So whatever a type can hold passes, and a value is what it would be on a stream.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t

from flinkbuf._core.columns.arrow_builder cimport fb_arrow_builder_bytes
from flinkbuf._core.columns.arrow_column cimport ArrowBatch, ArrowPlan, path_of
from flinkbuf._core.columns.arrow_records cimport FB_ARROW_RECORDS, fb_arrow_records_read
from flinkbuf._core.columns.arrow_rows cimport (
    FB_ARROW_ROWS_SLACK, fb_arrow_rows_close, fb_arrow_rows_measure, fb_arrow_rows_open, fb_arrow_rows_pack,
)
from flinkbuf._core.flow.batch_reader cimport BatchBuilder
from flinkbuf._core.ground.data_view cimport (
    fb_data_input, fb_data_output_close, fb_data_output_prune, fb_data_output_reserve, fb_data_output_size,
    fb_data_output_start_scratch,
)
from flinkbuf._core.ground.errors cimport FB_EBOUNDS, check, fb_strerror
from flinkbuf._core.value.python_object cimport FB_IDENTITY
from flinkbuf._core.value.type_codec cimport TypeCodec, decode_value, encode_value

cdef enum:
    WAITING_BYTES = 1 << 18     # of records whose columns are not made yet: they stay near
    KEPT_BYTES = 1 << 20        # of memory for them, between two batches
    LENGTH_BYTES = 4


cdef class RecordsToBatch:
    """Gathers records, and gives them as a batch of columns.

    Parameters
    ----------
    codec : TypeCodec
        Of the records.
    batch : BatchBuilder
        Of the columns, with the limits of a batch.
    """

    def __cinit__(self, TypeCodec codec not None, BatchBuilder batch not None):
        self.codec, self.batch = codec, batch
        self.output.record_number = -1

    def __dealloc__(self):
        fb_data_output_close(&self.output)

    def add_record(self, value):
        """Take one more record; returns whether the batch is full.

        Raises
        ------
        TypeError, ValueError, OverflowError
            If the value is not of the type, which leaves those before it; or if a column cannot hold one of those.
        """
        return self.add(value) == 1

    def finish(self):
        """The batch, or None if no record came; then another one begins."""
        return self.take()

    cdef int add(self, object value) except -1:
        """1: the batch is full; 0: it is not."""
        if self.waiting == 0:
            fb_data_output_start_scratch(&self.output)
            self.starts[0] = 0
        encode_value(self.codec, value, &self.output)
        self.waiting += 1
        self.count += 1
        self.starts[self.waiting] = fb_data_output_size(&self.output)
        if self.waiting == FB_ARROW_RECORDS or self.starts[self.waiting] >= WAITING_BYTES:
            self.make_columns()
            if fb_arrow_builder_bytes(&self.batch.builder) >= self.batch.max_bytes:
                return 1
        return self.count >= self.batch.max_rows

    cdef int make_columns(self) except -1:
        cdef uint32_t i
        cdef int64_t taken
        if self.waiting == 0:
            return 0
        for i in range(self.waiting):
            self.batch.records.heads[i] = self.output.start + self.starts[i]
            self.batch.records.ends[i] = self.output.start + self.starts[i + 1]
        self.batch.records.count = self.waiting
        with nogil:
            taken = fb_arrow_records_read(&self.batch.builder, &self.batch.records, &self.batch.reading)
        check(<int>min(taken, 0))
        if self.batch.reading.code != 0:
            self.refuse(taken)
        self.waiting = 0
        return 0

    cdef int refuse(self, int64_t taken) except -1:
        cdef fb_data_input input
        reading = &self.batch.reading
        reason = fb_strerror(reading.code) if reading.reason is NULL else reading.reason
        text = f"{path_of(reading.column)}: {(<bytes>reason).decode('ascii')}"
        if reading.code == FB_EBOUNDS:
            self.forget_waiting()
            raise ValueError(f"{text}: the batch has no room for record {self.count}; let it have fewer rows or bytes")
        input.start = input.pos = self.batch.records.heads[taken]
        input.end = self.batch.records.ends[taken]
        input.record_number = input.channel = -1
        value = FB_IDENTITY(decode_value(self.codec, &input))
        self.forget_waiting()
        raise ValueError(f"{text}, in the record {repr(value)[:200]}; declare a type that holds it")

    cdef int forget_waiting(self) except -1:
        """What came before the record that was refused stays."""
        self.waiting = 0
        self.count = self.batch.builder.length
        return 0

    cdef object take(self):
        self.make_columns()
        self.count = 0
        fb_data_output_prune(&self.output, KEPT_BYTES)
        return self.batch.finish()


cdef class BatchToRecords:
    """The rows of batches as records, one after the other.

    Parameters
    ----------
    codec : TypeCodec
        Of the records.
    batches : iterable of ArrowBatch, optional
    """

    def __cinit__(self, TypeCodec codec not None, batches=()):
        self.codec, self.batches = codec, iter(batches)

    def __dealloc__(self):
        fb_arrow_rows_close(&self.rows)
        fb_data_output_close(&self.packed)

    def __iter__(self):
        return self

    def __next__(self):
        cdef PyObject* value = self.take()
        while value is NULL:
            self.begin(next(self.batches))
            value = self.take()
        return FB_IDENTITY(value)

    cdef int begin(self, ArrowBatch batch) except -1:
        if self.plan is None or self.planned_for != batch.schema or self.planned_owner is not batch.owner:
            self.planned_owner = None
            fb_arrow_rows_close(&self.rows)
            self.plan = ArrowPlan(self.codec, batch)
            check(fb_arrow_rows_open(&self.rows, &self.plan.root))
            self.planned_for, self.planned_owner = batch.schema, batch.owner
        self.plan.bind(batch)
        self.batch = batch
        self.next_row = 0
        self.row = self.packed_to = self.rows.count = 0
        self.fault.column = NULL
        return 0

    cdef int next_chunk(self) except -1:
        """Whether the batch has more rows."""
        if self.fault.column is not NULL:
            self.batch = None
            where, reason = path_of(self.fault.column), (<bytes>self.fault.reason).decode("ascii")
            raise ValueError(f"row {self.fault.row} of the batch: {where}: {reason}")
        if self.next_row >= self.plan.root.length:
            self.batch = None
            fb_data_output_prune(&self.packed, KEPT_BYTES)
            return 0
        with nogil:
            fb_arrow_rows_measure(&self.rows, self.next_row, &self.fault)
        self.next_row += self.rows.count
        self.row = self.packed_to = 0
        return 1

    cdef int pack(self) except -1:
        """Some more rows of the chunk, as many as stay near."""
        cdef uint32_t first = self.packed_to
        cdef size_t size = 0
        while self.packed_to < self.rows.count and size < WAITING_BYTES:
            size += self.rows.sizes[self.packed_to]
            self.packed_to += 1
        fb_data_output_start_scratch(&self.packed)
        check(fb_data_output_reserve(&self.packed, size + FB_ARROW_ROWS_SLACK))
        with nogil:
            fb_arrow_rows_pack(&self.rows, first, self.packed_to - first, self.packed.start)
        self.position = self.packed.start
        return 0

    cdef PyObject* take(self) except? NULL:
        """The next row of the batch as a record, a new reference; NULL without an error: there is none."""
        cdef fb_data_input input
        cdef uint32_t size
        if self.batch is None:
            return NULL
        while self.row == self.rows.count:
            if not self.next_chunk():
                return NULL
        if self.row == self.packed_to:
            self.pack()
        size = self.rows.sizes[self.row]
        input.start = input.pos = self.position + LENGTH_BYTES
        input.end = self.position + size
        input.record_number = input.channel = -1
        self.position += size
        self.row += 1
        return decode_value(self.codec, &input)
