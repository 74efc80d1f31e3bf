"""Records ↔ buffers in any process: the bodies of a `mapPartitions`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from flinkbuf._core.flow.batch_reader import BatchBufferReader
from flinkbuf._core.flow.batch_writer import HashBatchWriter, SortBatchWriter
from flinkbuf._core.flow.record_buffers import (
    HashBufferWriter,
    RecordBufferReader,
    RecordBufferWriter,
    SortBufferWriter,
)
from flinkbuf.config import NetworkConfig
from flinkbuf.records.arrow_batches import MAX_BYTES, MAX_ROWS, batch_builder, is_batch, record_type, split_batches
from flinkbuf.records.partitioner import as_partitioner
from flinkbuf.types.types import as_type

if TYPE_CHECKING:
    import pyarrow


def write_buffers(
    records: Iterable[object],
    type: object,
    num_channels: int,
    partitioner: object = "rebalance",
    *,
    config: NetworkConfig | None = None,
    subtask_index: int = 0,
    seed: int | None = None,
) -> RecordBufferWriter | _LaterWriter:
    """Encode records into buffers, one channel a buffer.

    Parameters
    ----------
    records : iterable
        Pulled one by one, only as far as the next full buffer. Batches of columns are taken too: pyarrow RecordBatches
        and Tables, objects with ``__arrow_c_array__`` or ``__arrow_c_stream__``, structured numpy arrays, dicts of
        numpy arrays; one of them, or an iterable. Their rows become the same bytes as the records would, in C, and
        their columns are found by name.
    type : TypeInformation, str, pyspark StructType or pyarrow schema
        The records' type; see `flinkbuf.as_type`.
    num_channels : int
        How many channels there are.
    partitioner : str, callable or Partitioner, default "rebalance"
        Which channel a record goes to; as in `RecordWriter`.
    config : NetworkConfig, optional
        `segment_size` is the size of a buffer (bytes); `sort_shuffle_min_buffers` how many of them may be held at a
        time. With more channels than that, records pass through a log of so much memory that is sorted by channel when
        it is full: memory does not grow with the number of channels. With fewer channels than
        `sort_shuffle_min_parallelism` each has a buffer of its own all the same.
    subtask_index : int, default 0
        Which of the parallel producers this one is.
    seed : int, optional
        Fixes random choices of the partitioner.

    Yields
    ------
    (int, bytes)
        Channel and buffer. The buffers of one channel, in this order, are its stream: records back to back, each a
        4-byte big-endian length and its bytes, cut anywhere.

    Raises
    ------
    TypeError, OverflowError, ValueError
        For a value that is not of the type, naming field, value and record number. What the iterable or a callable
        partitioner raises comes through unchanged.

    References
    ----------
    Flink ``RecordWriter``, ``HashBasedDataBuffer``, ``SortBasedDataBuffer``.

    Examples
    --------
    >>> import flinkbuf as fb
    >>> for channel, buffer in fb.write_buffers([(1, "a"), (4, "b")], "n int, s string", 2, fb.by_key("n")):
    ...     print(channel, list(fb.read_buffers([buffer], "n int, s string")))
    0 [Row(n=4, s='b')]
    1 [Row(n=1, s='a')]
    """
    config = config or NetworkConfig()
    written = record_type(type)
    selector = as_partitioner(partitioner).selector(written, num_channels, subtask_index=subtask_index, seed=seed)
    size, segments = config.segment_size, config.sort_shuffle_min_buffers
    sorts = sorts_by_channel(num_channels, config)

    def open_writer(items: Iterable[object]) -> RecordBufferWriter:
        batches, rest = split_batches(items)
        if batches is not None:
            if sorts:
                return SortBatchWriter(batches, written.codec, selector, size, segments)
            return HashBatchWriter(batches, written.codec, selector, size)
        if sorts:
            return SortBufferWriter(rest, written.codec, selector, size, segments)
        return HashBufferWriter(rest, written.codec, selector, size)

    if is_batch(records) or iter(records) is not records:
        return open_writer(records)
    return _LaterWriter(partial(open_writer, records))  # nothing is pulled of an iterator before it is asked for


def sorts_by_channel(num_channels: int, config: NetworkConfig) -> bool:
    """Whether one buffer a channel would take more memory than there is to collect records in.

    Examples
    --------
    >>> sorts_by_channel(512, NetworkConfig()), sorts_by_channel(10_000, NetworkConfig())
    (False, True)
    """
    return num_channels > config.sort_shuffle_min_buffers and num_channels >= config.sort_shuffle_min_parallelism


class _LaterWriter(Iterator[tuple[int, bytes]]):
    """Looks at the first item when the first buffer is asked for: is it a batch or a record?"""

    def __init__(self, open_writer: Callable[[], RecordBufferWriter]) -> None:
        self._open_writer = open_writer
        self._writer: RecordBufferWriter | None = None

    def __next__(self) -> tuple[int, bytes]:
        if self._writer is None:
            self._writer = self._open_writer()
        return next(self._writer)

    @property
    def record_count(self) -> int:
        """Records written so far."""
        return 0 if self._writer is None else self._writer.record_count

    @property
    def record_counts(self) -> object:
        """Of batches: rows written so far to each channel."""
        return getattr(self._writer, "record_counts", [])  # nobody has given a batch: nothing was written

    @property
    def has_record_in_hand(self) -> bool:
        """Whether a record was taken from the iterator and is not stored yet."""
        return self._writer is not None and self._writer.has_record_in_hand


def read_buffers(buffers: Iterable[object], type: object) -> Iterator[Any]:
    """Decode the records of one channel.

    Parameters
    ----------
    buffers : iterable of bytes-like
        What `write_buffers` gave for one channel, in that order.
    type : TypeInformation, str, pyspark StructType or pyarrow schema
        The type they were written with.

    Yields
    ------
    record

    Raises
    ------
    CorruptDataError
        For bytes that no writer of the type produced, and where the buffers end inside a record; the message names
        record number and byte offset.

    Examples
    --------
    >>> import flinkbuf as fb
    >>> buffers = [b for _, b in fb.write_buffers(range(3), fb.Types.LONG(), 1)]
    >>> list(fb.read_buffers(buffers, fb.Types.LONG()))
    [0, 1, 2]
    """
    return RecordBufferReader(buffers, as_type(type).codec)


def read_batches(
    buffers: Iterable[Any], type: object, *, schema: object = None, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES
) -> Iterator[pyarrow.RecordBatch]:
    """Decode the records of one channel into batches of columns.

    Parameters
    ----------
    buffers : iterable of bytes-like
        What `write_buffers` gave for one channel, in that order; whether records or batches were written makes no
        difference.
    type : pyarrow schema, pyspark StructType, str or TypeInformation
        The type they were written with. The batches have the schema that is given, but nested in
        a column no dictionaries, views or run ends; Spark's types become
        Spark's Arrow types, and those of a `TypeInformation` likewise. Records without fields make one column,
        ``value``.
    schema : pyarrow schema, or anything that `type` may be; optional
        Of the batches, where it is not what the type has: with the same fields, whose columns can hold the values.
        A null in a field that is not nullable is refused.
    max_rows : int, default 65536
        No batch has more rows.
    max_bytes : int, default 64 MiB
        A batch ends behind the rows that bring so many bytes.

    Yields
    ------
    pyarrow.RecordBatch

    Raises
    ------
    CorruptDataError
        For bytes that no writer of the type produced, and where the buffers end inside a record, naming record, byte
        and column; also for a value that its column cannot hold. The rows before it are given first.
    TypeError
        For a type that has no column.

    Examples
    --------
    >>> import flinkbuf as fb, pyarrow as pa
    >>> flights = pa.record_batch({"origin": ["JFK", "BOS", None], "delay": [12.5, -3.0, 0.0]})
    >>> buffers = [buffer for _, buffer in fb.write_buffers(flights, flights.schema, 1)]
    >>> next(fb.read_batches(buffers, flights.schema)).to_pydict()
    {'origin': ['JFK', 'BOS', None], 'delay': [12.5, -3.0, 0.0]}
    >>> list(fb.read_buffers(buffers, flights.schema))[0]
    Row(origin='JFK', delay=12.5)
    """
    codec = record_type(type).codec
    described = type if schema is None else schema
    return BatchBufferReader(buffers, codec, batch_builder(codec, described, max_rows, max_bytes))
