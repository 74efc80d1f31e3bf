"""Batches of columns for the records' doors: what counts as a batch, and which Arrow schema a type has.

Nothing here imports pyarrow before a batch of pyarrow's is asked for, or an array of Python's objects is given.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkbuf._core.columns.arrow_column import ArrowBatch, ArrowPlan, batches_of
from flinkbuf._core.flow.batch_reader import BatchBuilder
from flinkbuf._core.flow.batch_records import BatchToRecords
from flinkbuf.records import spark_arrow
from flinkbuf.records.numpy_columns import batch_of_arrays
from flinkbuf.types.schema import DecimalParser
from flinkbuf.types.types import (
    MapDataTypeInfo,
    MapTypeInfo,
    NullableTypeInfo,
    RowDataTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    as_type,
)

if TYPE_CHECKING:
    import pyarrow

    from flinkbuf._core.value.type_codec import TypeCodec

MAX_ROWS = 65536
MAX_BYTES = 64 << 20
SINGLE = "value"  # the one column of records that have no fields
HAS_FIELDS = ("ROW", "TUPLE", "ROW_DATA")  # whose batches have a column for each field

# Spark's decimal where nobody said how many digits.
_ANY_DECIMAL = (38, 18)
# What needs no more than a name: by the kind of the type, the function of pyarrow that makes its Arrow type.
ARROW_NAMES = {
    "BOOLEAN": "bool_",
    "BYTE": "int8",
    "SHORT": "int16",
    "INT": "int32",
    "LONG": "int64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "STRING": "string",
    "STRING_VALUE": "string",
    "VOID": "null",
    "LOCAL_DATE": "date32",
}


class _LastSeen:
    """What was made of objects that do not change, for as long as few others were asked for.

    Found by the objects themselves: two schemas may be equal and differ in their metadata.
    """

    LIMIT = 64

    def __init__(self) -> None:
        self._made: dict[tuple[int, ...], tuple[tuple[object, ...], object]] = {}

    def get(self, make: Callable[[], object], *of: object) -> Any:
        key = tuple(map(id, of))
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= self.LIMIT:
                self._made.clear()
            found = self._made[key] = (of, make())  # which keeps them alive, and with them their numbers
        return found[1]


_TYPES = _LastSeen()
_PLANS = _LastSeen()


def is_batch(source: Any) -> bool:
    """Whether `source` is columns, or a stream of them, rather than a record.

    Examples
    --------
    >>> import numpy as np
    >>> is_batch({"a": np.arange(3)}), is_batch({"a": 3}), is_batch((1, 2))
    (True, False, False)
    """
    if hasattr(source, "__arrow_c_array__") or hasattr(source, "__arrow_c_stream__"):
        return True
    if isinstance(source, dict):
        return bool(source) and all(_is_array(column) and column.ndim == 1 for column in source.values())
    return _is_array(source) and source.ndim == 1 and source.dtype.names is not None


def _is_array(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "dtype") and hasattr(value, "ndim")


def arrow_batches(source: object) -> Iterator[ArrowBatch]:
    """The batches in one object for which `is_batch` is true."""
    if isinstance(source, dict) or _is_array(source):
        return _from_numpy(source)
    return batches_of(source)


def records_of(batches: Iterable[object], codec: TypeCodec) -> Iterator[object]:
    """Return the rows of batches as records of the codec's type, made as they are taken."""
    return BatchToRecords(codec, (each for batch in batches for each in batches_of(batch)))


def _from_numpy(source: Any) -> Iterator[ArrowBatch]:
    columns = source if isinstance(source, dict) else {name: source[name] for name in source.dtype.names}
    batch = batch_of_arrays(columns)
    if batch is not None:
        return iter((batch,))
    import pyarrow as pa  # which knows what Python's objects are

    return batches_of(
        pa.record_batch([_numpy_column(name, column) for name, column in columns.items()], names=list(columns))
    )


def _numpy_column(name: str, column: object) -> object:
    import numpy as np
    import pyarrow as pa

    mask = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None
    values = np.ascontiguousarray(column)
    if values.dtype.byteorder not in "=|" and values.dtype.kind != "U":
        values = values.astype(values.dtype.newbyteorder("="))
    if values.dtype.kind == "S" or values.dtype.kind == "T":  # without the zeros that numpy fills them up with
        values = values.astype(object)
    try:
        return pa.array(values, mask=mask)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise TypeError(f"column {name!r}: {error}") from None


def split_batches(items: Any) -> tuple[Iterator[ArrowBatch] | None, Iterable[object]]:
    """Look whether these are batches, without losing the first: the batches, or None and the records."""
    if is_batch(items):
        return arrow_batches(items), ()
    rest = iter(items)
    first = next(rest, items)
    if first is items:
        return None, ()
    again = itertools.chain((first,), rest)
    if not is_batch(first):
        return None, again
    return itertools.chain.from_iterable(map(arrow_batches, again)), ()


# ------------------------------------------------------------------------------------------------- schemas and types


def record_type(description: object) -> TypeInformation:
    """As `as_type`; of a pyarrow schema also durations and intervals, which are numbers in the records.

    A duration is a LONG of its own units; an interval of months, days and nanoseconds is a row of INT, INT and LONG.
    """
    if type(description).__module__.partition(".")[0] == "pyarrow" and hasattr(description, "with_metadata"):
        return _TYPES.get(lambda: as_type(_lowered(description)), description)
    return as_type(description)


def arrow_schema(description: object) -> pyarrow.Schema:
    """The schema of the batches that are read as records of a type.

    A pyarrow schema is itself; what Spark describes gets Spark's Arrow types; a `TypeInformation` the same ones, with
    decimals of 38 digits, 18 of them behind the point.

    Raises
    ------
    TypeError
        For a type that has no column, naming the field.

    Examples
    --------
    >>> arrow_schema("a int, b decimal(10, 2), c array<timestamp>")
    a: int32
    b: decimal128(10, 2)
    c: list<element: timestamp[us, tz=UTC]>
      child 0, element: timestamp[us, tz=UTC]
    """
    import pyarrow as pa

    if isinstance(description, pa.Schema):
        return description
    packages = {each.__module__.partition(".")[0] for each in type(description).__mro__}
    if "pyspark" in packages:
        return _from_pyspark(description)
    if isinstance(description, pa.DataType):
        return pa.schema([pa.field(SINGLE, description)])
    parsed = as_type(description)
    decimals = DecimalParser.decimals_of(description) if isinstance(description, str) else []
    kinds = _ArrowTypes(decimals)
    if isinstance(parsed, RowTypeInfo | TupleTypeInfo | RowDataTypeInfo):
        return pa.schema(kinds.fields(parsed, ""))
    return pa.schema([pa.field(SINGLE, kinds.of(parsed, SINGLE))])


def _from_pyspark(description: Any) -> pyarrow.Schema:
    import pyarrow as pa

    if hasattr(description, "fields"):
        return spark_arrow.arrow_schema_of(description)
    return pa.schema([pa.field(SINGLE, spark_arrow.arrow_type_of(description))])


def _decimal_of(found: Any) -> pyarrow.DataType:
    import pyarrow as pa

    return pa.decimal128(found.precision, found.scale)


def _timestamp_of(found: Any) -> pyarrow.DataType:
    import pyarrow as pa

    unit = "ms" if found.precision <= 3 else "us" if found.precision <= 6 else "ns"
    return pa.timestamp(unit, "UTC" if found.kind == "TIMESTAMP_LTZ_DATA" else None)


def _plain_of(name: str) -> Callable[[TypeInformation], pyarrow.DataType]:
    def make(_found: object) -> pyarrow.DataType:
        import pyarrow as pa

        return pa.time32("ms") if name == "time32" else getattr(pa, name)()

    return make


# What the values of the table runtime are in Arrow.
_DATA: dict[str, Callable[[TypeInformation], pyarrow.DataType]] = {
    "STRING_DATA": _plain_of("string"),
    "DECIMAL_DATA": _decimal_of,
    "DATE_DATA": _plain_of("date32"),
    "TIME_DATA": _plain_of("time32"),
    "TIMESTAMP_DATA": _timestamp_of,
    "TIMESTAMP_LTZ_DATA": _timestamp_of,
}


class _ArrowTypes:
    """What each of our types is in Arrow; the decimals get their digits in the order in which they were declared."""

    def __init__(self, decimals: list[tuple[int, int]]) -> None:
        self.decimals = iter(decimals)

    def fields(self, row: Any, where: str) -> list[pyarrow.Field]:
        import pyarrow as pa

        names = getattr(row, "field_names", None) or [f"f{i}" for i in range(len(row.field_types))]
        required = getattr(row, "required", None) or (False,) * len(names)
        parts = zip(names, row.field_types, required, strict=True)
        return [pa.field(name, self.of(each, f"{where}{name}"), not is_required) for name, each, is_required in parts]

    def of(self, found: TypeInformation, where: str) -> pyarrow.DataType:
        import pyarrow as pa

        kind = found.kind
        if kind in ARROW_NAMES:
            return getattr(pa, ARROW_NAMES[kind])()
        if kind in _DATA:
            return _DATA[kind](found)
        if kind == "BIG_DEC":
            return pa.decimal128(*next(self.decimals, _ANY_DECIMAL))
        if kind == "INSTANT":
            return pa.timestamp("us", "UTC")
        if kind == "LOCAL_DATE_TIME":
            return pa.timestamp("us")
        if kind == "LOCAL_TIME":
            return pa.time64("us")
        if kind == "PRIMITIVE_ARRAY" and found.children[0].kind == "BYTE":
            return pa.binary()
        if isinstance(found, RowTypeInfo | TupleTypeInfo | RowDataTypeInfo):
            return pa.struct(self.fields(found, f"{where}."))
        if isinstance(found, MapTypeInfo | MapDataTypeInfo):
            key = self.of(found.key_type, f"{where}.key")
            return pa.map_(key, self.of(found.value_type, f"{where}.value"))
        if isinstance(found, NullableTypeInfo):
            return self.of(found.children[0], where)
        if kind in ("OBJECT_ARRAY", "LIST", "PRIMITIVE_ARRAY", "STRING_ARRAY", "ARRAY_DATA"):
            element = pa.string() if kind == "STRING_ARRAY" else self.of(found.children[0], f"{where}.element")
            return pa.list_(pa.field("element", element))
        raise TypeError(f"column {where!r}: {found!r} has no column of Arrow; read it as records")


def _lowered(schema: pyarrow.Schema) -> pyarrow.Schema:
    """A schema in which intervals are the numbers that they are in the records."""
    import pyarrow as pa

    return pa.schema([field.with_type(_lower(field.type)) for field in schema])


def _lower(found: pyarrow.DataType) -> pyarrow.DataType:
    import pyarrow as pa
    from pyarrow import types

    if types.is_duration(found):
        return pa.int64()
    if types.is_interval(found):
        return pa.struct([("months", pa.int32()), ("days", pa.int32()), ("nanoseconds", pa.int64())])
    return rebuilt(found, _lower)


def plain_type(found: pyarrow.DataType) -> pyarrow.DataType:
    """The type that holds the same values without dictionary, views and run ends."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(found) or types.is_run_end_encoded(found):
        return plain_type(found.value_type)
    if isinstance(found, pa.BaseExtensionType):
        return plain_type(found.storage_type)
    for test, plain in (("is_string_view", pa.string()), ("is_binary_view", pa.binary())):
        if hasattr(types, test) and getattr(types, test)(found):
            return plain
    for test in ("is_list_view", "is_large_list_view"):
        if hasattr(types, test) and getattr(types, test)(found):
            return pa.list_(found.value_field.with_type(plain_type(found.value_type)))
    return rebuilt(found, plain_type)


def _givable(found: pyarrow.DataType) -> pyarrow.DataType:
    """The type of a column that is given: as declared, but nested in a column there are plain types only."""
    import pyarrow as pa
    from pyarrow import types

    if isinstance(found, pa.BaseExtensionType) or types.is_dictionary(found) or types.is_run_end_encoded(found):
        value = found.storage_type if isinstance(found, pa.BaseExtensionType) else found.value_type
        return found if value.equals(plain_type(value)) else plain_type(value)
    return plain_type(found) if types.is_nested(found) else found


def rebuilt(found: pyarrow.DataType, change: Callable[[pyarrow.DataType], pyarrow.DataType]) -> pyarrow.DataType:
    """An Arrow type with each of its parts changed."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_struct(found):
        parts = [found.field(i) for i in range(found.num_fields)]
        return pa.struct([part.with_type(change(part.type)) for part in parts])
    if types.is_map(found):
        return pa.map_(
            found.key_field.with_type(change(found.key_type)), found.item_field.with_type(change(found.item_type))
        )
    if types.is_fixed_size_list(found):
        return pa.list_(found.value_field.with_type(change(found.value_type)), found.list_size)
    if types.is_list(found):
        return pa.list_(found.value_field.with_type(change(found.value_type)))
    if types.is_large_list(found):
        return pa.large_list(found.value_field.with_type(change(found.value_type)))
    return found


def batch_builder(
    codec: TypeCodec, description: object, max_rows: int, max_bytes: int, columns: Sequence[str] | None = None
) -> BatchBuilder:
    """What makes batches of the schema of `description` out of records of `codec`.

    Of the columns that are not among `columns` no more is read than it takes to find the next one; in the batches,
    which have the wanted ones alone, in that order, they cost nothing.
    """
    plan, source, maker = _seen_plan(codec, description) if columns is None else _plan(codec, description, columns)
    return BatchBuilder(plan, source, maker.batch, max_rows, max_bytes)


def array_builder(codec: TypeCodec, description: object) -> BatchBuilder:
    """What makes one array of records of `codec`, as `batch_builder`: of structs, or the one column."""
    plan, source, maker = _seen_plan(codec, description)
    return without_limits(plan, source, maker.array)


def without_limits(plan: ArrowPlan, source: object, make: Callable[[object], object]) -> BatchBuilder:
    """A builder that is given all rows at once."""
    return BatchBuilder(plan, source, make, 2**31 - 1, 2**63)


def _seen_plan(codec: TypeCodec, description: object) -> tuple[ArrowPlan, object, _Maker]:
    import pyarrow as pa

    if isinstance(description, pa.Schema | str | TypeInformation):
        found: tuple[ArrowPlan, object, _Maker] = _PLANS.get(lambda: _plan(codec, description), codec, description)
        return found
    return _plan(codec, description)  # one of another kind may be changed: what was made of it before is worth nothing


def _plan(
    codec: TypeCodec, description: object, columns: Sequence[str] | None = None
) -> tuple[ArrowPlan, object, _Maker]:
    """Columns for the fields, their schema, and what makes a batch of an array of them."""
    import pyarrow as pa

    schema = arrow_schema(description)
    skipped = frozenset[str]()
    if columns is not None and codec.kind == "ROW":
        # Numbers are as quickly read as passed over.
        skipped = frozenset(
            field.name for field in schema if field.name not in columns and not _is_plain_number(field.type)
        )
        fields = [pa.field(field.name, pa.null()) if field.name in skipped else field for field in schema]
        schema = pa.schema(fields, schema.metadata)
    schema = pa.schema([field.with_type(_givable(field.type)) for field in schema], schema.metadata)
    plain = pa.schema([field.with_type(plain_type(field.type)) for field in schema], schema.metadata)
    is_struct = codec.kind in HAS_FIELDS
    source = plain if is_struct else plain.field(0).type
    # A struct that is the value of a type without fields is one column, and not its fields.
    described = plain if not is_struct and pa.types.is_struct(source) else source
    plan = ArrowPlan(codec, described.__arrow_c_schema__(), is_strict=True, skipped=skipped)
    return plan, source, _Maker(schema, plain, plain.equals(schema), is_struct, columns)


@dataclass(frozen=True)
class _Maker:
    """Makes what the user gets of an array of plain columns.

    Attributes
    ----------
    schema, plain : pyarrow.Schema
        As declared; and without dictionaries, views and run ends, as the array is.
    is_plain : bool
        They are equal.
    is_struct : bool
        The array is one of structs, else the one column.
    columns : sequence of str, optional
        The wanted ones.
    """

    schema: pyarrow.Schema
    plain: pyarrow.Schema
    is_plain: bool
    is_struct: bool
    columns: Sequence[str] | None

    def batch(self, data: object) -> pyarrow.RecordBatch:
        """All columns side by side."""
        import pyarrow as pa

        batch = pa.record_batch(data) if self.is_struct else pa.record_batch([pa.array(data)], schema=self.plain)
        if self.columns is not None:
            batch = batch.select(self.columns)
        if self.is_plain:
            return batch
        declared = self.schema if self.columns is None else [self.schema.field(name) for name in self.columns]
        made = [_as_declared(column, field.type) for column, field in zip(batch.columns, declared, strict=True)]
        return pa.RecordBatch.from_arrays(made, schema=pa.schema(declared, self.schema.metadata))

    def array(self, data: object) -> pyarrow.Array:
        """One array, in which a struct may be null."""
        import pyarrow as pa

        array = pa.array(data)
        if self.is_plain:
            return array
        if not self.is_struct:
            return _as_declared(array, self.schema.field(0).type)
        made = [_as_declared(array.field(i), field.type) for i, field in enumerate(self.schema)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(made, fields=list(self.schema), mask=mask)


def _is_plain_number(found: object) -> bool:
    from pyarrow import types

    return types.is_integer(found) or types.is_floating(found)


def _as_declared(column: pyarrow.Array, declared: pyarrow.DataType) -> pyarrow.Array:
    import pyarrow as pa
    from pyarrow import types

    if column.type.equals(declared):
        return column
    if isinstance(declared, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(declared, _as_declared(column, declared.storage_type))
    if types.is_dictionary(declared):
        return _as_declared(column, declared.value_type).dictionary_encode().cast(declared)
    if types.is_run_end_encoded(declared):
        import pyarrow.compute as pc

        return pc.run_end_encode(_as_declared(column, declared.value_type), run_end_type=declared.run_end_type)
    return column.cast(declared)
