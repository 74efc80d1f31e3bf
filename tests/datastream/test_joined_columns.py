"""Joins of column streams as a program has them: at both parallelisms, in both modes; what is refused, and where."""

import datetime
import re
import threading
import time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from flinkbuf.common import Configuration, Time, Types, WatermarkStrategy
from flinkbuf.datastream import RuntimeExecutionMode, SourceFunction, StreamExecutionEnvironment
from flinkbuf.datastream.columns import count
from flinkbuf.datastream.window import (
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flinkbuf.testing import JobHarness

AUCTIONS = [(n % 7, f"item {n}", n * 100) for n in range(40)]
BIDS = [(n % 9, n * 1.5, n * 60 + 30) for n in range(60)]


def environment(parallelism=1, is_batch=False):
    config = Configuration().set_string("execution.target", "embedded")
    env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(parallelism)
    if is_batch:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


def both(env, how="inner"):
    auctions = env.from_collection(AUCTIONS).as_columns("id bigint, item string, opened bigint", max_rows=8)
    bids = env.from_collection(BIDS).as_columns("auction bigint, price double, at bigint", max_rows=16)
    auctions = auctions.assign_timestamps_and_watermarks("opened").key_by("id")
    return bids.assign_timestamps_and_watermarks("at").key_by("auction").join(auctions, how)


def expected(how, are_partners):
    pairs = [(bid, auction) for bid in BIDS for auction in AUCTIONS if are_partners(bid, auction)]
    left, right = {bid for bid, _ in pairs}, {auction for _, auction in pairs}
    if how in ("semi", "anti"):
        return sorted(bid for bid in BIDS if (bid in left) == (how == "semi"))
    rows = [(*bid, *auction) for bid, auction in pairs]
    if how in ("left", "full"):
        rows += [(*bid, None, None, None) for bid in BIDS if bid not in left]
    if how in ("right", "full"):
        rows += [(None, None, None, *auction) for auction in AUCTIONS if auction not in right]
    return sorted(rows, key=repr)


def found(stream):
    return sorted((tuple(row) for row in stream.execute_and_collect()), key=repr)


@pytest.mark.parametrize(("parallelism", "is_batch"), [(1, False), (2, False), (2, True)])
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_joins_of_a_program(how, parallelism, is_batch):
    joins = both(environment(parallelism, is_batch), how)
    near = joins.between(Time.milliseconds(-500), Time.seconds(1))
    windows = both(near._stream._env, how).window(TumblingEventTimeWindows.of(Time.milliseconds(500)))
    steps = CumulatingEventTimeWindows.of(Time.milliseconds(500), Time.milliseconds(250))
    cumulated = both(near._stream._env, how).window(steps)
    every = both(near._stream._env, how).time_to_live(Time.hours(1))
    marked = [
        stream.with_columns(kind=lambda batch, kind=kind: pa.scalar(kind))
        for kind, stream in (("near", near), ("window", windows), ("cumulated", cumulated), ("every", every))
    ]
    rows = {"near": [], "window": [], "cumulated": [], "every": []}
    for *row, kind in marked[0].union(*marked[1:]).execute_and_collect():
        rows[kind].append(tuple(row))
    same_key = lambda bid, auction: bid[0] == auction[0]  # noqa: E731
    rules = {
        "near": lambda bid, auction: same_key(bid, auction) and -500 <= auction[2] - bid[2] <= 1000,
        "window": lambda bid, auction: same_key(bid, auction) and auction[2] // 500 == bid[2] // 500,
        "every": same_key,
    }
    if how == "inner":  # pairs of the first half of a window are given twice, others with the whole
        first = expected(how, lambda a, b: rules["window"](a, b) and a[2] % 500 < 250 and b[2] % 500 < 250)
        assert sorted(rows["cumulated"]) == sorted(expected(how, rules["window"]) + first)
    for kind, rule in rules.items():
        assert sorted(rows[kind], key=repr) == sorted(expected(how, rule), key=repr), kind


@pytest.mark.parametrize("parallelism", [1, 2])
def test_results_go_on_as_columns_with_their_times(parallelism):
    """A row without a partner is late for no window behind the join."""
    near = both(environment(parallelism), "left").between(Time.milliseconds(0), Time.milliseconds(50))
    windows = near.key_by("auction").window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5)))
    total = sum(row.n for row in windows.aggregate(n=count()).execute_and_collect())
    rule = lambda bid, auction: bid[0] == auction[0] and 0 <= auction[2] - bid[2] <= 50  # noqa: E731
    assert total == 2 * len(expected("left", rule))


def test_types_are_kept():
    """In columns of both sides, with nulls, and as keys of several columns."""
    one = {
        "s": pa.array(["x", None, "y"]),
        "d": pa.array([Decimal("1.50"), Decimal("2.00"), None]),
        "when": pa.array([datetime.datetime(2024, 1, 1)] * 3, pa.timestamp("ms")),
        "f": [float("nan"), -0.0, 0.0],
        "all": [[1, 2], [], None],
        "b": [True, None, False],
        "raw": [b"\x00", b"", None],
    }
    left = pa.record_batch(one)
    right = left.rename_columns([f"{name}_2" for name in left.schema.names])
    env = environment()
    streams = [
        env.from_collection([batch]).as_columns(batch.schema).key_by(*keys)
        for batch, keys in ((left, ("s", "d", "f")), (right, ("s_2", "d_2", "f_2")))
    ]
    joined = streams[0].join(streams[1], how="full").time_to_live(Time.hours(1))
    assert joined.schema() == pa.schema([*left.schema, *right.schema])
    rows = joined.execute_and_collect(limit=9)
    assert len(rows) == 3
    for row in rows:
        values = tuple(row)
        assert repr(values[:7]) == repr(values[7:])


def test_a_stream_is_joined_with_itself():
    env = environment()
    pairs = env.from_collection([(1, 2), (1, 3)]).as_columns("k int, n int")
    again = pairs.rename(k="k2", n="n2").key_by("k2")
    assert found(pairs.key_by("k").join(again).time_to_live(Time.hours(1))) == [
        (1, 2, 1, 2),
        (1, 2, 1, 3),
        (1, 3, 1, 2),
        (1, 3, 1, 3),
    ]
    semi = pairs.key_by("k").join(pairs.key_by("k"), "semi").time_to_live(Time.hours(1))
    assert found(semi) == [(1, 2), (1, 3)], "where only left rows are given, names may be the same"


class OnlyEven(TumblingEventTimeWindows):
    """Windows of its own, which operators of columns do not know."""

    def assign_windows(self, element, timestamp, context):
        return super().assign_windows(element, timestamp, context) if timestamp % 2 == 0 else []


def pair(left="k int, n int", right="r int, m int"):
    env = environment()
    return env.from_collection([(1, 2)]).as_columns(left), env.from_collection([(1, 2)]).as_columns(right)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda a, b: a.key_by("k").join(b), "join.. of a keyed column stream takes another one, got ColumnStream"),
        (lambda a, b: a.key_by("k").join(b.key_by("r"), "outer"), "how= of join.. is one of 'inner', 'left'.*'outer'"),
        (lambda a, b: a.key_by("k", "n").join(b.key_by("r")), "keys of as many columns: the left one has k, n, and"),
        (lambda a, b: a.key_by("k").join(b.key_by("x")), "the right side of join.. has no column 'x' to be its key"),
        (
            lambda a, b: a.with_columns(k=lambda batch: batch["k"].cast("int64")).key_by("k").join(b.key_by("r")),
            "column 'k' of the left key is int64, and 'r' of the right one is int32: .* cast one of them",
        ),
        (
            lambda a, b: a.key_by("k").join(b.rename(m="n").key_by("r")),
            r"both sides of join.. have the column 'n', which would be in the result twice: .* with rename\(n=...\)",
        ),
        (
            lambda a, b: a.key_by("k").join(b.with_columns(x=lambda batch: pa.array([None] * len(batch))).key_by("r")),
            "column 'x' of the right side of join.. has no type where there are no rows",
        ),
        (
            lambda a, b: a.key_by("k").join(b.key_by("r")).window(EventTimeSessionWindows.with_gap(Time.seconds(1))),
            "joins of column streams take Tumbling.*, SlidingEventTimeWindows or CumulatingEventTimeWindows, got",
        ),
        (
            lambda a, b: a.key_by("k").join(b.key_by("r")).window(OnlyEven(1000, 0)),
            "joins of column streams take .*, got .*; others are to be had record by record",
        ),
        (lambda a, b: a.key_by("k").join(b.key_by("r")).between(5, 6), "lower_bound"),
        (
            lambda a, b: a.key_by("k").join(b.key_by("r")).between(Time.seconds(1), Time.seconds(0)),
            "lower_bound <= upper_bound must be fulfilled, got 1000 ms and 0 ms",
        ),
        (lambda a, b: a.key_by("k").join(b.key_by("r")).time_to_live(5), "the time to live"),
        (
            lambda a, b: a.key_by("k").join(b.key_by("r")).time_to_live(Time.seconds(0)),
            "the time to live must be longer than 0, got 0 ms",
        ),
    ],
)
def test_what_makes_no_join_is_refused_where_it_is_said(build, said):
    with pytest.raises((TypeError, ValueError, KeyError), match=said):
        build(*pair())


def test_keys_of_types_that_go_alike_meet():
    env = environment(2)
    texts = [f"k{n}" for n in range(20)]
    batches = pa.record_batch({"k": texts}), pa.record_batch({"r": pa.array(texts, pa.large_string())})
    left, right = (env.from_collection([batch]).as_columns(batch.schema) for batch in batches)
    joined = left.key_by("k").join(right.key_by("r")).time_to_live(Time.hours(1))
    assert found(joined) == sorted((text, text) for text in texts)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_rows_whose_key_has_another_type_than_the_schema_says_are_refused(parallelism):
    """-1 as an int is not where -1 as a bigint is: a join would miss it, at a parallelism above 1."""
    env = environment(parallelism)
    left, right = (
        env.from_collection(pa.table({name: [-1, -2, -3, -4], other: [1, 2, 3, 4]})).as_columns()
        for name, other in (("k", "n"), ("r", "m"))
    )

    def narrow(batch):
        return batch.set_column(0, "k", batch["k"].cast(pa.int32())) if len(batch) else batch

    joined = left.map_batches(narrow).key_by("k").join(right.key_by("r")).time_to_live(Time.hours(1))
    with pytest.raises(TypeError, match=r"column .k. is int64 to join\(\) and is int32 now, and it is of the key"):
        list(joined.execute_and_collect())


def test_a_row_without_a_timestamp_is_told_with_its_operator():
    left, right = pair()
    with pytest.raises(ValueError, match="a row of the left side has no timestamp") as caught:
        list(
            left.key_by("k")
            .join(right.assign_timestamps_and_watermarks("m").key_by("r"))
            .between(Time.seconds(0), Time.seconds(1))
            .execute_and_collect()
        )
    assert any("in operator" in note for note in caught.value.__notes__)


def test_watermarks_let_rows_go_while_a_stream_runs():
    """Strategies that give one with each record: rows without a partner come before the end."""
    env = environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    numbers = np.arange(1000)
    batches = [
        pa.record_batch({"k": numbers[at : at + 10] % 3, "t": numbers[at : at + 10]}) for at in range(0, 1000, 10)
    ]
    left = env.from_collection(batches).as_columns(batches[0].schema).assign_timestamps_and_watermarks("t", strategy)
    right = left.filter(lambda batch: pa.array(batch["t"].to_numpy() % 2 == 0)).rename(k="r", t="u")
    rows = found(left.key_by("k").join(right.key_by("r"), "left").between(Time.seconds(0), Time.milliseconds(2)))
    wanted = [(n % 3, n, n % 3, n) if n % 2 == 0 else (n % 3, n, None, None) for n in range(1000)]
    assert rows == sorted(wanted, key=repr)


PAIR = Types.TUPLE([Types.INT(), Types.INT()])


class OneSide(SourceFunction):
    """Gives rows of one side, one after the other, and goes on until it is stopped."""

    side = "left"  # whose rows this run gives
    has_given = threading.Event()

    def __init__(self, side):
        self.of, self.is_running = side, True

    def run(self, ctx):
        if self.of == OneSide.side:
            for number in range(50):
                ctx.collect((number % 5, number))
            OneSide.has_given.set()
        while self.is_running:
            time.sleep(0.002)

    def cancel(self):
        self.is_running = False


@pytest.mark.parametrize("parallelism", [1, 2])
def test_small_batches_that_wait_for_each_other_are_before_a_barrier(parallelism, tmp_path):
    """Nothing else has them go on here: no watermark, no timeout."""
    path = None
    for side in ("left", "right"):
        OneSide.side = side
        OneSide.has_given.clear()
        env = environment(parallelism).set_buffer_timeout(-1)
        if path is not None:
            env._configuration.set_string("execution.state-recovery.path", path)
        sides = [
            env.add_source(OneSide(of), type_info=PAIR).as_columns(columns, max_rows=1)
            for of, columns in (("left", "k int, n int"), ("right", "r int, m int"))
        ]
        joined = sides[0].key_by("k").join(sides[1].key_by("r")).time_to_live(Time.hours(1)).uid("join").as_records()
        with JobHarness(env, joined) as job:
            assert OneSide.has_given.wait(30)
            path = job.stop_with_savepoint(str(tmp_path))
            found = sorted(tuple(row) for row in job.output(joined))
        wanted = [(k % 5, k, k % 5, m) for k in range(50) for m in range(50) if k % 5 == m % 5]
        assert found == (sorted(wanted) if side == "right" else [])


def test_a_side_of_unknown_columns_is_refused_with_a_way_out():
    left, right = pair()
    unknown = right.flat_map_batches(lambda batch: [batch] if batch.num_rows else [])
    with pytest.raises(ValueError, match="which columns a function gives cannot be found") as caught:
        left.key_by("k").join(unknown.key_by("r"))
    assert re.search(r"its right side has; .* as_records\(type\)", caught.value.__notes__[0])
    known = unknown.as_records("r int, m int").as_columns("r int, m int")
    assert found(left.key_by("k").join(known.key_by("r")).time_to_live(Time.hours(1))) == [(1, 2, 1, 2)]
