"""Records ↔ buffers in any process: the bodies of a `mapPartitions`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flinkbuf._core.record_buffers import HashBufferWriter, RecordBufferReader, RecordBufferWriter, SortBufferWriter
from flinkbuf.config import NetworkConfig
from flinkbuf.records.partitioner import as_partitioner
from flinkbuf.types.types import as_type


def write_buffers(
    records: Iterable[Any],
    type: Any,
    num_channels: int,
    partitioner: Any = "rebalance",
    *,
    config: NetworkConfig | None = None,
    subtask_index: int = 0,
    seed: int | None = None,
) -> RecordBufferWriter:
    """Encode records into buffers, one channel a buffer.

    Parameters
    ----------
    records : iterable
        Pulled one by one, only as far as the next full buffer.
    type : TypeInformation, str, pyspark StructType or pyarrow schema
        The records' type; see `flinkbuf.as_type`.
    num_channels : int
        How many channels there are.
    partitioner : str, callable or Partitioner, default "rebalance"
        Which channel a record goes to; as in `RecordWriter`.
    config : NetworkConfig, optional
        `segment_size` is the size of a buffer (bytes); `sort_shuffle_min_buffers` how many of them may be held at a
        time. With more channels than half of that, records pass through a log that is sorted by channel when it is
        full, so that memory does not grow with the number of channels.
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
    record_type = as_type(type)
    selector = as_partitioner(partitioner).selector(record_type, num_channels, subtask_index=subtask_index, seed=seed)
    segments = config.sort_shuffle_min_buffers
    if num_channels <= max(1, segments // 2):
        return HashBufferWriter(records, record_type.codec, selector, config.segment_size)
    return SortBufferWriter(records, record_type.codec, selector, config.segment_size, segments)


def read_buffers(buffers: Iterable[Any], type: Any) -> Iterator[Any]:
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
