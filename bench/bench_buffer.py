"""What does it cost to look at the bytes of a buffer from Python, and to cut it, next to bytes and memoryview?"""

import pytest
from measure import measure, scaled

from flinkbuf._core.memory.buffer import Buffer

COUNT = scaled(20_000)
DATA = bytes(32768)
BUFFER, VIEW = Buffer.copy_of(DATA), memoryview(DATA)


def slice_buffer():
    for _ in range(COUNT):
        BUFFER.slice(8, 1024)


def slice_memoryview():
    for _ in range(COUNT):
        VIEW[8:1032]


def view_buffer():
    for _ in range(COUNT):
        memoryview(BUFFER)


def view_bytes():
    for _ in range(COUNT):
        memoryview(DATA)


CASES = {
    "buffer_slice.flinkbuf": (slice_buffer, COUNT, "slices"),
    "buffer_slice.memoryview": (slice_memoryview, COUNT, "slices"),
    "buffer_view.flinkbuf": (view_buffer, COUNT, "views"),
    "buffer_view.bytes": (view_bytes, COUNT, "views"),
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name], benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure(name, *CASES[name])
