"""A stream job on several hosts, with checkpoints and its output in a directory that all have."""

import os
import time
from pathlib import Path

from flinkbuf.common import Configuration, Encoder, Types, WatermarkStrategy
from flinkbuf.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.file_system import FileSink
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.state import ValueStateDescriptor

KEYS = 5
COUNT = 400  # numbers of each key
TOKEN = "correct-horse-battery-staple"


class Step(MapFunction):
    """Slow until the test lets it go on; says which hosts it was on."""

    def __init__(self, shared):
        self.shared = shared

    def open(self, context):
        Path(self.shared, f"ran-{context.get_index_of_this_subtask()}-{os.uname().nodename}").touch()

    def map(self, number):
        if not Path(self.shared, "go-on").exists():
            time.sleep(0.02)
        return number % KEYS, number


class Counts(KeyedProcessFunction):
    """Says of each number how many of its key there have been: whatever comes twice or not at all is seen."""

    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, context):
        self.count.update((self.count.value() or 0) + 1)
        yield f"{value[0]} {self.count.value()}"


def run(settings, options=None):
    """Run it to its end, and say its id and where its page was."""
    shared = settings["shared"]
    configuration = {
        "execution.target": "spark",
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": f"file://{shared}/checkpoints",
        "pipeline.progress": "false",
        "rest.port": str(settings["page"]),
        "rest.bind-address": "0.0.0.0",
        "rest.token": TOKEN,
        "taskmanager.data.port": settings["data_ports"],
        "heartbeat.interval": "500 ms",
        "heartbeat.timeout": "5 s",
        "slot.request.timeout": "60 s",
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.initial-backoff": "100 ms",
        **(options or {}),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(configuration))
    env.set_parallelism(4)
    numbers = env.from_source(NumberSequenceSource(0, KEYS * COUNT - 1), WatermarkStrategy.no_watermarks(), "numbers")
    counts = numbers.map(Step(shared)).key_by(lambda pair: pair[0]).process(Counts())
    counts.sink_to(FileSink.for_row_format(f"{shared}/out", Encoder.simple_string_encoder()).build())
    client = env.execute_async("counts")
    print("job", client.get_job_id(), flush=True)
    client.get_job_execution_result().result()
    checkpoint = client.details()["checkpoints"]["latest"]
    return {"job": str(client.get_job_id()), "restored": (checkpoint.get("restored") or {}).get("id")}


def check_output(shared):
    """Each number was counted once."""
    lines = []
    for path in Path(shared, "out").rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            lines += path.read_text().split("\n")
    assert sorted(filter(None, lines)) == sorted(f"{key} {n}" for key in range(KEYS) for n in range(1, COUNT + 1))
