"""How many records a second PyFlink or flinkbuf takes through one job of speed_programs.py, at parallelism 1.

    python run_speed.py pyflink|flinkbuf JOB RECORDS KEYS [OPTION=VALUE...]

The same job over 1,000 records, run before, is taken off: it is the start of a job and, in PyFlink, of its workers.
One line of JSON says what came out.
"""

import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path

from run_programs import load

FEW = 1000


def seconds(root: str, job, records: int, keys: int, options: dict[str, str]) -> float:
    configuration = import_module(f"{root}.common").Configuration()
    for option, value in options.items():
        configuration.set_string(option, value)
    environment = import_module(f"{root}.datastream").StreamExecutionEnvironment
    env = environment.get_execution_environment(configuration)
    env.set_parallelism(1)
    started = time.perf_counter()
    for _ in job(env, records, keys).execute_and_collect():
        pass
    return time.perf_counter() - started


def main(root: str, name: str, records: str, keys: str, *chosen: str) -> None:
    job = getattr(load(Path(__file__).with_name("speed_programs.py"), root), name)
    options = dict(each.split("=", 1) for each in chosen)
    count = int(records)
    seconds(root, job, FEW, int(keys), options)
    start = seconds(root, job, FEW, int(keys), options)
    whole = seconds(root, job, count, int(keys), options)
    rate = (count - FEW) / max(whole - start, 1e-9)
    answer = {"root": root, "job": name, "records": count, "keys": int(keys), "options": options}
    print(json.dumps({**answer, "start_s": start, "s": whole, "records_per_s": rate}), flush=True)


if __name__ == "__main__":
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    main(*sys.argv[1:])
