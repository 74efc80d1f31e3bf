"""What does it cost to request a segment and recycle it, from the global pool and from a local one?

The work is a few nanoseconds, so the loop is in C: ``bench_local_buffer_pool.c``, built here with the sources of the
core. From one thread, and from 2, 4 and 8 that share the pool: then the figure is time by the clock over what all of
them did, and the median, since threads that happen to run one after the other do not meet.
There is no rival in Python; Flink's own figures stand in the table, quoted. Counterpart in Flink:
NetworkBufferPool.requestPooledMemorySegment, LocalBufferPool.requestBuffer.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from measure import OUTPUT, SMOKE

BENCH = Path(__file__).resolve().parent
CSRC = BENCH.parent / "csrc"
COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
ROUNDS = 20_000 if SMOKE else 2_000_000


def build() -> Path:
    """Build the program as the release build builds the core; return the binary."""
    assert COMPILER, "bench_local_buffer_pool.c needs a C compiler: set CC, or install gcc or clang"
    OUTPUT.mkdir(exist_ok=True)
    binary = OUTPUT / "bench_local_buffer_pool"
    sources = [BENCH / "bench_local_buffer_pool.c", *sorted(CSRC.glob("*/*.c"))]
    flags = ["-std=gnu11", "-O3", "-DNDEBUG", f"-I{CSRC}", "-pthread"]
    subprocess.run([COMPILER, *flags, *map(str, sources), "-o", str(binary), "-lm"], check=True, timeout=300)
    return binary


def run(binary: Path) -> list[dict]:
    """Run the program, print its cases as lines of `measure`, and return them."""
    done = subprocess.run([binary, str(ROUNDS)], stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    lines = [line_of(json.loads(text)) for text in done.stdout.splitlines()]
    for line in lines:
        print(json.dumps(line), flush=True)
    return lines


def line_of(case: dict) -> dict:
    name = f"buffer_pool_{case['case']}.flinkbuf"
    name += f"_{case['batch']}_held" if case["batch"] > 1 else ""
    name += f"_{case['threads']}_threads" if case["threads"] > 1 else ""
    best, median = case["ns_best"], case["ns_median"]
    figure = best if case["threads"] == 1 else median
    return {
        "name": name,
        "unit": "segments",
        "count": 1,
        "rate": 1e9 / figure,
        "ns_per_unit": figure,
        "min": best / 1e9,
        "median": median / 1e9,
        "max": None,
    }


@pytest.fixture(scope="module")
def binary():
    return build()


def test_request_and_recycle(benchmark, binary):
    benchmark.extra_info["lines"] = benchmark.pedantic(run, args=(binary,), rounds=1)


if __name__ == "__main__":
    run(build())
