"""Streaming queries that write into data sets and follow them: each row once, whatever is done again."""

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark
pytest.importorskip("pyspark.sql.datasource", reason="PySpark 4 has data sources in Python")
pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2 has streams of them that can be limited")

from pyspark.sql import functions as F  # noqa: E402

from flinkbuf.partition_files.compaction import compact  # noqa: E402
from flinkbuf.partition_files.data_set import PartitionDataSet  # noqa: E402


@pytest.fixture
def place(tmp_path):
    return lambda name: str(tmp_path / name)


def append(frame, path, **options):
    frame.write.format("flinkbuf").options(key="id", num_partitions=4, **options).mode("append").save(path)


def rows(spark, path):
    return sorted(row.id for row in spark.read.format("flinkbuf").load(path).collect())


def follow(spark, source, **options):
    return spark.readStream.format("flinkbuf").options(**options).load(source)


def run(stream, target, checkpoint, mode="append"):
    """Run a query until it has read what is there; returns the rows of each of its batches."""
    writer = stream.writeStream.format("flinkbuf").options(key="id", num_partitions=4, checkpointLocation=checkpoint)
    query = writer.outputMode(mode).trigger(availableNow=True).start(target)
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def forget_the_last_commit(checkpoint):
    """What is left when a driver dies between the commit here and the note of it in Spark's commit log."""
    log = Path(checkpoint, "commits")
    last = max((each for each in log.iterdir() if each.name.isdecimal()), key=lambda each: int(each.name))
    last.unlink()
    log.joinpath(f".{last.name}.crc").unlink(missing_ok=True)


def test_each_row_once_over_restarts_and_repeated_batches(spark, place):
    source, target, checkpoint = place("source"), place("target"), place("checkpoint")
    append(spark.range(100), source)
    assert run(follow(spark, source, max_rows_per_trigger=40), target, checkpoint) == [40, 40, 20]
    assert rows(spark, target) == list(range(100))

    append(spark.range(100, 130), source)
    append(spark.range(1000, 1010), target)  # somebody else writes as well
    for path in (source, target):
        assert len(compact(PartitionDataSet(path)).files) == 1
    forget_the_last_commit(checkpoint)
    assert run(follow(spark, source), target, checkpoint) == [20, 30]
    assert rows(spark, target) == [*range(130), *range(1000, 1010)]
    assert os.listdir(PartitionDataSet(target).directory("_jobs")) == []

    spark.range(5).write.format("flinkbuf").options(num_partitions=4).mode("overwrite").save(source)
    with pytest.raises(Exception, match=r"was overwritten behind what this query has read.*another checkpointLocation"):
        run(follow(spark, source), target, checkpoint)


@pytest.mark.long
def test_batches_written_in_foreach_batch_and_whole_results(spark, place):
    source, target, checkpoint = place("source"), place("target"), place("checkpoint")
    append(spark.range(10), source)

    def write(frame, batch):
        for _ in range(2):
            append(frame, target, writer="mine", batch=batch)

    query = follow(spark, source).writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()
    assert rows(spark, target) == list(range(10))
    with pytest.raises(Exception, match="the options writer and batch go together"):
        append(spark.range(1), target, writer="mine")

    counts = place("counts")
    counted = follow(spark, source).groupBy(F.expr("id % 2 AS id")).count()
    for expected in (10, 15):
        run(counted, counts, place("counting"), "complete")
        found = spark.read.format("flinkbuf").load(counts)
        assert found.selectExpr("sum(count)", "count(*)").first() == (expected, 2)
        append(spark.range(10, 15), source)
    assert run(follow(spark, source, starting="latest"), place("other"), place("from the end")) == []
    assert run(follow(spark, source), place("other"), place("anew")) == [20]
    with pytest.raises(Exception, match="if_exists cannot be 'error'"):
        stream = (
            follow(spark, source)
            .writeStream.format("flinkbuf")
            .options(if_exists="error", checkpointLocation=place("c"))
        )
        stream.trigger(availableNow=True).start(target).awaitTermination()
