"""Accumulators that cannot be one result, or cannot be told: the job fails with words, and nothing else is lost."""

import time

import pytest

from flinkbuf.common import Configuration
from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.file_system import FileSink
from flinkbuf.streaming.chain.accumulators import DoubleCounter, IntCounter, ListAccumulator


def environment(target, **options):
    settings = {"execution.target": target, "pipeline.progress": "false", **options}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(1)


class Counting(MapFunction):
    def __init__(self, kind):
        self.kind = kind

    def open(self, context):
        self.counter = self.kind()
        context.add_accumulator("lines", self.counter)

    def map(self, number):
        return number


@pytest.mark.parametrize("is_noted", [False, True])
@pytest.mark.parametrize("target", ["embedded", "local"])
def test_one_name_of_two_kinds_fails_the_job_before_its_output_is_there(target, is_noted, tmp_path):
    options = {"high-availability.storageDir": str(tmp_path / "ha")} if is_noted else {}
    env = environment(target, **options)
    counted = env.from_collection(list(range(100))).map(Counting(IntCounter)).name("first")
    counted = counted.rebalance().map(Counting(DoubleCounter)).name("second").start_new_chain().map(str)
    from flinkbuf.common import Encoder

    sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
    counted.sink_to(sink)
    with pytest.raises(ValueError) as caught:
        env.execute("counts")
    text = str(caught.value)
    assert "accumulator 'lines' is " in text and "give one of them another name" in text
    assert "IntCounter in " in text and "DoubleCounter in " in text
    assert "mistake in flinkbuf" not in text


class Keeping(MapFunction):
    """Keeps more than any message can hold."""

    def open(self, context):
        self.kept = ListAccumulator()
        context.add_accumulator("names", self.kept)

    def map(self, number):
        if number == 5:
            self.kept.add("x" * (65 << 20))
        time.sleep(0.02)
        return number


@pytest.mark.parametrize("count", [6, 10_000])  # its last report is too large, or a heartbeat
def test_an_accumulator_that_no_message_holds_fails_its_job_by_its_name(count, caplog):
    env = environment("local", **{"heartbeat.interval": "100 ms", "restart-strategy.type": "fixed-delay"})
    env.from_collection(list(range(count))).map(Keeping()).print()
    with pytest.raises(
        ValueError, match=r"accumulator 'names' \(ListAccumulator\) has grown to 681\d+ bytes"
    ) as caught:
        env.execute("counts")
    assert "at most 67108864 can be told the job master: write so many values to a sink" in str(caught.value)
    assert "is gone" not in caplog.text, "the task manager lives"
