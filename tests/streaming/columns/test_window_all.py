"""Windows over all rows are those by key where each row has one key, in one subtask."""

import random

import pyarrow as pa
import pytest

from flinkbuf.common import Configuration, Time
from flinkbuf.datastream import OutputTag, RuntimeExecutionMode, StreamExecutionEnvironment
from flinkbuf.datastream.columns import collect, count, max_, sum_, window_end, window_start
from flinkbuf.datastream.window import (
    CountTumblingWindowAssigner,
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import Watermark

TIMED = {
    "tumbling": TumblingEventTimeWindows.of(Time.milliseconds(50)),
    "sliding": SlidingEventTimeWindows.of(Time.milliseconds(60), Time.milliseconds(20)),
    "cumulating": CumulatingEventTimeWindows.of(Time.milliseconds(60), Time.milliseconds(20)),
    "sessions": EventTimeSessionWindows.with_gap(Time.milliseconds(9)),
}
ROWS = [(n % 5, n if n % 7 else None, 4 * n + n * 37 % 11) for n in range(100)]


def embedded(parallelism=1):
    config = Configuration()
    config.set_string("execution.target", "embedded")
    return StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(parallelism)


def rows_of(env, max_rows=7):
    ordered = sorted(ROWS, key=lambda row: row[2])
    table = pa.table(dict(zip(("k", "n", "at"), zip(*ordered, strict=True), strict=True)))
    rows = env.from_collection(table).set_parallelism(1).as_columns(max_rows=max_rows)
    return rows.assign_timestamps_and_watermarks("at").set_parallelism(1)


def aggregated(windows):
    return windows.aggregate(start=window_start(), rows=count(), n=sum_("n"), best=max_("n"), end=window_end())


@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("assigner", TIMED.values(), ids=TIMED)
def test_all_rows_are_those_of_one_key(assigner, parallelism, is_batch):
    def env():
        made = embedded(parallelism)
        return made.set_runtime_mode(RuntimeExecutionMode.BATCH) if is_batch else made

    rows = rows_of(env()).rebalance().drop() if parallelism == 1 else rows_of(env())
    stream = aggregated(rows.window_all(assigner))
    assert stream.schema().names == ["start", "rows", "n", "best", "end"]
    by_key = aggregated(rows_of(env()).with_columns(one=lambda batch: pa.scalar(1)).key_by("one").window(assigner))
    expected = [tuple(row)[1:] for row in by_key.execute_and_collect()]
    found = [tuple(row) for row in stream.execute_and_collect()]
    assert sorted(found) == sorted(expected) != []


def test_it_has_one_subtask():
    stream = rows_of(embedded(2)).window_all(TIMED["tumbling"]).aggregate(rows=count())
    with pytest.raises(ValueError, match="non parallel operator must be 1"):
        stream.set_parallelism(2)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_windows_of_so_many_rows_and_first_rows(parallelism):
    windows = rows_of(embedded(parallelism)).window_all(CountTumblingWindowAssigner(30))
    assert windows.aggregate(rows=count()).execute_and_collect(limit=9) == [(30,), (30,), (30,)]
    windows = rows_of(embedded(parallelism)).window_all(TIMED["tumbling"])
    top = windows.top(2, by="n", rank="rank", end=window_end())
    assert top.schema().names == ["k", "n", "at", "end", "rank"]
    found = [(row.end, row.rank, row.n) for row in top.execute_and_collect()]
    by_end = {}
    for _, n, at in ROWS:
        by_end.setdefault(at // 50, []).append(-1 if n is None else n)
    best = [sorted(each)[::-1][:2] for _, each in sorted(by_end.items())]
    assert [n if n is not None else -1 for _, _, n in sorted(found)] == [n for each in best for n in each]
    first = rows_of(embedded(parallelism)).window_all(TIMED["tumbling"]).deduplicate("first", by="at")
    assert sorted(row.at for row in first.execute_and_collect()) == sorted(
        min(at for _, _, at in ROWS if at // 50 == end) for end in by_end
    )


def element_of(rows):
    batch = pa.record_batch(dict(zip(("k", "n", "at"), map(list, zip(*rows, strict=True)), strict=True)))
    return ColumnBatch(batch, batch["at"].to_numpy())


@pytest.mark.parametrize("assigner", [*TIMED.values(), CountTumblingWindowAssigner(7)], ids=str)
def test_a_snapshot_goes_on_anywhere(assigner):
    rows = embedded().from_collection([]).as_columns("k bigint, n bigint, at bigint")
    program = rows.window_all(assigner).aggregate(rows=count(), n=sum_("n"), all=collect("k"))._stream
    ordered = sorted(ROWS, key=lambda row: row[2])

    def results(harness):
        values = [each.value for each in harness.output if not isinstance(each, Watermark)]
        return [row for value in values for row in value.batch.to_pylist()]

    def run(cuts):
        restore, found = None, []
        for start, end in zip([0, *cuts], [*cuts, len(ordered)], strict=True):
            with OperatorHarness.of(program, restore=restore) as harness:
                for position in range(start, end, 5):
                    part = ordered[position : min(position + 5, end)]
                    harness.process_element(element_of(part), 0)
                    harness.process_watermark(part[-1][2] - 1)
                if end == len(ordered):
                    harness.process_watermark(2**63 - 1)
                restore = [harness.snapshot()]
                found += results(harness)
        return found

    whole = run([])
    assert whole
    for cut in random.Random(0).sample(range(1, 100), 8):
        assert run([cut]) == whole or sorted(map(str, run([cut]))) == sorted(map(str, whole))


def test_a_snapshot_by_key_is_refused():
    rows = embedded().from_collection([]).as_columns("k bigint, n bigint, at bigint")
    by_key = rows.key_by("k").window(TIMED["tumbling"]).aggregate(rows=count())._stream
    of_all = rows.window_all(TIMED["tumbling"]).aggregate(rows=count())._stream
    for one, other in ((by_key, of_all), (of_all, by_key)):
        with OperatorHarness.of(one) as harness:
            harness.process_element(element_of(ROWS), 0)
            snapshot = harness.snapshot()
        with pytest.raises(TypeError, match="the snapshot has rows=count.* by .* and this program has"):
            OperatorHarness.of(other, restore=[snapshot]).open()


def test_late_rows_go_to_their_side_output():
    rows = embedded().from_collection([]).as_columns("k bigint, n bigint, at bigint")
    windows = rows.window_all(TIMED["tumbling"]).side_output_late_data(OutputTag("late"))
    with OperatorHarness.of(windows.aggregate(rows=count())._stream) as harness:
        harness.process_watermark(200)
        harness.process_element(element_of([(1, 1, 10), (2, 2, 300)]), 0)
        harness.process_watermark(500)
        (late,) = harness.side_output(OutputTag("late"))
        assert late.value.batch.to_pylist() == [{"k": 1, "n": 1, "at": 10}]
