"""A user's function over the batches of a keyed column stream: rows side by side by key, state and timers as columns.

Flink: KeyedProcessOperator, with a call for a batch in place of each record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeGuard

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK, NO_TIMESTAMP
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.records.column_exchange import key_columns
from flinkbuf.streaming.chain.map_batches import is_result, milliseconds_in, record_batches
from flinkbuf.streaming.chain.output_tag import OutputTag
from flinkbuf.streaming.columns.column_functions import column_as
from flinkbuf.streaming.columns.column_operator import ColumnOperator
from flinkbuf.streaming.columns.column_timers import CLOCK_STATE_NAME, ColumnTimers
from flinkbuf.streaming.columns.column_value_state import ColumnStates
from flinkbuf.streaming.columns.key_table import KeyTable, stable_order
from flinkbuf.streaming.columns.keyed_batch_function import KeyedBatchContext, KeyedBatchFunction
from flinkbuf.streaming.time.processing_time import TimerHandle
from flinkbuf.streaming.time.time_domain import TimeDomain

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from flinkbuf.streaming.state.snapshot import OperatorSnapshot


class KeyedBatchOperator(ColumnOperator):
    """Calls ``function.process_batch(batch, context)`` for each element, and ``on_timer`` for the timers that are due.

    Parameters
    ----------
    key : tuple of str
    function : KeyedBatchFunction
    schema : pyarrow.Schema, optional
        Of the results; None: what the function gives.
    timestamp_column : str, optional
        Results have their timestamps in it, and go on without it; None: all of a call have the latest timestamp of
        its rows, or of its timers of event time; of those of processing time they have none.
    """

    def __init__(
        self,
        key: tuple[str, ...],
        function: KeyedBatchFunction,
        schema: pa.Schema | None = None,
        timestamp_column: str | None = None,
    ) -> None:
        super().__init__()
        self._key = key
        self._function = function
        self._schema = schema
        self._timestamp_column = timestamp_column
        self._watermark = NO_TIMESTAMP
        self._alarm: TimerHandle | None = None  # by the clock
        self._alarm_time = MAX_WATERMARK

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Take restored timers; states are read when the function asks for them."""
        super().initialize_state(snapshot)
        keyed_state = self.context.keyed_state
        self._table = KeyTable(self._key, keyed_state.key_groups)
        self._timers = ColumnTimers(self._table)
        self._clock_timers = ColumnTimers(self._table, CLOCK_STATE_NAME)
        for timers in (self._timers, self._clock_timers):
            keyed_state.keep_columns(timers, len(self._key))
        self._states = ColumnStates(self._table, lambda state: keyed_state.keep_columns(state, len(self._key)))

    def open(self) -> None:
        """Open the user's function, and wait for restored timers."""
        self.context.runtime_context.column_states = self._states
        self._function.open(self.context.runtime_context)
        self._wait()

    def close(self) -> None:
        """Close the user's function."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._function.close()

    def process_batch(self, element: ColumnBatch) -> None:
        """Call the function with the rows, those of each key side by side."""
        import numpy as np

        if not len(element):
            return
        self._table.forget_keys()
        keys = key_columns(element.batch, self._key)
        slots = self._table.slots_of(keys)
        order = stable_order(slots)
        slots = slots[order]
        is_first = np.ones(len(slots), np.bool_)
        is_first[1:] = slots[1:] != slots[:-1]
        starts = np.flatnonzero(is_first)
        offsets = np.append(starts, len(slots))
        rows = element.take(order)
        context = self._context(keys.take(order[starts]), slots[starts], offsets, rows.timestamps)
        self._give(self._function.process_batch, rows.batch, context)
        self._wait()

    def process_watermark(self, timestamp: int) -> None:
        """Call the function for the timers that are due, then give the watermark on.

        In batch execution the rows of all keys have come then: timers of processing time are due, too, and what is
        registered now is ignored, as there might be no end otherwise.
        """
        self._watermark = timestamp
        is_end = timestamp == MAX_WATERMARK and self.context.settings.is_batch
        for timers in (self._timers, self._clock_timers):
            timers.has_ended = is_end
        self._fire(TimeDomain.EVENT_TIME, timestamp)
        if is_end:
            self._fire(TimeDomain.PROCESSING_TIME, timestamp)
        self._wait()
        self.emit_watermark(timestamp)

    def _fire(self, domain: TimeDomain, timestamp: int) -> None:
        """Call the function for the timers of one clock up to a time."""
        import numpy as np

        timers = self._timers if domain is TimeDomain.EVENT_TIME else self._clock_timers
        for slots, times in timers.rounds_to(timestamp):
            keys = self._table.keys_at(slots)
            context = self._context(keys, slots, np.arange(len(slots) + 1), times, domain)
            self._give(self._function.on_timer, keys, context)

    def _wait(self) -> None:
        """Wait for the earliest timer of processing time, and for no other."""
        time = self._clock_timers.earliest
        if time is None or time >= self._alarm_time or self.context.settings.is_batch:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_time = time
        self._alarm = self.context.processing_time.register_timer(time, self._end_wait)

    def _end_wait(self, timestamp: int) -> None:
        """Fire what is due by the clock, which may be more than what was waited for."""
        self._alarm, self._alarm_time = None, NO_TIMESTAMP  # what is registered meanwhile is waited for at the end
        self._fire(TimeDomain.PROCESSING_TIME, max(timestamp, self.context.processing_time.now_ms() - 1))
        self._alarm_time = MAX_WATERMARK
        self._wait()

    def _context(
        self,
        keys: pa.RecordBatch,
        slots: np.ndarray,
        offsets: np.ndarray,
        times: np.ndarray | None,
        domain: TimeDomain | None = None,
    ) -> KeyedBatchContext:
        now = self.context.processing_time.now_ms()
        timers = self._timers, self._clock_timers
        return KeyedBatchContext(self._table, timers, keys, slots, offsets, times, self._watermark, now, domain)

    # ---- results

    def _give(
        self,
        method: Callable[[pa.RecordBatch, KeyedBatchContext], object],
        batch: pa.RecordBatch,
        context: KeyedBatchContext,
    ) -> None:
        """Emit what a method of the function makes of a batch; what it raises is said to be its own."""
        times = None if context.time_domain is TimeDomain.PROCESSING_TIME else context.timestamps
        latest = NO_TIMESTAMP if times is None else int(times.max())
        results = self._results_of(method, batch, context, latest)
        while True:
            try:
                result = next(results, None)
            except Exception:
                self.note_failure(batch)
                raise
            if result is None:
                break
            tag, element = result
            if tag is None:
                self.emit(element)
            elif len(element):
                self.output.collect_side(tag.tag_id, element, element.latest)
        context.end()

    def _results_of(
        self,
        method: Callable[[pa.RecordBatch, KeyedBatchContext], object],
        batch: pa.RecordBatch,
        context: KeyedBatchContext,
        latest: int,
    ) -> Iterator[tuple[OutputTag | None, ColumnBatch]]:
        import numpy as np

        name = f"{method.__name__}()"
        for tag, given in _each_result(method(batch, context), name):
            for rows in record_batches(given):
                times: np.ndarray | None = None
                if self._timestamp_column is not None:
                    times, rows = self._taken_apart(rows, name)
                elif latest != NO_TIMESTAMP:
                    times = np.full(rows.num_rows, latest)
                yield tag, ColumnBatch(rows if tag is not None else self._declared(rows, name), times)

    def _taken_apart(self, rows: pa.RecordBatch, name: str) -> tuple[np.ndarray, pa.RecordBatch]:
        """Return the timestamps of rows, and what else they have."""
        column = str(self._timestamp_column)
        if rows.schema.get_field_index(column) < 0:
            raise ValueError(
                f"{name} gave a batch without the column {column!r}, in which the timestamps of its rows are to be; "
                f"there are {', '.join(rows.schema.names) or 'none'}"
            )
        return milliseconds_in(rows.column(column), column), rows.drop_columns([column])

    def _declared(self, rows: pa.RecordBatch, name: str) -> pa.RecordBatch:
        """Return rows with the columns that were declared."""
        import pyarrow as pa

        schema = self._schema
        if schema is None or rows.schema.equals(schema):
            return rows
        if sorted(rows.schema.names) != sorted(schema.names):
            raise ValueError(
                f"{name} gave a batch with the columns {', '.join(rows.schema.names) or '(none)'}, and output_type has "
                f"{', '.join(schema.names)}"
            )
        columns = [
            column_as(
                rows.column(each.name), each.type, each.name, f"is {each.type} in output_type", "give it that type"
            )
            for each in schema
        ]
        return pa.record_batch(columns, schema=schema)


def _each_result(results: object, name: str) -> Iterator[tuple[OutputTag | None, object]]:
    """Yield the batches that a function gave, each with the side output that it goes to."""
    if results is None:
        return
    if is_result(results) or _is_tagged(results):
        results = (results,)
    elif not isinstance(results, Iterable) or isinstance(results, (dict, str, bytes)):
        raise _no_batch(results, name)
    for result in results:
        tag, batch = result if _is_tagged(result) else (None, result)
        if not is_result(batch):
            raise _no_batch(batch, name)
        yield tag, batch


def _is_tagged(result: object) -> TypeGuard[tuple[OutputTag, object]]:
    return isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], OutputTag)


def _no_batch(result: object, name: str) -> TypeError:
    return TypeError(
        f"{name} gives a batch, an iterable of batches or None; a batch is a pyarrow RecordBatch or Table, a DataFrame "
        "of polars or pandas, a dict of arrays, or a structured array of numpy; `tag, batch` is for a side output; got "
        f"{type(result).__module__}.{type(result).__qualname__}, {result!r:.80}"
    )
