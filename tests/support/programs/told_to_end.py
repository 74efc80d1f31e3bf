"""A program that a test tells to end: ``python told_to_end.py DIRECTORY TARGET SLOW [KEY=VALUE ...]``.

SLOW is what takes its time: ``open``, ``map``, ``close``; ``cancel``: the job is cancelled, and a function of it does
not return; ``after``: the program, when its job has ended; ``read``: the program, which reads what the job gives. Files
in DIRECTORY say how far it has come.
"""

import logging
import os
import sys
import time
from pathlib import Path

from flinkbuf.common import Configuration, Encoder, Types, WatermarkStrategy
from flinkbuf.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.file_system import FileSink
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.state import ValueStateDescriptor

KEYS, COUNT = 5, 120
EXPECTED = sorted(f"{key} {count}" for key in range(KEYS) for count in range(1, COUNT + 1))


class Step(MapFunction):
    """Passes numbers on; holds the job back until the test lets it go on."""

    def __init__(self, directory, slow):
        self.directory, self.slow = Path(directory), slow

    def open(self, runtime_context):
        (self.directory / f"process-{os.getpid()}").touch()
        (self.directory / "opening").touch()
        logging.getLogger("told").warning("opened")
        if self.slow == "open":
            time.sleep(1.5)

    def map(self, number):
        if number % 20 == 10:
            (self.directory / "running").touch()
        if not (self.directory / "go-on").exists() and self.slow not in ("close", "after"):
            time.sleep(2.0 if self.slow == "cancel" else 0.05)
        return number % KEYS, number

    def close(self):
        if self.slow == "close":
            (self.directory / "closing").touch()
            time.sleep(1.0)


class Counts(KeyedProcessFunction):
    """Says of each number how many of its key there have been: what comes twice or not at all is seen."""

    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, context):
        self.count.update((self.count.value() or 0) + 1)
        yield f"{value[0]} {self.count.value()}"


def begin_spark():
    """Start a session with as many slots as the job needs."""
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    builder.getOrCreate()


def main(directory, target, slow, *pairs):
    """Run the job."""
    options = {"execution.target": target, "pipeline.progress": "false", **dict(pair.split("=", 1) for pair in pairs)}
    if target == "spark":
        begin_spark()
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(2)
    source = NumberSequenceSource(0, KEYS * COUNT - 1)
    counts = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        .map(Step(directory, slow))
        .key_by(lambda pair: pair[0])
        .process(Counts())
    )
    try:
        if slow == "read":
            for _ in counts.execute_and_collect("counts"):
                time.sleep(0.01)
            return
        counts.sink_to(FileSink.for_row_format(f"{directory}/out", Encoder.simple_string_encoder()).build())
        if slow == "cancel":
            client = env.execute_async("counts")
            while not Path(directory, "opening").exists():
                time.sleep(0.01)
            time.sleep(0.3)
            client.cancel()
            Path(directory, "cancelling").touch()
            client.get_job_execution_result().result()
        else:
            env.execute("counts")
        if slow == "after":
            Path(directory, "after").touch()
            time.sleep(60)
    except Exception as error:
        print(f"the program sees {type(error).__name__}")
        raise
    finally:
        print("the program closes what it has opened")


if __name__ == "__main__":
    if not any(argument.startswith("log.format") for argument in sys.argv):
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    main(*sys.argv[1:])
