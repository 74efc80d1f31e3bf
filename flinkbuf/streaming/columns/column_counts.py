"""Windows of so many rows of a key over columns: each is given when it is full, in the order in which they fill.

Flink: GlobalWindows with a purging CountTrigger; here as DataStream.count_window has them, without a trigger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flinkbuf._core.columns.count_slots import CountSlots
from flinkbuf._core.operators.stream_operator import MAX_WATERMARK
from flinkbuf.errors import CorruptDataError
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.streaming.columns.column_groups import GroupPlan
from flinkbuf.streaming.columns.column_windows import WindowResults
from flinkbuf.streaming.columns.key_table import places_within, stable_order
from flinkbuf.streaming.columns.key_windows import KeyWindowOperator
from flinkbuf.streaming.columns.slot_values import grown
from flinkbuf.streaming.windows.count_windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_ROWS: Final = "rows"  # columns of a snapshot behind the aggregates
_LANE: Final = "lane"
_NUMBER: Final = "number"  # of the key's next row
_MOST_KEYS: Final = 2**32 - 1  # that a table can tell apart


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


class ColumnSlidingCountOperator(KeyWindowOperator):
    """Aggregates of each key and windows of so many rows that overlap: one begins at every n-th row of a key.

    Of a key, every n-th of its windows is in the same lane, where they stand one behind the other, as many lanes as a
    row has windows. A lane is to the table a key of its own, whose windows do not overlap.

    Parameters
    ----------
    key : tuple of str
    windows : CountSlidingWindowAssigner
        Which slides by fewer rows than a window has.
    results : WindowResults
    """

    table: CountSlots

    def __init__(self, key: tuple[str, ...], windows: CountSlidingWindowAssigner, results: WindowResults) -> None:
        super().__init__(key, windows, results)
        self._size, self._slide = windows.window_size, windows.window_slide
        self._lanes = -(-self._size // self._slide)
        self._numbers: np.ndarray  # of the next row of each key

    def begin(self, plan: GroupPlan) -> None:
        """Begin without rows."""
        import numpy as np

        self._numbers = np.zeros(0, np.int64)
        super().begin(plan)

    def open_table(self) -> None:
        """Begin with a table without windows."""
        self.table = CountSlots(self._size)

    @property
    def lane_count(self) -> int:
        """Return how many lanes all keys have."""
        count = self.key_count * self._lanes
        if count > _MOST_KEYS:
            raise OverflowError(
                f"{self.key_count} keys are too many for windows of {self._size} rows that slide by {self._slide}: a "
                f"subtask keeps {_MOST_KEYS // self._lanes} of them; set a higher parallelism"
            )
        return count

    def process_batch(self, element: ColumnBatch) -> None:
        """Add rows to their windows, and give those that are full."""
        import numpy as np

        keys, read = self.take_slots(element)
        rows, windows = self._windows_of(self._next_numbers(keys))
        lanes = keys[rows].astype(np.int64) * self._lanes + windows % self._lanes
        slots, full_lanes, full = self.table.add(lanes.astype(np.uint32), self.lane_count)
        taken = [[column.take(rows) for column in columns] for columns in read]
        self.aggregates.accumulate(slots, len(self.table), taken)
        results = self.results_of(full_lanes // self._lanes, full)
        self.emit(ColumnBatch(results, np.full(len(full), MAX_WATERMARK)))
        self.forget_what_is_over()

    def _next_numbers(self, keys: np.ndarray) -> np.ndarray:
        """Return which row of its key each row is, from 0 on."""
        import numpy as np

        self._numbers = grown(self._numbers, self.key_count)
        order = stable_order(keys)
        ordered = keys[order].astype(np.int64)
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        counts = np.diff(starts, append=len(ordered))
        numbers = np.empty(len(keys), np.int64)
        numbers[order] = np.arange(len(ordered)) + np.repeat(self._numbers[ordered[starts]] - starts, counts)
        self._numbers[ordered[starts]] += counts
        return numbers

    def _windows_of(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and the windows that they are in, each row as often as it has windows."""
        import numpy as np

        first = np.maximum(0, -((self._size - 1 - numbers) // self._slide))
        counts = numbers // self._slide - first + 1
        rows = np.repeat(np.arange(len(numbers)), counts)
        return rows, first[rows] + places_within(counts)

    def open_rows(self) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Return keys and slots of the windows that are not full, with their lanes; each key has one."""
        lanes, slots, rows = self.table.all()
        keys = lanes // self._lanes
        return keys, slots, {_ROWS: rows, _LANE: lanes % self._lanes, _NUMBER: self._numbers[keys]}

    def restore_slots(self, keys: np.ndarray, batch: pa.RecordBatch) -> np.ndarray:
        """Open windows again."""
        import numpy as np

        lane, number = (batch.column(name).to_numpy() for name in (_LANE, _NUMBER))
        bad = np.flatnonzero((lane < 0) | (lane >= self._lanes) | (number < 1))
        if len(bad):
            raise CorruptDataError(
                f"the snapshot has a window in lane {lane[bad[0]]} of {self._lanes} of a key with {number[bad[0]]} rows"
            )
        self._numbers = grown(self._numbers, self.key_count)
        self._numbers[keys] = number
        return self.table.restore(keys * self._lanes + lane, self.lane_count, batch.column(_ROWS).to_numpy().copy())
