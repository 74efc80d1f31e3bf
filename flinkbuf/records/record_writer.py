"""From records to a result partition: choose the channel, encode in place, flush in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkbuf._core.flow.batch_writer import RowChunks, write_batch
from flinkbuf._core.flow.record_writer import RecordWriter as _RecordWriter
from flinkbuf._core.record.channel_selector import ChannelSelector
from flinkbuf.network.events import EndOfData, Event
from flinkbuf.network.partition import ResultPartition
from flinkbuf.records.arrow_batches import arrow_batches, is_batch, record_type
from flinkbuf.records.partitioner import as_partitioner
from flinkbuf.types.types import StreamElementTypeInfo, TypeInformation, column_dtype

if TYPE_CHECKING:
    import numpy as np

_NUMBERS = ("BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE")


class RecordWriter(_RecordWriter):
    """Write records of one type into a `ResultPartition`.

    Parameters
    ----------
    partition : ResultPartition
        Where the records go. It stays the caller's; `close` ends its stream.
    type : TypeInformation, str, pyspark StructType or pyarrow schema
        The records' type; see `flinkbuf.as_type`. With ``Types.STREAM_ELEMENT`` of it a record may have a timestamp:
        ``emit(record, timestamp)``; the partitioner sees the record. A `StreamRecord` is written likewise; a
        `Watermark` or another element goes to every channel, or with `emit_to` to one.
    partitioner : str, callable or Partitioner, default "rebalance"
        Which subpartition a record goes to: ``fb.by_key(...)``, ``"rebalance"``, ``"rescale"``, ``"shuffle"``,
        ``"global"``, ``"forward"``, ``"broadcast"``, or ``callable(record, num_channels) -> int``.
    buffer_timeout_ms : int, default 100
        After how many milliseconds a written record can be read at the latest, also when its buffer is not full. 0:
        at once, after each record. -1: only when buffers fill, at `flush` and at `close`. A blocking partition is read
        when it is finished: nothing is flushed there.
    subtask_index : int, default 0
        Which of the parallel producers this one is.
    seed : int, optional
        Fixes the random choices of ``"rebalance"`` (its first channel) and ``"shuffle"``.

    Raises
    ------
    TypeError, OverflowError, ValueError
        From `emit` and its kin, for a value that is not of the type; the message names field, value and record number.
        Nothing of that record was written, and the writer goes on working.
    CancelTaskError
        If the partition's buffer pool was destroyed.
    OSError
        If the files of a blocking partition cannot be written: path, byte offset and the system's words.

    Notes
    -----
    `emit` waits, without the GIL, while the pool has no buffer: that is the back-pressure of a slow reader. Into a
    blocking partition it writes instead what has been collected. A writer is used by one thread. As a context manager
    it closes at the end, or fails the partition if the block raised.

    References
    ----------
    Flink ``RecordWriter``, ``ChannelSelectorRecordWriter``, ``BroadcastRecordWriter``, ``OutputFlusher``.

    Examples
    --------
    >>> import flinkbuf as fb
    >>> pool = fb.NetworkBufferPool(16, segment_size=4096)
    >>> partition = fb.ResultPartition(pool, 2)
    >>> writer = fb.RecordWriter(partition, "origin string, delay double", fb.by_key("origin"))
    >>> writer.emit(("JFK", 12.5))
    >>> writer.emit_all([("BOS", -3.0), ("JFK", 0.0)])
    2
    >>> writer.close()
    >>> gate = fb.InputGate([(partition, 0), (partition, 1)])
    >>> for row in fb.RecordReader(gate, writer.type):
    ...     print(row.origin, row.delay)
    BOS -3.0
    JFK 12.5
    JFK 0.0

    Records with event time, and a watermark behind them:

    >>> partition = fb.ResultPartition(pool, 1)
    >>> with fb.RecordWriter(partition, fb.Types.STREAM_ELEMENT("string")) as writer:
    ...     writer.emit("JFK", 1_700_000_000_000)
    ...     writer.emit(fb.types.Watermark(1_700_000_000_000))
    >>> with fb.RecordReader(fb.InputGate([(partition, 0)]), writer.type) as reader:
    ...     [(record, reader.timestamp) for record in reader]
    [('JFK', 1700000000000), (Watermark(timestamp=1700000000000), None)]
    """

    type: TypeInformation
    partition: ResultPartition
    _selector: ChannelSelector
    _chunks: RowChunks | None

    def __new__(
        cls,
        partition: ResultPartition,
        type: object,
        partitioner: object = "rebalance",
        buffer_timeout_ms: int = 100,
        *,
        subtask_index: int = 0,
        seed: int | None = None,
    ) -> RecordWriter:
        if buffer_timeout_ms < -1:
            raise ValueError(f"buffer_timeout_ms must be -1 (no timeout), 0 or more, got {buffer_timeout_ms}")
        written = record_type(type)
        value_type = written.value_type if isinstance(written, StreamElementTypeInfo) else written
        selector = as_partitioner(partitioner).selector(
            value_type, partition.subpartition_count, subtask_index=subtask_index, seed=seed
        )
        self = super().__new__(cls, partition, written.codec, selector, buffer_timeout_ms)
        self.type = written
        self._selector = selector
        self._chunks = None
        return self

    def emit_batch(self, values: object, channels: object = None) -> int:
        """Write a batch of columns, each row as a record, or a column of numbers, each value; all of it in C.

        Parameters
        ----------
        values : batch, or array_like
            A pyarrow RecordBatch or Table, another object with ``__arrow_c_array__`` or ``__arrow_c_stream__`` (of
            polars, pandas, duckdb), a structured numpy array, a dict of numpy arrays: its columns are the fields of
            these names. Where the type is a number also a one-dimensional array, which is converted if that loses
            nothing.
        channels : array_like of int, optional
            The subpartition of each row. Without it the partitioner decides, for all of them at once.

        Returns
        -------
        int
            How many records were written.

        Raises
        ------
        TypeError
            If a column does not fit its field, which the message names; if columns are missing or too many; if the
            partitioner or the key is a function of a record. Nothing was written.
        ValueError
            For a value that its field cannot hold, or a key that is null, naming row and column: the rows before it
            were written. For an array that is malformed: nothing of it was.

        Examples
        --------
        >>> import flinkbuf as fb, pyarrow as pa
        >>> partition = fb.ResultPartition(fb.NetworkBufferPool(16), 4)
        >>> with fb.RecordWriter(partition, "origin string, delay double", fb.by_key("origin")) as writer:
        ...     writer.emit_batch(pa.record_batch({"delay": [12.5, -3.0], "origin": ["JFK", "BOS"]}))
        2
        >>> reader = fb.RecordReader(fb.InputGate([(partition, 0), (partition, 3)]), writer.type)
        >>> [batch.to_pylist() for batch in reader.read_batches()]
        [[{'origin': 'BOS', 'delay': -3.0}, {'origin': 'JFK', 'delay': 12.5}]]
        """
        import numpy as np  # not before somebody has columns

        if is_batch(values) and not (hasattr(values, "__array__") and self.type.kind in _NUMBERS):
            return self._emit_columns(values, channels)
        dtype = column_dtype(self.type)
        if np.ma.is_masked(values):
            raise TypeError(
                "emit_batch takes no masked values: a column of numbers has no null; fill or drop them first"
            )
        column = np.asarray(values)
        if column.ndim != 1:
            raise TypeError(f"emit_batch takes a one-dimensional array, got {column.ndim} dimensions")
        column = np.ascontiguousarray(column if len(column) else column.astype(dtype))  # [] has no type of its own
        if column.dtype != dtype:
            if not np.can_cast(column.dtype, dtype, "safe") or column.dtype == bool:  # no bool is taken for a number
                raise TypeError(f"values of {column.dtype} do not all fit {self.type!r}, which holds {dtype}")
            column = column.astype(dtype)
        if dtype.kind == "f" and (not_numbers := np.isnan(column)).any():
            column = np.where(not_numbers, dtype.type(np.nan), column)  # one NaN, as Java writes it
        if channels is None and not self._selector.is_broadcast and self._selector.channel_count > 1:
            channels = self._selector.channels_of(column)
        if channels is not None:
            channels = self._checked_channels(channels, len(column))
        return super().emit_column(column, channels)

    def _emit_columns(self, source: object, channels: object) -> int:
        if self._chunks is None:
            self._chunks = RowChunks(self.type.codec, self._selector)
        written = 0
        batches = list(arrow_batches(source)) if channels is not None else arrow_batches(source)
        if channels is not None:
            channels = self._checked_channels(channels, sum(len(batch) for batch in batches))
        for batch in batches:
            targets = None if channels is None else channels[written : written + len(batch)]
            written += write_batch(self, self._chunks, batch, targets)
        return written

    def _checked_channels(self, channels: object, count: int) -> np.ndarray:
        """Return a copy that nobody else can change while it is used, of numbers that are channels."""
        import numpy as np

        given = np.asarray(channels)
        if given.shape != (count,):
            raise ValueError(f"{count} values but channels of shape {given.shape}")
        if count and given.dtype.kind not in "iu":  # [] has no type of its own
            raise TypeError(f"channels must be whole numbers, got {given.dtype}")
        if count and (given.min() < 0 or given.max() >= self._selector.channel_count):
            wrong = int(np.flatnonzero((given < 0) | (given >= self._selector.channel_count))[0])
            raise IndexError(
                f"value {wrong} is meant for channel {given[wrong]} of {self._selector.channel_count} channels"
            )
        return given.astype(np.uint32)

    def write_event(self, event: Event, is_priority: bool = False) -> None:
        """Add an event to every subpartition; it cuts the open buffers."""
        super().broadcast_event(event.to_buffer_bytes(), int(event.data_type(is_priority)))

    def close(self) -> None:
        """End the stream: everything written becomes readable, then EndOfData and EndOfPartition. Idempotent."""
        if self.is_closed:
            return
        try:
            self.write_event(EndOfData())
        except BaseException:
            self.stop()
            raise
        self.stop()
        self.partition.finish()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if exc is None:
            self.close()
            return
        self.stop()
        self.partition.fail(exc)
