"""Subtasks with their attempts, and the state that a task shows for all its subtasks."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.worlds.master_world import JOB, edge, vertex

from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.protocol.messages import RegisterManager
from flinkbuf.runtime.scheduler.execution_graph import HISTORY_SIZE, ExecutionGraph, aggregate_state
from flinkbuf.runtime.scheduler.execution_state import ExecutionState, ExecutionStep
from flinkbuf.runtime.scheduler.manager import Manager

S, T = ExecutionState, ExecutionStep
PLAN = JobPlan(JOB, "two", (vertex("a", 2), vertex("b", 3)), (edge(0, 1),))
MANAGER = Manager("m", RegisterManager("m", 1, 0, "h", 1, 3, 1), 0, 0)


def ended(graph, subtask, step=T.FAIL):
    graph.step(subtask.current, step, 1)
    return subtask.current


def test_counts_follow_every_step():
    graph = ExecutionGraph(PLAN)
    assert (graph.subtask_count, graph.open_count, graph.finished_count) == (5, 5, 0)
    first, second = graph.vertices[0].subtasks
    graph.step(first.current, T.SCHEDULE, 1)
    graph.deploy(first.current, MANAGER, 2)
    assert list(graph.open_on("m")) == [first.current.attempt]
    graph.step(first.current, T.FINISH, 3)
    ended(graph, second)
    assert (graph.open_count, graph.finished_count, graph.open_on("m")) == (3, 1, {})
    graph.step(first.current, T.FINISH, 9)  # doubled
    assert (graph.open_count, graph.finished_count) == (3, 1)
    assert first.current.timestamps == {S.CREATED: 0, S.SCHEDULED: 1, S.DEPLOYING: 2, S.FINISHED: 3}
    graph.reset(first, 10)
    assert (graph.open_count, graph.finished_count) == (4, 0)


def test_a_new_attempt_only_after_the_end_of_the_last():
    graph = ExecutionGraph(PLAN)
    subtask = graph.vertices[1].subtasks[2]
    with pytest.raises(RuntimeError, match="has not ended"):
        graph.reset(subtask, 1)
    old = ended(graph, subtask)
    new = graph.reset(subtask, 7)
    assert (new.attempt.attempt_number, new.state, new.timestamps) == (1, S.CREATED, {S.CREATED: 7})
    assert subtask.history == [old]
    assert graph.execution_of(new.attempt) is new
    assert graph.execution_of(old.attempt) is None
    for _ in range(HISTORY_SIZE + 5):
        ended(graph, subtask)
        graph.reset(subtask, 8)
    assert len(subtask.history) == HISTORY_SIZE
    assert subtask.history[-1].attempt.attempt_number == HISTORY_SIZE + 5


def test_an_attempt_of_somebody_else_is_unknown():
    graph = ExecutionGraph(PLAN)
    attempt = graph.vertices[0].subtasks[1].current.attempt
    assert graph.execution_of(attempt) is not None
    for change in ({"vertex_id": "0" * 32}, {"subtask_index": 2}, {"subtask_index": -1}, {"attempt_number": 1}):
        assert graph.execution_of(type(attempt)(**{**vars(attempt), **change})) is None


@pytest.mark.parametrize(
    "states, aggregate",
    [
        ([S.RUNNING, S.FAILED, S.CANCELING], S.FAILED),
        ([S.CANCELED, S.CANCELING, S.RUNNING], S.CANCELING),
        ([S.CANCELED, S.INITIALIZING], S.CANCELED),
        ([S.RUNNING, S.INITIALIZING], S.INITIALIZING),
        ([S.RUNNING, S.CREATED], S.RUNNING),
        ([S.FINISHED, S.FINISHED], S.FINISHED),
        ([S.FINISHED, S.CREATED], S.RUNNING),
        ([S.DEPLOYING, S.SCHEDULED], S.SCHEDULED),
        ([S.DEPLOYING, S.CREATED], S.CREATED),
        ([S.DEPLOYING], S.DEPLOYING),
    ],
)
def test_one_state_for_all_subtasks(states, aggregate):
    assert aggregate_state(Counter(states)) is aggregate


@given(st.lists(st.sampled_from(list(S)), min_size=1))
def test_a_task_is_finished_only_if_all_are(states):
    assert (aggregate_state(Counter(states)) is S.FINISHED) == (set(states) == {S.FINISHED})


def test_shares_of_time_are_those_since_the_last_report():
    execution = ExecutionGraph(PLAN).vertices[0].subtasks[0].current
    assert execution.time_shares("busy_ms", "idle_ms") == [0.0, 0.0]
    execution.keep({"busy_ms": 100, "idle_ms": 900}, {}, 1000)
    assert execution.time_shares("busy_ms", "idle_ms") == [0.1, 0.9]
    execution.keep({"busy_ms": 850, "idle_ms": 1150}, {"n": 1}, 2000)
    execution.keep({}, {}, 2500)  # a report without them changes nothing
    assert execution.time_shares("busy_ms", "idle_ms") == [0.75, 0.25]
    assert (execution.reported_ms, execution.accumulators) == (2000, {"n": 1})
