"""Windows of event time over columns: rows go to slices, and a window that ends is what its slices hold together.

A slice is a `ColumnGroups`: the groups of the rows of that time. A window that ends merges its slices, where there are
many by way of wider tiers, each of which is two of the tier below put together, so that 600 slices cost twenty merges.
No timer is kept for a key: all keys have the same windows, so the watermark alone says which window comes next.

What a snapshot left lies aside in cohorts, one for each old subtask, each with its own knowledge of which windows it
has given already; the rows that come now are in a cohort of their own, which has given none. So after a rescale no
window of a key is given twice, or not at all, though old subtasks stood at different times. Flink's table runtime:
WindowAggOperator, SliceSharedWindowAggProcessor; lateness as WindowOperator has it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK, NO_TIMESTAMP
from flinkbuf.metrics import Counter
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.records.column_exchange import rows_by_number
from flinkbuf.streaming.columns.aggregates import WINDOW_START, Aggregate
from flinkbuf.streaming.columns.column_groups import ColumnGroups, GroupPlan
from flinkbuf.streaming.columns.column_operator import ColumnOperator
from flinkbuf.streaming.columns.grouping_operator import GroupingOperator, event_times
from flinkbuf.streaming.columns.ranked_rows import RankedRows, spread_rows
from flinkbuf.streaming.columns.sliced_windows import SlicedWindows
from flinkbuf.streaming.windows.window_operation import LATE_RECORDS

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

STATE_NAME: Final = "column-windows"
MAX_ROWS: Final = 1 << 13  # of a batch of results that are of several windows
_NONE_GIVEN: Final = NO_TIMESTAMP
_SLICE, _GIVEN, _CLEARED = "slice", "given up to", "cleared up to"  # columns of a snapshot behind the keys
_WINDOWS = b"flinkbuf.windows"  # in the metadata of its schema: the windows whose slices these are


class Cohort:
    """Slices with the same past: windows up to `given_to` were given, those up to `cleared_to` are forgotten."""

    def __init__(self, windows: SlicedWindows, given_to: int = _NONE_GIVEN, cleared_to: int = _NONE_GIVEN) -> None:
        self.given_to = given_to
        self.cleared_to = cleared_to
        self.slices: dict[int, ColumnGroups] = {}
        self._windows = windows
        self._tiers: dict[tuple[int, int], ColumnGroups | None] = {}  # by width in slices, and where they begin
        self._tiers_end = NO_TIMESTAMP  # of the last of them

    def slice_at(self, start: int, plan: GroupPlan) -> ColumnGroups:
        """Return a slice to add rows to, made if it is new."""
        found = self.slices.get(start)
        if found is None:
            found = self.slices[start] = ColumnGroups(plan)
        if start < self._tiers_end:
            self._forget_tiers(start)
        return found

    def ends_to(self, watermark: int) -> Iterator[int]:
        """Yield, in order, the ends of the windows that have rows here, were not given, and have ended."""
        given_to = self.given_to
        for start in sorted(self.slices):
            ends = self._windows.ends_with(start)
            if not ends or ends[-1] <= given_to:
                continue
            missed = 0 if ends[0] > given_to else (given_to - ends[0]) // ends.step + 1
            for end in ends[missed:]:
                if end - 1 > watermark:
                    return
                yield end
                given_to = end

    def parts_of(self, end: int) -> Iterator[ColumnGroups]:
        """Yield what the window that ends at `end` holds together."""
        slice_ms = self._windows.slice_ms
        starts = self._windows.slices_of(end)
        first, count = starts[0], len(starts)
        if count == 1:
            groups = self.slices.get(first)
            if groups is not None:
                yield groups
            return
        position = 0
        while position < count:
            number = (first - self._windows.offset_ms) // slice_ms + position
            width = 1 << (count - position).bit_length() - 1
            if number:
                width = min(width, number & -number)
            groups = self._tier(width, first + position * slice_ms)
            if groups is not None:
                yield groups
            position += width

    def has_parts_of(self, end: int) -> bool:
        """Return whether the window that ends at `end` has rows here, and was not forgotten."""
        return self.cleared_to < end and any(True for _ in self.parts_of(end))

    def _tier(self, width: int, start: int) -> ColumnGroups | None:
        """Return so many slices put together, or None if they have no rows."""
        if width == 1:
            return self.slices.get(start)
        if (width, start) not in self._tiers:
            self._tiers_end = max(self._tiers_end, start + width * self._windows.slice_ms)
            half = width // 2
            halves = self._tier(half, start), self._tier(half, start + half * self._windows.slice_ms)
            self._tiers[width, start] = merged([each for each in halves if each is not None])
        return self._tiers[width, start]

    def _forget_tiers(self, start: int) -> None:
        """Drop what was put together of a slice that changes."""
        slice_ms = self._windows.slice_ms
        self._tiers = {
            (width, first): groups
            for (width, first), groups in self._tiers.items()
            if not first <= start < first + width * slice_ms
        }

    def clear_to(self, watermark: int, lateness_ms: int) -> None:
        """Drop the slices of which no window is open any more."""
        over = [
            start
            for start in self.slices
            if not (ends := self._windows.ends_with(start)) or ends[-1] - 1 + lateness_ms <= watermark
        ]
        for start in over:
            del self.slices[start]
        if over and self._tiers:
            first = min(self.slices, default=None)
            self._tiers = {key: groups for key, groups in self._tiers.items() if first is not None and key[1] >= first}


def merged(parts: Sequence[ColumnGroups]) -> ColumnGroups | None:
    """Return the groups of all parts together, which stay as they are; None: there are none."""
    if len(parts) <= 1:
        return parts[0] if parts else None
    whole = parts[0].empty()
    for part in parts:
        whole.merge(part)
    return whole


@dataclass(frozen=True)
class WindowResults:
    """Which columns a window gives, in order, behind the keys: names, with the aggregate or what the window says."""

    aggregates: tuple[tuple[str, Aggregate], ...]

    @property
    def computed(self) -> tuple[tuple[str, Aggregate], ...]:
        """Return those that rows are read for."""
        return tuple((name, each) for name, each in self.aggregates if not each.is_of_window)

    def batch_of(
        self, keys: pa.RecordBatch, results: Sequence[pa.Array], start: np.ndarray | None, end: np.ndarray | None
    ) -> pa.RecordBatch:
        """Return what windows give as a batch, each row with the start and the end of its window.

        Parameters
        ----------
        keys : pyarrow.RecordBatch
        results : sequence of pyarrow.Array
            Of those that are computed.
        start, end : numpy.ndarray of int64
            Of the window of each row; None: of windows that no time ends.
        """
        import pyarrow as pa

        computed = iter(results)
        columns, names = list(keys.columns), list(keys.schema.names)
        for name, aggregate in self.aggregates:
            if aggregate.is_of_window:
                time = start if aggregate.kind == WINDOW_START else end
                columns.append(pa.array(time).cast(pa.timestamp("ms")))
            else:
                columns.append(next(computed))
            names.append(name)
        return pa.record_batch(columns, names)

    def spread(self, element: ColumnBatch, key_count: int) -> ColumnBatch:
        """Return the rows themselves where the results, behind so many columns of the key, are lists of rows."""
        ranked = self.aggregates[0][1]
        return spread_rows(element, key_count, ranked) if isinstance(ranked, RankedRows) else element


class LateRows:
    """Where rows go that came too late for all their windows.

    Parameters
    ----------
    tag : str, optional
        Of the side output; None: they are dropped, and counted.
    """

    def __init__(self, tag: str | None) -> None:
        self._tag = tag
        self._counter = Counter()
        self._operator: ColumnOperator

    def open(self, operator: ColumnOperator) -> None:
        """Have rows counted among an operator's metrics, or go to its output."""
        self._operator = operator
        self._counter = operator.context.metrics.register(LATE_RECORDS, Counter())

    def take(self, element: ColumnBatch) -> None:
        """Take rows; no rows are no element."""
        if not len(element):
            return
        if self._tag is not None:
            self._operator.output.collect_side(self._tag, element, element.latest)
        else:
            self._counter.increment(len(element))


class WindowingOperator(GroupingOperator):
    """An operator whose state is rows of windows.

    Parameters
    ----------
    key : tuple of str
    windows : object
        Its text is in snapshots, and has to be the same.
    results : WindowResults
    """

    name = STATE_NAME

    def __init__(self, key: tuple[str, ...], windows: object, results: WindowResults) -> None:
        super().__init__(key, results.computed)
        self._text = repr(windows)
        self._results = results

    def emit(self, element: ColumnBatch) -> None:
        """Give results to what reads this operator."""
        if not self.has_key:
            element = element.with_batch(element.batch.select(list(range(1, element.batch.num_columns))))
        super().emit(self._results.spread(element, len(self._key) if self.has_key else 0))

    def with_windows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of a snapshot with the text of the windows whose state it is."""
        return batch.replace_schema_metadata({**batch.schema.metadata, _WINDOWS: self._text.encode()})

    def check_windows(self, batch: pa.RecordBatch) -> None:
        """Raise TypeError if a batch of a snapshot is of other windows."""
        had = batch.schema.metadata[_WINDOWS].decode()
        if had != self._text:
            raise TypeError(
                f"the snapshot has {had}, and this program has {self._text}, whose state is another: keep the windows, "
                "or give the operator another uid"
            )


class ColumnWindowOperator(WindowingOperator):
    """Aggregates of each key and window of event time.

    Parameters
    ----------
    key : tuple of str
    windows : SlicedWindows
    results : WindowResults
    lateness_ms : int, default 0
        So long after its end a window takes late rows, and gives the changed groups again.
    late_tag : str, optional
        Of the side output for rows that came too late; None: they are dropped.
    """

    def __init__(
        self,
        key: tuple[str, ...],
        windows: SlicedWindows,
        results: WindowResults,
        lateness_ms: int = 0,
        late_tag: str | None = None,
    ) -> None:
        super().__init__(key, windows, results)
        self._windows = windows
        self._lateness_ms = lateness_ms
        self._late = LateRows(late_tag)
        self._now = Cohort(windows)  # what comes; the others were restored
        self._cohorts: list[Cohort] = [self._now]  # of a key, what came first stands first
        self._watermark = NO_TIMESTAMP
        self._given: list[tuple[int, pa.RecordBatch, list[pa.Array]]] = []  # of which windows, to be given soon
        self._given_rows = 0

    def open(self) -> None:
        """Count rows that come too late."""
        self._late.open(self)

    # ---- rows

    def process_batch(self, element: ColumnBatch) -> None:
        """Add rows to their slices; those that are late, and not too late, give their windows again."""
        times = event_times(element)
        keys, read = self.take(element)
        order, parts = self._by_slice(self._windows.starts_of(times))
        if order is not None:
            keys, read = keys.take(order), [[column.take(order) for column in columns] for columns in read]
        changed: dict[int, list[pa.RecordBatch]] = {}
        for start, first, end in parts:
            ends, count = self._windows.ends_with(start), end - first
            if not ends or ends[-1] - 1 + self._lateness_ms <= self._watermark:
                self._take_late(element if order is None else element.take(order[first:end]))
                continue
            keys_here = keys.slice(first, count)
            read_here = [[column.slice(first, count) for column in columns] for columns in read]
            self._now.slice_at(start, self.plan).add(keys_here, read_here)
            self._note_changed(keys_here, ends, changed)
        for end in sorted(changed):
            self._give_again(changed[end], end)
        self._flush()

    def _by_slice(self, starts: np.ndarray) -> tuple[np.ndarray | None, list[tuple[int, int, int]]]:
        """Return an order of rows by slices; and of each slice its start, and where its rows are in that order."""
        import numpy as np

        low, high = int(starts.min()), int(starts.max())
        if low == high:
            return None, [(low, 0, len(starts))]
        if (high - low) // self._windows.slice_ms < 4 * len(starts):
            numbers = (starts - low) // self._windows.slice_ms
            begins = range(low, high + 1, self._windows.slice_ms)
        else:
            found, numbers = np.unique(starts, return_inverse=True)
            begins = found.tolist()
        order, parts = rows_by_number(numbers, len(begins))
        return order, [(begins[number], first, end) for number, first, end in parts]

    def _note_changed(
        self, keys: pa.RecordBatch, ends: Iterable[int], changed: dict[int, list[pa.RecordBatch]]
    ) -> None:
        """Note keys of late rows for the windows that had ended."""
        for end in ends:
            if end - 1 > self._watermark:
                break
            if self._watermark < end - 1 + self._lateness_ms:
                changed.setdefault(end, []).append(keys)

    def _take_late(self, element: ColumnBatch) -> None:
        """Give away rows that no window took, as far as they are late; others lie between two windows."""
        import numpy as np

        self._late.take(element.take(np.flatnonzero(element.timestamps <= self._watermark - self._lateness_ms)))

    # ---- windows

    def process_watermark(self, timestamp: int) -> None:
        """Give the windows that end, in order, then the watermark."""
        self._watermark = timestamp
        ends = heapq.merge(*(cohort.ends_to(timestamp) for cohort in self._cohorts))
        for end, _ in groupby(ends):
            self._give(end)
        self._flush()
        for cohort in self._cohorts:
            cohort.given_to = max(cohort.given_to, min(timestamp, MAX_WATERMARK - 1) + 1)
            cohort.clear_to(timestamp, self._lateness_ms)
        self._cohorts = [*(each for each in self._cohorts[:-1] if each.slices), self._now]
        self.emit_watermark(timestamp)

    def _give(self, end: int) -> None:
        """Give a window: of all keys that have not got it."""
        import numpy as np

        due = [cohort for cohort in self._cohorts if cohort.given_to < end]
        groups = self._groups_of(due, end)
        if groups is not None:
            slots, kept = None, [each for each in self._cohorts if each not in due and each.has_parts_of(end)]
            if kept:
                keys, groups = groups.keys(), groups.empty()
                slots = np.sort(groups.slots_of(keys)).astype(np.int64)
                for cohort in self._cohorts:
                    for part in cohort.parts_of(end) if cohort in due or cohort in kept else ():
                        groups.merge_below(part, len(slots))
            self._emit(groups, slots, end)
        for cohort in due:
            cohort.given_to = end

    def _give_again(self, keys: Iterable[pa.RecordBatch], end: int) -> None:
        """Give a window that has ended, for the keys of late rows only."""
        import numpy as np

        groups = self._groups_of([each for each in self._cohorts if each.cleared_to < end], end)
        if groups is not None:
            slots = np.concatenate([groups.slots_of(each) for each in keys])
            self._emit(groups, np.unique(slots).astype(np.int64), end)

    def _groups_of(self, cohorts: Iterable[Cohort], end: int) -> ColumnGroups | None:
        return merged([part for cohort in cohorts for part in cohort.parts_of(end)])

    def _emit(self, groups: ColumnGroups, slots: np.ndarray | None, end: int) -> None:
        """Give results of a window: with those of the next ones, since a window may have few rows."""
        keys, results = groups.results(slots)
        self._given.append((end, keys, results))
        self._given_rows += keys.num_rows
        if self._given_rows >= MAX_ROWS:
            self._flush()

    def _flush(self) -> None:
        """Give the results of windows that wait for those of others."""
        import numpy as np
        import pyarrow as pa

        if not self._given:
            return
        given, self._given, self._given_rows = self._given, [], 0
        counts = [keys.num_rows for _, keys, _ in given]
        starts = np.repeat([self._windows.start_of(end) for end, _, _ in given], counts)
        ends = np.repeat([end for end, _, _ in given], counts)
        keys = pa.concat_batches([keys for _, keys, _ in given])
        results = [pa.concat_arrays(each) for each in zip(*(results for _, _, results in given), strict=True)]
        self.emit(ColumnBatch(self._results.batch_of(keys, results, starts, ends), ends - 1))

    # ---- snapshots

    def frozen_rows(self) -> list[pa.RecordBatch]:
        """Return the groups of all slices, with what was given of them."""
        import pyarrow as pa

        frozen = []
        for cohort in self._cohorts:
            cleared = cohort.cleared_to
            if self._watermark not in (NO_TIMESTAMP, MAX_WATERMARK):
                cleared = max(cleared, self._watermark - self._lateness_ms + 1)
            for start, groups in cohort.slices.items():
                batch = groups.state()
                for name, value in ((_SLICE, start), (_GIVEN, cohort.given_to), (_CLEARED, cleared)):
                    batch = batch.append_column(name, pa.repeat(pa.scalar(value, pa.int64()), batch.num_rows))
                frozen.append(self.with_windows(batch))
        return frozen

    def restore_rows(self, batch: pa.RecordBatch) -> None:
        """Take groups of one slice; whoever had the same past has one cohort."""
        self.check_windows(batch)
        start, given, cleared = (batch.column(name)[0].as_py() for name in (_SLICE, _GIVEN, _CLEARED))
        rows = batch.drop_columns([_SLICE, _GIVEN, _CLEARED])
        self.begin_from(rows)
        alike = (each for each in self._cohorts[:-1] if (each.given_to, each.cleared_to) == (given, cleared))
        cohort = next(alike, None)
        if cohort is None:
            cohort = Cohort(self._windows, given, cleared)
            # The rows of a key in several cohorts came between restores, each of which went back in time.
            restored = sorted([*self._cohorts[:-1], cohort], key=lambda each: (-each.given_to, -each.cleared_to))
            self._cohorts = [*restored, self._now]
        cohort.slice_at(start, self.plan).merge_state(rows)
