"""Types as Spark writes them: `to_struct_type` for pyspark, `to_ddl` for text, `from_spark` for the way back.

The table of what becomes what stands in `flinkbuf.types.schema`. On the way to Spark further types find a place there:
CHAR and an ENUM of names become string, BIG_INT and BIG_DEC decimal, SQL_DATE date, SQL_TIME time, DATE timestamp,
SQL_TIMESTAMP timestamp_ntz, LIST and all arrays array, TUPLE a struct of f0, f1, …, NULLABLE what it wraps.
"""

from __future__ import annotations

import re

from pyspark.sql import types as spark

from flinkbuf.types.types import (
    BasicTypeInfo,
    EnumTypeInfo,
    MapTypeInfo,
    NullableTypeInfo,
    ObjectArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
    as_type,
)

_BASIC = {
    "BOOLEAN": "BooleanType",
    "BYTE": "ByteType",
    "SHORT": "ShortType",
    "INT": "IntegerType",
    "LONG": "LongType",
    "FLOAT": "FloatType",
    "DOUBLE": "DoubleType",
    "CHAR": "StringType",
    "STRING": "StringType",
    "STRING_VALUE": "StringType",
    "VOID": "NullType",
    "NULL_VALUE": "NullType",
    "LOCAL_DATE": "DateType",
    "SQL_DATE": "DateType",
    "LOCAL_TIME": "TimeType",
    "SQL_TIME": "TimeType",
    "INSTANT": "TimestampType",
    "TIMESTAMP_LTZ": "TimestampType",
    "DATE": "TimestampType",
    "LOCAL_DATE_TIME": "TimestampNTZType",
    "SQL_TIMESTAMP": "TimestampNTZType",
}
_ARRAYS = ("PRIMITIVE_ARRAY", "STRING_ARRAY", "OBJECT_ARRAY", "LIST")


def from_spark(data_type: spark.DataType) -> TypeInformation:
    """The type of records that Spark describes so; the same as `flinkbuf.as_type`, for pyspark types only.

    Parameters
    ----------
    data_type : pyspark.sql.types.DataType
        Mostly ``df.schema``.

    Raises
    ------
    TypeError
        If it is no pyspark type, or holds one that Flink has no counterpart for; the message names the field.

    Examples
    --------
    >>> from_spark(spark.StructType().add("origin", "string").add("delay", "double"))
    Types.ROW_NAMED(['origin', 'delay'], [Types.STRING(), Types.DOUBLE()])
    """
    if not isinstance(data_type, spark.DataType):
        raise TypeError(f"a pyspark DataType is needed, got {type(data_type).__name__} {data_type!r}")
    return as_type(data_type)


def from_spark_rows(data_type: spark.DataType) -> TypeInformation:
    """The type of what ``df.rdd`` and ``df.collect()`` give for rows that Spark describes so.

    As `from_spark`, but PySpark's rows hold a timestamp as a naive datetime, in the zone of the process.

    Examples
    --------
    >>> from_spark_rows(spark.StructType().add("at", "timestamp"))
    Types.ROW_NAMED(['at'], [Types.LOCAL_DATE_TIME()])
    """
    return _with_local_timestamps(from_spark(data_type))


def _with_local_timestamps(given: TypeInformation) -> TypeInformation:
    """Return the type with LOCAL_DATE_TIME for TIMESTAMP_LTZ."""
    if given == Types.TIMESTAMP_LTZ():
        return Types.LOCAL_DATE_TIME()
    if isinstance(given, RowTypeInfo):
        return RowTypeInfo(tuple(map(_with_local_timestamps, given.field_types)), given.names)
    if isinstance(given, ObjectArrayTypeInfo):
        return ObjectArrayTypeInfo(_with_local_timestamps(given.element_type))
    if isinstance(given, MapTypeInfo):
        return MapTypeInfo(_with_local_timestamps(given.key_type), _with_local_timestamps(given.value_type))
    return given


def to_struct_type(record_type: object, *, decimal: tuple[int, int] = (38, 18)) -> spark.StructType:
    """The schema of a DataFrame that holds such records.

    Parameters
    ----------
    record_type : type
        A ROW, ROW_NAMED or TUPLE, in any form that `flinkbuf.as_type` reads.
    decimal : (int, int), default (38, 18)
        Precision and scale of every decimal, as Spark fixes them for a whole column where Flink does not.

    Returns
    -------
    pyspark.sql.types.StructType
        Fields of rows may be null, those of tuples only where their type says so.

    Raises
    ------
    TypeError
        If it is another type, which has no columns, or a field is of a type that Spark has no counterpart for.

    Examples
    --------
    >>> to_struct_type("origin string, delay double").simpleString()
    'struct<origin:string,delay:double>'
    """
    record_type = as_type(record_type)
    if not isinstance(record_type, (RowTypeInfo, TupleTypeInfo)):
        raise TypeError(f"only rows and tuples have columns, the records are {record_type!r}")
    found = _to_spark(record_type, "", decimal)
    assert isinstance(found, spark.StructType)
    return found


def struct_type_of_arrow(schema: object) -> spark.StructType:
    """The schema of a DataFrame that holds columns of Arrow; timestamps without a zone are ``timestamp_ntz``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> struct_type_of_arrow(pa.schema([("n", pa.int64()), ("at", pa.timestamp("ms"))])).simpleString()
    'struct<n:bigint,at:timestamp_ntz>'
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def to_ddl(record_type: object, *, decimal: tuple[int, int] = (38, 18)) -> str:
    """Spark's DDL for a type; ``as_type`` reads it back.

    Parameters
    ----------
    record_type : type
        Rows and tuples give columns, others a single type.
    decimal : (int, int), default (38, 18)
        As for `to_struct_type`.

    Raises
    ------
    TypeError
        If Spark has no counterpart for a type in it.

    Examples
    --------
    >>> to_ddl("struct<`my id`: bigint, tags: array<string>>")
    '`my id` bigint, tags array<string>'
    """
    found = _to_spark(as_type(record_type), "", decimal)
    if isinstance(found, spark.StructType) and found.fields:
        return ", ".join(f"{_quote(each.name)} {_ddl_of(each.dataType)}" for each in found.fields)
    return _ddl_of(found)


def _quote(name: str) -> str:
    # A number or a word of the grammar is quoted too: a name in backticks is always only a name.
    plain = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name.lower() not in (
        "not",
        "comment",
        "collate",
        "interval",
    )
    return name if plain else "`" + name.replace("`", "``") + "`"


def _ddl_of(data_type: spark.DataType) -> str:
    if isinstance(data_type, spark.StructType):
        return f"struct<{', '.join(f'{_quote(each.name)}: {_ddl_of(each.dataType)}' for each in data_type.fields)}>"
    if isinstance(data_type, spark.ArrayType):
        return f"array<{_ddl_of(data_type.elementType)}>"
    if isinstance(data_type, spark.MapType):
        return f"map<{_ddl_of(data_type.keyType)}, {_ddl_of(data_type.valueType)}>"
    return data_type.simpleString()


def _to_spark(ours: TypeInformation, where: str, decimal: tuple[int, int]) -> spark.DataType:
    if isinstance(ours, NullableTypeInfo):
        return _to_spark(ours.value_type, where, decimal)
    if isinstance(ours, (RowTypeInfo, TupleTypeInfo)):
        fields = []
        for name, each in zip(ours.field_names, ours.field_types, strict=True):
            path = f"{where}.{name}" if where else name
            nullable = isinstance(ours, RowTypeInfo) or each.accepts_none
            fields.append(spark.StructField(name, _to_spark(each, path, decimal), nullable))
        return spark.StructType(fields)
    if isinstance(ours, MapTypeInfo):
        key = _to_spark(ours.key_type, where, decimal)
        return spark.MapType(key, _to_spark(ours.value_type, where, decimal), True)
    if ours.kind in _ARRAYS:
        return _to_array(ours, where, decimal)
    if isinstance(ours, EnumTypeInfo) and all(isinstance(value, str) for value in ours.values):
        return spark.StringType()
    if ours.kind in ("BIG_INT", "BIG_DEC"):
        return spark.DecimalType(decimal[0], 0 if ours.kind == "BIG_INT" else decimal[1])
    made = getattr(spark, _BASIC.get(ours.kind, ""), None) if isinstance(ours, BasicTypeInfo) else None
    if made is None:
        place = f" of field {where!r}" if where else ""
        raise TypeError(
            f"{ours!r}{place} has no counterpart in Spark (here {_version()}); leave it out of the DataFrame"
        )
    return made()


def _to_array(ours: TypeInformation, where: str, decimal: tuple[int, int]) -> spark.DataType:
    if ours.kind == "STRING_ARRAY":
        return spark.ArrayType(spark.StringType(), True)
    (element,) = ours.children
    if ours.kind == "PRIMITIVE_ARRAY" and element.kind == "BYTE":
        return spark.BinaryType()
    may_be_null = ours.kind == "OBJECT_ARRAY" or element.accepts_none
    return spark.ArrayType(_to_spark(element, where, decimal), may_be_null)


def _version() -> str:
    import pyspark

    return f"pyspark {pyspark.__version__}"
