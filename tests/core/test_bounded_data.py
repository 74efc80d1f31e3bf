"""Buffers in a file: Flink's bytes, three storages, and what becomes of files that somebody has touched."""

import doctest
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core import bounded_data
from flinkbuf._core.bounded_data import BoundedData, BoundedReader
from flinkbuf.errors import CorruptDataError, PartitionNotFoundError
from flinkbuf.network.buffer import Buffer, DataType

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/bounded_blocking/bounded_blocking.json").read_text())
OPTIONS = {"file_channel": ("file", 0), "mmap_region_4096": ("mmap", 4096), "file_mmap": ("file-mmap", 0)}
STORAGES = ["file", "mmap", "file-mmap"]
PAGE = os.sysconf("SC_PAGESIZE")

items = st.lists(
    st.tuples(st.binary(max_size=400), st.sampled_from([1, 1, 1, 2, 7, 8]), st.booleans()).map(
        lambda item: (item[0], item[1], item[2] and item[1] in (1, 8))
    ),
    max_size=60,
)


def make(path, storage, contents, region_limit=0):
    data = BoundedData(path, storage, region_limit)
    data.write([Buffer.copy_of(*content) for content in contents])
    data.finish()
    return data


def contents_of(data):
    return [(bytes(buffer), int(buffer.data_type), buffer.is_compressed) for buffer in data]


def test_examples():
    assert doctest.testmod(bounded_data).failed == 0


@pytest.mark.parametrize("case", GOLDEN["bounded_blocking"], ids=lambda case: case["kind"])
def test_files_are_those_of_flink_both_ways(case, tmp_path):
    storage, region_limit = OPTIONS[case["kind"]]
    contents = [
        (bytes.fromhex(one["hex"]), int(DataType[one["data_type"]]), one["compressed"]) for one in case["buffers"]
    ]
    data = make(tmp_path / "ours", storage, contents, region_limit)
    assert (tmp_path / "ours").read_bytes().hex() == case["file"]
    assert data.size == case["size_reported"]
    os.truncate(tmp_path / "ours", 0)
    (tmp_path / "ours").write_bytes(bytes.fromhex(case["file"]))
    assert contents_of(data) == contents


@pytest.mark.parametrize("storage", STORAGES)
@settings(deadline=None, max_examples=40)
@given(items, st.integers(1, 5))
def test_what_was_written_is_read_by_any_number_of_readers(storage, tmp_path_factory, contents, batch):
    path = tmp_path_factory.mktemp("data") / "file"
    data = BoundedData(path, storage, PAGE)
    for at in range(0, len(contents), batch):
        data.write([Buffer.copy_of(*content) for content in contents[at : at + batch]])
    with pytest.raises(RuntimeError, match="still being written"):
        iter(data)
    data.finish()
    readers = [BoundedReader(data) for _ in range(3)]
    taken = [[] for _ in readers]
    for _ in contents:
        for reader, took in zip(readers, taken, strict=True):
            took.append(reader.read())
    assert [reader.read() for reader in readers] == [None] * 3
    del readers
    data.delete()
    for took in taken:
        assert [(bytes(one), int(one.data_type), one.is_compressed) for one in took] == contents
    assert data.buffer_count == (
        sum(kind in (1, 8) for _, kind, _ in contents),
        sum(kind not in (1, 8) for _, kind, _ in contents),
    )
    assert not path.exists()


@pytest.mark.parametrize("storage", ["mmap", "file-mmap"])
def test_no_buffer_crosses_a_region(storage, tmp_path):
    contents = [(bytes([number]) * 1000, 1, False) for number in range(20)]
    data = make(tmp_path / "file", storage, contents, PAGE)
    assert contents_of(data) == contents
    whole = (tmp_path / "file").read_bytes()
    if storage == "mmap":  # whole pages, four buffers in each
        assert len(whole) == 5 * PAGE
        assert all(whole[page * PAGE :][:8] == bytes.fromhex("00000000e8030000") for page in range(5))
    else:
        assert len(whole) == 20 * 1008
    with pytest.raises(CorruptDataError, match="larger than a region"):
        BoundedData(tmp_path / "other", storage, PAGE).write([Buffer.copy_of(bytes(PAGE))])


@pytest.mark.parametrize("storage", STORAGES)
def test_mapping_grows_with_what_is_written(storage, tmp_path):
    block = os.urandom(100_000)
    data = make(tmp_path / "file", storage, [(block, 1, False)] * 80)
    assert contents_of(data) == [(block, 1, False)] * 80
    size = (tmp_path / "file").stat().st_size
    assert size == 80 * 100_008 if storage != "mmap" else 80 * 100_008 <= size <= 80 * 100_008 + (4 << 20)


@pytest.mark.parametrize("storage", STORAGES)
def test_every_truncation_and_every_flipped_bit_is_data_or_an_error_with_its_place(storage, tmp_path):
    contents = [(b"0123456789", 1, False), (b"", 1, False), (b"more", 1, True), (bytes(4), 10, False)]
    path = tmp_path / "file"
    data = make(path, storage, contents, PAGE if storage == "mmap" else 0)
    whole = path.read_bytes()
    used = data.size
    damaged = [(whole[:size], None) for size in range(used)]
    damaged += [
        (bytes([*whole[:at], whole[at] ^ 1 << bit, *whole[at + 1 :]]), at) for at in range(used) for bit in range(8)
    ]
    outcomes = []
    for content, flipped in damaged:
        with open(path, "r+b") as file:  # the same file: it is mapped
            file.write(content)
            file.truncate()
        try:
            read = contents_of(data)
            outcomes.append("data")
            assert flipped is not None and len(read) == len(contents)
        except CorruptDataError as error:
            outcomes.append("error")
            assert str(path) in str(error) and f"at byte {error.offset}" in str(error) and error.offset <= used
    assert outcomes[:used] == ["error"] * used  # of those that were cut off
    # A flipped bit passes in the bytes of a buffer, and where it makes one kind of data another.
    assert outcomes[used:].count("data") <= 8 * 14 + 3 * (1 + 2) and outcomes.count("error") > used
    path.write_bytes(whole)
    assert contents_of(data) == contents


@pytest.mark.parametrize("storage", STORAGES)
def test_file_that_is_removed_under_a_reader_is_read_to_its_end(storage, tmp_path):
    contents = [(bytes([number]) * 5000, 1, False) for number in range(50)]
    data = make(tmp_path / "file", storage, contents)
    reader = BoundedReader(data)
    first = reader.read()
    (tmp_path / "file").unlink()
    rest = list(iter(reader.read, None))
    assert [bytes(one) for one in (first, *rest)] == [content[0] for content in contents]
    if storage == "file":
        del reader
        with pytest.raises(PartitionNotFoundError, match=str(tmp_path / "file")):
            BoundedReader(data)


@pytest.mark.parametrize("storage", STORAGES)
def test_types_that_are_not_stored_are_refused(storage, tmp_path):
    data = BoundedData(tmp_path / "file", storage)
    with pytest.raises(ValueError, match="type that is not stored"):
        data.write([Buffer.copy_of(b"barrier", 3)])
    data.finish()
    with pytest.raises(RuntimeError, match="cannot write"):
        data.write([Buffer.copy_of(b"late")])
    with pytest.raises(FileExistsError):
        BoundedData(tmp_path / "file", storage)
    with pytest.raises(ValueError, match="storage must be one of"):
        BoundedData(tmp_path / "other", "memory")


FULL = """
import errno, os, sys
from flinkbuf._core.bounded_data import BoundedData
from flinkbuf.network.buffer import Buffer
data = BoundedData(sys.argv[1] + "/file", sys.argv[2])
buffer = Buffer.copy_of(bytes(32768))
try:
    for _ in range(64):
        data.write([buffer] * 4)
except OSError as error:
    assert error.errno in (errno.ENOSPC, errno.EFBIG), error
    assert error.filename == data.path and data.path in str(error) and 0 < error.offset <= 1 << 20, error
    print("said")
data.delete()
"""


@pytest.mark.parametrize("storage", STORAGES)
def test_disk_that_is_full_is_said_and_kills_nobody(storage, tmp_path):
    mounted = (
        os.getuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(tmp_path)], capture_output=True, check=False
        ).returncode
    )
    limit = (
        ""
        if mounted
        else (
            "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        )
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", limit + FULL, str(tmp_path), storage], capture_output=True, text=True, timeout=60
        )
    finally:
        if mounted:
            subprocess.run(["umount", str(tmp_path)], check=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "said\n", "")


REFUSED = """
import resource, sys
from flinkbuf._core.bounded_data import BoundedData
from flinkbuf.network.buffer import Buffer
block = Buffer.copy_of(bytes(8 << 20))
data = BoundedData(sys.argv[1] + "/file", "file-mmap")
for _ in range(16):
    data.write([block])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20), resource.RLIM_INFINITY))
try:
    data.finish()
except MemoryError as error:
    print("said" if data.path in str(error) else error)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer takes address space as it likes")
def test_memory_that_is_refused_is_said(tmp_path):
    done = subprocess.run([sys.executable, "-c", REFUSED, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("said\n", "")


@pytest.mark.parametrize("storage", STORAGES)
def test_many_read_at_once(storage, tmp_path):
    contents = [(os.urandom(3000), 1, False) for _ in range(200)]
    data = make(tmp_path / "file", storage, contents)
    results = []
    threads = [threading.Thread(target=lambda: results.append(contents_of(data) == contents)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8
