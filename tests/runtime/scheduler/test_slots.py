"""Slots: how many a job needs, which subtask takes which, and who brings them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.worlds.master_world import JOB, vertex

from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.scheduler.slots import SlotPool, ranges_text, slot_count, slot_of


def plan(*vertices):
    return JobPlan(JOB, "slots", vertices)


def test_a_group_needs_as_many_as_its_widest_vertex():
    assert slot_count(plan(vertex("a", 2), vertex("b", 5), vertex("c", 1))) == 5
    assert slot_count(plan(vertex("a", 2), vertex("b", 5, slot_sharing_group="big"), vertex("c", 3))) == 8
    assert slot_count(plan(vertex("a", 2), vertex("b", 9, is_in_program=True))) == 2
    assert slot_count(plan(vertex("a", 2, is_in_program=True))) == 0


vertices = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from(["default", "left", "right"]), st.booleans()), min_size=1, max_size=6
).map(
    lambda rows: [
        vertex(chr(97 + number), width, slot_sharing_group=group, is_in_program=is_in_program)
        for number, (width, group, is_in_program) in enumerate(rows)
    ]
)


@given(vertices)
def test_a_slot_holds_at_most_one_subtask_of_each_vertex_and_one_group(rows):
    job, taken = plan(*rows), {}
    for index, row in enumerate(rows):
        for subtask in range(row.parallelism):
            slot = slot_of(job, index, subtask)
            assert (slot is None) == row.is_in_program
            if slot is not None:
                taken.setdefault(slot, []).append((index, subtask, row.slot_sharing_group))
    assert sorted(taken) == list(range(slot_count(job))), "none is left empty, and none is missing"
    for holders in taken.values():
        assert len({index for index, _, _ in holders}) == len(holders)
        assert len({subtask for _, subtask, _ in holders}) == 1, "subtask i of all vertices of a group"
        assert len({group for _, _, group in holders}) == 1


def test_subtasks_of_a_co_location_group_share_a_slot():
    job = plan(vertex("a", 3, co_location_group="x"), vertex("b", 2), vertex("c", 3, co_location_group="x"))
    assert [slot_of(job, 0, number) for number in range(3)] == [slot_of(job, 2, number) for number in range(3)]


def test_only_the_run_that_was_asked_last_brings_a_slot():
    pool = SlotPool(3)
    pool.ask([0, 1, 2], run=1)
    pool.ask([1], run=2)
    assert [pool.expects(range(slot, slot + 1), 1) for slot in range(3)] == [True, False, True]
    assert not pool.expects(range(0, 0), 1), "who brings nothing is not waited for"
    assert not pool.expects(range(2, 4), 1), "nor who brings more than there are"
    pool.fill("m", [0])
    assert not pool.expects(range(0, 1), 1), "it is there"
    assert (pool.missing(range(3)), pool.unasked(range(3))) == ([1, 2], [])
    assert pool.give_up(1) == [2]
    assert pool.unasked(range(3)) == [2]
    assert pool.free("m") == [0]
    assert pool.unasked(range(3)) == [0, 2]
    pool.forget([1, 2])
    assert pool.asked == {}


@pytest.mark.parametrize("numbers, text", [([], ""), ([3], "3"), ([4, 3], "3-4"), ([0, 2, 3, 9], "0, 2-3, 9")])
def test_numbers_as_text(numbers, text):
    assert ranges_text(numbers) == text


def test_more_slots_than_a_number_can_count_are_not_expected():
    pool = SlotPool(2)
    pool.ask([0, 1], run=1)
    assert not pool.expects(range(0, 2**70), run=1)
