"""DataFrames as column streams and back: no row is an object, and each is what Spark says that it is."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flinkbuf.common import Configuration, Time
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.columns import count, mean, sum_, window_end
from flinkbuf.datastream.window import TumblingEventTimeWindows


def environment():
    config = Configuration()
    config.set_string("execution.target", "spark")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(2)
    return env


def values_of(frame):
    return sorted(map(tuple, frame.collect()), key=repr)


def test_a_data_frame_goes_through_as_columns(spark):
    rows = [(n, f"c{n % 7}", None if n % 11 == 0 else n / 4) for n in range(5000)]
    data = spark.createDataFrame(rows, "n bigint, c string, d double").repartition(3)
    env = environment()
    stream = env.from_data_frame(data).as_columns()
    assert stream.schema().names == ["n", "c", "d"]
    found = stream.filter(pc.field("n") >= 100).select("c", twice=pc.field("d") * 2).to_data_frame()
    assert found.dtypes == [("c", "string"), ("twice", "double")]
    assert values_of(found) == sorted(((c, None if d is None else d * 2) for n, c, d in rows if n >= 100), key=repr)


def test_every_type_comes_back(spark):
    at = datetime.datetime(2024, 7, 1, 12, 30, 15, 123456)
    rows = [
        (
            1,
            2,
            3.5,
            True,
            "é",
            bytearray(b"\0x"),
            datetime.date(1969, 7, 20),
            at,
            Decimal("1.20"),
            [1, None],
            {"a": 1.5},
        ),
        (None,) * 11,
    ]
    schema = (
        "a int, b bigint, c double, d boolean, e string, f binary, g date, h timestamp, i decimal(5,2), j array<int>, "
        "k map<string, double>"
    )
    data = spark.createDataFrame(rows, schema)
    found = environment().from_data_frame(data).as_columns().with_columns(l="a").to_data_frame()
    assert found.drop("l").schema.simpleString() == data.schema.simpleString()
    assert values_of(found.drop("l")) == values_of(data)


def test_windows_of_a_data_frame(spark):
    rows = [(n % 5, n, datetime.datetime(2024, 1, 1) + datetime.timedelta(milliseconds=n * 10)) for n in range(3000)]
    data = spark.createDataFrame(rows, "k int, n bigint, at timestamp_ntz").repartition(2).sortWithinPartitions("at")
    windows = (
        environment()
        .from_data_frame(data)
        .as_columns()
        .assign_timestamps_and_watermarks("at")
        .key_by("k")
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
    )
    found = windows.aggregate(end=window_end(), rows=count(), total=sum_("n"), mean=mean("n")).to_data_frame()
    wanted = {}
    for k, n, at in rows:
        end = datetime.datetime(2024, 1, 1) + (at - datetime.datetime(2024, 1, 1)) // datetime.timedelta(
            seconds=10
        ) * datetime.timedelta(seconds=10)
        wanted.setdefault((k, end + datetime.timedelta(seconds=10)), []).append(n)
    assert values_of(found) == sorted(
        ((k, end, len(ns), sum(ns), sum(ns) / len(ns)) for (k, end), ns in wanted.items()), key=repr
    )


def test_a_schema_says_which_types_columns_have(spark):
    batches = [pa.record_batch({"a": [1, 2], "b": [None, "x"]})]
    stream = environment().from_collection(batches).as_columns("a bigint, b string")
    found = stream.to_data_frame("b string, a int")
    assert found.dtypes == [("b", "string"), ("a", "int")] and values_of(found) == [("x", 2), (None, 1)]
    with pytest.raises(Exception, match="columns a, b, where its schema says a, c"):
        environment().from_collection(batches).as_columns("a bigint, b string").to_data_frame(
            "a int, c string"
        ).collect()
    with pytest.raises(
        Exception, match="column 'b' is int32 to to_data_frame.* and is string now, and its values do not fit"
    ):
        environment().from_collection(batches).as_columns("a bigint, b string").to_data_frame("a int, b int").collect()


def test_a_message_has_no_more_rows_than_spark_wants(spark):
    batch = pa.record_batch({"n": list(range(25_000))})
    found = environment().from_collection([batch]).as_columns("n bigint").to_data_frame()
    assert values_of(found) == [(n,) for n in sorted(range(25_000), key=lambda n: repr((n,)))]


def test_what_arrow_has_no_place_for_comes_as_records(spark):
    data = spark.range(0, 3, 1, 1).selectExpr("id", "array(timestamp_ntz'2024-01-01 10:00:00') as at")
    there = environment().from_data_frame(data).as_columns().to_data_frame()
    data = spark.range(0, 3, 1, 1).selectExpr("id", "array(timestamp'2024-01-01 10:00:00') as at")
    stream = environment().from_data_frame(data)
    assert stream._transformation.factory.of_batches(None, 1, 1) is None
    assert values_of(stream.as_columns().to_data_frame("id bigint, at array<timestamp_ntz>")) == values_of(there)


def test_another_target_is_refused_once(spark):
    config = Configuration()
    config.set_string("execution.target", "embedded")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.enable_checkpointing(50)  # with it a job that fails begins again
    rows = env.from_data_frame(spark.range(3)).as_columns()
    with pytest.raises(RuntimeError, match="reads from Spark, so its program runs on Spark only"):
        list(rows.execute_and_collect())


def test_a_job_that_fails_begins_again_with_the_batches_that_it_had_not_read(spark, tmp_path):
    """Counted by batch; each row counts once in what the job's own sink has."""
    data = spark.range(0, 20_000, 1, 2).selectExpr("id as n", "id % 3 as k")
    env = environment()
    env.enable_checkpointing(50)
    stumbled = tmp_path / "stumbled"

    def stumble(batch):
        if pc.max(batch["n"]).as_py() > 15_000 and not stumbled.exists():
            stumbled.touch()
            raise RuntimeError("once, on purpose")
        return batch

    rows = env.from_data_frame(data).as_columns().map_batches(stumble).as_records("n bigint, k bigint")
    with rows.execute_and_collect() as found:
        numbers = sorted(row.n for row in found)
    assert stumbled.exists() and numbers == list(range(20_000))
