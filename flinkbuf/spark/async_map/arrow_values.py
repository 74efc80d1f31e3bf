"""Values of a DataFrame as its users know them from collect(), made from what pyarrow gives, and back."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable
from typing import Any

import pyspark.sql.types as spark

Converter = Callable[[Any], Any]


def arrow_type_of(data_type: spark.DataType) -> Any:
    """Return the pyarrow type that PySpark exchanges such values in; timestamps in UTC.

    Raises
    ------
    PySparkTypeError
        If Arrow has none.
    """
    from pyspark.sql.pandas.types import to_arrow_type

    # PySpark 4.2 asks for the zone; before it was UTC.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_type).parameters else {}
    return to_arrow_type(data_type, **zone)


def from_arrow(data_type: spark.DataType) -> Converter | None:
    """Make what turns values of ``to_pylist()`` into those of a Row; None if they are the same.

    Structs become rows, maps dicts, variants VariantVal, and timestamps lose their zone for that of the process, as in
    ``collect()``.
    """
    if isinstance(data_type, spark.UserDefinedType):
        inner = from_arrow(data_type.sqlType())
        return _unless_none(lambda value: data_type.deserialize(inner(value) if inner else value))
    if isinstance(data_type, spark.StructType):
        names, parts = data_type.names, [from_arrow(field.dataType) for field in data_type.fields]
        make_row = spark.Row(*names)
        return _unless_none(
            lambda value: make_row(
                *[part(value[name]) if part else value[name] for name, part in zip(names, parts, strict=True)]
            )
        )
    if isinstance(data_type, spark.ArrayType):
        element = from_arrow(data_type.elementType)
        return _unless_none(lambda value: [element(each) for each in value]) if element else None
    if isinstance(data_type, spark.MapType):
        key, item = from_arrow(data_type.keyType), from_arrow(data_type.valueType)
        return _unless_none(lambda value: {(key(k) if key else k): (item(each) if item else each) for k, each in value})
    if isinstance(data_type, spark.TimestampType):
        return _unless_none(_local_time)
    if isinstance(data_type, spark.VariantType):
        return _unless_none(lambda value: spark.VariantVal(value["value"], value["metadata"]))
    return None


def to_arrow(data_type: spark.DataType) -> Converter | None:
    """Make what turns values of a Row into those that pyarrow takes; None if they are the same.

    A struct may be a Row, a tuple or a dict; a timestamp without a zone is meant in that of the process; a whole number
    may be of any class.
    """
    if isinstance(data_type, spark.UserDefinedType):
        inner = to_arrow(data_type.sqlType())
        return _unless_none(lambda value: (inner or _same)(data_type.serialize(value)))
    if isinstance(data_type, spark.StructType):
        names, parts = data_type.names, [to_arrow(field.dataType) for field in data_type.fields]

        def convert_struct(value: Any) -> Any:
            values = [value.get(name) for name in names] if isinstance(value, dict) else value
            if not isinstance(values, (tuple, list)) or len(values) != len(names):
                raise TypeError(f"a Row, a tuple or a dict of {len(names)} fields is needed, got {value!r:.80}")
            return {name: part(each) if part else each for name, part, each in zip(names, parts, values, strict=True)}

        return _unless_none(convert_struct)
    if isinstance(data_type, spark.ArrayType):
        element = to_arrow(data_type.elementType)
        return _unless_none(lambda value: [element(each) for each in value]) if element else None
    if isinstance(data_type, spark.MapType):
        key, item = to_arrow(data_type.keyType) or _same, to_arrow(data_type.valueType) or _same
        return _unless_none(lambda value: [(key(k), item(each)) for k, each in dict(value).items()])
    if isinstance(data_type, spark.TimestampType):
        return _unless_none(lambda value: value.astimezone(datetime.timezone.utc))
    if isinstance(data_type, spark.VariantType):
        return _unless_none(lambda value: {"value": bytes(value.value), "metadata": bytes(value.metadata)})
    if isinstance(data_type, spark.IntegralType):
        return _unless_none(_whole)
    return None


def _unless_none(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


def _local_time(value: datetime.datetime) -> datetime.datetime:
    """Take the zone of the process; of an hour that comes twice in it, `fold` tells which, as in ``collect()``."""
    seconds = value.replace(microsecond=0).timestamp()
    return datetime.datetime.fromtimestamp(seconds).replace(microsecond=value.microsecond)


def _whole(value: Any) -> int:
    """Refuse what pyarrow would cut off without a word."""
    number = int(value)
    if number != value:
        raise ValueError(f"{value!r} is not a whole number")
    return number


def _same(value: Any) -> Any:
    return value
