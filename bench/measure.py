"""The one harness: times a function over some units of work and prints a rate as one JSON line.

A benchmark file asks one question, in its docstring, and answers it with rivals in the same run. It works as a
script (``python bench/bench_x.py``) and under pytest-benchmark (``pytest bench/ --benchmark-json=FILE``)::

    from measure import measure

    CASES = {
        "memory_segment.put_int64": (put_int64, len(OFFSETS), "puts"),
        "memory_segment.struct_pack_into": (struct_pack_into, len(OFFSETS), "puts"),
    }

    @pytest.mark.parametrize("name", CASES)
    def test_rate(benchmark, name):
        measure(name, *CASES[name], benchmark=benchmark)

    if __name__ == "__main__":
        for name in CASES:
            measure(name, *CASES[name])

How it measures, for all contenders alike: one warm-up call; then 7 repeats, each of as many calls as fill 20 ms;
set-up is outside the clock; what is alive is frozen out of the garbage collector, and the collector is off while
the clock runs, so that nobody pays for another's garbage. The rate is that of the fastest repeat, since a busy
machine only ever adds time; median and slowest are printed beside it.
"""

import gc
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import Any

SMOKE = "--smoke" in sys.argv or os.environ.get("FLINKBUF_BENCH_SMOKE") == "1"
REPEATS = 2 if SMOKE else 7
REPEAT_SECONDS = 0.002 if SMOKE else 0.02  # a shorter repeat would measure the clock and the scheduler
OUTPUT = Path(__file__).resolve().parent.parent / "bench-output"  # figures, and data worth keeping between runs

if find_spec("flinkbuf") is None:
    # A script finds the installed package; in a tree that is only built in place, it finds that one.
    sys.path.append(str(OUTPUT.parent))


def scaled(count: int) -> int:
    """Return `count`, or a twentieth of it in a smoke run, where figures only have to exist."""
    return max(1, count // 20) if SMOKE else count


def measure(
    name: str,
    function: Callable[[], object],
    count: int,
    unit: str,
    *,
    benchmark: Any = None,
    repeats: int = REPEATS,
) -> dict[str, Any]:
    """Time `function`, print one JSON line and return it.

    Parameters
    ----------
    name : str
        ``<work>.<contender>``, the name by which the table finds the figure.
    function : callable
        One call does `count` units of work; its result is thrown away.
    count : int
        Units per call, at least 1.
    unit : str
        What is counted, in the plural: ``"records"``, ``"bytes"``, ``"segments"``.
    benchmark : BenchmarkFixture, optional
        The pytest-benchmark fixture; it then holds the clock, and the line goes into its JSON as
        ``extra_info["lines"]``.
    repeats : int, default 7
        How often the clock is started; 2 in a smoke run.

    Returns
    -------
    dict
        ``name``, ``unit``, ``count``; ``rate`` in units per second and ``ns_per_unit``, both of the fastest
        repeat; ``min``, ``median``, ``max`` in seconds per call.
    """
    if count < 1:
        raise ValueError(f"{name}: count must be at least 1 unit per call, got {count}")
    function()  # warm-up: caches, lazy set-up and specialised bytecode are not the question
    with _quiet_collector():
        calls = _calls_per_repeat(function)
        if benchmark is None:
            seconds = [_time_calls(function, calls) for _ in range(repeats)]
        else:
            benchmark.pedantic(function, rounds=repeats, iterations=calls)
            # Off with --benchmark-disable, where the function only has to run.
            seconds = list(benchmark.stats.stats.data) if benchmark.stats else [_time_calls(function, 1)]
    return report(name, seconds, count, unit, benchmark=benchmark)


def report(name: str, seconds: list[float], count: int, unit: str, *, benchmark: Any = None) -> dict[str, Any]:
    """Print the line of work that was timed, in seconds per call, and return it."""
    line = summarize(name, seconds, count, unit)
    if benchmark is not None:
        benchmark.extra_info.setdefault("lines", []).append(line)
    print(json.dumps(line), flush=True)
    return line


def summarize(name: str, seconds: list[float], count: int, unit: str) -> dict[str, Any]:
    """Make the line of `measure` out of seconds per call."""
    fastest = max(min(seconds), 1e-9)  # the clock's own resolution; a rate stays finite
    return {
        "name": name,
        "unit": unit,
        "count": count,
        "rate": count / fastest,
        "ns_per_unit": fastest / count * 1e9,
        "min": min(seconds),
        "median": statistics.median(seconds),
        "max": max(seconds),
    }


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Keep the garbage collector out of the figures, and leave it as it was."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


def _time_calls(function: Callable[[], object], calls: int) -> float:
    """Return the seconds per call over `calls` calls."""
    start = perf_counter()
    for _ in range(calls):
        function()
    return (perf_counter() - start) / calls


def _calls_per_repeat(function: Callable[[], object]) -> int:
    """Return how many calls fill one repeat."""
    return max(1, ceil(REPEAT_SECONDS / max(_time_calls(function, 1), 1e-7)))
