"""Records too long for memory go to the I/O manager's directories, from a threshold on that can be set."""

import os
import shutil

import pytest

import flinkbuf as fb

LONG = bytes(range(256)) * 400


def read_one(**options):
    with fb.NetworkBufferPool(16, segment_size=4096) as pool:
        partition = fb.ResultPartition(pool, 1)
        writer = fb.RecordWriter(partition, fb.Types.PRIMITIVE_ARRAY(fb.Types.BYTE()))
        gate = fb.InputGate([(partition, 0)])
        with fb.RecordReader(gate, writer.type, **options) as reader:
            records = iter(reader)
            writer.emit(b"short")
            writer.flush()
            assert bytes(next(records)) == b"short"
            return feed(writer, partition, records)


def feed(writer, partition, records):
    """Write a record that is larger than the pool while it is read."""
    import threading

    failures = []

    def write():
        try:
            writer.emit(LONG)
            partition.finish()
        except fb.errors.CancelTaskError:
            pass
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        return bytes(next(records))
    finally:
        partition.release()
        thread.join()
        assert failures == []


def test_record_over_the_threshold_goes_to_the_managers_directory(tmp_path):
    with fb.network.IOManager([tmp_path]) as manager:
        assert read_one(spill_threshold=1000, io_manager=manager) == LONG
        assert os.listdir(manager.paths[0]) == [".lock"]  # nothing is left behind
        shutil.rmtree(manager.paths[0])
        with pytest.raises(OSError, match="cannot spill record 1 at byte 13 of channel 0"):
            read_one(spill_threshold=1000, io_manager=manager)
        assert read_one(spill_threshold=len(LONG) + 100, io_manager=manager) == LONG
        assert read_one(io_manager=manager) == LONG  # below the usual threshold


def test_directories_of_spark_are_used_by_default(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    assert read_one(spill_threshold=1) == LONG
    assert os.listdir(tmp_path) == []


def test_threshold_is_checked():
    with pytest.raises(ValueError, match="at least 1 byte, got 0"):
        read_one(spill_threshold=0)
