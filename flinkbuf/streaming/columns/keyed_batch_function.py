"""What a function over the batches of a keyed column stream derives from, and what it is given beside its rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from flinkbuf.streaming.chain.functions import Function
from flinkbuf.streaming.chain.map_batches import milliseconds_in

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from flinkbuf.streaming.columns.column_timers import ColumnTimers
    from flinkbuf.streaming.columns.key_table import KeyTable
    from flinkbuf.streaming.time.time_domain import TimeDomain


class KeyedBatchFunction(Function):
    """Any number of batches for each batch of a keyed column stream, with state and timers of many keys at once.

    As `KeyedProcessFunction`, with columns: ``process_batch`` is called with rows of many keys, those of each key side
    by side; in ``open``, ``runtime_context.get_column_state`` gives a `ColumnValueState`.

    Examples
    --------
    >>> import numpy as np
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> from flinkbuf.datastream.columns import KeyedBatchFunction
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> class Totals(KeyedBatchFunction):
    ...     def open(self, runtime_context):
    ...         self.total = runtime_context.get_column_state("total", "n bigint")
    ...     def process_batch(self, batch, context):
    ...         before = self.total.get(context.keys)["n"].fill_null(0).to_numpy()
    ...         total = before + np.add.reduceat(batch["n"].to_numpy(), context.offsets[:-1])
    ...         self.total.put(context.keys, {"n": total})
    ...         yield {"word": context.keys["word"], "total": total}
    >>> rows = env.from_collection([("a", 1), ("b", 5), ("a", 2)]).as_columns("word string, n bigint")
    >>> sorted(rows.key_by("word").process_batches(Totals()).execute_and_collect(limit=2))
    [Row(word='a', total=3), Row(word='b', total=5)]
    """

    @abstractmethod
    def process_batch(self, batch: pa.RecordBatch, context: KeyedBatchContext) -> object:
        """Yield or return batches; the rows of key i are those from ``context.offsets[i]`` on, as they came."""

    def on_timer(self, keys: pa.RecordBatch, context: KeyedBatchContext) -> object:
        """Yield or return batches for keys whose timers are due, a row each, in order of ``context.timestamps``.

        It is called again for a key that has several, after the call for the earlier ones.
        """


class KeyedBatchContext:
    """What goes with the rows of a call, and is good for this call.

    Attributes
    ----------
    keys : pyarrow.RecordBatch
        The keys of the rows, each once: the columns of the key.
    offsets : numpy.ndarray of int64
        Where the rows of each key begin, and at last how many rows there are.
    slots : numpy.ndarray of uint32
        A number for each key, which states and timers take in place of it: ``context.slots[mask]`` are some of them.
    timestamps : numpy.ndarray of int64 or None
        Of the rows, in milliseconds since 1970, −2⁶³ where a row has none; of the timers, in ``on_timer``.
    current_watermark : int
        How far event time has come; −2⁶³ before the first watermark.
    current_processing_time : int
        The task's clock in milliseconds since 1970, when the call began.
    time_domain : TimeDomain or None
        In ``on_timer``: whether the timers are of event time or of processing time.
    """

    def __init__(
        self,
        table: KeyTable,
        timers: tuple[ColumnTimers, ColumnTimers],
        keys: pa.RecordBatch,
        slots: np.ndarray,
        offsets: np.ndarray,
        timestamps: np.ndarray | None,
        current_watermark: int,
        current_processing_time: int,
        time_domain: TimeDomain | None = None,
    ) -> None:
        self._table = table
        self._timers, self._clock_timers = timers
        self._is_over = False
        self.keys = keys
        self.slots = slots
        self.offsets = offsets
        self.timestamps = timestamps
        self.current_watermark = current_watermark
        self.current_processing_time = current_processing_time
        self.time_domain = time_domain
        table.take_in_hand(keys, slots)

    def register_event_time_timers(self, keys: object, timestamps: object) -> None:
        """Have ``on_timer`` called for keys once the watermark has come to their timestamps.

        Parameters
        ----------
        keys : pyarrow.RecordBatch or numpy.ndarray
            As for `ColumnValueState`. A key may have timers at many times, and one at each.
        timestamps : array or int
            One for each key: milliseconds since 1970, or timestamps of Arrow or numpy; or one number for all.
        """
        self._note(self._timers, keys, timestamps, True, "register_event_time_timers()")

    def delete_event_time_timers(self, keys: object, timestamps: object) -> None:
        """Take back timers of keys at these times, as far as there are any."""
        self._note(self._timers, keys, timestamps, False, "delete_event_time_timers()")

    def register_processing_time_timers(self, keys: object, timestamps: object) -> None:
        """Have ``on_timer`` called for keys once the task's clock has passed their timestamps.

        In batch execution it is called at the end, behind the timers of event time.

        Parameters
        ----------
        keys : pyarrow.RecordBatch or numpy.ndarray
            As for `ColumnValueState`. A key may have timers at many times, and one at each.
        timestamps : array or int
            As for `register_event_time_timers`; ``context.current_processing_time + 60_000`` is in a minute.
        """
        self._note(self._clock_timers, keys, timestamps, True, "register_processing_time_timers()")

    def delete_processing_time_timers(self, keys: object, timestamps: object) -> None:
        """Take back timers of keys at these times, as far as there are any."""
        self._note(self._clock_timers, keys, timestamps, False, "delete_processing_time_timers()")

    def _note(self, timers: ColumnTimers, keys: object, timestamps: object, is_set: bool, where: str) -> None:
        if self._is_over:
            raise RuntimeError(
                "this context was good for one call of the function, which is over: keep what you need of it, not the "
                "context itself"
            )
        slots = self._table.slots_given(keys, where)
        timers.note(slots, _times_of(timestamps, len(slots), where), is_set)

    def end(self) -> None:
        """Note that the call is over."""
        self._is_over = True


def _times_of(timestamps: object, count: int, where: str) -> np.ndarray:
    """Return times as milliseconds, in an array of their own."""
    import numpy as np
    import pyarrow as pa

    if isinstance(timestamps, (int, np.integer)) and not isinstance(timestamps, bool):
        return np.full(count, timestamps, np.int64)
    if not hasattr(timestamps, "__len__") or isinstance(timestamps, (str, bytes)):
        raise TypeError(
            f"{where} takes timestamps, an array of milliseconds since 1970 or one number for all keys; got "
            f"{type(timestamps).__name__} {timestamps!r:.80}"
        )
    if isinstance(timestamps, np.ndarray) and timestamps.dtype == np.int64:
        times = timestamps.copy()
    else:
        column = timestamps if isinstance(timestamps, (pa.Array, pa.ChunkedArray)) else pa.array(timestamps)
        if column.null_count:
            raise ValueError(f"{where}: {column.null_count} of the timestamps are null; leave such keys out")
        times = np.array(milliseconds_in(column, f"timestamps of {where}"))
    if len(times) != count:
        raise ValueError(f"{where} was given {count} keys and {len(times)} timestamps")
    return times
