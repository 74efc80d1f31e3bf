"""How much faster do stream programs run here than on PyFlink, set as suits it best, with few and with many keys?

The four programs of tests/pyflink/speed_programs.py, one after the other in one run, the same source but for the
import. PyFlink takes part three times: as shipped; in process mode, bundles and a cache of state that hold all keys;
in thread mode, inside the process of the JVM. Who reads a figure beside PyFlink takes the fastest of the three.
Needs the environment that ``make bench`` installs (1 GB, Java); FLINKBUF_PYFLINK says where it is.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from measure import OUTPUT, SMOKE, report, scaled

PYFLINK = Path(os.environ.get("FLINKBUF_PYFLINK", OUTPUT.parent / "build" / "pyflink"))
RUN_SPEED = OUTPUT.parent / "tests" / "pyflink" / "run_speed.py"
KEYS = (100, 1_000, 100_000)

REUSE = "pipeline.object-reuse=true"
SETTINGS = {
    "pyflink_as_shipped": [],
    # Beyond the number of keys, so that state crosses to the JVM once a bundle at most.
    "pyflink_process": [
        "python.fn-execution.bundle.size=200000",
        "python.fn-execution.bundle.time=5000",
        "python.state.cache-size=200000",
        REUSE,
    ],
    "pyflink_thread": ["python.execution-mode=thread", REUSE],
}
JOBS = {
    "chain": "map_filter_map",
    "count": "keyed_count",
    "window": "tumbling_window_sum",
    "timers": "state_and_a_timer_each",
}
WORKS = {"pyflink_chain": ("chain", 1)}
WORKS |= {f"pyflink_{job}_{keys}": (job, keys) for job in ("count", "window", "timers") for keys in KEYS}
CASES = [f"{work}.{contender}" for work in WORKS for contender in ("flinkbuf", *SETTINGS)]

# Enough that what is taken off, the start, is less than what is left; the chain is faster.
RECORDS = {"flinkbuf": 2_000_000, "pyflink_as_shipped": 12_000, "pyflink_process": 200_000, "pyflink_thread": 100_000}
CHAIN_RECORDS = {name: 5_000_000 if name == "flinkbuf" else 600_000 for name in RECORDS}


def is_missing(name):
    return "." in name and not name.endswith(".flinkbuf") and not (PYFLINK / ".ready").exists()


def measure_program(name, benchmark=None):
    work, contender = name.split(".")
    job, keys = WORKS[work]
    records = max(
        3_000, scaled((CHAIN_RECORDS if job == "chain" else RECORDS)[contender])
    )  # run_speed.py takes 1,000 off
    root, python = ("flinkbuf", sys.executable) if contender == "flinkbuf" else ("pyflink", PYFLINK / "bin" / "python")
    command = [python, RUN_SPEED, root, JOBS[job], records, keys, *SETTINGS.get(contender, [])]
    takes_minutes = contender == "pyflink_as_shipped" or (contender != "flinkbuf" and keys == KEYS[-1])
    seconds = []
    for _ in range(1 if SMOKE or takes_minutes else 2):
        done = subprocess.run([str(each) for each in command], capture_output=True, text=True, timeout=900)
        if done.returncode:
            raise RuntimeError(f"{name}: {' '.join(str(each) for each in command)}\n{done.stderr[-3000:]}")
        seconds.append(1 / json.loads(done.stdout.splitlines()[-1])["records_per_s"])
    report(name, seconds, 1, "records", benchmark=benchmark)


@pytest.mark.parametrize("name", CASES)
def test_program(benchmark, name):
    if is_missing(name):
        pytest.skip("PyFlink is not installed: make build/pyflink/.ready")
    benchmark.pedantic(lambda: None, rounds=1)
    measure_program(name, benchmark)


if __name__ == "__main__":
    for name in CASES:
        if not is_missing(name):
            measure_program(name)
