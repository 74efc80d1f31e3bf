"""The first rows of each key and window are those that plain Python finds, whatever slices they came by."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK
from flinkbuf.common import Configuration, Time
from flinkbuf.datastream import OutputTag, StreamExecutionEnvironment
from flinkbuf.datastream.columns import count, window_end, window_start
from flinkbuf.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from flinkbuf.records.column_batch import ColumnBatch, PageWriter
from flinkbuf.records.column_exchange import RowKeys
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import Watermark

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("id", pa.int64())])
MAX_PARALLELISM = 8


def windowed(size, slide):
    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection([]).as_columns(SCHEMA).key_by("k")
    return keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(slide)))


def element_of(rows, first_id=0):
    columns = [*zip(*(row[:2] for row in rows), strict=True), range(first_id, first_id + len(rows))]
    batch = pa.record_batch([pa.array(column, pa.int64()) for column in columns], SCHEMA.names)
    return ColumnBatch(batch, np.array([at for *_, at in rows]))


def given_by(harness):
    for each in harness.output:
        if not isinstance(each, Watermark):
            yield from zip(each.value.timestamps.tolist(), each.value.batch.to_pylist(), strict=True)


ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.none() | st.integers(-3, 3), st.integers(0, 40)), min_size=1, max_size=40
)


@settings(max_examples=50, deadline=None)
@given(
    ROWS,
    st.sampled_from([(10, 10), (12, 4), (16, 1)]),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.integers(1, 4),
    st.booleans(),
)
def test_the_first_rows_of_windows(rows, windows, parallelisms, n, is_descending):
    """Rows come in the order of their ids, so ties go to the lower one, as far as they lie in one slice of time."""
    stream = windowed(*windows).top(n, by=["v", "id"], descending=[is_descending, False], rank="rank", end=window_end())
    restore, found = None, []
    for number, parallelism in enumerate(parallelisms):
        start, end = (len(rows) * at // len(parallelisms) for at in (number, number + 1))
        snapshots = []
        for index in range(parallelism):
            options = {"parallelism": parallelism, "subtask_index": index, "max_parallelism": MAX_PARALLELISM}
            with OperatorHarness.of(stream._stream, restore=restore, **options) as harness:
                if start < end:
                    part = element_of(rows[start:end], start)
                    mine = np.flatnonzero(RowKeys(("k",), MAX_PARALLELISM, parallelism).of(part.batch) == index)
                    if len(mine):
                        harness.process_element(PageWriter().write(part.take(mine)), 0)
                snapshots.append(harness.snapshot())
                if number == len(parallelisms) - 1:
                    harness.process_watermark(MAX_WATERMARK)
                    found += given_by(harness)
        restore = snapshots
    size, slide = windows
    wanted = {}
    for end in range(slide, 41 + size, slide):
        for key in range(4):
            inside = [(v, i) for i, (k, v, at) in enumerate(rows) if k == key and end - size <= at < end]
            inside.sort(key=lambda row: (row[0] is not None, row[0] or 0), reverse=is_descending)
            ids = [i for _, i in inside]
            if is_descending:  # Python keeps the order of equal rows, too
                assert ids == sorted(ids, key=lambda i: (-4 if rows[i][1] is None else rows[i][1], -i), reverse=True)
            wanted.update({(end, key, rank + 1): i for rank, i in enumerate(ids[:n])})
    assert all(time == row["end"].timestamp() * 1000 - 1 for time, row in found if row["end"].tzinfo)
    assert {(time + 1, row["k"], row["rank"]): row["id"] for time, row in found} == wanted
    assert len(found) == len(wanted)


@pytest.mark.parametrize(
    ("keep", "by", "wanted"), [("first", None, 0), ("last", None, 3), ("first", "v", 1), ("last", "v", 2)]
)
def test_one_row_of_each_key(keep, by, wanted):
    with OperatorHarness.of(windowed(20, 10).deduplicate(keep, by=by)._stream) as harness:
        harness.process_element(element_of([(1, 5, 11), (1, 3, 12), (1, 9, 13), (1, 4, 14)]), 0)
        harness.process_watermark(MAX_WATERMARK)
        assert [(time, row["id"]) for time, row in given_by(harness)] == [(19, wanted), (29, wanted)]


def test_late_rows_give_their_windows_again_and_go_aside():
    late = OutputTag("late")
    stream = windowed(10, 10).allowed_lateness(5).side_output_late_data(late).top(2, by="v", start=window_start())
    with OperatorHarness.of(stream.name("best")._stream) as harness:
        harness.process_element(element_of([(1, 5, 1), (2, 5, 2)]), 0)
        harness.process_watermark(12)
        harness.output.clear()
        harness.process_element(element_of([(1, 7, 3)], 2), 0)
        assert [row["id"] for _, row in given_by(harness)] == [2, 0]
        harness.process_watermark(20)
        harness.process_element(element_of([(1, 7, 3)], 3), 0)
        assert [each.value.batch["id"].to_pylist() for each in harness.side_output(late)] == [[3]]


def test_a_snapshot_of_other_rows_is_refused():
    with OperatorHarness.of(windowed(10, 10).top(2, by="v")._stream) as harness:
        harness.process_element(element_of([(1, 5, 1)]), 0)
        taken = harness.snapshot()
    for other in (windowed(10, 10).top(3, by="v"), windowed(10, 10).aggregate(rows=count())):
        with pytest.raises(
            TypeError, match=r"the snapshot has rows=top\(2 by v descending\) by k, and this program has"
        ):
            OperatorHarness.of(other._stream, restore=taken).open()


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda w: w.top(2, by="v", n=count()), "got multiple values|n= of top"),
        (
            lambda w: w.top(2, by="v", rows=count()),
            r"rows= of top\(\) is window_start\(\) or window_end\(\), got Aggregate",
        ),
        (
            lambda w: w.top(2, by="v", rank="end", end=window_end()),
            r"rank= of top\(\): there is a column 'end' already",
        ),
        (lambda w: w.deduplicate("both"), "keep= of deduplicate"),
    ],
)
def test_what_makes_no_program_is_refused(build, said):
    with pytest.raises((TypeError, ValueError), match=said):
        build(windowed(10, 10))


def test_two_columns_of_one_name_are_refused():
    with OperatorHarness.of(windowed(10, 10).top(2, by="v", id=window_end())._stream) as harness:
        harness.process_element(element_of([(1, 5, 1)]), 0)
        with pytest.raises(ValueError, match="the rows of a window: two columns would be called 'id'"):
            harness.process_watermark(MAX_WATERMARK)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_best_of_counts_in_each_window(parallelism):
    """Over the results of windows, by the window: the global Top-N of SQL."""
    config = Configuration()
    config.set_string("execution.target", "embedded")
    env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(parallelism)
    rows = [(auction, second * 1000) for second in range(10) for auction in range(second + 1)]
    bids = env.from_collection(rows).as_columns("auction int, at bigint", max_rows=7)
    window = TumblingEventTimeWindows.of(Time.seconds(5))
    keyed = bids.assign_timestamps_and_watermarks("at").key_by("auction").window(window)
    hot = keyed.aggregate(end=window_end(), bids=count()).key_by("end").window(window)
    stream = hot.top(2, by=["bids", "auction"], descending=[True, False], rank="rank", begin=window_start())
    assert stream.schema().names == ["auction", "end", "bids", "begin", "rank"]
    if parallelism == 1:
        found = [(row.end.second, row.auction, row.bids, row.rank) for row in stream.execute_and_collect()]
        assert sorted(found) == [(5, 0, 5, 1), (5, 1, 4, 2), (10, 0, 5, 1), (10, 1, 5, 2)]
    else:  # rows that two subtasks read may come late
        assert {row.rank for row in stream.execute_and_collect()} <= {1, 2}


def test_sessions_and_windows_of_so_many_rows():
    """A late row joins two sessions, whose rows come together."""
    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection([]).as_columns(SCHEMA).key_by("k")
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(10)))
    restore = None
    for rows in ([(1, 5, 1), (2, 7, 3), (1, 9, 15)], [(1, 9, 8), (1, 6, 2)]):
        with OperatorHarness.of(
            sessions.top(3, by="v", rank="rank", end=window_end())._stream, restore=restore
        ) as harness:
            harness.process_element(element_of(rows, 10 * (restore is not None)), 0)
            restore = harness.snapshot()
            harness.process_watermark(MAX_WATERMARK)
            found = [(time, *row.values()) for time, row in given_by(harness)]
    assert sorted((time, *row[:3], row[-1]) for time, *row in found) == [
        (12, 2, 7, 1, 1),
        (24, 1, 6, 11, 3),
        (24, 1, 9, 2, 1),
        (24, 1, 9, 10, 2),
    ]
    with OperatorHarness.of(keyed.count_window(2).deduplicate("last", by="v")._stream) as harness:
        harness.process_element(element_of([(1, 5, 1), (2, 7, 3), (1, 4, 15), (1, 9, 16), (2, 7, 4)]), 0)
        assert sorted(row["id"] for _, row in given_by(harness)) == [0, 4]
