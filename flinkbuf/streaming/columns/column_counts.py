"""Windows of so many rows of a key over columns: each is given when it is full, in the order in which they fill.

Flink: GlobalWindows with a purging CountTrigger; here as DataStream.count_window has them, without a trigger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flinkbuf._core.columns.count_slots import CountSlots
from flinkbuf._core.operators.stream_operator import MAX_WATERMARK
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.streaming.columns.column_windows import WindowResults
from flinkbuf.streaming.columns.key_windows import KeyWindowOperator
from flinkbuf.streaming.windows.count_windows import CountTumblingWindowAssigner

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_ROWS: Final = "rows"  # a column of a snapshot behind the aggregates


class ColumnCountOperator(KeyWindowOperator):
    """Aggregates of each key and window of so many rows; what is left over at the end is not given.

    Results have the latest timestamp that there is, as those of records: no time ends such a window.

    Parameters
    ----------
    key : tuple of str
    windows : CountTumblingWindowAssigner
    results : WindowResults
    """

    table: CountSlots

    def __init__(self, key: tuple[str, ...], windows: CountTumblingWindowAssigner, results: WindowResults) -> None:
        super().__init__(key, windows, results)
        self._size = windows.window_size

    def open_table(self) -> None:
        """Begin with a table without windows."""
        self.table = CountSlots(self._size)

    def process_batch(self, element: ColumnBatch) -> None:
        """Add rows to their windows, and give those that are full."""
        import numpy as np

        keys, read = self.take_slots(element)
        slots, full_keys, full = self.table.add(keys, self.key_count)
        self.aggregates.accumulate(slots, len(self.table), read)
        self.emit(ColumnBatch(self.results_of(full_keys, full), np.full(len(full), MAX_WATERMARK)))
        self.forget_what_is_over()

    def open_rows(self) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Return keys and slots of the windows that are not full, and how many rows they have."""
        keys, slots, rows = self.table.all()
        return keys, slots, {_ROWS: rows}

    def restore_slots(self, keys: np.ndarray, batch: pa.RecordBatch) -> np.ndarray:
        """Open windows again."""
        return self.table.restore(keys, self.key_count, batch.column(_ROWS).to_numpy().copy())
