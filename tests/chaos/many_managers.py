"""What a program has to do for many task managers: ``python tests/chaos/many_managers.py 20 50 100``.

A job of as many subtasks a task, in as many processes of this machine, each reading from all; it is started, takes
checkpoints, loses ten processes, goes on and is stopped. Each line says what the program itself used.
"""

import json
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.state import ValueStateDescriptor

KILLS = 10
REST_S = 5  # of which the program's share of a processor is said
PATIENCE_S = 600


class Paced(MapFunction):
    """A few numbers a second, and a file that says where they come from."""

    def __init__(self, directory):
        self.directory = str(directory)

    def open(self, context):
        Path(self.directory, str(os.getpid())).touch()

    def map(self, number):
        time.sleep(0.1)
        return number % 1_000, number


class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, context):
        self.count.update((self.count.value() or 0) + 1)


def start(directory, managers):
    """Start the job; returns its client."""
    configuration = {
        "execution.target": "local",
        "pipeline.progress": "false",
        "slotmanager.number-of-slots.max": str(managers),
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"{directory}/checkpoints",
        "execution.checkpointing.tolerable-failed-checkpoints": "100",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "100 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(configuration))
    env.set_parallelism(managers)
    numbers = env.from_source(NumberSequenceSource(0, 10**9), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(Paced(directory)).key_by(lambda pair: pair[0]).process(Count())
    return env.execute_async(f"on {managers} task managers")


def wait(is_so, what):
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def runs(client, managers):
    vertices = client.details()["vertices"]
    return all(each["tasks"].get("RUNNING") == managers for each in vertices)


def completed(client):
    return client.details()["checkpoints"]["counts"]["completed"]


def measured(managers):
    """What the program needs for one job, as a dict."""
    with tempfile.TemporaryDirectory(prefix="flinkbuf-many-") as directory:
        began, before = time.monotonic(), cpu_s()
        client = start(directory, managers)
        wait(lambda: runs(client, managers), "all tasks run")
        found = {"managers": managers, "start_s": time.monotonic() - began, "start_cpu_s": cpu_s() - before}
        count = completed(client)
        wait(lambda: completed(client) >= count + 2, "two checkpoints")
        before, count = cpu_s(), completed(client)
        time.sleep(REST_S)
        found |= {"cpu": (cpu_s() - before) / REST_S, "checkpoints": completed(client) - count}
        for pid in sorted(int(path.name) for path in Path(directory).iterdir() if path.name.isdigit())[:KILLS]:
            os.kill(pid, signal.SIGKILL)
        began, before, restarts = time.monotonic(), cpu_s(), client.details()["restarts"]
        wait(lambda: client.details()["restarts"] > restarts and runs(client, managers), "all run again")
        count = completed(client)
        wait(lambda: completed(client) > count, "a checkpoint behind the kills")
        found |= {"again_s": time.monotonic() - began, "again_cpu_s": cpu_s() - before, "memory_mb": memory_mb()}
        began = time.monotonic()
        client.cancel().result()
        client.get_job_status().result()
        wait(lambda: client.details()["state"] == "CANCELED", "the job is cancelled")
        return {**found, "end_s": time.monotonic() - began}


def cpu_s():
    """Seconds of a processor that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def memory_mb():
    """What is resident of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def main(numbers):
    for number in numbers:
        print(json.dumps({key: round(value, 3) for key, value in measured(number).items()}), flush=True)


if __name__ == "__main__":
    main(map(int, sys.argv[1:]))
