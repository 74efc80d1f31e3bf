"""What a task of Spark and a reader of a job say to each other: rows in one direction, one answer in the other.

The connection has proved on both sides that they know the reader's secret, and each message has its MAC: see
`flinkbuf.control.secure_link`. A connection carries one part: its key, its batches, and how many rows these were.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from flinkbuf.control.secure_link import MESSAGE_LIMIT
from flinkbuf.errors import CorruptDataError
from flinkbuf.spark.streams.received_parts import PartKey, StoredBatch

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_BYTES: Final = 1024**2  # of a message, as long as it can be cut

_BEGIN, _BATCH, _END, _TAKEN = b"P", b"B", b"E", b"T"
_KEY = struct.Struct(">cqqq")
_COUNTED = struct.Struct(">cq")


def group_of(token: str) -> str:
    """Return the group of connections that a reader takes."""
    return f"rows-{token}"


def begin_of(key: PartKey) -> bytes:
    """Return the first message: which part comes."""
    return _KEY.pack(_BEGIN, *key)


def messages_of(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Yield a batch of rows as messages, cut where it would be too long for one.

    Raises
    ------
    ValueError
        If one row is too long for a message.
    """
    data = batch.serialize()
    if data.size > BATCH_BYTES and batch.num_rows > 1:
        half = batch.num_rows // 2
        yield from messages_of(batch.slice(0, half))
        yield from messages_of(batch.slice(half))
        return
    if data.size + _COUNTED.size > MESSAGE_LIMIT:
        raise ValueError(
            f"a row of {data.size} bytes cannot be sent to a job, which takes {MESSAGE_LIMIT // 1024**2} MiB at most: "
            "give it a reference to what is large in it"
        )
    yield _COUNTED.pack(_BATCH, batch.num_rows) + data.to_pybytes()


def end_of(row_count: int) -> bytes:
    """Return the last message: the part is whole."""
    return _COUNTED.pack(_END, row_count)


def taken_of(row_count: int) -> bytes:
    """Return the reader's answer: it has the part."""
    return _COUNTED.pack(_TAKEN, row_count)


def is_taken(answer: bytes) -> bool:
    """Whether a message is the reader's answer."""
    return answer[:1] == _TAKEN


def read_message(message: bytes) -> PartKey | StoredBatch | int:
    """Return what a sender says: the key of its part, a batch of its rows, or how many they were.

    Raises
    ------
    CorruptDataError
        It says something else.

    Examples
    --------
    >>> read_message(begin_of((3, 0, 17))), read_message(end_of(2))
    ((3, 0, 17), 2)
    """
    kind = message[:1]
    if kind == _BEGIN and len(message) == _KEY.size:
        _, run, partition, attempt = _KEY.unpack(message)
        return run, partition, attempt
    if kind == _BATCH and len(message) > _COUNTED.size:
        return StoredBatch(_COUNTED.unpack_from(message)[1], message[_COUNTED.size :])
    if kind == _END and len(message) == _COUNTED.size:
        return int(_COUNTED.unpack(message)[1])
    raise CorruptDataError(f"a sender of rows does not say {message[:40]!r}")
