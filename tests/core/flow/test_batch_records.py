"""Records to columns and back, without an operator around it."""

import sys

import pyarrow as pa
import pytest

from flinkbuf._core.columns.arrow_column import batches_of
from flinkbuf._core.flow.batch_records import BatchToRecords, RecordsToBatch
from flinkbuf.records.arrow_batches import MAX_BYTES, batch_builder
from flinkbuf.types.types import as_type


def gathering(ddl, max_rows=100, max_bytes=MAX_BYTES):
    codec = as_type(ddl).codec
    return RecordsToBatch(codec, batch_builder(codec, ddl, max_rows, max_bytes))


def test_records_become_columns_and_columns_records():
    gathered = gathering("id bigint, name string")
    assert [gathered.add_record((number, f"n{number}")) for number in range(3)] == [False] * 3
    batch = gathered.finish()
    assert batch.to_pydict() == {"id": [0, 1, 2], "name": ["n0", "n1", "n2"]}
    records = BatchToRecords(as_type("id bigint, name string").codec, batches_of(batch))
    assert list(records) == [(0, "n0"), (1, "n1"), (2, "n2")]


def test_add_says_when_the_batch_is_full_and_the_next_one_begins_empty():
    gathered = gathering("id bigint", max_rows=2)
    assert not gathered.add_record((1,))
    assert gathered.add_record((2,))
    assert gathered.count == 2
    assert gathered.finish().to_pydict() == {"id": [1, 2]}
    assert gathered.count == 0
    assert gathered.finish() is None


def test_a_record_that_is_refused_leaves_those_before_it():
    gathered = gathering("id bigint")
    gathered.add_record((1,))
    with pytest.raises(TypeError):
        gathered.add_record(("two",))
    gathered.add_record((3,))
    assert gathered.finish().to_pydict() == {"id": [1, 3]}


def test_a_value_that_the_column_cannot_hold_leaves_those_before_it():
    codec = as_type(pa.schema({"at": pa.timestamp("ns")})).codec
    gathered = RecordsToBatch(codec, batch_builder(codec, pa.schema({"at": pa.timestamp("ns")}), 100, MAX_BYTES))
    import datetime

    now = datetime.datetime(2024, 5, 1)
    gathered.add_record((now,))
    gathered.add_record((datetime.datetime(9999, 1, 1),))
    with pytest.raises(ValueError, match=r"column 'at'.*9999"):
        gathered.finish()
    assert gathered.count == 1
    assert gathered.finish().to_pydict() == {"at": [now]}


@pytest.mark.parametrize("size", [1, 1 << 17, 1 << 18, 1 << 19])
def test_records_of_any_size_pass_both_ways(size):
    gathered = gathering("text string", max_bytes=1 << 30)
    texts = [str(number) * size for number in range(7)]
    for text in texts:
        gathered.add_record((text,))
    batch = gathered.finish()
    assert batch.column(0).to_pylist() == texts
    assert [record.text for record in BatchToRecords(as_type("text string").codec, batches_of(batch))] == texts


def test_several_batches_of_different_schemas_are_read_one_after_the_other():
    batches = [
        pa.record_batch({"n": pa.array([1, 2], pa.int32())}),
        pa.record_batch({"n": pa.array([], pa.int64())}),
        pa.record_batch({"n": pa.array([3], pa.int64())}),
    ]
    records = BatchToRecords(as_type("n bigint").codec, (each for batch in batches for each in batches_of(batch)))
    assert list(records) == [(1,), (2,), (3,)]
    with pytest.raises(StopIteration):
        next(records)


def test_a_batch_that_does_not_fit_raises_when_it_is_its_turn():
    batches = [pa.record_batch({"n": [1]}), pa.record_batch({"m": [2]})]
    records = BatchToRecords(as_type("n bigint").codec, (each for batch in batches for each in batches_of(batch)))
    assert next(records) == (1,)
    with pytest.raises(TypeError, match="'m' is not declared"):
        next(records)


def test_values_are_counted_right():
    text = "".join(["some ", "text"])
    gathered = gathering("text string")
    before = sys.getrefcount(text)
    gathered.add_record((text,))
    assert sys.getrefcount(text) == before
    first, second = BatchToRecords(as_type("text string").codec, batches_of(pa.record_batch({"text": ["a b", "c d"]})))
    assert sys.getrefcount(first) == 2
    assert sys.getrefcount(second) == 2
