"""Columns of a DataFrame for the data source: which can be stored, as what type of ours, and in which Arrow types."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import types as spark

from flinkbuf.records.partitioner import by_key
from flinkbuf.spark.frames.schema import from_spark
from flinkbuf.types.types import RowTypeInfo, TypeInformation

_PADDED = "__CHAR_VARCHAR_TYPE_STRING"  # Spark pads such a column on one side of a comparison only


def record_type_of(schema: spark.StructType) -> TypeInformation:
    """The type of the rows; TypeError names the column that Flink has no counterpart for."""
    return from_spark(schema)


def key_types_of(schema: spark.StructType, key: Sequence[str]) -> list[TypeInformation]:
    """The types of the key's columns."""
    return [from_spark(schema[name].dataType) for name in key]


def check_columns(schema: spark.StructType, key: Sequence[str], stored: spark.StructType | None = None) -> None:
    """Refuse columns that cannot be written, be a key, or be read.

    Parameters
    ----------
    schema : StructType
        Of the DataFrame.
    key : sequence of str
        The columns of the key.
    stored : StructType, optional
        For a read: the columns that there are.

    Raises
    ------
    TypeError, ValueError
        The message names the column.
    """
    names = schema.fieldNames()
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"there are two columns named {twice[0]!r}: rename one of them")
    if stored is not None:
        _check_stored(schema, stored)
        return
    if not names:
        raise ValueError("the DataFrame has no columns, so Spark would bring no row to be written: select some")
    record_type_of(schema)
    for name in key:
        if name not in names:
            raise ValueError(f"the option key names {name!r}; the columns are {', '.join(names)}")
        _check_key(schema[name])


def _check_stored(schema: spark.StructType, stored: spark.StructType) -> None:
    for field in schema.fields:
        if field.name not in stored.fieldNames():
            raise ValueError(f"there is no column {field.name!r}; there are {', '.join(stored.fieldNames())}")
        found = stored[field.name].dataType
        if _nullable(found) != _nullable(field.dataType):
            raise TypeError(
                f"column {field.name!r} is {found.simpleString()}; it cannot be read as "
                f"{field.dataType.simpleString()}: read it as it is, and cast it then"
            )


def _check_key(field: spark.StructField) -> None:
    check_not_collated(field)
    row_type = RowTypeInfo((from_spark(field.dataType),), (field.name,))
    try:
        by_key(field.name).selector(row_type, 1)
    except (TypeError, ValueError) as error:
        raise TypeError(f"column {field.name!r} cannot be a key: {error}") from None


def is_collated(data_type: spark.DataType) -> bool:
    """Whether equality of the type, or of a part of it, is not that of the bytes.

    Examples
    --------
    >>> is_collated(spark.StringType()), is_collated(spark.LongType())
    (False, False)
    """
    if isinstance(data_type, spark.StructType):
        return any(is_collated(field.dataType) for field in data_type)
    if isinstance(data_type, spark.ArrayType):
        return is_collated(data_type.elementType)
    if isinstance(data_type, spark.MapType):
        return is_collated(data_type.keyType) or is_collated(data_type.valueType)
    return isinstance(data_type, spark.StringType) and getattr(data_type, "collation", "UTF8_BINARY") != "UTF8_BINARY"


def check_not_collated(field: spark.StructField) -> None:
    """Refuse a column as a key whose equal values have different bytes.

    Raises
    ------
    TypeError
        With the column's name and the way out.
    """
    if is_collated(field.dataType):
        raise TypeError(
            f"column {field.name!r} is {field.dataType.simpleString()}: texts that its collation takes for equal have "
            "other bytes, and would not meet; make it a key without a collation, such as lower(…)"
        )


def is_padded(field: spark.StructField) -> bool:
    """Whether Spark compares the column with blanks at its end."""
    return isinstance(field.dataType, (spark.CharType, spark.VarcharType)) or _PADDED in (field.metadata or {})


def char_length(field: spark.StructField) -> int | None:
    """Return how long the texts of a CHAR column are, which Spark compares with blanks at their end; None: of others.

    Examples
    --------
    >>> char_length(spark.StructField("c", spark.StringType(), True, {_PADDED: "char(5)"}))
    5
    """
    if isinstance(field.dataType, spark.CharType):
        return int(field.dataType.length)
    found = re.fullmatch(r"char\((\d+)\)", str((field.metadata or {}).get(_PADDED, "")))
    return int(found[1]) if found else None


def _nullable(data_type: spark.DataType) -> object:
    """The type with everything nullable and without metadata, for comparison."""
    if isinstance(data_type, spark.StructType):
        return tuple((each.name, _nullable(each.dataType)) for each in data_type.fields)
    if isinstance(data_type, spark.ArrayType):
        return ("array", _nullable(data_type.elementType))
    if isinstance(data_type, spark.MapType):
        return ("map", _nullable(data_type.keyType), _nullable(data_type.valueType))
    return data_type.simpleString()
