"""Hash-style blocking partitions: written once, read often, gone when they are to be."""

import gc
import os

import pytest

from flinkbuf._core.io.io_executor import IOExecutor
from flinkbuf._core.memory.buffer_codec import BufferCodec
from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool
from flinkbuf._core.partition.bounded_partition import BoundedStorage
from flinkbuf._core.partition.result_partition import ResultPartition
from flinkbuf._core.partition.subpartition import AvailabilityListener
from flinkbuf.errors import CancelTaskError, CorruptDataError, PartitionNotFoundError

BLOCKING, PERSISTENT = 3, 4
DATA, EVENT, END_OF_PARTITION = 1, 2, 10
SEGMENT = 4096
STORAGES = ["file", "mmap", "file-mmap"]


@pytest.fixture
def executor():
    with IOExecutor("test-reader") as executor:
        yield executor


@pytest.fixture
def network():
    network = NetworkBufferPool(64, segment_size=SEGMENT)
    yield network
    gc.collect()
    assert network.available_segment_count == 64  # all buffers have come back


def make(network, executor, path, storage, n=3, type=BLOCKING, buffers=4, codec=None):
    local = network.create_buffer_pool(buffers, buffers)
    return ResultPartition(local, type, n, BoundedStorage(path / "part", storage, executor, codec))


def drain(view):
    """All buffers of a view, as bytes and types; waits for the executor where it has to."""
    taken, before = [], -1
    while not taken or taken[-1][1] != END_OF_PARTITION:
        seen = view.listener.notification_count
        polled = view.poll()
        if polled is None:
            assert seen != before or view.listener.wait(5000)
            before = seen
            continue
        buffer, backlog, next_type, sequence = polled
        assert sequence == len(taken)
        with buffer:
            taken.append((bytes(buffer), int(buffer.data_type), buffer.is_compressed, backlog))
        assert (next_type == 0) == (len(taken) > 0 and taken[-1][1] == END_OF_PARTITION) or next_type == 0
    assert view.poll() is None
    return taken


def payload(taken):
    return b"".join(data for data, kind, _, _ in taken if kind == DATA)


@pytest.mark.parametrize("storage", STORAGES)
def test_written_once_and_read_by_several_at_once_and_again(storage, network, executor, tmp_path):
    partition = make(network, executor, tmp_path, storage)
    expected = [b"", b"", b""]
    for number in range(3000):
        record = bytes([number % 251]) * (number % 40)
        partition.emit(record, number % 3)
        expected[number % 3] += record
    partition.broadcast(b"for all")
    partition.emit_event_bytes(b"\0\0\0\7 an event", EVENT, 1)
    expected = [one + b"for all" for one in expected]
    with pytest.raises(RuntimeError, match="still being written|not finished"):
        partition.create_view(0)
    partition.finish()
    assert network.available_segment_count >= 60
    for _ in range(2):
        views = [[partition.create_view(index) for _ in range(3)] for index in range(3)]
        for index, several in enumerate(views):
            for view in several:
                taken = drain(view)
                assert payload(taken) == expected[index]
                assert [kind for _, kind, _, _ in taken if kind != DATA] == [EVENT] * (index == 1) + [END_OF_PARTITION]
                data_count = sum(kind == DATA for _, kind, _, _ in taken)
                seen = 0
                for _, kind, _, backlog in taken:
                    seen += kind == DATA
                    assert backlog == data_count - seen
    assert sorted(os.listdir(tmp_path)) == ["part.0.data", "part.1.data", "part.2.data"]
    partition.release()
    assert [view.is_released for several in views for view in several] == [False] * 9  # they had all
    del views, view, several
    gc.collect()
    assert os.listdir(tmp_path) == []
    partition.close()


@pytest.mark.parametrize("storage", STORAGES)
def test_data_that_gets_smaller_is_compressed(storage, network, executor, tmp_path):
    codec = BufferCodec("LZ4")
    partition = make(network, executor, tmp_path, storage, n=2, codec=codec)
    plain, noise = b"0123456789" * 5000, os.urandom(50_000)
    partition.emit(plain, 0)
    partition.emit(noise, 1)
    partition.finish()
    zero, one = drain(partition.create_view(0)), drain(partition.create_view(1))
    assert all(is_compressed for _, kind, is_compressed, _ in zero if kind == DATA)
    assert b"".join(codec.decompress(data, SEGMENT) for data, kind, _, _ in zero if kind == DATA) == plain
    assert not any(is_compressed for _, _, is_compressed, _ in one) and payload(one) == noise
    partition.release()
    partition.close()


@pytest.mark.parametrize("storage", STORAGES)
def test_many_subpartitions_with_few_buffers_and_few_descriptors(storage, network, executor, tmp_path):
    count = 600  # far more than buffers, and than files are kept open
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    partition = make(network, executor, tmp_path, storage, n=count)
    for round_number in range(2):
        for index in range(count):
            partition.emit(b"%d/%d;" % (round_number, index), index)
    if before:
        assert len(os.listdir("/proc/self/fd")) < before + 300
    partition.finish()
    for index in (0, 1, 299, count - 1):
        assert payload(drain(partition.create_view(index))) == b"0/%d;1/%d;" % (index, index)
    partition.close()
    partition.release()
    assert os.listdir(tmp_path) == []


def test_reader_with_both_buffers_out_is_told_when_one_comes_back(network, executor, tmp_path):
    partition = make(network, executor, tmp_path, "file", n=1)
    partition.emit(bytes(5 * SEGMENT), 0)
    partition.finish()
    listener = AvailabilityListener()
    view = partition.create_view(0, listener)
    first, second = view.poll()[0], view.poll()
    assert second[2] == 0 and view.poll() is None and not view.is_available
    before = listener.notification_count
    first.release()
    assert listener.wait(5000) and listener.notification_count > before
    assert view.poll() is not None
    second[0].release()
    partition.close()
    partition.release()


@pytest.mark.parametrize("storage", STORAGES)
def test_release_during_a_read_keeps_what_is_held_and_removes_the_file_at_the_end(storage, network, executor, tmp_path):
    partition = make(network, executor, tmp_path, storage, n=1)
    partition.emit(b"0123456789" * 1000, 0)
    partition.finish()
    listener = AvailabilityListener()
    view = partition.create_view(0, listener)
    held = view.poll()[0]
    before = listener.notification_count
    partition.fail("its owner says so")
    assert listener.notification_count > before and view.is_released and view.is_available
    with pytest.raises(CancelTaskError, match="its owner says so"):
        view.poll()
    assert os.listdir(tmp_path) == ["part.0.data"]
    with pytest.raises(CancelTaskError):
        partition.create_view(0)
    view.release()
    assert os.listdir(tmp_path) == []
    assert bytes(held) == (b"0123456789" * 1000)[: len(held)]
    held.release()
    partition.close()


def test_persistent_files_stay_unless_they_are_released(network, executor, tmp_path):
    partition = make(network, executor, tmp_path, "file", n=2, type=PERSISTENT)
    partition.emit(b"kept", 1)
    partition.finish()
    partition.close()
    partition.release()  # by whoever kept it for readers: its producer wanted the files to stay
    partition.release()
    assert sorted(os.listdir(tmp_path)) == ["part.0.data", "part.1.data"]
    del partition
    gc.collect()
    assert sorted(os.listdir(tmp_path)) == ["part.0.data", "part.1.data"]
    for name in os.listdir(tmp_path):
        os.unlink(tmp_path / name)
    released = make(network, executor, tmp_path, "file", n=2, type=PERSISTENT)
    released.finish()
    released.release()
    assert os.listdir(tmp_path) == []
    unfinished = make(network, executor, tmp_path, "file", n=2, type=PERSISTENT)
    unfinished.emit(b"lost", 0)
    unfinished.close()
    del unfinished, released
    gc.collect()
    assert os.listdir(tmp_path) == []


def test_buffers_of_a_closed_partition_are_free_while_somebody_holds_it(network, executor, tmp_path):
    partition = make(network, executor, tmp_path, "file", n=2)
    partition.emit(b"lost", 0)
    partition.release()
    partition.close()
    assert network.available_segment_count == network.total_segment_count
    assert os.listdir(tmp_path) == []


def test_existing_file_is_refused_and_the_others_are_removed(network, executor, tmp_path):
    (tmp_path / "part.2.data").write_bytes(b"not ours")
    with pytest.raises(FileExistsError, match="part.2.data"):
        make(network, executor, tmp_path, "file", n=4)
    assert os.listdir(tmp_path) == ["part.2.data"]


@pytest.mark.parametrize("storage", STORAGES)
def test_file_that_was_cut_off_is_an_error_of_its_readers_alone(storage, network, executor, tmp_path):
    partition = make(network, executor, tmp_path, storage, n=2)
    partition.broadcast(bytes(range(256)) * 200)
    partition.finish()
    os.truncate(tmp_path / "part.0.data", 20_000)
    view, other = partition.create_view(0), partition.create_view(1)
    with pytest.raises(CorruptDataError, match=r"part\.0\.data at byte 20000") as raised:
        drain(view)
    assert isinstance(raised.value, CorruptDataError)
    with pytest.raises(CorruptDataError):
        view.poll()
    assert view.is_available_without_credit
    assert payload(drain(other)) == bytes(range(256)) * 200
    partition.close()
    partition.release()


def test_missing_file_is_a_partition_that_is_not_found(network, executor, tmp_path):
    partition = make(network, executor, tmp_path, "file", n=1)
    partition.finish()
    (tmp_path / "part.0.data").unlink()
    with pytest.raises(PartitionNotFoundError):
        partition.create_view(0)
    partition.close()
    partition.release()


def test_writer_is_told_when_its_directory_is_gone(network, executor, tmp_path):
    # More subpartitions than are kept open: a write opens its file again.
    partition = make(network, executor, tmp_path, "file", n=300)
    for name in os.listdir(tmp_path):
        os.unlink(tmp_path / name)
    with pytest.raises(OSError, match=r"part\.\d+\.data.*No such file") as raised:
        for index in range(300):
            partition.emit(bytes(SEGMENT), index)
        partition.finish()
    assert raised.value.errno == 2
    with pytest.raises(OSError, match="No such file"):
        partition.emit(b"x", 0)
    assert partition.is_released and "part." in partition.failure_cause
    partition.close()


def test_readers_of_a_closed_io_manager_are_told_or_need_nobody(network, tmp_path):
    executor = IOExecutor("closed")
    partition = make(network, executor, tmp_path, "file", n=1)
    partition.emit(bytes(10 * SEGMENT), 0)
    partition.finish()
    executor.close()
    view = partition.create_view(0)
    first, second = view.poll(), None
    try:  # in memory all the same; where the system cannot tell, or with both buffers out, somebody else has to read
        second = view.poll()
        first[0].release()
        with pytest.raises(OSError, match="I/O manager"):
            for _ in range(20):
                view.poll()
            raise OSError("the I/O manager was not needed")
    except OSError as error:
        assert "I/O manager" in str(error)
    del first, second
    partition.close()
    partition.release()
