"""How many records a second PyFlink or flinkbuf takes through each job of speed_programs.py, at parallelism 1.

    python run_speed.py pyflink|flinkbuf [JOB=RECORDS...]

The same job over 1,000 records, run before, is taken off: it is the start of a job and, in PyFlink, of its workers.
"""

import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path

from run_programs import load

FEW = 1000
RECORDS = {
    "pyflink": {
        "map_filter_map": 600_000,
        "keyed_count": 30_000,
        "tumbling_window_sum": 15_000,
        "state_and_a_timer_each": 15_000,
    },
    "flinkbuf": dict.fromkeys(
        ["map_filter_map", "keyed_count", "tumbling_window_sum", "state_and_a_timer_each"], 2_000_000
    ),
}


def seconds(root: str, job, records: int) -> float:
    env = import_module(f"{root}.datastream").StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    started = time.perf_counter()
    for _ in job(env, records).execute_and_collect():
        pass
    return time.perf_counter() - started


def main(root: str, *chosen: str) -> None:
    jobs = load(Path(__file__).with_name("speed_programs.py"), root)
    records = {name: int(count) for name, _, count in (each.partition("=") for each in chosen)} or RECORDS[root]
    for name, count in records.items():
        job = getattr(jobs, name)
        seconds(root, job, FEW)
        start = seconds(root, job, FEW)
        whole = seconds(root, job, count)
        rate = (count - FEW) / max(whole - start, 1e-9)
        answer = {"root": root, "job": name, "records": count, "start_s": round(start, 3), "s": round(whole, 3)}
        print(json.dumps({**answer, "records_per_s": round(rate)}), flush=True)


if __name__ == "__main__":
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    main(*sys.argv[1:])
