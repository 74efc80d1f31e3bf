"""The operators between records and batches of columns: a function over batches, and the two borders of column streams.

Records wait in an operator until there are enough of them, or until the first has waited long enough. Nothing waits
longer than event time, a checkpoint or the input: before a watermark, a status, a barrier and the end goes on, the
batch leaves with what there is. So the operator has no state, and no record is passed by a watermark that came after.
Flink: AbstractMapBundleOperator; PyFlink has bundles only inside its own runtime.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from libc.stdint cimport INT64_MIN, int64_t
from libc.string cimport memcpy

from flinkbuf._core.flow.batch_records cimport BatchToRecords, RecordsToBatch
from flinkbuf._core.value.python_object cimport FB_IDENTITY
from flinkbuf._core.operators.delayed_operator cimport DelayedOperator
from flinkbuf._core.operators.stream_operator cimport StreamOperator


cdef class GatheringOperator(DelayedOperator):
    """Gathers records; what becomes of a batch says the subclass.

    Parameters
    ----------
    gathered : RecordsToBatch
    lifecycle, max_delay_ms
        As of `DelayedOperator`.
    """

    def __init__(self, RecordsToBatch gathered not None, lifecycle=None, int64_t max_delay_ms=-1):
        DelayedOperator.__init__(self, lifecycle, max_delay_ms)
        self.gathered = gathered

    def __dealloc__(self):
        PyMem_Free(self.timestamps)

    cpdef process_element(self, object value, int64_t timestamp):
        self.gather(value, timestamp)

    cdef int gather(self, object value, int64_t timestamp) except -1:
        cdef bint is_full
        if self.gathered.count == 0 and self.max_delay_ms >= 0:
            self.begin_delay()
        self.value_in_hand = value
        self.is_in_function = True  # a value that is not of the type is told as the function's own error
        is_full = self.gathered.add(value)
        self.is_in_function = False
        self.note_timestamp(timestamp)
        if is_full:
            self.flush()
        return 0

    cpdef process_watermark(self, int64_t timestamp):
        self.flush()
        self.emit_watermark(timestamp)

    cdef bint has_waiting(self) noexcept:
        return self.gathered.count > 0

    cdef int flush_all(self) except -1:
        return self.flush()

    cdef int note_timestamp(self, int64_t timestamp) except -1:
        cdef int64_t room
        cdef void* grown
        if self.timestamp_count == self.timestamp_room:
            room = max(256, 2 * self.timestamp_room)
            grown = PyMem_Realloc(self.timestamps, room * sizeof(int64_t))
            if grown is NULL:
                raise MemoryError
            self.timestamps, self.timestamp_room = <int64_t*>grown, room
        self.timestamps[self.timestamp_count] = timestamp
        self.timestamp_count += 1
        self.has_timestamps |= timestamp != INT64_MIN
        return 0

    cdef object take_timestamps(self):
        """Of the records in the batch: an array of int64, INT64_MIN where there is none; None: no record has one."""
        cdef int64_t[::1] view
        count, self.timestamp_count = self.timestamp_count, 0
        if not self.has_timestamps:
            return None
        import numpy  # not before records have timestamps

        taken = numpy.empty(count, numpy.int64)
        view = taken
        memcpy(&view[0], self.timestamps, count * sizeof(int64_t))
        self.has_timestamps = False
        return taken

    # ---- batches

    cdef int flush(self) except -1:
        """Have what there is leave as a batch."""
        if self.gathered.count == 0:
            return 0
        self.is_in_function = True  # a column that cannot hold a value is told as the function's own error
        batch = self.gathered.take()
        self.value_in_hand = batch
        self.give(batch, self.take_timestamps())
        self.is_in_function = False
        self.value_in_hand = None  # a batch is large
        return 0

    cdef int give(self, object batch, object timestamps) except -1:
        """Do with a batch what is to be done; called while `is_in_function` is set, which it leaves as it likes."""
        raise NotImplementedError(f"{type(self).__name__}.give")


cdef class BatchRows:
    """Emits the rows of batches as records."""

    cdef int emit(self, StreamOperator operator, object batch, object timestamps, TypeCodec codec) except -1:
        """Called while `is_in_function` is set, and leaves it so: what is wrong with rows is the function's fault."""
        cdef const int64_t[::1] times = timestamps
        cdef int64_t i = 0
        cdef PyObject* value
        if self.given is None or self.codec is not codec:
            self.given, self.codec = BatchToRecords(codec), codec
        self.given.begin(batch)
        value = self.given.take()
        while value is not NULL:
            operator.is_in_function = False
            operator.output.collect(FB_IDENTITY(value), INT64_MIN if timestamps is None else times[i])
            operator.is_in_function = True
            i += 1
            value = self.given.take()
        return 0


@cython.final
cdef class MapBatchesOperator(GatheringOperator):
    """Gathers records, calls ``call(batch, timestamps)`` and emits the rows of what it gives.

    Parameters
    ----------
    call : callable
        Gives triples (ArrowBatch, timestamps of its rows, TypeCodec of its records); timestamps are an array of int64
        or None, as those that it is given.
    gathered, lifecycle, max_delay_ms
        See `GatheringOperator`.
    """

    def __init__(self, call, RecordsToBatch gathered not None, lifecycle=None, int64_t max_delay_ms=-1):
        GatheringOperator.__init__(self, gathered, lifecycle, max_delay_ms)
        self.call, self.rows = call, BatchRows()

    cdef int give(self, object batch, object timestamps) except -1:
        for given, times, codec in self.call(batch, timestamps):
            self.rows.emit(self, given, times, codec)
        return 0


@cython.final
cdef class AsColumnsOperator(GatheringOperator):
    """Gathers records and emits them as batches of columns; records that are batches go on as they are.

    Parameters
    ----------
    make : callable
        Makes the element of a column stream of a batch and its timestamps.
    batch_classes : tuple of type
        Of records that are batches themselves.
    gathered, max_delay_ms
        See `GatheringOperator`.
    """

    def __init__(self, make, tuple batch_classes not None, RecordsToBatch gathered not None, int64_t max_delay_ms=-1):
        GatheringOperator.__init__(self, gathered, None, max_delay_ms)
        self.make, self.batch_classes = make, batch_classes

    cpdef process_element(self, object value, int64_t timestamp):
        if type(value) in self.batch_classes:
            self.flush()
            self.is_in_function = True
            self.value_in_hand = value
            self.give(value, None if timestamp == INT64_MIN else timestamp)
            self.is_in_function = False
            self.value_in_hand = None
        else:
            self.gather(value, timestamp)

    cdef int give(self, object batch, object timestamps) except -1:
        for element in self.make(batch, timestamps):
            self.is_in_function = False
            self.output.collect(element, element.latest)
            self.is_in_function = True
        return 0


@cython.final
cdef class AsRecordsOperator(StreamOperator):
    """Emits the rows of column batches as records.

    Parameters
    ----------
    call : callable
        Takes the element of a column stream; gives triples (ArrowBatch, timestamps of its rows, TypeCodec). Its
        `rows_in` says how many rows it was given.
    """

    def __init__(self, call):
        self.call, self.rows = call, BatchRows()

    @property
    def rows_in(self):
        """How many rows came."""
        return self.call.rows_in

    cpdef process_element(self, object value, int64_t timestamp):
        self.value_in_hand = value
        self.is_in_function = True
        for batch, timestamps, codec in self.call(value):
            self.rows.emit(self, batch, timestamps, codec)
        self.is_in_function = False
        self.value_in_hand = None
