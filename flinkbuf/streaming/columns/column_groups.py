"""Aggregates of groups of rows: a table from keys to slots, the keys themselves as columns, an accumulator for each
aggregate over the slots.

Two steps that know nothing of each other: keys become slots, one array for a batch; then each accumulator takes its
column and the slots. Partial results are columns, too, one row a group: what is merged, written in snapshots and read
back is that. Owned by the operator, used by the task's thread. DataFusion: GroupValues, GroupsAccumulator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkbuf._core.columns.key_slots import KeySlots
from flinkbuf.records.column_exchange import check_goes_alike, key_columns
from flinkbuf.streaming.columns.aggregates import Aggregate
from flinkbuf.streaming.columns.column_functions import column_as, columns_of
from flinkbuf.streaming.columns.row_store import RowStore

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_READ = b"flinkbuf.read"  # in the metadata of a state's schema: what `GroupPlan.read_schema` gives
_COLUMNS = b"flinkbuf.columns"  # likewise: keys and aggregates, whose columns stand in this order
_KEY = "key "  # before the names of key columns there


@dataclass(frozen=True)
class GroupPlan:
    """What groups are made of: the types of the keys, and of what each aggregate reads.

    Attributes
    ----------
    key_schema : pyarrow.Schema
    aggregates : tuple of (name, Aggregate)
        Those that are computed, under the names of the results.
    types : tuple of tuple of pyarrow.DataType
        Of the columns that each reads.
    """

    key_schema: pa.Schema
    aggregates: tuple[tuple[str, Aggregate], ...]
    types: tuple[tuple[pa.DataType, ...], ...]

    @staticmethod
    def of(
        keys: pa.RecordBatch, aggregates: tuple[tuple[str, Aggregate], ...], read: Sequence[Sequence[pa.Array]]
    ) -> GroupPlan:
        """Return the plan for rows as these are."""
        types = tuple(tuple(column.type for column in columns) for columns in read)
        return GroupPlan(keys.schema.remove_metadata(), aggregates, types)

    @staticmethod
    def of_state(
        rows: pa.RecordBatch, key: tuple[str, ...], aggregates: tuple[tuple[str, Aggregate], ...]
    ) -> GroupPlan:
        """Return the plan of groups that `ColumnGroups.state` was asked for.

        Raises
        ------
        TypeError
            If those had another key, or other aggregates.
        ValueError
            If the rows do not say the type of each column that these read.
        """
        import pyarrow as pa

        read = pa.ipc.read_schema(pa.py_buffer(rows.schema.metadata[_READ]))
        had, has = rows.schema.metadata[_COLUMNS].decode(), _text_of(key, aggregates)
        if had != has:
            raise TypeError(
                f"the snapshot has {had}, and this program has {has}: keep them in their order, or give the operator "
                "another uid"
            )
        fields = [pa.field(field.name.removeprefix(_KEY), field.type) for field in list(rows.schema)[: len(key)]]
        count = sum(len(each.columns) for _, each in aggregates)
        if len(read) != count:
            raise ValueError(f"the snapshot says the types of {len(read)} columns, and its aggregates read {count}")
        given = iter(read.types)
        return GroupPlan(
            pa.schema(fields), aggregates, tuple(tuple(next(given) for _ in each.columns) for _, each in aggregates)
        )

    def read_schema(self) -> pa.Schema:
        """Return the types of what the aggregates read, as a snapshot keeps them."""
        import pyarrow as pa

        return pa.schema(
            [
                (f"{name} {place}", type_)
                for (name, _), types in zip(self.aggregates, self.types, strict=True)
                for place, type_ in enumerate(types)
            ]
        )

    def read_as(self, read: Sequence[Sequence[pa.Array]]) -> list[list[pa.Array]]:
        """Return the columns that each aggregate reads with the types that the first batch had."""
        return [
            [_as_before(column, type_, name) for column, type_ in zip(columns, types, strict=True)]
            for (name, _), columns, types in zip(self.aggregates, read, self.types, strict=True)
        ]

    def keys_as(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Return keys with the types that the first batch had.

        Raises
        ------
        TypeError
            If rows of an equal key with the type before may be in another subtask.
        """
        import pyarrow as pa

        if keys.schema.equals(self.key_schema):
            return keys
        for column, field in zip(keys.columns, self.key_schema, strict=True):
            check_goes_alike(field.name, column.type, field.type, f"was {field.type} before")
        columns = [
            _as_before(column, field.type, field.name)
            for column, field in zip(keys.columns, self.key_schema, strict=True)
        ]
        return pa.record_batch(columns, schema=self.key_schema)

    def keys_in(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the keys of a batch of a snapshot, which begin it."""
        import pyarrow as pa

        names = self.key_schema.names
        return self.keys_as(pa.record_batch(batch.columns[: len(names)], names))


def _text_of(key: Iterable[str], aggregates: Iterable[tuple[str, Aggregate]]) -> str:
    """Return names of keys, and names and kinds of aggregates: ``n=count(), total=sum(_) by k``."""
    return f"{', '.join(f'{name}={each.text}' for name, each in aggregates) or 'nothing'} by {', '.join(key)}"


def columns_read(batch: pa.RecordBatch, aggregates: Iterable[tuple[str, Aggregate]]) -> list[list[pa.Array]]:
    """Return the columns that each aggregate reads in a batch."""
    read = []
    for name, aggregate in aggregates:
        wanted = tuple((str(place), what) for place, what in enumerate(aggregate.columns))
        read.append(list(columns_of(batch, wanted, f"aggregate({name}=...)").values()))
    return read


def schema_of_groups(
    schema: pa.Schema, key: tuple[str, ...], aggregates: tuple[tuple[str, Aggregate], ...]
) -> pa.Schema:
    """Return the schema of the results: the key's columns, then the aggregates'."""
    import pyarrow as pa

    empty = pa.RecordBatch.from_pylist([], schema)
    fields = [pa.field(field.name, field.type) for field in key_columns(empty, key).schema]
    for name, aggregate in aggregates:
        if aggregate.is_of_window:
            fields.append(pa.field(name, pa.timestamp("ms")))
            continue
        (read,) = columns_read(empty, ((name, aggregate),))
        fields.append(pa.field(name, aggregate.accumulator(name, tuple(each.type for each in read)).result_type))
    return pa.schema(fields)


class GroupKeys:
    """The slots of keys, and the keys themselves.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the key columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._slots = KeySlots(schema)
        self._rows = RowStore(schema)  # under the numbers of their slots

    def __len__(self) -> int:
        return len(self._slots)

    def slots_of(self, keys: pa.RecordBatch) -> np.ndarray:
        """Return the slot of each key; one that is new gets the next."""
        slots, new_rows = self._slots.find_or_add(keys)
        if len(new_rows):
            self._rows.append(keys.take(new_rows))
        return slots

    def at(self, slots: np.ndarray | None = None) -> pa.RecordBatch:
        """Return the keys in all slots, or in some, in their order."""
        return self._rows.all() if slots is None else self._rows.take(slots)


class GroupAggregates:
    """An accumulator for each aggregate of a plan, over the same slots.

    Parameters
    ----------
    plan : GroupPlan

    Attributes
    ----------
    accumulators : list
        A `SlotAggregate` for each aggregate of the plan, or what is like one.
    """

    def __init__(self, plan: GroupPlan) -> None:
        self._plan = plan
        self.accumulators = [
            aggregate.accumulator(name, types)
            for (name, aggregate), types in zip(plan.aggregates, plan.types, strict=True)
        ]

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory that all accumulators have."""
        return sum(accumulator.nbytes for accumulator in self.accumulators)

    def accumulate(self, slots: np.ndarray, slot_count: int, read: Sequence[Sequence[pa.Array]]) -> None:
        """Take rows: their slots, and the columns that each aggregate reads."""
        for accumulator, columns in zip(self.accumulators, read, strict=True):
            accumulator.accumulate(slots, slot_count, *columns)

    def merge(self, slots: np.ndarray, slot_count: int, states: Iterable[Sequence[pa.Array]]) -> None:
        """Take partial results of each aggregate."""
        for accumulator, columns in zip(self.accumulators, states, strict=True):
            accumulator.merge(slots, slot_count, *columns)

    def state(self, slots: np.ndarray | None = None) -> list[Sequence[pa.Array]]:
        """Return the partial results of each aggregate, of all slots or some."""
        return [accumulator.state(slots) for accumulator in self.accumulators]

    def results(self, slots: np.ndarray | None = None) -> list[pa.Array]:
        """Return the result of each aggregate, of all slots or some."""
        return [accumulator.result(slots) for accumulator in self.accumulators]

    def state_with(self, keys: pa.RecordBatch, slots: np.ndarray | None = None) -> pa.RecordBatch:
        """Return keys and the partial results in their slots as a snapshot has them, which says what they are."""
        import pyarrow as pa

        columns, names = list(keys.columns), [f"{_KEY}{name}" for name in keys.schema.names]
        for (name, _), state in zip(self._plan.aggregates, self.state(slots), strict=True):
            for number, column in enumerate(state):
                columns.append(column)
                names.append(f"{name} {number}")
        metadata = {
            _READ: self._plan.read_schema().serialize().to_pybytes(),
            _COLUMNS: _text_of(keys.schema.names, self._plan.aggregates).encode(),
        }
        return pa.record_batch(columns, names, metadata=metadata)

    def states_in(self, batch: pa.RecordBatch) -> list[Sequence[pa.Array]]:
        """Return the partial results that `state_with` put behind the keys; other columns may follow them.

        Those of another subtask may have had columns of other types first.
        """
        states: list[Sequence[pa.Array]] = []
        position = len(self._plan.key_schema)
        for (name, _), accumulator in zip(self._plan.aggregates, self.accumulators, strict=True):
            end = position + len(accumulator.state_types)
            columns = zip(batch.columns[position:end], accumulator.state_types, strict=True)
            states.append(tuple(_as_before(column, type_, name) for column, type_ in columns))
            position = end
        return states


class ColumnGroups:
    """Groups of rows with equal keys, and what the aggregates make of each.

    Parameters
    ----------
    plan : GroupPlan

    Attributes
    ----------
    aggregates : GroupAggregates
    """

    def __init__(self, plan: GroupPlan) -> None:
        self._plan = plan
        self._keys = GroupKeys(plan.key_schema)
        self.aggregates = GroupAggregates(plan)

    def __len__(self) -> int:
        return len(self._keys)

    def empty(self) -> ColumnGroups:
        """Return groups of the same plan without any."""
        return ColumnGroups(self._plan)

    def slots_of(self, keys: pa.RecordBatch) -> np.ndarray:
        """Return the slot of each key; one that is new gets the next."""
        return self._keys.slots_of(keys)

    def add(self, keys: pa.RecordBatch, read: Sequence[Sequence[pa.Array]]) -> np.ndarray:
        """Take rows: their keys, and the columns that each aggregate reads. Returns the slot of each row."""
        slots = self.slots_of(keys)
        self.aggregates.accumulate(slots, len(self), read)
        return slots

    def merge(self, other: ColumnGroups) -> None:
        """Take all groups of another one with the same plan."""
        if len(other):
            self.aggregates.merge(self.slots_of(other.keys()), len(self), other.aggregates.state())

    def merge_below(self, other: ColumnGroups, count: int) -> None:
        """Take of another one the groups whose keys have slots below `count` here."""
        import numpy as np

        if len(other):
            slots = self.slots_of(other.keys())
            rows = np.flatnonzero(slots < count)
            if len(rows):
                self.aggregates.merge(slots[rows], len(self), other.aggregates.state(rows))

    def merge_state(self, batch: pa.RecordBatch) -> None:
        """Take groups as `state` gives them."""
        slots = self.slots_of(self._plan.keys_in(batch))
        self.aggregates.merge(slots, len(self), self.aggregates.states_in(batch))

    def state(self) -> pa.RecordBatch:
        """Return keys and partial results, a row for each group: what `merge_state` takes."""
        return self.aggregates.state_with(self.keys())

    def keys(self) -> pa.RecordBatch:
        """Return the keys of the groups, in the order of their slots."""
        return self._keys.at()

    def results(self, slots: np.ndarray | None = None) -> tuple[pa.RecordBatch, list[pa.Array]]:
        """Return keys and results of all groups, or of those in some slots."""
        return self._keys.at(slots), self.aggregates.results(slots)


def _as_before(column: pa.Array, type_: pa.DataType, name: str) -> pa.Array:
    return column_as(column, type_, name, f"was {type_} before")
