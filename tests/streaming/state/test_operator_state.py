"""State that belongs to a subtask."""

import pytest

from flinkbuf.streaming.state.operator_state import OperatorStateBackend
from flinkbuf.streaming.state.snapshot import OperatorSnapshot
from flinkbuf.streaming.state.state import BroadcastState, ListState, ListStateDescriptor, MapStateDescriptor
from flinkbuf.types.types import Types

LIST, UNION = ListStateDescriptor("list", Types.LONG()), ListStateDescriptor("union", Types.LONG())
MAP = MapStateDescriptor("map", Types.STRING(), Types.LONG())


def test_lists_and_maps_go_through_a_snapshot():
    backend = OperatorStateBackend()
    backend.get_list_state(LIST).add_all([1, 2])
    backend.get_union_list_state(UNION).update([3])
    backend.get_broadcast_state(MAP).put_all({"x": 4})
    taken = backend.snapshot()
    backend.get_list_state(LIST).add(9)
    backend.get_broadcast_state(MAP).clear()
    again = OperatorStateBackend()
    again.restore(OperatorSnapshot(**taken))
    assert (again.get_list_state(LIST).get(), list(again.get_union_list_state(UNION))) == ([1, 2], [3])
    assert dict(again.get_broadcast_state(MAP).items()) == {"x": 4}
    assert again.snapshot() == taken


def test_what_is_changed_in_place_does_not_change_the_snapshot():
    backend = OperatorStateBackend()
    state = backend.get_broadcast_state(MapStateDescriptor("any", None, None))
    state["x"] = [1]
    taken = backend.snapshot()
    state["x"].append(2)
    assert taken["broadcasts"] == {"any": {"x": [1]}}


def test_states_that_nobody_asks_for_are_handed_on():
    backend = OperatorStateBackend()
    backend.restore(OperatorSnapshot(lists={"old": [1]}, union_lists={"u": [2]}, broadcasts={"b": {}}))
    taken = OperatorSnapshot(**backend.snapshot())
    assert (taken.lists, taken.union_lists, taken.broadcasts) == ({"old": [1]}, {"u": [2]}, {"b": {}})
    assert not taken.has_alike_unions


@pytest.mark.parametrize("had", ["lists", "union_lists", "broadcasts"])
def test_a_state_that_was_of_another_mode_is_refused_and_not_empty(had):
    backend = OperatorStateBackend()
    backend.restore(OperatorSnapshot(**{had: {"x": {} if had == "broadcasts" else []}}))
    ways = {
        "lists": lambda: backend.get_list_state(ListStateDescriptor("x", None)),
        "union_lists": lambda: backend.get_union_list_state(ListStateDescriptor("x", None)),
        "broadcasts": lambda: backend.get_broadcast_state(MapStateDescriptor("x", None, None)),
    }
    for mode, get in ways.items():
        if mode != had:
            with pytest.raises(TypeError, match="the snapshot has an operator state 'x' that is a .*another name"):
                get()
    assert ways[had]() is ways[had]()


def test_a_list_is_a_list_state():
    state = OperatorStateBackend().get_list_state(LIST)
    assert isinstance(state, ListState)
    state.add(1)
    state.get().append(2)
    assert state.get() == [1]
    state.clear()
    assert state.get() == []


def test_a_map_is_a_broadcast_state():
    state = OperatorStateBackend().get_broadcast_state(MAP)
    assert isinstance(state, BroadcastState)
    state["x"] = 1
    assert (state["x"], "x" in state, "y" in state, list(state), list(state.values())) == (1, True, False, ["x"], [1])
    del state["x"]
    state.remove("nothing")
    assert state.is_empty()


def test_one_name_is_one_state():
    backend = OperatorStateBackend()
    state = backend.get_list_state(LIST)
    assert backend.get_list_state(LIST) is state
    for ask in (
        lambda: backend.get_union_list_state(LIST),
        lambda: backend.get_list_state(ListStateDescriptor("list", Types.STRING())),
        lambda: backend.get_broadcast_state(MapStateDescriptor("list", Types.LONG(), Types.LONG())),
    ):
        with pytest.raises(TypeError, match="there is an operator state 'list' already, list of .*another name"):
            ask()
