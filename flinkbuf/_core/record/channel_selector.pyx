"""Which channel a record goes to: Flink's channel selectors over Python records."""

import operator


from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject, PyTypeObject
from cpython.tuple cimport PyTuple_Check, PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE

from flinkbuf._core.ground.errors cimport check
from flinkbuf._core.record.key_group cimport KeyHasher
from flinkbuf._core.record.plain_function cimport called

from flinkbuf._core.record.key_group import check_parallelism
from flinkbuf.errors import record_refused

KINDS = {
    "global": FB_SELECT_GLOBAL, "forward": FB_SELECT_FORWARD, "round_robin": FB_SELECT_ROUND_ROBIN,
    "rescale": FB_SELECT_RESCALE, "rebalance": FB_SELECT_REBALANCE, "shuffle": FB_SELECT_SHUFFLE,
    "broadcast": FB_SELECT_BROADCAST, "key_group": FB_SELECT_KEY_GROUP, "custom": FB_SELECT_CUSTOM,
    "range": FB_SELECT_RANGE,
}
WITHOUT_RECORD = tuple(kind for kind in KINDS if kind not in ("key_group", "custom", "range"))
cdef extern from "Python.h":
    PyTypeObject* Py_TYPE(object value)

cdef dict NAMES = {number: name for name, number in KINDS.items()}


cdef str shorten(object value):
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


cdef class ChannelSelector:
    """Chooses channels without a look at the record: by turns, at random, or always the same.

    Parameters
    ----------
    kind : str
        ``"global"``, ``"forward"``, ``"round_robin"``, ``"rescale"``, ``"rebalance"``, ``"shuffle"`` or
        ``"broadcast"``; the latter stands for all channels and cannot choose one.
    channel_count : int
        How many channels there are.
    seed : int, default 0
        Decides where ``"rebalance"`` starts and what ``"shuffle"`` chooses.

    References
    ----------
    Flink ``ChannelSelector``, ``StreamPartitioner``.

    Examples
    --------
    >>> selector = ChannelSelector("round_robin", 3)
    >>> [selector.select_channel("any record") for _ in range(5)]
    [0, 1, 2, 0, 1]
    """

    def __cinit__(self, *args, **kwargs):
        self.record_number = -1

    def __init__(self, kind, channel_count, seed=0):
        if kind not in WITHOUT_RECORD:
            raise ValueError(f"kind must be one of {', '.join(WITHOUT_RECORD)}; got {kind!r}")
        self.open(KINDS[kind], channel_count, 0, seed)

    def open(self, int kind, channel_count, max_parallelism, seed):
        """Set up; for the constructors of the subclasses."""
        if not 1 <= channel_count <= 0x7FFFFFFF:
            raise ValueError(f"channel count must be at least 1, got {channel_count}")
        check(fb_channel_selector_open(&self.c, <fb_channel_selector_kind>kind, channel_count, max_parallelism,
                                       <uint64_t>(seed & 0xFFFFFFFFFFFFFFFF)))
        self.channel_count = channel_count
        self.is_broadcast = kind == FB_SELECT_BROADCAST

    @property
    def kind(self):
        """The name of what it does, as given to the constructor; else ``"key_group"``, ``"custom"`` or ``"range"``."""
        return NAMES[self.c.kind]

    @property
    def max_parallelism(self):
        """How many key groups there are; None unless it selects by key."""
        return self.c.max_parallelism or None

    cdef int64_t select(self, object record) except -1:
        if self.is_broadcast:
            raise RuntimeError("a broadcast goes to every channel: no single one can be selected")
        return fb_channel_selector_next(&self.c)

    def select_channel(self, record):
        """The channel of `record`. Flink's ``selectChannel``; a broadcast has none: RuntimeError."""
        return self.select(record)

    def channels_of(self, records):
        """The channels of a sequence or array of records, in order: a uint32 array."""
        import numpy  # not before somebody wants columns

        items = records if isinstance(records, numpy.ndarray) else list(records)
        channels = numpy.empty(len(items), numpy.uint32)
        cdef uint32_t[::1] out = channels
        cdef Py_ssize_t i
        if out.shape[0] == 0:
            return channels
        if fb_channel_selector_is_blind(&self.c):
            with nogil:
                fb_channel_selector_next_many(&self.c, <size_t>out.shape[0], &out[0])
            return channels
        items = tuple(items.tolist() if isinstance(items, numpy.ndarray) else items)  # no callable can change it
        for i in range(out.shape[0]):
            out[i] = <uint32_t>self.select(items[i])
        return channels


cdef class KeyField:
    """Where a key lies in a record, and how it is hashed.

    Parameters
    ----------
    hasher : KeyHasher
        Of the key's type.
    index : int, default -1
        The key's place in a tuple or list.
    name : str, optional
        The key's name in a dict, in a named tuple or row, or as an attribute.
    is_positional : bool, default False
        Take a named tuple by `index` all the same: the declared fields have no names.
    function : callable, optional
        Takes the record and returns the key; without it and without index and name, the record is the key.
    """

    def __init__(self, KeyHasher hasher not None, Py_ssize_t index=-1, str name=None, object function=None,
                 bint is_positional=False):
        self.hasher, self.index, self.name, self.function = hasher, index, name, function
        self.is_positional = is_positional or name is None
        self.label = "the key" if index < 0 and name is None else f"key field {index if name is None else repr(name)}"

    cdef object extract(self, object record, int64_t record_number):
        if self.function is not None:
            return called(self.function, record)
        if self.index >= 0 and PyTuple_Check(record) and self.index < PyTuple_GET_SIZE(record):
            if PyTuple_CheckExact(record) or self.is_positional or Py_TYPE(record) is self.row_type:
                return <object>PyTuple_GET_ITEM(record, self.index)
        return self.extract_slowly(record, record_number)

    cdef object extract_slowly(self, object record, int64_t record_number):
        cdef PyObject* value
        if self.index < 0 and self.name is None:
            return record
        if isinstance(record, dict):
            value = PyDict_GetItemWithError(record, self.name)
            if value is not NULL:
                return <object>value
        elif self.index >= 0 and isinstance(record, (list, tuple)):
            index = self.place_in(record)
            if 0 <= index < len(record):
                return record[index]
        elif self.name is not None:
            try:
                return getattr(record, self.name)
            except AttributeError:
                pass
        raise record_refused(ValueError(f"record {record_number}: {self.label} is missing in {shorten(record)}"),
                             record_number, "key", self.label)

    cdef Py_ssize_t place_in(self, object record) except -2:
        """The index in a list or tuple; by name where the codec goes by name too: in rows with other names."""
        if isinstance(record, list) or self.is_positional:
            return self.index
        names = getattr(record, "__fields__", None)  # of this very row, in pyspark
        if names is None:
            names = getattr(type(record), "_fields", None)
            if names is None or (self.index < len(names) and names[self.index] == self.name):
                self.row_class = type(record)
                self.row_type = Py_TYPE(record)
                return self.index
        return names.index(self.name) if self.name in names else -1


cdef class KeyGroupSelector(ChannelSelector):
    """Chooses by key: equal keys go to one channel, the one whose range of key groups holds them.

    Parameters
    ----------
    fields : sequence of KeyField
        One: its value is the key. Several: the key is Flink's Tuple of their values.
    channel_count : int
        How many channels there are.
    max_parallelism : int
        How many key groups there are.
    row_hasher : KeyHasher, optional
        The key is a row of the fields' values, also of one, and this is its type's: as in Flink's table runtime.

    References
    ----------
    Flink ``KeyGroupStreamPartitioner``, ``KeyGroupRangeAssignment.assignKeyToParallelOperator``,
    ``BinaryRowDataKeySelector``.
    """

    def __init__(self, fields, channel_count, max_parallelism, KeyHasher row_hasher=None):
        self.fields, self.row_hasher = tuple(fields), row_hasher
        if not self.fields:
            raise ValueError("a key needs at least one field")
        for field in self.fields:
            if not isinstance(field, KeyField):
                raise TypeError(f"fields must be of KeyField, got {field!r}")
        self.field = self.fields[0] if len(self.fields) == 1 and row_hasher is None else None
        check_parallelism(max_parallelism, channel_count)
        self.open(FB_SELECT_KEY_GROUP, channel_count, max_parallelism, 0)

    cdef int64_t select(self, object record) except -1:
        cdef int32_t hash_code
        self.record_number += 1
        self.hash(record, &hash_code)
        return fb_channel_selector_of_hash(&self.c, hash_code)

    cdef int hash(self, object record, int32_t* hash) except -1:
        cdef KeyField field = self.field
        if self.row_hasher is not None:
            return self.hash_row(record, hash)
        if field is None:
            return self.hash_tuple(record, hash)
        key = field.extract(record, self.record_number)
        if key is None and not field.hasher.takes_none:
            raise record_refused(ValueError(
                f"record {self.record_number}: {field.label} is None; an assigned key must not be null: filter such "
                f"records out, or key by a function that names a stand-in ({shorten(record)})"),
                self.record_number, "key", field.label)
        return self.hash_field(field, key, hash)

    cdef int hash_tuple(self, object record, int32_t* hash) except -1:
        """Java's hash code of the tuple of all fields, in which None counts 0."""
        cdef uint32_t sum = 0
        cdef int32_t part
        cdef KeyField field
        for field in self.fields:
            key = field.extract(record, self.record_number)
            part = 0
            if key is not None:
                self.hash_field(field, key, &part)
            sum = 31 * sum + <uint32_t>part
        hash[0] = <int32_t>sum
        return 0

    cdef int hash_row(self, object record, int32_t* hash) except -1:
        cdef KeyField field
        key = tuple([field.extract(record, self.record_number) for field in self.fields])
        try:
            return self.row_hasher.hash(key, hash, -1)
        except (TypeError, ValueError, OverflowError) as error:
            raise record_refused(type(error)(f"record {self.record_number}: the key: {error}"), self.record_number,
                                 "key", "the key") from None

    cdef int hash_field(self, KeyField field, object key, int32_t* hash) except -1:
        try:
            return field.hasher.hash(key, hash, -1)
        except (TypeError, ValueError, OverflowError) as error:
            reason = str(error).removeprefix("value: ")  # so the codec calls what it is given; we know more
            raise record_refused(type(error)(f"record {self.record_number}: {field.label}: {reason}"),
                                 self.record_number, "key", field.label) from None

    def hash_code_of(self, record):
        """Java's hash code of the key of `record`."""
        cdef int32_t hash_code
        self.record_number += 1
        self.hash(record, &hash_code)
        return hash_code

    def channels_of(self, records):
        """The channels of a sequence or array of records, in order: a uint32 array.

        At once, without the GIL, where the records are an array of numbers and are their own keys.
        """
        cdef KeyField field = self.field
        if field is None or field.index >= 0 or field.name is not None or field.function is not None:
            return ChannelSelector.channels_of(self, records)
        return self.channels_of_keys(records)

    def channels_of_keys(self, keys):
        """The channels of a column of keys, not of records: a uint32 array.

        Raises
        ------
        ValueError
            If the key is made of several fields.
        TypeError
            If the array's numbers do not all fit the key's type.
        """
        if self.field is None:
            raise ValueError(f"the key has {len(self.fields)} fields: one column cannot hold it"
                             if self.row_hasher is None else "the key is a row: a column of values cannot hold it")
        channels = self.field.hasher.hash_codes(keys).view("u4")
        cdef uint32_t[::1] out = channels
        if out.shape[0] > 0:
            with nogil:
                fb_channel_selector_of_hashes(&self.c, <int32_t*>&out[0], <size_t>out.shape[0], &out[0])
        return channels


cdef class CustomSelector(ChannelSelector):
    """Chooses by a function of the user.

    Parameters
    ----------
    function : callable
        Takes the record and the channel count, returns a channel. What it raises comes through unchanged.
    channel_count : int
        How many channels there are.

    References
    ----------
    Flink ``CustomPartitionerWrapper``.
    """

    def __init__(self, function, channel_count):
        if not callable(function):
            raise TypeError(f"a partitioner must be callable as (record, num_channels) -> int, got {function!r}")
        self.function = function
        self.count = channel_count
        self.open(FB_SELECT_CUSTOM, channel_count, 0, 0)

    cdef int64_t select(self, object record) except -1:
        self.record_number += 1
        chosen = self.function(record, self.count)
        try:
            channel = operator.index(chosen)
        except TypeError:
            raise self.refusal(TypeError, f"0 to {self.channel_count - 1}, got {shorten(chosen)}", record) from None
        if not 0 <= channel < self.channel_count:
            raise self.refusal(ValueError, f"0 to {self.channel_count - 1}, got {channel}", record)
        return channel

    cdef object refusal(self, kind, str what, object record):
        return record_refused(kind(f"record {self.record_number}: the partitioner {self.function!r} must return an int "
                                   f"from {what} for {shorten(record)}"), self.record_number, "partitioner")
