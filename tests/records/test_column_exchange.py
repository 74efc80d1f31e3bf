"""Rows of batches go where records with the same key go, in their order, each once."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.records.arrow_batches import record_type
from flinkbuf.records.column_batch import ColumnBatch, PageReader
from flinkbuf.records.column_exchange import ColumnKeyPartitioner, RowKeys, pages_for, parts_by_number
from flinkbuf.records.partitioner import by_key

ROWS = st.lists(st.tuples(st.integers(-5, 5), st.text("ab", max_size=2), st.floats(0, 3)), min_size=1, max_size=30)


def batch_of(rows):
    a, b, c = zip(*rows, strict=True)
    return pa.record_batch({"a": pa.array(a, pa.int64()), "b": list(b), "c": list(c)})


@given(ROWS, st.sampled_from([("a",), ("b",), ("b", "a"), ("c", "b", "a")]), st.integers(2, 7))
def test_a_row_goes_where_its_record_goes(rows, names, channel_count):
    batch = batch_of(rows)
    type_ = record_type(batch.schema)
    key = names[0] if len(names) == 1 else names
    selector = by_key(key, max_parallelism=32).selector(type_, channel_count)
    wanted = selector.channels_of([type_.deserialize(type_.serialize(row)) for row in rows]).tolist()
    assert RowKeys(names, 32, channel_count).of(batch).tolist() == wanted
    groups = RowKeys(names, 32).of(batch)
    assert [group * channel_count // 32 for group in groups.tolist()] == wanted


@given(ROWS, st.integers(1, 5))
def test_each_row_is_in_one_page_and_rows_of_a_key_in_their_order(rows, channel_count):
    batch = batch_of(rows).append_column("number", pa.array(range(len(rows))))
    element = ColumnBatch(batch, np.arange(len(rows)) * 10)
    pages = list(pages_for(ColumnKeyPartitioner(("a",), 128), channel_count)(element))
    found = {}
    for channel, page in pages:
        part = PageReader().read(page)
        assert (part.timestamps == part.batch["number"].to_numpy() * 10).all()
        assert part.batch["number"].to_pylist() == sorted(part.batch["number"].to_pylist())
        found.update(dict.fromkeys(part.batch["number"].to_pylist(), channel))
    channels = RowKeys(("a",), 128, channel_count).of(batch).tolist()
    assert found == dict(enumerate(channels))
    assert len(pages) == len(set(channels))


def test_batches_that_are_not_split_are_one_page():
    element = ColumnBatch(pa.record_batch({"a": [1, 2]}))
    ((channel, page),) = pages_for("rebalance", 3)(element)
    assert channel is None and PageReader().read(page).batch == element.batch


@pytest.mark.parametrize("channel_count", [None, 1, 3])
def test_what_is_no_key_is_said(channel_count):
    """By one subtask as by several: else a job fails at its first checkpoint, or its first rescale."""
    keys = RowKeys(("a",), 128, channel_count)
    with pytest.raises(KeyError, match="no column 'a', which is of the key; there are b, c"):
        keys.of(pa.record_batch({"b": [1], "c": [2]}))
    with pytest.raises(ValueError, match="column 'a': a key that is null"):
        keys.of(pa.record_batch({"a": pa.array([1, None])}))
    with pytest.raises(ValueError, match="cannot be a key: .* key by a field"):
        keys.of(pa.record_batch({"a": [b"x"]}))


def test_a_key_of_several_columns_may_have_nulls_and_dictionaries():
    batch = pa.record_batch({"a": pa.array(["x", None, "x"]).dictionary_encode(), "b": pa.array([1, None, 1])})
    first, second, third = RowKeys(("a", "b"), 128).of(batch).tolist()
    assert first == third != second


@given(st.lists(st.integers(0, 4)), st.sampled_from([5, 1 << 17]))
def test_numbers_are_told_apart(numbers, count):
    element = ColumnBatch(pa.record_batch({"place": pa.array(range(len(numbers)), pa.int64())}))
    parts = parts_by_number(element, np.array(numbers, np.uint32), count)
    found = [(number, part.batch["place"].to_pylist()) for number, part in parts]
    assert found == [(each, [i for i, n in enumerate(numbers) if n == each]) for each in sorted(set(numbers))]
