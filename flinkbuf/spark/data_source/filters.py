"""What filters that Spark pushes down, and keys in options, say about the values of a key's column."""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Iterable
from typing import Any

from pyspark.sql import types as spark

from flinkbuf.spark.data_source.types import char_length, is_collated, is_padded

_INTEGER_BITS: dict[type[spark.DataType], int] = {
    spark.ByteType: 8,
    spark.ShortType: 16,
    spark.IntegerType: 32,
    spark.LongType: 64,
}
_FLOATS = (spark.FloatType, spark.DoubleType)
_SPELLINGS_MAX = 1000


def candidates_of(filters: Iterable[object], field: spark.StructField) -> list[object] | None:
    """The values that a column can have in rows that all filters let through; None: any.

    Parameters
    ----------
    filters : iterable of pyspark.sql.datasource.Filter
        All of them hold.
    field : StructField
        The column.
    """
    if is_collated(field.dataType) or is_padded(field):
        return None
    best: list[object] | None = None
    for each in filters:
        if getattr(each, "attribute", None) != (field.name,):
            continue
        found = _values_of(each)
        if found is None:
            continue
        converted = [_as_type(value, field.dataType) for value in found]
        if all(fits for fits, _ in converted) and (best is None or len(converted) < len(best)):
            best = [value for _, value in converted]
    return best


def _values_of(condition: Any) -> list[object] | None:
    kind = type(condition).__name__
    if kind == "EqualNullSafe":
        return [condition.value]
    if kind == "EqualTo":
        return None if condition.value is None else [condition.value]
    if kind == "In":
        return [value for value in condition.value if value is not None]
    return [None] if kind == "IsNull" else None


def _as_type(value: object, data_type: spark.DataType) -> tuple[bool, object]:
    """Whether it can be told as the writer hashed it, and how."""
    if value is None:
        return True, None
    if isinstance(data_type, spark.DecimalType):
        return _as_decimal(value, data_type)
    return _fits(value, data_type), bytes(value) if isinstance(value, bytearray) else value


def _fits(value: object, data_type: spark.DataType) -> bool:
    if isinstance(data_type, spark.BooleanType):
        return isinstance(value, bool)
    if type(data_type) in _INTEGER_BITS:
        most = 1 << (_INTEGER_BITS[type(data_type)] - 1)
        return isinstance(value, int) and not isinstance(value, bool) and -most <= value < most
    if isinstance(data_type, _FLOATS):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and _is_in_range(value, data_type)
    if isinstance(data_type, spark.StringType):
        return isinstance(value, str)
    if isinstance(data_type, spark.BinaryType):
        return isinstance(value, (bytes, bytearray))
    if isinstance(data_type, spark.TimestampType):
        return isinstance(value, datetime.datetime) and value.tzinfo is not None
    if isinstance(data_type, spark.TimestampNTZType):
        return isinstance(value, datetime.datetime) and value.tzinfo is None
    return isinstance(data_type, spark.DateType) and type(value) is datetime.date


def _is_in_range(value: float, data_type: spark.DataType) -> bool:
    """Whether the column has a number for it: a float of 32 bits has none for 1e40."""
    try:
        struct.pack("<f" if isinstance(data_type, spark.FloatType) else "<d", value)
    except (OverflowError, struct.error):
        return False
    return True


def _as_decimal(value: object, data_type: spark.DecimalType) -> tuple[bool, object]:
    """1.5 in a column of two digits after the point is 1.50, which has another hash code."""
    if (
        not isinstance(value, (decimal.Decimal, int))
        or isinstance(value, bool)
        or not decimal.Decimal(value).is_finite()
    ):
        return False, value
    with decimal.localcontext() as context:
        context.prec = 80
        scaled = decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-data_type.scale))
    return scaled == value, scaled


def values_of_json(value: object, field: spark.StructField) -> list[object]:
    """Read a value of the option ``keys``; returns all values of its column that Spark takes for equal to it.

    Raises
    ------
    ValueError
        If it is no value of the column, which the message names; or could be one of several.
    """
    if value is None:
        return [None]
    data_type = field.dataType
    try:
        fits, found = _as_type(_parse(value, data_type), data_type)
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"the option keys: {value!r} is no value of column {field.name!r}: {error}") from None
    if not fits or is_collated(data_type):
        raise ValueError(
            f"the option keys: {value!r} is no value of column {field.name!r}, which is {data_type.simpleString()}"
        )
    return [*_padded(found, field)] if isinstance(found, str) else [found]


def _padded(text: str, field: spark.StructField) -> list[str]:
    """Return the text with each number of blanks at its end that a CHAR column can have."""
    length = char_length(field)
    if length is None:
        return [text]
    bare = text.rstrip(" ")
    if length - len(bare) > _SPELLINGS_MAX:
        raise ValueError(
            f"the option keys: {text!r} may stand in column {field.name!r}, which is char({length}), with any number "
            "of blanks behind it; leave keys out, and filter"
        )
    return [bare + " " * count for count in range(max(0, length - len(bare)) + 1)]


def _parse(value: Any, data_type: spark.DataType) -> object:
    if isinstance(value, bool) or isinstance(data_type, spark.BooleanType):
        return value
    if isinstance(data_type, _FLOATS):
        return float(value)
    if isinstance(data_type, spark.DecimalType):
        return decimal.Decimal(str(value))
    if isinstance(data_type, spark.DateType):
        return datetime.date.fromisoformat(value)
    if isinstance(data_type, spark.BinaryType):
        return bytes.fromhex(value)
    if isinstance(data_type, (spark.TimestampType, spark.TimestampNTZType)):
        return _parse_time(value, data_type)
    return value


def _parse_time(value: str, data_type: spark.DataType) -> datetime.datetime:
    """Read a timestamp; what is one in the session's time zone is not known here, where Spark tells no session."""
    found = datetime.datetime.fromisoformat(value[:-1] + "+00:00" if value.endswith(("Z", "z")) else value)
    if isinstance(data_type, spark.TimestampType) and found.tzinfo is None:
        raise ValueError(f"it has no time zone, which differs from session to session; say which, as {value}+00:00")
    return found
