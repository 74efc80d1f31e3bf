"""DataFrames through partition files and back: every type, every key, and never a row too few."""

import json
import os
import signal
import struct
import sys
import time
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.spark
pytest.importorskip("pyspark.sql.datasource")

from pyspark.sql import functions as F  # noqa: E402
from pyspark.sql import types as T  # noqa: E402
from pyspark.sql.datasource import DataSourceReader, EqualTo, In, IsNull  # noqa: E402
from support.faults.fault_proxy import wait_until  # noqa: E402

from flinkbuf.partition_files.data_set import PartitionDataSet  # noqa: E402
from flinkbuf.partition_files.description import describe  # noqa: E402
from flinkbuf.partition_files.manifest import FORMAT_VERSION, DataFile  # noqa: E402
from flinkbuf.records.spark_arrow import arrow_schema_of  # noqa: E402
from flinkbuf.spark.data_source.data_source import FlinkbufDataSource  # noqa: E402
from flinkbuf.spark.data_source.filters import candidates_of, values_of_json  # noqa: E402
from flinkbuf.spark.data_source.options import ReadOptions  # noqa: E402
from flinkbuf.spark.data_source.reader import (  # noqa: E402
    KEEPS_PLANS_APART,
    OptionalPushdownReader,
    PushdownReader,
    slices_of,
)

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "set")


def save(frame, path, mode="append", **options):
    frame.write.format("flinkbuf").options(**options).mode(mode).save(path)


def load(spark, path, **options):
    return spark.read.format("flinkbuf").options(**options).load(path)


@pytest.fixture
def load_for_one_filter(spark):
    """Load with filters pushed down, as a PySpark does that keeps plans apart: each load() is filtered once here."""

    class OneFilterSource(FlinkbufDataSource):
        @classmethod
        def name(cls):
            return "flinkbuf_one_filter"

        def reader(self, schema):
            options = ReadOptions.of(self.options)
            return PushdownReader(options.path, PartitionDataSet(options.path).manifest(), schema, options)

    spark.dataSource.register(OneFilterSource)
    spark.conf.set(PUSHDOWN, "true")
    yield lambda path: spark.read.format("flinkbuf_one_filter").option("task_size", "1").load(path)
    spark.conf.unset(PUSHDOWN)


def rows(frame):
    return sorted(map(str, frame.collect()))


ALL_TYPES = """
    id, id % 2 = 0 AS bo, cast(id AS tinyint) AS b, cast(id * 100 AS smallint) AS s, cast(id AS int) AS i,
    cast(id / 3 AS float) AS f, id / 7D AS d, cast(id / 8 AS decimal(10, 2)) AS de, cast(id AS decimal(38, 18)) AS wide,
    concat('text ', id) AS t, cast(concat('b', id) AS binary) AS bi, date_add(date'2013-01-01', cast(id AS int)) AS da,
    timestamp_micros(id * 1000001) AS ts, cast(timestamp_micros(id) AS timestamp_ntz) AS tn,
    array(id, null, id + 1) AS ar, map('a', id, 'b', null) AS ma, named_struct('x', id, 'y', array('q')) AS st,
    array(named_struct('z', map(id, 'v'))) AS ne, cast(null AS void) AS v
"""


def all_types(spark, count=100):
    columns = [each.strip() for each in split_columns(ALL_TYPES)]
    return spark.range(count).selectExpr(*columns)


def split_columns(text):
    depth, start = 0, 0
    for index, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def test_every_type_comes_back_as_it_was(spark, path):
    frame = all_types(spark)
    nulls = frame.select(*(F.when(F.col("id") % 3 == 0, F.col(name)).alias(name) for name in frame.columns))
    save(nulls, path, key="t", num_partitions=7)
    found = load(spark, path)
    assert found.schema == nulls.schema
    assert rows(found) == rows(nulls)


def test_nullability_metadata_and_names_are_kept(spark, path):
    fields = [T.StructField("a b", T.LongType(), False, {"unit": "m"}), T.StructField("`ü`", T.StringType())]
    frame = spark.createDataFrame([(1, "x"), (2, None)], T.StructType(fields))
    save(frame, path)
    assert load(spark, path).schema == frame.schema
    assert rows(load(spark, path)) == rows(frame)


@pytest.mark.parametrize("column", ["interval '1' day", "interval 1 month"])
def test_a_type_without_counterpart_is_refused_by_its_column(spark, path, column):
    frame = spark.range(1).selectExpr(f"{column} AS odd")
    with pytest.raises(Exception, match="'odd'"):
        save(frame, path)
    assert not os.path.exists(path)


def test_a_frame_without_columns_is_refused(spark, path):
    with pytest.raises(Exception, match="has no columns, so Spark would bring no row"):
        save(spark.range(3).select(), path)
    assert not os.path.exists(path)


def test_no_row_is_a_data_set_too(spark, path):
    save(all_types(spark, 0), path, key="id")
    assert load(spark, path).count() == 0
    save(all_types(spark, 3), path, key="id")
    assert load(spark, path).count() == 3


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_compression(spark, path, compression):
    frame = spark.range(20_000).selectExpr("id", "concat('the same text again and again ', id % 3) AS t")
    save(frame, path, key="t", num_partitions=4, compression=compression)
    found = load(spark, path)
    assert (
        found.agg(F.sum("id"), F.count_distinct("t")).collect()
        == frame.agg(F.sum("id"), F.count_distinct("t")).collect()
    )
    size = PartitionDataSet(path).manifest().data_size
    assert size > 900_000 if compression == "none" else size < 500_000


def test_modes(spark, path):
    one, two = spark.range(3), spark.range(3, 5)
    save(one, path, if_exists="error")
    with pytest.raises(Exception, match="holds a data set already"):
        save(two, path, if_exists="error")
    save(two, path, if_exists="ignore")
    assert load(spark, path).count() == 3
    save(two, path)
    assert rows(load(spark, path)) == rows(spark.range(5))
    save(two, path, "overwrite", num_partitions=3)
    assert rows(load(spark, path)) == rows(two)
    with pytest.raises(Exception, match="num_partitions is 3, that of the new rows 64"):
        save(one, path)
    with pytest.raises(Exception, match="column 'id' is long in the data set and string in the new rows"):
        save(one.selectExpr("string(id) AS id"), path, num_partitions=3)


def test_a_data_set_may_be_read_while_it_is_overwritten(spark, path):
    save(spark.range(100), path)
    save(load(spark, path).selectExpr("id + 1 AS id"), path, "overwrite")
    assert load(spark, path).agg(F.sum("id")).first()[0] == 5050


def test_a_load_stays_with_its_version(spark, path):
    save(spark.range(10), path)
    old = load(spark, path)
    assert old.count() == 10
    save(spark.range(3), path, "overwrite")
    assert (old.count(), load(spark, path).count()) == (10, 3)
    save(spark.range(4), path, "overwrite", retention="0 s")
    with pytest.raises(Exception, match="this file of the data set is gone: it was replaced"):
        old.count()


def test_a_job_that_fails_leaves_the_old_rows_and_no_file(spark, path):
    save(spark.range(10), path)
    before = sorted(os.listdir(os.path.join(path, "data")))
    bad = spark.range(1000).selectExpr("id", "assert_true(id < 900) IS NULL AS ok").where("ok")
    with pytest.raises(Exception, match="assert_true|is not true"):
        save(bad.select("id"), path, "overwrite")
    assert load(spark, path).count() == 10
    # Spark does not wait for tasks that still run.
    assert wait_until(lambda: sorted(os.listdir(os.path.join(path, "data"))) == before, seconds=60)
    (record,) = os.listdir(os.path.join(path, "_jobs"))
    assert os.path.getsize(os.path.join(path, "_jobs", record)), "tasks that have yet to begin would not know"


def test_some_columns_by_a_schema(spark, path):
    frame = all_types(spark)
    save(frame, path, key="t")
    found = spark.read.format("flinkbuf").schema("ts timestamp, id bigint, ma map<string, bigint>").load(path)
    assert rows(found) == rows(frame.select("ts", "id", "ma"))
    with pytest.raises(Exception, match="there is no column 'zz'; there are id, bo"):
        spark.read.format("flinkbuf").schema("zz int").load(path).collect()
    with pytest.raises(Exception, match="column 'id' is bigint; it cannot be read as string"):
        spark.read.format("flinkbuf").schema("id string").load(path).collect()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kye": "id"}, "there is no option 'kye'"),
        ({"key": "zz"}, "the option key names 'zz'; the columns are id"),
        ({"key": "a"}, "column 'a' cannot be a key"),
        ({"num_partitions": "0"}, "num_partitions is a number from 1 to 32768"),
        ({"compression": "snappy"}, "compression is none, lz4 or zstd"),
        ({"if_exists": "no"}, "if_exists is one of"),
        ({"retention": "long"}, "the option retention"),
    ],
)
def test_wrong_options_are_named(spark, path, options, message):
    with pytest.raises(Exception, match=message):
        save(spark.range(1).selectExpr("id", "array(id) AS a"), path, **options)
    assert not os.path.exists(path)


def test_a_collated_key_is_refused(spark, path):
    frame = spark.range(3).selectExpr("string(id) COLLATE UTF8_LCASE AS t")
    with pytest.raises(Exception, match="column 't' is string collate UTF8_LCASE"):
        save(frame, path, key="t")
    save(frame, path)
    assert load(spark, path).schema == frame.schema


KEYS = {
    "id": ["id = 5", "id IN (1, 2, 99)", "id = -1"],
    "bo": ["bo", "NOT bo"],
    "b": ["b = 5"],
    "s": ["s = 500"],
    "i": ["i = 7", "i IS NULL"],
    "f": ["f = float(2) / 3", "f = 0F", "f = -0F"],
    "d": ["d = 5 / 7D", "d = 0", "d = double('NaN')", "d = -0D", "d IS NULL"],
    "de": ["de = 1.5", "de = 0.63", "de IN (1.50, 2)"],
    "t": ["t = 'text 5'", "t IN ('text 1', 'text 2', null)", "t IS NULL", "t <=> null", "t = 'none'"],
    "da": ["da = date'2013-01-06'"],
    "ts": ["ts = timestamp'1970-01-01 00:00:05.000005'"],
    "tn": ["tn = timestamp_ntz'1970-01-01 00:00:00.000005'"],
}


def key_frame(spark):
    frame = all_types(spark, 60)
    nulls = frame.select(*(F.when(F.col("id") % 11 != 10, F.col(name)).alias(name) for name in frame.columns))
    odd = nulls.withColumn("d", F.expr("CASE id WHEN 1 THEN double('NaN') WHEN 2 THEN -0D ELSE d END"))
    return odd.withColumn("f", F.expr("CASE id WHEN 2 THEN -0F ELSE f END")).drop("v")


@pytest.mark.parametrize("key", KEYS)
def test_a_filter_on_the_key_reads_less_and_finds_the_same_rows(spark, path, key, load_for_one_filter):
    frame = key_frame(spark)
    save(frame, path, key=key, num_partitions=64)
    for condition in KEYS[key]:
        found = load_for_one_filter(path).where(condition)
        assert rows(found) == rows(frame.where(condition)), condition
        assert found.rdd.getNumPartitions() <= 6, condition


def test_a_filter_on_a_key_of_two_columns(spark, path, load_for_one_filter):
    frame = spark.range(400).selectExpr("id", "if(id % 5 = 0, null, id % 7) AS a", "concat('k', id % 3) AS b")
    save(frame, path, key="a,b", num_partitions=64)
    for condition in ("a = 3 AND b = 'k1'", "a IS NULL AND b = 'k0'", "a IN (1, 2) AND b IN ('k0', 'k1')"):
        found = load_for_one_filter(path).where(condition)
        assert rows(found) == rows(frame.where(condition))
        assert found.rdd.getNumPartitions() <= 8
    whole = load_for_one_filter(path).where("a = 3")
    assert rows(whole) == rows(frame.where("a = 3"))


@pytest.mark.skipif(KEEPS_PLANS_APART, reason="this PySpark keeps what it planned with each scan")
def test_pushdown_is_refused_where_spark_would_use_one_plan_for_another_query(spark, path):
    save(spark.range(100), path, key="id", num_partitions=16)
    with pytest.raises(Exception, match=r"pushdown cannot be 'true' with PySpark .*name the keys .*by the option keys"):
        load(spark, path, pushdown="true")


@pytest.mark.parametrize("options", [{}, {"pushdown": "false"}, {"pushdown": "true"}])
def test_a_load_may_be_filtered_again_and_again_in_any_query(spark, path, options):
    if options.get("pushdown") == "true" and not KEEPS_PLANS_APART:
        pytest.skip("this PySpark uses one plan for other queries, so the option is refused")
    frame = spark.range(100).selectExpr("id", "id % 10 AS k")
    save(frame, path, key="k", num_partitions=16)
    spark.conf.set(PUSHDOWN, "true")
    try:
        found = load(spark, path, **options)
        three, four = found.where("k = 3"), found.where("k = 4")
        assert three.count() == 10
        assert found.count() == 100
        assert three.union(four).count() == 20
        assert found.union(three).count() == 110
        assert found.join(three, "id", "left_anti").count() == 90
        assert three.join(found, "id").count() == 10
        assert three.join(four, "k", "full").count() == 20
        kept = three.cache()
        assert (four.count(), kept.count(), found.count()) == (10, 10, 100)
        kept.unpersist()
    finally:
        spark.conf.unset(PUSHDOWN)


def test_all_queries_of_a_load_see_one_version(spark, path):
    save(spark.range(10), path)
    spark.conf.set(PUSHDOWN, "true")
    try:
        for schema in (None, "id bigint"):
            reader = spark.read.format("flinkbuf") if schema is None else spark.read.format("flinkbuf").schema(schema)
            old = reader.load(path)
            before = old.count()
            save(spark.range(100, 105), path)
            assert old.where("id >= 0").count() == before
            assert old.count() == before
            assert old.where("id < 5").join(old, "id", "right").count() == before
            assert load(spark, path).count() == before + 5
    finally:
        spark.conf.unset(PUSHDOWN)


# What the option keys says, and the condition that Spark would apply for it.
KEY_OPTIONS = {
    "bo": [("[true]", "bo"), ("[null]", "bo IS NULL")],
    "b": [("[5]", "b = 5")],
    "id": [("[5, -1]", "id IN (5, -1)")],
    "f": [("[0.0]", "f = 0"), ("[-0.0]", "f = 0"), ("[5]", "f = float(5)"), ('["NaN"]', "f = float('NaN')")],
    "d": [("[0]", "d = 0"), ("[NaN]", "d = double('NaN')"), ("[1e400]", "d = double('Infinity')")],
    "de": [("[1.5]", "de = 1.5"), ('["0.630"]', "de = 0.63"), ("[2]", "de = 2")],
    "wide": [("[12345678901234567890.123456789012345678]", "wide = 12345678901234567890.123456789012345678")],
    "t": [('["text 5"]', "t = 'text 5'")],
    "da": [('["2013-01-06"]', "da = date'2013-01-06'")],
    "ts": [
        ('["1970-01-01T00:00:05.000005Z"]', "ts = timestamp'1970-01-01 00:00:05.000005Z'"),
        ('["1969-12-31 19:00:05.000005-05:00"]', "ts = timestamp'1970-01-01 00:00:05.000005Z'"),
    ],
    "tn": [('["1969-12-31 19:00:00.000005"]', "tn = timestamp_ntz'1969-12-31 19:00:00.000005'")],
}


@pytest.fixture(scope="module")
def key_sets(spark, tmp_path_factory):
    """A data set for each key, written in the session's own time zone, and the rows that are in all of them."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    columns = "wide", "if(id = 7, 12345678901234567890.123456789012345678BD, wide)"
    frame = key_frame(spark).withColumn(columns[0], F.expr(columns[1]))
    frame = frame.withColumn("d", F.expr("if(id = 3, double('Infinity'), d)"))
    frame = frame.withColumn("f", F.expr("if(id = 3, float('NaN'), f)")).coalesce(1)
    folder = tmp_path_factory.mktemp("keys")
    for key in KEY_OPTIONS:
        save(frame.select(*{"id", key}), str(folder / key), key=key, num_partitions=64)
    yield folder, frame
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("key", KEY_OPTIONS)
def test_the_option_keys_loses_no_row_that_a_filter_keeps(spark, key, key_sets):
    folder, frame = key_sets
    for keys, condition in KEY_OPTIONS[key]:
        found = load(spark, str(folder / key), keys=keys, task_size="1")
        expected = rows(frame.select(found.columns).where(condition))
        assert expected, "the case would show nothing"
        assert rows(found.where(condition)) == expected, (keys, condition)
        assert found.count() < frame.count(), keys


def test_a_timestamp_without_a_time_zone_is_no_key(spark, key_sets):
    """It was taken as UTC, and the row was missing where the session has another zone."""
    with pytest.raises(Exception, match=r"column 'ts': it has no time zone.*\+00:00"):
        load(spark, str(key_sets[0] / "ts"), keys='["1969-12-31 19:00:05.000005"]').count()


@pytest.mark.parametrize(
    ("data_type", "value", "message"),
    [
        (T.TimestampType(), "1970-01-01 00:00:05", r"column 'k': it has no time zone.*say which, as .*05\+00:00"),
        (T.TimestampType(), 5, "column 'k'"),
        (T.TimestampNTZType(), "1970-01-01T00:00:00Z", "column 'k', which is timestamp_ntz"),
        (T.ByteType(), 300, "column 'k', which is tinyint"),
        (T.LongType(), 1 << 63, "column 'k', which is bigint"),
        (T.LongType(), Decimal("5.5"), "column 'k', which is bigint"),
        (T.FloatType(), Decimal("1e39"), "column 'k', which is float"),
        (T.DoubleType(), True, "column 'k', which is double"),
        (T.DecimalType(10, 2), "NaN", "column 'k', which is decimal"),
        (T.DecimalType(10, 2), Decimal("1.005"), "column 'k', which is decimal"),
        (T.BooleanType(), 1, "column 'k', which is boolean"),
        (T.BinaryType(), 1 << 40, "column 'k'"),
        (T.StringType(), 5, "column 'k', which is string"),
        (T.DateType(), "yesterday", "column 'k'"),
        (T.ArrayType(T.LongType()), [1], "column 'k', which is array"),
    ],
)
def test_a_key_that_is_no_value_of_its_column_is_refused(data_type, value, message):
    with pytest.raises(ValueError, match=message):
        values_of_json(value, T.StructField("k", data_type))


def test_filters_of_values_that_the_column_cannot_have_leave_everything_to_be_read():
    for data_type, value in ((T.ByteType(), 300), (T.BinaryType(), "text"), (T.FloatType(), 1e39)):
        assert candidates_of([EqualTo(("k",), value)], T.StructField("k", data_type)) is None


def test_a_key_of_a_char_column_is_found_with_and_without_blanks(spark, path):
    padded = T.StructType().add("c", T.StringType(), True, {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"})
    frame = spark.createDataFrame([("ab   ",), ("ab",), ("abcde",), (None,), ("x",)], padded)
    save(frame, path, key="c", num_partitions=64)
    for keys, text, count in (('["ab"]', "ab", 2), ('["ab     "]', "ab", 2), ('["abcde"]', "abcde", 1)):
        assert load(spark, path, keys=keys).where(F.rtrim("c") == text).count() == count


def test_options_prune_too(spark, path):
    frame = key_frame(spark)
    save(frame, path, key="t", num_partitions=64)
    found = load(spark, path, keys=json.dumps(["text 5", None]), task_size="1")
    assert found.rdd.getNumPartitions() <= 4
    assert rows(found.where("t = 'text 5' OR t IS NULL")) == rows(frame.where("t = 'text 5' OR t IS NULL"))
    halves = [load(spark, path, subpartitions=part) for part in ("0-31", "32-63")]
    assert rows(halves[0].union(halves[1])) == rows(frame)
    with pytest.raises(Exception, match="asks for 64; there are 64, from 0"):
        load(spark, path, subpartitions="64").count()
    with pytest.raises(Exception, match="is no value of column 't'"):
        load(spark, path, keys="[5]").count()


def test_spark_takes_an_optional_pushdown_for_none(spark, path):
    save(spark.range(100), path, key="id", num_partitions=16)
    manifest = PartitionDataSet(path).manifest()
    schema = T.StructType.fromJson(manifest.layout.schema)
    reader = OptionalPushdownReader(path, manifest, schema, ReadOptions(path))
    assert reader.pushFilters.__func__ is DataSourceReader.pushFilters
    filters = [EqualTo(("id",), 5)]
    assert reader.pushFilters(filters) is filters
    assert len(reader.chosen) == 1
    other = PushdownReader(path, manifest, schema, ReadOptions(path))
    other.pushFilters([In(("id",), (1, 2, 3)), IsNull(("x",))])
    assert 1 <= len(other.chosen) <= 3


def stored_file(number, sizes):
    name = f"part-0123456789abcdef-{number:05}-01234567"
    return DataFile(name, 0, 0, 0, tuple(map(bool, sizes)), tuple(sizes), (0,) * len(sizes), 4096)


def task_sizes(files, task_size=None):
    by_name = {each.name: each for each in files}
    return [
        sum(by_name[piece.name].sizes[index] for piece in each.pieces for index, *_ in piece.subpartitions)
        for each in slices_of(files, range(len(files[0].sizes)), task_size)
    ]


@given(st.data())
def test_each_piece_is_read_by_one_task(data):
    count = data.draw(st.integers(1, 20))
    sizes = st.lists(st.sampled_from([0, 1, 1000, 10**7, 10**8]), min_size=count, max_size=count)
    files = [stored_file(number, found) for number, found in enumerate(data.draw(st.lists(sizes, max_size=3)))]
    chosen = data.draw(st.sets(st.integers(0, count - 1)))
    slices = slices_of(files, sorted(chosen), data.draw(st.sampled_from([None, 1, 10**6, 10**8])))
    found = [(piece.name, index) for each in slices for piece in each.pieces for index, *_ in piece.subpartitions]
    assert sorted(found) == [(file.name, index) for file in files for index in sorted(chosen) if file.records[index]]
    assert all(each.pieces for each in slices)


def test_tasks_are_of_a_size_and_enough_for_the_cores():
    mib = 1 << 20
    files = [stored_file(number, [mib] * 64) for number in range(2)]
    assert task_sizes(files) == [16 * mib] * 8
    assert task_sizes(files[:1]) == [8 * mib] * 8
    assert task_sizes([stored_file(0, [mib // 4] * 64)]) == [8 * mib] * 2
    assert task_sizes(files, 64 * mib) == [64 * mib] * 2
    assert task_sizes(files, 1 << 30) == [128 * mib]
    assert task_sizes([stored_file(0, [100 * mib])] * 1 + [stored_file(1, [100 * mib])]) == [100 * mib] * 2


def test_nan_of_every_payload_is_found(spark, path):
    import pyarrow as pa

    payloads = [
        struct.unpack("<d", (bits | n).to_bytes(8, "little"))[0]
        for n in (0, 1, 77)
        for bits in (0x7FF8 << 48, 0xFFF8 << 48)
    ]

    def nans(batches):
        for _ in batches:
            yield pa.record_batch([pa.array(payloads, pa.float64())], ["d"])

    frame = spark.range(1, numPartitions=1).mapInArrow(nans, "d double")
    save(frame, path, key="d", num_partitions=64)
    found = load(spark, path, keys='["NaN"]')
    assert found.count() == len(payloads)


def test_every_flipped_byte_is_an_error_that_names_the_file(spark, path):
    from flinkbuf.errors import CorruptDataError
    from flinkbuf.partition_files.part_reader import Piece, read_pieces

    save(spark.range(5).selectExpr("id", "string(id) AS t").coalesce(1), path, key="id", num_partitions=2)
    data_set = PartitionDataSet(path)
    (file,) = data_set.manifest().files
    schema = arrow_schema_of(load(spark, path).schema)

    def read():
        return sum(
            batch.num_rows for batch in read_pieces(data_set.directory("data"), [Piece.of(file, [0, 1])], schema, 10)
        )

    assert read() == 5
    for suffix in (".shuffle.data", ".shuffle.index"):
        place = Path(data_set.base_path(file) + suffix)
        whole = place.read_bytes()
        end = len(whole) - (12 if suffix == ".shuffle.data" else 0)  # what tells of the end holds no row
        for offset in range(end):
            place.write_bytes(whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :])
            with pytest.raises(CorruptDataError, match=r"part-.*(byte \d+|manifest tells)"):
                read()
        for size in range(0, len(whole), 7):
            place.write_bytes(whole[:size])
            with pytest.raises(CorruptDataError, match="part-.*byte"):
                read()
        place.unlink()
        with pytest.raises(FileNotFoundError, match="is gone"):
            read()
        place.write_bytes(whole)
    assert read() == 5


def test_a_later_manifest_is_refused(spark, path):
    save(spark.range(1), path)
    manifest = Path(path, "_manifests", "1.json")
    later = manifest.read_text().replace(f'"format_version":{FORMAT_VERSION}', '"format_version":9')
    manifest.write_text(later)
    with pytest.raises(Exception, match="1.json: at format_version: 9 is not known"):
        load(spark, path)


def test_inspect_tells_of_what_spark_wrote(spark, path):
    save(all_types(spark), path, key="t", num_partitions=4, compression="lz4")
    found = describe(path, rows=1000)
    assert found["records"] == 100
    assert len(found["first_records"]) == 100
    assert {row["t"] for row in found["first_records"]} == {f"text {index}" for index in range(100)}


KILLED = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.log.level", "OFF").getOrCreate()
def slow(batches):
    import time
    for number, batch in enumerate(batches):
        yield batch
        if number == 100:  # more than the writer keeps in memory
            time.sleep(60)
frame = spark.range(4_000_000).mapInArrow(slow, "id bigint")
frame.write.format("flinkbuf").option("memory", "1").mode("overwrite").save(sys.argv[1])
"""


@pytest.mark.long
def test_a_program_killed_while_it_overwrites_changes_nothing(spark, path, tmp_path):
    import subprocess

    from flinkbuf.spark.java import use_java

    use_java()
    save(spark.range(10), path)
    before = sorted(os.listdir(os.path.join(path, "data")))
    program = subprocess.Popen([sys.executable, "-c", KILLED, path], start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while len(os.listdir(os.path.join(path, "data"))) == len(before) and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    assert len(os.listdir(os.path.join(path, "data"))) > len(before)
    assert load(spark, path).count() == 10
    save(spark.range(20), path, "overwrite", retention="0 s")
    assert load(spark, path).count() == 20
