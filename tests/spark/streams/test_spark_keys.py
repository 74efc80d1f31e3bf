"""Rows by key, and columns as Python values, without Spark's session."""

import copy
import datetime
import decimal
import pickle

import pytest

pytest.importorskip("pyspark.sql").functions

import pyarrow as pa  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from pyspark.errors import PySparkRuntimeError, PySparkValueError  # noqa: E402
from pyspark.sql import Row  # noqa: E402
from pyspark.sql.types import StructType  # noqa: E402

from flinkbuf.spark.streams import keys as module  # noqa: E402
from flinkbuf.spark.streams.keys import key_columns, python_values  # noqa: E402

UTC = datetime.timezone.utc
SCHEMA = StructType().add("key", "string").add("n", "long").add("count", "long")
ARROW = pa.schema({"key": pa.string(), "n": pa.int64(), "count": pa.int64()})
COLUMNS = [
    pa.array([1, None, -(1 << 63)], pa.int64()),
    pa.array([1, 2], pa.int8()),
    pa.array([], pa.int32()),
    pa.array([0.5, None, float("inf")], pa.float32()),
    pa.array([True, None, False]),
    pa.array(["a", None, "\0é"]),
    pa.array(["a", None], pa.large_string()),
    pa.array([b"\0", None, b""]),
    pa.array([datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)]),
    pa.array(
        [datetime.datetime(1, 1, 1), None, datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)], pa.timestamp("us")
    ),
    pa.array([datetime.datetime(2024, 2, 29, 1, 2, 3, 4, UTC), None], pa.timestamp("us", "UTC")),
    pa.array([datetime.datetime(2024, 2, 29, 1, 2, 3, 4, UTC), None], pa.timestamp("us", "Europe/Berlin")),
    pa.array([decimal.Decimal("1.50"), None], pa.decimal128(9, 2)),
    pa.array([[1, None], None], pa.list_(pa.int64())),
    pa.array([{"a": 1}, None], pa.struct({"a": pa.int64()})),
]


@pytest.mark.parametrize("column", COLUMNS, ids=[str(column.type) for column in COLUMNS])
def test_values_of_a_column_are_those_of_arrow(column):
    for each in (column, column.slice(1), pa.chunked_array([column, column.slice(1)]), column.slice(0, 0)):
        values = python_values(each)
        assert repr(values) == repr(each.to_pylist())
        assert [type(value) for value in values] == [type(value) for value in each.to_pylist()]


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_a_time_that_python_does_not_have_is_an_error(kind):
    storage = pa.int32() if kind == pa.date32() else pa.int64()
    with pytest.raises((ValueError, OverflowError)):
        python_values(pa.array([0, 4_000_000 if kind == pa.date32() else 1 << 62], storage).cast(kind))


def batches_of(rows, size):
    table = pa.Table.from_pylist([{"key": key, "n": n, "count": n} for n, key in enumerate(rows)], schema=ARROW)
    return pa.Table.from_batches(table.to_batches(max_chunksize=size), ARROW)


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["a", "b", None, "c"]), max_size=30), st.integers(1, 9), st.integers(1, 7), st.data())
def test_each_key_has_its_rows_in_their_order(keys, size, at_once, data):
    before, module._MADE_AT_ONCE = module._MADE_AT_ONCE, at_once
    try:
        found = []
        for key, identity, rows in key_columns(SCHEMA, ["key"], ARROW, "it").groups(batches_of(keys, size)):
            assert key == identity
            left = data.draw(st.booleans())  # whoever does not read all rows changes nothing for the next key
            found.append((key[0], next(rows).n if left else [row["n"] for row in rows], left))
    finally:
        module._MADE_AT_ONCE = before
    expected = [(key, [n for n, other in enumerate(keys) if other == key]) for key in dict.fromkeys(keys)]
    assert [(key, ns) for key, ns, _ in found] == [
        (key, ns[0] if left else ns) for (key, ns), (_, _, left) in zip(expected, found, strict=True)
    ]


def test_equal_keys_with_other_bytes_are_one_key():
    schema, arrow = StructType().add("d", "double").add("n", "long"), pa.schema({"d": pa.float64(), "n": pa.int64()})
    nan = float("nan")
    table = pa.table({"d": [0.0, nan, -0.0, None, -nan], "n": [0, 1, 2, 3, 4]}, arrow)
    found = [
        (repr(key), [row.n for row in rows]) for key, _, rows in key_columns(schema, ["d"], arrow, "it").groups(table)
    ]
    assert found == [("(0.0,)", [0, 2]), ("(nan,)", [1, 4]), ("(None,)", [3])]


def test_a_row_is_one_of_spark():
    ((_, _, rows),) = key_columns(SCHEMA, ["key"], ARROW, "it").groups(batches_of(["a"], 1))
    (row,) = rows
    of_spark = Row("key", "n", "count")("a", 0, 0)
    assert isinstance(row, Row) and row == of_spark and repr(row) == repr(of_spark) and hash(row) == hash(of_spark)
    assert row.key == row["key"] == row[0] == "a" and row[1:] == (0, 0) and row["count"] == 0
    assert row.count(0) == of_spark.count(0) == 2  # a method of tuple goes before a field, as in Spark
    assert row.asDict() == of_spark.asDict() and "n" in row and "x" not in row
    assert list(row.__fields__) == list(of_spark.__fields__)
    for copied in (copy.copy(row), copy.deepcopy(row), pickle.loads(pickle.dumps(row))):
        assert copied == row and copied.n == 0
    with pytest.raises(AttributeError):
        row.missing
    with pytest.raises(PySparkValueError):
        row["missing"]
    with pytest.raises(PySparkRuntimeError):
        row.n = 1
