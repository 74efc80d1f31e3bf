"""What does a Python function over each group of a DataFrame cost, beside Spark's own?

Rows (bigint, double) of a cached DataFrame by key in local[2], 2 partitions behind the shuffle. The function adds up a
column and gives one row. `frame_groups_1` has one row in each group, `frame_groups_100` a hundred, and the unit is
groups: rivals get fewer of them. `frame_groups_large` has ten groups, and the unit is rows. Rivals are Spark's
``applyInArrow`` with a function of a table and, since 4.1, of an iterator of batches; and ``applyInPandas``.
`frame_groups_sort` is what both ways to the task of a key cost until sorted rows have come to Python: Spark's own
shuffle, which `apply_in_arrow` takes, and `exchange`.
"""

import functools
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from local_spark import session
from measure import SMOKE, measure, scaled

import flinkbuf as fb

GROUP_COUNT = scaled(1_000_000)
GROUP_COUNT_OF_100 = scaled(50_000)
RIVAL_GROUP_COUNT = scaled(20_000)
ROW_COUNT = scaled(10_000_000)
SUMS = "key bigint, total double"


def sum_batches(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    total = 0.0
    for batch in batches:
        total += pc.sum(batch["value"]).as_py()
    yield pa.RecordBatch.from_arrays([pa.array([key[0].as_py()]), pa.array([total])], ["key", "total"])


def sum_table(key, table):
    return pa.table({"key": [key[0].as_py()], "total": [pc.sum(table["value"]).as_py()]})


def sum_frame(key, frame):
    import pandas as pd

    return pd.DataFrame({"key": [key[0]], "total": [frame["value"].sum()]})


def by_flinkbuf(rows):
    return fb.apply_in_arrow(rows, "key", sum_batches, SUMS)


def by_exchange(rows):
    return fb.exchange(rows, "key", num_partitions=2).sortWithinPartitions("key").mapInArrow(count_rows, SUMS)


def by_shuffle(rows):
    return rows.repartition(2, "key").sortWithinPartitions("key").mapInArrow(count_rows, SUMS)


def count_rows(batches):
    for batch in batches:
        yield pa.record_batch({"key": [batch.num_rows], "total": [pc.sum(batch["value"]).as_py()]})


def by_iterator(rows):
    return rows.groupBy("key").applyInArrow(sum_batches, SUMS)


def by_table(rows):
    return rows.groupBy("key").applyInArrow(sum_table, SUMS)


def by_pandas(rows):
    return rows.groupBy("key").applyInPandas(sum_frame, SUMS)


# Work, how many groups of how many rows, and what is counted.
CASES = {
    "frame_groups_1.flinkbuf": (by_flinkbuf, GROUP_COUNT, 1, "groups"),
    "frame_groups_1.apply_in_arrow_iterator": (by_iterator, RIVAL_GROUP_COUNT, 1, "groups"),
    "frame_groups_1.apply_in_arrow": (by_table, RIVAL_GROUP_COUNT, 1, "groups"),
    "frame_groups_1.apply_in_pandas": (by_pandas, RIVAL_GROUP_COUNT, 1, "groups"),
    "frame_groups_100.flinkbuf": (by_flinkbuf, GROUP_COUNT_OF_100, 100, "groups"),
    "frame_groups_100.apply_in_arrow_iterator": (by_iterator, RIVAL_GROUP_COUNT, 100, "groups"),
    "frame_groups_100.apply_in_arrow": (by_table, RIVAL_GROUP_COUNT, 100, "groups"),
    "frame_groups_100.apply_in_pandas": (by_pandas, RIVAL_GROUP_COUNT, 100, "groups"),
    "frame_groups_large.flinkbuf": (by_flinkbuf, 10, ROW_COUNT // 10, "rows"),
    "frame_groups_large.apply_in_arrow_iterator": (by_iterator, 10, ROW_COUNT // 10, "rows"),
    "frame_groups_large.apply_in_arrow": (by_table, 10, ROW_COUNT // 10, "rows"),
    "frame_groups_large.apply_in_pandas": (by_pandas, 10, ROW_COUNT // 10, "rows"),
    "frame_groups_sort.flinkbuf_exchange": (by_exchange, 10, ROW_COUNT // 10, "rows"),
    "frame_groups_sort.repartition": (by_shuffle, 10, ROW_COUNT // 10, "rows"),
}


@functools.lru_cache(1)
def rows_of(group_count, group_size):
    """Make the rows in the JVM, in 2 partitions, and keep them there."""
    session().catalog.clearCache()
    session().conf.set("spark.sql.shuffle.partitions", "2")
    count = group_count * group_size
    rows = session().range(0, count, 1, 2).selectExpr(f"id * 7919 % {group_count} AS key", "id / 4D AS value").cache()
    assert rows.count() == count
    return rows


def measure_case(name, benchmark=None):
    work, group_count, group_size, unit = CASES[name]
    if name.endswith("iterator") and "Iterator" not in str(session().range(1).groupBy("id").applyInArrow.__doc__ or ""):
        return
    rows = rows_of(group_count, group_size)
    count = group_count * group_size
    wanted = count * (count - 1) / 8

    def run():
        found = work(rows).agg({"total": "sum"}).first()[0]
        assert found == pytest.approx(wanted, rel=1e-9), f"{name} came to {found}, not {wanted}"

    measure(name, run, group_count if unit == "groups" else count, unit, benchmark=benchmark, repeats=1 if SMOKE else 3)


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure_case(name, benchmark)


if __name__ == "__main__":
    for each in CASES:
        measure_case(each)
    session().stop()
