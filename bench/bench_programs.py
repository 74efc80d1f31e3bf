"""Runs the benchmarks that need a process of their own, and keeps the lines they print.

That is each ``bench_*.py`` without a test function, such as one that starts Spark. It prints the JSON lines of
`measure`; whatever else it prints is passed on.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from measure import SMOKE

BENCH = Path(__file__).resolve().parent
TIMEOUT_S = 900


def programs() -> list[Path]:
    return sorted(path for path in BENCH.glob("bench_*.py") if "\ndef test_" not in path.read_text(encoding="utf-8"))


def run(path: Path) -> list[dict]:
    """Run one program and return its lines."""
    command = [sys.executable, str(path)] + ["--smoke"] * SMOKE
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, cwd=BENCH.parent)
    print(done.stdout, end="", flush=True)
    assert done.returncode == 0, f"{path.name} ended with {done.returncode}"
    lines = [json.loads(text) for text in done.stdout.splitlines() if text.startswith('{"name"')]
    assert lines, f"{path.name} printed no figures"
    return lines


@pytest.mark.parametrize("path", programs(), ids=lambda path: path.name)
def test_program(benchmark, path):
    benchmark.extra_info["lines"] = benchmark.pedantic(run, args=(path,), rounds=1)


if __name__ == "__main__":
    for program in programs():
        run(program)
