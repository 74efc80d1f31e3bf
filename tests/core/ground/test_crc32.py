"""The core's CRC 32 says what zlib's says."""

import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf._core.ground.crc32 import crc32


@given(data=st.binary(max_size=300), value=st.integers(0, 2**32 - 1), offset=st.integers(0, 20))
def test_checksums_are_zlibs(data, value, offset):
    view = memoryview(data)[offset:]
    assert crc32(view, value) == zlib.crc32(view, value)


@pytest.mark.parametrize("size", [63, 64, 65, 127, 128, 4096, 2**20 - 1, 2**20 + 77])
def test_long_ones_too(size):
    data = random.Random(size).randbytes(size)
    assert crc32(data) == zlib.crc32(data)


def test_only_bytes_have_one():
    with pytest.raises(TypeError):
        crc32("text")
