"""What a task writes to: a record writer for each of its result partitions. Flink: StreamTask.createRecordWriters."""

from __future__ import annotations

from collections.abc import Sequence

from flinkbuf.network.partition import ResultPartition
from flinkbuf.records.partitioner import as_partitioner
from flinkbuf.records.record_writer import RecordWriter
from flinkbuf.streaming.chain.operator_config import ChainConfig, NetworkEdge
from flinkbuf.types.types import Types

# Each subtask reads some of the others' only, or all read the same: what is under way there belongs to no key group.
# A page of columns holds rows of as many key groups as its reader had, and cannot be given to another.
ALIGNED_PARTITIONERS = frozenset({"forward", "rescale", "broadcast", "columns by key"})


def make_writers(
    config: ChainConfig, partitions: Sequence[ResultPartition], subtask_index: int, seed: int | None
) -> list[RecordWriter]:
    """Return a writer for each partition, in order.

    Raises
    ------
    ValueError
        If the edges of the chain do not fit the partitions.
    """
    edges = _edges_of(config)
    if sorted(edges) != list(range(len(partitions))):
        raise ValueError(f"edges of the chain write to partitions {sorted(edges)}, the task has {len(partitions)}")
    return [
        RecordWriter(
            partition,
            Types.STREAM_ELEMENT(edges[index].type),
            edges[index].partitioner,
            edges[index].buffer_timeout_ms,
            subtask_index=subtask_index,
            seed=seed,
        )
        for index, partition in enumerate(partitions)
    ]


def aligned_partitions(config: ChainConfig) -> frozenset[int]:
    """Return the partitions in which no barrier overtakes records. Flink: StreamEdge.supportsUnalignedCheckpoints."""
    return frozenset(
        index
        for index, edge in _edges_of(config).items()
        if as_partitioner(edge.partitioner).kind in ALIGNED_PARTITIONERS
    )


def _edges_of(config: ChainConfig) -> dict[int, NetworkEdge]:
    edges: dict[int, NetworkEdge] = {}
    for operator in config.operators:
        for edge in operator.network_edges:
            if edge.partition_index in edges:
                raise ValueError(f"two edges of the chain write to partition {edge.partition_index}")
            edges[edge.partition_index] = edge
    return edges
