"""How fast is the checksum of state, next to zlib's and to a copy of the same bytes? In bytes a second."""

import os
import zlib

import pytest
from measure import measure, scaled

from flinkbuf._core.ground.crc32 import crc32

DATA = os.urandom(scaled(1 << 20))
SMALL = DATA[:128]

CASES = {
    "crc32.flinkbuf": (lambda: crc32(DATA), len(DATA), "bytes"),
    "crc32.zlib": (lambda: zlib.crc32(DATA), len(DATA), "bytes"),
    "crc32.copy": (lambda: bytearray(DATA), len(DATA), "bytes"),
    "crc32_128_bytes.flinkbuf": (lambda: crc32(SMALL), len(SMALL), "bytes"),
    "crc32_128_bytes.zlib": (lambda: zlib.crc32(SMALL), len(SMALL), "bytes"),
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name], benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure(name, *CASES[name])
