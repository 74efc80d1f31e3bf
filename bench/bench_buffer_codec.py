"""How fast are 32 KiB buffers compressed and restored, next to the package lz4? In bytes of the original a second."""

import random

import pytest
from measure import measure, scaled

from flinkbuf._core.memory.buffer_codec import BufferCodec

lz4 = pytest.importorskip("lz4.block") if __name__ != "__main__" else __import__("lz4.block").block
SIZE = 32 * 1024
COUNT = scaled(64)
CODEC = BufferCodec("LZ4")


def records() -> list[bytes]:
    """Buffers of flights: numbers, names out of few, delays."""
    airports = [f"{chr(65 + n % 26)}{chr(65 + n * 7 % 26)}{chr(65 + n * 11 % 26)}".encode() for n in range(100)]
    draw = random.Random(1)
    data = b"".join(
        b"\0\0\0\x20"
        + n.to_bytes(8, "big")
        + draw.choice(airports)
        + draw.choice(airports)
        + draw.randbytes(4)
        + bytes(6)
        for n in range(SIZE * COUNT // 28 + 1)
    )
    return [data[n * SIZE : (n + 1) * SIZE] for n in range(COUNT)]


def text() -> list[bytes]:
    words = [random.Random(n).randbytes(n % 9 + 2).hex().encode() for n in range(3000)]
    draw = random.Random(2)
    data = b" ".join(draw.choice(words) for _ in range(SIZE * COUNT // 4))
    return [data[n * SIZE : (n + 1) * SIZE] for n in range(COUNT)]


INPUTS = {"records": records(), "text": text(), "random": [random.Random(n).randbytes(SIZE) for n in range(COUNT)]}
CASES = {}
for kind, buffers in INPUTS.items():
    ours = [CODEC.compress(data) for data in buffers]
    theirs = [lz4.compress(data, store_size=False) for data in buffers]
    CASES[f"compress_{kind}.flinkbuf"] = (lambda b=buffers: [CODEC.compress(data) for data in b], SIZE * COUNT, "bytes")
    CASES[f"compress_{kind}.lz4"] = (
        lambda b=buffers: [lz4.compress(data, store_size=False) for data in b],
        SIZE * COUNT,
        "bytes",
    )
    if ours[0] is not None:
        CASES[f"restore_{kind}.flinkbuf"] = (
            lambda b=ours: [CODEC.decompress(d, SIZE) for d in b],
            SIZE * COUNT,
            "bytes",
        )
        CASES[f"restore_{kind}.lz4"] = (
            lambda b=theirs: [lz4.decompress(data, uncompressed_size=SIZE) for data in b],
            SIZE * COUNT,
            "bytes",
        )


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name], benchmark=benchmark)


if __name__ == "__main__":
    for kind, buffers in INPUTS.items():
        sizes = [
            sum(len(f(d) or d) for d in buffers) for f in (CODEC.compress, lambda d: lz4.compress(d, store_size=False))
        ]
        print(f"# {kind}: {sizes[0] / SIZE / COUNT:.3f} of its size by flinkbuf, {sizes[1] / SIZE / COUNT:.3f} by lz4")
    for name in CASES:
        measure(name, *CASES[name])
