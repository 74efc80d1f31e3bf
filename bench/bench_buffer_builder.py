"""What does it cost to fill pooled buffers from Python and hand them on, next to a BytesIO cut into blocks?

One unit is an append of 100 bytes; every 327 of them a buffer is finished, built by its consumer and recycled.
"""

from io import BytesIO

import pytest
from measure import measure, scaled

from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool

COUNT = scaled(32_700)
RECORD = bytes(100)
PER_BUFFER = 32768 // len(RECORD)
NETWORK = NetworkBufferPool(16, segment_size=32768)
POOL = NETWORK.create_buffer_pool(min=4)


def fill_buffers():
    for _ in range(0, COUNT, PER_BUFFER):
        with POOL.request() as builder, builder.create_buffer_consumer() as consumer:
            append = builder.append
            for _ in range(PER_BUFFER):
                append(RECORD)
            builder.finish()
            consumer.build().release()


def fill_bytes_io():
    for _ in range(0, COUNT, PER_BUFFER):
        block = BytesIO()
        append = block.write
        for _ in range(PER_BUFFER):
            append(RECORD)
        block.getvalue()


CASES = {
    "buffer_builder_append.flinkbuf": (fill_buffers, COUNT, "appends"),
    "buffer_builder_append.bytes_io": (fill_bytes_io, COUNT, "appends"),
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name], benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure(name, *CASES[name])
