"""What sessions over columns have of their own; that they are those of records is in test_column_windows."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK
from flinkbuf.common import Time
from flinkbuf.datastream import OutputTag, StreamExecutionEnvironment
from flinkbuf.datastream.columns import (
    ColumnAggregateFunction,
    collect,
    count,
    count_distinct,
    first,
    last,
    max_,
    mean,
    min_,
    min_by,
    sum_,
    window_end,
    window_start,
)
from flinkbuf.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.streaming.columns import column_sessions, key_windows
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import Watermark

GAP = 10
LATE = OutputTag("late")


def keyed(*key):
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([]).as_columns("k string, v bigint").key_by(*(key or ["k"]))


def sessions(gap=GAP, lateness=0, **aggregates):
    stream = keyed().window(EventTimeSessionWindows.with_gap(Time.milliseconds(gap))).allowed_lateness(lateness)
    aggregates = aggregates or {"n": count(), "all": collect("v")}
    return stream.side_output_late_data(LATE).aggregate(**aggregates, start=window_start(), end=window_end())._stream


def element_of(rows, type_=None):
    keys, values, times = zip(*rows, strict=True)
    return ColumnBatch(pa.record_batch({"k": pa.array(keys), "v": pa.array(values, type_)}), np.array(times))


def results(harness):
    """Rows as dicts; start and end are numbers."""
    for each in harness.output:
        if not isinstance(each, Watermark):
            for row, time in zip(each.value.batch.to_pylist(), each.value.timestamps.tolist(), strict=True):
                start, end = (round(row.pop(name).timestamp() * 1000) for name in ("start", "end"))
                assert time == end - 1
                yield {**row, "start": start, "end": end}


class Model:
    """Sessions of keys, as rows come one after the other; of two that are joined, the older one's rows come first."""

    def __init__(self):
        self.open, self.given, self.late, self.watermark, self.number = [], [], [], -math.inf, 0

    def add(self, key, value, time):
        joined = [each for each in self.open if each[0] == key and each[1] <= time + GAP and time <= each[2]]
        if not joined and time + GAP - 1 <= self.watermark:
            self.late.append(value)
            return
        joined.sort(key=lambda each: each[3])
        self.number += 1
        start, end = min([time, *(each[1] for each in joined)]), max([time + GAP, *(each[2] for each in joined)])
        number = joined[0][3] if joined else self.number
        values = [value for each in joined for value in each[4]]
        self.open = [each for each in self.open if each not in joined]
        self.open.append((key, start, end, number, [*values, value]))

    def advance(self, watermark):
        self.watermark = watermark
        over = [each for each in self.open if each[2] - 1 <= watermark]
        self.given += sorted(over, key=lambda each: each[2])
        self.open = [each for each in self.open if each not in over]


AGGREGATES = {
    "n": count(),
    "valid": count("v"),
    "total": sum_("v"),
    "mean": mean("v"),
    "least": min_("v"),
    "most": max_("v"),
    "first": first("v"),
    "last": last("v"),
    "by": min_by("v", "w"),
    "kinds": count_distinct("v"),
    "all": collect("v"),
}


def expected(key, start, end, values):
    there = [value for value in values if value is not None]
    return {
        "k": key,
        "n": len(values),
        "valid": len(there),
        "total": sum(there) if there else None,
        "mean": sum(there) / len(there) if there else None,
        "least": min(there, default=None),
        "most": max(there, default=None),
        "first": there[0] if there else None,
        "last": there[-1] if there else None,
        "by": values[0],  # as `w` is the same in all rows
        "kinds": len(set(there)),
        "all": there or None,
        "start": start,
        "end": end,
    }


ROW = st.tuples(st.sampled_from(["a", "b", "", None]), st.none() | st.integers(-4, 4), st.integers(0, 90))
STEPS = st.lists(st.lists(ROW, min_size=1, max_size=12) | st.integers(0, 15), max_size=16)


@settings(max_examples=100, deadline=None)
@given(STEPS, st.sampled_from(["batches", "rows", "restores", "new tables"]), st.integers(1, 3))
def test_sessions_are_those_of_a_model_wherever_they_are_joined(steps, way, keep):
    """Rows of a batch that join sessions, batches of one row, restores at any point, tables that are made anew."""
    model, found, late, watermark = Model(), [], [], -1
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([]).as_columns("k string, v bigint").with_columns(w=lambda batch: pa.scalar(7))
    stream = stream.key_by("k", "w").window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP)))
    stream = stream.side_output_late_data(LATE)
    stream = stream.aggregate(**AGGREGATES, start=window_start(), end=window_end())._stream
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(column_sessions, "_ROWS_AT_ONCE", keep)
        if way == "new tables":
            patched.setattr(key_windows, "MIN_OVER", 0)
        harness = OperatorHarness.of(stream)
        harness.open()
        for step in [*steps, MAX_WATERMARK]:
            if isinstance(step, int):
                watermark = step if step == MAX_WATERMARK else watermark + step
                model.advance(watermark)
                harness.process_watermark(watermark)
            else:
                for row in step:
                    model.add(*row)
                for rows in [[row] for row in step] if way == "rows" else [step]:
                    element = element_of(rows, pa.int64())
                    batch = element.batch.set_column(0, "k", element.batch["k"].cast(pa.string()))
                    batch = batch.append_column("w", pa.array([7] * len(rows)))
                    harness.process_element(element.with_batch(batch), 0)
            if way == "restores" and step != MAX_WATERMARK:
                taken = harness.snapshot()
                found, late = [*found, *results(harness)], [*late, *late_of(harness)]
                harness.close()
                harness = OperatorHarness.of(stream, restore=taken)
                harness.open()
                harness.process_watermark(watermark)
        found, late = [*found, *results(harness)], [*late, *late_of(harness)]
        harness.close()
    assert late == model.late
    assert [row["end"] for row in found] == [each[2] for each in model.given]
    for row in found:
        assert row.pop("w") == 7
    wanted = [expected(key, start, end, values) for key, start, end, _, values in model.given]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def late_of(harness):
    return [row["v"] for each in harness.side_output(LATE) for row in each.value.batch.to_pylist()]


@pytest.mark.parametrize(
    "values",
    [
        [None, math.nan, -0.0, 0.0, 1.5],
        [Decimal("1.50"), Decimal("-7.25"), None, Decimal("0.00"), Decimal("3.10")],
        ["b", "", None, "a\0", "é"],
        [b"b", b"", None, b"\0", b"a"],
        [True, False, None, True, True],
    ],
    ids=["doubles", "decimals", "texts", "binary", "booleans"],
)
def test_values_of_all_types_are_those_of_one_tumbling_window(values):
    """In the order in which they came, with a session that is joined of three, and read back from a snapshot."""
    times = [0, 30, 15, 8, 22]
    aggregates = {
        "least": min_("v"),
        "most": max_("v"),
        "first": first("v"),
        "last": last("v"),
        "kinds": count_distinct("v"),
    }
    found = []
    for windows in (EventTimeSessionWindows(GAP), TumblingEventTimeWindows(1000, 0)):
        stream = keyed().window(windows).aggregate(**aggregates)._stream
        with OperatorHarness.of(stream) as harness:
            for row in zip(["a"] * 4, values[:4], times[:4], strict=True):
                harness.process_element(element_of([row], pa.array(values).type), 0)
            taken = harness.snapshot()
        with OperatorHarness.of(stream, restore=taken) as harness:
            harness.process_element(element_of([("a", values[4], times[4])], pa.array(values).type), 0)
            harness.process_watermark(MAX_WATERMARK)
            (given,) = (each.value.batch for each in harness.output if not isinstance(each, Watermark))
        found.append(given)
    assert repr(found[0].to_pylist()[0]["least"]) == repr(found[1].to_pylist()[0]["least"])
    names = ["most", "last", "kinds"]
    assert repr(found[0].select(names).to_pylist()) == repr(found[1].select(names).to_pylist())
    assert found[0].schema == found[1].schema


def test_a_row_that_is_late_counts_where_it_touches_a_session_that_is_not():
    with OperatorHarness.of(sessions()) as harness:
        harness.process_element(element_of([("a", 1, 20)]), 0)
        harness.process_watermark(22)
        # Row 2 comes before row 3, which would have joined it to the session.
        harness.process_element(element_of([("a", 2, 0), ("a", 3, 10), ("a", 4, 1), ("b", 5, 12), ("b", 6, 14)]), 0)
        harness.process_watermark(MAX_WATERMARK)
        assert list(results(harness)) == [
            {"k": "b", "n": 1, "all": [6], "start": 14, "end": 24},
            {"k": "a", "n": 3, "all": [1, 3, 4], "start": 1, "end": 30},
        ]
        assert late_of(harness) == [2, 5]


class Bits(ColumnAggregateFunction):
    """Which values there were, and which came last, as bits."""

    state_schema = pa.schema([("bits", pa.int64()), ("last", pa.int64())])
    result_type = pa.string()

    def accumulate(self, batch, groups):
        bits = np.zeros(groups.max() + 1, np.int64)
        np.bitwise_or.at(bits, groups, np.left_shift(1, batch[0].to_numpy()))
        latest = np.zeros(len(bits), np.int64)
        latest[groups] = batch[0].to_numpy()
        return {"bits": bits, "last": latest}

    def merge(self, one, other):
        return {"bits": np.bitwise_or(one["bits"], other["bits"]), "last": other["last"]}

    def result(self, state):
        return [
            f"{bits:b} {last}"
            for bits, last in zip(*(state[name].to_pylist() for name in ("bits", "last")), strict=True)
        ]


def test_an_aggregate_of_the_user_takes_part():
    program = keyed().window(EventTimeSessionWindows(GAP)).aggregate(bits=Bits("v"))._stream
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(key_windows, "MIN_OVER", 0)
        with OperatorHarness.of(program) as harness:
            rows = [("a", 1, 0), ("b", 5, 3), ("a", 3, 20), ("a", 2, 10), ("b", 0, 4), ("a", 4, 50)]
            harness.process_element(element_of(rows), 0)
            taken = harness.snapshot()
        with OperatorHarness.of(program, restore=taken) as harness:
            harness.process_element(element_of([("a", 0, 11)]), 0)
            harness.process_watermark(MAX_WATERMARK)
            found = [row for each in harness.output[:-1] for row in each.value.batch.to_pylist()]
    assert found == [{"k": "b", "bits": "100001 0"}, {"k": "a", "bits": "1111 0"}, {"k": "a", "bits": "10000 4"}]


def test_late_rows_are_counted_where_nobody_wants_them():
    stream = keyed().window(EventTimeSessionWindows(GAP)).aggregate(n=count())._stream
    with OperatorHarness.of(stream) as harness:
        harness.process_watermark(50)
        harness.process_element(element_of([("a", 1, 20), ("a", 1, 21), ("a", 1, 50)]), 0)
        assert harness.metrics.sample()["numLateRecordsDropped"] == 2


def test_a_batch_of_late_rows_gives_each_session_once():
    """As it is behind the batch: one that goes on is given when it ends, and one that was joined not at all."""
    with OperatorHarness.of(sessions(lateness=100)) as harness:
        harness.process_element(element_of([("a", 1, 0), ("b", 2, 0), ("c", 3, 30), ("c", 4, 0), ("d", 5, 0)]), 0)
        harness.process_watermark(41)
        given = len(list(results(harness)))
        assert given == 5
        rows = [
            ("c", 6, 10),
            ("c", 7, 20),
            ("a", 8, 1),
            ("a", 9, 2),
            ("b", 10, 9),
            ("b", 11, 19),
            ("b", 12, 29),
            ("b", 13, 39),
        ]
        harness.process_element(element_of(rows), 0)
        assert list(results(harness))[given:] == [
            {"k": "a", "n": 3, "all": [1, 8, 9], "start": 0, "end": 12},
            {"k": "c", "n": 4, "all": [3, 4, 6, 7], "start": 0, "end": 40},
        ]
        harness.process_watermark(MAX_WATERMARK)
        assert list(results(harness))[given + 2 :] == [
            {"k": "b", "n": 5, "all": [2, 10, 11, 12, 13], "start": 0, "end": 49}
        ]


def test_a_session_that_never_ends_takes_no_more_memory():
    """Nor do sessions and keys that come and go."""
    program = sessions(n=count(), last=last("v"), least=min_("k"), most=max_("v"))
    sizes = []
    with pytest.MonkeyPatch.context() as patched, OperatorHarness.of(program) as harness:
        patched.setattr(key_windows, "MIN_OVER", 500)
        for number in range(300):
            at = 10 * number
            rows = [("whole", at, at), *((f"k{at + i}", i, at + i) for i in range(10)), ("whole", 1, at + 5)]
            harness.process_element(element_of(rows), 0)
            harness.process_watermark(at)
            operator = harness.operator
            sizes.append((operator.table.nbytes, len(operator.table), operator.key_count))
        assert operator.table.open_count < 30
        harness.process_watermark(MAX_WATERMARK)
        found = list(results(harness))
    assert max(sizes[:150]) >= max(sizes[150:]) and max(size[1] for size in sizes) < 700
    assert len(found) == 3001
    (whole,) = [row for row in found if row["k"] == "whole"]
    assert whole == {"k": "whole", "n": 600, "last": 1, "least": "whole", "most": 2990, "start": 0, "end": 3005}


def test_values_of_sessions_that_are_over_are_let_go():
    """Though there are few sessions, and many values in each."""
    with pytest.MonkeyPatch.context() as patched, OperatorHarness.of(sessions()) as harness:
        patched.setattr(key_windows, "MIN_BYTES", 100_000)
        for number in range(60):
            harness.process_element(element_of([("a", i, 100 * number) for i in range(1000)]), 0)
            harness.process_watermark(100 * number + 50)
            assert harness.operator.aggregates.nbytes < 250_000
        assert [row["all"] for row in results(harness)] == 60 * [list(range(1000))]


def test_all_that_end_with_a_watermark_are_one_element():
    with OperatorHarness.of(sessions()) as harness:
        rows = [(f"k{number}", number, number * 7919 % 1000) for number in range(500)]
        harness.process_element(element_of(rows), 0)
        harness.process_watermark(600)
        harness.process_watermark(MAX_WATERMARK)
        elements = [each.value for each in harness.output if not isinstance(each, Watermark)]
    assert len(elements) == 2
    times = np.concatenate([each.timestamps for each in elements])
    assert len(times) == 500 and (np.diff(times) >= 0).all() and elements[0].latest <= 600 < elements[1].timestamps[0]


def test_a_snapshot_of_another_gap_or_other_windows_is_refused():
    def snapshot_of(windows):
        with OperatorHarness.of(keyed().window(windows).aggregate(n=count())._stream) as harness:
            harness.process_element(element_of([("a", 1, 3)]), 0)
            return harness.snapshot()

    programs = [EventTimeSessionWindows(GAP), EventTimeSessionWindows(11), TumblingEventTimeWindows(GAP, 0)]
    texts = [r"EventTimeSessionWindows\(10\)", r"EventTimeSessionWindows\(11\)", "SlicedWindows.*"]
    for had, taken in enumerate(map(snapshot_of, programs)):
        for has, windows in enumerate(programs):
            harness = OperatorHarness.of(keyed().window(windows).aggregate(n=count())._stream, restore=taken)
            if had == has:
                harness.open()
                continue
            with pytest.raises(
                TypeError, match=f"the snapshot has {texts[had]}, and .* has {texts[has]}, .* keep the win"
            ):
                harness.open()


def test_rows_that_no_session_fits_are_refused():
    with OperatorHarness.of(sessions()) as harness:
        with pytest.raises(ValueError, match="a row has no timestamp, .* assign_timestamps_and_watermarks"):
            harness.process_element(ColumnBatch(element_of([("a", 1, 3)]).batch), 0)
        with pytest.raises(OverflowError, match=f"a row with timestamp {2**63 - 5} does not fit into 64 bits"):
            harness.process_element(element_of([("a", 1, 3), ("a", 1, 2**63 - 5)]), 0)


def test_batch_execution_gives_all_sessions_at_the_end():
    rows = [("a", 1, 50), ("b", 2, 3), ("a", 3, 0), ("a", 4, 8)]
    with OperatorHarness.of(sessions()) as harness:
        for row in rows:
            harness.process_element(element_of([row]), 0)
        assert not list(results(harness))
        harness.process_watermark(MAX_WATERMARK)
        assert [(row["k"], row["all"], row["end"]) for row in results(harness)] == [
            ("b", [2], 13),
            ("a", [3, 4], 18),
            ("a", [1], 60),
        ]
