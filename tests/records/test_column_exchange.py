"""Rows of batches go where records with the same key go, in their order, each once."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf._core.sort.row_order import RowOrder
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


@pytest.mark.parametrize("channel_count", [None, 1, 3])
def test_a_key_of_another_type_than_before_is_refused(channel_count):
    keys, batch = RowKeys(("a", "b"), 128, channel_count), pa.record_batch({"a": [-1], "b": pa.array([1], pa.int64())})
    expected = keys.of(batch).tolist()
    keys.of(pa.record_batch({"a": [-1], "b": pa.nulls(1)}))  # of whatever type, it goes to the same place
    assert keys.of(batch).tolist() == expected
    with pytest.raises(TypeError, match="column 'a' was int64 before and is int32 now, and it is of the key: .* cast"):
        keys.of(pa.record_batch({"a": pa.array([-1], pa.int32()), "b": [1]}))
    keys.of(pa.record_batch({"a": [-1], "b": pa.nulls(1)}))
    with pytest.raises(TypeError, match="column 'b' was int64 before and is int32 now"):
        keys.of(pa.record_batch({"a": [-1], "b": pa.array([1], pa.int32())}))


def test_a_key_of_several_columns_may_have_nulls_and_dictionaries():
    batch = pa.record_batch({"a": pa.array(["x", None, "x"]).dictionary_encode(), "b": pa.array([1, None, 1])})
    first, second, third = RowKeys(("a", "b"), 128).of(batch).tolist()
    assert first == third != second


TYPES = [
    *(
        pa.int8(),
        pa.uint16(),
        pa.float32(),
        pa.int64(),
        pa.bool_(),
        pa.string(),
        pa.date32(),
        pa.timestamp("us", "UTC"),
    ),
    *(pa.decimal128(30, 2), pa.decimal256(60, 1), pa.binary(3), pa.list_(pa.int32()), pa.null()),
    pa.dictionary(pa.int8(), pa.string()),
]


def column_of(type_, count, has_nulls):
    """Values that tell their rows apart, as far as the type can."""
    text = pa.array([str(number % 100) for number in range(count)])
    if pa.types.is_fixed_size_binary(type_):
        made = pa.array([b"%03d" % number for number in range(count)], type_)
    elif pa.types.is_list(type_):
        made = pa.array([[number] * (number % 3) for number in range(count)], type_)
    elif pa.types.is_null(type_):
        return pa.nulls(count)
    elif pa.types.is_dictionary(type_):
        made = text.dictionary_encode().cast(type_)
    elif pa.types.is_boolean(type_):
        made = pa.array([number % 2 == 1 for number in range(count)])
    else:
        whole = text.cast(pa.int64() if pa.types.is_timestamp(type_) else pa.int32())
        made = text if type_ == pa.string() else whole.cast(type_)
    return pc.if_else(pa.array([number % 3 == 0 for number in range(count)]), None, made) if has_nulls else made


@given(st.lists(st.integers(0, 4), min_size=1), st.integers(0, 3), st.booleans(), st.booleans())
def test_columns_of_all_types_are_split_with_their_timestamps(numbers, start, has_nulls, has_times):
    count = start + len(numbers)
    columns = [column_of(type_, count, has_nulls) for type_ in TYPES]
    batch = pa.record_batch(columns, [f"c{place}" for place in range(len(TYPES))]).slice(start)
    times = np.arange(2 * len(numbers))[::2] if has_times else None
    for number, part in parts_by_number(ColumnBatch(batch, times), np.array(numbers, np.uint32), 5):
        rows = [row for row, each in enumerate(numbers) if each == number]
        assert part.batch.equals(batch.take(rows)) and part.batch.schema == batch.schema
        part.batch.validate(full=True)
        assert (part.timestamps is not None) is has_times
        assert not has_times or part.timestamps.tolist() == [2 * row for row in rows]


def test_memory_that_begins_anywhere_is_read():
    """Pages of others, and memory that a program mapped, need not begin where a number would."""
    values = pa.py_buffer(b"x" + np.arange(4).tobytes()).slice(1)
    column = pa.Array.from_buffers(pa.int64(), 4, [None, values])
    parts = parts_by_number(ColumnBatch(pa.record_batch({"a": column})), np.array([1, 0, 1, 0], np.uint32), 2)
    assert [(number, part.batch["a"].to_pylist()) for number, part in parts] == [(0, [1, 3]), (1, [0, 2])]


def test_an_order_is_of_numbers_that_there_are_and_of_bytes_that_there_are():
    numbers = np.array([2, 0, 2], np.uint32)
    with pytest.raises(IndexError, match="row 0 has the number 2, and there are 2"):
        RowOrder(numbers, 2)
    with pytest.raises(ValueError, match="3 rows with -1 numbers"):
        RowOrder(numbers, -1)
    order = RowOrder(numbers, 3)
    assert (len(order), order.starts.tolist(), order.rows().tolist()) == (3, [0, 1, 1, 3], [1, 0, 2])
    given, room = np.arange(4), np.empty(3, np.int64)
    for values, to, width, offset in (
        (given, room, 8, 2),
        (given, room, 8, -1),
        (given, room, 0, 0),
        (given, room[:2], 8, 0),
        (given[:2], room, 8, 0),
    ):
        with pytest.raises(ValueError, match="3 values of . bytes"):
            order.move(values, to, width, offset)
    with pytest.raises(BufferError, match="not writable"):
        order.move(given, bytes(24), 8)


@given(st.lists(st.integers(0, 4)), st.sampled_from([5, 1 << 17]))
def test_numbers_are_told_apart(numbers, count):
    element = ColumnBatch(pa.record_batch({"place": pa.array(range(len(numbers)), pa.int64())}))
    parts = parts_by_number(element, np.array(numbers, np.uint32), count)
    found = [(number, part.batch["place"].to_pylist()) for number, part in parts]
    assert found == [(each, [i for i, n in enumerate(numbers) if n == each]) for each in sorted(set(numbers))]
