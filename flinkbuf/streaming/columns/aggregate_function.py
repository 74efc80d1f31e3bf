"""Aggregates of the user over columns: functions that see the rows of many groups at once, and their partial states.

The functions keep nothing: states are columns, one row a group, which lie in a `RowStore`; a state that changes is a
new row. So they take part wherever those of the core do: in slices of windows, running results and snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from flinkbuf.streaming.chain.map_batches import array_of, is_polars
from flinkbuf.streaming.columns.aggregates import Aggregate
from flinkbuf.streaming.columns.column_functions import column_as
from flinkbuf.streaming.columns.row_store import RowStore
from flinkbuf.streaming.columns.slot_values import grown

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


class ColumnAggregateFunction(Aggregate):
    """An aggregate of your own over columns: a subclass says what a partial state is, and how it grows.

    A partial state is a row of some columns, and each method takes and gives the states of many groups, a row for each:
    as a dict of arrays of Arrow or numpy, a ``pyarrow.RecordBatch``, or a DataFrame of polars. No method keeps anything
    in the object, which all groups, windows and subtasks share.

    Parameters
    ----------
    *columns : str, expression or callable
        What it reads, said as everywhere of column streams.

    Attributes
    ----------
    state_schema : pyarrow.Schema
        The columns of a partial state.
    result_type : pyarrow.DataType

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> class GeometricMean(ColumnAggregateFunction):
    ...     state_schema = pa.schema([("logs", pa.float64()), ("rows", pa.int64())])
    ...     result_type = pa.float64()
    ...     def accumulate(self, batch, groups):
    ...         return {"logs": np.bincount(groups, np.log(batch[0])), "rows": np.bincount(groups)}
    ...     def merge(self, one, other):
    ...         return {name: np.add(one[name], other[name]) for name in ("logs", "rows")}
    ...     def result(self, state):
    ...         return np.exp(np.divide(state["logs"], state["rows"]))
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> growth = env.from_collection([("a", 2.0), ("b", 5.0), ("a", 8.0)]).as_columns("k string, x double")
    >>> means = growth.key_by("k").aggregate(mean=GeometricMean("x"))
    >>> [(row.k, round(row.mean, 3)) for row in means.execute_and_collect(limit=2)]
    [('a', 4.0), ('b', 5.0)]
    """

    state_schema: pa.Schema = None
    result_type: pa.DataType = None

    def __init__(self, *columns: object) -> None:
        super().__init__(type(self).__name__, columns)

    def accumulate(self, batch: pa.RecordBatch, groups: np.ndarray) -> object:
        """Return the partial states of the rows of a batch.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            Of the columns that it reads: ``batch[0]`` is the first. Nulls are there.
        groups : numpy.ndarray of int64
            The group of each row: 0, 1, 2 and so on, each of which occurs.

        Returns
        -------
        columns
            Those of a partial state; row i is that of group i.
        """
        raise NotImplementedError(f"{type(self).__name__}.accumulate")

    def merge(self, one: pa.RecordBatch, other: pa.RecordBatch) -> object:
        """Return partial states put together: row i of the result is of row i of each; those of `one` came first."""
        raise NotImplementedError(f"{type(self).__name__}.merge")

    def result(self, state: pa.RecordBatch) -> object:
        """Return the results of partial states, a value for each row."""
        raise NotImplementedError(f"{type(self).__name__}.result")

    @property
    def text(self) -> str:
        """Return what a snapshot says of it: ``GeometricMean(_)[logs double, rows int64]``."""
        states = ", ".join(f"{field.name} {field.type}" for field in self.state_schema)
        return f"{super().text}[{states}]"

    def check(self, name: str) -> None:
        """Raise TypeError unless the subclass says what its states and results are, and its ``__init__`` has run."""
        import pyarrow as pa

        if "kind" not in vars(self):
            raise TypeError(
                f"{name}= of aggregate(): the __init__ of {type(self).__name__} does not call that of its base, "
                "super().__init__(*columns)"
            )
        for attribute, type_ in (("state_schema", pa.Schema), ("result_type", pa.DataType)):
            value = getattr(self, attribute)
            if not isinstance(value, type_):
                raise TypeError(
                    f"{name}= of aggregate(): {attribute} of {type(self).__name__} is a pyarrow.{type_.__name__}, got "
                    f"{type(value).__name__} {value!r:.80}"
                )
        if not len(self.state_schema):
            raise TypeError(f"{name}= of aggregate(): state_schema of {type(self).__name__} has no column")

    def accumulator(self, name: str, types: tuple[pa.DataType, ...]) -> FunctionStates:
        """Return what keeps the states of groups, for the result called `name` of columns of these types."""
        return FunctionStates(self, name)


class FunctionStates:
    """The partial states of groups, by slot, as the function of a user makes them.

    What a `SlotAggregate` is to aggregates of the core.

    Parameters
    ----------
    function : ColumnAggregateFunction
    name : str
        Of the result, for errors.
    """

    def __init__(self, function: ColumnAggregateFunction, name: str) -> None:
        import numpy as np

        self.result_type = function.result_type
        self.state_types = tuple(function.state_schema.types)
        self._function = function
        self._name = name
        self._rows = RowStore(function.state_schema)
        self._numbers = np.empty(0, np.int64)  # of the row of each slot, with room for more; -1: it has none
        self._slot_count = 0

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory that the states have."""
        return self._rows.nbytes + int(self._numbers.nbytes)

    def accumulate(self, slots: np.ndarray, slot_count: int, *columns: pa.Array) -> None:
        """Take in a row for each slot; there are `slot_count` slots now."""
        import numpy as np
        import pyarrow as pa

        self._grow(slot_count)
        if not len(slots):
            return
        found, groups = np.unique(slots, return_inverse=True)
        batch = pa.record_batch(list(columns), [str(place) for place in range(len(columns))])
        self._put(found, self._states(self._function.accumulate(batch, groups), len(found), "accumulate"))

    def merge(self, slots: np.ndarray, slot_count: int, *state_columns: pa.Array) -> None:
        """Take in partial states as `state` gives them: row i into that of slots[i]."""
        import numpy as np
        import pyarrow as pa

        self._grow(slot_count)
        if not len(slots):
            return
        states = pa.record_batch(list(state_columns), schema=self._function.state_schema)
        order = np.argsort(slots, kind="stable")
        slots, states = slots[order], states.take(order)
        while (is_again := slots[1:] == slots[:-1]).any():  # each turn puts every two of one slot together
            starts = np.flatnonzero(np.r_[True, ~is_again])
            places = np.arange(len(slots)) - np.repeat(starts, np.diff(np.r_[starts, len(slots)]))
            left = places % 2 == 0
            pairs = np.flatnonzero(left & np.r_[is_again, False])
            states = self._merged(states, pairs, states.take(pairs + 1)).filter(pa.array(left))
            slots = slots[left]
        self._put(slots, states)

    def state(self, slots: np.ndarray | None = None) -> tuple[pa.Array, ...]:
        """Return the partial states of all slots, or of some, as columns."""
        return tuple(self._rows_of(slots).columns)

    def result(self, slots: np.ndarray | None = None) -> pa.Array:
        """Return the results of all slots, or of some."""
        import pyarrow as pa

        states = self._rows_of(slots)
        if not states.num_rows:
            return pa.array([], self.result_type)
        given = _own(array_of(self._function.result(states), f"{self._said('result')} gives"))
        if len(given) != states.num_rows:
            raise ValueError(f"{self._said('result')} was given {states.num_rows} states and gave {len(given)} values")
        return column_as(given, self.result_type, self._name, f"has the result_type {self.result_type}")

    def _put(self, slots: np.ndarray, states: pa.RecordBatch) -> None:
        """Put states to those of their slots, which rise."""
        import numpy as np

        numbers = self._numbers[slots]
        had = np.flatnonzero(numbers >= 0)
        if len(had):
            before = self._rows.take(numbers[had])
            states = self._replaced(states, had, self._merge(before, states.take(had)))
            self._rows.release(numbers[had])
        first = self._rows.append(states)
        self._numbers[slots] = np.arange(first, self._rows.next_number)

    def _merged(self, states: pa.RecordBatch, rows: np.ndarray, others: pa.RecordBatch) -> pa.RecordBatch:
        return self._replaced(states, rows, self._merge(states.take(rows), others))

    def _replaced(self, states: pa.RecordBatch, rows: np.ndarray, by: pa.RecordBatch) -> pa.RecordBatch:
        """Return states with others in the place of some rows."""
        import numpy as np
        import pyarrow as pa

        if len(rows) == states.num_rows:
            return by
        places = np.arange(states.num_rows)
        places[rows] = np.arange(states.num_rows, states.num_rows + len(rows))
        return pa.concat_batches([states, by]).take(places)

    def _merge(self, one: pa.RecordBatch, other: pa.RecordBatch) -> pa.RecordBatch:
        return self._states(self._function.merge(one, other), one.num_rows, "merge")

    def _states(self, given: object, count: int, method: str) -> pa.RecordBatch:
        """Return what a method gave as states."""
        import pyarrow as pa

        schema, columns = self._function.state_schema, _columns_given(given)
        if columns is None:
            raise TypeError(
                f"{self._said(method)} gives the columns {', '.join(schema.names)}, as a dict, a batch of Arrow or a "
                f"DataFrame of polars; got {type(given).__name__} {given!r:.80}"
            )
        if sorted(columns) != sorted(schema.names):
            raise ValueError(
                f"{self._said(method)} gave the columns {', '.join(columns) or '(none)'}, and state_schema has "
                f"{', '.join(schema.names)}"
            )
        made = []
        for field in schema:
            column = array_of(columns[field.name], f"for {field.name!r} {self._said(method)} gives")
            if len(column) != count:
                raise ValueError(
                    f"{self._said(method)} gave {len(column)} values of {field.name!r} for {count} "
                    f"{'groups' if method == 'accumulate' else 'states'}"
                )
            column = _own(column)
            made.append(column_as(column, field.type, field.name, f"of {self._name}= is {field.type} in state_schema"))
        return pa.record_batch(made, schema=schema)

    def _rows_of(self, slots: np.ndarray | None) -> pa.RecordBatch:
        return self._rows.take(self._numbers[: self._slot_count] if slots is None else self._numbers[slots])

    def _grow(self, slot_count: int) -> None:
        room = len(self._numbers)
        self._numbers = grown(self._numbers, slot_count)
        self._numbers[room:] = -1
        self._slot_count = max(self._slot_count, slot_count)

    def _said(self, method: str) -> str:
        return f"{type(self._function).__name__}.{method}() for {self._name!r}"


def _columns_given(given: object) -> dict[str, object] | None:
    import pyarrow as pa

    if is_polars(given) and hasattr(given, "to_arrow"):
        given = given.to_arrow()
    if isinstance(given, (pa.RecordBatch, pa.Table)):
        return dict(zip(given.schema.names, given.columns, strict=True))
    return dict(given) if isinstance(given, Mapping) else None


def _own(column: pa.Array) -> pa.Array:
    """Return a copy: the function may write into its array again."""
    import pyarrow as pa

    return pa.concat_arrays([column, column.slice(0, 0)])
