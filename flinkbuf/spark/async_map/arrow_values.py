"""Values of a DataFrame as its users know them from collect(), made from what pyarrow gives, and back."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsInt

import pyspark.sql.types as spark

if TYPE_CHECKING:
    import pyarrow

Converter = Callable[[Any], object]


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

        def convert_struct(value: object) -> object:
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


def check_field_names(data_type: spark.DataType, where: str, path: str = "") -> None:
    """Refuse structs with two fields of one name; columns may have them.

    Neither a dict nor pyarrow's values can hold such a struct.

    Raises
    ------
    ValueError
        With the path to the field.
    """
    if isinstance(data_type, spark.StructType):
        for field in data_type.fields:
            inner = f"{path}.{field.name}" if path else field.name
            if path and data_type.names.count(field.name) > 1:
                raise ValueError(
                    f"{where} has two fields {inner!r} in one struct, which async_map cannot tell apart: give one of "
                    "them another name, for example by a cast of the column to a struct with other names"
                )
            check_field_names(field.dataType, where, inner)
    elif isinstance(data_type, spark.ArrayType):
        check_field_names(data_type.elementType, where, f"{path}[]")
    elif isinstance(data_type, spark.MapType):
        check_field_names(data_type.keyType, where, f"{path}{{key}}")
        check_field_names(data_type.valueType, where, f"{path}{{value}}")


def null_part(array: pyarrow.Array, field: spark.StructField) -> str | None:
    """Return what is declared NOT NULL of a column and has a null, for an error; None if there is nothing.

    pyarrow makes such an array without a word, and Spark then reads whatever lies there.

    Examples
    --------
    >>> import pyarrow
    >>> null_part(pyarrow.array([1, None]), spark.StructField("n", spark.LongType(), False))
    "column 'n'"
    """
    if array.null_count and not field.nullable:
        return f"column {field.name!r}"
    path = _null_path(array, field.dataType, field.name) if _has_not_null(field.dataType) else None
    return None if path is None else f"field {path!r}"


def _null_path(array: pyarrow.Array, data_type: spark.DataType, path: str) -> str | None:
    """Look through the parts of `array`; a part of what is null itself counts as null, and is allowed to be."""
    parts: list[
        tuple[pyarrow.Array, spark.DataType, str, bool, int]
    ] = []  # array, type, path, may be null, nulls it may have
    if isinstance(data_type, spark.StructType):
        for part, field in zip(array.flatten(), data_type.fields, strict=True):
            parts.append((part, field.dataType, f"{path}.{field.name}", field.nullable, array.null_count))
    elif isinstance(data_type, spark.ArrayType):
        parts.append((array.flatten(), data_type.elementType, f"{path}[]", data_type.containsNull, 0))
    elif isinstance(data_type, spark.MapType):
        parts.append((array.keys, data_type.keyType, f"{path}{{key}}", False, 0))
        parts.append((array.items, data_type.valueType, f"{path}{{value}}", data_type.valueContainsNull, 0))
    for part, part_type, part_path, may_be_null, allowed in parts:
        if not may_be_null and part.null_count > allowed:
            return part_path
        found = _null_path(part, part_type, part_path)
        if found is not None:
            return found
    return None


def _has_not_null(data_type: spark.DataType) -> bool:
    """Whether something inside of the type is declared NOT NULL."""
    if isinstance(data_type, spark.StructType):
        return any(not field.nullable or _has_not_null(field.dataType) for field in data_type.fields)
    if isinstance(data_type, spark.ArrayType):
        return not data_type.containsNull or _has_not_null(data_type.elementType)
    return isinstance(data_type, spark.MapType)  # its keys


def _unless_none(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


def _local_time(value: datetime.datetime) -> datetime.datetime:
    """Take the zone of the process; of an hour that comes twice in it, `fold` tells which, as in ``collect()``."""
    seconds = value.replace(microsecond=0).timestamp()
    return datetime.datetime.fromtimestamp(seconds).replace(microsecond=value.microsecond)


def _whole(value: SupportsInt) -> int:
    """Refuse what pyarrow would cut off without a word."""
    number = int(value)
    if number != value:
        raise ValueError(f"{value!r} is not a whole number")
    return number


def _same(value: object) -> object:
    return value
