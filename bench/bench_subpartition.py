"""What does a 32 KiB buffer cost on its way from the writer to the reader of the same process, copy included?

The rival is what one would take without us: the bytes through a ``queue.SimpleQueue``. Both sides run in one thread, so
that the figure is the hand-over and not the scheduler. Flink: part of StreamNetworkThroughputBenchmark, local.
"""

from queue import SimpleQueue

import pytest
from measure import measure, scaled

import flinkbuf as fb
from flinkbuf.network.partition import ResultPartition

SEGMENT_SIZE = 32768
COUNT = scaled(2000)
DATA = bytearray(SEGMENT_SIZE)
NETWORK = fb.NetworkBufferPool(16, SEGMENT_SIZE)


def flinkbuf():
    size = 0
    with ResultPartition(NETWORK, 1) as partition, partition.create_view(0) as view:
        for _ in range(COUNT):
            partition.emit(DATA, 0)
            with view.poll()[0] as buffer:
                size += buffer.size
    return size


def simple_queue():
    size = 0
    queue = SimpleQueue()
    for _ in range(COUNT):
        queue.put(bytes(DATA))
        size += len(queue.get())
    return size


CASES = {f"subpartition_32KiB.{run.__name__}": run for run in (flinkbuf, simple_queue)}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    assert CASES[name]() == COUNT * SEGMENT_SIZE
    measure(name, CASES[name], COUNT, "buffers", benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure(name, CASES[name], COUNT, "buffers")
