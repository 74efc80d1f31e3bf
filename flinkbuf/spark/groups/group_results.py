"""What a function over groups gives: batches that are checked against the schema, small ones put together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinkbuf._core.value.own_value import copied
from flinkbuf.spark.async_map.arrow_values import null_part

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

MAX_ROWS = 10_000  # of a batch that is put together; spark.sql.execution.arrow.maxRecordsPerBatch
MAX_BYTES = 1 << 20
LARGE_ROWS = 1_000  # of a batch that goes to Spark by itself

_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BINARIES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


@dataclass(frozen=True)
class GroupSchema:
    """The columns that a function over groups gives.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the batches as Spark gets them; each column may be null there.
    fields : list of StructField
        The same as they were declared.
    """

    schema: pa.Schema
    fields: list[StructField]

    def fitted(self, batch: Any, group: object) -> pa.RecordBatch:
        """Return a batch with its columns in their order and of their types.

        Columns are taken by their names. Types that hold the same values are one: texts with short and with long
        offsets, instants in another zone or unit, decimals of other digits, lists of both sizes, a dictionary and its
        values, and a column of nulls alone. No other one is cast.

        Raises
        ------
        TypeError, ValueError
            If it is no batch, has other columns, or one of another type, with a value that does not fit, or with a
            null where none may be; with the column and the group.
        """
        if not isinstance(batch, pa.RecordBatch):
            raise TypeError(
                f"the function gave {kind_of(batch)} for the group {group}, where a pyarrow.RecordBatch is needed"
                + (": yield from table.to_batches()" if isinstance(batch, pa.Table) else "")
            )
        if not batch.schema.equals(self.schema):
            batch = self._as_declared(batch, group)
        for place, field in self._checked_for_nulls:
            missing = null_part(batch.column(place), field)
            if missing is not None:
                raise ValueError(
                    f"the function gave a null in {missing} for the group {group}, which is declared NOT NULL "
                    "in schema=: declare it without NOT NULL, or give a value"
                )
        return batch

    @cached_property
    def _checked_for_nulls(self) -> list[tuple[int, StructField]]:
        return [
            (place, declared)
            for place, (declared, column) in enumerate(zip(self.fields, self.schema, strict=True))
            if not declared.nullable or pa.types.is_nested(column.type)
        ]

    def _as_declared(self, batch: pa.RecordBatch, group: object) -> pa.RecordBatch:
        found, names = batch.schema.names, self.schema.names
        if len(set(found)) < len(found) or sorted(found) != sorted(names):
            raise ValueError(
                f"the function gave a batch with the columns {', '.join(found) or '(none)'} for the group {group}, "
                f"where schema= says {', '.join(names)}: columns are taken by their names, in any order; name them so"
            )
        columns = [_cast(batch.column(wanted.name), wanted, group) for wanted in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def kind_of(value: object) -> str:
    """Return what a function gave, for an error: None, or of which class it is.

    Examples
    --------
    >>> kind_of(None), kind_of([])
    ('None', 'a list')
    """
    if value is None:
        return "None"
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else kind.__module__.partition(".")[0] + "."
    return f"a {module}{kind.__qualname__}"


def _cast(column: pa.Array, wanted: pa.Field, group: object) -> pa.Array:
    if column.type.equals(wanted.type):
        return column
    where = f"column {wanted.name!r} for the group {group}"
    if not _holds_the_same(column.type, wanted.type):
        raise TypeError(
            f"the function gave {column.type} in {where}, where schema= says {wanted.type}: cast it, such as "
            f"pyarrow.compute.cast(column, {str(wanted.type)!r}), or declare another type"
        )
    try:
        return column.cast(wanted.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"the function gave {column.type} in {where}, where schema= says {wanted.type}, which does not hold each "
            f"value: {error}"
        ) from None


def _holds_the_same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two types are of the same kind, so that a value that fits the other one stays what it is."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if found.equals(wanted) or pa.types.is_null(found):
        return True
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        return (found.tz is None) == (wanted.tz is None)
    if pa.types.is_decimal(found) and pa.types.is_decimal(wanted):
        return True
    if pa.types.is_map(found) and pa.types.is_map(wanted):
        return _holds_the_same(found.key_type, wanted.key_type) and _holds_the_same(found.item_type, wanted.item_type)
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        return found.num_fields == wanted.num_fields > 0 and all(
            a.name == b.name and _holds_the_same(a.type, b.type) for a, b in zip(found, wanted, strict=True)
        )
    for kinds in (_TEXTS, _BINARIES, _LISTS):
        if any(kind(found) for kind in kinds) and any(kind(wanted) for kind in kinds):
            return kinds is not _LISTS or _holds_the_same(found.value_type, wanted.value_type)
    return False


class SmallBatches:
    """Puts small batches together, since each one that goes to Spark costs as much as some thousand rows."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._row_count = self._size = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield what goes to Spark now that this batch has come."""
        if batch.num_rows >= LARGE_ROWS:
            yield from self.take()
            yield batch
        elif batch.num_rows:
            self._waiting.append(copied(batch))  # the function may go on changing arrays of numpy that it gave
            self._row_count += batch.num_rows
            self._size += batch.nbytes
            if self._row_count >= MAX_ROWS or self._size >= MAX_BYTES:
                yield from self.take()

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield what has come and did not go yet."""
        waiting, self._waiting = self._waiting, []
        self._row_count = self._size = 0
        if len(waiting) > 1:
            waiting = pa.Table.from_batches(waiting, self._schema).combine_chunks().to_batches()
        yield from waiting
