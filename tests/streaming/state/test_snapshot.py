"""Snapshots of operators as bytes, and how they are dealt out at another parallelism."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.checkpoints.state_file import KEYED, Region, SectionWriter, SnapshotOutput
from flinkbuf.checkpoints.state_index import StateMeta, keyed_head
from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.state.key_groups import KeyGroups
from flinkbuf.streaming.state.snapshot import KeyedSnapshot, OperatorSnapshot, redistribute

NAMES = st.sampled_from(["one", "two", "three"])
LISTS = st.dictionaries(NAMES, st.lists(st.integers(), max_size=9))


@given(old=st.lists(LISTS, min_size=1, max_size=5), parallelism=st.integers(1, 7))
def test_elements_of_lists_are_dealt_out_evenly_and_in_order(old, parallelism):
    snapshots = [OperatorSnapshot(lists=lists) for lists in old]
    new = [redistribute(snapshots, parallelism, subtask).lists for subtask in range(parallelism)]
    if parallelism == len(old):
        assert new == old
        return
    extra = [0] * parallelism
    for name in {name for lists in old for name in lists}:
        parts = [lists.get(name, []) for lists in new]
        elements = [element for lists in old for element in lists.get(name, ())]
        assert sorted(element for part in parts for element in part) == sorted(elements)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        begin = next((i for i, part in enumerate(parts) if part and part[0] is elements[0]), 0)
        for index, part in enumerate(parts):
            extra[index] += len(part) - len(elements) // parallelism
        del begin
    assert max(extra) - min(extra) <= 1  # who gets one more moves on from state to state


def test_a_list_keeps_its_order_over_the_subtasks():
    snapshots = [
        OperatorSnapshot(lists={"one": [1, 2, 3], "two": [8]}),
        OperatorSnapshot(lists={"one": [4], "two": [9]}),
    ]
    assert [redistribute(snapshots, 3, subtask).lists for subtask in range(3)] == [
        {"one": [1, 2], "two": []},
        {"one": [3], "two": [8]},
        {"one": [4], "two": [9]},
    ]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_union_lists_go_to_all_and_broadcast_states_to_each_in_turn(parallelism):
    snapshots = [
        OperatorSnapshot(union_lists={"u": [1]}, broadcasts={"b": {"from": 0}}),
        OperatorSnapshot(union_lists={"u": [2, 3]}, broadcasts={"b": {"from": 1}}),
    ]
    for subtask in range(parallelism):
        new = redistribute(snapshots, parallelism, subtask)
        assert new.union_lists == {"u": [1, 2, 3]}
        assert new.broadcasts == {"b": {"from": subtask % 2}}


@given(max_parallelism=st.integers(1, 300), data=st.data())
def test_key_groups_of_subtasks_are_all_groups_once(max_parallelism, data):
    parallelism = data.draw(st.integers(1, max_parallelism))
    groups = [
        group
        for subtask in range(parallelism)
        for each in [KeyGroups.of_subtask(None, max_parallelism, parallelism=parallelism, subtask_index=subtask)]
        for group in range(max_parallelism)
        if group in each
    ]
    assert groups == list(range(max_parallelism))


def example():
    metas = (StateMeta("a", "value", type="LONG"), StateMeta("b", "map", is_internal=True))
    output = SnapshotOutput(None, 0)
    writer = SectionWriter(output, KEYED)
    writer.put(0, 5, b"xy")
    writer.put(1, 6, b"z")
    writer.put(0, 7, b"w")
    place = writer.finish(keyed_head(128, 5, 7, "None", metas))
    output.finish()
    keyed = KeyedSnapshot(Region(output.handle(*place), None, KEYED))
    return OperatorSnapshot((keyed,), {"l": [1, ("x", None)]}, {"u": [2.5]}, {"b": {1: {"y"}}})


def test_bytes_bring_all_back():
    again = OperatorSnapshot.decode(example().encode())
    (keyed,) = again.keyed
    assert (again.lists, again.union_lists, again.broadcasts) == (
        {"l": [1, ("x", None)]},
        {"u": [2.5]},
        {"b": {1: {"y"}}},
    )
    assert keyed.index == example().keyed[0].index and keyed.key_groups() == range(5, 8)
    found = [[(group, bytes(data)) for group, data in keyed.read(index, range(5, 7))] for index in (0, 1)]
    assert found == [[(5, b"xy")], [(6, b"z")]]
    assert (keyed.find(("user", "a")), keyed.find(("internal", "b")), keyed.find(("user", "b"))) == (0, 1, None)
    assert keyed.index.sizes_by_key_group() == {5: 2, 6: 1, 7: 1}
    assert list(keyed.index.sizes_by_state().values()) == [3, 1]


def test_what_was_kept_outlives_its_file_and_the_first_reader():
    (keyed,) = example().keyed
    stored = keyed.stored(0)
    assert stored.keep(range(5, 8)) == [(5, b"xy"), (7, b"w")]
    keyed.forget(0)
    keyed._region = None
    assert list(stored.sections(range(5, 8))) == [(5, b"xy"), (7, b"w")]


def test_any_damaged_bit_is_noticed():
    whole = example().encode()
    for position in range(len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[position] ^= 1 << bit
            with pytest.raises(CorruptDataError):
                OperatorSnapshot.decode(bytes(data))


def test_bytes_that_were_cut_off_are_noticed():
    whole = example().encode()
    for length in range(len(whole)):
        with pytest.raises(CorruptDataError):
            OperatorSnapshot.decode(whole[:length])
