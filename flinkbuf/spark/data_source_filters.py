"""What filters that Spark pushes down, and keys in options, say about the values of a key's column."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable
from typing import Any

from pyspark.sql import types as spark

from flinkbuf.spark.data_source_types import is_collated, is_padded

_INTEGERS = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)
_FLOATS = (spark.FloatType, spark.DoubleType)


def candidates_of(filters: Iterable[Any], field: spark.StructField) -> list[Any] | None:
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
    best: list[Any] | None = None
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


def _values_of(condition: Any) -> list[Any] | None:
    kind = type(condition).__name__
    if kind == "EqualNullSafe":
        return [condition.value]
    if kind == "EqualTo":
        return None if condition.value is None else [condition.value]
    if kind == "In":
        return [value for value in condition.value if value is not None]
    return [None] if kind == "IsNull" else None


def _as_type(value: Any, data_type: spark.DataType) -> tuple[bool, Any]:
    """Whether it can be told as the writer hashed it, and how."""
    if value is None:
        return True, None
    if isinstance(data_type, spark.BooleanType):
        return isinstance(value, bool), value
    if isinstance(data_type, _INTEGERS):
        return isinstance(value, int) and not isinstance(value, bool), value
    if isinstance(data_type, _FLOATS):
        return isinstance(value, (int, float)) and not isinstance(value, bool), value
    if isinstance(data_type, spark.StringType):
        return isinstance(value, str), value
    if isinstance(data_type, spark.BinaryType):
        return isinstance(value, (bytes, bytearray)), bytes(value)
    if isinstance(data_type, spark.DecimalType):
        return _as_decimal(value, data_type)
    if isinstance(data_type, spark.TimestampType):
        return isinstance(value, datetime.datetime) and value.tzinfo is not None, value
    if isinstance(data_type, spark.TimestampNTZType):
        return isinstance(value, datetime.datetime) and value.tzinfo is None, value
    if isinstance(data_type, spark.DateType):
        return type(value) is datetime.date, value
    return False, value


def _as_decimal(value: Any, data_type: spark.DecimalType) -> tuple[bool, Any]:
    """1.5 in a column of two digits after the point is 1.50, which has another hash code."""
    if not isinstance(value, (decimal.Decimal, int)) or isinstance(value, bool):
        return False, value
    with decimal.localcontext() as context:
        context.prec = 80
        scaled = decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-data_type.scale))
    return scaled == value, scaled


def value_of_json(value: object, field: spark.StructField) -> Any:
    """Read a value of the option ``keys`` as one of its column; ValueError names the column."""
    data_type = field.dataType
    if value is None:
        return None
    try:
        fits, found = _as_type(_parse(value, data_type), data_type)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ValueError(f"the option keys: {value!r} is no value of column {field.name!r}: {error}") from None
    if not fits or is_collated(data_type):
        raise ValueError(
            f"the option keys: {value!r} is no value of column {field.name!r}, which is {data_type.simpleString()}"
        )
    return found


def _parse(value: Any, data_type: spark.DataType) -> Any:
    if isinstance(data_type, _FLOATS):
        return float(value)
    if isinstance(data_type, spark.DecimalType):
        return decimal.Decimal(str(value))
    if isinstance(data_type, spark.DateType):
        return datetime.date.fromisoformat(value)
    if isinstance(data_type, spark.BinaryType):
        return bytes.fromhex(value)
    if isinstance(data_type, spark.TimestampNTZType):
        return datetime.datetime.fromisoformat(value)
    if isinstance(data_type, spark.TimestampType):
        found = datetime.datetime.fromisoformat(value)
        return found.replace(tzinfo=datetime.timezone.utc) if found.tzinfo is None else found
    return value
