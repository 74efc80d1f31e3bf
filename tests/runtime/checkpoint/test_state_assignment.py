"""Who begins with which state. Flink: StateAssignmentOperationTest, RoundRobinOperatorStateRepartitionerTest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.worlds.checkpoint_world import file, keyed, state
from support.worlds.master_world import JOB, edge, vertex

from flinkbuf._core.record.key_group import key_group_range
from flinkbuf.checkpoints.handles import (
    ChannelState,
    CheckpointMetadata,
    OperatorInCheckpoint,
    OperatorSubtaskState,
    StateHandle,
    SubtaskState,
    VertexInCheckpoint,
)
from flinkbuf.runtime.checkpoint.state_assignment import StateAssignment
from flinkbuf.runtime.graph.job_plan import JobPlan, OperatorPlan, VertexPlan

FINISHED = SubtaskState(is_finished=True)
PARALLELISM = st.integers(1, 12)


def old(name, subtasks, *, operators=(), max_parallelism=128):
    """A vertex of a checkpoint."""
    ids = operators or (name,)
    return VertexInCheckpoint(
        vertex(name).id,
        name,
        len(subtasks),
        max_parallelism,
        tuple(OperatorInCheckpoint(each, each, f"uid-{each}") for each in ids),
        tuple(subtasks),
    )


def metadata(*vertices):
    return CheckpointMetadata(3, 0, "aa" * 16, "before", False, vertices)


def plan(*vertices, edges=()):
    return JobPlan(JOB, "now", tuple(vertices), tuple(edges))


def chain(name, parallelism, *operators, max_parallelism=128):
    """A vertex of several operators."""
    ids = tuple(OperatorPlan(each, each) for each in operators)
    return VertexPlan(vertex(name).id, name, parallelism, max_parallelism, operators=ids)


def assigned(found, new, *, vertex_index=0, **fields):
    """What each subtask of a vertex begins with."""
    assignment = StateAssignment(found, new, **fields)
    return [assignment.restore_of(vertex_index, index) for index in range(new.vertices[vertex_index].parallelism)]


def keyed_subtasks(parallelism, max_parallelism=128):
    ranges = [key_group_range(max_parallelism, parallelism, index) for index in range(parallelism)]
    return [state("a", keyed=[keyed(first, last, max_parallelism=max_parallelism)]) for first, last in ranges]


def list_subtasks(parallelism, **fields):
    return [state("a", operator=file(str(index)), **fields) for index in range(parallelism)]


def paths(restore):
    return [each.path.rsplit("/")[-1] for operator in restore.operators for each in operator.operator]


# ---- keyed state


@given(before=PARALLELISM, after=PARALLELISM, max_parallelism=st.sampled_from([12, 128, 1000]))
def test_each_subtask_is_given_exactly_the_parts_that_have_its_key_groups(before, after, max_parallelism):
    found = metadata(old("a", keyed_subtasks(before, max_parallelism), max_parallelism=max_parallelism))
    new = plan(chain("a", after, "a", max_parallelism=max_parallelism))
    for index, restore in enumerate(assigned(found, new)):
        first, last = key_group_range(max_parallelism, after, index)
        given_groups = {
            group
            for operator in restore.operators
            for part in operator.keyed
            for group in range(part.first_key_group, part.last_key_group + 1)
        }
        assert set(range(first, last + 1)) <= given_groups
        for part in restore.operators[0].keyed:
            assert part.first_key_group <= last
            assert part.last_key_group >= first, "no subtask opens a file in vain"


@given(before=PARALLELISM, after=PARALLELISM)
def test_at_the_same_parallelism_each_has_its_own_and_at_another_no_part_is_lost(before, after):
    found = metadata(old("a", keyed_subtasks(before)))
    restores = assigned(found, plan(chain("a", after, "a")))
    given_parts = {part.first_key_group for each in restores for part in each.operators[0].keyed}
    assert len(given_parts) == before
    if before == after:
        assert [len(each.operators[0].keyed) for each in restores] == [1] * before


# ---- lists, union lists, broadcast states


@pytest.mark.parametrize(
    ("before", "after", "kind", "expected"),
    [
        (2, 2, "has_lists", [["0"], ["1"]]),  # as it was
        (2, 3, "has_lists", [["0", "1"]] * 3),  # each deals all of them out, and keeps its part
        (3, 1, "has_lists", [["0", "1", "2"]]),
        (1, 2, "has_lists", [["0"], ["0"]]),
        (2, 2, "has_union_lists", [["0", "1"]] * 2),  # all to all
        (2, 3, "has_union_lists", [["0", "1"]] * 3),
        (2, 3, "", [["0"], ["1"], ["0"]]),  # broadcast states: those of old subtasks in turn
        (3, 2, "", [["0"], ["1"]]),
    ],
)
def test_operator_state(before, after, kind, expected):
    fields = {kind: True} if kind else {}
    restores = assigned(metadata(old("a", list_subtasks(before, **fields))), plan(chain("a", after, "a")))
    assert [paths(each) for each in restores] == expected
    assert {each.operators[0].old_parallelism for each in restores} == {before}


def test_a_subtask_that_had_no_lists_keeps_its_place_among_the_old_ones():
    subtasks = [*list_subtasks(1, has_lists=True), None, *list_subtasks(1, has_lists=True)]
    [restore] = assigned(metadata(old("a", subtasks)), plan(chain("a", 1, "a")))
    assert [each.size for each in restore.operators[0].operator] == [10, 0, 10]


def test_a_subtask_that_had_ended_is_given_the_broadcast_state_of_another():
    restores = assigned(metadata(old("a", [FINISHED, *list_subtasks(1)])), plan(chain("a", 2, "a")))
    assert [paths(each) for each in restores] == [["0"], ["0"]]


def test_a_subtask_that_had_ended_is_given_no_lists_of_others():
    restores = assigned(metadata(old("a", [FINISHED, *list_subtasks(1, has_lists=True)])), plan(chain("a", 2, "a")))
    assert [paths(each) for each in restores] == [[], ["0"]]


# ---- operators in other chains


def test_state_is_found_by_operator_whatever_task_it_was_in():
    before = SubtaskState((OperatorSubtaskState("x", file("x")), OperatorSubtaskState("y", file("y"))))
    found = metadata(old("x", [before, before], operators=("x", "y")))
    new = plan(chain("x", 2, "x"), chain("y", 1, "new", "y"), edges=[edge(0, 1)])
    assert [paths(each) for each in assigned(found, new)] == [["x"], ["x"]]
    [behind] = assigned(found, new, vertex_index=1)
    assert [each.operator_id for each in behind.operators] == ["y"]


def test_operators_without_state_may_come_and_go():
    found = metadata(old("a", list_subtasks(1), operators=("a", "gone")))
    [restore] = assigned(found, plan(chain("a", 1, "a", "new")))
    assert paths(restore) == ["0"]


@pytest.mark.parametrize("kind", ["operator", "keyed", "coordinator"])
def test_state_without_an_operator_is_refused_unless_it_may_be_left_out(kind):
    subtask = {
        "operator": state("gone", operator=file("x")),
        "keyed": state("gone", keyed=[keyed(0, 127)]),
        "coordinator": SubtaskState(),
    }[kind]
    coordinator = StateHandle(1, data=b"x") if kind == "coordinator" else None
    vertices = VertexInCheckpoint(
        "0" * 32, "v", 1, 128, (OperatorInCheckpoint("gone", "Count", None, coordinator),), (subtask,)
    )
    with pytest.raises(ValueError, match=r"checkpoint 3 of job 'before'.*'Count' \(no uid, id gone\)"):
        StateAssignment(metadata(vertices), plan(chain("a", 1, "a")))
    left = StateAssignment(metadata(vertices), plan(chain("a", 1, "a")), allow_non_restored_state=True)
    assert left.restore_of(0, 0).operators == ()
    assert left.coordinator_states() == {}


def test_key_groups_must_be_as_many_as_before():
    found = metadata(old("a", keyed_subtasks(2, 64), max_parallelism=64))
    with pytest.raises(ValueError, match="64 key groups, and task 'a' 128"):
        StateAssignment(found, plan(chain("a", 2, "a")))
    without_keys = metadata(old("a", list_subtasks(2), max_parallelism=64))
    StateAssignment(without_keys, plan(chain("a", 2, "a")))


# ---- what had come to its end


@pytest.mark.parametrize("after", [1, 2, 5])
def test_a_task_that_had_ended_begins_as_finished_at_any_parallelism(after):
    restores = assigned(metadata(old("a", [FINISHED, FINISHED])), plan(chain("a", after, "a")))
    assert [each.is_finished for each in restores] == [True] * after


def test_a_task_that_was_at_its_end_but_has_something_to_commit_begins_with_that():
    waiting = state("a", operator=file("committables"), is_finished=True)
    restores = assigned(metadata(old("a", [FINISHED, waiting])), plan(chain("a", 2, "a")))
    assert [each.is_finished for each in restores] == [False, False]
    assert "committables" in paths(restores[1])


def test_what_had_ended_cannot_be_chained_with_what_had_not():
    found = metadata(old("a", [FINISHED]), old("b", [state("b", operator=file("x"))]))
    with pytest.raises(ValueError, match=r"come to their end \('a'\) with others that had not \('b'\)"):
        StateAssignment(found, plan(chain("a", 1, "a", "b")))


def test_what_had_ended_cannot_be_fed_anew():
    found = metadata(old("b", [FINISHED]))
    with pytest.raises(ValueError, match="'b' had come to its end, but would read from 'new'"):
        StateAssignment(found, plan(chain("new", 1, "new"), chain("b", 1, "b"), edges=[edge(0, 1)]))
    partly = metadata(old("b", [FINISHED, state("b", operator=file("x"))]))
    both = chain("new", 2, "new"), chain("b", 2, "b")
    with pytest.raises(ValueError, match="would all read from 'new'"):
        StateAssignment(partly, plan(*both, edges=[edge(0, 1)]))
    StateAssignment(partly, plan(*both, edges=[edge(0, 1, is_pointwise=True)]))


# ---- records between tasks


@pytest.mark.parametrize("subtasks", [[FINISHED, FINISHED], [FINISHED, state("b", operator=file("y"))]])
def test_what_had_ended_may_be_fed_by_a_source_that_waited_for_its_last_checkpoint(subtasks):
    at_its_end = state("a", operator=file("position"), is_finished=True)
    found = metadata(old("a", [at_its_end]), old("b", subtasks))
    new = plan(chain("a", 1, "a"), chain("b", 3, "b"), edges=[edge(0, 1)])
    source, behind = (assigned(found, new, vertex_index=index)[0] for index in range(2))
    assert not source.is_finished and "position" in paths(source), "it begins at its end"
    assert behind.is_finished == (subtasks[1] is FINISHED)


def test_what_had_ended_may_be_chained_with_what_was_at_its_end():
    at_its_end = state("a", operator=file("position"), is_finished=True)
    found = metadata(old("a", [at_its_end]), old("b", [FINISHED, FINISHED]))
    (restore,) = assigned(found, plan(chain("a", 1, "a", "b")))
    assert not restore.is_finished and "position" in paths(restore)


def with_channels(parallelism=2):
    subtask = SubtaskState(
        input_channels=(ChannelState(0, 1, file("in")),), output_channels=(ChannelState(0, 0, file("out")),)
    )
    return metadata(old("a", [SubtaskState()] * parallelism), old("b", [subtask] * parallelism))


def two(first=2, second=2, *, name="b"):
    return plan(chain("a", first, "a"), chain(name, second, name), edges=[edge(0, 1)])


def test_records_between_tasks_go_where_they_were():
    restores = assigned(with_channels(), two(), vertex_index=1)
    assert {(each.input_channels[0].channel, each.output_channels[0].index) for each in restores} == {(1, 0)}


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (two(2, 3), "'b' had parallelism 2, not 3"),
        (two(3, 2), "'a' had parallelism 2, not 3"),
        (two(name="c"), "'c' was not one of them"),
    ],
)
def test_records_between_tasks_forbid_another_shape(new, words):
    with pytest.raises(ValueError, match=f"{words}.*savepoint"):
        StateAssignment(with_channels(), new)


def test_coordinators_are_found_by_their_operators():
    vertices = VertexInCheckpoint(
        "0" * 32, "v", 1, 128, (OperatorInCheckpoint("a", "A", None, StateHandle(1, data=b"x")),), (None,)
    )
    assert StateAssignment(metadata(vertices), plan(chain("z", 1, "a"))).coordinator_states()["a"].data == b"x"
