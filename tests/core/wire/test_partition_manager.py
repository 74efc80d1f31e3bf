"""Partitions by id, from Python."""

import gc
import tracemalloc
import weakref

import pytest

from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool
from flinkbuf._core.wire.partition_manager import PartitionManager
from flinkbuf.network.partition import ResultPartition

ID = bytes(range(60))


@pytest.fixture
def partition():
    with NetworkBufferPool(8, 4096) as pool:
        partition = ResultPartition(pool, 1)
        yield partition
        partition.close()


def test_id_is_used_once(partition):
    manager = PartitionManager()
    manager.register(ID, partition)
    with pytest.raises(RuntimeError, match="second partition as 000102"):
        manager.register(ID, partition)
    manager.unregister(ID)
    with pytest.raises(RuntimeError, match="second partition as 000102"):
        manager.register(ID, partition)
    with pytest.raises(ValueError, match="a partition id has 60 bytes, got 3"):
        manager.register(b"abc", partition)
    manager.close()


def test_closing_releases_what_is_registered(partition):
    manager = PartitionManager()
    manager.register(ID, partition)
    manager.close()
    manager.close()
    assert partition.is_released
    with pytest.raises(RuntimeError, match="the partition manager is closed"):
        len(manager)


def test_partition_may_outlive_the_manager(partition):
    manager = PartitionManager()
    manager.register(ID, partition)
    view = partition.create_view(0)
    manager.unregister(ID)
    manager.close()
    view.release()
    partition.close()


def test_partitions_that_are_over_are_let_go_but_their_ids_stay_used():
    ids = [number.to_bytes(60, "big") for number in range(200)]
    manager, alive = PartitionManager(), []
    with NetworkBufferPool(8, 4096) as pool:
        for key in ids:
            partition = ResultPartition(pool, 1)
            alive.append(weakref.ref(partition))
            manager.register(key, partition)
            view = partition.create_view(0)
            partition.close()
            view.release()
        del partition, view
        gc.collect()
        assert sum(each() is not None for each in alive) < 20
        with ResultPartition(pool, 1) as partition, pytest.raises(RuntimeError, match="second partition as 0000"):
            manager.register(ids[0], partition)
        manager.close()


def test_only_the_latest_ids_are_remembered():
    """A process that registers partitions for months holds no more than after an hour."""
    ids = [number.to_bytes(60, "big") for number in range(25_000)]
    manager = PartitionManager()
    with NetworkBufferPool(8, 4096) as pool:
        gc.collect()
        tracemalloc.start()
        try:
            sizes = []
            for start in (0, 12_500):
                for key in ids[start : start + 12_500]:
                    with ResultPartition(pool, 1) as partition:
                        manager.register(key, partition)
                        manager.unregister(key)
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert sizes[1] - sizes[0] < 100_000, "12,500 ids are more than a megabyte"
        with ResultPartition(pool, 1) as partition:
            for key in ids[-1], ids[-9_000]:
                with pytest.raises(RuntimeError, match="second partition as 0000"):
                    manager.register(key, partition)
            manager.register(ids[0], partition)
            with pytest.raises(RuntimeError, match="second partition as 0000"):
                manager.register(ids[0], partition)  # as long as it is registered, however old
    manager.close()
