"""Rows of a key group by their keys: what a processor's methods are called with.

Rows stay columns until their key is at hand, so that only some thousand of them are Python objects at once.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyspark.sql.types as spark
from pyspark.sql.types import Row

from flinkbuf.spark.streams.values import as_lookup, from_lookup, has_floats

if TYPE_CHECKING:
    from flinkbuf.spark.streams.key_group_state import Key

_KEYS = (
    spark.BooleanType,
    spark.ByteType,
    spark.ShortType,
    spark.IntegerType,
    spark.LongType,
    spark.FloatType,
    spark.DoubleType,
    spark.DecimalType,
    spark.StringType,
    spark.BinaryType,
    spark.DateType,
    spark.TimestampType,
    spark.TimestampNTZType,
)


@dataclass(frozen=True)
class KeyColumns:
    """Which columns of rows are their key.

    Attributes
    ----------
    names : list of str
        The columns of a row.
    positions : list of int
        Those of the key among them.
    schema : StructType
        The key's fields.
    arrow_types : list of pyarrow.DataType
        Their types as Spark brings them.
    """

    names: list[str]
    positions: list[int]
    schema: spark.StructType
    arrow_types: list[pa.DataType]

    def groups(self, table: pa.Table) -> Iterator[tuple[tuple[Any, ...], Key, Iterator[Row]]]:
        """Yield (key as users see it, key as states are looked up by it, rows) for each key, in order of arrival."""
        numbers: defaultdict[Key, int] = defaultdict(count().__next__)  # of keys, as they come
        users: dict[Key, tuple[Any, ...]] = {}
        of_rows = [np.empty(0, np.int64)]
        for batch in table.to_batches():
            keys = list(zip(*(python_values(batch.column(position)) for position in self.positions), strict=True))
            identities = keys if self._are_plain else list(map(self._identity, keys))
            of_rows.append(np.fromiter(map(numbers.__getitem__, identities), np.int64, len(keys)))
            if not self._are_plain:
                for identity, key in zip(identities, keys, strict=True):
                    users.setdefault(identity, key)
        of_row = np.concatenate(of_rows)
        rows = _RowsInOrder(table, np.argsort(of_row, kind="stable"), self._row_class)
        begin = 0
        for identity, end in zip(numbers, np.cumsum(np.bincount(of_row)).tolist(), strict=True):
            yield users.get(identity, identity), identity, rows.between(begin, end)
            begin = end

    def key_of(self, identity: Key) -> tuple[Any, ...]:
        """Return the key as users see it."""
        if self._are_plain:
            return identity
        return tuple(
            pa.scalar(each, kind).as_py() if pa.types.is_timestamp(kind) and isinstance(each, int) else each
            for each, kind in zip(from_lookup(identity, self.schema), self.arrow_types, strict=True)
        )

    @cached_property
    def _row_class(self) -> type[Row]:
        return _class_of_rows(self.names)

    @cached_property
    def _are_plain(self) -> bool:
        """Whether keys are equal where their values are, so that they stand for themselves."""
        return not has_floats(self.schema) and not any(pa.types.is_timestamp(kind) for kind in self.arrow_types)

    def _identity(self, key: tuple[Any, ...]) -> Key:
        """Return a tuple that is equal for equal keys, in each process, and that a checkpoint can hold."""
        return as_lookup(tuple(_microseconds(each) if isinstance(each, datetime.datetime) else each for each in key))


def key_columns(schema: spark.StructType, keys: Sequence[str], arrow_schema: pa.Schema, whose: str) -> KeyColumns:
    """Find the columns of the key.

    Raises
    ------
    TypeError
        If a column is of a type that no key can have.
    """
    fields = [schema[name] for name in keys]
    for field in fields:
        if not isinstance(field.dataType, _KEYS):
            raise TypeError(
                f"{whose} groups by the column {field.name!r} of type {field.dataType.simpleString()}: group by "
                "columns of numbers, strings, bytes, dates or timestamps, such as the fields of a struct"
            )
        if isinstance(field.dataType, spark.StringType) and field.dataType.collation != "UTF8_BINARY":
            raise TypeError(
                f"{whose} groups by the column {field.name!r}, in which other strings are equal than those of the same "
                f"characters (collation {field.dataType.collation}): group by lower(…) of it"
            )
    positions = [schema.names.index(name) for name in keys]
    kinds = [arrow_schema.field(position).type for position in positions]
    return KeyColumns(list(schema.names), positions, spark.StructType(fields), kinds)


class _RowsInOrder:
    """Rows of a table in an order, made Python objects some thousand at a time."""

    def __init__(self, table: pa.Table, order: np.ndarray, row_class: type[Row]) -> None:
        self._table = table.combine_chunks()
        self._order = order
        self._new = partial(tuple.__new__, row_class)
        self._begin = self._end = 0
        self._made: list[Row] = []

    def between(self, begin: int, end: int) -> Iterator[Row]:
        """Give the rows from one place on to another; calls go from the first place to the last."""
        if begin >= self._end:
            self._begin, self._made = begin, self._make(begin)
            self._end = begin + len(self._made)
        if end <= self._end:
            return iter(self._made[begin - self._begin : end - self._begin])
        return self._across(self._made[begin - self._begin :], self._end, end)

    def _across(self, first: list[Row], begin: int, end: int) -> Iterator[Row]:
        yield from first
        while begin < end:
            made = self._make(begin)[: end - begin]
            yield from made
            begin += len(made)

    def _make(self, begin: int) -> list[Row]:
        columns = self._table.take(self._order[begin : begin + _MADE_AT_ONCE]).columns
        return list(map(self._new, zip(*map(python_values, columns), strict=True)))


def _class_of_rows(names: list[str]) -> type[Row]:
    """Return a class of Spark's rows that knows its fields, so that a row needs no dict of its own."""
    places = {name: place for place, name in reversed(list(enumerate(names)))}
    value_at = tuple.__getitem__

    def value_of(self: Row, item: Any) -> Any:
        if type(item) is str and item in places:
            return value_at(self, places[item])
        return Row.__getitem__(self, item)

    fields = {name: property(itemgetter(place)) for name, place in places.items() if not hasattr(Row, name)}
    return type("Row", (Row,), {**fields, "__slots__": (), "__fields__": names, "__getitem__": value_of})


_NUMBERS = frozenset(getattr(pa.lib, f"Type_{name}") for name in ("INT8", "INT16", "INT32", "INT64", "FLOAT", "DOUBLE"))
_OBJECTS = frozenset(
    getattr(pa.lib, f"Type_{name}") for name in ("BOOL", "STRING", "LARGE_STRING", "BINARY", "LARGE_BINARY")
)
_FIRST, _LAST = np.datetime64("0001-01-01"), np.datetime64("9999-12-31")  # what Python has of days


def python_values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return what ``to_pylist()`` does, sooner for the types that numpy has, too.

    Examples
    --------
    >>> python_values(pa.array([1, None, 3]))
    [1, None, 3]
    """
    kind = column.type
    if kind.id in _NUMBERS:
        if not column.null_count:
            return _as_numpy(column).tolist()
        values = _as_numpy(column.fill_null(0)).tolist()
        for place in np.flatnonzero(_as_numpy(column.is_null())).tolist():
            values[place] = None
        return values
    if kind.id in _OBJECTS:
        return _as_numpy(column).tolist()
    is_micros = kind.id == pa.lib.Type_TIMESTAMP and kind.unit == "us" and kind.tz in (None, "UTC", "Etc/UTC")
    if is_micros or kind.id == pa.lib.Type_DATE32:
        times = _as_numpy(column)
        days = times.astype("datetime64[D]")
        if not np.any((days < _FIRST) | (days > _LAST)):  # numpy gives those as numbers
            zone = pa.lib.string_to_tzinfo(kind.tz) if is_micros and kind.tz else None
            if zone is None:
                return times.tolist()
            return [each if each is None else each.replace(tzinfo=zone) for each in times.tolist()]
    return column.to_pylist()


def _as_numpy(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    return column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)


_MADE_AT_ONCE = 4096  # rows
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)


def _microseconds(at: datetime.datetime) -> int:
    return (at - (_EPOCH if at.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND
