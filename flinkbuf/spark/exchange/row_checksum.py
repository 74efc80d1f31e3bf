"""Envelopes that have no part in the checksums by which Spark knows whether a task gave other rows when it ran again.

Since 4.1 Spark adds up the hashes of the rows that a task of a DataFrame's shuffle writes, and fails a job, or runs
more of it again, where a task that runs again has another sum. Its rows are envelopes here, whose bytes depend on the
order of the records in them, which Spark leaves open. So each envelope ends with 8 bytes that make the hash of its row
0; those of an end marker make it the digest of all records of its producer in its channel, which is the same in any
order. Thus Spark's sums say whether the records are the same, as they do without envelopes.

A version of Spark that hashes its rows in another way sees other sums, and fails jobs that could go on.
"""

from __future__ import annotations

import struct

from flinkbuf._core.ground.xxh64 import last_word

# Spark's UnsafeRow of (channel int, envelope binary): no nulls, the channel, size and place of the bytes; these follow.
_ROW = struct.Struct("<qiiII")
_STRIPE, _WORD = 32, 8
_PADDING = bytes(_STRIPE)


def tail_size(envelope_size: int) -> int:
    """Return how many bytes are to follow the header and the buffer in an envelope.

    Examples
    --------
    >>> [(size + tail_size(size)) % 8 for size in (0, 1, 7, 8)], tail_size(1), max(map(tail_size, range(64)))
    ([0, 0, 0, 0], 15, 23)
    """
    padding = -envelope_size % _WORD
    if (_ROW.size + envelope_size + padding) % _STRIPE == _STRIPE - _WORD:
        padding += _WORD  # the last word must not end a stripe of the hash
    return padding + _WORD


def tail_of(channel_id: int, header: bytes, buffer: bytes, row_hash: int) -> bytes:
    """Return these bytes, so that Spark's hash of the row (channel_id, envelope) is `row_hash`."""
    size = len(header) + len(buffer)
    tail = tail_size(size)
    row = _ROW.pack(0, channel_id, 0, size + tail, _ROW.size)
    padding = _PADDING[: tail - _WORD]
    return padding + last_word(row_hash, row, header, buffer, padding)
