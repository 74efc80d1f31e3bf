"""Column streams at the public door: what a method takes, what it refuses, and what it says."""

import threading

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flinkbuf.common import Configuration, Row, Time, Types
from flinkbuf.datastream import OutputTag, SourceFunction, StreamExecutionEnvironment
from flinkbuf.datastream.columns import (
    KeyedBatchFunction,
    collect,
    count,
    first,
    max_by,
    mean,
    stddev,
    sum_,
    window_end,
)
from flinkbuf.datastream.window import (
    EventTimeSessionWindows,
    GlobalWindows,
    SessionWindowTimeGapExtractor,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)


def environment():
    config = Configuration()
    config.set_string("execution.target", "embedded")
    return StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(1)


def pairs(*rows):
    return environment().from_collection(list(rows) or [(1, 2)]).as_columns("k int, n bigint")


def test_columns_are_those_of_the_declared_type():
    env = environment()
    rows = env.from_collection([("a", 1)], Types.ROW_NAMED(["s", "n"], [Types.STRING(), Types.INT()]))
    assert rows.as_columns().schema() == pa.schema([("s", pa.string()), ("n", pa.int32())])
    with pytest.raises(ValueError, match="of no declared type, so their columns are not known: say as_columns"):
        env.from_collection([("a", 1)]).as_columns()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (pa.record_batch({"k": pa.array([1], pa.int32()), "n": [5.0]}), "column 'n' is int64 to as_columns"),
        (pa.record_batch({"k": pa.array([1], pa.int32()), "n": [True]}), "column 'n' is int64 to as_columns"),
        (pa.record_batch({"k": [1 << 40], "n": [1]}), "column 'k' is int32 to as_columns.*its values do not fit"),
        (pa.record_batch({"k": [1]}), "a batch with the columns k came where as_columns.* was told of k, n"),
    ],
)
def test_a_batch_whose_values_would_be_others_is_refused(given, said):
    stream = environment().from_collection([given]).as_columns("k int, n bigint")
    with pytest.raises((TypeError, ValueError), match=said):
        list(stream.execute_and_collect())


def test_a_batch_is_cast_where_its_values_stay():
    narrow = pa.record_batch({"n": pa.array([3], pa.int8()), "k": pa.array([1], pa.uint64())})
    table = pa.table({"k": pa.array(["1"]).cast(pa.int32()), "n": pa.array([4]).dictionary_encode()})
    stream = environment().from_collection([narrow, table]).as_columns("k int, n bigint")
    assert stream.execute_and_collect(limit=2) == [(1, 3), (1, 4)]


class OnlyEven(TumblingEventTimeWindows):
    def assign_windows(self, element, timestamp, context):
        return super().assign_windows(element, timestamp, context) if element % 2 == 0 else []


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element


def test_a_schema_is_known_before_anything_runs():
    stream = pairs().with_columns(x=pc.field("n") * 2).rename(k="key").map_batches(lambda batch: batch)
    assert stream.schema() == pa.schema([("key", pa.int32()), ("n", pa.int64()), ("x", pa.int64())])
    assert stream.union(stream).rebalance().filter(pc.field("n") > 1).schema() == stream.schema()
    windows = (
        stream.assign_timestamps_and_watermarks("n").key_by("key").window(TumblingEventTimeWindows.of(Time.seconds(1)))
    )
    results = windows.aggregate(end=window_end(), rows=count(), all=collect("x"), x=max_by("x", by="n"), s=stddev("n"))
    assert [str(field.type) for field in results.schema()] == [
        "int32",
        "timestamp[ms]",
        "int64",
        "list<item: int64>",
        "int64",
        "double",
    ]


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda s: s.key_by(), "key_by.. needs the name of a column"),
        (lambda s: s.key_by(lambda row: row), "key_by.. of a column stream takes names of columns, got function"),
        (
            lambda s: s.key_by("k").window(TumblingProcessingTimeWindows.of(Time.seconds(1))),
            "assign_timestamps.* got Tum",
        ),
        (lambda s: s.key_by("k").window(GlobalWindows.create()), "as_records"),
        (lambda s: s.key_by("k").window(OnlyEven(1000, 0)), "as_records"),
        (lambda s: s.key_by("k").window(EventTimeSessionWindows.with_dynamic_gap(Gap())), "with one gap.* as_records"),
        (lambda s: s.key_by("k").aggregate(), "aggregate.. needs an aggregate, such as bids=count"),
        (lambda s: s.key_by("k").aggregate(n=5), "n= of aggregate.. is what count"),
        (lambda s: s.key_by("k").aggregate(k=count()), "k= of aggregate.. has the name of a column of the key"),
        (lambda s: s.key_by("k").aggregate(e=window_end()), "are of a window: call window"),
        (lambda s: s.filter(5), "the predicate of filter.. must be the name of a column, an expression"),
        (lambda s: s.select(5), "select.. takes names of columns"),
        (lambda s: s.select("k", k="n"), "select.. is told of the column 'k' twice"),
        (lambda s: s.map_batches("f"), "map_batches.. takes a function of a batch"),
        (lambda s: s.assign_timestamps_and_watermarks("n", 5), "a WatermarkStrategy is needed, got int"),
        (lambda s: s.get_side_output("late"), "an OutputTag is needed, got str 'late'"),
        (lambda s: windowed(s).side_output_late_data("late"), "an OutputTag is needed, got str 'late'"),
        (lambda s: windowed(s).allowed_lateness(Time.seconds(1)), "takes milliseconds, an int, got Time"),
        (lambda s: windowed(s).allowed_lateness(-1), "cannot be negative, got -1 ms"),
        (lambda s: s.key_by("k").process_batches(print), "process_batches.. takes a KeyedBatchFunction.*, got builtin"),
        (lambda s: s.key_by("k").process_batches(Passing), "Passing is a class, and an object of it is needed"),
        (lambda s: s.key_by("k").process_batches(Passing(), 5), "int"),
        (
            lambda s: s.key_by("k").process_batches(Passing(), "n int", "n"),
            "output_type has a column 'n', but results go",
        ),
        (
            lambda s: s.key_by("k").process_batches(Passing(), timestamp_column=5),
            "timestamp_column .* a column, got int",
        ),
        (lambda s: s.key_by("k").process_batches(Passing()).schema(), "known when they come: say output_type="),
    ],
)
def test_what_makes_no_program_is_refused_where_it_is_said(build, said):
    with pytest.raises((TypeError, ValueError), match=said):
        build(pairs())


class Passing(KeyedBatchFunction):
    def process_batch(self, batch, context):
        return batch


def windowed(stream):
    return stream.key_by("k").window(TumblingEventTimeWindows.of(Time.seconds(1)))


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda s: s.filter("absent"), r"filter\(\): the batch has no column 'absent'; there are k, n"),
        (lambda s: s.filter("n"), r"the predicate of filter\(\) gives a column of booleans, got int64"),
        (lambda s: s.select(m=lambda batch: batch["n"][:0]), "was given 1 rows and gave 0 values"),
        (lambda s: s.map_batches(lambda batch: batch.slice(0, 0)), "gives a row for each, in their order"),
        (lambda s: s.key_by("k").aggregate(x=sum_("absent")), "the batch has no column 'absent'"),
        (lambda s: s.key_by("absent").aggregate(x=count()), "no column 'absent', which is of the key"),
        (lambda s: windowed(s).aggregate(x=count()), "a row has no timestamp, by which windows"),
    ],
)
def test_what_rows_show_to_be_wrong_is_told_with_its_operator(build, said):
    with pytest.raises((TypeError, ValueError, KeyError), match=said) as caught:
        list(build(pairs()).execute_and_collect())
    assert any("in operator" in note for note in caught.value.__notes__)


def test_a_union_whose_streams_have_keys_of_other_types_is_refused():
    """-1 as an int and as a bigint are in different subtasks, neither of which sees the other."""
    env = environment()
    wide, narrow = (
        env.from_collection(pa.table({"k": pa.array([-1], of), "n": [1]})).as_columns()
        for of in (pa.int64(), pa.int32())
    )
    text = r"column 'k' is int\d+ in one stream of union\(\) and is int\d+ in another, and it is of the key: .* cast"
    for united in (wide.union(narrow), wide.filter(pc.field("n") > 0).union(wide.union(narrow.rename(n="m")))):
        with pytest.raises(TypeError, match=text):
            united.key_by("k")
    wide.union(narrow).key_by("n")
    both = wide.union(narrow)
    for behind in (
        both.assign_timestamps_and_watermarks("n"),
        both.filter(lambda batch: pa.array([True] * len(batch))).rebalance(),
        both.with_columns(m="n").map_batches(lambda batch: batch),
        wide.union(both.select("k")),
    ):
        with pytest.raises(TypeError, match=text):
            behind.key_by("k")
    numbers = narrow.map_batches(lambda batch: {"k": np.array([2 * k for k in batch["k"].to_pylist()])})
    wide.union(numbers).key_by("k")  # with no rows they are doubles
    both.with_columns(k=lambda batch: batch["k"].cast(pa.int64())).key_by("k")
    wide.union(wide.map_batches(lambda batch: 1 / len(batch))).key_by("k")


def test_side_outputs_and_several_consumers():
    late = OutputTag("late")
    times = [5, 1500, 7, 2500]
    batches = [pa.record_batch({"k": [1], "at": [at]}) for at in times]
    stream = environment().from_collection(batches).as_columns("k bigint, at bigint")
    stamped = stream.assign_timestamps_and_watermarks("at")
    windows = windowed(stamped).side_output_late_data(late).aggregate(rows=count(), first=first("at"))
    both = windows.union(windows.with_columns(rows="rows"))
    found = both.execute_and_collect(limit=20)
    assert all(found.count(row) % 2 == 0 for row in found)
    assert sum(row.rows for row in found) == 2 * len(times), "watermarks come at intervals: nothing is late here"


def test_results_of_a_keyed_function_are_a_stream_of_columns():
    late = OutputTag("late")

    class Split(KeyedBatchFunction):
        def process_batch(self, batch, context):
            yield batch.slice(1)
            yield late, context.keys

    found = pairs((1, 2), (1, 5)).key_by("k").process_batches(Split(), "k int, n bigint")
    assert found.schema() == pa.schema([("k", pa.int32()), ("n", pa.int64())])
    assert found.get_side_output(late).execute_and_collect(limit=1) == [(1,)]
    assert found.key_by("k").aggregate(n=sum_("n")).execute_and_collect(limit=1) == [(1, 5)]


def test_numbers_of_numpy_and_scalars_are_columns():
    stream = pairs((1, 2), (1, 5)).select(a=lambda batch: batch["n"].to_numpy() * 2, b=lambda batch: pa.scalar("x"))
    assert stream.execute_and_collect(limit=2) == [(4, "x"), (10, "x")]
    averages = pairs((1, 2), (1, 5)).key_by("k").aggregate(m=mean(lambda batch: np.sqrt(batch["n"].to_numpy() - 1)))
    assert averages.execute_and_collect(limit=1) == [(1, 1.5)]


class OneRow(SourceFunction):
    """Gives one row, and ends when it has come out."""

    has_come = threading.Event()

    def run(self, ctx):
        ctx.collect((1, 2))
        assert OneRow.has_come.wait(30)

    def cancel(self):
        OneRow.has_come.set()


def test_a_batch_waits_for_its_rows_and_not_for_its_buffer_too():
    """It may be the last for long, and has waited already."""
    OneRow.has_come.clear()
    env = environment().set_buffer_timeout(60_000)
    rows = env.add_source(OneRow(), type_info=Types.TUPLE([Types.LONG(), Types.LONG()]))
    sums = rows.as_columns("k bigint, n bigint", max_delay=Time.milliseconds(1)).key_by("k").aggregate(n=sum_("n"))
    with sums.execute_and_collect() as results:
        assert next(results) == Row(k=1, n=2)
        OneRow.has_come.set()
        assert list(results) == []
