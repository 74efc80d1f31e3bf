"""What Spark runs for a key group: the user's processor for each key of the group, and the group's state around it.

To Spark a key group is a key, with one value (its `Head`) and one map (the segments of its log). A visit of a group is
a call of Spark for it: rows of a batch, rows of the initial state, or the group's timer. What a visit asks of Spark is
a dozen messages, however many rows and keys it has.
"""

from __future__ import annotations

import gc
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo
from pyspark.sql.types import BinaryType, LongType, Row, StructField, StructType

from flinkbuf.spark.streams.handle import Handle
from flinkbuf.spark.streams.key_group_state import (
    Changes,
    ExpiringFlatTable,
    ExpiringNestedTable,
    Head,
    KeyGroupState,
    log_is_long,
    read_segment,
    write_segment,
)
from flinkbuf.spark.streams.keys import KeyColumns
from flinkbuf.spark.streams.packing import RowsOut, group_count, read_batches

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

_HEAD = StructType([StructField(name, LongType()) for name in Head._fields])
_NUMBER = StructType([StructField("number", LongType())])
_SEGMENT = StructType([StructField("segment", BinaryType())])
_NO_TIMER = -1
_LONG_LOG = 64 << 20  # bytes; Spark brings up to 500 entries of a map in one message, of whatever size
_IDLE_S = 900.0  # a group that a worker has not met for so long is dropped from its memory

# The groups that this worker of Spark has met, by their lineages and numbers. Spark gives a group now to one worker and
# now to another, and repeats batches; `Head.token` says whether what is here is what the checkpoint has.
_met: dict[tuple[int, int], KeyGroupState] = {}


@dataclass(frozen=True)
class StatefulProgram:
    """What a query's tasks need to know.

    Attributes
    ----------
    processor : StatefulProcessor
        The user's.
    time_mode : str
        In lower case.
    schemas : dict from str to StructType
        What DDL that ``init`` names means; parsed on the driver, where Spark can.
    output, arrow_output
        The columns of the output, as Spark and as Arrow have them.
    keys, initial_keys : KeyColumns
        The columns of the key among those of the input, and of the initial state.
    time_column : str or None
        The column of event time, if rows are dropped that come after the watermark.
    late_by_last : bool
        Whether the watermark of the batch before says which rows are late, as Spark does where a query may have several
        operators with state.
    key_groups : int or None
        How many key groups there are; None for as many as the query has partitions.
    """

    processor: StatefulProcessor
    time_mode: str
    schemas: dict[str, StructType]
    output: StructType
    arrow_output: pa.Schema
    keys: KeyColumns
    initial_keys: KeyColumns | None
    time_column: str | None
    late_by_last: bool
    key_groups: int | None

    def handle(self, parse: Callable[[str], StructType] | None = None) -> Handle:
        """Make the handle that the user's processor is given."""
        return Handle(self.time_mode != "none", self.time_mode == "processingtime", parse or self._known)

    def _known(self, ddl: str) -> StructType:
        try:
            return self.schemas[ddl]
        except KeyError:
            raise ValueError(
                f"init() names the schema {ddl!r} here and did not where the query was made: let it name the same "
                "schemas each time, or give a StructType"
            ) from None


class VisitedGroup:
    """A key group, as one task of a batch has it."""

    def __init__(self, head: Head, state: KeyGroupState, late_ms: int) -> None:
        self.head = head
        self.state = state
        self.late_ms = late_ms  # rows up to here are late


class KeyGroupProcessor(StatefulProcessor):
    """The processor of key groups that Spark runs."""

    def __init__(self, program: StatefulProgram) -> None:
        self._program = program

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Ask Spark for the state of a group, and let the user's processor ask for its own."""
        self._spark = handle
        self._heads = handle.getValueState("head", _HEAD)
        self._segments = handle.getMapState("segments", _NUMBER, _SEGMENT)
        self._groups: dict[int, VisitedGroup] = {}
        self._count: int | None = None  # of key groups
        self._handle = self._program.handle()
        self._program.processor.init(self._handle)  # type: ignore[arg-type]
        self._handle.close_init()
        forget_idle()

    def handleInitialState(self, key: Any, initialState: Any, timerValues: TimerValues) -> None:
        """Give the user's processor the rows of the initial state that are in one packed row."""
        assert self._program.initial_keys is not None
        group = self._visit(key[0], timerValues)
        user = self._program.processor
        if initialState[-1] is not None:
            initial = pa.Table.from_batches(read_batches(initialState[-1]))
            for user_key, identity, rows in self._program.initial_keys.groups(initial):
                self._handle.current.key = identity
                for row in rows:
                    user.handleInitialState(user_key, row, timerValues)
        self._handle.leave()
        self._commit(group, timerValues, fired=None, has_due=True)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        """Call the user's processor for each key of the group that has rows, and for each timer that is due."""
        with few_collections():
            yield from self._handle_rows(key[0], rows, timerValues)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Row]:
        """Call the user's processor for each timer of the group that is due."""
        with few_collections():
            group = self._visit(key[0], timerValues)
            out = RowsOut(self._program.output, self._program.arrow_output)
            yield from self._fire(group, timerValues, out)
            self._commit(group, timerValues, fired=expiredTimerInfo.getExpiryTimeInMs())
            yield from map(_packed_row, out.take())

    def close(self) -> None:
        """Let the user's processor clean up."""
        self._program.processor.close()

    # ---- a visit

    def _handle_rows(self, number: int, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        program = self._program
        group = self._visit(number, timerValues)
        out = RowsOut(program.output, program.arrow_output)
        batches = [batch for row in rows if row[-1] is not None for batch in read_batches(row[-1])]
        if batches:
            table = self._without_late(pa.Table.from_batches(batches), group)
            for user_key, identity, user_rows in program.keys.groups(table):
                self._handle.current.key = identity
                given = program.processor.handleInputRows(user_key, user_rows, timerValues)
                out.add(given, "handleInputRows")
                if out.is_full:
                    yield from map(_packed_row, out.take())
        yield from self._fire(group, timerValues, out)
        self._commit(group, timerValues, fired=None)
        yield from map(_packed_row, out.take())

    def _visit(self, number: int, times: TimerValues) -> VisitedGroup:
        """Return the group whose state Spark has at hand, with the user's states bound to it."""
        group = self._groups.get(number)
        if group is None:
            group = self._groups[number] = self._opened(number, times)
        group.state.token = -1  # from here on it is no longer what the last segment says
        self._handle.visit(group.state, times.getCurrentProcessingTimeInMs())
        return group

    def _opened(self, number: int, times: TimerValues) -> VisitedGroup:
        if self._count is None:
            self._count = group_count(self._program.key_groups)
        found = self._heads.get()
        if found is None:
            head = Head(self._count, _random_number(), 0, -1, 0, 0, 0, 0, _NO_TIMER)
            state = KeyGroupState()
            state.settle()
        else:
            head = Head(*found)
            if head.groups != self._count:
                raise RuntimeError(
                    f"the checkpoint has its keys in {head.groups} groups, and here they are in {self._count}: call "
                    f"transform_with_state() with key_groups={head.groups}"
                )
            state = self._up_to_date(head, number)
        _met[head.lineage, number] = state
        state.used_at = time.monotonic()
        late_ms = head.watermark if self._program.late_by_last else times.getCurrentWatermarkInMs()
        return VisitedGroup(head, state, late_ms)

    def _up_to_date(self, head: Head, group: int) -> KeyGroupState:
        """Return the state that a head stands for: what this worker has, and what it has missed since."""
        which = f"key group {group}"
        state = _met.pop((head.lineage, group), None)
        if state is not None and state.token >= 0:
            if (state.last, state.token) == (head.last, head.token):
                return state
            if head.first <= state.last < head.last and self._catch_up(state, head, which):
                return state
        state = KeyGroupState()
        for number, data in self._log(head):
            if data is None:
                raise RuntimeError(f"{which} has no segment {number} in the checkpoint, which its head names")
            _, state.token, changes = read_segment(data, f"{which}, segment {number}")
            state.apply(changes)
        state.settle()
        state.last = head.last
        return state

    def _log(self, head: Head) -> Iterator[tuple[int, bytes | None]]:
        """Yield the number and the bytes of each segment: of a short log in few messages, of a long one in its own."""
        numbers = range(head.first, head.last + 1)
        if head.whole_bytes + head.later_bytes > _LONG_LOG:
            yield from ((number, self._segment(number)) for number in numbers)
        else:
            segments = {number[0]: bytes(data[0]) for number, data in self._segments.iterator()}
            yield from ((number, segments.get(number)) for number in numbers)

    def _segment(self, number: int) -> bytes | None:
        found = self._segments.getValue((number,))
        return None if found is None else bytes(found[0])

    def _catch_up(self, state: KeyGroupState, head: Head, which: str) -> bool:
        """Apply the segments after the one that a state has seen. False if they come after another one."""
        token = state.token
        state.token = -1
        for number in range(state.last + 1, head.last + 1):
            data = self._segment(number)
            if data is None:
                return False
            parent, written_by, changes = read_segment(data, f"{which}, segment {number}")
            if parent != token:
                return False
            state.apply(changes)
            token = written_by
        state.settle()
        state.last, state.token = head.last, token
        return token == head.token

    def _without_late(self, table: pa.Table, group: VisitedGroup) -> pa.Table:
        """Return the rows that are later than the watermark, and those without a time, as Spark does."""
        column = self._program.time_column
        if column is None:
            return table
        at = table.column(column)
        if pa.types.is_struct(at.type):  # a window is as late as its end
            at = pc.struct_field(at, "end")
        late = pc.less_equal(at.cast(pa.int64()), group.late_ms * 1000)
        return table.filter(pc.invert(pc.fill_null(late, False)))

    def _fire(self, group: VisitedGroup, times: TimerValues, out: RowsOut) -> Iterator[Row]:
        """Call the user's processor for the timers that are due; those it sets meanwhile wait for the next batch."""
        mode = self._program.time_mode
        if mode == "none":
            return
        is_event_time = mode == "eventtime"
        now_ms = times.getCurrentWatermarkInMs() if is_event_time else times.getCurrentProcessingTimeInMs()
        timers, key_of, current = group.state.timers, self._program.keys.key_of, self._handle.current
        fire = self._program.processor.handleExpiredTimer
        for at_ms, identity in timers.take_due(now_ms):
            if timers.is_registered(identity, at_ms):  # and not deleted by one before it
                current.key = identity
                out.add(fire(key_of(identity), times, ExpiredTimerInfo(at_ms)), "handleExpiredTimer")
                timers.delete(identity, at_ms)
                if out.is_full:
                    yield from map(_packed_row, out.take())

    # ---- what is written

    def _commit(self, group: VisitedGroup, times: TimerValues, fired: int | None, has_due: bool = False) -> None:
        """Write what the visit changed, so that it counts when Spark commits the batch.

        `has_due` says that timers may be due that Spark is still to call for in this batch.
        """
        self._handle.leave()
        state, head = group.state, group.head
        now_ms = times.getCurrentProcessingTimeInMs()
        for table in state.tables.values():
            if isinstance(table, (ExpiringFlatTable, ExpiringNestedTable)):
                table.now_ms = now_ms
                table.sweep()
        changed = head
        if changes := state.take_changes():
            changed = self._append(head, state, changes)
        changed = changed._replace(
            watermark=max(times.getCurrentWatermarkInMs(), head.watermark), timer=self._timer(state, times, has_due)
        )
        self._set_timer(head.timer, changed.timer, fired)
        if changed != head:
            self._heads.update(tuple(changed))
        group.head = changed
        state.last, state.token = changed.last, changed.token

    def _append(self, head: Head, state: KeyGroupState, changes: dict[str, Changes]) -> Head:
        """Write a segment with the changes, or the whole state if the log has grown long."""
        token = _random_number()
        segment = write_segment(head.token, token, changes)
        if not log_is_long(head, len(segment)):
            last = head.last + 1
            self._segments.updateValue((last,), (segment,))
            return head._replace(last=last, token=token, later_bytes=head.later_bytes + len(segment))
        self._segments.clear()
        first = last = head.last + 1
        size = 0
        for last, piece in enumerate(state.pieces(), first):
            segment = write_segment(head.token, token, piece)
            size += len(segment)
            self._segments.updateValue((last,), (segment,))
        if not size:  # nothing is left
            self._segments.updateValue((first,), (write_segment(head.token, token, {}),))
        return head._replace(first=first, last=last, token=token, whole_bytes=size, later_bytes=0)

    def _timer(self, state: KeyGroupState, times: TimerValues, has_due: bool) -> int:
        """Return when Spark is to call for the group, though no row come: in the first batch at this time or after."""
        mode = self._program.time_mode
        if mode == "eventtime":
            # As soon as the watermark moves: a group has to know the watermark of each batch, to tell what is late in
            # the next one.
            return max(times.getCurrentWatermarkInMs(), 0) + 1
        if mode == "none":
            return _NO_TIMER
        ends = [
            table.expiry.first_ms
            for table in state.tables.values()
            if isinstance(table, (ExpiringFlatTable, ExpiringNestedTable))
        ]
        first_ms = min((each for each in (*ends, state.timers.first_ms()) if each is not None), default=None)
        if first_ms is None:
            return _NO_TIMER
        # What is set while timers fire waits for the next batch.
        return max(first_ms, 0 if has_due else times.getCurrentProcessingTimeInMs() + 1)

    def _set_timer(self, old_ms: int, new_ms: int, fired_ms: int | None) -> None:
        """Let Spark know another timer of the group; the one that it fires now it deletes by itself."""
        if old_ms == new_ms and fired_ms is None:
            return
        if old_ms not in (_NO_TIMER, fired_ms):
            self._spark.deleteTimer(old_ms)
        if new_ms != _NO_TIMER:
            self._spark.registerTimer(new_ms)


@contextmanager
def few_collections() -> Iterator[None]:
    """Let Python look for garbage that holds itself after 50,000 new objects rather than 700.

    Rows, timers and changes of a batch are so many objects that live so long that looking for it took a third of the
    time.
    """
    before = gc.get_threshold()
    if before[0]:  # 0: it is off
        gc.set_threshold(max(before[0], 50_000), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def forget_idle() -> None:
    """Drop the groups of queries that are over, or that other workers have now."""
    now = time.monotonic()
    for group in [group for group, state in _met.items() if now - state.used_at > _IDLE_S]:
        del _met[group]


def _random_number() -> int:
    """Return a number that nobody else has drawn, whatever seed the user's processor gives to `random`."""
    return secrets.randbits(62)


def _packed_row(data: bytes) -> Row:
    return Row(rows=data)
