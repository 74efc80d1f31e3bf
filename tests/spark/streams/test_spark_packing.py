"""Rows put together by key group, without Spark's session."""

import pytest

pytest.importorskip("pyspark.sql").functions

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
from pyspark.sql import Row  # noqa: E402
from pyspark.sql.types import StructType  # noqa: E402

from flinkbuf.spark.exchange.frame_schema import crossing_schema  # noqa: E402
from flinkbuf.spark.streams import packing as module  # noqa: E402
from flinkbuf.spark.streams.packing import Pack, RowsOut, group_numbers, read_batches  # noqa: E402


@pytest.mark.parametrize("count", [1, 2, 3, 7, 200, 1031])
def test_each_partition_of_spark_has_one_group(count):
    numbers = group_numbers(count)
    assert len(set(numbers.tolist())) == count and 0 in numbers
    assert (module._hash_of_spark(numbers).astype(np.int64) % count).tolist() == list(range(count))


def test_ints_have_the_hash_that_spark_gives_them():
    of_spark = {0: 933211791, 1: -559580957, 42: 29417773, -1: -1604776387}
    assert dict(zip(of_spark, module._hash_of_spark(np.array(list(of_spark))).tolist(), strict=True)) == of_spark


def packed(count, hashes, reaches_all, monkeypatch, most_rows=1 << 17):
    monkeypatch.setattr(module, "_MOST_ROWS", most_rows)
    batch = pa.record_batch({"hash": pa.array(hashes, pa.int64()), "n": pa.array(range(len(hashes)), pa.int64())})
    batches = [batch.slice(begin, 3) for begin in range(0, len(hashes), 3)]
    rows = [row for out in Pack(count, reaches_all)(iter(batches)) for row in out.to_pylist()]
    assert all(("time" in row) == reaches_all for row in rows)
    return [(row["key_group"], row["rows"]) for row in rows]


@pytest.mark.parametrize("most_rows", [1, 5, 100])
@pytest.mark.parametrize("reaches_all", [False, True])
@pytest.mark.parametrize("hashes", [[], [7], [-(1 << 63), (1 << 63) - 1, -1, 0, 5, 5, 5, -3, 12, 5, -1]])
def test_each_row_is_in_its_group_once_and_in_order(hashes, reaches_all, most_rows, monkeypatch):
    count, numbers = 5, group_numbers(5).tolist()
    expected = {number: [] for number in numbers}
    for n, value in enumerate(hashes):
        expected[numbers[value % count]].append(n)
    found, reached = {number: [] for number in numbers}, set()
    for number, rows in packed(count, hashes, reaches_all, monkeypatch, most_rows):
        reached.add(number)
        assert rows is None or len(read_batches(rows)) == 1
        for batch in read_batches(rows) if rows is not None else ():
            assert batch.schema.names == ["n"]
            found[number] += batch.column(0).to_pylist()
    assert found == expected
    assert reached == (set(numbers) if reaches_all else {0} | {number for number in numbers if expected[number]})


def rows_out(*rows):
    out = RowsOut(StructType().add("a", "long").add("b", "string"), pa.schema({"a": pa.int64(), "b": pa.string()}))
    out.add(iter(rows), "handleInputRows")
    return [row for data in out.take() for batch in read_batches(data) for row in batch.to_pylist()]


def test_rows_that_are_given_have_their_fields_by_name():
    named = Row("a", "b")
    expected = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert rows_out(Row(a=1, b="x"), Row(a=2, b=None)) == expected
    assert rows_out(named(1, "x"), named(2, None)) == expected
    assert rows_out(Row(a=1, b="x"), named(2, None)) == expected
    assert rows_out(Row(b="x", a=1), Row(a=2, b=None)) == expected


def test_what_is_no_row_is_refused():
    with pytest.raises(TypeError, match=r"a processor must give rows, such as Row\(a=…\), got \(1, 'x'\)"):
        rows_out(Row(a=1, b="x"), (1, "x"))


FLAT = StructType().add("a", "long", False)
NESTED = StructType().add("a", "long", False).add("s", StructType().add("b", "long", False))


@pytest.mark.parametrize(
    ("schema", "row", "told"),
    [
        (FLAT, Row(a=None), "column 'a'"),
        (NESTED, Row(a=None, s=None), "column 'a'"),
        (NESTED, Row(s={"b": 1}), "column 'a'"),
        (NESTED, Row(a=1, s={"b": None}), r"field 's\.b'"),
        (NESTED, Row(a=1, s={"c": 1}), r"field 's\.b'"),
    ],
)
def test_a_null_where_none_may_be_is_refused(schema, row, told):
    out = RowsOut(schema, crossing_schema(schema))
    good = Row(a=1) if schema is FLAT else Row(a=1, s=None)
    out.add(iter([good]), "handleInputRows")
    assert len(list(out.take())) == 1
    out.add(iter([good, row]), "handleInputRows")
    with pytest.raises(ValueError, match=f"the processor gave a null in {told}, which is declared NOT NULL"):
        list(out.take())
