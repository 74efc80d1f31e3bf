"""Sessions over columns: rows of a key that come within a gap of each other, and what they come to when it is over.

Each row becomes the slot of its session, in C, and accumulators lie by slots. A watermark looks only at the sessions
that end, in the order of their ends, and gives all of them as one batch; there is no timer for a key.
Flink: WindowOperator with EventTimeSessionWindows and MergingWindowSet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flinkbuf._core.columns.session_slots import NO_SLOT, SessionSlots
from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.streaming.columns.column_windows import LateRows, WindowResults
from flinkbuf.streaming.columns.grouping_operator import event_times
from flinkbuf.streaming.columns.key_windows import KeyWindowOperator
from flinkbuf.streaming.windows.session_windows import EventTimeSessionWindows

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_START, _END, _GIVEN = "start", "end", "given"  # columns of a snapshot behind the aggregates
_ROWS_AT_ONCE: Final = 1 << 16  # sessions that are given as one element


class ColumnSessionOperator(KeyWindowOperator):
    """Aggregates of each key and session of event time.

    Parameters
    ----------
    key : tuple of str
    windows : EventTimeSessionWindows
    results : WindowResults
    lateness_ms : int, default 0
        So long after its end a session takes late rows, and is given again.
    late_tag : str, optional
        Of the side output for rows that came too late; None: they are dropped.
    """

    table: SessionSlots

    def __init__(
        self,
        key: tuple[str, ...],
        windows: EventTimeSessionWindows,
        results: WindowResults,
        lateness_ms: int = 0,
        late_tag: str | None = None,
    ) -> None:
        super().__init__(key, windows, results)
        self._gap_ms = windows.session_gap_ms
        self._lateness_ms = lateness_ms
        self._late = LateRows(late_tag)
        self._watermark = NO_TIMESTAMP

    def open(self) -> None:
        """Count rows that come too late."""
        self._late.open(self)

    def open_table(self) -> None:
        """Begin with a table without sessions, at the same event time."""
        self.table = SessionSlots(self._gap_ms, self._lateness_ms)
        self.table.advance(self._watermark)

    # ---- rows

    def process_batch(self, element: ColumnBatch) -> None:
        """Add rows to their sessions; those that had ended, and not long ago, are given again, once a batch."""
        import numpy as np

        times = event_times(element)
        keys, read = self.take_slots(element)
        slots = self.table.add(keys, self.key_count, times)
        if self.table.late_count:
            is_late = slots == NO_SLOT
            self._late.take(element.take(np.flatnonzero(is_late)))
            rows = np.flatnonzero(~is_late)
            slots, read = slots[rows], [[column.take(rows) for column in columns] for columns in read]
        self.aggregates.accumulate(slots, len(self.table), read)
        parts, into = self.table.take_parts()
        if len(parts):
            self.aggregates.merge(into, len(self.table), self.aggregates.state(parts))
        changed = self.table.take_changed()
        if len(changed):
            _, _, ends, _ = self.table.describe(changed)
            self._give(changed[np.argsort(ends, kind="stable")])
        self.forget_what_is_over()

    # ---- sessions

    def process_watermark(self, timestamp: int) -> None:
        """Give the sessions that end, in order, then the watermark."""
        self._watermark = timestamp
        if self.has_plan:
            self._give(self.table.advance(timestamp))
            self.forget_what_is_over()
        self.emit_watermark(timestamp)

    def _give(self, slots: np.ndarray) -> None:
        for start in range(0, len(slots), _ROWS_AT_ONCE):
            some = slots[start : start + _ROWS_AT_ONCE]
            keys, starts, ends, _ = self.table.describe(some)
            self.emit(ColumnBatch(self.results_of(keys, some, starts, ends), ends - 1))

    # ---- snapshots

    def open_rows(self) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Return keys and slots of the open sessions, and the columns that `restore_slots` takes."""
        slots = self.table.all()
        keys, starts, ends, given = self.table.describe(slots)
        return keys, slots, {_START: starts, _END: ends, _GIVEN: given}

    def restore_slots(self, keys: np.ndarray, batch: pa.RecordBatch) -> np.ndarray:
        """Open sessions again."""
        starts, ends, given = (batch.column(name).to_numpy().copy() for name in (_START, _END, _GIVEN))
        return self.table.restore(keys, self.key_count, starts, ends, given)
