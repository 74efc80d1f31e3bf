"""Rows for exchanges by turns come in an order that is the same again, where Spark does not see to it itself."""

import pytest
from pyspark.sql import functions as F

import flinkbuf as fb
from flinkbuf.spark.exchange.frame_order import in_certain_order

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def rows(spark):
    return spark.range(0, 200, 1, 2).selectExpr("id", "map(id, concat('n', id)) AS by_id", "id % 3 = 0 AS third")


def plan_of(frame):
    return frame._jdf.queryExecution().toString()


def test_rows_that_come_straight_from_their_source_are_not_sorted(spark, rows):
    read = spark.createDataFrame([(1, "a"), (2, "b")], "id long, name string")
    listed = spark.createDataFrame(spark.sparkContext.parallelize([(1, "a")]), "id long, name string")
    for frame in (rows, rows.filter("third").union(rows), read, listed):
        assert in_certain_order(frame, False) is frame


def test_rows_from_a_shuffle_are_sorted(spark, rows):
    shuffled = spark.createDataFrame(spark.sparkContext.parallelize([(1, 2)]).partitionBy(1), "id long, n long")
    for frame in (rows.repartition(2, "id"), rows.groupBy("id").count(), rows.orderBy("id").limit(9), shuffled):
        sorted_rows = in_certain_order(frame, False)
        assert "Sort [xxhash64(" in plan_of(sorted_rows)
        assert sorted(row.id for row in sorted_rows.collect()) == sorted(row.id for row in frame.collect())


@pytest.mark.parametrize("partitioner", ["rebalance", "shuffle"])
def test_rows_are_sent_the_same_way_whatever_order_they_come_in(rows, monkeypatch, partitioner):
    monkeypatch.setattr("os.urandom", bytes)  # the same exchange again, as far as its seed goes

    def parts_of(order):
        shuffled = rows.repartition(1).sortWithinPartitions(order)
        moved = fb.exchange(shuffled, partitioner=partitioner, num_partitions=3)
        return {row.id: row.part for row in moved.select("id", F.spark_partition_id().alias("part")).collect()}

    found = parts_of(F.col("id"))
    assert set(found.values()) == {0, 1, 2}
    assert parts_of(F.col("id").desc()) == found


def test_a_client_sorts_always(rows):
    assert "Sort [xxhash64(" in plan_of(in_certain_order(rows, True))


def test_the_switch_of_spark_turns_it_off(spark, rows):
    name = "spark.sql.execution.sortBeforeRepartition"
    shuffled = rows.repartition(2, "id")
    assert "Sort [xxhash64(" in plan_of(fb.exchange(shuffled, num_partitions=3))
    spark.conf.set(name, "false")
    try:
        assert "Sort [xxhash64(" not in plan_of(fb.exchange(shuffled, num_partitions=3))
    finally:
        spark.conf.unset(name)
