"""Windows over columns give what the same windows give record by record: late rows, lateness, restores, rescales."""

import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK
from flinkbuf.common import Time
from flinkbuf.datastream import AggregateFunction, OutputTag, ProcessWindowFunction, StreamExecutionEnvironment
from flinkbuf.datastream.columns import (
    collect,
    count,
    count_distinct,
    first,
    last,
    max_,
    min_,
    min_by,
    sum_,
    window_end,
    window_start,
)
from flinkbuf.datastream.window import (
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flinkbuf.records.column_batch import ColumnBatch, PageReader, PageWriter
from flinkbuf.records.column_exchange import RowKeys, rows_by_number
from flinkbuf.streaming.columns import column_windows
from flinkbuf.streaming.columns.sliced_windows import SlicedWindows
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import Watermark

LATE = OutputTag("late")
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("at", pa.int64())])
MAX_PARALLELISM = 8


class Totals(AggregateFunction):
    def create_accumulator(self):
        return [0, 0, None]

    def add(self, value, accumulator):
        accumulator[0] += 1
        accumulator[1] += value[1]
        accumulator[2] = value[1] if accumulator[2] is None else max(accumulator[2], value[1])
        return accumulator

    def get_result(self, accumulator):
        return tuple(accumulator)

    def merge(self, one, other):
        return [one[0] + other[0], one[1] + other[1], max(one[2], other[2])]


class WithWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        for each in elements:
            yield (key, *each, window.start, window.end)


def assigner(windows):
    if windows[0] == "session":
        return EventTimeSessionWindows.with_gap(Time.milliseconds(windows[1]))
    size, slide, offset = (Time.milliseconds(each) for each in windows[:3])
    if windows[3:] == ("cumulating",):
        return CumulatingEventTimeWindows.of(size, slide, offset)
    if windows[0] == windows[1]:
        return TumblingEventTimeWindows.of(size, offset)
    return SlidingEventTimeWindows.of(size, slide, offset)


def by_record(windows, lateness):
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([]).key_by(lambda row: row[0]).window(assigner(windows)).allowed_lateness(lateness)
    return stream.side_output_late_data(LATE).aggregate(Totals(), WithWindow())


def by_column(windows, lateness):
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([]).as_columns(SCHEMA).key_by("k").window(assigner(windows))
    stream = stream.allowed_lateness(lateness).side_output_late_data(LATE)
    return stream.aggregate(n=count(), total=sum_("v"), most=max_("v"), start=window_start(), end=window_end())._stream


def element_of(rows):
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)], schema=SCHEMA
    )
    return ColumnBatch(batch, batch["at"].to_numpy())


def rows_of(elements):
    """What a harness has collected, as rows of numbers, in order; watermarks stay."""
    for each in elements:
        if isinstance(each, Watermark):
            yield each
            continue
        for row, time in zip(each.value.batch.to_pylist(), each.value.timestamps.tolist(), strict=True):
            start, end = (round(value.timestamp() * 1000) for value in (row["start"], row["end"]))
            assert time == end - 1
            yield row["k"], row["n"], row["total"], row["most"], start, end


def late_of(harness):
    return sorted(tuple(row.values()) for each in harness.side_output(LATE) for row in each.value.batch.to_pylist())


ALIKE = [(10, 10, 0), (10, 10, 3), (12, 4, 0), (10, 4, 1), (7, 3, 0), (3, 7, 2), (16, 1, 0), (5, 5, -2)]
CUMULATING = [(12, 4, 0, "cumulating"), (7, 7, 2, "cumulating"), (20, 2, -3, "cumulating")]
SESSIONS = [("session", 1), ("session", 4), ("session", 9), ("session", 25)]
WINDOWS = st.sampled_from([*ALIKE, *CUMULATING, *SESSIONS, *SESSIONS])
ROW = st.tuples(st.integers(0, 5), st.integers(-9, 9), st.integers(0, 60))
STEPS = st.lists(st.lists(ROW, min_size=1, max_size=8) | st.integers(0, 70), max_size=14)


def in_order(steps):
    """Watermarks only go on."""
    latest = -1
    for step in steps:
        if isinstance(step, int):
            latest = step = max(step, latest)
        yield step


def one_by_one(steps):
    """Batches of one row each: of sessions that late rows change, those between are given, too."""
    for step in steps:
        yield from [step] if isinstance(step, int) else [[row] for row in step]


def split_at_watermarks(found):
    groups = [[]]
    for each in found:
        if isinstance(each, Watermark):
            groups[-1].sort(key=repr)
            groups.append([each])
            groups.append([])
        else:
            groups[-1].append(each)
    groups[-1].sort(key=repr)
    return groups


def last_of_each(rows):
    """The latest result of each key and window."""
    return {(row[0], row[-2], row[-1]): row for row in rows if not isinstance(row, Watermark)}


@settings(max_examples=60, deadline=None)
@given(WINDOWS, STEPS)
def test_windows_are_those_of_records(windows, steps):
    with OperatorHarness.of(by_record(windows, 0)) as records, OperatorHarness.of(by_column(windows, 0)) as columns:
        for step in [*in_order(steps), MAX_WATERMARK]:
            if isinstance(step, int):
                records.process_watermark(step)
                columns.process_watermark(step)
            else:
                for row in step:
                    records.process_element(row, row[2])
                columns.process_element(element_of(step), 0)
        wanted = [each if isinstance(each, Watermark) else each.value for each in records.output]
        assert split_at_watermarks(rows_of(columns.output)) == split_at_watermarks(wanted)
        assert late_of(columns) == sorted(each.value for each in records.side_output(LATE))


@settings(max_examples=40, deadline=None)
@given(WINDOWS, STEPS, st.integers(1, 15))
def test_late_rows_give_their_windows_again(windows, steps, lateness):
    programs = by_record(windows, lateness), by_column(windows, lateness)
    with OperatorHarness.of(programs[0]) as records, OperatorHarness.of(programs[1]) as columns:
        for step in [*in_order(steps), MAX_WATERMARK]:
            if isinstance(step, int):
                records.process_watermark(step)
                columns.process_watermark(step)
            else:
                for row in step:
                    records.process_element(row, row[2])
                    columns.process_element(element_of([row]), 0)
        wanted = [each if isinstance(each, Watermark) else each.value for each in records.output]
        assert split_at_watermarks(rows_of(columns.output)) == split_at_watermarks(wanted)
        assert late_of(columns) == sorted(each.value for each in records.side_output(LATE))


def test_a_batch_gives_each_window_that_it_changes_once():
    """With all its rows, whatever slices they lie in."""
    with OperatorHarness.of(by_column((30, 10, 0), 100)) as harness:
        harness.process_watermark(40)
        harness.process_element(element_of([(1, 1, 5), (1, 1, 15), (2, 1, 15), (1, 1, 35)]), 0)
        found = sorted((row[-1], row[0], row[1]) for row in rows_of(harness.output) if not isinstance(row, Watermark))
    assert found == [(10, 1, 1), (20, 1, 2), (20, 2, 1), (30, 1, 2), (30, 2, 1), (40, 1, 2), (40, 2, 1)]


def spread(harnesses, step):
    """Give a step to all subtasks, each its rows."""
    for index, harness in enumerate(harnesses):
        if isinstance(step, int):
            harness.process_watermark(step)
            continue
        element = element_of(step)
        mine = RowKeys(("k",), MAX_PARALLELISM, len(harnesses)).of(element.batch) == index
        if mine.any():
            harness.process_element(PageWriter().write(element.take(np.flatnonzero(mine))), 0)


def open_all(program, parallelism, restore=None):
    harnesses = [
        OperatorHarness.of(
            program, parallelism=parallelism, subtask_index=i, max_parallelism=MAX_PARALLELISM, restore=restore
        )
        for i in range(parallelism)
    ]
    for each in harnesses:
        each.open()
    return harnesses


@settings(max_examples=60, deadline=None)
@given(
    WINDOWS,
    st.lists(st.tuples(STEPS, st.integers(1, 4), st.lists(st.integers(0, 70), max_size=4)), min_size=2, max_size=3),
    st.sampled_from([0, 0, 6]),
)
def test_what_was_given_before_a_rescale_is_not_given_again(windows, phases, lateness):
    """Subtasks may stand at different times when a snapshot is taken; then others go on, at another parallelism."""
    found, models = [], {"records": by_record(windows, lateness), "columns": by_column(windows, lateness)}
    for kind, program in models.items():
        restore, rows = None, []
        for steps, parallelism, ahead in phases:
            steps = list(one_by_one(steps)) if windows[0] == "session" else steps
            harnesses = open_all(program, parallelism, restore)
            if kind == "columns":
                for step in in_order(steps):
                    spread(harnesses, step)
            else:
                keys = RowKeys(("k",), MAX_PARALLELISM, parallelism)
                for step in in_order(steps):
                    for index, harness in enumerate(harnesses):
                        if isinstance(step, int):
                            harness.process_watermark(step)
                            continue
                        mine = keys.of(element_of(step).batch) == index
                        for row, is_mine in zip(step, mine, strict=True):
                            if is_mine:
                                harness.process_element(row, row[2])
            latest = max((step for step in steps if isinstance(step, int)), default=0)
            for harness, more in zip(harnesses, ahead, strict=False):
                harness.process_watermark(max(latest, more))
            restore = [each.snapshot() for each in harnesses]
            for each in harnesses:
                output = each.output
                rows += (
                    rows_of(output)
                    if kind == "columns"
                    else [one if isinstance(one, Watermark) else one.value for one in output]
                )
                each.close()
        last = open_all(program, 1, restore)[0]
        last.process_watermark(MAX_WATERMARK)
        rows += (
            rows_of(last.output) if kind == "columns" else [one.value for one in last.output if hasattr(one, "value")]
        )
        last.close()
        rows = [row for row in rows if not isinstance(row, Watermark)]
        found.append(sorted(rows) if lateness == 0 else last_of_each(rows))
    assert found[0] == found[1]


@pytest.mark.parametrize("windows", [(40, 40, 0), (40, 10, 0)])
def test_what_came_before_a_restore_came_first(windows):
    """Also where the window of a key was given before the restore and rows come again behind a lower watermark."""
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([]).as_columns(SCHEMA).key_by("k").window(assigner(windows)).allowed_lateness(100)
    stream = stream.aggregate(
        first=first("v"), last=last("v"), all=collect("v"), least=min_by("v", by="k"), end=window_end()
    )
    restore, found = None, {}
    for number, watermark in enumerate([30, None, 20, 45, None, 30, MAX_WATERMARK]):
        with OperatorHarness.of(stream._stream, restore=restore) as harness:
            harness.process_element(element_of([(1, 2 * number, 12), (1, 2 * number + 1, 12)]), 0)
            if watermark is not None:
                harness.process_watermark(watermark)
            restore = harness.snapshot()
            for each in harness.output:
                if not isinstance(each, Watermark):
                    found.update({row["end"]: row for row in each.value.batch.to_pylist()})
    assert len(found) == windows[0] // windows[1]
    for row in found.values():
        values = row["all"]
        assert values[-1] >= 7
        assert values == list(range(values[-1] + 1))
        assert (row["first"], row["last"], row["least"]) == (0, values[-1], 0)


def test_cumulating_windows_go_on_without_new_rows():
    """Up to the end of the whole, as if each row were in all of them; a row that comes between is in those after it."""
    with OperatorHarness.of(by_column((30, 10, 5, "cumulating"), 0)) as harness:
        harness.process_element(element_of([(1, 2, 5), (2, 3, 6), (1, 4, 40)]), 0)
        harness.process_watermark(14)
        harness.process_element(element_of([(1, 5, 16)]), 0)
        harness.process_watermark(70)
        found = [row for row in rows_of(harness.output) if not isinstance(row, Watermark)]
    assert sorted(found, key=lambda row: (row[-1], row[0])) == [
        (1, 1, 2, 2, 5, 15),
        (2, 1, 3, 3, 5, 15),
        (1, 2, 7, 5, 5, 25),
        (2, 1, 3, 3, 5, 25),
        (1, 2, 7, 5, 5, 35),
        (2, 1, 3, 3, 5, 35),
        (1, 1, 4, 4, 35, 45),
        (1, 1, 4, 4, 35, 55),
        (1, 1, 4, 4, 35, 65),
    ]


def test_many_slices_are_merged_by_tiers():
    """Each of 600 slices is read a few times, not once for each of 600 windows."""
    program = by_column((600, 1, 0), 0)
    with OperatorHarness.of(program) as harness:
        for second in range(0, 1300, 50):
            harness.process_element(element_of([(at % 3, 1, at) for at in range(second, second + 50)]), 0)
            harness.process_watermark(second + 49)
        harness.process_watermark(MAX_WATERMARK)
        found = [row for row in rows_of(harness.output) if not isinstance(row, Watermark)]
    for key, n, total, _, start, end in found:
        assert n == total == len([at for at in range(max(start, 0), min(end, 1300)) if at % 3 == key])
    assert len({row[-1] for row in found}) == 1300 + 599


@pytest.mark.parametrize("is_windowed", [True, False])
def test_a_function_is_called_once_with_each_batch_and_may_use_its_array_again(is_windowed):
    called, given = [], np.zeros(2, np.int64)

    def numbers(batch):
        called.append(batch)
        given[:] = 10 * len(called), 10 * len(called) + 1
        return given

    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([]).as_columns(SCHEMA).key_by("k")
    stream = stream.window(assigner((10, 10, 0))) if is_windowed else stream
    stream = stream.aggregate(all=collect(numbers), kinds=count_distinct(lambda batch: given))
    with OperatorHarness.of(stream._stream) as harness:
        for _ in range(3):
            harness.process_element(element_of([(1, 0, 3), (1, 0, 4)]), 0)
        harness.process_watermark(MAX_WATERMARK)
        results = [each.value.batch.to_pylist() for each in harness.output if not isinstance(each, Watermark)]
    assert results[-1] == [{"k": 1, "all": [10, 11, 20, 21, 30, 31], "kinds": 6}]


@pytest.mark.parametrize("windows", [(10, 10, 0), (30, 10, 0), (5000, 10, 0, "cumulating")])
def test_each_window_of_many_is_found_once(windows, monkeypatch):
    """A history that is read in one go, as in batch execution: the next window is not looked for among all of them."""
    asked = []
    found_by = SlicedWindows.ends_with
    monkeypatch.setattr(SlicedWindows, "ends_with", lambda self, start: asked.append(start) or found_by(self, start))
    with OperatorHarness.of(by_column(windows, 0)) as harness:
        harness.process_element(element_of([(1, 1, 10 * number) for number in range(500)]), 0)
        harness.process_watermark(MAX_WATERMARK)
        found = [row for row in rows_of(harness.output) if not isinstance(row, Watermark)]
    last = 5000 if windows[3:] else 5000 + windows[0] - 10
    assert [row[-1] for row in found] == list(range(10, last + 1, 10))
    assert len(asked) < 5 * 500


def test_rows_far_from_each_other_are_ordered_once_and_their_windows_given_together(monkeypatch):
    """Not looked for among all rows by each slice: a table may have a million of them."""
    ordered = []
    monkeypatch.setattr(
        column_windows, "rows_by_number", lambda numbers, count: ordered.append(count) or rows_by_number(numbers, count)
    )
    with OperatorHarness.of(by_column((10, 10, 0), 0)) as harness:
        harness.process_element(element_of([(1, at, (at * 37 % 100) * 10**6) for at in range(100)]), 0)
        harness.process_watermark(MAX_WATERMARK)
        found = [row for row in rows_of(harness.output) if not isinstance(row, Watermark)]
        elements = [each for each in harness.output if not isinstance(each, Watermark)]
    assert [(row[-2], row[2] * 37 % 100) for row in found] == [(at * 10**6, at) for at in range(100)]
    assert (len(ordered), len(elements)) == (1, 1)


def test_a_batch_of_results_has_a_bound(monkeypatch):
    monkeypatch.setattr(column_windows, "MAX_ROWS", 10)
    with OperatorHarness.of(by_column((10, 10, 0), 0)) as harness:
        harness.process_element(element_of([(key, at, at * 10) for at in range(30) for key in (1, 2, 3)]), 0)
        harness.process_watermark(MAX_WATERMARK)
        counts = [len(each.value) for each in harness.output if not isinstance(each, Watermark)]
    assert counts == [12] * 7 + [6]


def test_rows_between_two_windows_are_not_late():
    """Nothing goes to the side output, not even an element without rows; also where lateness has no end."""
    for lateness in (0, 2**63 - 1):
        with OperatorHarness.of(by_column((3, 7, 0), lateness)) as harness:
            harness.process_watermark(1)
            harness.process_element(element_of([(1, 2, 4), (1, 2, 5)]), 0)
            assert not harness.side_output(LATE)


def test_rows_without_timestamps_are_refused():
    with OperatorHarness.of(by_column((10, 10, 0), 0)) as harness:
        with pytest.raises(ValueError, match="a row has no timestamp, .* assign_timestamps_and_watermarks"):
            harness.process_element(ColumnBatch(element_of([(1, 2, 3)]).batch), 0)


def test_a_column_of_another_type_becomes_what_the_first_was():
    with OperatorHarness.of(by_column((10, 10, 0), 0)) as harness:
        harness.process_element(element_of([(1, 2, 3)]), 0)
        narrow = pa.record_batch({"k": [1], "v": pa.array([5], pa.int8()), "at": [4]})
        harness.process_element(ColumnBatch(narrow, np.array([4])), 0)
        text = pa.record_batch({"k": [1], "v": ["x"], "at": [4]})
        with pytest.raises(TypeError, match="column 'total' was int64 before and is string now"):
            harness.process_element(ColumnBatch(text, np.array([4])), 0)
        harness.process_watermark(MAX_WATERMARK)
        assert next(rows_of(harness.output)) == (1, 2, 7, 5, 0, 10)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (pa.array([1.0], pa.float32()), pa.array([0.1])),
        (pa.array([True]), pa.array([5])),
        (pa.array(["9"]), pa.array([100])),
        (pa.array([9]), pa.array(["100"])),
        (pa.array([9]), pa.array([1.5])),
        (pa.array([Decimal("1.5")]), pa.array([1.26])),
    ],
)
def test_a_value_that_would_become_another_is_refused(before, now):
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([]).as_columns("k bigint").key_by("k").aggregate(most=max_("v"))._stream
    with OperatorHarness.of(stream) as harness:
        harness.process_element(ColumnBatch(pa.record_batch({"k": [1], "v": before})), 0)
        text = re.escape(f"column 'most' was {before.type} before and is {now.type} now, and its values do not fit")
        with pytest.raises(TypeError, match=text):
            harness.process_element(ColumnBatch(pa.record_batch({"k": [1], "v": now})), 0)


@pytest.mark.parametrize("is_windowed", [True, False])
def test_states_of_subtasks_that_saw_other_types_first_come_together(is_windowed):
    """As of a union of int and bigint, or string and large_string: each subtask goes by its own first batch."""
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([]).as_columns(SCHEMA).key_by("k")
    stream = stream.window(assigner((10, 10, 0))) if is_windowed else stream
    stream = stream.aggregate(least=min_("v"), all=collect("v"), last=last("k"))._stream
    texts = [f"k{number}" for number in range(8)]
    found, restore = {}, []
    for index, types in enumerate([(pa.large_string(), pa.int64()), (pa.string(), pa.int32())]):
        at = np.flatnonzero(RowKeys(("k",), MAX_PARALLELISM, 2).of(pa.record_batch({"k": texts})) == index)
        assert len(at)
        batch = pa.record_batch({"k": pa.array(texts, types[0]), "v": pa.array(range(8), types[1])}).take(at)
        options = {"parallelism": 2, "subtask_index": index, "max_parallelism": MAX_PARALLELISM}
        with OperatorHarness.of(stream, **options) as harness:
            harness.process_element(ColumnBatch(batch, at), 0)
            restore.append(harness.snapshot())
    with OperatorHarness.of(stream, restore=restore, max_parallelism=MAX_PARALLELISM) as harness:
        rows = pa.record_batch({"k": texts, "v": pa.array([9] * 8, pa.int32())})
        harness.process_element(ColumnBatch(rows, np.arange(8)), 0)
        harness.process_watermark(MAX_WATERMARK)
        for each in harness.output:
            found.update({} if isinstance(each, Watermark) else {row["k"]: row for row in each.value.batch.to_pylist()})
    assert found == {k: {"k": k, "least": v, "all": [v, 9], "last": k} for v, k in enumerate(texts)}


def test_a_key_of_another_type_is_refused():
    """-1 as an int and as a bigint have different key groups: one subtask would have the one, and another the other."""
    for narrow in (pa.array([-1], pa.int32()), pa.array(["-1"]), pa.array([-1], pa.duration("ms"))):
        with OperatorHarness.of(by_column((10, 10, 0), 0)) as harness:
            harness.process_element(element_of([(-1, 2, 3)]), 0)
            batch = pa.record_batch({"k": narrow, "v": [5], "at": [4]})
            text = (
                f"column 'k' was int64 before and is {re.escape(str(narrow.type))} now, and it is of the key: .* cast"
            )
            with pytest.raises(TypeError, match=text):
                harness.process_element(ColumnBatch(batch, np.array([4])), 0)


@pytest.mark.parametrize(
    ("key", "aggregates", "text"),
    [
        (["k"], {"least": min_("v")}, r"least=min\(_\) by k"),
        (["k"], {"total": sum_("v"), "most": max_("v")}, r"total=sum\(_\), most=max\(_\) by k"),  # counts came first
        (["k"], {"n": count(), "total": max_("v"), "most": max_("v")}, r"n=count\(\), total=max\(_\), .* by k"),
        (["v"], {"n": count(), "total": sum_("v"), "most": max_("v")}, r"n=count\(\), .* by v"),
        (["k", "v"], {"n": count(), "total": sum_("v"), "most": max_("v")}, r"n=count\(\), .* by k, v"),
    ],
)
def test_a_snapshot_of_another_key_or_other_aggregates_is_refused(key, aggregates, text):
    with OperatorHarness.of(by_column((10, 10, 0), 0)) as harness:
        harness.process_element(element_of([(1, 2, 3)]), 0)
        taken = harness.snapshot()
    env = StreamExecutionEnvironment.get_execution_environment()
    other = env.from_collection([]).as_columns(SCHEMA).key_by(*key).window(assigner((10, 10, 0)))
    had = r"n=count\(\), total=sum\(_\), most=max\(_\) by k"
    with pytest.raises(TypeError, match=f"the snapshot has {had}, and this program has {text}: keep"):
        OperatorHarness.of(other.aggregate(**aggregates)._stream, restore=taken).open()


@pytest.mark.parametrize("windows", [(20, 20, 0), (15, 15, 0), (10, 10, 5), (20, 10, 0)])
def test_a_snapshot_of_other_windows_is_refused(windows):
    """Their slices begin elsewhere, or are longer: rows that were restored would be in no window."""
    with OperatorHarness.of(by_column((10, 10, 0), 0)) as harness:
        harness.process_element(element_of([(1, 2, at) for at in range(30)]), 0)
        taken = harness.snapshot()
    with pytest.raises(TypeError, match=r"the snapshot has SlicedWindows\(size_ms=10, .*: keep the windows, or give"):
        OperatorHarness.of(by_column(windows, 0), restore=taken).open()
    OperatorHarness.of(by_column((10, 10, 0), 5), restore=taken).open()


def test_pages_and_elements_are_the_same_to_an_operator():
    element = element_of([(1, 2, 3), (2, 3, 14)])
    outputs = []
    for value in (element, PageWriter().write(element)):
        with OperatorHarness.of(by_column((10, 10, 0), 0)) as harness:
            harness.process_element(value, 0)
            harness.process_watermark(MAX_WATERMARK)
            outputs.append(list(rows_of(harness.output)))
    assert outputs[0] == outputs[1]
    assert PageReader().read(PageWriter().write(element)).batch.equals(element.batch)
