"""A program whose job another one can take over: ``python ha_program.py DIRECTORY``; its classes are its own."""

import logging
import sys
import time
from pathlib import Path

from flinkbuf.common import Configuration, Encoder, Types, WatermarkStrategy
from flinkbuf.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.file_system import FileSink
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.state import ValueStateDescriptor

KEYS = 5
COUNT = 300  # numbers of each key
HALF = KEYS * COUNT // 2


class Step(MapFunction):
    """More and more slowly until the test wants it to come to its end: a second program may take long to start."""

    def __init__(self, directory):
        self.go_on = Path(directory, "go-on")

    def map(self, number):
        left = HALF - number % HALF  # two splits are read at a time
        time.sleep(0.0005 if self.go_on.exists() else max(0.01, 4 / left))
        return number % KEYS, number


class Counts(KeyedProcessFunction):
    """Says of each number how many of its key there have been: whatever comes twice or not at all is seen."""

    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, context):
        self.count.update((self.count.value() or 0) + 1)
        yield f"{value[0]} {self.count.value()}"


def main(directory, step=None, sink=None):
    """Run the job."""
    options = {
        "execution.target": "local",
        "pipeline.progress": "false",
        "high-availability.storageDir": f"{directory}/ha",
        "high-availability.lease-timeout": "2 s",
        "heartbeat.interval": "500 ms",
        "heartbeat.timeout": "3 s",
        "restart-strategy.exponential-delay.initial-backoff": "50 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(2)
    env.enable_checkpointing(50)
    source = NumberSequenceSource(0, KEYS * COUNT - 1)
    counts = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        .map(step or Step(directory))
        .key_by(lambda pair: pair[0])
        .process(Counts())
    )
    if sink is not None:
        counts.add_sink(sink)
    else:
        counts.sink_to(FileSink.for_row_format(f"{directory}/out", Encoder.simple_string_encoder()).build())
    print(env.execute("counts").get_job_id())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main(sys.argv[1])
