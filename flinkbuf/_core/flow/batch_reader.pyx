"""Records to batches of columns: what a buffer holds whole is read at once, column after column, without the GIL.

A batch ends when it has the rows or bytes that were asked for, or a column has no room for more. A record that is not
right ends it, too; what was read before is given first, and the error comes with the next step.
"""

import time

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from flinkbuf._core.columns.arrow_builder cimport (
    fb_arrow_builder_bytes, fb_arrow_builder_close, fb_arrow_builder_finish, fb_arrow_builder_open,
)
from flinkbuf._core.columns.arrow_column cimport ArrowArray, ArrowPlan, path_of
from flinkbuf._core.columns.arrow_records cimport (
    FB_ARROW_RECORDS, fb_arrow_records_collect, fb_arrow_records_read, fb_arrow_records_skip,
)
from flinkbuf._core.ground.errors cimport FB_EBOUNDS, check, fb_strerror
from flinkbuf._core.flow.record_buffers cimport RecordBufferReader
from flinkbuf._core.record.record_deserializer cimport fb_record_deserializer
from flinkbuf._core.flow.record_reader cimport RecordReader

from flinkbuf.errors import CorruptDataError

cdef enum:
    WAIT_SLICE_MS = 100


cdef void release_capsule(object capsule) noexcept:
    cdef ArrowArray* array = <ArrowArray*>PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release is not NULL:
        array.release(array)
    free(array)


cdef class ArrowData:
    """An array and its schema, once, for whoever takes them over the Arrow PyCapsule interface."""

    cdef object schema, array

    def __arrow_c_array__(self, requested_schema=None):
        return self.schema.__arrow_c_schema__(), self.array


@cython.no_gc_clear  # so that __dealloc__ still finds the plan's columns, which the builder borrows
cdef class BatchBuilder:
    """Rows on their way to a batch.

    Parameters
    ----------
    plan : ArrowPlan
        Of `schema`, which has no dictionaries, views and run ends.
    schema : object with __arrow_c_schema__
    make : callable
        Makes the user's batch of an object with ``__arrow_c_array__``.
    max_rows, max_bytes : int
        A batch has no more rows, and ends behind the row that brings so many bytes.
    """

    def __cinit__(self, ArrowPlan plan not None, schema, make, max_rows, max_bytes):
        if not 1 <= max_rows <= 0x7FFFFFFF:
            raise ValueError(f"max_rows must be from 1 to 2**31 - 1, got {max_rows}")
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, got {max_bytes}")
        self.plan, self.schema, self.make = plan, schema, make
        self.max_rows, self.max_bytes = max_rows, max_bytes
        check(fb_arrow_builder_open(&self.builder, &plan.root))

    def __dealloc__(self):
        fb_arrow_builder_close(&self.builder)

    cdef int read(self, fb_record_deserializer* deserializer, int64_t channel, object located) except -1:
        """What lies whole in the buffer, as far as the batch has room; 0: nothing more does."""
        if not self.has_left:
            fb_arrow_records_collect(
                deserializer, <uint32_t>min(self.max_rows - self.builder.length, FB_ARROW_RECORDS), &self.records)
        return 0 if self.records.count == 0 else self.read_records(deserializer, channel, located)

    cdef int read_one(self, fb_record_deserializer* deserializer, const uint8_t* record, size_t size, int64_t channel,
                      object located) except -1:
        """One record that was joined of several buffers."""
        self.records.count = 1
        self.records.heads[0] = record
        self.records.ends[0] = record + size
        return self.read_records(deserializer, channel, located)

    cdef int read_records(self, fb_record_deserializer* deserializer, int64_t channel, object located) except -1:
        cdef uint32_t given = self.records.count
        cdef int64_t taken
        with nogil:
            taken = fb_arrow_records_read(&self.builder, &self.records, &self.reading)
        check(<int>min(taken, 0))
        self.has_left = self.reading.code == FB_EBOUNDS and self.builder.length > 0
        if self.has_left:  # for the next batch: nothing is read before it
            fb_arrow_records_skip(&self.records, <uint32_t>taken)
            self.is_full = True
        elif self.reading.code != 0:
            place = f"record {deserializer.record_count - given + <uint64_t>taken}"
            place = place if channel < 0 else f"channel {channel}, {place}"
            self.failure = located(self.error(place, "read it as a record"))
            self.is_full = True
        elif self.builder.length >= self.max_rows or fb_arrow_builder_bytes(&self.builder) >= self.max_bytes:
            self.is_full = True
        return 1

    cdef object error(self, str place, str full_advice):
        """What `reading` says of the record at a place."""
        reason = fb_strerror(self.reading.code) if self.reading.reason is NULL else self.reading.reason
        advice = full_advice if self.reading.code == FB_EBOUNDS else "was it written with another type?"
        if reason.startswith(b"a decimal"):
            advice = ("a type has no digits and is read as decimal(38, 18): give the Arrow schema or the DDL text that "
                      "the records were written with, or read them as records")
        return CorruptDataError(f"{place}, byte {self.reading.byte}, {path_of(self.reading.column)}: "
                                f"{(<bytes>reason).decode('ascii')}; {advice}")

    cdef object finish(self):
        """The batch, or None if there is no row in it; then what went wrong is raised."""
        if self.builder.length == 0:
            if self.failure is not None:
                raise self.failure
            return None
        batch = self.hand_over()
        self.is_full = False
        return batch

    cdef object hand_over(self):
        """The batch, which may have no row."""
        cdef ArrowArray* array
        cdef ArrowData data
        array = <ArrowArray*>calloc(1, sizeof(ArrowArray))
        if array is NULL:
            raise MemoryError
        if fb_arrow_builder_finish(&self.builder, array) < 0:
            free(array)
            raise MemoryError
        data = ArrowData()
        data.array = PyCapsule_New(array, "arrow_array", release_capsule)
        data.schema = self.schema
        return self.make(data)


cdef class BatchBufferReader(RecordBufferReader):
    """The records in an iterable of buffers as batches.

    Parameters
    ----------
    buffers, codec
        As for RecordBufferReader.
    builder : BatchBuilder
    """

    cdef BatchBuilder batch

    def __cinit__(self, buffers, codec, BatchBuilder builder not None):
        self.batch = builder

    def __next__(self):
        if self.is_busy:
            raise RuntimeError("the batch reader was used by the iterable that it is reading, or by another thread")
        self.is_busy = True
        try:
            self.fill()
            batch = self.batch.finish()
        finally:
            self.is_busy = False
        if batch is None:
            raise StopIteration
        return batch

    cdef int fill(self) except -1:
        cdef const uint8_t* record = NULL
        cdef size_t size = 0
        if self.batch.failure is not None:
            return 0
        while not self.batch.is_full:
            if self.batch.read(&self.deserializer, -1, same):
                continue
            try:
                self.find_record(&record, &size)
            except StopIteration:
                return 0
            except CorruptDataError as error:
                self.batch.failure = error
                return 0
            self.batch.read_one(&self.deserializer, record, size, -1, same)
        return 0


def same(error):
    """The error as it is."""
    return error


cdef class GateBatches:
    """The records of a gate as batches, to its end.

    Parameters
    ----------
    reader : RecordReader
        Its records have no timestamps.
    builder : BatchBuilder
    """

    cdef RecordReader reader
    cdef BatchBuilder batch

    def __cinit__(self, RecordReader reader not None, BatchBuilder builder not None, *more):
        if reader.is_of_elements:
            raise TypeError("elements of a stream have no batches: make the reader with the records' own type")
        self.reader, self.batch = reader, builder

    def __iter__(self):
        return self

    def __next__(self):
        if not self.batch.has_left:
            self.reader.begin_use()
        elif not self.reader.is_held:
            raise RuntimeError("the record reader was closed before its last rows were read")
        try:
            self.fill()
            batch = self.batch.finish()
        finally:
            self.reader.is_busy = self.reader.is_held = self.batch.has_left
        if batch is None:
            raise StopIteration
        return batch

    def locate(self, error):
        """The error with where its bytes came from."""
        return self.reader.with_source(error)

    cdef int fill(self) except -1:
        cdef RecordReader reader = self.reader
        cdef const uint8_t* record = NULL
        cdef size_t size = 0
        if self.batch.failure is not None:
            return 0
        if reader.kept_values is not None:
            raise TypeError("values that read_batch() has left must be taken first, with read_batch() or next(reader)")
        while not self.batch.is_full:
            if reader.pending_event is not None:
                if self.batch.builder.length > 0:
                    return 0  # it comes behind these
                raise TypeError("a batch cannot hold the event that comes next; take it with next(reader)")
            if reader.current is not NULL:
                reader.current_channel = reader.buffer_channel
                if self.batch.read(reader.current, reader.buffer_channel, self.locate):
                    continue
            try:
                if not self.take(&record, &size):
                    if reader.pending_event is None:
                        return 0
                    continue
            except CorruptDataError as error:
                self.batch.failure = reader.with_source(error)
                return 0
            reader.current_channel = reader.buffer_channel
            self.batch.read_one(reader.current, record, size, reader.buffer_channel, self.locate)
        return 0

    cdef int take(self, const uint8_t** record, size_t* size) except -1:
        """The next record, or 0: an event is pending, or the batch ends here."""
        return self.reader.next_record(record, size)


cdef class TaskBatches(GateBatches):
    """As GateBatches, for a task that has more to look after than this gate, and whose reader likes to see something.

    Parameters
    ----------
    reader, builder
        As there.
    check_task : callable
        Called without arguments about every 100 ms of waiting; what it raises ends the iteration.
    linger_ms : int
        For how long a batch waits for more rows, once it has some and no more are there.
    """

    cdef object check_task
    cdef int64_t linger_ms
    cdef object deadline    # of the batch that waits for more rows; None: it does not

    def __cinit__(self, reader, builder, check_task, int64_t linger_ms):
        self.check_task, self.linger_ms = check_task, linger_ms

    cdef int take(self, const uint8_t** record, size_t* size) except -1:
        cdef RecordReader reader = self.reader
        cdef int64_t left
        while not reader.next_record(record, size, False):
            if reader.pending_event is not None or reader.is_finished:
                return 0
            left = WAIT_SLICE_MS
            if self.batch.builder.length == 0:
                self.deadline = None
            elif self.deadline is None:
                self.deadline = time.monotonic() + self.linger_ms / 1000
            else:
                left = <int64_t>(1000 * (self.deadline - time.monotonic()))
            if left <= 0:
                self.deadline = None
                return 0  # the batch is given as it is
            reader.gate.wait(min(left, <int64_t>WAIT_SLICE_MS))
            self.check_task()
        return 1
