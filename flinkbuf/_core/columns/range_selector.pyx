"""Channels by ranges of keys: what a range partitioner asks of records and of batches.

Keys are bytes that compare as the values do, the same from a record and from a row of columns.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int64_t, uint8_t, uint32_t

from flinkbuf._core.columns.arrow_column cimport FB_ARROW_STRUCT, ArrowBatch, ArrowPlan, fb_arrow_column, path_of
from flinkbuf._core.columns.arrow_range cimport (
    fb_arrow_range_channels, fb_arrow_range_check, fb_arrow_range_close, fb_arrow_range_key,
)
from flinkbuf._core.record.channel_selector cimport FB_SELECT_RANGE, ChannelSelector, KeyField
from flinkbuf._core.ground.data_view cimport (
    fb_data_input, fb_data_output, fb_data_output_close, fb_data_output_size, fb_data_output_start_scratch,
)
from flinkbuf._core.ground.errors cimport FB_EARGUMENT, check
from flinkbuf._core.record.range_bounds cimport fb_range_bounds_add, fb_range_bounds_close, fb_range_bounds_find
from flinkbuf._core.record.range_key cimport (
    fb_range_key_check, fb_range_key_put_encoded, fb_range_key_put_null, fb_range_order,
)
from flinkbuf._core.value.type_codec cimport TypeCodec, encode_value

from flinkbuf.errors import record_refused


cdef class RangeField(KeyField):
    """Where a part of a key lies in a record, and in which order it comes.

    Parameters
    ----------
    codec : TypeCodec
        Of the part.
    index, name, function, is_positional
        As for `KeyField`.
    is_descending : bool, default False
    has_nulls_first : bool, default True

    Raises
    ------
    ValueError
        If values of the type have no order.
    """

    def __init__(self, TypeCodec codec not None, Py_ssize_t index=-1, str name=None, object function=None,
                 bint is_positional=False, *, bint is_descending=False, bint has_nulls_first=True):
        self.codec, self.index, self.name, self.function = codec, index, name, function
        self.is_positional = is_positional or name is None
        self.label = "the key" if index < 0 and name is None else f"key field {index if name is None else repr(name)}"
        self.order.is_descending, self.order.has_nulls_first = is_descending, has_nulls_first
        if fb_range_key_check(&codec.type) < 0:
            raise ValueError(f"{self.label}: values of {codec.describe()} have no order")


cdef class RangeSelector(ChannelSelector):
    """Chooses by the range that a key lies in.

    Parameters
    ----------
    fields : iterable of RangeField
    channel_count : int
    bounds : sequence of bytes
        Keys in rising order, fewer than there are channels: channel i has the keys up to bound i.

    References
    ----------
    Spark ``RangePartitioner``.
    """

    def __init__(self, fields, channel_count, bounds):
        cdef bytes key
        self.fields = tuple(fields)
        if not self.fields:
            raise ValueError("a key needs at least one field")
        for field in self.fields:
            if not isinstance(field, RangeField):
                raise TypeError(f"fields must be of RangeField, got {field!r}")
        self.open(FB_SELECT_RANGE, channel_count, 0, 0)
        if len(bounds) >= channel_count:
            raise ValueError(f"{channel_count} channels have at most {channel_count - 1} bounds, got {len(bounds)}")
        fb_range_bounds_close(&self.bounds)
        for key in bounds:
            code = fb_range_bounds_add(&self.bounds, <const uint8_t*>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
            if code == FB_EARGUMENT:
                raise ValueError("bounds must rise, each above the one before")
            check(code)

    def __dealloc__(self):
        fb_range_bounds_close(&self.bounds)
        fb_data_output_close(&self.key)
        fb_data_output_close(&self.encoded)

    cdef int64_t select(self, object record) except -1:
        self.record_number += 1
        self.make_key(record)
        return fb_range_bounds_find(&self.bounds, self.key.start, fb_data_output_size(&self.key))

    def key_of(self, record):
        """The key of a record, which compares as the record does in this order."""
        self.record_number += 1
        self.make_key(record)
        return PyBytes_FromStringAndSize(<char*>self.key.start, fb_data_output_size(&self.key))

    cdef int make_key(self, object record) except -1:
        cdef list values = [(<RangeField>field).extract(record, self.record_number) for field in self.fields]
        cdef Py_ssize_t i
        # A value's own Python code may come back here while it is encoded: only then the key is begun.
        cdef fb_data_output key = self.key
        self.key.scratch = NULL
        self.key.scratch_capacity = 0
        fb_data_output_start_scratch(&key)
        try:
            for i in range(len(values)):
                self.put_part(<RangeField>self.fields[i], values[i], &key)
        finally:
            fb_data_output_close(&self.key)
            self.key = key
        return 0

    cdef int put_part(self, RangeField field, object value, fb_data_output* key) except -1:
        cdef fb_data_output encoded
        cdef fb_data_input input
        cdef int code
        if value is None:
            return check(fb_range_key_put_null(field.order, key))
        encoded = self.encoded
        self.encoded.scratch = NULL
        self.encoded.scratch_capacity = 0
        fb_data_output_start_scratch(&encoded)
        encoded.record_number = -1
        try:
            encode_value(field.codec, value, &encoded)
            input.start = input.pos = encoded.start
            input.end = encoded.pos
            input.record_number = input.channel = -1
            code = fb_range_key_put_encoded(&field.codec.type, field.order, &input, key)
            if code == FB_EARGUMENT:
                raise TypeError(f"values of {field.codec.describe()} are compared in batches alone: write batches, or "
                                "records of a ROW type")
            check(code)
        except (TypeError, ValueError, OverflowError) as error:
            reason = str(error).removeprefix("value: ")  # so the codec calls what it is given; we know more
            raise record_refused(type(error)(f"record {self.record_number}: {field.label}: {reason}"),
                                 self.record_number, "key", field.label) from None
        finally:
            fb_data_output_close(&self.encoded)
            self.encoded = encoded
        return 0


cdef class BatchRanges:
    """The keys of rows of batches, and the channels that they go to.

    Parameters
    ----------
    selector : RangeSelector
    """

    def __cinit__(self, RangeSelector selector not None):
        cdef uint32_t i, count = <uint32_t>len(selector.fields)
        self.selector = selector
        self.c.columns = <const fb_arrow_column**>PyMem_Calloc(count, sizeof(fb_arrow_column*))
        self.orders = <fb_range_order*>PyMem_Calloc(count, sizeof(fb_range_order))
        if self.c.columns is NULL or self.orders is NULL:
            raise MemoryError
        for i in range(count):
            self.orders[i] = (<RangeField>selector.fields[i]).order
        self.c.orders, self.c.bounds, self.c.column_count = self.orders, &selector.bounds, count

    def __dealloc__(self):
        fb_arrow_range_close(&self.c)
        PyMem_Free(self.c.columns)
        PyMem_Free(self.orders)

    cdef int bind(self, ArrowPlan plan) except -1:
        """Find the fields among the columns of a plan, which is put on batches by others."""
        cdef RangeField field
        cdef uint32_t i
        for i in range(self.c.column_count):
            field = self.selector.fields[i]
            if field.function is not None:
                raise TypeError(f"{field.label} is a function of a record, which cannot be asked for rows of a batch: "
                                "give fields, or write records")
            if field.index < 0 and field.name is None:
                self.c.columns[i] = &plan.root
            elif plan.root.arrow.kind == FB_ARROW_STRUCT and 0 <= field.index < plan.root.child_count:
                self.c.columns[i] = &plan.root.children[field.index]
            else:
                raise TypeError(f"{field.label} is no field of {plan.codec!r}")
            if fb_arrow_range_check(self.c.columns[i]) < 0:
                raise TypeError(f"{path_of(self.c.columns[i])}: maps and intervals of several numbers have no order")
        self.plan = plan
        return 0

    cdef int find_channels(self, const fb_arrow_rows* rows, uint32_t* channels) noexcept nogil:
        return fb_arrow_range_channels(&self.c, rows, channels)

    def keys_of(self, codec, ArrowBatch batch not None, rows):
        """The keys of some rows of a batch."""
        cdef ArrowPlan plan = ArrowPlan(codec, batch)
        cdef int64_t i
        cdef list keys = []
        plan.bind(batch)
        self.bind(plan)
        for i in rows:
            if not 0 <= i < plan.root.length:
                raise IndexError(f"the batch has {plan.root.length} rows, got row {i}")
            check(fb_arrow_range_key(&self.c, &plan.root, i))
            keys.append(PyBytes_FromStringAndSize(<char*>self.c.scratch.start, fb_data_output_size(&self.c.scratch)))
        return keys
