"""Count windows over columns are those of records, in the same order."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK
from flinkbuf.common import Time
from flinkbuf.datastream import OutputTag, StreamExecutionEnvironment, WindowFunction
from flinkbuf.datastream.columns import collect, count, first, last, sum_, window_end, window_start
from flinkbuf.datastream.window import CountTumblingWindowAssigner, TumblingEventTimeWindows
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.records.column_exchange import RowKeys
from flinkbuf.streaming.columns import column_counts, key_windows
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import Watermark

MAX_PARALLELISM = 8
BATCHES = st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9) | st.none()), max_size=12), max_size=8)


def keyed():
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([]).as_columns("k bigint, v bigint").key_by("k")


def by_column(size, slide=0):
    windows = keyed().count_window(size, slide)
    return windows.aggregate(n=count(), all=collect("v"), first=first("v"), last=last("v"), total=sum_("v"))._stream


def element_of(rows):
    keys, values = zip(*rows, strict=True) if rows else ((), ())
    return ColumnBatch(pa.record_batch({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.int64())}))


def expected(key, values):
    there = [value for value in values if value is not None]
    return {
        "k": key,
        "n": len(values),
        "all": there or None,
        "first": there[0] if there else None,
        "last": there[-1] if there else None,
        "total": sum(there) if there else None,
    }


def results(harness):
    found = []
    for each in harness.output:
        if not isinstance(each, Watermark):
            assert (each.value.timestamps == MAX_WATERMARK).all()
            found += each.value.batch.to_pylist()
    return found


@settings(max_examples=60, deadline=None)
@given(BATCHES, st.integers(1, 6), st.integers(0, 6), st.booleans())
def test_count_windows_are_those_of_records(batches, size, slide, are_tables_new):
    slide = min(size, slide)
    env = StreamExecutionEnvironment.get_execution_environment()
    by_record = env.from_collection([]).key_by(lambda row: row[0]).count_window(size, slide).apply(AsTheyAre())
    with pytest.MonkeyPatch.context() as patched:
        if are_tables_new:
            patched.setattr(key_windows, "MIN_OVER", 0)
        with OperatorHarness.of(by_record) as records, OperatorHarness.of(by_column(size, slide)) as columns:
            for rows in batches:
                columns.process_element(element_of(rows), 0)
                for row in rows:
                    records.process_element(row, 0)
            columns.process_watermark(MAX_WATERMARK)
            assert results(columns) == [expected(*each.value) for each in records.output]


class AsTheyAre(WindowFunction):
    def apply(self, key, window, elements):
        yield key, [value for _, value in elements]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(BATCHES, st.integers(1, 3)), max_size=4), st.integers(2, 5), st.integers(0, 5))
def test_windows_go_on_after_a_rescale(phases, size, slide):
    slide = min(size, slide)
    program, restore, found, all_values, wanted = by_column(size, slide), None, [], {}, []
    for batches, parallelism in phases:
        options = {"parallelism": parallelism, "max_parallelism": MAX_PARALLELISM, "restore": restore}
        harnesses = [OperatorHarness.of(program, subtask_index=index, **options) for index in range(parallelism)]
        for each in harnesses:
            each.open()
        for rows in filter(None, batches):
            element = element_of(rows)
            channels = RowKeys(("k",), MAX_PARALLELISM, parallelism).of(element.batch)
            for index, harness in enumerate(harnesses):
                if (channels == index).any():
                    harness.process_element(element.take(np.flatnonzero(channels == index)), 0)
            for key, value in rows:
                values = all_values.setdefault(key, [])
                values.append(value)
                if len(values) >= size and (len(values) - size) % (slide or size) == 0:
                    wanted.append(expected(key, values[-size:]))
        restore = [each.snapshot() for each in harnesses]
        for each in harnesses:
            found += results(each)
            each.close()
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_keys_that_come_and_go_take_no_more_memory():
    with pytest.MonkeyPatch.context() as patched, OperatorHarness.of(by_column(2)) as harness:
        patched.setattr(key_windows, "MIN_OVER", 300)
        for number in range(200):
            harness.process_element(element_of([(-1, 0), *((10 * number + i // 2, i) for i in range(20))]), 0)
            operator = harness.operator
            assert len(operator.table) < 400 and operator.key_count < 400
        assert len(results(harness)) == 100 + 200 * 10


def test_windows_that_overlap_take_no_more_memory():
    with pytest.MonkeyPatch.context() as patched, OperatorHarness.of(by_column(6, 2)) as harness:
        patched.setattr(key_windows, "MIN_OVER", 300)
        for _ in range(200):
            harness.process_element(element_of([(i % 7, i) for i in range(70)]), 0)
            assert len(harness.operator.table) < 500
        assert len(results(harness)) == 7 * (2000 // 2 - 2)


def test_more_keys_than_a_table_tells_apart_are_refused(monkeypatch):
    monkeypatch.setattr(column_counts, "_MOST_KEYS", 10)
    with OperatorHarness.of(by_column(8, 2)) as harness:
        harness.process_element(element_of([(1, 1), (2, 2)]), 0)
        with pytest.raises(
            OverflowError, match="3 keys are too many for windows of 8 rows that slide by 2: .* 2 of them"
        ):
            harness.process_element(element_of([(3, 1)]), 0)


def test_first_rows_of_windows_that_overlap():
    with OperatorHarness.of(keyed().count_window(3, 1).top(2, by="v")._stream) as harness:
        harness.process_element(element_of([(1, 5), (1, 3), (1, 9), (1, 4)]), 0)
        assert [row["v"] for row in results(harness)] == [9, 5, 9, 4]


def test_a_snapshot_of_another_size_or_other_windows_is_refused():
    with OperatorHarness.of(by_column(3)) as harness:
        harness.process_element(element_of([(1, 2)]), 0)
        taken = harness.snapshot()
    OperatorHarness.of(by_column(3), restore=taken).open()
    for other in (
        by_column(4),
        by_column(3, 1),
        keyed().window(TumblingEventTimeWindows(3, 0)).aggregate(n=count())._stream,
    ):
        with pytest.raises(TypeError, match=r"the snapshot has CountTumblingWindowAssigner\(3\), and this program has"):
            OperatorHarness.of(other, restore=taken).open()


def test_what_count_windows_do_not_know_is_refused():
    windows = keyed().count_window(3)
    for said in (lambda: windows.allowed_lateness(5), lambda: windows.side_output_late_data(OutputTag("late"))):
        with pytest.raises(ValueError, match=r"cannot be said of CountTumblingWindowAssigner\(3\), which no time ends"):
            said()
    for aggregate in (window_start(), window_end()):
        with pytest.raises(ValueError, match=r"window_start\(\) and window_end\(\) cannot be said"):
            windows.aggregate(n=count(), at=aggregate)
    with pytest.raises(TypeError, match="the size of count_window.* is a number of rows, got 2.5"):
        keyed().count_window(2.5)
    with pytest.raises(TypeError, match="the size of count_window.* is a number of rows, got Time"):
        keyed().count_window(Time.seconds(10))
    with pytest.raises(ValueError, match="at least one"):
        keyed().count_window(0)
    with pytest.raises(TypeError, match=r"without rows between two windows; got CountSlidingWindowAssigner\(2, 4\)"):
        keyed().count_window(2, 4)
    with pytest.raises(ValueError, match="which no time ends"):
        keyed().count_window(4, 2).allowed_lateness(5)
    assert repr(keyed().window(CountTumblingWindowAssigner.of(3))) == repr(windows)
