"""Which subtask reads what of which other: from the number of subtasks at both ends of an edge.

Flink: DistributionPattern, EdgeManagerBuildUtil, VertexInputInfoComputationUtils.
"""

from __future__ import annotations

from typing import Final

from flinkbuf.records.partitioner import pointwise_targets

PIPELINED_BOUNDED: Final = "PIPELINED_BOUNDED"  # read while it is written, and once
BLOCKING: Final = "BLOCKING"  # read when it is complete


def subpartition_count(producer: int, producers: int, consumers: int, is_pointwise: bool) -> int:
    """Return how many subpartitions the result partition of subtask `producer` has.

    Examples
    --------
    >>> [subpartition_count(i, 2, 5, is_pointwise=True) for i in range(2)], subpartition_count(0, 2, 5, False)
    ([3, 2], 5)
    """
    return len(pointwise_targets(producer, producers, consumers)) if is_pointwise else consumers


def channels_of(consumer: int, producers: int, consumers: int, is_pointwise: bool) -> list[tuple[int, int]]:
    """Return (producer, index of its subpartition) for each channel of subtask `consumer`, in order.

    Where a producer has several consumers, subtask i reads subpartition ``i % count``, not its place among them.

    Examples
    --------
    >>> channels_of(3, 2, 5, is_pointwise=True), channels_of(4, 2, 5, is_pointwise=True)
    ([(1, 1)], [(1, 0)])
    >>> channels_of(1, 3, 2, is_pointwise=True), channels_of(1, 3, 2, is_pointwise=False)
    ([(1, 0), (2, 0)], [(0, 1), (1, 1), (2, 1)])
    """
    if not 0 <= consumer < consumers:
        raise ValueError(f"consumer must be from 0 to {consumers - 1}, got {consumer}")
    if not is_pointwise:
        return [(producer, consumer) for producer in range(producers)]
    if producers >= consumers:
        first, end = consumer * producers // consumers, (consumer + 1) * producers // consumers
        return [(producer, 0) for producer in range(first, end)]
    return [
        (producer, consumer % len(targets))
        for producer in range(producers)
        if consumer in (targets := pointwise_targets(producer, producers, consumers))
    ]
