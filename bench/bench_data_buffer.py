"""What does a record cost that goes to one of 1000 subpartitions through the shared log, next to a list for each?

The log is 4 MiB whatever the number of subpartitions; it is written until it is full, then read in subpartition order
in buffers of 32 KiB. The rival gathers the same bytes in a dict of lists and joins each. Counterpart in Flink:
SortBasedDataBuffer under StreamNetworkThroughputBenchmark with many channels.
"""

import random
from collections import defaultdict

import pytest
from measure import measure, scaled

from flinkbuf._core.data_buffer import DataBuffer

RECORD = bytes(100)
SUBPARTITIONS = 1000
SEGMENTS, SEGMENT_SIZE = 128, 32768
COUNT = scaled(36_000)  # just less than fit
CHANNELS = random.Random(7).choices(range(SUBPARTITIONS), k=COUNT)
LOG = DataBuffer(SUBPARTITIONS, SEGMENTS, SEGMENT_SIZE)


def flinkbuf():
    append = LOG.append
    for channel in CHANNELS:
        append(channel, RECORD)
    LOG.finish()
    size = sum(len(data) for _, _, data in LOG)
    LOG.reset()
    return size


def dict_of_lists():
    channels = defaultdict(list)
    for channel in CHANNELS:
        channels[channel].append(RECORD)
    size = 0
    for channel in sorted(channels):
        data = b"".join(channels[channel])
        size += sum(len(data[at : at + SEGMENT_SIZE]) for at in range(0, len(data), SEGMENT_SIZE))
    return size


CASES = {f"data_buffer_1000_subpartitions.{run.__name__}": run for run in (flinkbuf, dict_of_lists)}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    assert CASES[name]() == COUNT * len(RECORD)
    measure(name, CASES[name], COUNT, "records", benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure(name, CASES[name], COUNT, "records")
