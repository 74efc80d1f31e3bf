"""Joins of two column streams by key: of rows near in event time, of one window, or of rows that come near each other.

Keys become slots, the same ones for both sides. Of each side `SlotRows` knows which rows a slot has, by time, and
`RowStore` keeps them as columns: a batch is looked up against the other side as a whole, the pairs come out as numbers
of rows, and the columns are gathered once for each batch of results, which has at most `MAX_ROWS`. A row that nobody
can join any more goes, and where its side is given in any case, without a partner. So nothing that was given is ever
taken back. Flink: IntervalJoinOperator, RowTimeIntervalJoin, WindowJoinOperator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from flinkbuf._core.columns.key_slots import KeySlots
from flinkbuf._core.columns.slot_rows import RowProbe, SlotRows, TakenRows
from flinkbuf._core.operators.stream_operator import MAX_WATERMARK, NO_TIMESTAMP, MultipleInputOperator
from flinkbuf.metrics import Counter
from flinkbuf.records.column_batch import ColumnBatch, PageReader, without_dictionaries
from flinkbuf.records.column_exchange import check_goes_alike
from flinkbuf.streaming.columns.column_functions import column_as
from flinkbuf.streaming.columns.grouping_operator import event_times
from flinkbuf.streaming.columns.row_store import RowStore
from flinkbuf.streaming.columns.sliced_windows import SlicedWindows
from flinkbuf.streaming.time.combined_watermark import CombinedWatermark
from flinkbuf.streaming.time.processing_time import TimerHandle
from flinkbuf.streaming.windows.window_operation import LATE_RECORDS

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from flinkbuf.streaming.state.snapshot import OperatorSnapshot

KINDS: Final = ("inner", "left", "right", "full", "semi", "anti")
MAX_ROWS: Final = 1 << 14  # of a batch of results
STATE_NAME: Final = "joined-rows"
LEFT, RIGHT = 0, 1
_SIDES: Final = ("left", "right")
_MIN_SLOTS: Final = 1 << 14  # fewer keys are not worth a look for those that have no row any more
_JOIN, _SIDE = b"flinkbuf.join", b"flinkbuf.side"  # in the metadata of a snapshot's schema
_COLUMN = "column "  # before the names of the rows' columns there, behind which the operator's own stand
_STAMP, _TIME, _PARTNER, _GIVEN = "timestamp", "time", "had partner", "given up to"


@dataclass(frozen=True)
class JoinPlan:
    """What is joined with what.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    keys : tuple of tuple of str
        The columns of the left key, and those of the right one.
    schemas : tuple of pyarrow.Schema
        Of the rows of both sides.
    """

    kind: str
    keys: tuple[tuple[str, ...], tuple[str, ...]]
    schemas: tuple[pa.Schema, pa.Schema]

    @property
    def is_left_only(self) -> bool:
        """Return whether results are left rows, and not pairs."""
        return self.kind in ("semi", "anti")

    @property
    def gives_alone(self) -> tuple[bool, bool]:
        """Return of which sides rows without a partner are given."""
        return self.kind in ("left", "full", "anti"), self.kind in ("right", "full")

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the schema of the results."""
        import pyarrow as pa

        left, right = self.schemas
        return pa.schema([(field.name, field.type) for field in ([*left] if self.is_left_only else [*left, *right])])

    @cached_property
    def key_schema(self) -> pa.Schema:
        """Return the schema of the key, which is the left one's."""
        import pyarrow as pa

        return pa.schema([(name, self.schemas[LEFT].field(name).type) for name in self.keys[LEFT]])

    def rows_as(self, side: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows that came with the columns that the side's rows have.

        Raises
        ------
        ValueError
            If they have others.
        TypeError
            If a column's values are none of its type, or if rows of an equal key with its type may be in another
            subtask.
        """
        import pyarrow as pa

        batch, schema = without_dictionaries(batch), self.schemas[side]
        if batch.schema.names != schema.names:
            raise ValueError(
                f"a batch with the columns {', '.join(batch.schema.names) or '(none)'} came to the {_SIDES[side]} side "
                f"of a join whose rows have {', '.join(schema.names)}"
            )
        for name in self.keys[side]:
            declared = schema.field(name).type
            check_goes_alike(name, batch.schema.field(name).type, declared, f"is {declared} to join()")
        columns = [
            column_as(column, field.type, field.name, f"is {field.type} to join()")
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        return pa.record_batch(columns, schema=schema)

    def keys_of(self, side: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the keys of rows, as the left side has them."""
        import pyarrow as pa

        columns = [
            column_as(rows.column(name), field.type, name, f"is {field.type} in the left key")
            for name, field in zip(self.keys[side], self.key_schema, strict=True)
        ]
        return pa.record_batch(columns, schema=self.key_schema)

    def pairs_of(self, left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
        """Return the results of pairs: the left row's columns, then the right one's."""
        import pyarrow as pa

        return pa.record_batch([*left.columns, *right.columns], schema=self.schema)

    def alone(self, side: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the results of rows without a partner."""
        import pyarrow as pa

        if self.is_left_only:
            return pa.record_batch(rows.columns, schema=self.schema)
        nulls = [pa.nulls(rows.num_rows, field.type) for field in self.schemas[1 - side]]
        columns = [*rows.columns, *nulls] if side == LEFT else [*nulls, *rows.columns]
        return pa.record_batch(columns, schema=self.schema)

    def __str__(self) -> str:
        left, right = (f"({', '.join(f'{field.name} {field.type}' for field in each)})" for each in self.schemas)
        by = " = ".join(f"({', '.join(names)})" for names in self.keys)
        return f"{self.kind} join of {left} and {right} by {by}"


class JoinSide:
    """The rows of one side: where they are by key and time, and their columns."""

    def __init__(self, schema: pa.Schema) -> None:
        import pyarrow as pa

        self.rows = SlotRows()
        self._schema = schema
        self._stored_schema = pa.schema([*schema, pa.field(_STAMP, pa.int64())])
        self._store = RowStore(self._stored_schema)

    def add(
        self,
        slots: np.ndarray,
        times: np.ndarray,
        batch: pa.RecordBatch,
        stamps: np.ndarray,
        had_partner: np.ndarray | None = None,
    ) -> None:
        """Keep rows; `times` are what their partners go by."""
        import pyarrow as pa

        stored = pa.record_batch([*batch.columns, pa.array(stamps, pa.int64())], schema=self._stored_schema)
        self.rows.insert(slots, times, self._store.append(stored), had_partner)

    def take(self, numbers: np.ndarray) -> tuple[pa.RecordBatch, np.ndarray]:
        """Return rows in the order of these numbers, with their timestamps."""
        return self._split(self._store.take(numbers))

    def live(self) -> Iterator[tuple[np.ndarray, pa.RecordBatch, np.ndarray]]:
        """Yield all rows, in the order of their numbers: these, the columns, and the timestamps."""
        for numbers, stored in self._store.live():
            yield (numbers, *self._split(stored))

    def release(self, numbers: np.ndarray) -> None:
        """Let go of the columns of rows that `rows` has no more."""
        self._store.release(numbers)

    def _split(self, stored: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray]:
        import pyarrow as pa

        *columns, stamps = stored.columns
        return pa.record_batch(columns, schema=self._schema), stamps.to_numpy()

    def let_go(self, limit: int, last_look: Callable[[TakenRows], None] | None = None) -> None:
        """Let go of the rows up to a time, whose columns are there until the last of them was looked at.

        They come by slots, and their columns lie by arrival: gone together, they are gone from whole chunks.
        """
        import numpy as np

        gone = []
        for taken in self.rows.expire(limit, MAX_ROWS):
            if last_look is not None:
                last_look(taken)
            gone.append(taken.numbers)
        if gone:
            self.release(np.concatenate(gone))


class ColumnJoinOperator(MultipleInputOperator):
    """What the joins have in common: the rows of both sides, and how they are kept in snapshots.

    Parameters
    ----------
    plan : JoinPlan
    rule : str
        Which rows of a key are joined, as a snapshot has it: of another rule's, rows would be missing.
    """

    name = STATE_NAME

    def __init__(self, plan: JoinPlan, rule: str) -> None:
        super().__init__(2, CombinedWatermark(2))
        self._plan = plan
        self._text = f"{plan} {rule}"
        self._pages = PageReader(), PageReader()
        self._keys = KeySlots(plan.key_schema)
        self._sides = JoinSide(plan.schemas[LEFT]), JoinSide(plan.schemas[RIGHT])
        self._slots_wanted = _MIN_SLOTS
        self._watermark = NO_TIMESTAMP
        self._late_counter = Counter()

    def open(self) -> None:
        """Count rows that come too late."""
        self._late_counter = self.context.metrics.register(LATE_RECORDS, Counter())

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Take restored rows, and have snapshots hold those to come."""
        super().initialize_state(snapshot)
        self.context.keyed_state.keep_columns(self, len(self._plan.keys[LEFT]))

    @property
    def rows_in(self) -> int:
        """Return how many rows came from both sides."""
        return sum(pages.row_count for pages in self._pages)

    def process_input_element(self, index: int, value: ColumnBatch | bytes, timestamp: int) -> None:
        """Take an element of a side, or the page of one."""
        element = self._pages[index].element_of(value)
        if len(element):
            self.process_rows(index, element)

    def process_rows(self, side: int, element: ColumnBatch) -> None:
        """Take the rows of an element of a side."""
        raise NotImplementedError(f"{type(self).__name__}.process_rows")

    def emit(self, batch: pa.RecordBatch, timestamps: np.ndarray) -> None:
        """Give results."""
        for start in range(0, batch.num_rows, MAX_ROWS):
            times = timestamps[start : start + MAX_ROWS]
            latest = int(times.max())
            rows = batch.slice(start, len(times))
            self.output.collect(ColumnBatch(rows, None if latest == NO_TIMESTAMP else times), latest)

    # ---- keys

    def _slots_of(self, side: int, rows: pa.RecordBatch) -> np.ndarray:
        """Return the slot of each row's key; a new one gets the next."""
        if len(self._keys) >= self._slots_wanted:
            self._forget_keys()
        slots, _ = self._keys.find_or_add(self._plan.keys_of(side, rows))
        for each in self._sides:
            each.rows.grow(len(self._keys))
        return slots

    def _forget_keys(self) -> None:
        """Drop the keys that no row has any more, if they are at least half of all."""
        import numpy as np

        left, right = (side.rows.first_numbers() for side in self._sides)
        places = np.flatnonzero(left >= 0), np.flatnonzero((left < 0) & (right >= 0))
        slots = np.concatenate(places).astype(np.uint32)
        if 2 * len(slots) <= len(self._keys):
            self._keys.clear()
            for side, numbers in ((LEFT, left[places[LEFT]]), (RIGHT, right[places[RIGHT]])):
                if len(numbers):
                    rows, _ = self._sides[side].take(numbers)
                    self._keys.find_or_add(self._plan.keys_of(side, rows))
            for each in self._sides:
                each.rows.keep(slots)
            self._slots_kept(slots)
        self._slots_wanted = max(_MIN_SLOTS, 2 * len(slots))

    def _slots_kept(self, slots: np.ndarray) -> None:
        """Go on with some slots, which are 0, 1 and so on from now."""

    # ---- snapshots

    def _given_up_to(self, slots: np.ndarray) -> np.ndarray:
        """Return what a snapshot notes of the past of each slot."""
        import numpy as np

        return np.full(len(slots), NO_TIMESTAMP)

    def _take_given(self, slots: np.ndarray, given: np.ndarray) -> None:
        """Take what a snapshot noted of slots."""

    def frozen_rows(self) -> list[pa.RecordBatch]:
        """Return all rows of both sides."""
        return [batch for side in (LEFT, RIGHT) for batch in self._frozen(side)]

    def _frozen(self, side: int) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa

        mine, keys = self._sides[side], self._plan.keys[side]
        found = list(mine.rows.between(NO_TIMESTAMP, MAX_WATERMARK, max(1, len(mine.rows))))
        if not found:
            return
        (known,) = found
        order, start = np.argsort(known.numbers), 0
        names = [*keys, *(name for name in self._plan.schemas[side].names if name not in keys)]
        metadata = {_JOIN: self._text.encode(), _SIDE: _SIDES[side].encode()}
        for numbers, batch, stamps in mine.live():
            rows = order[start : start + len(numbers)]
            start += len(numbers)
            own = {
                _STAMP: pa.array(stamps),
                _TIME: pa.array(known.times[rows]),
                _PARTNER: pa.array(known.had_partner[rows]),
                _GIVEN: pa.array(self._given_up_to(known.slots[rows])),
            }
            columns = {f"{_COLUMN}{name}": batch.column(name) for name in names} | own
            yield pa.record_batch(list(columns.values()), list(columns), metadata=metadata)

    def restore_rows(self, batch: pa.RecordBatch) -> None:
        """Take rows of one side."""
        import pyarrow as pa

        metadata = batch.schema.metadata or {}
        had = metadata.get(_JOIN, b"something else").decode()
        if had != self._text:
            raise TypeError(
                f"the snapshot has {had}, and this program has {self._text}: keep the join as it was, or give the "
                "operator another uid"
            )
        side = _SIDES.index(metadata[_SIDE].decode())
        names = self._plan.schemas[side].names
        rows = self._plan.rows_as(side, pa.record_batch([batch.column(f"{_COLUMN}{name}") for name in names], names))
        stamps, times, given = (batch.column(name).to_numpy() for name in (_STAMP, _TIME, _GIVEN))
        slots = self._slots_of(side, rows)
        had_partner = batch.column(_PARTNER).to_numpy(zero_copy_only=False)
        self._sides[side].add(slots, times, rows, stamps, had_partner)
        self._take_given(slots, given)


class PairingOperator(ColumnJoinOperator):
    """A join that gives a pair as soon as both rows are there, and a row without a partner when it goes.

    A subclass says what the time of a row is, when it goes, and which timestamp it is given with then.

    Parameters
    ----------
    plan : JoinPlan
    rule : str
    bounds_ms : tuple of int, optional
        The least and the greatest of a right row's time less a left one's, both included; None: any.
    """

    def __init__(self, plan: JoinPlan, rule: str, bounds_ms: tuple[int, int] = (NO_TIMESTAMP, MAX_WATERMARK)) -> None:
        super().__init__(plan, rule)
        lower, upper = bounds_ms
        self._bounds = (lower, upper), (-upper, -lower)

    def _stamps_alone(self, side: int, stamps: np.ndarray) -> np.ndarray:
        """Return the timestamps of results without a partner, of rows with these."""
        return stamps

    def _join(self, side: int, element: ColumnBatch, times: np.ndarray) -> None:
        """Give the pairs of new rows with rows that are there, and keep them."""
        import numpy as np

        stamps = element.timestamps
        if stamps is None:
            stamps = np.full(len(element), NO_TIMESTAMP)
        batch = self._plan.rows_as(side, element.batch)
        slots = self._slots_of(side, batch)
        if self._plan.is_left_only:
            self._join_left_only(side, slots, times, batch, stamps)
            return
        mine, others = self._sides[side], self._sides[1 - side]
        probe = RowProbe(slots, times, *self._bounds[side], any(self._plan.gives_alone))
        for rows, numbers in others.rows.pairs(probe, MAX_ROWS):
            theirs, their_stamps = others.take(numbers)
            ours = batch.take(rows)
            pairs = self._plan.pairs_of(*((ours, theirs) if side == LEFT else (theirs, ours)))
            self.emit(pairs, np.maximum(stamps[rows], their_stamps))
        mine.add(slots, times, batch, stamps, probe.had_partner)

    def _join_left_only(
        self, side: int, slots: np.ndarray, times: np.ndarray, batch: pa.RecordBatch, stamps: np.ndarray
    ) -> None:
        """Keep left rows only as long as they have no partner; with one, they are given, or they are not."""
        import numpy as np

        mine, others = self._sides[side], self._sides[1 - side]
        probe = RowProbe(slots, times, *self._bounds[side])
        if side == LEFT:
            partners = others.rows.find(probe)
            rows = np.flatnonzero(partners >= 0)
            if self._plan.kind == "semi" and len(rows):
                _, their_stamps = others.take(partners[rows])
                self._emit_left(batch.take(rows), np.maximum(stamps[rows], their_stamps))
            if len(rows):
                rows = np.flatnonzero(partners < 0)
                slots, times, batch, stamps = slots[rows], times[rows], batch.take(rows), stamps[rows]
        else:
            for rows, numbers in others.rows.withdraw(probe, MAX_ROWS):
                if self._plan.kind == "semi":
                    theirs, their_stamps = others.take(numbers)
                    self._emit_left(theirs, np.maximum(stamps[rows], their_stamps))
                others.release(numbers)
        mine.add(slots, times, batch, stamps)

    def _emit_left(self, rows: pa.RecordBatch, stamps: np.ndarray) -> None:
        self.emit(self._plan.alone(LEFT, rows), stamps)

    def _expire(self, side: int, limit: int) -> None:
        """Let the rows up to a time go."""
        mine = self._sides[side]

        def give_alone(taken: TakenRows) -> None:
            alone = taken.numbers[~taken.had_partner]
            if self._plan.gives_alone[side] and len(alone):
                rows, stamps = mine.take(alone)
                self.emit(self._plan.alone(side, rows), self._stamps_alone(side, stamps))

        mine.let_go(limit, give_alone)


class ColumnIntervalJoinOperator(PairingOperator):
    """Joins rows of a key that are near in event time.

    A row goes once the watermark says that no row comes any more that is near enough. An inner join drops a row behind
    the watermark, as Flink's IntervalJoinOperator does; the other kinds take it as RowTimeIntervalJoin does: it meets
    the rows that are still there.

    Parameters
    ----------
    plan : JoinPlan
    bounds_ms : tuple of int
    """

    def __init__(self, plan: JoinPlan, bounds_ms: tuple[int, int]) -> None:
        lower, upper = bounds_ms
        super().__init__(plan, f"from {lower} to {upper} ms", bounds_ms)
        self._kept_ms = max(upper, 0), max(-lower, 0)  # so long a partner may come after a row

    def process_rows(self, side: int, element: ColumnBatch) -> None:
        """Join rows by their timestamps."""
        import numpy as np

        times = event_times(element, _SIDES[side])
        if self._plan.kind == "inner" and int(times.min()) < self._watermark:
            element = element.take(np.flatnonzero(times >= self._watermark))
            self._late_counter.increment(len(times) - len(element))
            if not len(element):
                return
        self._join(side, element, element.timestamps)

    def emit_watermark(self, timestamp: int) -> None:
        """Let rows go whose time is over, then the watermark."""
        self._watermark = timestamp
        for side in (LEFT, RIGHT):
            self._expire(side, timestamp if timestamp == MAX_WATERMARK else timestamp - self._kept_ms[side])
        super().emit_watermark(timestamp)

    def _stamps_alone(self, side: int, stamps: np.ndarray) -> np.ndarray:
        """Return when it was known: not behind the watermark, as the rows' own timestamps are."""
        import numpy as np

        kept = self._kept_ms[side]
        found: np.ndarray = np.minimum(stamps, MAX_WATERMARK - kept) + kept if kept <= MAX_WATERMARK else stamps
        return found


class ColumnTimeToLiveJoinOperator(PairingOperator):
    """Joins all rows of a key, each of which is kept for some time after it came, by the clock of the task.

    In batch execution rows are kept to the end.

    Parameters
    ----------
    plan : JoinPlan
    time_to_live_ms : int
    """

    def __init__(self, plan: JoinPlan, time_to_live_ms: int) -> None:
        super().__init__(plan, "of all rows")
        self._time_to_live_ms = time_to_live_ms
        self._pause_ms = max(1, min(1000, time_to_live_ms // 20))  # at least between two looks at what is over
        self._timer: TimerHandle | None = None

    def open(self) -> None:
        """Wait for the end of restored rows."""
        super().open()
        self._wait()

    def close(self) -> None:
        """Wait no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def process_rows(self, side: int, element: ColumnBatch) -> None:
        """Join rows with those that came in time."""
        import numpy as np

        now = self.context.processing_time.now_ms()
        self._end_rows(now)
        self._join(side, element, np.full(len(element), now))
        self._wait()

    def emit_watermark(self, timestamp: int) -> None:
        """Let all rows go at the end of both inputs, then the watermark."""
        if timestamp == MAX_WATERMARK:
            for side in (LEFT, RIGHT):
                self._expire(side, MAX_WATERMARK)
        super().emit_watermark(timestamp)

    def _end_rows(self, now: int) -> None:
        if not self.context.settings.is_batch:
            for side in (LEFT, RIGHT):
                self._expire(side, now - self._time_to_live_ms)

    def _wait(self) -> None:
        """Have the next rows let go in time."""
        came = [side.rows.earliest for side in self._sides if side.rows.earliest is not None]
        if self._timer is None and came and not self.context.settings.is_batch:
            clock = self.context.processing_time
            time = max(min(came) + self._time_to_live_ms, clock.now_ms() + self._pause_ms)
            self._timer = clock.register_timer(time - 1, self._end_wait)

    def _end_wait(self, timestamp: int) -> None:
        self._timer = None
        self._end_rows(self.context.processing_time.now_ms())
        self._wait()


class ColumnWindowJoinOperator(ColumnJoinOperator):
    """Joins rows of a key that are in one window of event time, when that ends.

    Parameters
    ----------
    plan : JoinPlan
    windows : SlicedWindows
    """

    def __init__(self, plan: JoinPlan, windows: SlicedWindows) -> None:
        super().__init__(plan, f"in {windows}")
        self._windows = windows
        self._given_to = NO_TIMESTAMP  # windows that end up to here were given
        self._given: np.ndarray | None = None  # likewise, of each slot of a snapshot; None: of none

    # ---- rows

    def process_rows(self, side: int, element: ColumnBatch) -> None:
        """Keep rows until their windows end."""
        import numpy as np

        windows, times = self._windows, event_times(element, _SIDES[side])
        windows.starts_of(times)  # refuses what is at the ends of time
        ends = windows.last_ends_of(times)
        is_in_window = ends > times
        is_open = is_in_window & (ends - 1 > self._watermark)
        if not is_open.all():
            self._late_counter.increment(int((~is_open & (times <= self._watermark)).sum()))
            element = element.take(np.flatnonzero(is_open))
            if not len(element):
                return
        batch = self._plan.rows_as(side, element.batch)
        self._sides[side].add(self._slots_of(side, batch), element.timestamps, batch, element.timestamps)

    # ---- windows

    def emit_watermark(self, timestamp: int) -> None:
        """Give the windows that end, in order, then the watermark."""
        self._watermark, windows = timestamp, self._windows
        while (end := self._next_end()) is not None and end - 1 <= timestamp:
            self._give(windows.start_of(end), end)
            self._given_to = end
            for side in self._sides:
                side.let_go(windows.start_of(end + windows.slide_ms) - 1)
        self._given_to = max(self._given_to, min(timestamp, MAX_WATERMARK - 1) + 1)
        super().emit_watermark(timestamp)

    def _next_end(self) -> int | None:
        """Return where the first window ends that has rows and was not given."""
        times = [side.rows.earliest for side in self._sides if side.rows.earliest is not None]
        if not times:
            return None
        windows, time = self._windows, min(times)
        ends = windows.ends_with(time - (time - windows.offset_ms) % windows.slice_ms)
        return next((end for end in ends if end > self._given_to), None)

    def _give(self, start: int, end: int) -> None:
        import numpy as np

        left, right = self._sides
        for numbers, probe, others in self._in_window(LEFT, start, end):
            if self._plan.is_left_only:
                has_partner = right.rows.find(probe) >= 0
                self._give_alone(LEFT, numbers[has_partner == (self._plan.kind == "semi")], end)
                continue
            for rows, partners in others.rows.pairs(probe, MAX_ROWS):
                pairs = self._plan.pairs_of(left.take(numbers[rows])[0], right.take(partners)[0])
                self.emit(pairs, np.full(pairs.num_rows, end - 1))
        for side, is_given in enumerate(self._plan.gives_alone):
            if is_given and not self._plan.is_left_only:
                for numbers, probe, others in self._in_window(side, start, end):
                    self._give_alone(side, numbers[others.rows.find(probe) < 0], end)

    def _in_window(self, side: int, start: int, end: int) -> Iterator[tuple[np.ndarray, RowProbe, JoinSide]]:
        """Yield the rows of a window, with what finds their partners, and where these are."""
        import numpy as np

        for taken in self._sides[side].rows.between(start, end - 1, MAX_ROWS):
            slots, numbers = taken.slots, taken.numbers
            if self._given is not None:
                known = np.flatnonzero(slots < len(self._given))
                is_given = np.zeros(len(slots), np.bool_)
                is_given[known] = self._given[slots[known]] >= end
                slots, numbers = slots[~is_given], numbers[~is_given]
            probe = RowProbe(slots, np.full(len(slots), start), 0, end - 1 - start)
            yield numbers, probe, self._sides[1 - side]

    def _give_alone(self, side: int, numbers: np.ndarray, end: int) -> None:
        import numpy as np

        rows, _ = self._sides[side].take(numbers)
        self.emit(self._plan.alone(side, rows), np.full(rows.num_rows, end - 1))

    # ---- snapshots

    def _slots_kept(self, slots: np.ndarray) -> None:
        self._given = self._of_slots(slots) if self._given is not None else None

    def _of_slots(self, slots: np.ndarray) -> np.ndarray:
        """Return up to where windows of each slot were given before a restore."""
        import numpy as np

        given = np.full(len(slots), NO_TIMESTAMP)
        if self._given is not None:
            known = np.flatnonzero(slots < len(self._given))
            given[known] = self._given[slots[known]]
        return given

    def _given_up_to(self, slots: np.ndarray) -> np.ndarray:
        import numpy as np

        given: np.ndarray = np.maximum(self._of_slots(slots), self._given_to)
        return given

    def _take_given(self, slots: np.ndarray, given: np.ndarray) -> None:
        import numpy as np

        if int(given.max()) == NO_TIMESTAMP:
            return
        self._given = self._of_slots(np.arange(len(self._keys), dtype=np.uint32))
        np.maximum.at(self._given, slots, given)
