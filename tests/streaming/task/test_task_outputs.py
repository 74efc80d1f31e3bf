"""What a task writes to. Flink: StreamTask.createRecordWriters, StreamEdge.supportsUnalignedCheckpoints."""

import pytest
from support.worlds.stream_tasks import ListSource, chain_of, edge, operator

import flinkbuf as fb
from flinkbuf.records.partitioner import as_partitioner
from flinkbuf.streaming.task.task_outputs import aligned_partitions, make_writers


def chain(*partitioners):
    edges = tuple(edge(index, partitioner=partitioner) for index, partitioner in enumerate(partitioners))
    return chain_of(operator("source", ListSource, is_source=True, network_edges=edges), partition_count=len(edges))


def test_in_which_partitions_barriers_wait():
    config = chain("rebalance", "forward", "broadcast", "shuffle", "rescale", lambda record, count: 0, "global")
    assert aligned_partitions(config) == {1, 2, 4}
    assert aligned_partitions(chain(as_partitioner("forward"), as_partitioner("rebalance"))) == {0}


def test_each_partition_is_written_by_one_edge():
    pool = fb.NetworkBufferPool(8, segment_size=4096)
    with pytest.raises(ValueError, match=r"partitions \[0\], the task has 2"):
        make_writers(chain("forward"), [fb.ResultPartition(pool, 1)] * 2, 0, None)
    twice = chain_of(
        operator("source", ListSource, is_source=True, network_edges=(edge(0), edge(0))), partition_count=1
    )
    with pytest.raises(ValueError, match="two edges of the chain write to partition 0"):
        make_writers(twice, [fb.ResultPartition(pool, 1)], 0, None)
