"""Compressed buffers: against what Flink wrote, both ways, and against bytes that nobody should write."""

import hashlib
import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.errors import CorruptDataError
from flinkbuf.network.buffer import Buffer
from flinkbuf.network.compression import BufferCompressor, BufferDecompressor

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/compression/compression.json").read_text())["cases"]
CODECS = ["LZ4", "ZSTD"]
SEGMENT_SIZE = 32768


def original_of(case):
    if case["input"] is not None:
        data = bytes.fromhex(case["input"])
    elif case["name"] == "zeros_32768":
        data = bytes(32768)
    else:
        data = b"".join(b"record %d of the golden text, key=%d;\n" % (i, i % 13) for i in range(1000))[:32768]
    assert hashlib.sha256(data).hexdigest() == case["input_sha256"]
    return data


def cases(*, compressed):
    chosen = [case for case in GOLDEN if case["codec"] in CODECS and case["compressed"] == compressed]
    assert len(chosen) == (14 if compressed else 6)
    return pytest.mark.parametrize("case", chosen, ids=lambda case: f"{case['codec']}-{case['name']}")


def test_every_case_of_flink_is_of_a_codec_that_is_read_or_refused():
    assert {case["codec"] for case in GOLDEN} == {*CODECS, "LZO"}


@cases(compressed=True)
def test_what_flink_compressed_is_read(case):
    decompressor = BufferDecompressor(case["codec"], SEGMENT_SIZE)
    assert decompressor.decompress(bytes.fromhex(case["output"])) == original_of(case)


@cases(compressed=True)
def test_what_flink_compresses_is_compressed(case):
    output = BufferCompressor(case["codec"], SEGMENT_SIZE).compress(original_of(case))
    assert BufferDecompressor(case["codec"]).decompress(output) == original_of(case)
    # Another version of a codec may find another block that is as good.
    assert abs(len(output) - len(case["output"]) // 2) <= 0.02 * case["size"]


@cases(compressed=False)
def test_what_flink_sends_as_it_is_is_sent_as_it_is(case):
    assert BufferCompressor(case["codec"], SEGMENT_SIZE).compress(original_of(case)) is None


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.one_of(st.binary(min_size=1, max_size=5000), st.binary(min_size=1, max_size=8).map(lambda b: b * 400)))
def test_what_was_compressed_comes_back(codec, data):
    output = BufferCompressor(codec).compress(data)
    if output is not None:
        assert len(output) < len(data)
        assert struct.unpack_from("<ii", output) == (len(output) - 8, len(data))
        assert BufferDecompressor(codec).decompress(output) == data


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_damaged_blocks_are_errors_or_another_original_of_the_stated_size(codec, data):
    output = bytearray(BufferCompressor(codec).compress(b"some records, some records, some more records" * 20))
    for _ in range(data.draw(st.integers(1, 4))):
        output[data.draw(st.integers(0, len(output) - 1))] = data.draw(st.integers(0, 255))
    try:
        original = BufferDecompressor(codec, 4096).decompress(output)
    except CorruptDataError:
        return
    assert len(original) == struct.unpack_from("<i", output, 4)[0] <= 4096


@pytest.mark.parametrize("codec", CODECS)
@given(st.binary(max_size=200), st.integers(1, 2000))
def test_bytes_of_anybody_are_errors_and_never_anything_else(codec, block, size):
    data = struct.pack("<ii", len(block), size) + block
    try:
        assert len(BufferDecompressor(codec, 4096).decompress(data)) == size
    except CorruptDataError as error:
        assert f"a buffer of {len(data)} bytes compressed with {codec}" in str(error)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "change, message",
    [
        (lambda data: b"", "header alone"),
        (lambda data: data[:8], "header alone"),
        (lambda data: data[:-1], "states a block of"),
        (lambda data: data + b"x", "states a block of"),
        (lambda data: struct.pack("<i", -1) + data[4:], "states a block of -1"),
        (lambda data: struct.pack("<i", 2**31 - 1) + data[4:], "states a block of 2147483647"),
        (lambda data: data[:4] + struct.pack("<i", 0) + data[8:], "an original of 0"),
        (lambda data: data[:4] + struct.pack("<i", -5) + data[8:], "an original of -5"),
        (lambda data: data[:4] + struct.pack("<i", 2**31 - 1) + data[8:], "more than a segment of 4096"),
        (lambda data: data[:4] + struct.pack("<i", 4097) + data[8:], "more than a segment of 4096"),
        (lambda data: data[:4] + struct.pack("<i", 4096) + data[8:], "states"),
        (lambda data: data[:4] + struct.pack("<i", 999) + data[8:], "no block of that codec"),
        (lambda data: data[:8] + bytes(len(data) - 8), "no block of that codec"),
    ],
)
def test_lengths_are_checked_against_what_is_there(codec, change, message):
    data = BufferCompressor(codec).compress(bytes(range(100)) * 10)
    with pytest.raises(CorruptDataError, match=message):
        BufferDecompressor(codec, 4096).decompress(change(data))


@pytest.mark.parametrize("codec, other", [CODECS, CODECS[::-1]])
def test_a_block_of_the_other_codec_asks_whether_the_producer_uses_another(codec, other):
    data = BufferCompressor(codec).compress(bytes(1000))
    with pytest.raises(CorruptDataError, match="producer"):
        BufferDecompressor(other).decompress(data)


def test_a_frame_that_states_a_huge_original_takes_no_memory_for_it():
    zstandard = pytest.importorskip("zstandard")
    # A frame header alone: single segment, content size of 8 bytes: 2**62.
    frame = bytes.fromhex("28b52ffde0") + struct.pack("<Q", 2**62) + bytes(20)
    assert zstandard.frame_content_size(frame) == 2**62
    with pytest.raises(CorruptDataError, match=f"states an original of {2**62} bytes"):
        BufferDecompressor("ZSTD").decompress(struct.pack("<ii", len(frame), 1000) + frame)


def test_frames_that_do_not_state_their_size_are_read_and_bounded():
    zstandard = pytest.importorskip("zstandard")
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(b"a" * 1000)
    assert BufferDecompressor("ZSTD").decompress(struct.pack("<ii", len(frame), 1000) + frame) == b"a" * 1000
    for size in (999, 1001):
        with pytest.raises(CorruptDataError):
            BufferDecompressor("ZSTD").decompress(struct.pack("<ii", len(frame), size) + frame)


@pytest.mark.parametrize("codec", CODECS)
def test_every_kind_of_bytes_is_taken(codec):
    data = bytes(500)
    output = BufferCompressor(codec).compress(data)
    for kind in (bytearray, memoryview, Buffer.copy_of):
        assert BufferCompressor(codec).compress(kind(data)) == output
        assert BufferDecompressor(codec).decompress(kind(output)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_a_buffer_is_let_go_when_it_was_read(codec):
    buffer = Buffer.copy_of(BufferCompressor(codec).compress(bytes(500)))
    BufferDecompressor(codec).decompress(buffer)
    buffer.release()
    with pytest.raises(RuntimeError):
        memoryview(buffer)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 4097])
def test_what_is_no_buffer_of_the_segment_size_is_refused(codec, size):
    with pytest.raises(ValueError, match=f"a buffer of {size} bytes"):
        BufferCompressor(codec, 4096).compress(bytes(size))


@pytest.mark.parametrize("kind", [BufferCompressor, BufferDecompressor])
def test_codecs_are_asked_for_by_flinks_name(kind):
    with pytest.raises(ValueError, match="one of LZ4, ZSTD, got 'lz4'"):
        kind("lz4")
    with pytest.raises(ValueError, match="does not read or write LZO: set .*codec to LZ4 or ZSTD"):
        kind("LZO")
    with pytest.raises(ValueError, match="NONE is no codec for a buffer that is compressed"):
        kind("NONE")
    for size in (0, -1, 2**30 + 1):
        with pytest.raises(ValueError, match="segment_size"):
            kind("LZ4", size)


def test_a_missing_package_is_named_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ImportError, match=r"ZSTD need the package zstandard: pip install flinkbuf\[compression\]"):
        BufferDecompressor("ZSTD")


def test_lz4_needs_no_package(monkeypatch):
    for name in ("lz4", "lz4.block"):
        monkeypatch.setitem(sys.modules, name, None)
    assert BufferDecompressor("LZ4").decompress(BufferCompressor("LZ4").compress(bytes(1000))) == bytes(1000)


def test_importing_flinkbuf_imports_no_codec():
    code = "import sys, flinkbuf; sys.exit(any(name.partition('.')[0] in ('lz4', 'zstandard') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
