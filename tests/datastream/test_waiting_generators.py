"""Programs whose source is a generator that waits: everything else of the job goes on meanwhile."""

import logging
import threading

import pytest

from flinkbuf.common import Configuration, Duration, Time, WatermarkStrategy
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import SinkFunction, StreamExecutionEnvironment
from flinkbuf.datastream.window import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from flinkbuf.runtime.protocol.failure import JobCanceledError


class Waits:
    """Gives some numbers and then waits, like a client's poll, until what the test is about has happened."""

    def __init__(self, *numbers):
        self.numbers = numbers
        self.is_waiting, self.has_happened = threading.Event(), threading.Event()
        self.came_in_time = None

    def __iter__(self):
        yield from self.numbers
        self.is_waiting.set()
        self.came_in_time = self.has_happened.wait(20)

    def happened(self, value=None):
        self.has_happened.set()


class ItsValue(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment(Configuration()).set_parallelism(1)


def test_a_window_of_processing_time_fires(env):
    waits = Waits(1, 2)
    windows = env.add_source(waits).window_all(TumblingProcessingTimeWindows.of(Time.milliseconds(10)))
    windows.reduce(lambda one, other: one + other).add_sink(waits.happened)
    env.execute()
    assert waits.came_in_time


def test_an_input_that_waits_is_idle_and_does_not_hold_back_the_other(env):
    first, second = Waits(), Waits(1, 2, 1_000)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ItsValue())
    strategy = strategy.with_idleness(Duration.of_millis(20))
    env.get_config().set_auto_watermark_interval(5)
    one, other = (env.add_source(each).assign_timestamps_and_watermarks(strategy) for each in (first, second))
    windows = one.union(other).window_all(TumblingEventTimeWindows.of(Time.milliseconds(10)))

    def fired(value):
        first.happened()
        second.happened()

    windows.reduce(lambda one, other: one + other).add_sink(fired)
    env.execute()
    assert first.came_in_time and second.came_in_time


def test_a_checkpoint_completes(env):
    waits = Waits(1)

    class Listens(SinkFunction):
        def invoke(self, value, context=None):
            pass

        def notify_checkpoint_complete(self, checkpoint_id):
            threading.test_waits.happened()

    threading.test_waits = waits  # functions are copied, modules are not
    env.enable_checkpointing(10)
    env.add_source(waits).add_sink(Listens())
    env.execute()
    assert waits.came_in_time


def test_the_job_is_cancelled_and_the_generator_left_behind_until_it_returns(env, caplog):
    waits = Waits(1)
    env.add_source(waits, "polls").add_sink(lambda value: None)
    client = env.execute_async()
    assert waits.is_waiting.wait(20)
    client.cancel().result()
    with pytest.raises(JobCanceledError):
        client.get_job_execution_result().result()
    assert waits.came_in_time is None, "the job has waited for the generator"
    assert "goes on after the end of its task, in __iter__ (" in caplog.text
    waits.happened()


def test_what_a_generator_logs_names_its_task(env, caplog):
    def logs():
        logging.getLogger("mine").warning("polled")
        yield 1

    env.add_source(logs, "polls").add_sink(lambda value: None)
    env.execute()
    (record,) = (each for each in caplog.records if each.name == "mine")
    assert record.flinkbuf_task.startswith("Source: polls")
