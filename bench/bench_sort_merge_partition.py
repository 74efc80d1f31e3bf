"""How fast is a sort-merge partition of 1, 100 and 1,000 subpartitions written and read, next to plain files?

The rival writes and reads as many bytes in pieces of 256 KiB, in turns with ours. Records have 1 KiB; where there are
fewer than two buffers for each subpartition they go through a log. The loops are in C:
``bench_sort_merge_partition.c``, built here with the sources of the core. Counterpart in Flink:
BlockingPartitionBenchmark.
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from measure import OUTPUT, SMOKE

BENCH = Path(__file__).resolve().parent
CSRC = BENCH.parent / "csrc"
COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
MEGABYTES = 8 if SMOKE else 256


def build() -> Path:
    """Build the program as the release build builds the core; return the binary."""
    assert COMPILER, "bench_sort_merge_partition.c needs a C compiler: set CC, or install gcc or clang"
    OUTPUT.mkdir(exist_ok=True)
    binary = OUTPUT / "bench_sort_merge_partition"
    sources = [BENCH / "bench_sort_merge_partition.c", *sorted(CSRC.glob("*/*.c"))]
    flags = ["-std=gnu11", "-O3", "-DNDEBUG", f"-I{CSRC}", "-pthread"]
    subprocess.run([COMPILER, *flags, *map(str, sources), "-o", str(binary), "-lm"], check=True, timeout=300)
    return binary


def run(binary: Path) -> list[dict]:
    """Run the program, print its cases as lines of `measure`, and return them."""
    with tempfile.TemporaryDirectory() as folder:
        command = [binary, str(MEGABYTES), folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    lines = [line_of(json.loads(text)) for text in done.stdout.splitlines()]
    for line in lines:
        print(json.dumps(line), flush=True)
    return lines


def line_of(case: dict) -> dict:
    """A line in bytes a second, from the best of the turns."""
    return {
        "name": f"sort_merge_partition_{case['case']}.{case['who']}",
        "unit": "bytes",
        "count": case["bytes"],
        "rate": case["bytes"] / case["s_best"],
        "ns_per_unit": case["s_best"] * 1e9 / case["bytes"],
        "min": case["s_best"],
        "median": case["s_median"],
        "max": case["s_worst"],
    }


@pytest.fixture(scope="module")
def binary():
    return build()


def test_write_and_read(benchmark, binary):
    benchmark.extra_info["lines"] = benchmark.pedantic(run, args=(binary,), rounds=1)


if __name__ == "__main__":
    run(build())
