"""The five kinds of keyed state, each call for the current key."""

import pytest
from support.models.frozen_tables import contents_of

from flinkbuf._core.record.key_group import KeyGrouper
from flinkbuf._core.state.key_context import KeyContext
from flinkbuf._core.state.keyed_state import (
    KeyedAggregatingState,
    KeyedListState,
    KeyedMapState,
    KeyedReducingState,
    KeyedValueState,
)
from flinkbuf._core.value.type_codec import TypeCodec


class Mean:
    def create_accumulator(self):
        return [0, 0]

    def add(self, value, accumulator):
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, one, other):
        return [one[0] + other[0], one[1] + other[1]]


@pytest.fixture
def keys():
    context = KeyContext()
    context.set_key("a")
    return context


def test_a_key_of_another_subtask_is_refused():
    grouper = KeyGrouper(TypeCodec("LONG"), 128, 64, 127)
    mine, other = (
        next(key for key in range(100) if (grouper.group_of(key) >= 64) is wanted) for wanted in (True, False)
    )
    context = KeyContext(TypeCodec("LONG"), grouper)
    context.set_key(mine)
    with pytest.raises(RuntimeError, match=f"key {other} is in key group .*this subtask has 64 to 127.*the same key"):
        context.set_key(other)


def test_of_many_keys_some_are_looked_at():
    grouper = KeyGrouper(TypeCodec("LONG"), 128, 64, 127)
    mine, other = (
        next(key for key in range(100) if (grouper.group_of(key) >= 64) is wanted) for wanted in (True, False)
    )
    context = KeyContext(TypeCodec("LONG"), grouper)
    for _ in range(1000):
        context.set_key(mine)
    with pytest.raises(RuntimeError, match="a key selector must give the same key"):
        for _ in range(256):
            context.set_key(other)


def test_each_key_has_a_value_of_its_own(keys):
    state = KeyedValueState("s", keys)
    state.update(1)
    keys.set_key("b")
    assert state.value() is None
    state.update(2)
    keys.set_key("a")
    assert state.value() == 1
    state.update(None)
    assert state.value() is None
    assert state.tokens() == ["b"]


def test_a_list_keeps_the_order_and_gives_a_copy(keys):
    state = KeyedListState("s", keys)
    assert state.get() == []
    state.add(1)
    state.add_all(iter([2, 3]))
    state.get().append(4)
    assert list(state) == [1, 2, 3]
    state.update([])
    assert state.tokens() == []


def test_a_reduction_is_of_all_values(keys):
    state = KeyedReducingState("s", keys, lambda one, other: one + other)
    assert state.get() is None
    for value in (1, 2, 3):
        state.add(value)
    assert state.get() == 6


def test_an_aggregate_has_its_own_result(keys):
    state = KeyedAggregatingState("s", keys, Mean())
    assert state.get() is None
    for value in (1, 2, 6):
        state.add(value)
    assert state.get() == 3
    state.add(None)
    assert state.get() is None


def test_a_map_is_used_as_a_dict_is(keys):
    state = KeyedMapState("s", keys)
    state["x"] = 1
    state.put_all({"y": 2})
    state.put_all([("z", 3)])
    assert state["x"] == 1 and "x" in state and "w" not in state and state["w"] is None
    assert (list(state), list(state.values()), list(state.items())[1]) == (["x", "y", "z"], [1, 2, 3], ("y", 2))
    del state["x"]
    state.remove("nothing")
    assert not state.is_empty()
    state.clear()
    assert state.is_empty() and list(state.items()) == []


def test_an_iterator_that_is_kept_removes_nothing_of_another_key(keys):
    state = KeyedMapState("s", keys)
    state.put(1, "of a")
    keys.set_key("b")
    state.put(1, "of b")
    keys.set_key("a")
    entries = state.items()
    next(entries)
    keys.set_key("b")
    with pytest.raises(RuntimeError, match="map state 's' of another key"):
        entries.remove()
    assert state.get(1) == "of b"


def test_a_map_may_lose_entries_through_its_iterator_only(keys):
    state = KeyedMapState("s", keys)
    state.put_all({number: number for number in range(10)})
    entries = state.items()
    with pytest.raises(RuntimeError, match="call next"):
        entries.remove()
    for key, _ in entries:
        if key % 2:
            entries.remove()
    assert list(state.keys()) == [0, 2, 4, 6, 8]
    with pytest.raises(RuntimeError, match="changed while it was iterated: collect the keys first"):
        for key in state:
            state.remove(key)


@pytest.mark.parametrize("use", ["value", "update", "clear"])
def test_without_a_key_there_is_no_state(keys, use):
    state = KeyedValueState("s", keys)
    keys.clear()
    with pytest.raises(RuntimeError, match="belong to a key, and there is none now"):
        getattr(state, use)(*([1] if use == "update" else []))


def test_windows_keep_their_values_apart_and_can_be_merged(keys):
    state = KeyedAggregatingState("s", keys, Mean())
    for namespace, value in ((1, 10), (2, 20), (3, 60)):
        state.set_namespace(namespace)
        state.add(value)
    state.merge_namespaces(1, [2, 3])
    assert state.get() == 30
    state.set_namespace(2)
    assert state.get() is None
    with pytest.raises(TypeError, match="'v' cannot be merged"):
        KeyedValueState("v", keys).merge_namespaces(1, [2])


def test_a_merge_that_was_left_out_loses_nothing_in_silence(keys):
    class Unmerged(Mean):
        def merge(self, acc_a, acc_b):
            """Without windows that merge nobody calls it."""

    state = KeyedAggregatingState("s", keys, Unmerged())
    for namespace in (1, 2):
        state.set_namespace(namespace)
        state.add(10)
    with pytest.raises(TypeError, match=r"Unmerged.merge\(\) must return .* returned None"):
        state.merge_namespaces(1, [2])


def test_a_snapshot_keeps_what_was_while_the_operator_goes_on(keys):
    state = KeyedMapState("s", keys)
    state.put("x", [1])
    frozen = state.freeze()
    state.put("x", [*state.get("x"), 2])
    state.put("y", 3)
    keys.set_key("b")
    state.put("z", 4)
    assert contents_of(frozen) == {None: {"a": {"x": [1]}}}
    frozen.release()
    keys.set_key("a")
    assert dict(state.items()) == {"x": [1, 2], "y": 3}
    assert sorted(state.tokens()) == ["a", "b"]
