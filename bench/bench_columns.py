"""How many rows a second does a program over columns do, next to the same program over records, and to pyarrow alone?

Batches of 8,192 rows (two int64, milliseconds; 100,000 rows a second of event time) come from a source that makes
them of kept arrays; whole jobs on threads of this process, sources and starts included. The rivals: the same windows
over records, of fewer rows, as they take that much longer; and pyarrow's `group_by` by window and key over the whole
table at once, which knows no watermark and keeps all rows. What has no state takes kept batches (int64, string,
float64, timestamp), of which pyarrow's kernels alone are the rival, or its expressions where those are what is asked;
their rows have timestamps in one row of figures, which the rival has no part of.

`columns_shuffled` is the tumbling window on two processes, each of which makes half of the rows and has half of the
keys; its job is four times as long, since processes start. `columns_latency`: how long a row of ten thousand a second
takes from a source through key_by to a running result, where batches and buffers leave after five milliseconds; its
figure is the 99th percentile, once the start is over; beside it the same over records. Counterpart in Flink: Nexmark
queries on windows.

The join is of two such streams of half the rows each, by 200,000 keys, with times at most a second apart: 100,000 rows
of each side are kept at any time, which have some 126,000 different keys, and a row has one partner on average. Its
rival is polars' join of whole tables on one thread, of fewer rows, as it makes all pairs of a key before it looks at
times.
"""

import functools
import os
import sys
import time

import pytest
from measure import REPEATS, SMOKE, measure, report, scaled

pytest.importorskip("pyarrow")
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from flinkbuf.common import Configuration, Time, Types, WatermarkStrategy
from flinkbuf.datastream import AggregateFunction, KeyedProcessFunction, SourceFunction, StreamExecutionEnvironment
from flinkbuf.datastream.columns import KeyedBatchFunction, count, max_, sum_
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.state import ValueStateDescriptor
from flinkbuf.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # which polars reads when it is imported

STEP = 8192
ROWS = scaled(8_000_000) // STEP * STEP
RECORDS = scaled(200_000) // STEP * STEP or STEP
JOINED_WHOLE = scaled(1_000_000) // (2 * STEP) * (2 * STEP) or 2 * STEP
ROWS_PER_MS = 100
JOIN_KEYS = 200_000
SHUFFLED_ROWS = 4 * ROWS
RATE = 10_000  # rows a second, where it is asked how long one takes
LATENCY_COUNT = RATE * 2 if SMOKE else RATE * 5
TIMEOUT_MS = 5
PACED = Types.TUPLE([Types.LONG(), Types.LONG()])
KEYS = {"1k": 1_000, "1m": 1_000_000}
# Keys, and the gap of their sessions, which are of some 150 rows, or of one: a row of a key comes every 10 or 1,000 ms.
SESSIONS = {"1k": (1_000, 50), "100k": (100_000, 5_000), "100k_short": (100_000, 50)}


def kept(width):
    """Return arrays, made once in a process; they lie where nobody looks who sends this function to another one."""
    here = sys.modules.setdefault("kept by bench_columns", {})
    if width not in here:
        random = np.random.default_rng(1)
        here[width] = [(random.integers(0, width, STEP), random.integers(0, 1000, STEP)) for _ in range(64)]
    return here[width]


def batch_of(width, number):
    auctions, prices = kept(width)[number % 64]
    times = np.arange(number * STEP, (number + 1) * STEP) // ROWS_PER_MS
    return pa.record_batch({"auction": auctions, "price": prices, "at": times})


def environment(target="embedded", parallelism=1):
    config = Configuration().set_string("execution.target", target)
    return StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(parallelism)


def batches(batch_of, row_count, env=None):
    numbers = NumberSequenceSource(0, row_count // STEP - 1)
    stream = (env or environment()).from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
    return stream.map(batch_of)


def first(pair):
    return pair[0]


def drained(stream):
    """Run a job whose rows end where they would be given away, as those of the rivals do."""
    with stream.flat_map_batches(lambda batch: None).execute_and_collect() as nothing:
        assert not list(nothing)


def columns(width, row_count=ROWS, env=None):
    made = batches(functools.partial(batch_of, width), row_count, env)
    return made.as_columns("auction bigint, price bigint, at bigint").assign_timestamps_and_watermarks("at")


@functools.cache
def kept_events():
    """What goes through the stateless programs: ready batches."""
    random = np.random.default_rng(1)
    urls = pa.array([f"https://auctions/{number}" for number in range(1000)])
    made = []
    for number in range(64):
        times = np.arange(number * STEP, (number + 1) * STEP) // ROWS_PER_MS
        columns = {
            "auction": random.integers(0, 1000, STEP),
            "url": urls.take(random.integers(0, 1000, STEP)),
            "price": random.random(STEP) * 1000,
            "at": pa.array(times, pa.timestamp("ms", "UTC")),
        }
        made.append(pa.record_batch(columns))
    return made


def events_of(number):
    return kept_events()[number % 64]


NEXT_MS = pa.scalar(1, pa.duration("ms"))
BY_FUNCTIONS = (
    lambda batch: pc.greater(batch["price"], 100.0),
    {"euro": lambda batch: pc.multiply(batch["price"], 0.908), "late": lambda batch: pc.add(batch["at"], NEXT_MS)},
)
BY_EXPRESSIONS = pc.field("price") > 100.0, {"euro": pc.field("price") * 0.908, "late": pc.field("at") + NEXT_MS}


def stateless(said, has_timestamps):
    predicate, columns = said
    rows = batches(events_of, ROWS).as_columns(events_of(0).schema)
    if has_timestamps:
        rows = rows.assign_timestamps_and_watermarks("at")
    rows = rows.filter(predicate).with_columns(**columns)
    drained(rows)


def windows(width, assigner):
    found = columns(width).key_by("auction").window(assigner).aggregate(bids=count(), total=sum_("price"))
    drained(found)


def shuffled(width):
    rows = columns(width, SHUFFLED_ROWS, environment("local", 2))
    drained(rows.key_by("auction").window(TUMBLING).aggregate(bids=count(), total=sum_("price")))


class Paced(SourceFunction):
    """(key, nanoseconds when it was emitted), so many a second."""

    def __init__(self):
        self.is_canceled = False

    def run(self, ctx):
        started = time.monotonic()
        for number in range(LATENCY_COUNT):
            if self.is_canceled:
                return
            early = started + number / RATE - time.monotonic()
            if early > 0:
                time.sleep(early)
            ctx.collect((number % 1000, time.monotonic_ns()))

    def cancel(self):
        self.is_canceled = True


def latency(over_columns):
    """Return the 99th percentile of the seconds that rows took."""
    paced = environment().set_buffer_timeout(TIMEOUT_MS).add_source(Paced(), type_info=PACED)
    seen = []
    if over_columns:
        rows = paced.as_columns("k bigint, sent bigint", max_delay=Time.milliseconds(TIMEOUT_MS)).key_by("k")
        stream = rows.aggregate(sent=max_("sent")).as_records()
    else:
        stream = paced.key_by(first).max(1)
    with stream.execute_and_collect() as results:
        for result in results:
            seen.append(time.monotonic_ns() - result[1])
    seen = sorted(seen[RATE:])
    return seen[len(seen) * 99 // 100] / 1e9


def count_windows(width, size):
    rows = columns(width).key_by("auction").count_window(size)
    drained(rows.aggregate(bids=count(), total=sum_("price")))


def deduplicated(width, keep):
    drained(columns(width).key_by("auction").deduplicate(keep))


def ranked(width):
    drained(columns(width).key_by("auction").top(10, by="price", rank="rank"))


class Totals(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, one, other):
        return one[0] + other[0], one[1] + other[1]


def keyed_records(width):
    rows = batches(functools.partial(batch_of, width), RECORDS).flat_map(
        lambda batch: zip(*batch.to_pydict().values(), strict=True)
    )
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[2])
    return rows.assign_timestamps_and_watermarks(times).key_by(lambda row: row[0])


def records(width, assigner):
    found = keyed_records(width).window(assigner).aggregate(Totals())
    total = 0
    with found.execute_and_collect() as results:
        for _ in results:
            total += 1
    return total


def arrow_kernels():
    predicate, columns = BY_FUNCTIONS
    for number in range(ROWS // STEP):
        batch = events_of(number)
        batch = batch.filter(predicate(batch))
        for name, function in columns.items():
            batch = batch.append_column(name, function(batch))


def arrow_expressions():
    predicate, columns = BY_EXPRESSIONS
    kept = {name: pc.field(name) for name in events_of(0).schema.names}
    options = acero.ProjectNodeOptions([*kept.values(), *columns.values()], [*kept, *columns])
    steps = acero.Declaration("filter", acero.FilterNodeOptions(predicate)), acero.Declaration("project", options)
    for number in range(ROWS // STEP):
        table = pa.Table.from_batches([events_of(number)])
        source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
        acero.Declaration.from_sequence([source, *steps]).to_table(use_threads=False)


def arrow_group_by(width):
    table = pa.Table.from_batches([batch_of(width, number) for number in range(ROWS // STEP)])
    table = table.append_column("window", pc.divide(table["at"], 10_000))
    return table.group_by(["window", "auction"], use_threads=False).aggregate([("price", "count"), ("price", "sum")])


class RunningTotals(KeyedBatchFunction):
    """How much was bid for each auction, with each batch; with `is_timed`, forgotten after ten seconds."""

    def __init__(self, is_timed):
        self.is_timed = is_timed

    def open(self, runtime_context):
        self.total = runtime_context.get_column_state("total", "price bigint")

    def process_batch(self, batch, context):
        before = self.total.get(context.keys)["price"].fill_null(0).to_numpy()
        total = before + np.add.reduceat(batch["price"].to_numpy(), context.offsets[:-1])
        self.total.put(context.keys, {"price": total})
        if self.is_timed:
            context.register_event_time_timers(context.keys, (context.timestamps[0] // 10_000 + 1) * 10_000)
        return {"auction": context.keys["auction"], "total": total}

    def on_timer(self, keys, context):
        self.total.clear(keys)


class RunningTotalsOfRecords(KeyedProcessFunction):
    def __init__(self, is_timed):
        self.is_timed = is_timed

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        if self.is_timed:
            ctx.timer_service().register_event_time_timer((ctx.timestamp() // 10_000 + 1) * 10_000)
        yield value[0], total

    def on_timer(self, timestamp, ctx):
        self.total.clear()


def processed(width, is_timed):
    keyed = columns(width).key_by("auction")
    drained(keyed.process_batches(RunningTotals(is_timed), "auction bigint, total bigint"))


def processed_records(width, is_timed):
    with keyed_records(width).process(RunningTotalsOfRecords(is_timed)).execute_and_collect() as results:
        return sum(1 for _ in results)


@functools.cache
def kept_ids():
    return [(auctions * 7919 + 1) % JOIN_KEYS for auctions, _ in kept(JOIN_KEYS)]


def other_batch_of(number):
    times = np.arange(number * STEP, (number + 1) * STEP) // ROWS_PER_MS
    return pa.record_batch({"id": kept_ids()[number % 64], "reserve": kept(JOIN_KEYS)[number % 64][1], "opened": times})


def interval_join(how):
    env = environment()
    left = batches(functools.partial(batch_of, JOIN_KEYS), ROWS // 2, env)
    left = left.as_columns("auction bigint, price bigint, at bigint").assign_timestamps_and_watermarks("at")
    right = batches(other_batch_of, ROWS // 2, env)
    right = right.as_columns("id bigint, reserve bigint, opened bigint").assign_timestamps_and_watermarks("opened")
    joined = left.key_by("auction").join(right.key_by("id"), how)
    drained(joined.between(Time.seconds(-1), Time.seconds(1)))


def polars_join():
    import polars

    numbers = range(JOINED_WHOLE // 2 // STEP)
    left = polars.from_arrow(pa.Table.from_batches([batch_of(JOIN_KEYS, number) for number in numbers]))
    right = polars.from_arrow(pa.Table.from_batches([other_batch_of(number) for number in numbers]))
    pairs = left.join(right, left_on="auction", right_on="id")
    return pairs.filter((polars.col("opened") - polars.col("at")).abs() <= 1000).height


TUMBLING = TumblingEventTimeWindows.of(Time.seconds(10))
SLIDING = SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2))
LONG = SlidingEventTimeWindows.of(Time.seconds(600), Time.seconds(1))
CASES = {
    "columns_stateless.flinkbuf": (functools.partial(stateless, BY_FUNCTIONS, False), ROWS),
    "columns_stateless.flinkbuf_timestamps": (functools.partial(stateless, BY_FUNCTIONS, True), ROWS),
    "columns_stateless.pyarrow_kernels": (arrow_kernels, ROWS),
    "columns_stateless_expressions.flinkbuf": (functools.partial(stateless, BY_EXPRESSIONS, False), ROWS),
    "columns_stateless_expressions.pyarrow_alone": (arrow_expressions, ROWS),
}
for name, width in KEYS.items():
    CASES[f"columns_tumbling_{name}.flinkbuf"] = functools.partial(windows, width, TUMBLING), ROWS
    CASES[f"columns_tumbling_{name}.flinkbuf_records"] = functools.partial(records, width, TUMBLING), RECORDS
    CASES[f"columns_tumbling_{name}.pyarrow_group_by"] = functools.partial(arrow_group_by, width), ROWS
    for what, is_timed in (("process", False), ("timers", True)):
        CASES[f"columns_{what}_{name}.flinkbuf"] = functools.partial(processed, width, is_timed), ROWS
        CASES[f"columns_{what}_{name}.flinkbuf_records"] = (
            functools.partial(processed_records, width, is_timed),
            RECORDS,
        )
    CASES[f"columns_first_by_key_{name}.flinkbuf"] = functools.partial(deduplicated, width, "first"), ROWS
    CASES[f"columns_last_by_key_{name}.flinkbuf"] = functools.partial(deduplicated, width, "last"), ROWS
    CASES[f"columns_top_10_by_key_{name}.flinkbuf"] = functools.partial(ranked, width), ROWS
CASES["columns_sliding_10s_2s.flinkbuf"] = functools.partial(windows, 1000, SLIDING), ROWS
CASES["columns_sliding_10s_2s.flinkbuf_records"] = functools.partial(records, 1000, SLIDING), RECORDS
CASES["columns_sliding_600s_1s.flinkbuf"] = functools.partial(windows, 1000, LONG), ROWS
for name, (width, gap) in SESSIONS.items():
    sessions = EventTimeSessionWindows.with_gap(Time.milliseconds(gap))
    CASES[f"columns_sessions_{name}.flinkbuf"] = functools.partial(windows, width, sessions), ROWS
    CASES[f"columns_sessions_{name}.flinkbuf_records"] = functools.partial(records, width, sessions), RECORDS
CASES["columns_count_windows_1k.flinkbuf"] = functools.partial(count_windows, 1000, 100), ROWS
CASES["columns_interval_join.flinkbuf"] = functools.partial(interval_join, "inner"), ROWS
CASES["columns_interval_join.flinkbuf_full"] = functools.partial(interval_join, "full"), ROWS
CASES["columns_interval_join.polars_whole"] = polars_join, JOINED_WHOLE
CASES["columns_shuffled_1k.flinkbuf"] = functools.partial(shuffled, 1000), SHUFFLED_ROWS
LATENCIES = {"columns_latency.flinkbuf": True, "columns_latency.flinkbuf_records": False}


def measure_latency(name, benchmark=None):
    seconds = [latency(LATENCIES[name]) for _ in range(1 if SMOKE else 3)]
    report(name, seconds, 1, "rows", benchmark=benchmark)


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    run, rows = CASES[name]
    measure(name, run, rows, "rows", benchmark=benchmark)


@pytest.mark.parametrize("name", LATENCIES)
def test_latency(benchmark, name):
    benchmark.pedantic(lambda: None, rounds=1)
    measure_latency(name, benchmark)


if __name__ == "__main__":
    for name, (run, rows) in CASES.items():
        if all(word in name for word in sys.argv[1:]):
            measure(name, run, rows, "rows", repeats=3 if "shuffled" in name else REPEATS)
    for name in LATENCIES:
        if all(word in name for word in sys.argv[1:]):
            measure_latency(name)
