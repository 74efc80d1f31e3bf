"""What windows over columns have in common that each key has for itself: sessions, and windows of so many rows.

Keys become slots, and so do windows, by a table in C; accumulators lie by the slots of windows. A slot is never given
out again: where most windows are over, those that are open are written out as for a snapshot, and read back into new
tables. For each window that is read back one at least was over before, so memory is flat and the cost of it a constant.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.records.column_exchange import key_columns
from flinkbuf.streaming.columns.column_groups import (
    GroupAggregates,
    GroupKeys,
    GroupPlan,
    columns_read,
)
from flinkbuf.streaming.columns.column_operator import ColumnOperator
from flinkbuf.streaming.columns.column_windows import STATE_NAME, WindowResults, check_windows, with_windows

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MIN_OVER: Final = 1 << 15  # slots of windows that are over: fewer are not worth new tables
MIN_BYTES: Final = 1 << 24  # of accumulators: those of windows that are over may have as many, as long lists do


class KeyWindowOperator(ColumnOperator):
    """Aggregates of windows that are a key's own.

    Parameters
    ----------
    key : tuple of str
    windows : WindowAssigner
        Its text is in snapshots, and has to be the same.
    results : WindowResults

    Attributes
    ----------
    table : SessionSlots or CountSlots
        The slots of windows; None before rows, or a snapshot, came.
    aggregates : GroupAggregates
    """

    name = STATE_NAME

    def __init__(self, key: tuple[str, ...], windows: Any, results: WindowResults) -> None:
        super().__init__()
        self._key = key
        self._windows = windows
        self._results = results
        self._plan: GroupPlan | None = None
        self._keys: GroupKeys
        self.table: Any = None
        self.aggregates: GroupAggregates
        self._bytes_open = 0  # of accumulators, when the tables were new

    def initialize_state(self, snapshot: Any) -> None:
        """Take restored windows, and have snapshots hold those to come."""
        super().initialize_state(snapshot)
        self.context.keyed_state.keep_columns(self, len(self._key))

    @abstractmethod
    def open_table(self) -> Any:
        """Return a table without windows."""

    @abstractmethod
    def open_rows(self) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Return the slots of the keys of all open windows, their own, and the columns that `restore_slots` takes."""

    @abstractmethod
    def restore_slots(self, keys: np.ndarray, batch: pa.RecordBatch) -> np.ndarray:
        """Open windows again, and return their slots."""

    # ---- rows

    @property
    def key_count(self) -> int:
        """Return how many slots of keys there are."""
        return len(self._keys)

    def take(self, batch: pa.RecordBatch) -> tuple[np.ndarray, Sequence[Sequence[pa.Array]]]:
        """Return the slots of the keys of rows, and the columns that each aggregate reads."""
        keys = key_columns(batch, self._key)
        read = columns_read(batch, self._results.computed)
        if self._plan is None:
            self._begin(GroupPlan.of(keys, self._results.computed, read))
        assert self._plan is not None
        return self._keys.slots_of(self._plan.keys_as(keys)), self._plan.read_as(read)

    def results_of(self, keys: np.ndarray, slots: np.ndarray, start: Any = None, end: Any = None) -> pa.RecordBatch:
        """Return the results of windows: by the slots of their keys, and their own."""
        return self._results.batch_of(self._keys.at(keys), self.aggregates.results(slots), start, end)

    def emit(self, element: ColumnBatch) -> None:
        """Give results to what reads this operator."""
        super().emit(self._results.spread(element, len(self._key)))

    def _begin(self, plan: GroupPlan) -> None:
        self._plan, self._keys, self.aggregates = plan, GroupKeys(plan.key_schema), GroupAggregates(plan)
        self.table = self.open_table()

    def forget_what_is_over(self) -> None:
        """Begin anew with the windows that are open, if most of those that there were are over, or hold much memory."""
        is_most_over = max(len(self.table), len(self._keys)) > 2 * self.table.open_count + MIN_OVER
        is_any_over = len(self.table) > self.table.open_count
        if not is_most_over and not (is_any_over and self.aggregates.nbytes > 2 * self._bytes_open + MIN_BYTES):
            return
        assert self._plan is not None
        rows = self.frozen_rows()
        self._begin(self._plan)
        for each in rows:
            self.restore_rows(each)
        self._bytes_open = self.aggregates.nbytes

    # ---- snapshots

    def frozen_rows(self) -> list[pa.RecordBatch]:
        """Return all open windows."""
        import pyarrow as pa

        if self.table is None or not self.table.open_count:
            return []
        keys, slots, columns = self.open_rows()
        batch = self.aggregates.state_with(self._keys.at(keys), slots)
        for name, values in columns.items():
            batch = batch.append_column(name, pa.array(values))
        return [with_windows(batch, self._windows)]

    def restore_rows(self, batch: pa.RecordBatch) -> None:
        """Take windows of a snapshot."""
        import numpy as np

        check_windows(batch, self._windows)
        if self._plan is None:
            self._begin(GroupPlan.of_state(batch, self._key, self._results.computed))
        assert self._plan is not None
        keys = self._keys.slots_of(self._plan.keys_in(batch))
        slots = self.restore_slots(keys.astype(np.int64), batch).astype(np.uint32, copy=False)
        self.aggregates.merge(slots, len(self.table), self.aggregates.states_in(batch))
