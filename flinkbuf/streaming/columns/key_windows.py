"""What windows over columns have in common that each key has for itself: sessions, and windows of so many rows.

Keys become slots, and so do windows, by a table in C; accumulators lie by the slots of windows. A slot is never given
out again: where most windows are over, those that are open are written out as for a snapshot, and read back into new
tables. For each window that is read back one at least was over before, so memory is flat and the cost of it a constant.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from flinkbuf._core.columns.count_slots import CountSlots
from flinkbuf._core.columns.session_slots import SessionSlots
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.streaming.columns.column_groups import GroupAggregates, GroupKeys, GroupPlan
from flinkbuf.streaming.columns.column_windows import WindowingOperator, WindowResults

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MIN_OVER: Final = 1 << 15  # slots of windows that are over: fewer are not worth new tables
MIN_BYTES: Final = 1 << 24  # of accumulators: those of windows that are over may have as many, as long lists do


class KeyWindowOperator(WindowingOperator):
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
        The slots of windows, from the first rows on.
    aggregates : GroupAggregates
    """

    table: SessionSlots | CountSlots

    def __init__(self, key: tuple[str, ...], windows: object, results: WindowResults) -> None:
        super().__init__(key, windows, results)
        self._keys: GroupKeys
        self.aggregates: GroupAggregates
        self._bytes_open = 0  # of accumulators, when the tables were new

    @abstractmethod
    def open_table(self) -> None:
        """Begin with a table without windows."""

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

    def take_slots(self, element: ColumnBatch) -> tuple[np.ndarray, list[list[pa.Array]]]:
        """Return the slots of the keys of rows, and the columns that each aggregate reads."""
        keys, read = self.take(element)
        return self._keys.slots_of(keys), read

    def results_of(
        self, keys: np.ndarray, slots: np.ndarray, start: np.ndarray | None = None, end: np.ndarray | None = None
    ) -> pa.RecordBatch:
        """Return the results of windows: by the slots of their keys, and their own."""
        return self._results.batch_of(self._keys.at(keys), self.aggregates.results(slots), start, end)

    def begin(self, plan: GroupPlan) -> None:
        """Begin without windows."""
        super().begin(plan)
        self._keys, self.aggregates = GroupKeys(plan.key_schema), GroupAggregates(plan)
        self.open_table()

    def forget_what_is_over(self) -> None:
        """Begin anew with the windows that are open, if most of those that there were are over, or hold much memory."""
        is_most_over = max(len(self.table), len(self._keys)) > 2 * self.table.open_count + MIN_OVER
        is_any_over = len(self.table) > self.table.open_count
        if not is_most_over and not (is_any_over and self.aggregates.nbytes > 2 * self._bytes_open + MIN_BYTES):
            return
        rows = self.frozen_rows()
        self.begin(self.plan)
        for each in rows:
            self.restore_rows(each)
        self._bytes_open = self.aggregates.nbytes

    # ---- snapshots

    def frozen_rows(self) -> list[pa.RecordBatch]:
        """Return all open windows."""
        import pyarrow as pa

        if not self.has_plan or not self.table.open_count:
            return []
        keys, slots, columns = self.open_rows()
        batch = self.aggregates.state_with(self._keys.at(keys), slots)
        for name, values in columns.items():
            batch = batch.append_column(name, pa.array(values))
        return [self.with_windows(batch)]

    def restore_rows(self, batch: pa.RecordBatch) -> None:
        """Take windows of a snapshot."""
        import numpy as np

        self.check_windows(batch)
        self.begin_from(batch)
        keys = self._keys.slots_of(self.plan.keys_in(batch))
        slots = self.restore_slots(keys.astype(np.int64), batch).astype(np.uint32, copy=False)
        self.aggregates.merge(slots, len(self.table), self.aggregates.states_in(batch))
