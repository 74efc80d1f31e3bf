"""Which subpartitions rows with certain keys lie in: what a reader who knows the keys has to read.

The hash is that of the writer. Values that are equal to Spark and not to the hash (0.0 and -0.0) are looked for in
the places of each; where a value cannot be told in the key's type, everything is read.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterable, Sequence

from flinkbuf._core.record.key_group import key_group_of_hash, operator_index
from flinkbuf.records.partitioner import by_key
from flinkbuf.types.types import RowTypeInfo, TypeInformation

KEY_MAX = 10_000  # more combinations than this are not worth their hashes: all is read


def null_subpartition(subpartition_count: int, max_parallelism: int) -> int:
    """Where rows lie whose key, of one column, is null: the hash code of null is 0.

    Examples
    --------
    >>> null_subpartition(64, 128)
    47
    """
    return operator_index(key_group_of_hash(0, max_parallelism), max_parallelism, subpartition_count)


def subpartitions_of_keys(
    keys: Iterable[Sequence[object]],
    key_types: Sequence[TypeInformation],
    subpartition_count: int,
    max_parallelism: int,
) -> frozenset[int]:
    """Return the subpartitions in which rows with one of the keys can lie.

    Parameters
    ----------
    keys : iterable of sequences
        Each has one value, which may be None, for each column of the key.
    key_types : sequence of TypeInformation
        Of these columns.
    subpartition_count, max_parallelism : int
        As the data set was written.

    Raises
    ------
    TypeError, ValueError, OverflowError
        If a value is none of its column's type.

    Examples
    --------
    >>> from flinkbuf.types.types import Types
    >>> sorted(subpartitions_of_keys([("JFK",), ("BOS",)], [Types.STRING()], 4, 128))
    [0, 3]
    """
    names = tuple(f"f{index}" for index in range(len(key_types)))
    row_type = RowTypeInfo(tuple(key_types), names)
    partitioner = by_key(names if len(names) > 1 else names[0], max_parallelism=max_parallelism)
    selector = partitioner.selector(row_type, subpartition_count)
    found = set()
    for key in keys:
        for variant in itertools.product(*map(_equal_values, key)):
            if len(variant) == 1 and variant[0] is None:
                found.add(null_subpartition(subpartition_count, max_parallelism))
            else:
                found.add(selector.select_channel(variant))
    return frozenset(found)


def key_combinations(candidates: Sequence[Sequence[object] | None]) -> list[tuple[object, ...]] | None:
    """Return the keys that columns can make together; None if one may be anything, or they are too many.

    Examples
    --------
    >>> key_combinations([["EWR", "JFK"], ["IAH"]])
    [('EWR', 'IAH'), ('JFK', 'IAH')]
    >>> key_combinations([["EWR"], None]) is None
    True
    """
    known = [each for each in candidates if each is not None]
    if len(known) < len(candidates) or math.prod(map(len, known)) > KEY_MAX:
        return None
    return list(itertools.product(*known))


def _equal_values(value: object) -> tuple[object, ...]:
    if isinstance(value, float):
        if value == 0.0:
            return (0.0, -0.0)
        if math.isnan(value):  # of both signs; the hash takes all payloads for one
            return (math.nan, struct.unpack("<d", b"\xff" * 8)[0])
    return (value,)
