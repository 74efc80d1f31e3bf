"""Rows as the values of one binary column, each Flink's bytes, and back: the bodies of Arrow and pandas UDFs."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flinkbuf._core.columns.arrow_column import ArrowBatch, ArrowPlan, batches_of
from flinkbuf._core.flow.binary_column import read_values, write_values
from flinkbuf.records.arrow_batches import (
    HAS_FIELDS,
    SINGLE,
    array_builder,
    arrow_batches,
    arrow_schema,
    record_type,
    without_limits,
)
from flinkbuf.types.types import TypeInformation, Types

if TYPE_CHECKING:
    import pyarrow

MODES = ("FAILFAST", "PERMISSIVE")
_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


def serialize_batch(batch: object, type: object) -> pyarrow.BinaryArray:
    """Encode each row of columns as the bytes that ``type.serialize`` gives for it.

    Parameters
    ----------
    batch : pyarrow RecordBatch, Table, Array or ChunkedArray, pandas DataFrame or Series
        The rows; whatever else `write_buffers` takes as a batch will do. Columns, and the fields of a struct array, are
        found by name. An array that is no struct holds the values of a type without fields. pandas' NaN is null.
    type : TypeInformation, str, pyspark StructType or pyarrow schema
        The rows' type; see `flinkbuf.as_type`. `flinkbuf.types.row_data_type` is the format of Flink SQL.

    Returns
    -------
    pyarrow.BinaryArray
        As long as there are rows. A struct or value that is null gives null.

    Raises
    ------
    TypeError
        For columns that are not the type's, naming them.
    ValueError
        For a value that the type cannot hold, naming row and column; and for 2 GiB of bytes or more, which no binary
        array holds: give fewer rows at a time.

    Examples
    --------
    >>> import flinkbuf as fb, pyarrow as pa
    >>> rows = pa.array([{"name": "JFK", "n": 7}, None])
    >>> values = fb.serialize_batch(rows, "name string, n bigint")
    >>> values.to_pylist()
    [b'\\x00\\x04JFK\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07', None]
    >>> values[0].as_py() == fb.as_type("name string, n bigint").serialize(("JFK", 7))
    True
    """
    import pyarrow as pa

    written = record_type(type)
    plan = _bytes_plan()
    return write_values(written.codec, _rows_in(batch, written, type), without_limits(plan, pa.binary(), pa.array))


def deserialize_batch(
    array: object, type: object, *, schema: object = None, mode: str = "FAILFAST"
) -> pyarrow.RecordBatch:
    """Decode values of a binary column into columns, a row for each.

    Parameters
    ----------
    array : pyarrow binary Array or ChunkedArray, or pandas Series of bytes
        Also large, fixed-size, as views, or encoded by a dictionary.
    type : pyarrow schema, pyspark StructType, str or TypeInformation
        The type they were written with, and what the batch is like: as for `read_batches`. What has no fields makes one
        column, ``value``.
    schema : pyarrow schema, or anything that `type` may be; optional
        Of the batch, where it is not what the type has: as for `read_batches`.
    mode : {"FAILFAST", "PERMISSIVE"}, default "FAILFAST"
        What happens to a value that is not the bytes of one record: an error, or null.

    Returns
    -------
    pyarrow.RecordBatch
        A value that is null gives a row of nulls, even in columns declared NOT NULL, which then are nullable;
        `deserialize_array` keeps it apart from a row whose fields are null.

    Raises
    ------
    CorruptDataError
        For bytes that no writer of the type produced, naming row, byte and column; also for a value that its column
        cannot hold.
    ValueError
        If the rows take 2 GiB or more in one column: give fewer at a time.

    Examples
    --------
    >>> import flinkbuf as fb, pyarrow as pa
    >>> values = fb.serialize_batch(pa.record_batch({"name": ["JFK", None], "n": [7, 8]}), "name string, n bigint")
    >>> fb.deserialize_batch(values, "name string, n bigint").to_pylist()
    [{'name': 'JFK', 'n': 7}, {'name': None, 'n': 8}]
    >>> fb.deserialize_batch(pa.array([b"no row"]), "name string, n bigint")
    Traceback (most recent call last):
    flinkbuf.errors.CorruptDataError: row 0, byte 0, the batch: corrupt bytes; was it written with another type?
    """
    import pyarrow as pa

    rows = deserialize_array(array, type, schema=schema, mode=mode)
    described = arrow_schema(type if schema is None else schema)
    if record_type(type).kind in HAS_FIELDS:
        batch = pa.RecordBatch.from_struct_array(rows)
    else:
        batch = pa.RecordBatch.from_arrays([rows], schema=pa.schema([described.field(0).with_type(rows.type)]))
    if rows.null_count and not all(field.nullable for field in batch.schema):
        nullable = pa.schema([field.with_nullable(True) for field in batch.schema])
        batch = pa.RecordBatch.from_arrays(batch.columns, schema=nullable)
    return batch.replace_schema_metadata(described.metadata)


def deserialize_array(array: object, type: object, *, schema: object = None, mode: str = "FAILFAST") -> pyarrow.Array:
    """As `deserialize_batch`, as one array: what an Arrow UDF gives back.

    Parameters
    ----------
    array, type, schema, mode
        As there.

    Returns
    -------
    pyarrow.Array
        A struct array, whose rows may be null; of a type without fields an array of its values.

    Raises
    ------
    CorruptDataError, ValueError
        As there.

    Examples
    --------
    >>> import flinkbuf as fb, pyarrow as pa
    >>> values = pa.array([fb.as_type("n int").serialize((7,)), None, b"no row"])
    >>> fb.deserialize_array(values, "n int", mode="PERMISSIVE").to_pylist()
    [{'n': 7}, None, None]
    """
    if mode.upper() not in MODES:
        raise ValueError(f"mode is one of {', '.join(MODES)}, got {mode!r}")
    builder = array_builder(record_type(type).codec, type if schema is None else schema)
    return read_values(_BYTES.codec, _bytes_in(array), builder, mode.upper() == "PERMISSIVE")


@functools.cache
def _bytes_plan() -> ArrowPlan:
    """A column of bytes that is made."""
    import pyarrow as pa

    return ArrowPlan(_BYTES.codec, pa.binary().__arrow_c_schema__())


def _rows_in(source: Any, written: TypeInformation, description: object) -> Iterator[ArrowBatch]:
    """The batches in what holds rows: a struct array is one, unless structs are the values."""
    import pyarrow as pa

    if _package(source) == "pandas":
        source = _from_pandas(source, arrow_schema(description), written.kind in HAS_FIELDS)
    if isinstance(source, pa.Array | pa.ChunkedArray):
        source = _decoded(source)
        if written.kind not in HAS_FIELDS and pa.types.is_struct(source.type):
            source = pa.Table.from_arrays([source], [SINGLE])
    return arrow_batches(source)


def _bytes_in(source: object) -> Iterator[ArrowBatch]:
    import pyarrow as pa

    return batches_of(pa.array(source, pa.binary(), from_pandas=True) if _package(source) == "pandas" else source)


def _package(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def _from_pandas(source: Any, schema: pyarrow.Schema, has_fields: bool) -> pyarrow.Table:
    import pyarrow as pa

    if source.ndim == 2:
        return pa.Table.from_pandas(source, schema, preserve_index=False)
    return pa.array(source, pa.struct(list(schema)) if has_fields else schema.field(0).type, from_pandas=True)


def _decoded(array: pyarrow.Array) -> pyarrow.Array:
    """Structs behind a dictionary or run ends as structs: the rows of a batch lie side by side."""
    import pyarrow as pa

    is_dictionary = pa.types.is_dictionary(array.type)
    if not (is_dictionary or pa.types.is_run_end_encoded(array.type)) or not pa.types.is_struct(array.type.value_type):
        return array
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([_decoded(chunk) for chunk in array.chunks], array.type.value_type)
    if is_dictionary:
        return array.dictionary_decode()
    import pyarrow.compute as pc

    return pc.run_end_decode(array)
