"""Keys of columns have the slots of their first sight, whatever their types, nulls and slices."""

import datetime
import math
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.columns.key_slots import KeySlots

NANS = [struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8000000000001, 0xFFF8000000000000)]
DATES = st.dates(datetime.date(1960, 1, 1), datetime.date(2100, 1, 1))
KEYS = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-3, 3),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-3, 3),
    pa.int64(): st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), 2**32]),
    pa.uint8(): st.integers(250, 255),
    pa.uint16(): st.integers(0, 5),
    pa.uint32(): st.integers(2**32 - 3, 2**32 - 1),
    pa.uint64(): st.integers(2**64 - 3, 2**64 - 1),
    pa.float32(): st.sampled_from([0.0, -0.0, 1.5, math.inf, -math.inf, math.nan]),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, math.inf, *NANS, math.nan]),
    pa.string(): st.text("aé\0", max_size=4),
    pa.large_string(): st.sampled_from(["", "a", "a" * 100, "a" * 99 + "b"]),
    pa.binary(): st.binary(max_size=2),
    pa.large_binary(): st.binary(max_size=2),
    pa.binary(3): st.sampled_from([b"abc", b"abd", b"\0\0\0"]),
    pa.date32(): DATES,
    pa.date64(): DATES,
    pa.time32("ms"): st.sampled_from([datetime.time(1), datetime.time(2)]),
    pa.time64("us"): st.times(),
    pa.timestamp("ns", "UTC"): st.sampled_from([datetime.datetime(2020, 1, day) for day in (1, 2, 3)]),
    pa.duration("s"): st.sampled_from([datetime.timedelta(days) for days in (1, -2)]),
    pa.decimal128(38, 2): st.sampled_from([Decimal("1.00"), Decimal("-1.00"), Decimal(10**35)]),
    pa.decimal256(60, 2): st.sampled_from([Decimal("1.00"), Decimal("-1.00")]),
}


def as_key(value):
    """What is equal where keys are."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return value


def rows_of(batch):
    return list(zip(*(map(as_key, column.to_pylist()) for column in batch.columns), strict=True))


def check_batches(batches):
    """Compare with a dict, which gives numbers in the order of first sight, too."""
    keys, expected = KeySlots(batches[0].schema), {}
    for batch in batches:
        before = len(expected)
        numbers = [expected.setdefault(row, len(expected)) for row in rows_of(batch)]
        slots, new_rows = keys.find_or_add(batch)
        assert slots.dtype == np.uint32 and slots.tolist() == numbers
        assert new_rows.dtype == np.int64 and len(keys) == len(expected)
        assert rows_of(batch.take(pa.array(new_rows))) == list(expected)[before:]


def sliced(data, batch):
    """Some batches that are parts of one, as they lie in it."""
    cuts = sorted(data.draw(st.lists(st.integers(0, batch.num_rows), max_size=4)))
    return [batch.slice(start, end - start) for start, end in zip([0, *cuts], [*cuts, batch.num_rows], strict=True)]


@pytest.mark.parametrize("kind", KEYS, ids=str)
@settings(max_examples=30)
@given(st.data())
def test_one_column_of_any_type(kind, data):
    values = data.draw(st.lists(st.none() | KEYS[kind], max_size=30))
    check_batches(sliced(data, pa.record_batch({"key": pa.array(values, kind)})))


@settings(max_examples=150)
@given(st.data())
def test_several_columns(data):
    kinds = data.draw(st.lists(st.sampled_from(list(KEYS)), min_size=2, max_size=4))
    count = data.draw(st.integers(0, 25))
    columns = [
        pa.array(data.draw(st.lists(st.none() | KEYS[kind], min_size=count, max_size=count)), kind) for kind in kinds
    ]
    check_batches(sliced(data, pa.record_batch(columns, [f"c{i}" for i in range(len(kinds))])))


@pytest.mark.parametrize("step", [1, 2**20, 2**32, 2**44, 2**53 + 2**21, -(2**57)])
def test_numbers_at_any_distance_are_found_again_while_the_table_grows(step):
    numbers = np.arange(200_000, dtype=np.int64) * np.int64(step)
    keys = KeySlots(pa.schema([("key", pa.int64())]))
    expected = {number: slot for slot, number in enumerate(dict.fromkeys(numbers.tolist()))}
    for start in range(0, len(numbers), 7_000):
        part = numbers[max(0, start - 3_000) : start + 7_000]
        slots, _ = keys.find_or_add(pa.record_batch({"key": part}))
        assert slots.tolist() == [expected[number] for number in part.tolist()]
    assert len(keys) == len(expected)


@pytest.mark.parametrize("count", [600, 641, 1024, 1198, 1280, 2047, 2560, 5000, 5120])
def test_a_small_table_takes_any_number_of_new_keys_at_once(count):
    """An index has room for 5/8 of its entries: 640, 1,280 and so on."""
    numbers = np.arange(count + 4_000)
    keys = KeySlots(pa.schema([("key", pa.int64())]))
    for part in (numbers[:count], numbers[count:], numbers):
        slots, _ = keys.find_or_add(pa.record_batch({"key": part}))
        assert (slots == part).all()


def test_texts_that_differ_in_one_place_are_told_apart():
    words = [
        ("x" * at + letter + "x" * (size - at - 1)) for size in range(1, 60) for at in range(size) for letter in "yz"
    ]
    check_batches([pa.record_batch({"key": words}), pa.record_batch({"key": words[::-1]})])


def test_a_million_keys():
    numbers = np.random.default_rng(1).permutation(1_000_000).astype(np.int64)
    for column in (pa.array(numbers), pa.array(numbers).cast(pa.string())):
        batch = pa.record_batch({"key": column})
        keys = KeySlots(batch.schema)
        for start in range(0, len(numbers), 8192):
            keys.find_or_add(batch.slice(start, 8192))
        slots, new_rows = keys.find_or_add(batch)
        assert len(new_rows) == 0 and (slots == np.arange(len(numbers))).all()


def test_one_row_a_batch():
    values = [3, None, 3, 4, None, 5]
    check_batches([pa.record_batch({"key": pa.array([value], pa.int16())}) for value in values])


def test_a_struct_array_is_a_batch():
    column = pa.array([1, 2, 1, 3], pa.int64())
    keys = KeySlots(pa.schema([("key", pa.int64())]))
    slots, new_rows = keys.find_or_add(pa.StructArray.from_arrays([column], ["key"]).slice(1))
    assert slots.tolist() == [0, 1, 2] and new_rows.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="rows that are null"):
        keys.find_or_add(pa.StructArray.from_arrays([column], ["key"], mask=pa.array([True, False, False, False])))


def test_clear_forgets_the_keys_and_gives_the_memory_back():
    keys = KeySlots(pa.schema([("key", pa.int64())]))
    keys.find_or_add(pa.record_batch({"key": np.arange(5000)}))
    assert len(keys) == 5000 and keys.nbytes >= 5000 * 16
    keys.clear()
    assert len(keys) == 0 and keys.nbytes == 0
    slots, new_rows = keys.find_or_add(pa.record_batch({"key": [4711, 4711]}))
    assert slots.tolist() == [0, 0] and new_rows.tolist() == [0]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.list_(pa.int8()), "list"),
        (pa.struct([("a", pa.int8())]), "struct"),
        (pa.string_view(), "string_view"),
        (pa.dictionary(pa.int8(), pa.string()), "dictionary"),
        (pa.null(), "null"),
        (pa.float16(), "halffloat"),
    ],
)
def test_a_column_that_is_no_key_is_refused_by_name(kind, name):
    with pytest.raises(TypeError, match=f"column 'b': .*{name}.*cast"):
        KeySlots(pa.schema([("a", pa.int8()), ("b", kind)]))


def test_other_columns_than_declared_are_refused():
    keys = KeySlots(pa.schema([("a", pa.int64())]))
    for batch in (pa.record_batch({"a": ["x"]}), pa.record_batch({"a": [1], "b": [2]})):
        with pytest.raises(TypeError, match="declared are a int64"):
            keys.find_or_add(batch)
    with pytest.raises(TypeError, match="one column or more"):
        KeySlots(pa.schema([]))
