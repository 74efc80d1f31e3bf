"""What a task writes is found again at its place, and damage is found and named."""

import errno
import os
import resource
import signal
import struct
import zlib
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flinkbuf as fb
from flinkbuf._core.partition.partition_file import PartitionFile
from flinkbuf.errors import CorruptDataError
from flinkbuf.partition_files.manifest import Layout
from flinkbuf.partition_files.part_reader import Piece, read_pieces
from flinkbuf.partition_files.part_writer import write_part
from flinkbuf.partition_files.pruning import null_subpartition, subpartitions_of_keys

pa = pytest.importorskip("pyarrow")

BASE = "part-0123456789abcdef-00000-89abcdef"
SCHEMA = pa.schema([("key", pa.string()), ("number", pa.int64())])
TYPE = fb.as_type("key string, number bigint")


def layout(count=3, key=("key",)):
    return Layout({"type": "struct", "fields": []}, repr(TYPE), key, count, 128)


def batch(rows):
    return pa.record_batch([[key for key, _ in rows], [number for _, number in rows]], schema=SCHEMA)


def write(directory, batches, count=3, key=("key",), memory=1 << 20, **options):
    (file,) = write_part(batches, layout(count, key), TYPE, lambda: str(directory / BASE), memory=memory, **options)
    return file


def read(directory, file, subpartitions, max_rows=1000):
    found = []
    for each in read_pieces(str(directory), [Piece.of(file, subpartitions)], SCHEMA, max_rows):
        found += [tuple(row.values()) for row in each.to_pylist()]
    return found


def places(key, count=3):
    if key is None:
        return null_subpartition(count, 128)
    (found,) = subpartitions_of_keys([(key,)], [fb.Types.STRING()], count, 128)
    return found


rows = st.lists(st.tuples(st.none() | st.text(max_size=5), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=30)


@settings(max_examples=40)
@given(st.lists(rows, min_size=1, max_size=4), st.sampled_from([None, "LZ4"]), st.sampled_from([0, 1 << 18]))
def test_each_subpartition_has_its_rows(tmp_path_factory, given_rows, compression, memory):
    directory = tmp_path_factory.mktemp("part")
    file = write(directory, map(batch, given_rows), memory=memory, compression=compression)
    every = [row for each in given_rows for row in each]
    for index in range(3):
        wanted = [row for row in every if places(row[0]) == index]
        assert file.records[index] == len(wanted)
        assert sorted(read(directory, file, [index]), key=repr) == sorted(wanted, key=repr)
    known = [key for key, _ in every if key is not None]
    assert (file.key_min, file.key_max) == ((min(known), max(known)) if known else (None, None))
    assert file.data_size == sum(file.sizes) + 12
    assert sorted(os.listdir(directory)) == [BASE + ".shuffle.data", BASE + ".shuffle.index"]


def test_no_rows_are_no_file(tmp_path):
    def begin():
        raise AssertionError("there is nothing to write")

    assert write_part([batch([])], layout(), TYPE, begin, memory=1 << 20) == []


@pytest.mark.parametrize("memory", [0, 1 << 22])
def test_checksums_are_those_of_the_bytes_in_the_file(tmp_path, memory):
    """With little memory there are many regions."""
    big = batch([(f"key {number % 100}", number) for number in range(20_000)])
    file = write(tmp_path, [big] * 3, memory=memory)
    data = (tmp_path / (BASE + ".shuffle.data")).read_bytes()
    index = (tmp_path / (BASE + ".shuffle.index")).read_bytes()
    assert (len(index), zlib.crc32(index)) == (file.index_size, file.index_crc32)
    entries = list(struct.iter_unpack("<qq", index))[:-3]
    assert (len(entries) > 3) == (memory == 0)
    for subpartition in range(3):
        found = b"".join(data[offset : offset + size] for offset, size in entries[subpartition::3])
        assert (len(found), zlib.crc32(found)) == (file.sizes[subpartition], file.checksums[subpartition])


def test_the_bytes_are_flinks(tmp_path):
    file = write(tmp_path, [batch([("a", 1), ("a", 2)])], count=1)
    record = struct.pack(">iBB", 11, 0, 2) + b"a" + struct.pack(">q", 1)
    records = record + record[:-1] + b"\x02"
    data = struct.pack("<hhi", 0, 0, 30) + records
    end = struct.pack("<hhi", 4, 0, 4) + bytes(4)
    assert (tmp_path / (BASE + ".shuffle.data")).read_bytes() == data + end
    assert (tmp_path / (BASE + ".shuffle.index")).read_bytes() == struct.pack("<4q", 0, 38, 38, 12)
    assert (file.sizes, file.records) == ((38,), (2,))


def test_rows_without_a_key_are_dealt_out(tmp_path):
    file = write(tmp_path, [batch([("a", number) for number in range(9)])], key=())
    assert file.records == (3, 3, 3)
    assert sorted(number for _, number in read(tmp_path, file, [0, 1, 2])) == list(range(9))


def test_an_error_leaves_no_file(tmp_path, nothing_is_left):
    def batches():
        yield batch([("a", 1)])
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write(tmp_path, batches())
    assert os.listdir(tmp_path) == []


def test_a_task_that_outlives_its_job_leaves_no_file(tmp_path):
    def batches():
        yield batch([("a", 1)])
        (tmp_path / f"{BASE}.shuffle.data").unlink()

    with pytest.raises(FileNotFoundError, match="its job was aborted"):
        write(tmp_path, batches())
    assert os.listdir(tmp_path) == []


def test_a_task_whose_job_is_aborted_at_its_very_end_leaves_no_file(tmp_path):
    def check():
        assert len(os.listdir(tmp_path)) == 2
        raise InterruptedError("the job was aborted")

    with pytest.raises(InterruptedError, match="the job was aborted"):
        write(tmp_path, [batch([("a", 1)])], check=check)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_told_with_path_and_offset(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"cannot write .*part-.*shuffle.data at byte \d+") as error:
            write(tmp_path, [batch([("x" * 64, number) for number in range(5000)])], memory=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert error.value.errno == errno.EFBIG
    assert os.listdir(tmp_path) == []


def test_every_changed_byte_is_found_and_so_is_every_cut(tmp_path):
    file = write(tmp_path, [batch([("a", 1), ("b", 2), ("c", 3)])], compression="LZ4")
    for suffix in (".shuffle.data", ".shuffle.index"):
        path = Path(f"{tmp_path / BASE}{suffix}")
        whole = path.read_bytes()
        for offset in range(len(whole)):
            for bit in (0, 7):
                changed = bytearray(whole)
                changed[offset] ^= 1 << bit
                path.write_bytes(changed)
                with pytest.raises(CorruptDataError, match=r"part-.*byte \d+"):
                    read(tmp_path, file, [0, 1, 2])
            path.write_bytes(whole[:offset])
            with pytest.raises(CorruptDataError, match=r"part-.*byte \d+"):
                read(tmp_path, file, [0, 1, 2])
        path.write_bytes(whole)


@pytest.mark.parametrize("suffix", [".shuffle.data", ".shuffle.index"])
def test_a_file_that_is_gone_is_named(tmp_path, suffix):
    file = write(tmp_path, [batch([("a", 1)])])
    path = tmp_path / (BASE + suffix)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="load the data set again") as error:
        read(tmp_path, file, [0])
    assert error.value.filename == str(path)


def test_headers_alone_tell_of_the_blocks(tmp_path):
    file = write(tmp_path, [batch([("a", number) for number in range(20_000)])], compression="LZ4")
    stored = PartitionFile(tmp_path / BASE)
    for index in range(3):
        blocks = [(kind, is_compressed, len(data)) for kind, is_compressed, data in stored.buffers(index)]
        assert list(stored.headers(index)) == blocks
        assert sum(size + 8 for _, _, size in blocks[:-1]) == file.sizes[index]
    assert stored.sums is None  # it was opened, not written
    with pytest.raises(IndexError, match="which has 3"):
        stored.headers(3)
    with pytest.raises(IndexError, match="which has 3"):
        stored.data(3)


WIDE = pa.schema(
    [
        ("key", pa.string()),
        ("text", pa.string()),
        ("number", pa.int64()),
        ("list", pa.list_(pa.field("element", pa.string()))),
        ("row", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("map", pa.map_(pa.string(), pa.float64())),
        ("bytes", pa.binary()),
        ("digits", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("flag", pa.bool_()),
        ("none", pa.null()),
    ]
)


def wide_rows(directory):
    numbers = range(3000)
    columns = {
        "key": [f"key {each % 9}" for each in numbers],
        "text": [None if each % 5 == 0 else "é" * (each % 70) for each in numbers],
        "number": [None if each % 7 == 0 else each for each in numbers],
        "list": [None if each % 4 == 0 else ["x" * (each % 3), None] for each in numbers],
        "row": [None if each % 6 == 0 else {"a": each, "b": None} for each in numbers],
        "map": [[("a", 1.5), ("b", None)] if each % 3 else None for each in numbers],
        "bytes": [bytes(each % 50) for each in numbers],
        "digits": [None if each % 8 == 0 else Decimal(each) / 100 for each in numbers],
        "day": list(numbers),
        "flag": [each % 2 == 0 for each in numbers],
        "none": [None for _ in numbers],
    }
    batch = pa.record_batch([pa.array(values, WIDE.field(name).type) for name, values in columns.items()], schema=WIDE)
    (file,) = write_part([batch], layout(), fb.as_type(WIDE), lambda: str(directory / BASE), memory=1 << 20)
    return file


@pytest.mark.parametrize("columns", [[each] for each in WIDE.names] + [["row", "key"], ["day", "text", "number"], []])
def test_columns_that_are_not_wanted_are_passed_over(tmp_path, columns):
    piece = Piece.of(wide_rows(tmp_path), [0, 1, 2])
    every = pa.Table.from_batches(read_pieces(str(tmp_path), [piece], WIDE, 700), WIDE)
    found = list(read_pieces(str(tmp_path), [piece], WIDE, 700, columns))
    assert [each.num_rows for each in found] == [700, 700, 700, 700, 200]
    assert all(each.schema.equals(pa.schema([WIDE.field(name) for name in columns])) for each in found)
    if columns:
        assert pa.Table.from_batches(found).equals(every.select(columns))


def test_damage_in_a_column_that_is_not_wanted_is_found(tmp_path):
    file = wide_rows(tmp_path)
    path = tmp_path / (BASE + ".shuffle.data")
    whole = path.read_bytes()
    for offset in range(200, 4000, 97):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 0x40]) + whole[offset + 1 :])
        with pytest.raises(CorruptDataError, match=r"part-.*byte \d+"):
            list(read_pieces(str(tmp_path), [Piece.of(file, [0, 1, 2])], WIDE, 700, ["day"]))
