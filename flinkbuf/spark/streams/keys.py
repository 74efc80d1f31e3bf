"""Rows of a key group by their keys, as Python objects: what a processor's methods are called with."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

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

    def groups(self, table: pa.Table | pa.RecordBatch) -> Iterator[tuple[tuple[Any, ...], Key, list[Row]]]:
        """Yield (key as users see it, key as states are looked up by it, rows) for each key, in order of arrival."""
        if not table.num_rows:
            return
        columns = [_python_values(column) for column in table.columns]
        keys = list(zip(*(columns[position] for position in self.positions), strict=True))
        by_key: dict[Key, list[Row]] = {}
        users: dict[Key, tuple[Any, ...]] = {}
        identities = keys if self._are_plain else [self._identity(key) for key in keys]
        names, new = self.names, tuple.__new__
        for key, identity, values in zip(keys, identities, zip(*columns, strict=True), strict=True):
            row = new(Row, values)
            row.__fields__ = names
            try:
                by_key[identity].append(row)
            except KeyError:
                by_key[identity] = [row]
                users[identity] = key
        for identity, rows in by_key.items():
            yield users[identity], identity, rows

    def key_of(self, identity: Key) -> tuple[Any, ...]:
        """Return the key as users see it."""
        if self._are_plain:
            return identity
        return tuple(
            pa.scalar(each, kind).as_py() if pa.types.is_timestamp(kind) and isinstance(each, int) else each
            for each, kind in zip(from_lookup(identity, self.schema), self.arrow_types, strict=True)
        )

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


def _python_values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return what ``to_pylist()`` does, sooner for timestamps of UTC."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz in ("UTC", "Etc/UTC"):
        zone = pa.lib.string_to_tzinfo(kind.tz)
        naive = (
            column.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False).tolist()
            if isinstance(column, pa.Array)
            else column.cast(pa.timestamp("us")).to_numpy().tolist()
        )
        return [each if each is None else each.replace(tzinfo=zone) for each in naive]
    values: list[Any] = column.to_pylist()
    return values


_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)


def _microseconds(at: datetime.datetime) -> int:
    return (at - (_EPOCH if at.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND
