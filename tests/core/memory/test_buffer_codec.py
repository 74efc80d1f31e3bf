"""The codecs of single buffers: LZ4 of our own against the package lz4, both ways; one ZSTD codec in many threads."""

import random
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf._core.memory.buffer_codec import BlockDecompressor, BufferCodec
from flinkbuf.errors import CorruptDataError
from flinkbuf.network.compression import buffer_codec

HEADER = struct.Struct("<ii")

# Bytes with repetitions near and far: pieces, each perhaps many times, some of them again.
PIECES = st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.integers(1, 60)), min_size=1, max_size=12)
COMPRESSIBLE = st.builds(
    lambda pieces, order: b"".join(pieces[i % len(pieces)][0] * pieces[i % len(pieces)][1] for i in order),
    PIECES,
    st.lists(st.integers(0, 11), min_size=1, max_size=30),
)


def lz4_block():
    return pytest.importorskip("lz4.block")


@given(st.one_of(st.binary(min_size=1, max_size=3000), COMPRESSIBLE))
def test_what_we_compress_the_package_restores(data):
    block = BufferCodec("LZ4").compress(data)
    if block is None:
        return
    assert len(block) < len(data) and HEADER.unpack_from(block) == (len(block) - 8, len(data))
    assert lz4_block().decompress(block[8:], uncompressed_size=len(data)) == data


@given(
    st.one_of(st.binary(min_size=1, max_size=3000), COMPRESSIBLE),
    st.sampled_from(["fast", "default", "high_compression"]),
)
def test_what_the_package_compresses_we_restore(data, mode):
    body = lz4_block().compress(data, mode=mode, store_size=False)
    assert BufferCodec("LZ4").decompress(HEADER.pack(len(body), len(data)) + body, len(data)) == data


@pytest.mark.parametrize("size", [65535, 65536, 65537, 1 << 20])
def test_large_blocks_are_the_same_both_ways(size):
    words = [random.Random(n).randbytes(n % 30 + 1) for n in range(500)]
    choose = random.Random(size).choice
    data = b"".join(choose(words) for _ in range(size // 8))[:size]
    block = BufferCodec("LZ4").compress(data)
    theirs = lz4_block().compress(data, store_size=False)
    assert lz4_block().decompress(block[8:], uncompressed_size=len(data)) == data
    assert BufferCodec("LZ4").decompress(HEADER.pack(len(theirs), len(data)) + theirs, len(data)) == data
    assert len(block) < 1.05 * len(theirs)  # as small as theirs


@given(st.binary(max_size=300), st.integers(1, 5000))
def test_what_we_restore_of_any_bytes_the_package_restores_likewise(body, size):
    try:
        original = BufferCodec("LZ4").decompress(HEADER.pack(len(body), size) + body, size)
    except CorruptDataError:
        return
    assert len(original) == size
    try:
        assert lz4_block().decompress(body, uncompressed_size=size) == original
    except lz4_block().LZ4BlockError:
        pass  # it wants the last bytes of a block to be literals, as its own are


@pytest.mark.parametrize("name", ["LZ4", "ZSTD"])
def test_one_codec_works_in_many_threads(name):
    codec = buffer_codec(name)
    inputs = [random.Random(n).randbytes(100) * (n + 2) for n in range(40)]

    def round_trip(data):
        return codec.decompress(codec.compress(data), len(data)) == data

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(round_trip, inputs * 10))


@pytest.mark.parametrize("name", ["LZ4", "ZSTD"])
def test_an_original_that_is_too_large_takes_no_memory(name):
    codec = buffer_codec(name)
    block = codec.compress(bytes(1000))
    with pytest.raises(CorruptDataError, match="over its limit"):
        codec.decompress(block, 999)
    assert codec.decompress(block, 1000) == bytes(1000)


def test_codecs_are_made_of_a_name():
    assert BufferCodec("LZ4").name == "LZ4" and buffer_codec("ZSTD").name == "ZSTD"
    for name in ("ZSTD", "lz4", ""):
        with pytest.raises(ValueError, match="codec must be"):
            BufferCodec(name)
    with pytest.raises(TypeError):
        BlockDecompressor(None, 100)
