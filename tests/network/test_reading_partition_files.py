"""PartitionFile: what a finished partition leaves on disk is read by whoever opens it, or refused by name."""

import os
import subprocess
import sys

import pytest

import flinkbuf as fb

PAIR = fb.as_type("n bigint, s string")
RECORDS = [(number % 6, "value " * (number % 9)) for number in range(3000)]


@pytest.fixture
def pool():
    return fb.NetworkBufferPool(64, segment_size=4096)


@pytest.fixture
def base(pool, tmp_path):
    """The files of a partition with 6 subpartitions, compressed, in several regions."""
    partition = fb.ResultPartition(pool, 6, "BLOCKING_PERSISTENT", tmp_path / "p", compression="LZ4", sort_buffers=8)
    with fb.RecordWriter(partition, PAIR, lambda record, count: record[0]) as writer:
        writer.emit_all(RECORDS)
        writer.broadcast((9, "everywhere"))
    partition.close()
    assert sorted(os.listdir(tmp_path)) == ["p.shuffle.data", "p.shuffle.index"]
    return tmp_path / "p"


def expected(channel):
    return [*(record for record in RECORDS if record[0] == channel), (9, "everywhere")]


def test_it_is_read_as_often_as_one_likes(base):
    with fb.network.PartitionFile.open(base) as file:
        assert file.subpartition_count == 6 and file.path == str(base)
        for _ in range(2):
            for channel in range(6):
                with fb.InputGate([(file, channel)]) as gate:
                    assert list(fb.RecordReader(gate, PAIR)) == expected(channel)
        with fb.InputGate([(file, channel) for channel in range(6)]) as gate:
            assert sum(1 for _ in fb.RecordReader(gate, PAIR)) == len(RECORDS) + 6


def test_another_process_reads_it(base):
    program = f"""
import flinkbuf as fb
with fb.network.PartitionFile.open({str(base)!r}) as file, fb.InputGate([(file, 2)]) as gate:
    print(sum(1 for _ in fb.RecordReader(gate, "n bigint, s string")))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert run.stdout.strip() == str(len(expected(2))), run.stderr


def test_buffers_are_restored_and_end_with_the_partition(base):
    with fb.network.PartitionFile.open(base) as file:
        for channel in range(6):
            buffers = list(file.buffers(channel))
            data = [bytes(buffer) for buffer in buffers if buffer.is_buffer]
            assert list(fb.read_buffers(data, PAIR)) == expected(channel)
            assert buffers[-1].data_type == fb.network.DataType.END_OF_PARTITION
            assert not any(buffer.is_compressed for buffer in buffers)


def test_regions_say_where_everything_is(base):
    with fb.network.PartitionFile.open(base) as file:
        regions = list(file.regions)
        assert [region.number for region in regions] == list(range(file.region_count))
        assert regions[-1].is_broadcast  # the end of the partition, once for all
        sizes = [file.subpartition_size(channel) for channel in range(6)]
        assert all(size > 0 for size in sizes)
        once = sum(
            region.entries[0][1] if region.is_broadcast else sum(size for _, size in region.entries)
            for region in regions
        )
        assert once == file.data_size == os.path.getsize(f"{base}.shuffle.data")


def test_reading_leaves_the_files_and_closing_ends_it(base):
    file = fb.network.PartitionFile.open(base)
    gate = fb.InputGate([(file, 0)])
    file.close()
    file.close()
    assert "closed" in repr(file)
    with gate:
        assert list(fb.RecordReader(gate, PAIR)) == expected(0)  # it was begun before
    with pytest.raises(RuntimeError, match="is closed"):
        fb.InputGate([(file, 0)])
    with pytest.raises(RuntimeError, match="is closed"):
        next(file.buffers(0))
    assert os.path.exists(f"{base}.shuffle.data")


def test_what_is_not_there_is_named(base, tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.shuffle"):
        fb.network.PartitionFile.open(tmp_path / "nothing")
    with fb.network.PartitionFile.open(base) as file:
        for channel in (-1, 6):
            with pytest.raises(IndexError, match="which has 6"):
                file.subpartition_size(channel)
    with pytest.raises(fb.errors.CorruptDataError, match="shuffle.index"):
        fb.network.PartitionFile.open(base, subpartition_count=7)


@pytest.mark.parametrize("suffix, message", [("data", "p.shuffle.index.* data file"), ("index", "p.shuffle.index")])
def test_a_file_that_was_cut_off_is_named(base, suffix, message):
    path = f"{base}.shuffle.{suffix}"
    os.truncate(path, os.path.getsize(path) - 5)
    with pytest.raises(fb.errors.CorruptDataError, match=message):
        fb.network.PartitionFile.open(base)


@pytest.mark.parametrize("compression", [None, "LZ4", "ZSTD"])
def test_what_is_corrupt_inside_a_buffer_is_named(pool, tmp_path, compression):
    path = tmp_path / "p"
    with fb.ResultPartition(pool, 1, "BLOCKING_PERSISTENT", path, compression=compression) as partition:
        with fb.RecordWriter(partition, PAIR) as writer:
            writer.emit_all(RECORDS)
    with open(f"{path}.shuffle.data", "r+b") as file:
        file.seek(8)  # behind the header of the first buffer: how long its block or its first record is
        file.write(b"\x7f\xff\xff\xff")
    with fb.network.PartitionFile.open(path, compression=compression or "LZ4") as file:
        with (
            fb.InputGate([(file, 0)]) as gate,
            pytest.raises(fb.errors.CorruptDataError, match=f"subpartition 0 of {path}"),
        ):
            list(fb.RecordReader(gate, PAIR))


def test_a_file_that_goes_away_under_a_reader_is_named(base):
    with fb.network.PartitionFile.open(base) as file:
        os.remove(f"{base}.shuffle.data")
        with fb.InputGate([(file, 0)]) as gate, pytest.raises(Exception, match="p.shuffle.data") as caught:
            list(fb.RecordReader(gate, PAIR))
        assert isinstance(caught.value, (fb.errors.PartitionNotFoundError, OSError))


def test_a_partition_that_failed_leaves_nothing(pool, tmp_path):
    with pytest.raises(KeyError):
        with fb.ResultPartition(pool, 2, "BLOCKING_PERSISTENT", tmp_path / "q") as partition:
            with fb.RecordWriter(partition, PAIR) as writer:
                writer.emit_all(RECORDS)
                raise KeyError
    assert os.listdir(tmp_path) == []


def test_it_is_opened_with_open():
    with pytest.raises(TypeError, match="PartitionFile.open"):
        fb.network.PartitionFile()
