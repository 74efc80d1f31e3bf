"""Subpartitions of keys are those in which a writer with `by_key` puts rows of these keys."""

import datetime
import decimal
import math

import pytest

import flinkbuf as fb
from flinkbuf.partition_files.pruning import key_combinations, null_subpartition, subpartitions_of_keys
from flinkbuf.types.types import Types

KEYS = [
    (Types.BOOLEAN(), True),
    (Types.BYTE(), -7),
    (Types.SHORT(), 300),
    (Types.INT(), -1),
    (Types.LONG(), 2**40),
    (Types.FLOAT(), 1.5),
    (Types.DOUBLE(), -2.25),
    (Types.STRING(), "N14228"),
    (Types.STRING(), "żółw"),
    (Types.BIG_DEC(), decimal.Decimal("1.50")),
    (Types.LOCAL_DATE(), datetime.date(2013, 1, 1)),
    (Types.LOCAL_DATE_TIME(), datetime.datetime(2013, 1, 1, 5, 15, 0, 7)),
    (Types.TIMESTAMP_LTZ(), datetime.datetime(1969, 1, 1, 5, 15, 0, 7, tzinfo=datetime.timezone.utc)),
]


def written_to(record_type, record, key, count):
    partitioner = fb.by_key(key, max_parallelism=1024)
    return {channel for channel, _ in fb.write_buffers([record], record_type, count, partitioner)}


@pytest.mark.parametrize(("key_type", "value"), KEYS, ids=str)
@pytest.mark.parametrize("count", [1, 7, 600])
def test_a_key_is_looked_for_where_it_was_written(key_type, value, count):
    record_type = Types.ROW_NAMED(["x", "k"], [Types.INT(), key_type])
    found = subpartitions_of_keys([(value,)], [key_type], count, 1024)
    assert found == written_to(record_type, (1, value), "k", count)


@pytest.mark.parametrize("values", [("EWR", 7), (None, 7), ("EWR", None), (None, None)])
def test_a_key_of_two_columns_may_have_nulls(values):
    record_type = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.LONG()])
    found = subpartitions_of_keys([values], [Types.STRING(), Types.LONG()], 600, 1024)
    assert found == written_to(record_type, values, ("a", "b"), 600)


def test_values_that_are_equal_to_spark_are_looked_for_at_each_place():
    record_type = Types.ROW_NAMED(["k"], [Types.DOUBLE()])
    for value in (0.0, -0.0):
        found = subpartitions_of_keys([(value,)], [Types.DOUBLE()], 600, 1024)
        assert found == written_to(record_type, (0.0,), "k", 600) | written_to(record_type, (-0.0,), "k", 600)
    nan = subpartitions_of_keys([(math.nan,)], [Types.DOUBLE()], 600, 1024)
    assert nan >= written_to(record_type, (-math.nan,), "k", 600) | written_to(record_type, (math.nan,), "k", 600)


def test_null_is_one_place_of_its_own():
    assert subpartitions_of_keys([(None,)], [Types.STRING()], 64, 128) == {null_subpartition(64, 128)}
    assert subpartitions_of_keys([], [Types.STRING()], 64, 128) == frozenset()


def test_too_many_combinations_are_none():
    assert key_combinations([range(100), range(100)]) is not None
    assert key_combinations([range(101), range(100)]) is None
    assert key_combinations([[], range(5)]) == []


def test_a_value_of_another_type_is_refused():
    with pytest.raises((TypeError, ValueError)):
        subpartitions_of_keys([("x",)], [Types.LONG()], 4, 128)
