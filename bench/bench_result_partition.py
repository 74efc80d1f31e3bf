"""What does it cost to write one record of raw bytes into a partition of 8 channels, in C and from Python?

In C (``bench_result_partition.c``): in place as the record writer does it, with and without the mark for the flusher,
and by emit. From Python the rival is what one would write by hand: a bytearray per channel, cut at 32 KiB.
Flink: StreamNetworkBroadcastThroughputBenchmark and the write half of StreamNetworkThroughputBenchmark.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from measure import OUTPUT, SMOKE, measure, scaled

import flinkbuf as fb
from flinkbuf.network.partition import ResultPartition

BENCH = Path(__file__).resolve().parent
CSRC = BENCH.parent / "csrc"
COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
ROUNDS = 100_000 if SMOKE else 5_000_000
CHANNELS, SEGMENT_SIZE = 8, 32768
COUNT = scaled(100_000)
RECORD = b"\0\0\0\x64" + bytes(100)


def run_in_c() -> list[dict]:
    """Build the program as the release build builds the core, run it, print its cases as lines of `measure`."""
    assert COMPILER, "bench_result_partition.c needs a C compiler: set CC, or install gcc or clang"
    OUTPUT.mkdir(exist_ok=True)
    binary = OUTPUT / "bench_result_partition"
    sources = [BENCH / "bench_result_partition.c", *sorted(CSRC.glob("*/*.c"))]
    flags = ["-std=gnu11", "-O3", "-DNDEBUG", f"-I{CSRC}", "-pthread"]
    subprocess.run([COMPILER, *flags, *map(str, sources), "-o", str(binary), "-lm"], check=True, timeout=300)
    done = subprocess.run([binary, str(ROUNDS)], stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    lines = []
    for case in map(json.loads, done.stdout.splitlines()):
        best, median = case["ns_best"], case["ns_median"]
        lines.append(
            {
                "name": f"result_partition_{case['case']}.flinkbuf",
                "unit": "records",
                "count": 1,
                "rate": 1e9 / best,
                "ns_per_unit": best,
                "min": best / 1e9,
                "median": median / 1e9,
                "max": None,
            }
        )
        print(json.dumps(lines[-1]), flush=True)
    return lines


def flinkbuf():
    size, network = 0, fb.NetworkBufferPool(64, SEGMENT_SIZE)
    with ResultPartition(network, CHANNELS, "PIPELINED") as partition:
        views = [partition.create_view(channel) for channel in range(CHANNELS)]
        for number in range(COUNT):
            channel = number % CHANNELS
            partition.emit(RECORD, channel)
            if number % 2048 == 0:
                size += sum(read(view) for view in views)
        partition.finish()
        size += sum(read(view) for view in views)
    return size


def read(view):
    size = 0
    while view.is_available:
        with view.poll()[0] as buffer:
            size += buffer.size if buffer.is_buffer else 0
    return size


def bytearrays():
    size, buffers = 0, [bytearray() for _ in range(CHANNELS)]
    for number in range(COUNT):
        buffer = buffers[number % CHANNELS]
        buffer += RECORD
        if len(buffer) >= SEGMENT_SIZE:
            size += len(bytes(buffer[:SEGMENT_SIZE]))
            del buffer[:SEGMENT_SIZE]
    return size + sum(map(len, buffers))


CASES = {f"result_partition_100_bytes_from_python.{run.__name__}": run for run in (flinkbuf, bytearrays)}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    assert CASES[name]() == COUNT * len(RECORD)
    measure(name, CASES[name], COUNT, "records", benchmark=benchmark)


def test_rate_in_c(benchmark):
    benchmark.extra_info["lines"] = benchmark.pedantic(run_in_c, rounds=1)


if __name__ == "__main__":
    run_in_c()
    for name in CASES:
        measure(name, CASES[name], COUNT, "records")
