"""What does a column of Flink's bytes cost: made and read in one thread, and in Spark beside `to_avro` and a plain UDF?

Rows (string, bigint) as the values of a binary column and back. In one thread `serialize_batch` and `deserialize_batch`
take batches of 10,000 rows, as Spark gives them, beside a loop over `serialize` and `deserialize`. In Spark, local[2],
all rows of a cached DataFrame go through `to_flink` and `from_flink`, beside `to_avro` and `from_avro`, which stay in
the JVM, and a `udf` that calls `serialize` or `deserialize` of each row. The rivals of Avro need its jar, which PySpark
does not bring: FLINKBUF_AVRO_JAR says where it is, once
``mvn dependency:get -Dartifact=org.apache.spark:spark-avro_2.13:4.2.0`` has brought it.
"""

import functools
import sys

import pytest
from local_spark import AVRO_JAR, session
from measure import SMOKE, measure, scaled

import flinkbuf as fb

pytest.importorskip("pyarrow")
import pyarrow as pa

STEP = 10_000  # rows of a batch; spark.sql.execution.arrow.maxRecordsPerBatch
ROW_COUNT = scaled(1_000_000)
LOOP_COUNT = scaled(100_000)
SPARK_COUNT = scaled(4_000_000)
UDF_COUNT = scaled(400_000)
DDL = "name string, n bigint"
ROW = fb.as_type(DDL)
ROW_DATA = fb.types.row_data_type(DDL)
AVRO = (
    '{"type": "record", "name": "row", "fields": [{"name": "name", "type": ["string", "null"]}, '
    '{"name": "n", "type": ["long", "null"]}]}'
)


# ------------------------------------------------------------------------------------------------------- in one thread


@functools.cache
def batches(count=ROW_COUNT):
    table = pa.table({"name": [f"{i % 1000:012d}" for i in range(count)], "n": range(count)})
    return table.to_batches(STEP)


@functools.cache
def values(kind):
    return [fb.serialize_batch(batch, kind) for batch in batches()]


@functools.cache
def records():
    return [(f"{i % 1000:012d}", i) for i in range(LOOP_COUNT)]


@functools.cache
def encoded():
    return [ROW.serialize(record) for record in records()]


def write(kind):
    for batch in batches():
        fb.serialize_batch(batch, kind)


def read(kind):
    for array in values(kind):
        fb.deserialize_batch(array, kind)


CASES = {
    "bytes_write.flinkbuf_serialize_batch": (lambda: write(ROW), ROW_COUNT),
    "bytes_write.flinkbuf_serialize_batch_row_data": (lambda: write(ROW_DATA), ROW_COUNT),
    "bytes_write.serialize_each": (lambda: [ROW.serialize(record) for record in records()], LOOP_COUNT),
    "bytes_read.flinkbuf_deserialize_batch": (lambda: read(ROW), ROW_COUNT),
    "bytes_read.flinkbuf_deserialize_batch_row_data": (lambda: read(ROW_DATA), ROW_COUNT),
    "bytes_read.deserialize_each": (lambda: [ROW.deserialize(data) for data in encoded()], LOOP_COUNT),
}


# ------------------------------------------------------------------------------------------------------------ in Spark


def by_udf(function, result):
    from pyspark.sql import functions as F

    return F.udf(function, result)


def to_bytes(way):
    """The column of bytes."""
    from pyspark.sql import functions as F

    row = F.struct("name", "n")
    if way == "spark_to_avro":
        from pyspark.sql.avro.functions import to_avro

        return to_avro(row, AVRO)
    if way == "pickling_udf":
        return by_udf(lambda row: ROW.serialize(row), "binary")(row)
    return fb.to_flink(row, ROW_DATA if way.endswith("row_data") else ROW)


def from_bytes(way):
    """The column of rows."""
    if way == "spark_to_avro":
        from pyspark.sql.avro.functions import from_avro

        return from_avro("value", AVRO)
    if way == "pickling_udf":
        return by_udf(lambda data: tuple(ROW.deserialize(data)), DDL)("value")
    return fb.from_flink("value", ROW_DATA if way.endswith("row_data") else ROW)


@functools.cache
def frame(count):
    """The rows, in Spark's memory."""
    rows = session().range(0, count, 1, 2).selectExpr("format_string('%012d', id % 1000) AS name", "id AS n").cache()
    assert rows.count() == count
    return rows


@functools.cache
def frame_of_bytes(way, count):
    found = frame(count).select(to_bytes("flinkbuf_to_flink" if way == "pickling_udf" else way).alias("value")).cache()
    assert found.count() == count
    return found


def write_in_spark(way, count):
    return frame(count).select(to_bytes(way).alias("value")).selectExpr("sum(length(value))").first()[0]


def read_in_spark(way, count):
    rows = frame_of_bytes(way, count).select(from_bytes(way).alias("row"))
    assert rows.selectExpr("sum(row.n + length(row.name))").first()[0] == count * (count - 1) // 2 + 12 * count


WAYS = {"flinkbuf_to_flink": SPARK_COUNT, "flinkbuf_to_flink_row_data": SPARK_COUNT, "pickling_udf": UDF_COUNT}
if AVRO_JAR:
    WAYS["spark_to_avro"] = SPARK_COUNT
SPARK_CASES = {
    f"{work}.{way}": (functools.partial(function, way, count), count)
    for work, function in (("spark_bytes_write", write_in_spark), ("spark_bytes_read", read_in_spark))
    for way, count in WAYS.items()
}


def measure_case(name, benchmark=None):
    if name in CASES:
        return measure(name, *CASES[name], "records", benchmark=benchmark)
    return measure(name, *SPARK_CASES[name], "records", benchmark=benchmark, repeats=1 if SMOKE else 3)


@pytest.mark.parametrize("name", [*CASES, *SPARK_CASES])
def test_case(benchmark, name):
    measure_case(name, benchmark)


if __name__ == "__main__":
    for name in [*CASES, *SPARK_CASES]:
        if all(word in name for word in sys.argv[1:]):
            measure_case(name)
