"""Which Arrow columns a DataFrame's rows have between its tasks, and what its key's columns are called there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from flinkbuf.records.arrow_batches import record_type
from flinkbuf.records.partitioner import WHOLE_RECORD, KeyPartitioner, Partitioner
from flinkbuf.records.range_partitioner import RangePartitioner
from flinkbuf.records.spark_arrow import arrow_type_of
from flinkbuf.spark.data_source.types import check_not_collated
from flinkbuf.types.row_data import row_data_type
from flinkbuf.types.types import TypeInformation

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import DataType, StructField, StructType


def as_struct_type(schema: object, name: str) -> StructType:
    """Take a schema as ``mapInArrow`` does, or in any form that `flinkbuf.as_type` reads.

    Raises
    ------
    TypeError
        If it has no columns.
    """
    from pyspark.sql.types import StructType

    if isinstance(schema, str):
        schema = StructType.fromDDL(schema)
    elif type(schema).__module__.partition(".")[0] != "pyspark":
        from flinkbuf.spark.frames.schema import to_struct_type

        schema = to_struct_type(schema)
    if not isinstance(schema, StructType):
        raise TypeError(f'{name}= is the columns of a DataFrame, such as "id bigint, name string"; got {schema!r}')
    return schema


def column_names(columns: list[str]) -> list[str]:
    """Return a name of its own for each column: where two have the same, its place is added to each of them.

    Examples
    --------
    >>> column_names(["id", "name", "id"])
    ['id#0', 'name', 'id#2']
    """
    return [f"{name}#{place}" if columns.count(name) > 1 else name for place, name in enumerate(columns)]


def crossing_schema(columns: StructType, time_zone: str = "UTC", prefers_large_types: bool = False) -> pyarrow.Schema:
    """Return the schema of the Arrow batches in which Spark brings such columns to ``mapInArrow``.

    Parameters
    ----------
    columns : StructType
    time_zone : str
        ``spark.sql.session.timeZone``: what is written on timestamps, which are in UTC.
    prefers_large_types : bool
        ``spark.sql.execution.arrow.useLargeVarTypes``: 64-bit offsets of strings and binaries.

    Raises
    ------
    TypeError
        For a column that Spark cannot bring to Python as Arrow; with its name and the way out.

    Examples
    --------
    >>> from pyspark.sql.types import LongType, StructType, TimestampType
    >>> crossing_schema(StructType().add("id", LongType(), False).add("at", TimestampType()))
    id: int64 not null
    at: timestamp[us, tz=UTC]
    """
    import pyarrow as pa

    convert = partial(arrow_type_of, time_zone=time_zone, prefers_large_types=prefers_large_types)
    names = column_names(columns.names)
    return pa.schema(
        [_field_of(field, name, convert) for field, name in zip(columns.fields, names, strict=True)],
    )


def type_between_tasks(schema: pyarrow.Schema) -> TypeInformation:
    """Return the type that rows of such batches are written and read with.

    That is Flink's ``BinaryRowData``, which lets keys be null; and ``Row`` where it would lose something, as it has
    times of day in milliseconds.

    Raises
    ------
    TypeError
        For a column that no type of Flink's holds; with its name.
    """
    from pyarrow import types

    if any(_has(field.type, types.is_time) for field in schema):
        return record_type(schema)
    return row_data_type(schema)


def _has(found: pyarrow.DataType, test: Callable[[pyarrow.DataType], bool]) -> bool:
    """Whether a type is one of these, or has one of these in it."""
    parts = [found.field(place).type for place in range(found.num_fields)] if found.num_fields else []
    return test(found) or any(_has(part, test) for part in parts)


def crosses_as_text(data_type: DataType) -> bool:
    """Whether Spark cannot bring such a column to Python and back, but has a text for each of its values."""
    return data_type.typeName() in ("interval", "yearmonthinterval") or data_type.simpleString().endswith(
        ("interval year", "interval month", "interval year to month")
    )


def with_column_names(partitioner: Partitioner, columns: list[str], is_case_sensitive: bool) -> Partitioner:
    """Return the partitioner with its key's columns as they are written in the DataFrame.

    Spark takes names that differ in case only for the same, unless it is told otherwise.

    Raises
    ------
    TypeError
        If the key is a function of a record.
    ValueError
        If there is no such column, or more than one.
    """
    if isinstance(partitioner, RangePartitioner):
        found = [_column_of(part, columns, is_case_sensitive) for part in partitioner.columns]
        return replace(partitioner, columns=tuple(found))
    if not isinstance(partitioner, KeyPartitioner):
        return partitioner
    key = partitioner.key
    parts = [_column_of(part, columns, is_case_sensitive) for part in (key if isinstance(key, tuple) else (key,))]
    return replace(partitioner, key=tuple(parts) if isinstance(key, tuple) else parts[0])


def check_keys(partitioner: Partitioner, columns: StructType) -> None:
    """Refuse keys, and columns of ranges, whose equal values have different bytes.

    Raises
    ------
    TypeError
        With the column's name and the way out.
    """
    if isinstance(partitioner, RangePartitioner):
        parts = partitioner.columns
    elif isinstance(partitioner, KeyPartitioner):
        parts = partitioner.key if isinstance(partitioner.key, tuple) else (partitioner.key,)
    else:
        return
    for place, field in enumerate(columns):
        if any(part in (place, field.name, WHOLE_RECORD) for part in parts):
            check_not_collated(field)


def _column_of(part: object, columns: list[str], is_case_sensitive: bool) -> object:
    if callable(part):
        raise TypeError(
            f"the key {part!r} is a function of a record, and the rows of a DataFrame cross as columns: make it a "
            'column, df.withColumn("key", ...), and say key="key"'
        )
    names = column_names(columns)
    if not isinstance(part, str) or part in names or part == WHOLE_RECORD:
        return part
    fold = str if is_case_sensitive else str.lower
    matches = [name for name, column in zip(names, columns, strict=True) if fold(column) == fold(part)]
    if len(matches) == 1:
        return matches[0]
    if not matches and "." in part and part.partition(".")[0] in columns:
        raise ValueError(
            f'there is no column {part!r}; for a field inside a column: df.withColumn("key", df["{part}"]), and '
            'key="key"'
        )
    what = f"{len(matches)} columns are called" if matches else "there is no column"
    raise ValueError(f"{what} {part!r}: the columns are {', '.join(names)}")


def _field_of(field: StructField, name: str, convert: Callable[[DataType], pyarrow.DataType]) -> pyarrow.Field:
    import pyarrow as pa
    from pyspark.errors import PySparkTypeError

    try:
        return pa.field(name, convert(field.dataType), field.nullable)
    except PySparkTypeError as error:
        raise TypeError(
            f"column {field.name!r} is {field.dataType.simpleString()}, which Spark cannot bring to Python as Arrow "
            f"({error}): cast it, for example to string or to a number, or leave it out"
        ) from None
