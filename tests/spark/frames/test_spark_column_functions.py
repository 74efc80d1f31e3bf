"""`to_flink` and `from_flink`: Flink's bytes in columns of a DataFrame, in batches, streams and Spark Connect."""

import datetime
import decimal
from pathlib import Path

import pytest
from support.programs.connect_client import found_by_client

import flinkbuf as fb

pytest.importorskip("pyspark.sql").functions
from pyspark.sql import functions as F  # noqa: E402  # there is no Spark without it
from pyspark.sql import types as S  # noqa: E402

pytestmark = pytest.mark.spark

KIND = "name string, n bigint"
FORMATS = pytest.mark.parametrize("make", [fb.as_type, fb.types.row_data_type])


@pytest.fixture(scope="module")
def named(spark):
    return spark.createDataFrame([("JFK", 7), (None, None), ("é", -1)], KIND).coalesce(1)


@FORMATS
def test_a_struct_becomes_the_bytes_of_serialize_and_comes_back(named, make):
    kind = make(KIND)
    written = named.select("name", fb.to_flink(F.struct("name", "n"), kind).alias("value"))
    assert written.schema["value"].dataType == S.BinaryType()
    assert [bytes(row.value) for row in written.collect()] == [
        kind.serialize(row) for row in [("JFK", 7), (None, None), ("é", -1)]
    ]
    read = written.select(fb.from_flink("value", kind).alias("row"))
    assert read.schema.simpleString() == "struct<row:struct<name:string,n:bigint>>"
    assert [tuple(row.row) for row in read.collect()] == [("JFK", 7), (None, None), ("é", -1)]


@FORMATS
def test_null_stays_null(named, make):
    struct = F.when(F.col("n") > 0, F.struct("name", "n"))
    written = named.select(fb.to_flink(struct, make(KIND)).alias("value"))
    assert [row.value is None for row in written.collect()] == [False, True, True]
    read = written.select(fb.from_flink(F.col("value"), make(KIND)).alias("row"))
    assert [row.row and tuple(row.row) for row in read.collect()] == [("JFK", 7), None, None]


def test_a_type_without_fields_is_a_column_of_its_values(named):
    written = named.select(fb.to_flink("n", "bigint").alias("value"))
    assert [row.value and bytes(row.value) for row in written.collect()] == [
        b"\0\0\0\0\0\0\0\7",
        None,
        b"\xff" * 8,
    ]
    read = written.select(fb.from_flink("value", fb.Types.LONG()).alias("n"))
    assert (read.schema.simpleString(), [row.n for row in read.collect()]) == ("struct<n:bigint>", [7, None, -1])


EVERYTHING = S.StructType(
    [
        S.StructField("flag", S.BooleanType()),
        S.StructField("byte", S.ByteType()),
        S.StructField("small", S.ShortType(), False),
        S.StructField("whole", S.IntegerType()),
        S.StructField("single", S.FloatType()),
        S.StructField("double", S.DoubleType()),
        S.StructField("text", S.StringType()),
        S.StructField("bytes", S.BinaryType()),
        S.StructField("price", S.DecimalType(20, 3)),
        S.StructField("day", S.DateType()),
        S.StructField("at", S.TimestampType()),
        S.StructField("local", S.TimestampNTZType()),
        S.StructField("list", S.ArrayType(S.IntegerType(), False), False),
        S.StructField("map", S.MapType(S.StringType(), S.ArrayType(S.DoubleType()))),
        S.StructField("row", S.StructType([S.StructField("x", S.LongType()), S.StructField("y", S.TimestampType())])),
        S.StructField("nothing", S.NullType()),
    ]
)
AT = datetime.datetime(2024, 3, 31, 1, 59, 59, 123456)
FULL = (True, -1, 2, 3, 0.5, float("-inf"), "naïve", b"\0\1", decimal.Decimal("12345678901234567.125"))
FULL += (AT.date(), AT, AT, [1, 2], {"a": [1.0, None], "": None}, (5, AT), None)
EMPTY = (None, None, 2, *(9 * [None]), [], None, None, None)


@pytest.mark.parametrize(
    "make", [lambda schema: schema, fb.as_type, fb.types.row_data_type], ids=["schema", "row", "data"]
)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_all_types_of_spark_come_back(spark, make, zone):
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = spark.createDataFrame([FULL, EMPTY], EVERYTHING).coalesce(1)
        kind = make(rows.schema)
        result = rows.schema if make is fb.as_type else kind
        written = rows.select(F.struct("*").alias("row"), fb.to_flink(F.struct(*rows.columns), kind).alias("value"))
        read = written.select("row", fb.from_flink("value", result).alias("again"))
        if make is not fb.types.row_data_type:
            assert read.schema["again"].dataType == rows.schema
        found = read.collect()
        assert [row.again for row in found] == [row.row for row in found]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_ddl_keeps_the_digits_of_decimals_and_times_of_day_are_times(spark):
    kind = "price decimal(10, 2), at timestamp"
    rows = spark.sql("select 1.50BD as price, timestamp'2024-01-01' as at")
    read = rows.select(fb.from_flink(fb.to_flink(F.struct("price", "at"), kind), kind).alias("row"))
    assert read.schema["row"].dataType.simpleString() == "struct<price:decimal(10,2),at:timestamp>"
    assert read.first().row.price == decimal.Decimal("1.50")
    times = fb.from_flink("value", fb.types.row_data_type("t time"))
    if not hasattr(S, "TimeType"):
        pytest.skip("this PySpark has no times of day")
    values = spark.createDataFrame(
        [(fb.types.row_data_type("t time").serialize((datetime.time(1, 2, 3),)),)], "value binary"
    )
    assert values.select(times.alias("row")).schema["row"].dataType["t"].dataType == S.TimeType()
    assert values.select(times.alias("row")).first().row.t == datetime.time(1, 2, 3)


def test_bytes_that_are_not_right_fail_the_query_or_are_null(spark):
    good = fb.as_type(KIND).serialize(("JFK", 7))
    values = spark.createDataFrame([(good,), (good[:4],), (None,), (good + b"\0",)], "value binary").coalesce(1)
    with pytest.raises(Exception, match="CorruptDataError: row 1, byte 2, column 'name': the bytes end inside"):
        values.select(fb.from_flink("value", KIND)).collect()
    lenient = values.select(fb.from_flink("value", KIND, mode="permissive").alias("row"))
    assert [row.row and tuple(row.row) for row in lenient.collect()] == [("JFK", 7), None, None, None]
    with pytest.raises(ValueError, match="mode is one of FAILFAST, PERMISSIVE, got 'DROPMALFORMED'"):
        fb.from_flink("value", KIND, mode="DROPMALFORMED")


def test_a_struct_of_other_fields_fails_the_query(named):
    with pytest.raises(Exception, match="TypeError: column 'm' is not declared; declared are name, n"):
        named.select(fb.to_flink(F.struct("name", F.col("n").alias("m")), KIND)).collect()


def test_a_type_that_spark_has_not_is_refused_at_once():
    with pytest.raises(TypeError, match="has no column of Arrow"):
        fb.from_flink("value", fb.Types.SET(fb.Types.LONG()))


def test_large_types_and_small_batches(spark, named):
    settings = {
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "2",
    }
    for name, setting in settings.items():
        spark.conf.set(name, setting)
    try:
        read = named.select(fb.from_flink(fb.to_flink(F.struct("name", "n"), KIND), KIND).alias("row"))
        assert [tuple(row.row) for row in read.collect()] == [("JFK", 7), (None, None), ("é", -1)]
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_the_functions_of_arrays_serve_in_map_in_arrow_and_in_udfs(named):
    import pandas as pd
    import pyarrow as pa

    kind = fb.as_type(KIND)

    def write(batches):
        for batch in batches:
            yield pa.record_batch({"value": fb.serialize_batch(batch, kind)})

    def read(batches):
        for batch in batches:
            yield fb.deserialize_batch(batch["value"], kind)

    written = named.mapInArrow(write, "value binary")
    assert written.mapInArrow(read, KIND).collect() == named.collect()

    @F.pandas_udf("binary")
    def by_pandas(rows: pd.DataFrame) -> pd.Series:
        return fb.serialize_batch(rows, kind).to_pandas()

    @F.arrow_udf("name string, n bigint")
    def by_arrow(values: pa.Array) -> pa.Array:
        return fb.deserialize_array(values, kind)

    found = named.select(by_arrow(by_pandas(F.struct("name", "n"))).alias("row"))
    assert [row.row for row in found.collect()] == named.collect()


def test_a_stream_of_values(spark, tmp_path):
    kind = fb.types.row_data_type("word string, length int")
    words = tmp_path / "words"
    words.mkdir()
    (words / "a.txt").write_text("one\ntwo\nthree\n")
    lines = spark.readStream.text(str(words))
    values = lines.select(
        fb.to_flink(F.struct(F.col("value").alias("word"), F.length("value").alias("length")), kind).alias("value")
    )
    rows = values.select(fb.from_flink("value", kind).alias("row")).select("row.*")
    query = rows.writeStream.format("memory").queryName("found").option("checkpointLocation", str(tmp_path / "state"))
    query.trigger(availableNow=True).start().awaitTermination(120)
    found = spark.table("found").collect()
    assert sorted(map(tuple, found)) == [("one", 3), ("three", 5), ("two", 3)]


def test_a_spark_without_arrow_udfs_is_told(monkeypatch):
    monkeypatch.delattr(F, "arrow_udf")
    with pytest.raises(ImportError, match="to_flink needs the Arrow UDFs of PySpark 4.1.*mapInArrow"):
        fb.to_flink("n", "bigint")


CONNECT_PROGRAM = """
kind = fb.types.row_data_type("name string, n bigint")
rows = spark.range(100).selectExpr("concat('name ', id) AS name", "nullif(id, 5) AS n")
written = rows.select(fb.to_flink(F.struct("name", "n"), kind).alias("value"))
read = written.select(fb.from_flink("value", kind).alias("row")).select("row.*")
found["same"] = sorted(read.collect(), key=str) == sorted(rows.collect(), key=str)
found["bytes"] = sorted(bytes(row.value).hex() for row in written.collect())[0]
try:
    spark.createDataFrame([(b"no row",)], "value binary").select(fb.from_flink("value", kind)).collect()
except Exception as error:
    found["error"] = str(error)
"""


@pytest.mark.long
def test_a_client_of_spark_connect():
    found = found_by_client(CONNECT_PROGRAM, Path(__file__).parent)
    assert found["same"]
    kind = fb.types.row_data_type("name string, n bigint")
    assert found["bytes"] == min(kind.serialize((f"name {i}", i if i != 5 else None)).hex() for i in range(100))
    assert "CorruptDataError: row 0, byte 0, the batch" in found["error"]
