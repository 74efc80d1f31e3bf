"""How rows of a DataFrame come to the Spark partition of their channel: exactly that one, whatever Spark's version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from pyspark.sql import DataFrame, SparkSession

_SEED = 42  # of Spark's HashPartitioning
_STEP = 1 << 14  # numbers looked at in one go


def has_partition_ids(session: SparkSession) -> bool:
    """Whether Spark can be told the partition of a row: ``repartitionById``, since 4.1."""
    from pyspark.sql import DataFrame

    major, minor = (int(part) for part in session.version.split(".")[:2])
    return hasattr(DataFrame, "repartitionById") and (major, minor) >= (4, 1)


def channel_ids(session: SparkSession, channel_count: int) -> Sequence[int]:
    """Return for each channel the number that `into_channels` brings to the partition of that index."""
    return range(channel_count) if has_partition_ids(session) else hashed_ids(channel_count)


def into_channels(rows: DataFrame, channel_count: int) -> DataFrame:
    """Return the DataFrame whose partition c has the rows whose first column is the id of channel c."""
    column = rows.columns[0]
    if has_partition_ids(rows.sparkSession):
        return rows.repartitionById(channel_count, column)
    return rows.repartition(channel_count, column)


def hashed_ids(channel_count: int) -> list[int]:
    """Return for each channel the least int that Spark's hash partitioning sends to the partition of that index.

    Examples
    --------
    >>> hashed_ids(4)
    [12, 6, 2, 0]
    """
    import numpy as np

    ids = np.full(channel_count, -1, np.int64)
    start = 0
    while (ids < 0).any():
        numbers = np.arange(start, start + _STEP, dtype=np.int64)
        found, first = np.unique(partitions_of(numbers, channel_count), return_index=True)
        is_new = ids[found] < 0
        ids[found[is_new]] = numbers[first[is_new]]
        start += _STEP
    return [int(number) for number in ids]


def partitions_of(numbers: object, partition_count: int) -> np.ndarray:
    """Return the partition that ``repartition(partition_count, column)`` sends each of these ints to.

    References
    ----------
    Spark ``HashPartitioning``: ``pmod(Murmur3Hash(column, 42), n)``.
    """
    import numpy as np

    with np.errstate(over="ignore"):
        word = np.asarray(numbers, np.int64).astype(np.uint32)
        word = _rotated(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        hashed = _rotated(np.uint32(_SEED) ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        hashed ^= np.uint32(4)  # bytes of an int
        hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        hashed ^= hashed >> np.uint32(16)
    return hashed.view(np.int32).astype(np.int64) % partition_count


def _rotated(words: np.ndarray, bits: int) -> np.ndarray:
    import numpy as np

    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
