"""`to_flink` and `from_flink`: columns of a DataFrame to Flink's bytes and back, in the manner of Spark's `to_avro`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkbuf.records.arrow_batches import HAS_FIELDS, SINGLE, arrow_schema, rebuilt, record_type
from flinkbuf.records.binary_column import MODES, deserialize_array, serialize_batch
from flinkbuf.records.spark_arrow import arrow_schema_of, arrow_type_of

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column


def to_flink(column: Column | str, type: object) -> Column:
    """Encode a column as Flink's bytes, those of ``type.serialize``, for the `value` of a message or a file.

    Parameters
    ----------
    column : Column or str
        A struct, such as ``F.struct("name", "n")``, whose fields are found by name; of a type without fields a column
        of its values.
    type : TypeInformation, str, pyspark StructType or pyarrow schema
        See `flinkbuf.as_type`; `flinkbuf.types.row_data_type` is the format of Flink SQL.

    Returns
    -------
    Column
        Binary; null where `column` is null. The work is done in Arrow batches by Python's workers, in C.

    Raises
    ------
    ImportError
        Before PySpark 4.1, which has no Arrow UDFs.

    Notes
    -----
    When the query runs, a struct without the type's fields is a TypeError, and a value that the type cannot hold a
    ValueError that names row and column of the Arrow batch.

    Examples
    --------
    >>> spark.range(1).select(fb.to_flink(F.struct("id"), "id bigint").alias("value"))  # doctest: +SKIP
    DataFrame[value: binary]
    """
    written = record_type(type)

    def to_flink(values: pyarrow.Array) -> pyarrow.Array:
        return serialize_batch(values, written)

    return _arrow_udf(to_flink, "binary")(column)


def from_flink(column: Column | str, type: object, *, mode: str = "FAILFAST") -> Column:
    """Decode a binary column of Flink's bytes, as `to_flink` or a Flink job wrote them.

    Parameters
    ----------
    column : Column or str
        Binary, such as the `value` of a Kafka source.
    type : TypeInformation, str, pyspark StructType or pyarrow schema
        The type they were written with. Decimals of a plain type have no digits: declare them in Spark's or Arrow's
        words, as ``decimal(10, 2)``.
    mode : {"FAILFAST", "PERMISSIVE"}, default "FAILFAST"
        What happens to a value that is not the bytes of one record: the query fails, or the value becomes null.

    Returns
    -------
    Column
        A struct, null where `column` is null; of a type without fields a column of its values.

    Raises
    ------
    TypeError
        For a type that has no column in Spark.
    ImportError
        Before PySpark 4.1, which has no Arrow UDFs.

    Notes
    -----
    When the query runs, bytes that no writer of the type produced are a CorruptDataError that names row of the Arrow
    batch, byte and column.

    Examples
    --------
    >>> spark.table("events").select(fb.from_flink("value", "id bigint").alias("event"))  # doctest: +SKIP
    DataFrame[event: struct<id:bigint>]
    """
    if mode.upper() not in MODES:
        raise ValueError(f"mode is one of {', '.join(MODES)}, got {mode!r}")
    import pyarrow as pa

    written = record_type(type)
    has_fields = written.kind in HAS_FIELDS
    result = _spark_type_of(type, has_fields)
    schema: pyarrow.Schema = (
        arrow_schema_of(result) if has_fields else pa.schema([pa.field(SINGLE, arrow_type_of(result))])
    )

    def from_flink(values: pyarrow.Array) -> pyarrow.Array:
        return deserialize_array(values, written, schema=schema, mode=mode)

    return _arrow_udf(from_flink, result)(column)


def _arrow_udf(function: Callable[[pyarrow.Array], pyarrow.Array], result: object) -> Callable[[Column | str], Column]:
    import pyarrow as pa
    import pyspark
    from pyspark.sql import functions

    if not hasattr(functions, "arrow_udf"):
        raise ImportError(
            f"{function.__name__} needs the Arrow UDFs of PySpark 4.1, this is {pyspark.__version__}: call "
            "serialize_batch and deserialize_batch in mapInArrow"
        )
    function.__annotations__ = {"values": pa.Array, "return": pa.Array}  # say what kind of function it is
    return functions.arrow_udf(function, result)  # type: ignore[call-overload]


def _spark_type_of(description: object, has_fields: bool) -> Any:
    """What Spark calls the values of a type."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import DataType

    if isinstance(description, DataType):
        return description
    fields = [field.with_type(_with_exact_times(field.type)) for field in arrow_schema(description)]
    return from_arrow_type(pa.struct(fields) if has_fields else fields[0].type)


def _with_exact_times(found: pyarrow.DataType) -> object:
    """Times of day as Spark has them in Arrow."""
    import pyarrow as pa

    return pa.time64("ns") if pa.types.is_time(found) else rebuilt(found, _with_exact_times)
