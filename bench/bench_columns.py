"""How many rows a second does a program over columns do, next to the same program over records, and to pyarrow alone?

Batches of 8,192 rows (two int64, milliseconds; 100,000 rows a second of event time) come from a source that makes
them of kept arrays; whole jobs on threads of this process, sources and starts included. The rivals: the same windows
over records, of fewer rows, as they take that much longer; and pyarrow's `group_by` by window and key over the whole
table at once, which knows no watermark and keeps all rows. What has no state takes kept batches (int64, string,
float64, timestamp), of which pyarrow's kernels alone are the rival, or its expressions where those are what is asked;
their rows have timestamps in one row of figures, which the rival has no part of. Counterpart in Flink: the Nexmark
queries on windows.

The join is of two such streams of half the rows each, by 200,000 keys, with times at most a second apart: 100,000 rows
of each side are kept at any time, which have some 126,000 different keys, and a row has one partner on average. Its
rival is polars' join of whole tables on one thread, of fewer rows, as it makes all pairs of a key before it looks at
times.
"""

import functools
import os
import sys

import pytest
from measure import measure, scaled

pytest.importorskip("pyarrow")
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from flinkbuf.common import Configuration, Time, Types, WatermarkStrategy
from flinkbuf.datastream import AggregateFunction, KeyedProcessFunction, StreamExecutionEnvironment
from flinkbuf.datastream.columns import KeyedBatchFunction, count, sum_
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
KEYS = {"1k": 1_000, "1m": 1_000_000}
# Keys, and the gap of their sessions, which are of some 150 rows, or of one: a row of a key comes every 10 or 1,000 ms.
SESSIONS = {"1k": (1_000, 50), "100k": (100_000, 5_000), "100k_short": (100_000, 50)}


@functools.cache
def kept(width):
    random = np.random.default_rng(1)
    return [(random.integers(0, width, STEP), random.integers(0, 1000, STEP)) for _ in range(64)]


def batch_of(width, number):
    auctions, prices = kept(width)[number % 64]
    times = np.arange(number * STEP, (number + 1) * STEP) // ROWS_PER_MS
    return pa.record_batch({"auction": auctions, "price": prices, "at": times})


def environment():
    config = Configuration()
    config.set_string("execution.target", "embedded")
    return StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(1)


def batches(batch_of, row_count, env=None):
    numbers = NumberSequenceSource(0, row_count // STEP - 1)
    stream = (env or environment()).from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
    return stream.map(batch_of)


def counted(stream):
    """How many rows come out, which is told once a batch."""
    counts = stream.flat_map_batches(lambda batch: pa.record_batch({"n": pa.array([batch.num_rows])}))
    with counts.execute_and_collect() as found:
        return sum(row.n for row in found)


def columns(width):
    rows = batches(functools.partial(batch_of, width), ROWS).as_columns("auction bigint, price bigint, at bigint")
    return rows.assign_timestamps_and_watermarks("at")


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
    with rows.flat_map_batches(lambda batch: None).execute_and_collect() as nothing:
        assert not list(nothing)


def windows(width, assigner):
    found = columns(width).key_by("auction").window(assigner).aggregate(bids=count(), total=sum_("price"))
    return counted(found)


def count_windows(width, size):
    rows = columns(width).key_by("auction").count_window(size)
    return counted(rows.aggregate(bids=count(), total=sum_("price")))


def deduplicated(width, keep):
    return counted(columns(width).key_by("auction").deduplicate(keep))


def ranked(width):
    return counted(columns(width).key_by("auction").top(10, by="price", rank="rank"))


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
    return counted(keyed.process_batches(RunningTotals(is_timed), "auction bigint, total bigint"))


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
    return counted(joined.between(Time.seconds(-1), Time.seconds(1)))


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


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    run, rows = CASES[name]
    measure(name, run, rows, "rows", benchmark=benchmark)


if __name__ == "__main__":
    for name, (run, rows) in CASES.items():
        if all(word in name for word in sys.argv[1:]):
            measure(name, run, rows, "rows")
