"""Temporary files: directories in turn, threads for the disk, return queues, nothing left behind."""

import contextlib
import doctest
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flinkbuf as fb
from flinkbuf.network import io_manager
from flinkbuf.network.buffer import Buffer
from flinkbuf.network.io_manager import IOManager, default_io_manager, temporary_directories

DATA, EVENT, PRIORITY = 1, 2, 3


@pytest.fixture(params=[False, True], ids=["asynchronous", "synchronous"])
def is_synchronous(request):
    return request.param


@pytest.fixture
def manager(tmp_path):
    with IOManager([tmp_path]) as manager:
        yield manager


def left_in(path):
    return sorted(entry.name for entry in Path(path).iterdir())


def test_examples():
    assert doctest.testmod(io_manager).failed == 0
    assert fb.network.IOManager is IOManager


def test_directories_take_turns_and_close_removes_them(tmp_path):
    parents = [tmp_path / str(number) for number in range(3)]
    for parent in parents:
        parent.mkdir()
    with IOManager(parents) as manager:
        names = [manager.create_channel() for _ in range(6)]
        assert len({str(name.path) for name in names}) == 6
        assert [sum(Path(name).parent.parent == parent for name in names) for parent in parents] == [2, 2, 2]
        enumerator = manager.create_channel_enumerator()
        counted = [enumerator.next() for _ in range(4)]
        assert [Path(name).parent.parent for name in counted] == [*parents, parents[0]]
        assert [Path(name).name.split(".", 1)[1] for name in counted] == [f"{n:06d}.channel" for n in range(4)]
        assert len({Path(name).name.split(".")[0] for name in counted}) == 1
        assert {Path(manager.partition_path()).parent.parent for _ in range(3)} == set(parents)
        Path(names[0]).write_bytes(b"left")
        manager.delete_channel(names[0])
        manager.delete_channel(names[0])
        Path(names[1]).write_bytes(b"left")
        assert manager.reader_executor(names[0]) is not manager.writer_executor(names[0])
        assert manager.reader_executor(names[0].path) is manager.reader_executor(names[0])
        assert manager.reader_executor("/elsewhere/file") is manager.reader_executor(manager.paths[0] / "x")
    manager.close()
    assert [left_in(parent) for parent in parents] == [[], [], []]
    with pytest.raises(RuntimeError, match="is closed"):
        manager.create_channel()


def test_directories_come_from_spark_or_the_system(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/no/such/directory")
    assert temporary_directories() == [str(tmp_path)]
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert temporary_directories() == [str(tmp_path)]
    with pytest.raises(ValueError, match="at least one directory"):
        IOManager([])


def test_directory_that_is_missing_is_said_and_the_others_are_left_clean(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        IOManager([tmp_path, tmp_path / "missing"])
    assert left_in(tmp_path) == []


def test_read_only_directory_is_said(tmp_path):
    tmp_path.chmod(0o555)
    is_root = os.geteuid() == 0
    if is_root:  # who may write anywhere
        os.seteuid(65534)
    try:
        with pytest.raises(PermissionError):
            IOManager(["/" if is_root else tmp_path])
    finally:
        if is_root:
            os.seteuid(0)


def test_blocks_come_back_in_order(manager, is_synchronous):
    name = manager.create_channel()
    blocks = [bytes([number]) * 1000 for number in range(50)]
    with manager.create_block_channel_writer(name, is_synchronous=is_synchronous) as writer:
        for block in blocks:
            writer.write_block(block)
        assert list(iter(writer.take, None)) == blocks
    with manager.create_block_channel_reader(name, 1000, is_synchronous=is_synchronous) as reader:
        for _ in blocks:
            reader.read_block()
        assert list(iter(reader.take, None)) == blocks
        reader.seek(7500)
        reader.read_block(bytearray(10))
        assert [bytes(reader.take()), bytes(reader.take())] == [bytes([7]) * 500 + bytes([8]) * 500, bytes([8]) * 10]
        with pytest.raises(ValueError, match="negative"):
            reader.seek(-1)
    assert (manager.writer_executor(name).run_count == 0) is is_synchronous


def test_bulk_reader_fills_segments(manager):
    name = manager.create_channel()
    with manager.create_block_channel_writer(name) as writer:
        for number in range(5):
            writer.write_block(bytes([number]) * 64)
    segments = [bytearray(64) for _ in range(7)]
    with manager.create_bulk_block_channel_reader(name, segments, 5) as reader:
        assert reader.full_segments() == [bytes([number]) * 64 for number in range(5)]
    assert segments[5] == bytes(64)
    with pytest.raises(ValueError, match="from 0 to 7"):
        manager.create_bulk_block_channel_reader(name, segments, 8)


def test_callbacks_are_told_of_each_block_and_of_errors(manager, is_synchronous):
    name, told = manager.create_channel(), []

    def tell(block, error):
        told.append((bytes(block), type(error)))

    with manager.create_block_channel_writer(name, tell, is_synchronous=is_synchronous) as writer:
        for block in (b"one", b"two"):
            writer.write_block(block)
    assert told == [(b"one", type(None)), (b"two", type(None))]
    told.clear()
    reader = manager.create_block_channel_reader(name, 4, tell, is_synchronous=is_synchronous)
    reader.read_block()
    reader.take()
    reader.read_block()
    with pytest.raises(fb.errors.CorruptDataError, match="at byte 6: the file ends inside a block") as raised:
        reader.close()
    assert raised.value.offset == 6 and raised.value.path == str(name.path)
    assert told == [(b"onet", type(None)), (b"wo\0\0", fb.errors.CorruptDataError)]
    reader.close()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.binary(max_size=300), st.sampled_from([1, 1, 2, 7, 8, 9, 10]), st.booleans())))
def test_buffers_and_events_come_back_as_they_were(tmp_path_factory, items):
    with IOManager([tmp_path_factory.mktemp("io")]) as manager:
        name = manager.create_channel()
        items = [(data, kind, compressed and kind in (1, 8)) for data, kind, compressed in items]
        with manager.create_buffer_file_writer(name) as writer:
            for data, kind, compressed in items:
                writer.write_block(Buffer.copy_of(data, kind, compressed))
        with manager.create_buffer_file_reader(name) as reader:
            assert [(bytes(b), int(b.data_type), b.is_compressed) for b in reader] == items
        with manager.create_buffer_file_segment_reader(name) as reader, open(name, "rb") as file:
            for (data, kind, compressed), segment in zip(items, reader, strict=True):
                file.seek(segment.offset)
                assert (file.read(segment.size), segment.data_type, segment.is_compressed) == (data, kind, compressed)


def test_written_buffers_are_released(manager, is_synchronous):
    buffers = [Buffer.copy_of(bytes(100)) for _ in range(10)]
    with manager.create_buffer_file_writer(manager.create_channel(), is_synchronous=is_synchronous) as writer:
        for buffer in buffers:
            writer.write_block(buffer)
        with pytest.raises(ValueError, match="data type 3 cannot be stored"):
            writer.write_block(Buffer.copy_of(b"barrier", PRIORITY))
    for buffer in buffers:
        with pytest.raises(RuntimeError, match="recycled"):
            bytes(buffer)


def test_every_truncation_and_every_flipped_bit_is_data_or_an_error_with_its_place(manager):
    name = manager.create_channel()
    items = [(b"0123456789", DATA), (b"", DATA), (b"an event", EVENT)]
    with manager.create_buffer_file_writer(name, is_synchronous=True) as writer:
        for data, kind in items:
            writer.write_block(Buffer.copy_of(data, kind))
    whole = Path(name).read_bytes()
    damaged = [whole[:size] for size in range(len(whole))]
    damaged += [
        bytes([*whole[:at], whole[at] ^ 1 << bit, *whole[at + 1 :]]) for at in range(len(whole)) for bit in range(8)
    ]
    outcomes = {"data": 0, "error": 0}
    for content in damaged:
        Path(name).write_bytes(content)
        reader = manager.create_buffer_file_reader(name, is_synchronous=True, max_size=100)
        try:
            assert len(b"".join(bytes(buffer) for buffer in reader)) <= len(whole)
            outcomes["data"] += 1
        except fb.errors.CorruptDataError as error:
            assert str(name.path) in str(error) and f"at byte {error.offset}" in str(error)
            assert 0 <= error.offset <= len(content)
            outcomes["error"] += 1
        with contextlib.suppress(fb.errors.CorruptDataError):
            reader.close()
    assert outcomes["data"] >= 3 and outcomes["error"] > len(whole)


def test_error_stays_and_is_raised_by_close(manager, is_synchronous):
    name = manager.create_channel()
    Path(name).write_bytes(b"short")
    reader = manager.create_block_channel_reader(name, 100, is_synchronous=is_synchronous)
    reader.read_block()
    with pytest.raises(fb.errors.CorruptDataError, match="at byte 5"):
        reader.take()
    with pytest.raises(fb.errors.CorruptDataError, match="at byte 5"):
        reader.read_block()
    with pytest.raises(fb.errors.CorruptDataError, match="at byte 5"):
        reader.close()
    reader.close()


FULL_DISK = """
import errno, resource, signal, sys
import flinkbuf as fb
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
with fb.network.IOManager([sys.argv[1]]) as manager:
    name = manager.create_channel()
    writer = manager.create_block_channel_writer(name)
    try:
        for _ in range(50):
            writer.write_block(bytes(4096))
        writer.close()
    except OSError as error:
        assert error.errno == errno.EFBIG and error.filename == name.path and error.offset == 100_000, error
        assert "at byte 100000" in str(error), error
        print("said")
    try:
        writer.close_and_delete()
    except OSError:
        pass
"""


def test_disk_that_is_full_is_said_with_path_and_place(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("said\n", "") and left_in(tmp_path) == []


def test_missing_and_existing_files(manager):
    name = manager.create_channel()
    with pytest.raises(FileNotFoundError) as raised:
        manager.create_buffer_file_reader(name)
    assert raised.value.filename == name.path
    Path(name).write_bytes(b"")
    with pytest.raises(FileExistsError):
        manager.create_block_channel_writer(name)


HOLD = """
import sys, time
import flinkbuf as fb
manager = fb.network.IOManager([sys.argv[1]])
writer = manager.create_block_channel_writer(manager.create_channel())
writer.write_block(b"some bytes")
writer.take()
print("ready", flush=True)
time.sleep(600)
"""


def test_leftovers_of_a_killed_process_go_and_those_of_a_living_one_stay(tmp_path):
    holders = [
        subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        for holder in holders:
            assert holder.stdout.readline() == "ready\n"
        before = left_in(tmp_path)
        assert len(before) == 2
        holders[0].send_signal(signal.SIGKILL)
        holders[0].wait()
        assert left_in(tmp_path) == before
        with IOManager([tmp_path]) as manager:
            names = left_in(tmp_path)
            assert manager.paths[0].name in names and len(names) == 2
            (kept,) = set(names) - {manager.paths[0].name}
            assert any(entry.stat().st_size == 10 for entry in (tmp_path / kept).iterdir())
        assert left_in(tmp_path) == [kept]
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()
            holder.stdout.close()
    IOManager([tmp_path]).close()
    assert left_in(tmp_path) == []


def test_child_of_a_fork_removes_nothing_and_has_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    mine = default_io_manager()
    try:
        assert default_io_manager() is mine
        child = os.fork()
        if child == 0:
            code = 1
            try:
                try:
                    mine.create_channel()
                except RuntimeError as error:
                    code = 0 if "forked" in str(error) else 2
                own = default_io_manager()
                code = code or (0 if own is not mine and own.paths != mine.paths else 3)
                own.close()
                mine.close()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert mine.paths[0].is_dir()
    finally:
        mine.close()
    assert left_in(tmp_path) == []
    assert default_io_manager() is not mine
    default_io_manager().close()


def test_no_thread_before_use_and_none_after_close(manager):
    def names():
        return [Path(f"/proc/self/task/{task}/comm").read_text().strip() for task in os.listdir("/proc/self/task")]

    if not os.path.isdir("/proc/self/task"):
        pytest.skip("no /proc")
    before = len(names())
    name = manager.create_channel()
    with manager.create_block_channel_writer(name) as writer:
        writer.write_block(b"x")
        writer.take()
        assert "fb-io-writer" in names()
    manager.close()
    assert len(names()) == before


def test_many_threads_share_one_manager(manager):
    failures = []

    def work(seed):
        try:
            name = manager.create_channel()
            blocks = [bytes([seed]) * (100 + number) for number in range(40)]
            with manager.create_block_channel_writer(name) as writer:
                for block in blocks:
                    writer.write_block(block)
            with manager.create_block_channel_reader(name, 1) as reader:
                for block in blocks:
                    reader.read_block(bytearray(len(block)))
                assert list(iter(reader.take, None)) == blocks
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_too_many_open_files_are_said(tmp_path):
    script = """
import errno, resource, sys
import flinkbuf as fb
with fb.network.IOManager([sys.argv[1]]) as manager:
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    writers = []
    try:
        while True:
            writers.append(manager.create_block_channel_writer(manager.create_channel()))
    except OSError as error:
        assert error.errno == errno.EMFILE and "ulimit -n" in str(error), error
        print("said")
    for writer in writers:
        writer.close_and_delete()
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("said\n", "")
