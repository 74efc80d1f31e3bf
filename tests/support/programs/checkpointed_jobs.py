"""A program with keyed state that fails on demand, and what came of it. Functions share files with the test."""

import json
import os
import signal
import time
from pathlib import Path

from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.state import ValueStateDescriptor

KEYS = 5
COUNT = 400  # numbers of each key
EXPECTED = {(key, sum(range(key, KEYS * COUNT, KEYS)), COUNT) for key in range(KEYS)}


class Step(MapFunction):
    """Passes numbers on, slowly; fails, or ends its process, once when it comes to a number."""

    def __init__(self, directory, at=None, deed="raise", pause_s=0.002, limit=None):
        self.directory, self.at, self.deed, self.pause_s, self.limit = str(directory), at, deed, pause_s, limit

    def map(self, number):
        time.sleep(self.pause_s)
        if number == self.at and self.is_first("deed"):
            if self.deed == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("not now")
        if self.limit is not None and number >= self.limit and not Path(self.directory, "go-on").exists():
            time.sleep(0.03)
        return number % KEYS, number

    def is_first(self, name):
        try:
            os.close(os.open(f"{self.directory}/{name}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class Sums(KeyedProcessFunction):
    """Gives the sum of a key's numbers when all have come."""

    def open(self, context):
        self.sum = context.get_state(ValueStateDescriptor("sum", Types.LONG()))
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, context):
        key, number = value
        self.sum.update((self.sum.value() or 0) + number)
        self.count.update((self.count.value() or 0) + 1)
        if self.count.value() == COUNT:
            yield key, self.sum.value(), self.count.value()


class Write(MapFunction):
    """Writes each record into a file of its own."""

    def __init__(self, directory):
        self.directory = str(directory)

    def map(self, record):
        with open(f"{self.directory}/results", "a") as file:
            file.write(json.dumps(record) + "\n")
        return record


def environment(target, parallelism=2, interval_ms=50, **options):
    configuration = Configuration.from_dict(
        {
            "execution.target": target,
            "pipeline.progress": "false",
            "restart-strategy.exponential-delay.initial-backoff": "50 ms",
            **{key.replace("__", "-").replace("_", "."): text for key, text in options.items()},
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    if interval_ms:
        env.enable_checkpointing(interval_ms)
    return env


def program(env, directory, numbers=None, **step):
    if numbers is None:
        source = NumberSequenceSource(0, KEYS * COUNT - 1)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    sums = numbers.map(Step(directory, **step)).uid("step").key_by(lambda pair: pair[0]).process(Sums()).uid("sums")
    return sums.map(Write(directory)).uid("write")


def results(directory):
    path = Path(directory, "results")
    return sorted(tuple(json.loads(line)) for line in path.read_text().splitlines()) if path.exists() else []


def until(condition, timeout_s=30):
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.02)
    return found


def completed(client):
    return client.details()["checkpoints"]["counts"]["completed"]


def wait_for_all(client):
    """Wait until all tasks run."""

    def all_run():
        vertices = client.details()["vertices"]
        return all(each["tasks"].get("RUNNING") == each["parallelism"] for each in vertices)

    until(all_run)
