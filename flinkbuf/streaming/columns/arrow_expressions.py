"""Expressions of pyarrow as calls of Arrow's kernels, one after the other.

Arrow's engine sets up a plan for each batch that it evaluates an expression over, which for a batch of some hundred
rows takes many times what its kernels take. So the parts of an expression are looked up once for each schema, and the
kernels are called as a program would call them. Which parts there are is read from what pickles an expression. That is
the library's own affair, so the parts have to make an equal expression again, and on a batch without rows each has to
have the type that the engine gives it; where that cannot be said, the engine evaluates. Arrow: compute/expression.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from flinkbuf._core.columns.arrow_column import metadata_of
from flinkbuf.streaming.chain.map_batches import array_of_chunks

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

_EXPRESSIONS_KEPT: Final = 256
_SCHEMAS_KEPT: Final = 16  # of an expression
_MOST_CALLS: Final = 64  # in one that is looked up, each of which is evaluated for it once


class _UnknownPart(Exception):
    """A part of an expression of which nothing is known here."""


@dataclass(frozen=True)
class _Part:
    """A column, a value, or a call with its arguments: what an expression is made of."""

    expression: pc.Expression
    column: str | None = None
    value: pa.Scalar | None = None
    function: str | None = None
    arguments: tuple[_Part, ...] = ()
    options: Any = None

    def over(self, batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
        """Return what it is for the rows of a batch."""
        import pyarrow.compute as pc

        if self.column is not None:
            return batch.column(self.column)
        if self.function is None:
            return self.value
        return pc.call_function(self.function, [each.over(batch) for each in self.arguments], self.options)

    def calls(self) -> Iterator[_Part]:
        """Yield all calls, each behind those of its arguments."""
        for each in self.arguments:
            yield from each.calls()
        if self.function is not None:
            yield self


def evaluated(batch: pa.RecordBatch, expressions: dict[str, pc.Expression]) -> dict[str, pa.Array | pa.Scalar]:
    """Return the columns that expressions give for a batch, or one value for all rows, by their names.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.compute as pc
    >>> evaluated(pa.record_batch({"a": [1, 2]}), {"b": pc.field("a") * 2})["b"].to_pylist()
    [2, 4]
    """
    found: dict[str, pa.Array | pa.Scalar] = {}
    for_engine = {}
    for name, expression in expressions.items():
        part = _part_for(expression, batch)
        if part is None:
            for_engine[name] = expression
        else:
            found[name] = part.over(batch)
    if for_engine:
        found |= by_engine(batch, for_engine)
    return found


def by_engine(batch: pa.RecordBatch, expressions: dict[str, pc.Expression]) -> dict[str, pa.Array]:
    """Return the same, evaluated by Arrow's engine."""
    import pyarrow as pa
    from pyarrow import acero

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch])))
    options = acero.ProjectNodeOptions(list(expressions.values()), list(expressions))
    table = acero.Declaration.from_sequence([source, acero.Declaration("project", options)]).to_table(use_threads=False)
    return {name: array_of_chunks(table.column(name)) for name in expressions}


# --- which parts there are

# By the number of an expression, which is kept here with what was found for each schema: None is for the engine.
_found: dict[int, tuple[pc.Expression, list[tuple[pa.Schema, _Part | None]]]] = {}


def _part_for(expression: pc.Expression, batch: pa.RecordBatch) -> _Part | None:
    """Return what evaluates an expression over a batch and others of its schema; None: the engine does."""
    schema = batch.schema
    kept = _found.get(id(expression))
    if kept is None:
        if len(_found) >= _EXPRESSIONS_KEPT:
            _found.clear()
        kept = _found[id(expression)] = (expression, [])
    for of, part in kept[1]:
        if of.equals(schema):
            return part
    part = _looked_up(expression, batch.slice(0, 0))
    if len(kept[1]) >= _SCHEMAS_KEPT:
        kept[1].clear()
    kept[1].append((schema, part))
    return part


def _looked_up(expression: pc.Expression, no_rows: pa.RecordBatch) -> _Part | None:
    by_engine(no_rows, {"of all": expression})  # what cannot be evaluated is told as the engine tells it
    try:
        whole = _fitted(_read(expression), no_rows)
        calls = {str(number): each for number, each in enumerate(whole.calls())}
        if len(calls) > _MOST_CALLS:
            return None
        types = by_engine(no_rows, {name: each.expression for name, each in calls.items()}) if calls else {}
        are_alike = all(each.over(no_rows).type.equals(types[name].type) for name, each in calls.items())
    except Exception:  # it is not known here, or too deep, or another version of the library pickles it otherwise
        return None
    return whole if are_alike else None


def _read(expression: pc.Expression) -> _Part:
    """Return the parts of an expression, which make an equal one."""
    import pyarrow as pa

    _, (pickled,) = expression.__reduce__()
    with pa.ipc.open_file(pickled) as file:
        values = file.get_batch(0)
    entries = metadata_of(values.schema)
    whole, end = _read_part(entries, 0, values)
    if end != len(entries) or not whole.expression.equals(expression):
        raise _UnknownPart
    return whole


def _read_part(entries: list[tuple[str, str]], place: int, values: pa.RecordBatch) -> tuple[_Part, int]:
    """Return the part that begins at an entry, and the place behind it."""
    import pyarrow.compute as pc

    kind, text = entries[place]
    place += 1
    if kind == "field_ref":
        return _Part(pc.field(text), column=text), place
    if kind == "literal":
        value = values.column(int(text))[0]
        return _Part(pc.scalar(value), value=value), place
    if kind != "call":
        raise _UnknownPart
    arguments: list[_Part] = []
    options = None
    while entries[place][0] != "end":
        if entries[place][0] == "options":
            options = _options_in(values.column(int(entries[place][1])))
            place += 1
        else:
            argument, place = _read_part(entries, place, values)
            arguments.append(argument)
    expression = pc.Expression._call(text, [each.expression for each in arguments], options)
    return _Part(expression, function=text, arguments=tuple(arguments), options=options), place + 1


def _options_in(column: pa.Array) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    batch = pa.record_batch([column], [""])
    target = pa.BufferOutputStream()
    with pa.ipc.new_file(target, batch.schema) as file:
        file.write_batch(batch)
    return pc.FunctionOptions.deserialize(target.getvalue())


# --- which types they have


def _fitted(part: _Part, no_rows: pa.RecordBatch) -> _Part:
    """Return the part with its values in the types that the engine gives them beside the columns of a batch.

    The engine takes a kernel for the types of the arguments as they are; else it makes a value as small as it fits, so
    that a column keeps its type. What comes of that is said here for a value and another argument that are alike.
    """
    if part.column is not None:
        if len(no_rows.schema.get_all_field_indices(part.column)) != 1:
            raise _UnknownPart
        return part
    if part.function is None:
        return part
    arguments = tuple(_fitted(each, no_rows) for each in part.arguments)
    if not arguments:
        raise _UnknownPart  # it is asked for so many values
    if any(each.value is not None for each in arguments):
        arguments = _with_values_as(arguments, no_rows)
    return replace(part, arguments=arguments)


def _with_values_as(arguments: tuple[_Part, ...], no_rows: pa.RecordBatch) -> tuple[_Part, ...]:
    import pyarrow as pa

    types = {each.over(no_rows).type for each in arguments if each.value is None}
    if len(types) > 1:
        types.discard(pa.bool_())  # which chooses between the others
    types = types or {each.value.type for each in arguments if each.value is not None}
    if len(types) > 1:
        raise _UnknownPart
    (type_,) = types
    return tuple(each if each.value is None else replace(each, value=_as(each.value, type_)) for each in arguments)


def _as(value: pa.Scalar, type_: pa.DataType) -> pa.Scalar:
    """Return a value as the type of the column that it is put beside, if the engine finds the same kernel for it."""
    from pyarrow import types

    if value.type.equals(type_):
        return value
    are_times = types.is_timestamp(value.type) and types.is_timestamp(type_) and value.type.tz == type_.tz
    if are_times or (types.is_integer(value.type) and types.is_integer(type_)):
        return value.cast(type_)  # an error if it would be another value
    raise _UnknownPart
