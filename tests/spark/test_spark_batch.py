"""Batch jobs on Spark: regions one after the other, from files of the workers, with the results of an embedded job."""

import os
import signal

import pytest

from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.common.time import Time
from flinkbuf.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from flinkbuf.datastream.state import ValueStateDescriptor
from flinkbuf.datastream.window import TumblingEventTimeWindows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("does_not_hang")]

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


@pytest.fixture
def disk(tmp_path):
    """Where workers keep what they have written; nothing of it is left."""
    path = tmp_path / "disk"
    path.mkdir()
    yield path
    left = [each.relative_to(path) for each in path.rglob("*") if ".shuffle." in each.name]
    assert left == []


def batch_env(disk, target="spark", **options):
    values = {"execution.target": target, "io.tmp.dirs": str(disk), "pipeline.progress": "false", **options}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))
    return env.set_parallelism(2).set_runtime_mode(RuntimeExecutionMode.BATCH)


class FirstField:
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class CountAtTheEnd(KeyedProcessFunction):
    """Its timer fires when the last record of the key has come; state is that of one key at a time."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(10_000)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value()


def keyed(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FirstField())
    words = env.from_collection([(f"w{n % 7}", n) for n in range(3_000)], PAIR).rebalance()
    return words.assign_timestamps_and_watermarks(strategy).key_by(lambda pair: pair[0], Types.STRING())


def added(left, right):
    return left[0], left[1] + right[1]


def sums(env):
    return keyed(env).reduce(added)


def windows(env):
    return keyed(env).window(TumblingEventTimeWindows.of(Time.milliseconds(500))).reduce(added)


def timers(env):
    return keyed(env).process(CountAtTheEnd(), PAIR)


def results_of(stream):
    with stream.execute_and_collect() as results:
        return sorted(results)


@pytest.mark.parametrize(
    ("program", "count", "options"),
    [(sums, 7, {}), (windows, 42, {}), (timers, 7, {"slotmanager.number-of-slots.max": "1"})],
)
def test_a_program_gives_what_it_gives_in_an_embedded_job(disk, program, count, options):
    found = results_of(program(batch_env(disk, **options)))
    assert len(found) == count
    assert found == results_of(program(batch_env(disk, "embedded", **options)))


def test_an_rdd_is_read_and_the_result_given_to_spark(sc, disk):
    numbers = sc.parallelize(range(1000), 2).map(lambda number: (f"w{number % 3}", number))
    stream = batch_env(disk).from_rdd(numbers, PAIR).key_by(lambda pair: pair[0], Types.STRING()).reduce(added)
    wanted = {f"w{rest}": sum(range(rest, 1000, 3)) for rest in range(3)}
    assert dict(stream.to_rdd().collect()) == wanted


def test_what_a_killed_worker_kept_is_written_again(disk, tmp_path):
    mark = str(tmp_path / "mark")

    def dies_once(pair):
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return pair
        os.kill(os.getpid(), signal.SIGKILL)

    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "10 ms"}
    found = results_of(keyed(batch_env(disk, **restarts)).reduce(added).map(dies_once, PAIR))
    assert os.path.exists(mark)
    assert found == results_of(sums(batch_env(disk, "embedded")))
