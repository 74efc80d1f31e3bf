"""Aggregates of the user over columns give what the same functions give group by group, wherever states are merged."""

import math

import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK
from flinkbuf.common import Time
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.columns import ColumnAggregateFunction, count, sum_
from flinkbuf.datastream.window import SlidingEventTimeWindows
from flinkbuf.records.column_batch import ColumnBatch, PageWriter
from flinkbuf.records.column_exchange import RowKeys
from flinkbuf.streaming.columns.aggregate_function import FunctionStates
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import Watermark

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64())])
MAX_PARALLELISM = 8


class Drawdown(ColumnAggregateFunction):
    """How far the values of a group have fallen below the highest that came before: the order of rows matters."""

    state_schema = pa.schema([("high", pa.float64()), ("low", pa.float64()), ("fall", pa.float64())])
    result_type = pa.float64()

    def accumulate(self, batch, groups):
        rows = polars.DataFrame({"v": batch[0].to_numpy(), "g": groups})
        high = polars.col("v").cum_max().over("g")
        rows = rows.with_columns(fall=high - polars.col("v"))
        found = rows.group_by("g", maintain_order=False).agg(
            high=polars.col("v").max(), low=polars.col("v").min(), fall=polars.col("fall").max()
        )
        return found.sort("g").drop("g")

    def merge(self, one, other):
        across = pc.subtract(one["high"], other["low"])
        return pa.table(
            {
                "fall": pc.max_element_wise(one["fall"], other["fall"], across),
                "high": pc.max_element_wise(one["high"], other["high"]),
                "low": np.minimum(one["low"], other["low"]),
            }
        )

    def result(self, state):
        return state["fall"]


class Texts(ColumnAggregateFunction):
    """All texts one behind the other, and how many rows, of no column at all."""

    state_schema = pa.schema([("all", pa.string())])
    result_type = pa.string()

    def accumulate(self, batch, groups):
        texts = [""] * (groups.max() + 1)
        for group, text in zip(groups.tolist(), batch[0].to_pylist(), strict=True):
            texts[group] += text or "?"
        return {"all": texts}

    def merge(self, one, other):
        return {"all": pc.binary_join_element_wise(one["all"], other["all"], "")}

    def result(self, state):
        return state["all"]


def fall_of(values):
    high, fall = -math.inf, 0.0
    for value in values:
        high = max(high, value)
        fall = max(fall, high - value)
    return fall


def states_of(function, rows):
    states = FunctionStates(function, "x")
    for batch in rows:
        slots = np.array([slot for slot, _ in batch], np.uint32)
        states.accumulate(slots, 6, pa.array([value for _, value in batch]))
    return states


BATCHES = st.lists(st.lists(st.tuples(st.integers(0, 5), st.floats(-9, 9)), min_size=1, max_size=8), max_size=6)


@settings(max_examples=40)
@given(BATCHES)
def test_states_that_meet_in_any_way_are_those_of_all_rows(batches):
    """Rows one after the other, or states of each batch merged at once, in which a slot occurs many times."""
    rows = [row for batch in batches for row in batch]
    model = {slot: fall_of([value for other, value in rows if other == slot]) for slot in dict(rows)}
    there = np.array(sorted(model), np.int64)
    one = states_of(Drawdown("v"), batches)
    merged, slots, parts = FunctionStates(Drawdown("v"), "x"), [], []
    for batch in batches:
        slots.append(np.unique([slot for slot, _ in batch]))
        state = states_of(Drawdown("v"), [batch]).state(slots[-1])
        parts.append(pa.record_batch(list(state), schema=Drawdown.state_schema))
    if parts:
        columns = pa.Table.from_batches(parts).combine_chunks().to_batches()[0].columns
        merged.merge(np.concatenate(slots).astype(np.uint32), 6, *columns)
    for states in (one, merged):
        assert states.result(there).to_pylist() == pytest.approx([model[slot] for slot in sorted(model)])


def test_states_are_not_kept_for_ever():
    states = FunctionStates(Texts("v"), "x")
    for number in range(6000):
        states.merge(np.array([0, 1], np.uint32), 2, pa.array([str(number % 10), ""]))
    assert len(states._rows) < 10_000
    assert states.result().to_pylist() == ["0123456789" * 600, ""]


def stream_of(windows=None, **aggregates):
    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection([]).as_columns(SCHEMA).key_by("k")
    if windows is not None:
        keyed = keyed.window(SlidingEventTimeWindows.of(*map(Time.milliseconds, windows)))
    return keyed.aggregate(**aggregates)._stream


def element_of(rows, at=0):
    batch = pa.record_batch([pa.array(column) for column in zip(*rows, strict=True)], schema=SCHEMA)
    return ColumnBatch(batch, np.arange(at, at + len(rows)))


def results_of(harness):
    for each in harness.output:
        if not isinstance(each, Watermark):
            rows, times = each.value.batch.to_pylist(), each.value.timestamps
            times = [each.timestamp] * len(rows) if times is None else times.tolist()
            yield from zip(times, map(tuple, map(dict.values, rows)), strict=True)


ROWS = st.lists(st.tuples(st.integers(0, 3), st.floats(-9, 9)), min_size=1, max_size=40)


@settings(max_examples=20, deadline=None)
@given(ROWS, st.sampled_from([(10, 10), (12, 4), (16, 1)]), st.lists(st.integers(1, 3), min_size=2, max_size=3))
def test_windows_that_are_put_together_after_a_rescale(rows, windows, parallelisms):
    """Each slice, tier and cohort is merged by the function of the user, in the order in which rows came."""
    stream = stream_of(windows, fall=Drawdown("v"), n=count())
    restore, found, start = None, [], 0
    for number, parallelism in enumerate(parallelisms):
        is_last = number == len(parallelisms) - 1
        end = len(rows) if is_last else start + len(rows) // len(parallelisms)
        part, snapshots = element_of(rows, 0).slice(start, end), []
        for index in range(parallelism):
            options = {"parallelism": parallelism, "subtask_index": index, "max_parallelism": MAX_PARALLELISM}
            with OperatorHarness.of(stream, restore=restore, **options) as harness:
                mine = np.flatnonzero(RowKeys(("k",), MAX_PARALLELISM, parallelism).of(part.batch) == index)
                if len(mine):
                    harness.process_element(PageWriter().write(part.take(mine)), 0)
                harness.process_watermark(MAX_WATERMARK if is_last else start)
                snapshots.append(harness.snapshot())
                found += results_of(harness)
        restore, start = snapshots, end
    size, slide = windows
    wanted = []
    for end in range(slide, len(rows) + size + 1, slide):
        inside = rows[max(end - size, 0) : end]
        for key in {key for key, _ in inside}:
            values = [value for other, value in inside if other == key]
            wanted.append((end - 1, (key, pytest.approx(fall_of(values)), len(values))))
    assert sorted(found) == sorted(wanted, key=lambda each: (each[0], each[1][0]))


def test_an_array_that_is_given_may_be_used_again():
    kept = np.zeros(1)

    class Reused(ColumnAggregateFunction):
        state_schema = pa.schema([("n", pa.float64())])
        result_type = pa.float64()

        def accumulate(self, batch, groups):
            kept[0] = len(groups)
            return {"n": kept}

        def merge(self, one, other):
            kept[0] = one["n"][0].as_py() + other["n"][0].as_py()
            return {"n": kept}

        def result(self, state):
            kept[0] = state["n"][0].as_py()
            return kept

    with OperatorHarness.of(stream_of(n=Reused())) as harness:
        for size in (1, 2, 3):
            harness.process_element(element_of([(1, 0.0)] * size), 0)
        assert [row for _, row in results_of(harness)] == [(1, 1.0), (1, 3.0), (1, 6.0)]


class Given(ColumnAggregateFunction):
    """Gives what a test says."""

    state_schema = pa.schema([("n", pa.int64())])
    result_type = pa.int64()

    def __init__(self, accumulated=None, merged=None, result=None):
        super().__init__("v")
        self.given = accumulated, merged, result

    def accumulate(self, batch, groups):
        return {"n": np.bincount(groups)} if self.given[0] is None else self.given[0]

    def merge(self, one, other):
        return {"n": np.add(one["n"], other["n"])} if self.given[1] is None else self.given[1]

    def result(self, state):
        return state["n"] if self.given[2] is None else self.given[2]


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"accumulated": 5}, TypeError, r"Given.accumulate\(\) for 'x' gives the columns n, as a dict.*; got int 5"),
        ({"accumulated": {"m": [1]}}, ValueError, r"accumulate\(\) for 'x' gave the columns m, and state_schema has n"),
        ({"accumulated": {"n": [1, 2]}}, ValueError, r"accumulate\(\) for 'x' gave 2 values of 'n' for 1 groups"),
        ({"accumulated": {"n": 1}}, TypeError, r"for 'n' Given.accumulate\(\) for 'x' gives a column, .*; got int 1"),
        ({"accumulated": {"n": [1.5]}}, TypeError, "column 'n' of x= is int64 in state_schema and is double now"),
        ({"merged": {"n": []}}, ValueError, r"Given.merge\(\) for 'x' gave 0 values of 'n' for 1 states"),
        ({"result": [1, 2]}, ValueError, r"Given.result\(\) for 'x' was given 1 states and gave 2 values"),
        ({"result": ["a"]}, TypeError, "column 'x' has the result_type int64 and is string now"),
        ({"result": 7}, TypeError, r"Given.result\(\) for 'x' gives a column, .*; got int 7"),
    ],
)
def test_what_is_given_wrong_is_said_with_its_name(given, error, said):
    with OperatorHarness.of(stream_of(x=Given(**given))) as harness:
        with pytest.raises(error, match=said):
            for _ in range(2):
                harness.process_element(element_of([(1, 2.0), (1, 3.0)]), 0)


class Unsaid(ColumnAggregateFunction):
    state_schema = pa.schema([("n", pa.int64())])


class Uncalled(Given):
    def __init__(self):
        self.more = 1


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (Unsaid("v"), "result_type of Unsaid is a pyarrow.DataType, got NoneType None"),
        (Uncalled(), "the __init__ of Uncalled does not call that of its base"),
        (Given, r"x= of aggregate.* or a ColumnAggregateFunction; got type"),
    ],
)
def test_what_cannot_compute_is_refused_where_it_is_said(function, said):
    with pytest.raises(TypeError, match=said):
        stream_of(x=function)
    with pytest.raises(TypeError, match=r"the column of Texts\(\) must be the name of a column"):
        Texts(5)


def test_a_snapshot_of_another_function_or_other_states_is_refused():
    with OperatorHarness.of(stream_of(x=Texts("k"), n=sum_("v"))) as harness:
        texts = pa.record_batch({"k": ["a", "b"], "v": [1.0, 3.0]})
        harness.process_element(ColumnBatch(texts.slice(0, 1)), 0)
        taken = harness.snapshot()
    for other in (Given(), Texts("k", "v")):
        with pytest.raises(TypeError, match=r"the snapshot has x=Texts\(_\)\[all string\], n=sum\(_\) by k, and this"):
            OperatorHarness.of(stream_of(x=other, n=sum_("v")), restore=taken).open()
    with OperatorHarness.of(stream_of(x=Texts("k"), n=sum_("v")), restore=taken) as harness:
        harness.process_element(ColumnBatch(texts.slice(1)), 0)
        harness.process_element(ColumnBatch(texts.slice(0, 1)), 0)
        assert [row for _, row in results_of(harness)] == [("b", "b", 3.0), ("a", "aa", 2.0)]
