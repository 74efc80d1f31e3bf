"""How many records a second does a job take in this process next to a plain loop and Bytewax?

Whole jobs at parallelism 1, and two of them at 2, through the public API, from the first transformation made to the
last thread ended, so a job's start is in each figure; `stream_job_start` is the start and the end alone. The loops do
the same work by hand on one thread, with a dict for keyed state and a heap for timers; they know no tasks, no copies
and no watermarks. The builtins ``map`` and ``filter`` call the functions from C, as a chain has to. Two tasks without
a key are measured beside the same numbers written and read by hand. Bytewax runs where it is installed, over fewer
records, as it takes seconds. In flink-benchmarks: InputBenchmark, KeyByBenchmarks, WindowBenchmarks,
ProcessingTimerBenchmark.
"""

import functools
import heapq
import random
import threading
from collections import deque
from datetime import datetime, timedelta, timezone
from importlib.util import find_spec

import pyarrow as pa
import pytest
from measure import REPEATS, measure, scaled

import flinkbuf as fb
from flinkbuf.common import Configuration, Duration, Types, WatermarkStrategy
from flinkbuf.common.time import Time
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.state import ValueStateDescriptor
from flinkbuf.datastream.window import TumblingEventTimeWindows

COUNT = scaled(1_000_000)
BYTEWAX_COUNT = scaled(100_000)
KEYS = 1000
DISORDER_MS = 50
WINDOW_MS = 1000
BATCH = 1000  # records that Bytewax's source hands over at a time; its default of 1 is half as fast


def environment():
    configuration = Configuration().set_string("execution.target", "embedded")  # bench_jobs.py measures the others
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)


@functools.cache
def words():
    """(word, 1), a thousand different words."""
    return [(f"word{number * 7919 % KEYS}", 1) for number in range(COUNT)]


@functools.cache
def events():
    """(key, value, milliseconds), one a millisecond on the average, up to fifty out of order."""
    chance = random.Random(7)
    return [(f"key{n * 7919 % KEYS}", n % 100, n + chance.randrange(DISORDER_MS)) for n in range(COUNT)]


def first(record):
    return record[0]


# ---- functions in a chain


def increased(number):
    return number + 1


def is_kept(number):
    return number % 4 != 0


def tripled(number):
    return number * 3


def chain_job():
    env = environment()
    env.from_collection(range(COUNT)).map(increased).filter(is_kept).map(tripled)
    env.execute()


def chain_loop():
    for number in range(COUNT):
        number = increased(number)
        if is_kept(number):
            tripled(number)


def chain_of_builtins():
    deque(map(tripled, filter(is_kept, map(increased, range(COUNT)))), maxlen=0)


# ---- whole batches of (int64, string, float64), with one more column computed of two

DOUBLE = Types.DOUBLE()
TYPES = [Types.LONG(), Types.STRING(), DOUBLE]


@functools.cache
def prices():
    return [(number, f"item{number % KEYS}", float(number % 97)) for number in range(COUNT)]


def with_gross(batch):
    return batch.append_column("f3", pa.array(batch[2].to_numpy() * 1.25 + batch[0].to_numpy()))


def gross_of(record):
    return (*record, record[2] * 1.25 + record[0])


def batches_job():
    env = environment()
    env.add_source(prices(), type_info=Types.TUPLE(TYPES)).map_batches(with_gross, Types.TUPLE([*TYPES, DOUBLE]))
    env.execute()


def batches_by_hand():
    """The same with what pyarrow has for it, in lists of as many."""
    for start in range(0, COUNT, 8192):
        columns = zip(*prices()[start : start + 8192], strict=True)
        batch = pa.record_batch([pa.array(column) for column in columns], names=["f0", "f1", "f2"])
        columns = [column.to_pylist() for column in with_gross(batch).columns]
        deque(zip(*columns, strict=True), maxlen=0)


def records_instead_of_batches_job():
    env = environment()
    env.add_source(prices(), type_info=Types.TUPLE(TYPES)).map(gross_of, Types.TUPLE([*TYPES, DOUBLE]))
    env.execute()


# ---- from one task to another


def two_tasks_job():
    env = environment()
    env.add_source(range(COUNT), type_info=Types.LONG()).rebalance().map(tripled)
    env.execute()


def two_threads():
    element = fb.Types.STREAM_ELEMENT(fb.Types.LONG())
    partition = fb.ResultPartition(fb.NetworkBufferPool(32), 1)
    gate = fb.InputGate([(partition, 0)])

    def write():
        with fb.RecordWriter(partition, element, "forward") as writer:
            writer.emit_all(range(COUNT))
        partition.close()

    thread = threading.Thread(target=write)
    thread.start()
    for number in fb.RecordReader(gate, element):
        tripled(number)
    thread.join()
    gate.close()


# ---- a count by key


class Count(MapFunction):
    """(word, records of it so far)."""

    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value):
        count = (self.count.value() or 0) + value[1]
        self.count.update(count)
        return value[0], count


def count_job():
    env = environment()
    env.add_source(words()).key_by(first).map(Count())
    env.execute()


WORDS = [(f"word{number}", 1) for number in range(KEYS)]


def word_of(number):
    return WORDS[number % KEYS]


def count_job_of_four_tasks():
    """Two sources, each with half of the numbers, and two counts; two million records, as a start weighs twice."""
    env = environment().set_parallelism(2)
    source = NumberSequenceSource(0, 2 * COUNT - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers.map(word_of).key_by(first).map(Count())
    env.execute()


def added(one, other):
    return one[0], one[1] + other[1]


def reduce_job():
    env = environment()
    env.add_source(words()).key_by(first).reduce(added)
    env.execute()


def count_loop():
    counts = {}
    for record in words():
        key = first(record)
        count = counts.get(key, 0) + record[1]
        counts[key] = count
        _ = record[0], count


def count_in_bytewax():
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSource, cluster_main

    def counted(count, value):
        count = (count or 0) + value[1]
        return count, count

    flow = Dataflow("count")
    keyed = op.key_on("key", op.input("words", flow, TestingSource(words()[:BYTEWAX_COUNT], BATCH)), first)
    counts = op.stateful_map("count", keyed, counted)
    op.output("out", counts, nowhere())
    cluster_main(flow, [], 0)


def nowhere():
    """A sink of Bytewax, which runs nothing without one."""
    from bytewax.outputs import DynamicSink, StatelessSinkPartition

    class Partition(StatelessSinkPartition):
        def write_batch(self, items):
            pass

    class Sink(DynamicSink):
        def build(self, step_id, worker_index, worker_count):
            return Partition()

    return Sink()


# ---- a sum by key and window of event time


class EventTime(TimestampAssigner):
    """The third field."""

    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Sum(AggregateFunction):
    """Of the second field."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def timed_events(env):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER_MS))
    return env.add_source(events()).assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(EventTime()))


def window_job(parallelism=1):
    env = environment().set_parallelism(parallelism)
    keyed = timed_events(env).key_by(first)
    keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))).aggregate(Sum())
    env.execute()


def window_loop():
    """Windows that are over go out with each thousandth record."""
    sums, highest, results = {}, 0, []
    for number, (key, value, time) in enumerate(events()):
        highest = max(highest, time)
        start = time - time % WINDOW_MS
        window = sums.get(start)
        if window is None:
            window = sums[start] = {}
        window[key] = window.get(key, 0) + value
        if number % 1000 == 0:
            for over in [start for start in sums if start + WINDOW_MS <= highest - DISORDER_MS]:
                results.extend(sums.pop(over).items())
    for window in sums.values():
        results.extend(window.items())


def window_in_bytewax():
    import bytewax.operators as op
    import bytewax.operators.windowing as win
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSource, cluster_main

    epoch = datetime(2024, 1, 1, tzinfo=timezone.utc)
    clock = win.EventClock(
        ts_getter=lambda record: epoch + timedelta(milliseconds=record[2]),
        wait_for_system_duration=timedelta(milliseconds=DISORDER_MS),
    )
    windower = win.TumblingWindower(align_to=epoch, length=timedelta(milliseconds=WINDOW_MS))
    flow = Dataflow("sum")
    keyed = op.key_on("key", op.input("events", flow, TestingSource(events()[:BYTEWAX_COUNT], BATCH)), first)
    sums = win.fold_window(
        "sum",
        keyed,
        clock,
        windower,
        lambda: 0,
        lambda total, record: total + record[1],
        lambda one, other: one + other,
    )
    op.output("out", sums.down, nowhere())
    cluster_main(flow, [], 0)


# ---- a value and a timer a record


class Timers(KeyedProcessFunction):
    """Counts by key, and says ten milliseconds after each record how many there were."""

    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[2] + 10)

    def on_timer(self, timestamp, ctx):
        yield self.count.value()


def timer_job():
    env = environment()
    timed_events(env).key_by(first).process(Timers())
    env.execute()


def timer_loop():
    """Timers fire with each thousandth record."""
    counts, heap, known, results, highest = {}, [], set(), [], 0

    def fire(until):
        while heap and heap[0][0] <= until:
            timer = heapq.heappop(heap)
            known.discard(timer)
            results.append(counts[timer[1]])

    for number, (key, _value, time) in enumerate(events()):
        highest = max(highest, time)
        counts[key] = counts.get(key, 0) + 1
        timer = (time + 10, key)
        if timer not in known:
            known.add(timer)
            heapq.heappush(heap, timer)
        if number % 1000 == 0:
            fire(highest - DISORDER_MS - 1)
    fire(2 * COUNT)


# ---- nothing but start and end


def empty_job():
    env = environment()
    env.from_collection(range(3)).map(increased).filter(is_kept).map(tripled)
    env.execute()


def empty_job_of_two_tasks():
    env = environment()
    env.from_collection(range(3)).key_by(increased).map(tripled)
    env.execute()


CASES = {
    "stream_chain.flinkbuf": (chain_job, COUNT, "records"),
    "stream_chain.plain_loop": (chain_loop, COUNT, "records"),
    "stream_chain.builtins": (chain_of_builtins, COUNT, "records"),
    "stream_batches.flinkbuf": (batches_job, COUNT, "records"),
    "stream_batches.flinkbuf_map": (records_instead_of_batches_job, COUNT, "records"),
    "stream_batches.pyarrow": (batches_by_hand, COUNT, "records"),
    "stream_two_tasks.flinkbuf": (two_tasks_job, COUNT, "records"),
    "stream_two_tasks.writer_and_reader": (two_threads, COUNT, "records"),
    "stream_count.flinkbuf": (count_job, COUNT, "records"),
    "stream_count.flinkbuf_reduce": (reduce_job, COUNT, "records"),
    "stream_count.plain_loop": (count_loop, COUNT, "records"),
    "stream_count.bytewax": (count_in_bytewax, BYTEWAX_COUNT, "records"),
    "stream_count_by_two.flinkbuf": (count_job_of_four_tasks, 2 * COUNT, "records"),
    "stream_window.flinkbuf": (window_job, COUNT, "records"),
    "stream_window.plain_loop": (window_loop, COUNT, "records"),
    "stream_window.bytewax": (window_in_bytewax, BYTEWAX_COUNT, "records"),
    "stream_window_by_two.flinkbuf": (functools.partial(window_job, 2), COUNT, "records"),
    "stream_timers.flinkbuf": (timer_job, COUNT, "records"),
    "stream_timers.plain_loop": (timer_loop, COUNT, "records"),
    "stream_job_start.flinkbuf": (empty_job, 1, "jobs"),
    "stream_job_start.flinkbuf_two_tasks": (empty_job_of_two_tasks, 1, "jobs"),
}
BYTEWAX_REPEATS = 2


def run(name, benchmark=None):
    function, count, unit = CASES[name]
    repeats = BYTEWAX_REPEATS if is_bytewax(name) else REPEATS
    measure(name, function, count, unit, benchmark=benchmark, repeats=repeats)


def is_bytewax(name):
    return name.endswith(".bytewax")


def is_missing(name):
    return is_bytewax(name) and find_spec("bytewax") is None


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    if is_missing(name):
        pytest.skip("Bytewax is not installed: pip install bytewax")
    run(name, benchmark)


if __name__ == "__main__":
    for name in CASES:
        if is_missing(name):
            print(f"{name}: left out, as Bytewax is not installed (pip install bytewax)")
        else:
            run(name)
