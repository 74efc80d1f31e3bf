"""State whose values expire, one stamp for each value, element or entry."""

from itertools import pairwise

import pytest
from support.models.frozen_tables import contents_of

from flinkbuf._core.state.key_context import KeyContext
from flinkbuf._core.state.ttl_state import (
    TimeToLive,
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlReducingState,
    TtlValueState,
    sweeper,
)
from flinkbuf.testing import ManualClock


class Total:
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return f"={accumulator}"

    def merge(self, one, other):
        return one + other


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def keys():
    context = KeyContext()
    context.set_key("a")
    return context


def test_a_value_lives_to_the_last_millisecond(clock, keys):
    state = TtlValueState("s", keys, TimeToLive(clock, 10))
    state.update("x")
    clock.advance_to(9)
    assert state.value() == "x"
    clock.advance_to(10)
    assert state.value() is None
    assert state.tokens() == []


def test_an_accumulator_that_a_merge_does_not_return_is_an_error(clock, keys):
    class Unmerged(Total):
        def merge(self, one, other):
            """Its author forgot to return it."""

    state = TtlAggregatingState("s", keys, TimeToLive(clock, 10), Unmerged())
    for namespace in (1, 2, 3):
        state.set_namespace(namespace)
        state.add(namespace)
    with pytest.raises(TypeError, match=r"Unmerged.merge\(\) must return .* returned None"):
        state.merge_namespaces(1, [2, 3])


@pytest.mark.parametrize("is_read_an_update", [False, True])
def test_a_write_makes_young_and_a_read_only_if_told(clock, keys, is_read_an_update):
    state = TtlValueState("s", keys, TimeToLive(clock, 10, is_read_an_update=is_read_an_update))
    state.update(1)
    clock.advance_to(5)
    state.update(2)
    clock.advance_to(14)
    assert state.value() == 2
    clock.advance_to(20)
    assert state.value() == (2 if is_read_an_update else None)


def test_what_has_expired_may_be_returned_once(clock, keys):
    state = TtlValueState("s", keys, TimeToLive(clock, 10, returns_expired=True))
    state.update(1)
    clock.advance_to(50)
    assert (state.value(), state.value()) == (1, None)


def test_the_end_of_time_is_no_overflow(clock, keys):
    state = TtlValueState("s", keys, TimeToLive(clock, 2**63 - 1))
    clock.advance_to(1000)
    state.update(1)
    clock.advance_to(2**62)
    assert state.value() == 1


def test_elements_of_a_list_expire_one_by_one(clock, keys):
    state = TtlListState("s", keys, TimeToLive(clock, 10))
    state.add(1)
    clock.advance_to(5)
    state.add_all([2, 3])
    clock.advance_to(10)
    assert state.get() == list(state) == [2, 3]
    clock.advance_to(15)
    assert state.get() == [] and state.tokens() == []
    state.update([4])
    state.update([])
    assert state.get() == []


def test_a_map_may_be_read_while_it_is_iterated_though_entries_expire(clock, keys):
    state = TtlMapState("s", keys, TimeToLive(clock, 10))
    state.put_all({"x": 1, "y": 2, "z": 3})
    found = []
    for key in state:
        found.append((key, state.get(key)))
        clock.advance_to(clock.now_ms() + 6)
    assert found == [("x", 1), ("y", 2), ("z", None)]


def test_entries_of_a_map_expire_one_by_one(clock, keys):
    state = TtlMapState("s", keys, TimeToLive(clock, 10, is_read_an_update=True))
    state.put_all({"x": 1, "y": 2})
    clock.advance_to(5)
    assert state.get("x") == 1
    clock.advance_to(10)
    assert list(state.items()) == [("x", 1)] and "y" not in state and not state.is_empty()
    clock.advance_to(20)
    assert list(state) == list(state.values()) == [] and state.is_empty() and state.tokens() == []


def test_asking_whether_a_map_is_empty_makes_no_entry_young_again(clock, keys):
    state = TtlMapState("s", keys, TimeToLive(clock, 10, is_read_an_update=True))
    state.put("x", 1)
    clock.advance_to(5)
    assert not state.is_empty()
    clock.advance_to(10)
    assert state.is_empty() and state.tokens() == []


def test_expired_entries_may_be_seen_until_they_are_cleaned_up(clock, keys):
    life = TimeToLive(clock, 10, returns_expired=True)
    entries, elements = TtlMapState("m", keys, life), TtlListState("l", keys, life)
    entries.put("x", 1)
    elements.add(1)
    clock.advance_to(30)
    assert list(entries.items()) == [("x", 1)] and elements.get() == [1]
    assert list(entries.items()) == [] and elements.get() == []


def test_a_map_with_expiry_loses_entries_through_its_iterator(clock, keys):
    state = TtlMapState("s", keys, TimeToLive(clock, 10))
    state.put_all({number: number for number in range(4)})
    entries = state.keys()
    for key in entries:
        if key % 2:
            entries.remove()
    assert list(state.keys()) == [0, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda k, t: TtlReducingState("s", k, t, lambda one, other: one + other),
        lambda k, t: TtlAggregatingState("s", k, t, Total()),
    ],
)
def test_an_expired_reduction_begins_anew(clock, keys, make):
    state = make(keys, TimeToLive(clock, 10))
    for _ in range(2):
        state.add(1)
        state.add(2)
        clock.advance_to(clock.now_ms() + 9)
        assert state.get() in (3, "=3")
        clock.advance_to(clock.now_ms() + 1)
    assert state.get() is None


@pytest.mark.parametrize(
    "make",
    [
        lambda k, t: TtlReducingState("s", k, t, lambda one, other: one + other),
        lambda k, t: TtlAggregatingState("s", k, t, Total()),
        lambda k, t: TtlListState("s", k, t),
    ],
)
def test_windows_that_are_merged_leave_what_has_expired(clock, keys, make):
    state = make(keys, TimeToLive(clock, 10))
    for namespace in (1, 2, 3):
        state.set_namespace(namespace)
        clock.advance_to(5 * namespace)
        state.add(namespace)
    state.merge_namespaces(2, [1, 3])
    assert state.get() in (5, "=5", [2, 3])


@pytest.mark.parametrize("with_every_record", [False, True])
def test_a_few_entries_are_cleaned_up_with_each_access_or_record(clock, keys, with_every_record):
    life = TimeToLive(clock, 10, cleanup_size=3, cleans_with_every_record=with_every_record)
    state = TtlValueState("s", keys, life)
    for number in range(9):
        keys.set_key(number)
        state.update(number)
    clock.advance_to(10)
    keys.set_key("other")
    if with_every_record:
        keys.listen(sweeper(state, life))
    counts = [9]
    for _ in range(6):
        keys.set_key("other") if with_every_record else state.value()
        counts.append(len(state.tokens()))
    assert counts[-1] == 0
    assert all(0 <= one - other <= 3 for one, other in pairwise(counts))


def test_cleaning_up_reaches_all_windows_and_parts_of_values(clock, keys):
    life = TimeToLive(clock, 10, cleanup_size=100)
    state = TtlListState("s", keys, life)
    for namespace in (1, 2):
        state.set_namespace(namespace)
        state.add("old")
    clock.advance_to(5)
    state.add("young")
    clock.advance_to(10)
    state.set_namespace(3)
    state.get()
    frozen = state.freeze()
    assert contents_of(frozen) == {None: {}, 2: {"a": [("young", 5)]}}


def test_nothing_is_cleaned_up_under_a_snapshot(clock, keys):
    state = TtlValueState("s", keys, TimeToLive(clock, 10, cleanup_size=100))
    state.update(1)
    frozen = state.freeze()
    clock.advance_to(20)
    assert state.value() is None
    assert contents_of(frozen) == {None: {"a": (1, 0)}}
    frozen.release()
    assert state.value() is None and state.tokens() == []
