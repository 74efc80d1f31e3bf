"""State by key over columns: what `RuntimeContext.get_column_state` gives a function over batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flinkbuf.records.arrow_batches import arrow_schema
from flinkbuf.streaming.chain.map_batches import array_of, is_result, record_batches
from flinkbuf.streaming.columns.column_functions import column_as
from flinkbuf.streaming.columns.slot_values import grown, slot_values

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from flinkbuf.streaming.columns.key_table import KeyTable

_MOST_ROWS = 1 << 17  # of a batch in a snapshot: its texts fit into 31 bits
KEY = "key "  # before the names of key columns in a snapshot


class ColumnValueState:
    """A row of columns for each key, many of which are read and written at once; Flink's ``ValueState`` has one.

    `KeyedBatchFunction` shows it. Wherever keys are asked for, they are a batch with the columns of the key, such as
    ``context.keys``, or a numpy array of slots: some of ``context.slots``.
    """

    def __init__(self, title: str, schema: pa.Schema, table: KeyTable) -> None:
        import numpy as np

        self.name = f"column-state {title}"  # in snapshots
        self.schema = schema
        self._title = title
        self._table = table
        self._columns = []
        for field in schema:
            try:
                self._columns.append(slot_values(field.type))
            except TypeError as error:
                raise TypeError(f"the state {title!r}: column {field.name!r}: {error}") from None
        self._is_there = np.zeros(0, np.bool_)
        table.add_holder(self)

    def __repr__(self) -> str:
        return f"<ColumnValueState {self._title!r} with {_text_of(self.schema)}>"

    # --- what a function does with it

    def get(self, keys: object) -> pa.RecordBatch:
        """Return a row for each key, in their order; null in all columns where a key has no value."""
        import pyarrow as pa

        slots = self._slots(keys, "get")
        return pa.record_batch([column.take(slots) for column in self._columns], schema=self.schema)

    def put(self, keys: object, columns: object) -> None:
        """Give each key a row, in their order; of several rows for one key, the last stays.

        Parameters
        ----------
        keys : pyarrow.RecordBatch or numpy.ndarray
        columns : batch
            Of any kind that a function over batches may give, with the columns of the state; a dict of arrays.

        Raises
        ------
        ValueError
            If there are not as many values as keys, or other columns than the state has.
        TypeError
            If a value is none of the column's type, or would become another one.
        """
        slots = self._slots(keys, "put")
        given = self._checked(columns, len(slots))  # before anything changes
        for column, values in zip(self._columns, given, strict=True):
            column.put(slots, values)
        self._is_there[slots] = True

    def clear(self, keys: object) -> None:
        """Take the values of keys away."""
        slots = self._slots(keys, "clear")
        for column in self._columns:
            column.clear(slots)
        self._is_there[slots] = False

    def _slots(self, keys: object, method: str) -> np.ndarray:
        slots = self._table.slots_given(keys, f"{method}() of the state {self._title!r}")
        self._reserve(len(self._table))
        return slots

    def _reserve(self, count: int) -> None:
        if count > len(self._is_there):
            self._is_there = grown(self._is_there, count)
            for column in self._columns:
                column.reserve(count)

    def _checked(self, columns: object, count: int) -> list[pa.Array]:
        """Return what is put, by the columns of the state."""
        names = self.schema.names
        given = self._by_name(columns)
        if sorted(given) != sorted(names):
            raise ValueError(
                f"the state {self._title!r} has the columns {', '.join(names)}, and put() was given "
                f"{', '.join(given) or 'none'}"
            )
        checked = []
        for field in self.schema:
            column = self._array_of(field.name, given[field.name])
            if len(column) != count:
                raise ValueError(
                    f"put() of the state {self._title!r} was given {count} keys and {len(column)} values in the column "
                    f"{field.name!r}"
                )
            said = f"is {field.type} in the state {self._title!r}"
            checked.append(column_as(column, field.type, field.name, said, "give it that type"))
        return checked

    def _by_name(self, columns: object) -> dict[str, object]:
        import pyarrow as pa

        if isinstance(columns, dict):
            return columns
        if not is_result(columns):
            raise TypeError(
                f"put() of the state {self._title!r} takes a batch, or a dict of columns; got "
                f"{type(columns).__name__} {columns!r:.80}"
            )
        whole = pa.Table.from_batches(list(record_batches(columns))).combine_chunks()
        return dict(zip(whole.column_names, whole.columns, strict=True))

    def _array_of(self, name: str, column: object) -> pa.Array:
        import pyarrow as pa

        where = f"put() of the state {self._title!r}"
        try:
            return array_of(column, f"{where} takes for {name!r}")
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise TypeError(f"{where}: column {name!r}: {error}") from None

    # --- slots

    def mark(self, is_held: np.ndarray) -> None:
        """Set the places of slots with a value."""
        count = min(len(is_held), len(self._is_there))
        is_held[:count] |= self._is_there[:count]

    def keep(self, slots: np.ndarray) -> None:
        """Keep the values of these slots, as those of slots 0, 1 and so on."""
        self._reserve(int(slots.max(initial=-1)) + 1)
        self._is_there = self._is_there[slots]
        for column in self._columns:
            column.keep(slots)

    # --- snapshots

    def frozen_rows(self) -> list[pa.RecordBatch]:
        """Return the keys that have values, with these."""
        import numpy as np

        slots = np.flatnonzero(self._is_there[: len(self._table)])
        parts = np.array_split(slots, range(_MOST_ROWS, len(slots), _MOST_ROWS))
        return [with_keys(self._table.keys_at(each), self.get(each)) for each in parts if len(each)]

    def restore_rows(self, batch: pa.RecordBatch) -> None:
        """Take rows of a snapshot."""
        keys, rows = without_keys(batch)
        has_same_key = keys.schema.names == list(self._table.names)
        if not has_same_key or _types_of(rows.schema) != _types_of(self.schema):
            raise TypeError(
                f"the snapshot has the state {self._title!r} with {_text_of(rows.schema)} by "
                f"{', '.join(keys.schema.names)}, and this program with {_text_of(self.schema)} by "
                f"{', '.join(self._table.names)}: keep them, or give the state another name"
            )
        self.put(self._table.slots_of(keys), rows)


class ColumnStates:
    """The states that a function has asked for, by name.

    Parameters
    ----------
    table : KeyTable
    keep : callable
        Called with each new state: it gets the rows of a snapshot, and is in those to come.
    """

    def __init__(self, table: KeyTable, keep: Callable[[ColumnValueState], None]) -> None:
        self._table = table
        self._keep = keep
        self._states: dict[str, ColumnValueState] = {}

    def get(self, name: str, description: object) -> ColumnValueState:
        """Return the state of a name, made if it is new.

        Raises
        ------
        TypeError
            If there is one with other columns, in the program or in the snapshot.
        """
        if not isinstance(name, str) or not name:
            raise TypeError(f"a state needs a name, got {type(name).__name__} {name!r:.80}")
        schema = arrow_schema(description).remove_metadata()
        names = schema.names
        if not names or len(set(names)) < len(names):
            raise ValueError(
                f"the state {name!r} needs columns, each with a name of its own; got {', '.join(names) or 'none'}"
            )
        known = self._states.get(name)
        if known is None:
            known = self._states[name] = ColumnValueState(name, schema, self._table)
            self._keep(known)
        elif not known.schema.equals(schema):
            raise TypeError(
                f"there is a state {name!r} already with {_text_of(known.schema)}, not {_text_of(schema)}: give one of "
                "them another name"
            )
        return known


def with_keys(keys: pa.RecordBatch, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows behind their keys, as a snapshot has them."""
    import pyarrow as pa

    names = [*(f"{KEY}{name}" for name in keys.schema.names), *(f"value {name}" for name in rows.schema.names)]
    return pa.record_batch([*keys.columns, *rows.columns], names)


def without_keys(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the keys and the rows that `with_keys` was given."""
    import pyarrow as pa

    names = batch.schema.names
    count = sum(name.startswith(KEY) for name in names)
    keys = pa.record_batch(batch.columns[:count], [name.removeprefix(KEY) for name in names[:count]])
    rows = pa.record_batch(batch.columns[count:], [name.removeprefix("value ") for name in names[count:]])
    return keys, rows


def _types_of(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the types of columns; those of lists are equal whatever their elements are called."""
    return {field.name: field.type for field in schema}


def _text_of(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
