"""How many records a second does a job take on two task managers, on local processes and on Spark's?

The programs of bench_streaming.py at parallelism 2, their records made where they are read, so the program's process
has no part in it. A job's start and end are in each figure; `job_start` is these alone. On Spark (``local[2]``) the
rival is transformWithState in Python, with one value and one timer a record as `job_timers` has them, over a file
source until all of it was read; it needs protobuf. Restarts: how long until a job whose function has raised, or whose
task manager was killed, runs that function again, besides the delay that its strategy asks for. `job_latency`: how long
a record of ten thousand a second takes from a source through key_by to a sink, where buffers leave after a millisecond;
its figure is the 99th percentile, once the start is over.
"""

import functools
import json
import os
import shutil
import signal
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from bench_streaming import (
    BYTEWAX_COUNT,
    DISORDER_MS,
    WINDOW_MS,
    Count,
    EventTime,
    Sum,
    Timers,
    count_in_bytewax,
    first,
    increased,
    is_missing,
    tripled,
    window_in_bytewax,
)
from local_spark import session
from measure import SMOKE, measure, report, scaled

from flinkbuf.common import Configuration, Duration, Types, WatermarkStrategy
from flinkbuf.common.time import Time
from flinkbuf.datastream import MapFunction, SourceFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.window import TumblingEventTimeWindows

COUNT = scaled(4_000_000)
RIVAL_COUNT = scaled(50_000)
WORDS = [(f"word{number}", 1) for number in range(1000)]
KEY_NAMES = [f"key{number}" for number in range(1000)]
PARALLELISM = 2
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
RATE = 10_000  # records a second
LATENCY_COUNT = RATE * 2 if SMOKE else RATE * 5


def environment(target):
    configuration = Configuration().set_string("execution.target", target)
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(PARALLELISM)


def numbers(env, count=COUNT):
    source = NumberSequenceSource(0, count - 1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())


def word_of(number):
    return WORDS[number % 1000]


def event_of(number):
    """(key, value, milliseconds), one a millisecond, up to fifty out of order."""
    return KEY_NAMES[number * 7919 % 1000], number % 100, number // PARALLELISM + number * 31 % DISORDER_MS


def events(env):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER_MS))
    return numbers(env).map(event_of).assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(EventTime()))


def count_job(target):
    env = environment(target)
    numbers(env).map(word_of).key_by(first).map(Count())
    env.execute()


def window_job(target):
    env = environment(target)
    window = TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))
    events(env).key_by(first).window(window).aggregate(Sum())
    env.execute()


def timer_job(target):
    env = environment(target)
    events(env).key_by(first).process(Timers())
    env.execute()


def empty_job(target, parallelism=PARALLELISM):
    env = environment(target).set_parallelism(parallelism)
    numbers(env, 8).map(increased).key_by(increased).map(tripled)
    env.execute()


JOBS = {"job_count": count_job, "job_window": window_job, "job_timers": timer_job}
CASES = {
    f"{work}.flinkbuf_{target}": (functools.partial(job, target), COUNT, "records")
    for work, job in JOBS.items()
    for target in ("embedded", "local", "spark")
} | {
    "job_count.bytewax": (count_in_bytewax, BYTEWAX_COUNT, "records"),
    "job_window.bytewax": (window_in_bytewax, BYTEWAX_COUNT, "records"),
    "job_start.flinkbuf_embedded": (functools.partial(empty_job, "embedded"), 1, "jobs"),
    "job_start.flinkbuf_local": (functools.partial(empty_job, "local"), 1, "jobs"),
    "job_start.flinkbuf_local_8": (functools.partial(empty_job, "local", 8), 1, "jobs"),
    "job_start.flinkbuf_spark": (functools.partial(empty_job, "spark"), 1, "jobs"),
}


# ---- Spark


def timers_by_transform_with_state():
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class TimersOfSpark(StatefulProcessor):
        def init(self, handle):
            self.handle = handle
            self.count = handle.getValueState("count", "n bigint")

        def handleInputRows(self, key, rows, timerValues):
            for row in rows:
                count = self.count.get()[0] if self.count.exists() else 0
                self.count.update((count + 1,))
                self.handle.registerTimer(int(row["at"].timestamp() * 1000) + 10)
            yield from ()

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
            yield Row(n=self.count.get()[0])

        def close(self):
            pass

    folder = Path(tempfile.mkdtemp(prefix="flinkbuf-bench-"))
    session().conf.set("spark.sql.shuffle.partitions", str(PARALLELISM))
    session().conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS_DB)
    try:
        columns = ("concat('key', id * 7919 % 1000) as key", "id % 100 as value", "timestamp_millis(id) as at")
        rows = session().range(RIVAL_COUNT).selectExpr(*columns)
        rows.repartition(PARALLELISM).write.parquet(str(folder / "in"))
        stream = session().readStream.schema("key string, value bigint, at timestamp").parquet(str(folder / "in"))
        keyed = stream.withWatermark("at", f"{DISORDER_MS} milliseconds").groupBy("key")
        results = keyed.transformWithState(TimersOfSpark(), "n bigint", "Append", "EventTime")
        query = results.writeStream.format("noop").option("checkpointLocation", str(folder / "state"))
        started = time.perf_counter()
        query.outputMode("append").trigger(availableNow=True).start().awaitTermination()
        return time.perf_counter() - started
    finally:
        shutil.rmtree(folder)


# ---- restarts


class FailsOnce(MapFunction):
    """One subtask of the first attempt notes when, and raises or kills its process; one of the second, when it is back.

    The others do nothing, so that there is one failure.
    """

    def __init__(self, folder, kills):
        self.folder, self.kills = folder, kills

    def open(self, runtime_context):
        self.is_first = runtime_context.get_attempt_number() == 0
        if not self.is_first:  # there may be no record left for it
            self.notes("back")

    def map(self, value):
        if self.is_first and self.notes("failed"):
            if self.kills:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("once")
        return value

    def notes(self, name):
        """Write down the time, unless another subtask has."""
        try:
            with open(Path(self.folder, name), "x") as file:
                file.write(str(time.time()))
        except FileExistsError:
            return False
        return True


def seconds_of_restart(target, kills):
    with tempfile.TemporaryDirectory(prefix="flinkbuf-bench-") as folder:
        settings = {
            "execution.target": target,
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "3",
            "restart-strategy.fixed-delay.delay": "0 ms",
        }
        configuration = Configuration()
        for key, value in settings.items():
            configuration.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(PARALLELISM)
        numbers(env, 1000).map(FailsOnce(folder, kills), Types.LONG())
        env.execute()
        return float(Path(folder, "back").read_text()) - float(Path(folder, "failed").read_text())


# ---- how late a record arrives


class Paced(SourceFunction):
    """(key, nanoseconds when it was emitted), so many a second."""

    def __init__(self, count):
        self.count = count
        self.is_canceled = False

    def run(self, ctx):
        started = time.monotonic()
        for number in range(self.count):
            if self.is_canceled:
                return
            early = started + number / RATE - time.monotonic()
            if early > 0:
                time.sleep(early)
            ctx.collect((number % 1000, time.monotonic_ns()))

    def cancel(self):
        self.is_canceled = True


class Latencies(MapFunction):
    """How long each record was on its way, and at the end all of them in a file; one clock for the whole machine."""

    def __init__(self, folder):
        self.folder = folder

    def open(self, runtime_context):
        self.path = Path(self.folder, f"{runtime_context.get_index_of_this_subtask()}")
        self.seen = []

    def map(self, value):
        self.seen.append(time.monotonic_ns() - value[1])
        return value

    def close(self):
        self.path.write_text(json.dumps(self.seen))


def latencies_of(target):
    """Nanoseconds that records took, sorted, without those of the first second."""
    with tempfile.TemporaryDirectory(prefix="flinkbuf-bench-") as folder:
        env = environment(target).set_buffer_timeout(1)
        source = env.add_source(Paced(LATENCY_COUNT), type_info=Types.TUPLE([Types.LONG(), Types.LONG()]))
        source.key_by(first).map(Latencies(folder))
        env.execute()
        of_subtasks = [json.loads(path.read_text()) for path in Path(folder).iterdir()]
    return sorted(each for seen in of_subtasks for each in seen[RATE // PARALLELISM :])


LATENCIES = {"job_latency.flinkbuf_embedded": "embedded", "job_latency.flinkbuf_local": "local"}


RESTARTS = {
    "job_restart.flinkbuf_embedded_raised": ("embedded", False),
    "job_restart.flinkbuf_local_raised": ("local", False),
    "job_restart.flinkbuf_local_killed": ("local", True),
    "job_restart.flinkbuf_spark_raised": ("spark", False),
    "job_restart.flinkbuf_spark_killed": ("spark", True),
}


def measure_job(name, benchmark=None):
    if "spark" in name:
        session()
    measure(name, *CASES[name], benchmark=benchmark, repeats=1 if SMOKE else 3)


def measure_restart(name, benchmark=None):
    if "spark" in name:
        session()
    seconds = [seconds_of_restart(*RESTARTS[name]) for _ in range(1 if SMOKE else 3)]
    report(name, seconds, 1, "restarts", benchmark=benchmark)


def measure_latency(name, benchmark=None):
    seconds = []
    for _ in range(1 if SMOKE else 3):
        latencies = latencies_of(LATENCIES[name])
        seconds.append(latencies[len(latencies) * 99 // 100] / 1e9)
    report(name, seconds, 1, "records", benchmark=benchmark)


def measure_rival(benchmark=None):
    report(
        "job_timers.transform_with_state",
        [timers_by_transform_with_state()],
        RIVAL_COUNT,
        "records",
        benchmark=benchmark,
    )


@pytest.mark.parametrize("name", CASES)
def test_job(benchmark, name):
    if is_missing(name):
        pytest.skip("Bytewax is not installed: pip install bytewax")
    measure_job(name, benchmark)


@pytest.mark.parametrize("name", RESTARTS)
def test_restart(benchmark, name):
    benchmark.pedantic(lambda: None, rounds=1)
    measure_restart(name, benchmark)


@pytest.mark.parametrize("name", LATENCIES)
def test_latency(benchmark, name):
    benchmark.pedantic(lambda: None, rounds=1)
    measure_latency(name, benchmark)


@pytest.mark.skipif(find_spec("google.protobuf") is None, reason="transformWithState needs protobuf")
def test_rival(benchmark):
    benchmark.pedantic(lambda: None, rounds=1)
    measure_rival(benchmark)


if __name__ == "__main__":
    for name in CASES:
        if not is_missing(name):
            measure_job(name)
    for name in RESTARTS:
        measure_restart(name)
    for name in LATENCIES:
        measure_latency(name)
    measure_rival()
