"""Files as sources: ranges, lines, directories."""

import bz2
import gzip
import io
import lzma
import os
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.sources import file_lines
from flinkbuf.streaming.sources.file_format import LineFormat, StreamFormat
from flinkbuf.streaming.sources.file_lines import first_line_at, read_lines
from flinkbuf.streaming.sources.file_split import FileSplit, find_files, local_path, split_file

TEXT = st.text(st.sampled_from("ab é€😀\u2028\x0b"), max_size=6)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
CONTENTS = st.lists(st.tuples(TEXT, ENDS), max_size=12)


def lines_by_definition(data):
    return [line.decode() for line in data.splitlines()]


@given(lines=CONTENTS, rest=TEXT, cuts=st.lists(st.integers(0, 150), max_size=8), block=st.integers(1, 9))
def test_each_line_is_in_exactly_one_range_whatever_the_ranges_are(lines, rest, cuts, block):
    data = ("".join(text + end for text, end in lines) + rest).encode()
    file, size = io.BytesIO(data), len(data)
    offsets = sorted({0, size, *(cut for cut in cuts if cut < size)})
    found = []
    whole_block, file_lines.BLOCK = file_lines.BLOCK, block
    try:
        for low, high in pairwise(offsets):
            start, end = first_line_at(file, low, size), first_line_at(file, high, size)
            assert low <= start <= size
            file.seek(0)
            found += read_lines(file, start, end, "UTF-8")
    finally:
        file_lines.BLOCK = whole_block
    assert found == lines_by_definition(data)


@given(lines=CONTENTS, rest=TEXT, split_size=st.integers(1, 60))
def test_splits_of_a_file_give_each_line_once(lines, rest, split_size, tmp_path_factory):
    path = str(tmp_path_factory.getbasetemp() / "lines")
    data = ("".join(text + end for text, end in lines) + rest).encode()
    with open(path, "wb") as file:
        file.write(data)
    format = StreamFormat.text_line_format()
    found = [line for split in split_file(path, len(data), split_size) for line in format.read_split(split)]
    assert found == lines_by_definition(data)


@given(size=st.integers(0, 1_000), split_size=st.integers(1, 300))
def test_splits_cover_a_file_without_gaps(size, split_size):
    splits = split_file("a", size, split_size)
    assert splits[0].start == 0 and splits[-1].end == size
    assert all(one.end == other.start for one, other in pairwise(splits))
    assert all(split.end - split.start < split_size * 1.1 for split in splits)
    assert len({split.split_id for split in splits}) == len(splits)


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        (".gz", gzip.compress),
        (".gzip", gzip.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
        (".deflate", zlib.compress),
    ],
)
def test_a_compressed_file_is_one_range_and_is_decompressed(suffix, compress, tmp_path):
    path = str(tmp_path / f"a{suffix}")
    with open(path, "wb") as file:
        file.write(compress(b"one\ntwo\r\nthree"))
    (split,) = split_file(path, os.stat(path).st_size, 4)
    assert list(StreamFormat.text_line_format().read_split(split)) == ["one", "two", "three"]


@pytest.mark.parametrize("charset", ["UTF-16", "UTF-32", "shift_jis"])
def test_a_charset_in_which_lines_cannot_be_found_is_read_whole(charset, tmp_path):
    path = tmp_path / "a"
    path.write_bytes("eins\nzwei\r\ndrei".encode(charset))
    format = StreamFormat.text_line_format(charset)
    assert not format.is_splittable
    assert list(format.read_split(FileSplit(str(path), 0, path.stat().st_size))) == ["eins", "zwei", "drei"]


def test_what_is_not_valid_in_the_charset_is_replaced(tmp_path):
    (tmp_path / "a").write_bytes(b"a\xffb\n")
    assert list(StreamFormat.text_line_format().read_split(FileSplit(str(tmp_path / "a"), 0, 4))) == ["a\ufffdb"]


def test_an_unknown_charset_is_refused():
    with pytest.raises(LookupError, match="unknown encoding: nothing"):
        StreamFormat.text_line_format("nothing")


def test_directories_are_walked_in_order_without_hidden_files(tmp_path):
    for name in ["b/2", "a", "b/1", ".hidden", "_temporary/3", "b/_SUCCESS", "b/.part"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    found = [(os.path.relpath(path, tmp_path), size) for path, size in find_files([str(tmp_path)])]
    assert found == [("a", 1), ("b/1", 3), ("b/2", 3)]
    assert list(find_files([str(tmp_path / ".hidden")])) == [(str(tmp_path / ".hidden"), 7)]  # named by the user


def test_a_missing_file_says_its_path(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        list(find_files([str(tmp_path / "nowhere")]))
    with pytest.raises(ValueError, match="only local files .* 's3://bucket/key'"):
        local_path("s3://bucket/key")


@pytest.mark.parametrize("split_size", [None, 6])
def test_a_bad_line_says_path_and_number(tmp_path, split_size):
    path = tmp_path / "numbers"
    path.write_text("1\n2\n\n3\r\nvier\n5\n")
    format = LineFormat(parse=int, skips_blank=True)
    found = []
    with pytest.raises(CorruptDataError, match=r"numbers, line 5: invalid literal .* 'vier'"):
        for split in split_file(str(path), path.stat().st_size, split_size):
            found += format.read_split(split)


def test_a_reader_that_is_not_used_up_leaves_no_file_open(tmp_path):
    path = tmp_path / "lines"
    path.write_text("1\n2\n" * 1_000)
    before = len(os.listdir("/proc/self/fd"))
    records = StreamFormat.text_line_format().read_split(FileSplit(str(path), 0, 4_000))
    next(records)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    records.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_relative_path_is_that_of_the_program_wherever_a_task_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert local_path("in/a.csv") == str(tmp_path / "in" / "a.csv")
