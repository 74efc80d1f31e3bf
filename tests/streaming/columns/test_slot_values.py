"""Values by slot are what was put last, whatever their type; cleared and moved slots have none of another."""

import datetime
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf.streaming.columns.slot_values import slot_values

TYPES = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.sampled_from([0, 2**64 - 1]),
    pa.float16(): st.sampled_from([np.float16(1.5), np.float16(-0.0)]),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, math.inf, math.nan]),
    pa.decimal128(38, 2): st.sampled_from([Decimal("1.00"), Decimal(-(10**35))]),
    pa.decimal256(60, 0): st.sampled_from([Decimal(10**59), Decimal(-1)]),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(datetime.UTC)),
    pa.date32(): st.dates(),
    pa.duration("s"): st.sampled_from([datetime.timedelta(days) for days in (1, -2)]),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.string(): st.text("aé\0", max_size=4),
    pa.large_binary(): st.binary(max_size=4),
    pa.list_(pa.int8()): st.lists(st.none() | st.integers(0, 9), max_size=3),
    pa.struct([("a", pa.int8()), ("b", pa.string())]): st.fixed_dictionaries(
        {"a": st.none() | st.integers(0, 9), "b": st.none() | st.text("xy", max_size=2)}
    ),
    pa.map_(pa.string(), pa.int8()): st.dictionaries(st.sampled_from("ab"), st.integers(0, 3)).map(
        lambda each: list(each.items())
    ),
    pa.null(): st.none(),
}
SLOTS = 9


def steps_of(values):
    puts = st.lists(st.tuples(st.integers(0, SLOTS - 1), st.none() | values), max_size=8)
    slots = st.lists(st.integers(0, SLOTS - 1), max_size=4)
    return st.lists(st.tuples(st.just("put"), puts) | st.tuples(st.sampled_from(["clear", "keep", "take"]), slots))


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=25, deadline=None)
@given(data=st.data(), offset=st.integers(0, 3))
def test_values_are_what_was_put_last(type_, data, offset):
    store, model = slot_values(type_), [None] * SLOTS
    store.reserve(SLOTS)
    for what, given_ in data.draw(steps_of(TYPES[type_])):
        if what == "put":
            values = [value for _, value in given_]
            column = pa.array([None] * offset + values, type_).slice(offset)
            store.put(np.array([slot for slot, _ in given_], np.uint32), column)
            for slot, value in zip([slot for slot, _ in given_], column.to_pylist(), strict=True):
                model[slot] = value
        elif what == "clear":
            store.clear(np.array(given_, np.int64))
            for slot in given_:
                model[slot] = None
        elif what == "keep":
            slots = sorted(set(given_))
            store.keep(np.array(slots, np.int64))
            store.reserve(SLOTS)
            model = [model[slot] for slot in slots] + [None] * (SLOTS - len(slots))
        else:
            taken = store.take(np.array(given_, np.uint32))
            taken.validate(full=True)
            assert repr(taken.to_pylist()) == repr([model[slot] for slot in given_])
        whole = store.take(np.arange(SLOTS))
        assert whole.type == type_
        assert repr(whole.to_pylist()) == repr(model)


def test_texts_that_are_put_again_and_again_keep_no_memory():
    store = slot_values(pa.string())
    store.reserve(10)
    for number in range(500):
        store.put(np.arange(10), pa.array([f"{number:1000}"] * 10))
        assert store._rows.nbytes < 40_000
    assert store.take(np.array([3])).to_pylist() == [f"{499:1000}"]


def test_what_is_put_is_a_copy():
    """A function may use its arrays again."""
    numbers = np.arange(4)
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), pa.array(numbers))
    stores = slot_values(pa.int64()), slot_values(lists.type)
    for store, column in zip(stores, (pa.array(numbers), lists), strict=True):
        store.reserve(4)
        store.put(np.arange(len(column)), column)
    numbers[:] = 9
    assert [store.take(np.arange(2)).to_pylist() for store in stores] == [[0, 1], [[0, 1], [2, 3]]]


@pytest.mark.parametrize(
    "type_",
    [
        pa.dictionary(pa.int8(), pa.string()),
        pa.string_view(),
        pa.list_(pa.binary_view()),
        pa.struct([("a", pa.dictionary(pa.int8(), pa.string()))]),
        pa.map_(pa.string(), pa.string_view()),
        pa.run_end_encoded(pa.int32(), pa.int8()),
        pa.uuid(),
    ],
    ids=str,
)
def test_what_is_encoded_is_refused(type_):
    with pytest.raises(TypeError, match="are not kept in a state: declare the plain type"):
        slot_values(type_)
