"""exchange() of DataFrames: the same rows and columns, in the partitions that the key says, in both modes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import functions as F
from support.programs.connect_client import found_by_client

import flinkbuf as fb
from flinkbuf.spark.exchange import frame_exchange, frame_shuffle
from flinkbuf.spark.exchange.frame_pipelined import partition_count, task_count_of
from flinkbuf.spark.exchange.frame_schema import as_struct_type, crossing_schema, with_column_names

pytestmark = pytest.mark.spark

MODES = ("blocking", "pipelined")
EVERY_TYPE = """
    id % 2 = 0 AS a_boolean, CAST(id AS byte) AS a_byte, CAST(id AS short) AS a_short, CAST(id AS int) AS an_int,
    id AS a_long, CAST(id AS float) / 3 AS a_float, id / 3D AS a_double, CAST(id AS decimal(10, 2)) AS a_decimal,
    CAST(id AS decimal(38, 18)) AS a_wide_decimal, concat('tëxt ', id) AS a_string,
    CAST(concat('b', id) AS binary) AS a_binary, date_add(date'1960-01-01', CAST(id AS int) * 999) AS a_date,
    timestamp_micros(id * 123456789) AS a_timestamp, timestamp_ntz'2020-02-29 01:02:03.456789' AS a_local_timestamp,
    array(id, NULL, 2) AS an_array, map(concat('k', id), named_struct('x', id, 'y', array('p'))) AS a_map,
    named_struct('a b', id, 'inner', array(date'2020-01-01')) AS a_struct, CAST(NULL AS int) AS a_null, NULL AS nothing,
    make_dt_interval(1, 2, 3, id) AS an_interval, parse_json(concat('{"id":', id, '}')) AS a_variant
"""


@pytest.fixture(scope="module")
def rows(spark):
    """1000 rows in 2 partitions, in order."""
    return spark.range(0, 1000, 1, 2).selectExpr("id", "concat('name ', id % 17) AS name", "id / 4D AS value").cache()


def where(batches):
    """Say of each row which partition it is in."""
    from pyspark import TaskContext

    for batch in batches:
        part = pa.array(np.full(batch.num_rows, TaskContext.get().partitionId()), pa.int32())
        yield batch.append_column("part", part)


WHERE = "id bigint, name string, value double, part int"


def test_equal_keys_meet_where_flink_sends_them(rows):
    selector = fb.by_key("name").selector(fb.types.row_data_type("id bigint, name string, value double"), 2)
    for mode in MODES:
        moved = fb.exchange(rows, "NAME", num_partitions=2, mode=mode, after=where, schema=WHERE)
        found = moved.collect()
        assert sorted(row.id for row in found) == list(range(1000))
        assert all(selector.select_channel((row.id, row.name, row.value)) == row.part for row in found)
        for half in (range(500), range(500, 1000)):  # what one partition sends to another keeps its order
            for part in (0, 1):
                numbers = [row.id for row in found if row.part == part and row.id in half]
                assert numbers == sorted(numbers)


def test_the_schema_is_kept_to_the_metadata(spark):
    frame = spark.range(5).select(
        F.col("id").alias("key", metadata={"unit": "m"}), F.lit(None).cast("string").alias("s")
    )
    moved = fb.exchange(frame, "key")
    assert moved.schema == frame.schema
    assert moved.schema["key"].metadata == {"unit": "m"}
    assert not moved.schema["key"].nullable
    assert sorted(moved.collect()) == sorted(frame.collect())


def test_every_type_of_spark_crosses(spark):
    frame = spark.sql(f"SELECT {EVERY_TYPE} FROM range(20)")
    expected = frame.drop("a_variant").collect()
    for options in ({"key": ("a_string", "a_long"), "num_partitions": 3}, {"num_partitions": 2, "mode": "pipelined"}):
        moved = fb.exchange(frame, **options)
        assert moved.schema == frame.schema
        assert sorted(moved.drop("a_variant").collect(), key=lambda row: row.a_long) == expected
        texts = "SELECT CAST(a_variant AS string) AS text FROM {frame}"
        assert sorted(spark.sql(texts, frame=moved).collect()) == sorted(spark.sql(texts, frame=frame).collect())


def test_intervals_that_arrow_does_not_know_cross_as_text(spark):
    frame = spark.sql(
        "SELECT id, make_interval(1, 2, 0, CAST(id AS int) - 2, 3, 4, -5.000001) AS calendar, "
        "make_ym_interval(1, CAST(id AS int) - 9) AS months FROM range(5)"
    )
    moved = fb.exchange(frame, "id")
    assert [field.dataType for field in moved.schema] == [field.dataType for field in frame.schema]
    texts = "SELECT id, CAST(calendar AS string), CAST(months AS string) FROM {frame}"
    assert sorted(spark.sql(texts, frame=moved).collect()) == sorted(spark.sql(texts, frame=frame).collect())
    with pytest.raises(TypeError, match=r"column 'calendar' is interval, which Spark cannot bring to Python.*cast it"):
        fb.exchange(frame, "id", after=iter)


@pytest.mark.parametrize("make", [fb.by_key, fb.by_range])
def test_a_key_that_several_columns_are_called_is_none_of_them(make):
    columns = ["a", "A", "a"]
    with pytest.raises(ValueError, match="3 columns are called 'a': the columns are a#0, A, a#2"):
        with_column_names(make("a"), columns, False)
    with pytest.raises(ValueError, match="2 columns are called 'a'"):
        with_column_names(make("a"), columns, True)
    for said, meant in (("A", "A"), ("a#2", "a#2"), (2, 2)):
        assert with_column_names(make(said), columns, False) == make(meant)
    assert with_column_names(make("b"), ["a", "B", "a"], False) == make("B")


def test_columns_may_differ_in_case_only(spark):
    rows = spark.range(20).selectExpr("id", "-id AS ID")
    assert sorted(map(tuple, fb.exchange(rows, 1, num_partitions=2).collect())) == [(n, -n) for n in range(20)]


def test_ranges_of_an_interval_are_refused(spark):
    rows = spark.sql("SELECT INTERVAL '2' YEAR AS age")
    with pytest.raises(TypeError, match=r"by_range\(\) cannot order intervals.*age; range by a number"):
        fb.exchange(rows, partitioner=fb.by_range("age"))


def test_names_that_map_in_arrow_cannot_find_are_kept(spark):
    frame = spark.createDataFrame([(1, 2, 3), (4, 5, 6)], ["a.b", "x", "x"])
    moved = fb.exchange(frame, 0, num_partitions=2)
    assert moved.columns == ["a.b", "x", "x"]
    assert sorted(moved.collect()) == [(1, 2, 3), (4, 5, 6)]
    assert fb.exchange(frame.select(), num_partitions=2).count() == 2


def test_functions_before_and_after_run_in_the_same_pass(rows):
    def double(batches):
        for batch in batches:
            ids = np.array(batch.column("id"))
            yield pa.record_batch({"twice": ids * 2, "name": batch.column("name")})

    def count(batches):
        names = [name for batch in batches for name in batch.column("name").to_pylist()]
        yield pa.record_batch(
            {"count": pa.array([len(names)], pa.int64()), "names": pa.array([len(set(names))], pa.int64())}
        )

    for mode in MODES:
        moved = fb.exchange(
            rows,
            "name",
            num_partitions=2,
            mode=mode,
            before=double,
            before_schema="twice bigint, name string",
            after=count,
            schema="count bigint, names bigint",
        )
        found = moved.collect()
        assert (sum(row[0] for row in found), sum(row[1] for row in found)) == (1000, 17)


SWAPPED = "first bigint, second bigint"


def swapped(batches):
    """Two columns of one type, in another order than `SWAPPED` has them."""
    for batch in batches:
        ids = np.array(batch.column("id"))
        yield pa.record_batch({"second": -ids, "first": ids})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("partitioner", ["rebalance", "forward"])
def test_columns_of_before_and_of_after_are_taken_by_their_names(rows, mode, partitioner):
    count = {} if partitioner == "forward" else {"num_partitions": 2}
    expected = [(number, -number) for number in range(1000)]
    for chain in ({"before": swapped, "before_schema": SWAPPED}, {"after": swapped, "schema": SWAPPED}):
        moved = fb.exchange(rows, partitioner=partitioner, mode=mode, **count, **chain)
        assert sorted(map(tuple, moved.select("first", "second").collect())) == expected


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_with_other_names_is_an_error_that_says_so(rows, mode):
    others = {"schema": "first bigint, third bigint"}
    with pytest.raises(Exception, match=r"after= gave a batch .* second, first, where schema= says first, third"):
        fb.exchange(rows, num_partitions=2, mode=mode, after=swapped, **others).collect()
    with pytest.raises(Exception, match=r"before= gave a batch .* second, first, where the DataFrame has id, name"):
        fb.exchange(rows, num_partitions=2, mode=mode, before=swapped).collect()


def test_partitions_are_as_many_as_spark_would_make(spark, rows):
    assert fb.exchange(rows, "name").rdd.getNumPartitions() == 2  # spark.sql.shuffle.partitions
    many = fb.exchange(rows, "id", num_partitions=7, after=where, schema=WHERE)
    sizes = [len({row.part for row in part}) for part in many.rdd.glom().collect()]
    assert len(sizes) == 7
    assert max(sizes) == 1
    kept = many.cache()
    assert kept.rdd.getNumPartitions() == 7
    assert sorted(kept.collect()) == sorted(many.collect())
    assert sorted(row.id for row in many.coalesce(2).collect()) == list(range(1000))
    kept.unpersist()


def test_broadcast_and_forward(rows):
    assert fb.exchange(rows, partitioner="broadcast", num_partitions=3).count() == 3000
    assert fb.exchange(rows, partitioner="forward").rdd.glom().collect() == rows.rdd.glom().collect()


def test_numbers_are_hashed_as_spark_hashes_them(spark, rows, monkeypatch):
    frame = spark.range(-500, 500).selectExpr("CAST(id AS int) AS n").repartition(13, "n")
    found = frame.select("n", F.spark_partition_id().alias("part")).collect()
    assert frame_shuffle.partitions_of([row.n for row in found], 13).tolist() == [row.part for row in found]
    monkeypatch.setattr(frame_shuffle, "has_partition_ids", lambda session: False)
    selector = fb.by_key("id").selector(fb.types.row_data_type("id bigint"), 5)
    moved = fb.exchange(rows, "id", num_partitions=5, after=where, schema=WHERE).collect()
    assert all(row.part == selector.select_channel((row.id,)) for row in moved)


def test_what_crosses_at_once_is_bounded(spark, rows, monkeypatch):
    assert frame_exchange.filler_count(spark, None) == 0  # Spark keeps its own limit
    monkeypatch.setattr(frame_exchange, "_arrow_limits", lambda session: (10_000, 0))
    assert frame_exchange.filler_count(spark, None) == 4
    assert sorted(fb.exchange(rows, "id", num_partitions=2).collect()) == sorted(rows.collect())


def test_a_pipelined_exchange_takes_the_partitions_that_there_are_or_the_slots(spark, rows):
    direct = spark.range(0, 10, 1, 2)
    assert (partition_count(direct), task_count_of(direct, None)) == (2, (2, True))
    assert task_count_of(spark.range(0, 10, 1, 7), None) == (2, False)
    assert partition_count(direct.union(direct)) is None
    shuffled = spark.range(100).repartition(5).selectExpr("id", "'x' AS name", "1D AS value")
    moved = fb.exchange(shuffled, "id", mode="pipelined", after=where, schema=WHERE)
    assert sorted(row.id for row in moved.collect()) == list(range(100))
    assert moved.rdd.getNumPartitions() == 2
    assert fb.exchange(direct.union(direct), mode="pipelined", num_partitions=1).count() == 20
    with pytest.raises(ValueError, match=r"with 3 partitions runs 3 tasks at once, but local\[2\] has slots for 2"):
        fb.exchange(rows, "id", mode="pipelined", num_partitions=3)


def test_what_was_counted_is_told(rows):
    assert fb.exchange(rows, "id", mode="pipelined", num_partitions=2).count() == 1000
    summary = fb.spark.exchange_summaries()[-1]
    assert (summary.total("records_in"), summary.total("records_out")) == (1000, 1000)


def fail(batches):
    for batch in batches:
        if batch.num_rows:
            raise KeyError("no home for this row")
        yield batch


def keep_three(batches):
    for batch in batches:
        yield batch.slice(0, 3)
        return


@pytest.mark.parametrize("mode", MODES)
def test_an_error_of_the_users_functions_comes_through_and_an_early_end_is_none(rows, mode):
    for chain in ({"before": fail}, {"after": fail}):
        with pytest.raises(Exception, match="KeyError: 'no home for this row'"):
            fb.exchange(rows, "name", num_partitions=2, mode=mode, **chain).collect()
    assert 3 <= fb.exchange(rows, "name", num_partitions=2, mode=mode, after=keep_three).count() <= 6


@pytest.mark.parametrize("mode", MODES)
def test_rows_whose_key_is_null_meet(spark, mode):
    frame = spark.range(0, 100, 1, 2).selectExpr("id", "if(id % 2 = 0, NULL, 'a') AS name", "1D AS value")
    found = fb.exchange(frame, "name", num_partitions=2, mode=mode, after=where, schema=WHERE).collect()
    assert len(found) == 100
    assert len({(row.name, row.part) for row in found}) == 2


def test_a_null_where_before_promised_none_is_named_with_its_column(rows):
    def lose(batches):
        for batch in batches:
            yield pa.record_batch({"id": pa.nulls(batch.num_rows, pa.int64())})

    with pytest.raises(
        Exception, match=r"producer \d, row 0 of the batch: column 'id': null, but the column is declared NOT NULL"
    ):
        fb.exchange(rows, before=lose, before_schema="id bigint not null").collect()


@pytest.mark.parametrize("mode", MODES)
def test_ranges_of_a_column_are_in_order_from_partition_to_partition(rows, mode):
    by_value = fb.by_range("VALUE", ascending=False)
    moved = fb.exchange(rows, partitioner=by_value, num_partitions=2, mode=mode, after=where, schema=WHERE)
    parts = [[row.value for row in moved.collect() if row.part == part] for part in (0, 1)]
    assert sorted(parts[0] + parts[1]) == [number / 4 for number in range(1000)]
    assert min(parts[0]) > max(parts[1])
    assert all(300 < len(part) < 700 for part in parts)


def test_wrong_arguments_are_refused_before_any_job(rows):
    refused = [
        (TypeError, "function of a record.*make it a column", {"key": lambda row: row.id}),
        (TypeError, "function of a record cannot be asked", {"partitioner": lambda row, count: 0}),
        (ValueError, "'rescale' needs to know.*'rebalance'", {"partitioner": "rescale"}),
        (ValueError, "leave it out", {"partitioner": "forward", "num_partitions": 2}),
        (ValueError, "there is no column 'origin': the columns are id, name, value", {"key": "origin"}),
        (ValueError, "before= gives, which was not given", {"before_schema": "id int"}),
        (ValueError, "after= gives, which was not given", {"schema": "id int"}),
        (TypeError, "before= is a function over an iterator", {"before": 3}),
        (TypeError, "schema= is the columns of a DataFrame", {"after": iter, "schema": "array<int>"}),
    ]
    for kind, message, options in refused:
        with pytest.raises(kind, match=message):
            fb.exchange(rows, **options)


def test_arrow_columns_are_those_that_spark_brings(spark):
    seen = spark.sql(f"SELECT {EVERY_TYPE} FROM range(3)").drop("a_variant")

    def schema_of(batches):
        import pickle

        for batch in batches:
            yield pa.record_batch({"schema": [pickle.dumps(batch.schema)]})

    import pickle

    found = pickle.loads(seen.mapInArrow(schema_of, "schema binary").first()[0])
    assert crossing_schema(seen.schema, spark.conf.get("spark.sql.session.timeZone")).types == found.types
    assert as_struct_type("a int", "schema").names == ["a"]


# ---------------------------------------------------------------- Spark Connect: a server, and a client without a JVM


CONNECT_PROGRAM = """
from test_spark_frame_exchange import MODES, WHERE, where

rows = spark.range(0, 1000, 1, 4).selectExpr("id", "concat('name ', id % 17) AS name", "id / 4D AS value")
for mode in MODES:
    moved = fb.exchange(rows, "name", num_partitions=2, mode=mode, after=where, schema=WHERE)
    found[mode] = [[row.id, row.name, row.part] for row in moved.collect()]
found["default"] = fb.exchange(rows, "name", after=where, schema=WHERE).select("part").distinct().count()
found["same"] = sorted(fb.exchange(rows, "id").collect()) == sorted(rows.collect())
found["summary"] = fb.spark.exchange_summaries()[-1].total("records_in")
try:
    fb.exchange(rows, "name", mode="pipelined")
except ValueError as error:
    found["refused"] = str(error)
"""


@pytest.mark.long
def test_both_modes_over_a_real_connect_server():
    found = found_by_client(CONNECT_PROGRAM, Path(__file__).parent)
    selector = fb.by_key("name").selector(fb.types.row_data_type("id bigint, name string"), 2)
    for mode in MODES:
        assert sorted(row[0] for row in found[mode]) == list(range(1000))
        assert all(selector.select_channel((number, name)) == part for number, name, part in found[mode])
    assert (found["default"], found["same"], found["summary"]) == (3, True, 1000)
    assert "pass num_partitions=" in found["refused"]


@pytest.mark.parametrize("key", ["s", 0, "*", ("n", "s"), "nested", fb.by_range("s")])
def test_a_text_with_a_collation_is_no_key(spark, key):
    rows = spark.sql("select s, n, named_struct('part', s) nested from values ('a' collate UTF8_LCASE, 1) t(s, n)")
    options = {"partitioner": key} if not isinstance(key, (str, int, tuple)) else {"key": key}
    with pytest.raises(TypeError, match=r"column '(s|nested)'.* its collation takes for equal .* such as lower"):
        fb.exchange(rows, num_partitions=2, **options)
    moved = fb.exchange(rows, "n", num_partitions=2)
    assert moved.schema == rows.schema and moved.count() == 1


@pytest.mark.parametrize("mode", ["blocking", "pipelined"])
def test_a_codec_that_there_is_not_is_refused_before_a_task_runs(spark, mode):
    config = fb.NetworkConfig(compression_codec="LZO")
    rows = spark.range(10, numPartitions=1)
    with pytest.raises(ValueError, match="does not read or write LZO: set .*codec to LZ4 or ZSTD"):
        fb.exchange(rows, "id", num_partitions=2, mode=mode, config=config)
    with pytest.raises(ValueError, match="does not read or write LZO"):
        fb.exchange(rows.rdd.map(lambda row: row.id), type="bigint", config=config)


def test_a_function_behind_a_pipelined_exchange_that_fails_twice_in_the_same_way_is_not_tried_a_third_time(
    rows, tmp_path
):
    def fail(batches):
        for batch in batches:
            if TaskContext.get().partitionId() == 1:
                (tmp_path / f"attempt {TaskContext.get().taskAttemptId()}").touch()
                raise OSError("always")
            yield batch

    moved = fb.exchange(rows, "name", mode="pipelined", num_partitions=2).mapInArrow(fail, rows.schema)
    # Now and then Spark begins an attempt in part, which the tasks refuse; the second time it makes no more of them.
    ends = "failed with OSError: always, and so did one of the attempt before|Spark has started 1 of its 2 tasks again"
    with pytest.raises(Exception, match=f"(?s){ends}"):
        moved.groupBy("name").count().collect()
    assert len(list(tmp_path.iterdir())) == 2


def test_parts_of_a_pipelined_exchange_are_refused_in_a_sentence(rows):
    moved = fb.exchange(rows, "name", mode="pipelined", num_partitions=2)
    parts = (moved.show, moved.head, moved.first, moved.isEmpty, moved.toLocalIterator)
    for ask in (*parts, lambda: moved.take(3), lambda: moved.tail(3)):
        with pytest.raises(ValueError, match=r"tasks of a pipelined exchange run all together or not at all: put a sh"):
            ask()
    assert moved.repartition(2).isEmpty() is False
    assert len(fb.exchange(rows, "name", mode="pipelined", num_partitions=1).take(3)) == 3


def test_a_union_of_two_pipelined_exchanges_is_refused_before_spark_stops(rows):
    one, other = (fb.exchange(rows, "name", mode="pipelined", num_partitions=2) for _ in range(2))
    for union in (one.union, one.unionAll, one.unionByName):
        with pytest.raises(ValueError, match=r"two pipelined exchanges into one stage"):
            union(other)
    assert one.repartition(2).union(other.repartition(2)).count() == 2000
