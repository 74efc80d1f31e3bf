"""What does one checked access to a memory segment cost from Python, next to ``struct`` on a bytearray?

In C these accesses are inlined; here it is the call that costs. Counterpart: Flink's
``MemorySegmentOperationsBenchmark`` (``putLongBigEndian``, ``getLongBigEndian``, ``compare``).
"""

import struct

import pytest
from measure import measure, scaled

from flinkbuf._core.memory.memory_segment import MemorySegment

SIZE = 32768
OFFSETS = [offset % (SIZE - 8) for offset in range(0, 7 * scaled(20_000), 7)]
SEGMENT = MemorySegment(SIZE)
SAME = [MemorySegment(SIZE), MemorySegment(SIZE)]  # equal to the last byte, so that a comparison reads all
SAME_ARRAYS = [bytearray(SIZE), bytearray(SIZE)]
ARRAY = bytearray(SIZE)
LONG = struct.Struct(">q")


def put_long():
    put = SEGMENT.put_long_big_endian
    for offset in OFFSETS:
        put(offset, offset)


def pack_into():
    put = LONG.pack_into
    for offset in OFFSETS:
        put(ARRAY, offset, offset)


def get_long():
    get = SEGMENT.get_long_big_endian
    for offset in OFFSETS:
        get(offset)


def unpack_from():
    get = LONG.unpack_from
    for offset in OFFSETS:
        get(ARRAY, offset)


def compare_segments():
    left, right = SAME
    for _ in range(100):
        left.compare(right, 0, 0, SIZE)


def compare_bytearrays():
    left, right = SAME_ARRAYS
    for _ in range(100):
        left < right


CASES = {
    "memory_segment_put.flinkbuf": (put_long, len(OFFSETS), "puts"),
    "memory_segment_put.struct": (pack_into, len(OFFSETS), "puts"),
    "memory_segment_get.flinkbuf": (get_long, len(OFFSETS), "gets"),
    "memory_segment_get.struct": (unpack_from, len(OFFSETS), "gets"),
    "memory_segment_compare.flinkbuf": (compare_segments, 100 * SIZE, "bytes"),
    "memory_segment_compare.bytearray": (compare_bytearrays, 100 * SIZE, "bytes"),
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name], benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure(name, *CASES[name])
