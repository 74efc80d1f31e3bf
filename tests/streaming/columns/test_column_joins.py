"""Joins of column streams give what a plain list of rows gives, and what the same joins give record by record."""

import itertools
import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK
from flinkbuf.common import Duration, Time
from flinkbuf.datastream import CoGroupFunction, ProcessJoinFunction, StreamExecutionEnvironment
from flinkbuf.datastream.window import (
    CumulatingEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flinkbuf.records.column_batch import ColumnBatch, PageWriter
from flinkbuf.records.column_exchange import RowKeys
from flinkbuf.streaming.columns import column_joins
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import Watermark

KINDS = column_joins.KINDS
LEFT = pa.schema([("k", pa.int64()), ("a", pa.string()), ("at", pa.int64())])
RIGHT = pa.schema([("r", pa.int64()), ("b", pa.float64()), ("t", pa.int64())])
MAX_PARALLELISM = 8
ALONE = {"left": (True, False), "right": (False, True), "full": (True, True), "anti": (True, False)}


def streams(how="inner"):
    env = StreamExecutionEnvironment.get_execution_environment()
    left = env.from_collection([]).as_columns(LEFT).key_by("k")
    return left.join(env.from_collection([]).as_columns(RIGHT).key_by("r"), how)


def assigner(windows):
    size, slide, offset = (Time.milliseconds(each) for each in windows[:3])
    if windows[3:]:
        return CumulatingEventTimeWindows.of(size, slide, offset)
    if windows[0] == windows[1]:
        return TumblingEventTimeWindows.of(size, offset)
    return SlidingEventTimeWindows.of(size, slide, offset)


def between(how, bounds):
    return streams(how).between(Time.milliseconds(bounds[0]), Time.milliseconds(bounds[1]))._stream


def windowed(how, windows):
    return streams(how).window(assigner(windows))._stream


def living(how, time_ms):
    return streams(how).time_to_live(Time.milliseconds(time_ms))._stream


NUMBERS = itertools.count()


def element_of(side, rows):
    """Rows of (key, time), each with a value of its own; odd ones of the left have null."""
    keys, times = [key for key, _ in rows], [time for _, time in rows]
    numbers = [next(NUMBERS) for _ in rows]
    values = [None if n % 2 else f"v{n}" for n in numbers] if side == 0 else [float(n) for n in numbers]
    schema = (LEFT, RIGHT)[side]
    columns = [pa.array(c, f.type) for c, f in zip((keys, values, times), schema, strict=True)]
    return ColumnBatch(pa.record_batch(columns, schema=schema), np.array(times, np.int64))


def tuples(element):
    return list(zip(*element.batch.to_pydict().values(), strict=True))


def results_of(output):
    """What a harness has collected: counts of (row, timestamp) between watermarks."""
    groups = [Counter()]
    for each in output:
        if isinstance(each, Watermark):
            groups += [each, Counter()]
        else:
            batch, times = each.value.batch, each.value.timestamps
            assert 0 < batch.num_rows <= column_joins.MAX_ROWS
            times = [None] * len(batch) if times is None else times.tolist()
            groups[-1].update(zip(zip(*batch.to_pydict().values(), strict=True), times, strict=True))
    return groups


class Model:
    """A join as lists of rows."""

    def __init__(self, how):
        self.how, self.rows, self.watermark = how, ([], []), -(2**63)
        self.output = [Counter()]

    def give(self, left, right, time):
        row = tuple(left) if self.how in ("semi", "anti") else (*(left or (None,) * 3), *(right or (None,) * 3))
        self.output[-1][row, time] += 1

    def give_alone(self, side, row, time):
        if ALONE.get(self.how, (False, False))[side]:
            self.give(*((row, None) if side == 0 else (None, row)), time)

    def advance(self, watermark):
        if watermark > self.watermark:
            self.watermark = watermark
            self.end(watermark)
            self.output += [Watermark(watermark), Counter()]


class IntervalModel(Model):
    def __init__(self, how, bounds):
        super().__init__(how)
        self.bounds = bounds
        self.kept = max(bounds[1], 0), max(-bounds[0], 0)

    def are_near(self, left, right):
        return self.bounds[0] <= right[2] - left[2] <= self.bounds[1]

    def process(self, side, rows):
        for row in rows:
            if self.how == "inner" and row[2] < self.watermark:
                continue
            had = False
            for other in self.rows[1 - side]:
                left, right = (row, other[0]) if side == 0 else (other[0], row)
                if left[0] != right[0] or not self.are_near(left, right):
                    continue
                if self.how == "semi":
                    if not (had if side == 0 else other[1]):
                        self.output[-1][tuple(left), None] += 1
                elif self.how != "anti":
                    self.give(left, right, max(left[2], right[2]))
                had = other[1] = True
            self.rows[side].append([row, had])

    def end(self, watermark):
        for side in (0, 1):
            for row, had in self.rows[side]:
                if row[2] + self.kept[side] <= watermark and not had:
                    self.give_alone(side, row, row[2] + self.kept[side])
            self.rows[side][:] = [each for each in self.rows[side] if each[0][2] + self.kept[side] > watermark]


class WindowModel(Model):
    def __init__(self, how, windows):
        super().__init__(how)
        self.windows = windows

    def ends_of(self, time):
        size, slide, offset = self.windows[:3]
        if self.windows[3:]:
            whole = time - (time - offset) % size
            return [end for end in range(whole + slide, whole + size + 1, slide) if end > time]
        last = time - (time - offset) % slide
        return [start + size for start in range(last, time - size, -slide)]

    def process(self, side, rows):
        for row in rows:
            self.rows[side].extend((row, end) for end in self.ends_of(row[2]) if end - 1 > self.watermark)

    def end(self, watermark):
        ends = sorted({end for rows in self.rows for _, end in rows if end - 1 <= watermark})
        for end in ends:
            left, right = ([row for row, at in rows if at == end] for rows in self.rows)
            for row in left:
                partners = [other for other in right if other[0] == row[0]]
                if self.how == "semi" and partners:
                    self.give(row, None, end - 1)
                for other in partners if self.how not in ("semi", "anti") else ():
                    self.give(row, other, end - 1)
                if not partners:
                    self.give_alone(0, row, end - 1)
            for other in right:
                if not any(row[0] == other[0] for row in left):
                    self.give_alone(1, other, end - 1)
        for rows in self.rows:
            rows[:] = [each for each in rows if each[1] - 1 > watermark]


ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), min_size=1, max_size=6)
STEPS = st.lists(st.tuples(st.integers(0, 1), ROWS) | st.integers(0, 50), max_size=14)
BOUNDS = st.tuples(st.integers(-12, 12), st.integers(0, 12)).map(lambda each: (each[0], each[0] + each[1]))
CUMULATING = [(12, 4, 0, "cumulating"), (10, 5, -3, "cumulating"), (7, 7, 1, "cumulating")]
WINDOWS = st.sampled_from([(10, 10, 0), (10, 10, 3), (12, 4, 0), (10, 4, 1), (3, 7, 2), (5, 5, -2), *CUMULATING])


def in_order(steps):
    """Watermarks only go on."""
    latest = -1
    for step in [*steps, MAX_WATERMARK]:
        if not isinstance(step, int):
            yield step
        elif step > latest:
            latest = step
            yield step


def watermark(harness, time):
    harness.process_watermark(time)
    harness.process_watermark(time, input=2)


def without_times_of_semi(groups, how):
    """A row of a semi join has the later timestamp of it and one partner; which one, the model does not say."""
    if how != "semi":
        return groups
    return [each if isinstance(each, Watermark) else Counter(row for row, _ in each.elements()) for each in groups]


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(KINDS), BOUNDS, STEPS, st.sampled_from([1, 3, 1 << 14]), st.booleans())
def test_interval_joins_are_those_of_lists(how, bounds, steps, max_rows, has_pages):
    run_against(IntervalModel(how, bounds), between(how, bounds), steps, max_rows, has_pages)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(KINDS), WINDOWS, STEPS, st.sampled_from([1, 3, 1 << 14]), st.booleans())
def test_window_joins_are_those_of_lists(how, windows, steps, max_rows, has_pages):
    run_against(WindowModel(how, windows), windowed(how, windows), steps, max_rows, has_pages)


def run_against(model, program, steps, max_rows, has_pages):
    with pytest.MonkeyPatch.context() as patch, OperatorHarness.of(program) as harness:
        patch.setattr(column_joins, "MAX_ROWS", max_rows)
        patch.setattr(column_joins, "_MIN_SLOTS", 1)
        harness.operator._slots_wanted = 1
        for step in in_order(steps):
            if isinstance(step, int):
                model.advance(step)
                watermark(harness, step)
                continue
            side, rows = step
            element = element_of(side, rows)
            model.process(side, tuples(element))
            harness.process_element(PageWriter().write(element) if has_pages else element, 0, input=side + 1)
        found = results_of(harness.output)
        how = model.how
        assert without_times_of_semi(found, how) == without_times_of_semi(model.output, how)
        for side in harness.operator._sides:
            assert len(side.rows) == len(side._store) == 0


# ---- record by record


class Pairs(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield (*left, *right)


class Groups(CoGroupFunction):
    """All kinds of join, of the rows of a key and window."""

    def __init__(self, how):
        self.how = how

    def co_group(self, first, second):
        first, second, how = list(first), list(second), self.how
        if how in ("semi", "anti"):
            yield from first if bool(second) == (how == "semi") else ()
            return
        yield from ((*left, *right) for left in first for right in second)
        if not second and how in ("left", "full"):
            yield from ((*left, None, None, None) for left in first)
        if not first and how in ("right", "full"):
            yield from ((None, None, None, *right) for right in second)


def keyed_records():
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([]), env.from_collection([])


@settings(max_examples=40, deadline=None)
@given(BOUNDS, STEPS)
def test_inner_interval_joins_are_those_of_records(bounds, steps):
    left, right = (stream.key_by(lambda row: row[0]) for stream in keyed_records())
    lower, upper = (Duration.of_millis(each) for each in bounds)
    compare(left.interval_join(right).between(lower, upper).process(Pairs()), between("inner", bounds), steps)


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(KINDS), WINDOWS, STEPS)
def test_window_joins_are_those_of_records(how, windows, steps):
    left, right = keyed_records()
    groups = left.co_group(right).where(lambda row: row[0]).equal_to(lambda row: row[0]).window(assigner(windows))
    compare(groups.apply(Groups(how)), windowed(how, windows), steps)


def compare(by_record, by_column, steps):
    with OperatorHarness.of(by_record) as records, OperatorHarness.of(by_column) as columns:
        is_tagged = len(records.operator.inputs) == 1  # a window operator reads both streams as one
        for step in in_order(steps):
            if isinstance(step, int):
                watermark(columns, step)
                records.process_watermark(step)
                if not is_tagged:
                    records.process_watermark(step, input=2)
                continue
            side, rows = step
            element = element_of(side, rows)
            columns.process_element(element, 0, input=side + 1)
            for row in tuples(element):
                if is_tagged:
                    records.process_element((side + 1, row), row[2])
                else:
                    records.process_element(row, row[2], input=side + 1)
        wanted = [Counter()]
        for each in records.output:
            if isinstance(each, Watermark):
                wanted += [each, Counter()]
            else:
                wanted[-1][tuple(each.value), each.timestamp] += 1
        assert results_of(columns.output) == wanted


# ---- a time to live


@pytest.mark.parametrize("how", KINDS)
def test_rows_meet_as_long_as_they_live(how):
    """By the clock; and those that met nobody are given then, not before."""
    with OperatorHarness.of(living(how, 1000)) as harness:
        harness.set_processing_time(10_000)
        harness.process_element(element_of(0, [(1, 5), (2, 6)]), 0)
        harness.process_element(element_of(1, [(3, 7)]), 0, input=2)
        harness.set_processing_time(10_999)
        harness.process_element(element_of(1, [(1, 8), (1, 2)]), 0, input=2)
        harness.set_processing_time(11_100)
        harness.run_mails()
        harness.process_element(element_of(0, [(3, 9), (1, 3), (4, 1)]), 0)  # 3 has ended, 1 of the right has not
        assert len(harness.operator._sides[1].rows) == 2
        harness.set_processing_time(20_000)
        harness.run_mails()
        assert [len(side._store) for side in harness.operator._sides] == [0, 0]
        (found,) = results_of(harness.output)
    rows = Counter((*(row[i] for i in ((0, 3) if len(row) == 6 else (0,))), time) for row, time in found.elements())
    pairs = Counter([(1, 1, 8), (1, 1, 5), (1, 1, 8), (1, 1, 3)])
    left, right = [(2, None, 6), (3, None, 9), (4, None, 1)], [(None, 3, 7)]
    assert (
        rows
        == {
            "inner": pairs,
            "left": pairs + Counter(left),
            "right": pairs + Counter(right),
            "full": pairs + Counter(left + right),
            "semi": Counter({row: count for row, count in rows.items() if row[0] == 1}),
            "anti": Counter((k, time) for k, _, time in left),
        }[how]
    )
    assert how != "semi" or rows.total() == 2


def test_the_clock_ends_rows_without_a_row_that_comes():
    with OperatorHarness.of(living("left", 1000)) as harness:
        harness.set_processing_time(100)
        harness.process_element(ColumnBatch(element_of(0, [(1, 5)]).batch), 0)
        harness.set_processing_time(1099)
        harness.run_mails()
        assert not harness.output
        harness.set_processing_time(1101)
        harness.run_mails()
        (result,) = harness.output
        assert result.value.timestamps is None
        assert result.value.batch.column("r").null_count == 1


@pytest.mark.parametrize("how", KINDS)
def test_the_end_of_both_streams_ends_all_rows(how):
    with OperatorHarness.of(living(how, 10**12)) as harness:
        harness.process_element(element_of(0, [(1, 5), (2, 5)]), 0)
        harness.process_element(element_of(1, [(2, 6), (3, 5)]), 0, input=2)
        harness.process_watermark(MAX_WATERMARK)
        before = sum(len(each.value) for each in harness.output)
        harness.process_watermark(MAX_WATERMARK, input=2)
        found = sum(len(each.value) for each in harness.output if not isinstance(each, Watermark))
    assert (before, found) == {
        "inner": (1, 1),
        "left": (1, 2),
        "right": (1, 2),
        "full": (1, 3),
        "semi": (1, 1),
        "anti": (0, 1),
    }[how]


# ---- snapshots


def spread(harnesses, step):
    """Give a step to all subtasks, each its rows."""
    for index, harness in enumerate(harnesses):
        if isinstance(step, int):
            watermark(harness, step)
            continue
        side, element = step
        mine = RowKeys(("k", "r")[side : side + 1], MAX_PARALLELISM, len(harnesses)).of(element.batch) == index
        if mine.any():
            harness.process_element(element.take(np.flatnonzero(mine)), 0, input=side + 1)


def open_all(program, parallelism, restore=None):
    options = {"parallelism": parallelism, "max_parallelism": MAX_PARALLELISM, "restore": restore}
    harnesses = [OperatorHarness.of(program, subtask_index=index, **options) for index in range(parallelism)]
    for each in harnesses:
        each.open()
    return harnesses


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(KINDS),
    BOUNDS | WINDOWS,
    st.lists(st.tuples(STEPS, st.integers(1, 3)), min_size=2, max_size=3),
)
def test_a_join_goes_on_at_another_parallelism(how, rule, phases):
    """As if nothing had happened: event time goes on where it was, as a source's does that is read on."""
    is_windowed = len(rule) > 2
    program = (windowed if is_windowed else between)(how, rule)
    model = (WindowModel if is_windowed else IntervalModel)(how, rule)
    restore, found, latest = None, Counter(), -(2**63)
    for steps, parallelism in [*phases, ([MAX_WATERMARK], 1)]:
        harnesses = open_all(program, parallelism, restore)
        for step in steps:
            if isinstance(step, int):
                latest = step = max(step, latest)
                model.advance(step)
            else:
                side, rows = step
                step = side, element_of(side, [(key, max(time, latest + 1)) for key, time in rows])  # none is late
                model.process(side, tuples(step[1]))
            spread(harnesses, step)
        restore = [each.snapshot() for each in harnesses]
        for each in harnesses:
            for group in without_times_of_semi(results_of(each.output), how):
                found += Counter() if isinstance(group, Watermark) else group
            each.close()
    wanted = Counter()
    for group in without_times_of_semi(model.output, how):
        wanted += Counter() if isinstance(group, Watermark) else group
    assert found == wanted


@pytest.mark.parametrize("how", KINDS)
def test_windows_that_one_old_subtask_has_given_are_not_given_again(how):
    """Though another one, whose keys meet them in one subtask now, has not given them."""
    program, keys = windowed(how, (20, 10, 0)), RowKeys(("k",), MAX_PARALLELISM, 2)
    of = [next(k for k in range(20) if keys.of(element_of(0, [(k, 0)]).batch)[0] == index) for index in (0, 1)]
    harnesses = open_all(program, 2)
    elements = element_of(0, [(k, t) for k in of for t in (5, 12)]), element_of(1, [(k, 13) for k in of])
    for side, element in enumerate(elements):
        spread(harnesses, (side, element))
    watermark(harnesses[0], 22)  # windows up to 20 have ended, here only
    counts = Counter()
    for parallelism in (1, 2, 1):
        restore = [each.snapshot() for each in harnesses]
        for each in harnesses:
            for one in each.output:
                if not isinstance(one, Watermark):
                    counts.update(zip(one.value.batch.to_pydict().get("k"), one.value.timestamps.tolist(), strict=True))
            each.close()
        harnesses = open_all(program, parallelism, restore)
    watermark(harnesses[0], MAX_WATERMARK)
    for one in harnesses[0].output:
        if not isinstance(one, Watermark):
            counts.update(zip(one.value.batch.to_pydict().get("k"), one.value.timestamps.tolist(), strict=True))
    harnesses[0].close()
    counts = {key: count for key, count in counts.items() if key[0] is not None}
    model = WindowModel(how, (20, 10, 0))
    for side, element in enumerate(elements):
        model.process(side, tuples(element))
    model.advance(MAX_WATERMARK)
    wanted = Counter()
    for (row, time), count in model.output[0].items():
        wanted[row[0], time] += count
    assert counts == {key: count for key, count in wanted.items() if key[0] is not None}


def test_rows_of_a_snapshot_live_on_by_the_clock():
    with OperatorHarness.of(living("left", 1000)) as harness:
        harness.set_processing_time(5000)
        harness.process_element(element_of(0, [(1, 5), (2, 5)]), 0)
        harness.process_element(element_of(1, [(1, 6)]), 0, input=2)
        taken = harness.snapshot()
        assert len(harness.output) == 1
    with OperatorHarness.of(living("left", 2000), restore=taken) as harness:  # which may change
        harness.set_processing_time(6500)
        harness.process_element(element_of(1, [(1, 7)]), 0, input=2)
        assert len(harness.output) == 1
        harness.set_processing_time(7100)
        harness.run_mails()
        assert [row for row, _ in results_of(harness.output)[0]][1][0] == 2


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (lambda: between("left", (-5, 5)), "and this program has left join of .* from -5 to 5 ms: keep the join"),
        (lambda: between("inner", (-5, 6)), "from -5 to 6 ms"),
        (lambda: windowed("inner", (10, 10, 0)), r"in SlicedWindows\(size_ms=10"),
        (lambda: living("inner", 5), "of all rows"),
    ],
)
def test_a_snapshot_of_another_join_is_refused(other, text):
    with OperatorHarness.of(between("inner", (-5, 5))) as harness:
        harness.process_element(element_of(0, [(1, 5)]), 0)
        taken = harness.snapshot()
    had = re.escape("the snapshot has inner join of (k int64, a string, at int64) and (r int64, b double, t int64) by ")
    with pytest.raises(TypeError, match=f"{had}.k. = .r. from -5 to 5 ms.*{text}"):
        OperatorHarness.of(other(), restore=taken).open()


# ---- what comes


def test_batches_of_other_columns_and_types_are_refused_or_cast():
    with OperatorHarness.of(between("inner", (0, 0))) as harness:
        rows = element_of(0, [(1, 5)])
        other = rows.with_batch(rows.batch.rename_columns(["k", "x", "at"]))
        with pytest.raises(ValueError, match="with the columns k, x, at came to the left side of a join"):
            harness.process_element(other, 0)
        narrow = rows.batch.set_column(2, "at", pa.array([5], pa.int16()))
        harness.process_element(rows.with_batch(narrow), 0)
        text = rows.batch.set_column(2, "at", pa.array(["5"]))
        with pytest.raises(TypeError, match=r"column 'at' is int64 to join\(\) and is string now"):
            harness.process_element(rows.with_batch(text), 0)


@pytest.mark.parametrize("program", [lambda: between("left", (0, 0)), lambda: windowed("left", (5, 5, 0))])
def test_rows_without_timestamps_are_refused(program):
    with OperatorHarness.of(program()) as harness:
        rows = element_of(1, [(1, 5)]).batch
        with pytest.raises(ValueError, match="a row of the right side has no timestamp.*assign_timestamps_and_wat"):
            harness.process_element(ColumnBatch(rows), 0, input=2)


def test_one_hot_key_gives_batches_of_bounded_size():
    with OperatorHarness.of(between("inner", (-5, 5))) as harness:
        harness.process_element(element_of(0, [(1, 5)] * 300), 0)
        harness.process_element(element_of(1, [(1, 5)] * 300), 0, input=2)
        sizes = [len(each.value) for each in harness.output]
    assert sizes == [1 << 14] * 5 + [300 * 300 - 5 * (1 << 14)]


def test_memory_is_that_of_the_rows_that_are_there():
    """Under new keys for ever, and a row of each batch that stays long."""
    with OperatorHarness.of(between("left", (0, 1000))) as harness:
        for start in range(0, 200_000, 2000):
            rows = element_of(0, [(start + i, start // 10 + i % 200) for i in range(2000)])
            harness.process_element(rows, 0)
            watermark(harness, start // 10)
            harness.take_output()
        operator = harness.operator
        assert len(operator._keys) < 50_000
        assert len(operator._sides[0]._store) < 15_000
        assert operator._sides[0]._store.nbytes < 2_000_000
        assert operator._sides[0].rows.nbytes < 8_000_000
