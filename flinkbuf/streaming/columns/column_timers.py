"""Timers of keys as columns: runs of registered and deleted timers in order of time, as those of a log-structured tree.

What is registered or deleted is noted, and becomes a run, sorted by time, when its time has come or much was noted.
Timers that are due are the beginnings of all runs; of several entries for one key and time the latest counts, whether
it registers or deletes. Runs are merged now and then, so that an entry is sorted a few times in its life. No timer is
an object. Flink: InternalTimerServiceImpl.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flinkbuf.streaming.columns.column_value_state import with_keys, without_keys
from flinkbuf.streaming.columns.key_table import KeyTable, stable_order

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

STATE_NAME: Final = "column-timers"
CLOCK_STATE_NAME: Final = "column-timers-processing-time"
MOST_NOTED: Final = 1 << 16  # entries that no run has
MOST_RUNS: Final = 8
_NEVER: Final = 2**63 - 1
_TIME: Final = "timestamp"


@dataclass(frozen=True, eq=False)
class TimerRun:
    """Entries; those of a run that is kept rise by time."""

    times: np.ndarray  # of int64
    slots: np.ndarray  # of uint32
    is_set: np.ndarray  # of bool; False: the timer is deleted

    def __len__(self) -> int:
        return len(self.times)

    @staticmethod
    def of(runs: list[TimerRun]) -> TimerRun:
        """Return the entries of runs one behind the other."""
        import numpy as np

        return TimerRun(
            np.concatenate([np.empty(0, np.int64), *(each.times for each in runs)]),
            np.concatenate([np.empty(0, np.uint32), *(each.slots for each in runs)]),
            np.concatenate([np.empty(0, np.bool_), *(each.is_set for each in runs)]),
        )

    def take(self, rows: np.ndarray | slice) -> TimerRun:
        """Return some of the entries, in any order."""
        return TimerRun(self.times[rows], self.slots[rows], self.is_set[rows])

    def in_order(self) -> TimerRun:
        """Return the entries by time, those of one time as they are."""
        return self.take(stable_order(self.times))

    def latest(self) -> TimerRun:
        """Return the latest entry of each key and time, by key, then by time."""
        import numpy as np

        run = self.take(stable_order(self.slots, stable_order(self.times)))
        is_last = np.ones(len(run), np.bool_)
        is_last[:-1] = (run.times[1:] != run.times[:-1]) | (run.slots[1:] != run.slots[:-1])
        return run if is_last.all() else run.take(is_last)

    def registered(self) -> TimerRun:
        """Return the entries that register a timer."""
        return self if self.is_set.all() else self.take(self.is_set)

    def split_at(self, timestamp: int) -> tuple[TimerRun, TimerRun]:
        """Return the entries up to a time, and those behind it; the run rises by time."""
        import numpy as np

        place = int(np.searchsorted(self.times, timestamp, side="right"))
        if not place:
            return self.take(slice(0)), self
        rest = self.take(slice(place, None))
        if rest.times.base is not None and 2 * len(rest) < len(rest.times.base):
            rest = rest.take(np.arange(len(rest)))  # a copy, so that the memory of the others is free
        return self.take(slice(place)), rest


class ColumnTimers:
    """The timers of one subtask that go by one clock.

    Parameters
    ----------
    table : KeyTable
    name : str
        Of the state in snapshots.
    """

    def __init__(self, table: KeyTable, name: str = STATE_NAME) -> None:
        self.name = name
        self.has_ended = False  # nothing is registered any more
        self._table = table
        self._runs: list[TimerRun] = []  # what came first stands first
        self._noted: list[TimerRun] = []
        self._noted_count = 0
        self._earliest_noted = _NEVER
        self._is_firing = False  # what is due stands in no run, and deletes of it must not be forgotten
        table.add_holder(self)

    def note(self, slots: np.ndarray, times: np.ndarray, is_set: bool) -> None:
        """Register timers, or delete them."""
        import numpy as np

        if not len(slots) or self.has_ended:
            return
        self._noted.append(TimerRun(times, slots.astype(np.uint32), np.full(len(slots), is_set)))
        self._noted_count += len(slots)
        self._earliest_noted = min(self._earliest_noted, int(times.min()))
        if self._noted_count > MOST_NOTED and not self._is_firing:
            self._make_run()

    @property
    def earliest(self) -> int | None:
        """Return a time before which no timer is due; None: there are no timers. One may be deleted since."""
        times = [int(run.times[0]) for run in self._runs]
        if self._noted:
            times.append(self._earliest_noted)
        return min(times, default=None)

    def rounds_to(self, timestamp: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the timers up to a time until there are none: slots and times, each key once, in order of time.

        So the timers of one key come one after the other, and each sees what the one before did, which may also
        register and delete timers that are due.
        """
        while len(due := self._take_to(timestamp)):
            starts, ends = _ranges_of(due.slots)
            self._is_firing = True
            while len(starts):
                rows = starts[stable_order(due.times[starts])]
                is_left = starts + 1 < ends
                starts, ends = starts[is_left] + 1, ends[is_left]
                yield due.slots[rows], due.times[rows]
                if self._earliest_noted <= timestamp and len(starts):
                    rest = due.take(_rows_in(starts, ends, len(due)))
                    self._runs.insert(0, rest.in_order())  # before what was noted meanwhile
                    break
            self._is_firing = False

    def _take_to(self, timestamp: int) -> TimerRun:
        """Take out what is registered up to a time: by key, then by time."""
        if self._earliest_noted <= timestamp:
            self._make_run()
        parts = [each.split_at(timestamp) for each in self._runs]
        self._runs = [rest for _, rest in parts if len(rest)]
        return TimerRun.of([due for due, _ in parts if len(due)]).latest().registered()

    def _make_run(self) -> None:
        """Make a run of what was noted."""
        if not self._noted:
            return
        run = TimerRun.of(self._noted).in_order()
        self._noted, self._noted_count, self._earliest_noted = [], 0, _NEVER
        self._runs.append(run)
        if len(self._runs) > MOST_RUNS:
            count, first = 0, len(self._runs)
            while first and len(self._runs[first - 1]) <= 2 * max(count, len(run)):
                first -= 1
                count += len(self._runs[first])
            self._merge_from(min(first, len(self._runs) - 2))

    def _merge_from(self, first: int) -> None:
        """Make one run of those from a place on; deleted timers are forgotten where no run is before it."""
        merged = TimerRun.of(self._runs[first:]).latest()
        merged = (merged if first else merged.registered()).in_order()
        self._runs[first:] = [merged] if len(merged) else []

    def _whole(self) -> TimerRun:
        self._make_run()
        if self._runs:
            self._merge_from(0)
        return self._runs[0] if self._runs else TimerRun.of([])

    # --- slots

    def mark(self, is_held: np.ndarray) -> None:
        """Set the places of slots with a timer."""
        is_held[self._whole().slots] = True

    def keep(self, slots: np.ndarray) -> None:
        """Give timers the slots 0, 1 and so on, in place of these."""
        import numpy as np

        run = self._whole()
        if len(run):
            self._runs = [TimerRun(run.times, np.searchsorted(slots, run.slots).astype(np.uint32), run.is_set)]

    # --- snapshots

    def frozen_rows(self) -> list[pa.RecordBatch]:
        """Return keys and times of all timers."""
        import pyarrow as pa

        run = self._whole()
        if not len(run):
            return []
        return [with_keys(self._table.keys_at(run.slots), pa.record_batch({_TIME: pa.array(run.times)}))]

    def restore_rows(self, batch: pa.RecordBatch) -> None:
        """Take timers of a snapshot."""
        keys, rows = without_keys(batch)
        if keys.schema.names != list(self._table.names):
            raise TypeError(
                f"the snapshot has timers by {', '.join(keys.schema.names)}, and this program keys by "
                f"{', '.join(self._table.names)}: keep the key, or give the operator another uid"
            )
        self.note(self._table.slots_of(keys), rows[_TIME].to_numpy(), True)


def _ranges_of(slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the rows of each slot begin and end; they lie side by side."""
    import numpy as np

    is_first = np.ones(len(slots), np.bool_)
    is_first[1:] = slots[1:] != slots[:-1]
    starts = np.flatnonzero(is_first)
    return starts, np.append(starts[1:], len(slots))


def _rows_in(starts: np.ndarray, ends: np.ndarray, count: int) -> np.ndarray:
    """Return the rows, of so many, in some ranges, which do not overlap."""
    import numpy as np

    steps = np.zeros(count + 1, np.int64)
    steps[starts] += 1
    steps[ends] -= 1
    return np.flatnonzero(np.cumsum(steps[:-1]))
