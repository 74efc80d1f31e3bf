"""What a user says of columns, as functions over elements: names, expressions of a library, functions over batches.

A library evaluates expressions: pyarrow.compute's and polars' are taken, and anything that can be called with a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.streaming.chain.map_batches import array_of, each_batch, is_polars, record_batches
from flinkbuf.streaming.columns.arrow_expressions import evaluated

if TYPE_CHECKING:
    import pyarrow as pa


_ARROW: Final = "pyarrow.compute"
_POLARS: Final = "polars"


def _library_of(value: object) -> str | None:
    """Return the library whose expression a value is; None: it is none."""
    import pyarrow.compute as pc

    if isinstance(value, pc.Expression):
        return _ARROW
    return _POLARS if is_polars(value) and hasattr(value, "meta") else None


def check_expression(name: str, value: object) -> None:
    """Raise TypeError unless a value says what a column is."""
    if callable(value) or isinstance(value, str) or _library_of(value) is not None:
        return
    raise TypeError(
        f"{name} must be the name of a column, an expression of pyarrow.compute or polars, or a function that takes a "
        f"batch; got {type(value).__name__} {value!r:.80}"
    )


@dataclass(frozen=True)
class FilterRows:
    """Keeps the rows for which a predicate is true."""

    predicate: object

    def __call__(self, element: ColumnBatch) -> Iterator[ColumnBatch]:
        """Give the rows that stay."""
        import pyarrow as pa

        mask = column_of(element.batch, self.predicate, "filter()")
        if not pa.types.is_boolean(mask.type):
            raise TypeError(f"the predicate of filter() gives a column of booleans, got {mask.type}")
        yield element.filter(mask)


@dataclass(frozen=True)
class SelectColumns:
    """Makes rows of the columns that are named; with `keeps`, besides those that there are."""

    columns: tuple[tuple[str, object], ...]
    keeps: bool = False

    def __call__(self, element: ColumnBatch) -> Iterator[ColumnBatch]:
        """Give the same rows with these columns."""
        if not self.keeps and all(isinstance(what, str) for _, what in self.columns):
            yield element.arranged(self._named)
            return
        batch = element.batch
        if not self.keeps:
            yield element.with_batch(self._named(batch))
            return
        check_differ(batch.schema.names, "with_columns()")
        for name, column in columns_of(batch, self.columns).items():
            place = batch.schema.get_field_index(name)
            batch = batch.append_column(name, column) if place < 0 else batch.set_column(place, name, column)
        yield element.with_batch(batch)

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        made = columns_of(batch, self.columns)
        return pa.record_batch(list(made.values()), list(made))


@dataclass(frozen=True)
class DropColumns:
    """Leaves columns out."""

    names: tuple[str, ...]

    def __call__(self, element: ColumnBatch) -> Iterator[ColumnBatch]:
        """Give the same rows without these columns."""
        yield element.arranged(self._dropped)

    def _dropped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        _check_there(batch, self.names, "drop()")
        return batch.drop_columns(list(self.names))


@dataclass(frozen=True)
class RenameColumns:
    """Gives columns other names."""

    names: tuple[tuple[str, str], ...]

    def __call__(self, element: ColumnBatch) -> Iterator[ColumnBatch]:
        """Give the same rows under the new names."""
        yield element.arranged(self._renamed)

    def _renamed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        _check_there(batch, [old for old, _ in self.names], "rename()")
        new = dict(self.names)
        names = [new.get(name, name) for name in batch.schema.names]
        check_differ(names, "rename()")
        return batch.rename_columns(names)


@dataclass(frozen=True)
class MapRows:
    """Calls a function of the user that gives as many rows as it is given, in their order; they keep timestamps."""

    function: Callable[[pa.RecordBatch], object]

    def __call__(self, element: ColumnBatch) -> Iterator[ColumnBatch]:
        """Give the rows of the function's batches."""
        position = 0
        for batch in _given(self.function(element.batch)):
            end = position + batch.num_rows
            times = None if element.timestamps is None else element.timestamps[position:end]
            if end > len(element):
                raise _other_count(len(element), f"at least {end}")
            yield ColumnBatch(batch, times)
            position = end
        if position != len(element):
            raise _other_count(len(element), position)


@dataclass(frozen=True)
class FlatMapRows:
    """Calls a function of the user that gives any rows; all have the latest timestamp of their batch."""

    function: Callable[[pa.RecordBatch], object]

    def __call__(self, element: ColumnBatch) -> Iterator[ColumnBatch]:
        """Give the rows of the function's batches."""
        import numpy as np

        for batch in _given(self.function(element.batch)):
            times = None if element.timestamps is None else np.full(batch.num_rows, element.latest)
            yield ColumnBatch(batch, times)


def schema_behind(function: Callable[[ColumnBatch], Iterable[ColumnBatch]], schema: pa.Schema) -> pa.Schema:
    """Return the schema of what a function makes of batches of a schema: it is called with one that has no rows."""
    import pyarrow as pa

    empty = ColumnBatch(pa.RecordBatch.from_pylist([], schema))
    for element in function(empty):
        return element.batch.schema
    raise ValueError(
        "which columns a function gives cannot be found with a batch without rows, of which it makes none: say the "
        "schema"
    )


def column_of(batch: pa.RecordBatch, what: object, where: str) -> pa.Array:
    """Return a column of a batch, by name, by expression, or as a function says."""
    return columns_of(batch, (("column", what),), where)["column"]


def columns_of(
    batch: pa.RecordBatch, columns: Iterable[tuple[str, object]], where: str = "select()"
) -> dict[str, pa.Array]:
    """Return columns by the names that they are to have, in order.

    Raises
    ------
    KeyError
        If there is no column of a name.
    TypeError, ValueError
        If a function gives no column, or one of another length.
    """
    made: dict[str, pa.Array] = {}
    by_library: dict[str, dict[str, object]] = {}
    for name, what in columns:
        if isinstance(what, str):
            _check_there(batch, (what,), where)
            made[name] = batch.column(what)
        elif (library := _library_of(what)) is not None:
            made[name] = None  # which keeps its place
            by_library.setdefault(library, {})[name] = what
        else:
            assert callable(what)
            made[name] = _checked(what(batch), batch, name, where)
    for library, expressions in by_library.items():
        made.update(_by_arrow(batch, expressions) if library is _ARROW else _by_polars(batch, expressions))
    return made


def _by_arrow(batch: pa.RecordBatch, expressions: dict[str, Any]) -> dict[str, pa.Array]:
    return {name: _checked(column, batch, name, "select()") for name, column in evaluated(batch, expressions).items()}


def _by_polars(batch: pa.RecordBatch, expressions: dict[str, object]) -> dict[str, pa.Array]:
    import polars

    rows: Any = polars.from_arrow(batch)  # a DataFrame, as a batch has columns
    frame = rows.with_columns(**expressions)  # what is one value becomes one for all rows
    return {name: _checked(frame[name].to_arrow(), batch, name, "select()") for name in expressions}


def _checked(column: object, batch: pa.RecordBatch, name: str, where: str) -> pa.Array:
    """Return what a function gave as a column: an Arrow array, a scalar for all rows, or what Arrow makes one of."""
    import pyarrow as pa

    if isinstance(column, pa.Scalar):
        return pa.repeat(column, batch.num_rows)
    values = array_of(column, f"the function for {name!r} in {where} gives", ", or an Arrow scalar")
    if len(values) != batch.num_rows:
        raise ValueError(
            f"the function for {name!r} in {where} was given {batch.num_rows} rows and gave {len(values)} values"
        )
    return values


def _check_there(batch: pa.RecordBatch, names: Iterable[str], where: str) -> None:
    for name in names:
        if batch.schema.get_field_index(name) < 0:
            raise KeyError(
                f"{where}: the batch has no column {name!r}; there are {', '.join(batch.schema.names) or 'none'}"
            )


def check_differ(names: list[str], where: str) -> None:
    """Raise ValueError if two columns have one name."""
    twice = [name for name in names if names.count(name) > 1] if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(
            f"{where}: two columns would be called {twice[0]!r}; drop one, or give it another name: the columns are "
            f"{', '.join(names)}"
        )


def _given(results: object) -> Iterator[pa.RecordBatch]:
    for result in each_batch(results):
        yield from record_batches(result)


def _other_count(count: int, given: object) -> ValueError:
    return ValueError(
        f"the function of map_batches() was given {count} rows and gave {given}: it gives a row for each, in their "
        "order; one that gives other rows is called by flat_map_batches()"
    )


def column_as(
    column: pa.Array,
    type_: pa.DataType,
    name: str,
    said: str,
    advice: str = "cast the column in select() or with_columns()",
) -> pa.Array:
    """Return a column as another type, with the same values.

    Parameters
    ----------
    column : pyarrow.Array
    type_ : pyarrow.DataType
    name : str
        Of the column.
    said : str
        Who wants that type: "was int64 before".
    advice : str
        What to do if it is of another.

    Raises
    ------
    TypeError
        If a value is none of that type, or would become another one.
    """
    import pyarrow as pa

    if column.type.equals(type_):
        return column
    error: Exception = TypeError(f"a cast would change values of {column.type}")
    if _keeps_values(column.type, type_):
        try:
            return column.cast(type_)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as told:
            error = told
    raise TypeError(
        f"column {name!r} {said} and is {column.type} now, and its values do not fit: {error}; {advice}"
    ) from None


def _keeps_values(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether a cast from one type to another gives the same values, or fails."""
    from pyarrow import types

    if types.is_dictionary(one):
        return _keeps_values(one.value_type, other)
    if types.is_null(one):
        return True
    if types.is_nested(one) or types.is_nested(other):
        return _keeps_parts(one, other)
    # Arrow looks up the power of ten between two scales in a table, and does not ask whether it has that one
    if abs(_scale(one) - _scale(other)) > max(_most_digits(one), _most_digits(other)):
        return False
    if one.id == other.id:
        return True
    if types.is_floating(one):
        return types.is_floating(other) and one.bit_width < other.bit_width
    alike = (
        (types.is_integer, types.is_floating, types.is_decimal),
        (types.is_string, types.is_large_string, types.is_string_view),
        (types.is_binary, types.is_large_binary, types.is_binary_view),
        (types.is_date,),
        (types.is_time,),
    )
    return any(any(is_kind(one) for is_kind in kinds) and any(is_kind(other) for is_kind in kinds) for kinds in alike)


def _scale(type_: pa.DataType) -> int:
    from pyarrow import types

    return type_.scale if types.is_decimal(type_) else 0


def _most_digits(type_: pa.DataType) -> int:
    from pyarrow import types

    return {32: 9, 64: 18, 128: 38, 256: 76}[type_.bit_width] if types.is_decimal(type_) else 0


def _keeps_parts(one: pa.DataType, other: pa.DataType) -> bool:
    """The same of lists, maps and structs: their parts keep their values, and no field is left out or made up."""
    from pyarrow import types

    lists = (types.is_list, types.is_large_list)
    if any(is_list(one) for is_list in lists) and any(is_list(other) for is_list in lists):
        return _keeps_values(one.value_type, other.value_type)
    if one.id != other.id:
        return False
    if types.is_map(one):
        return _keeps_values(one.key_type, other.key_type) and _keeps_values(one.item_type, other.item_type)
    if not types.is_struct(one):
        return one.equals(other)
    names = [each.name for each in one]
    if len({*names}) < len(names) or sorted(names) != sorted(each.name for each in other):
        return False
    return all(_keeps_values(one.field(each.name).type, each.type) for each in other)
