"""Who begins a checkpoint and who is waited for. Flink: DefaultCheckpointPlanCalculatorTest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.worlds.master_world import JOB, edge, vertex

from flinkbuf.runtime.checkpoint.checkpoint_plan import CheckpointPlanner, PlanRefusedError
from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.scheduler.execution_graph import ExecutionGraph
from flinkbuf.runtime.scheduler.execution_state import ExecutionStep

WAY = (ExecutionStep.SCHEDULE, ExecutionStep.DEPLOY, ExecutionStep.INITIALIZE, ExecutionStep.RUN, ExecutionStep.FINISH)
RUNNING, FINISHED = 4, 5


def graph(plan, states=None):
    """All subtasks run, but for those whose number of steps is named by (vertex, subtask)."""
    made = ExecutionGraph(plan)
    for subtask in made.subtasks():
        for step in WAY[: (states or {}).get(subtask.key, RUNNING)]:
            made.step(subtask.current, step, 0)
    return made


def chain_of(*parallelisms, is_pointwise=False):
    vertices = tuple(vertex(f"v{index}", each) for index, each in enumerate(parallelisms))
    edges = tuple(edge(index, index + 1, is_pointwise=is_pointwise) for index in range(len(parallelisms) - 1))
    return JobPlan(JOB, "chain", vertices, edges)


def triggered(made):
    return [each.vertex.key for each in CheckpointPlanner(made).plan().to_trigger]


def ends(*keys):
    return dict.fromkeys(keys, FINISHED)


def test_all_run_sources_begin_and_all_are_waited_for():
    plan = CheckpointPlanner(graph(chain_of(2, 3))).plan()
    assert [each.vertex.key for each in plan.to_trigger] == [(0, 0), (0, 1)]
    assert [len(plan.to_wait_for), plan.has_finished_tasks] == [5, False]


@pytest.mark.parametrize(
    ("is_pointwise", "finished", "expected"),
    [
        (False, [(0, 0)], [(0, 1)]),  # the other source still feeds all of them
        (True, [(0, 0)], [(0, 1), (1, 0)]),
        (False, [(0, 0), (0, 1)], [(1, 0), (1, 1)]),
        (True, [(0, 0), (0, 1), (1, 0)], [(1, 1), (2, 0)]),
        (False, [(0, 0), (0, 1), (1, 0)], [(1, 1)]),
        (False, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)], [(2, 1)]),
    ],
)
def test_who_has_nobody_before_him_begins(is_pointwise, finished, expected):
    made = graph(chain_of(2, 2, 2, is_pointwise=is_pointwise), ends(*finished))
    assert triggered(made) == expected
    assert CheckpointPlanner(made).plan().has_finished_tasks


def test_pointwise_to_fewer_waits_for_each_of_those_before():
    plan = chain_of(4, 2, is_pointwise=True)
    assert triggered(graph(plan, ends((0, 0)))) == [(0, 1), (0, 2), (0, 3)]
    assert triggered(graph(plan, ends((0, 0), (0, 1)))) == [(0, 2), (0, 3), (1, 0)]


def test_two_inputs_of_different_kinds():
    vertices = tuple(vertex(name, 2) for name in ("all", "pairs", "reader"))
    edges = (edge(0, 2), edge(1, 2, gate_index=1, is_pointwise=True))
    plan = JobPlan(JOB, "two", vertices, edges)
    assert triggered(graph(plan, ends((1, 0), (1, 1)))) == [(0, 0), (0, 1)]
    assert triggered(graph(plan, ends((0, 0), (0, 1), (1, 0)))) == [(1, 1), (2, 0)]


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_one_that_does_not_run_yet_is_named(steps):
    with pytest.raises(PlanRefusedError, match=r"v1 \(2/3\)"):
        CheckpointPlanner(graph(chain_of(2, 3), {(1, 1): steps})).plan()


def test_all_have_ended():
    made = graph(chain_of(1, 1), ends((0, 0), (1, 0)))
    with pytest.raises(PlanRefusedError, match="all tasks"):
        CheckpointPlanner(made).plan()


def test_none_after_a_task_has_ended_if_that_is_not_wanted():
    planner = CheckpointPlanner(graph(chain_of(2, 1), ends((0, 1))), after_tasks_finish=False)
    with pytest.raises(PlanRefusedError, match=r"v0 \(2/2\) has come to its end"):
        planner.plan()


def test_none_where_a_task_is_read_after_it_has_ended():
    plan = JobPlan(JOB, "b", (vertex("a", 1), vertex("b", 1)), (edge(0, 1, partition_type="BLOCKING"),))
    with pytest.raises(PlanRefusedError, match="all of its output"):
        CheckpointPlanner(graph(plan)).plan()


@given(
    parallelisms=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    pointwise=st.lists(st.booleans(), min_size=3, max_size=3),
    data=st.data(),
)
def test_each_barrier_comes_from_somewhere(parallelisms, pointwise, data):
    """Who is told has no running one before him, and who is not has one: nobody waits for a barrier for ever."""
    vertices = tuple(vertex(f"v{index}", each) for index, each in enumerate(parallelisms))
    edges = tuple(edge(i, i + 1, is_pointwise=pointwise[i]) for i in range(len(parallelisms) - 1))
    plan = JobPlan(JOB, "any", vertices, edges)
    keys = [(v, s) for v, count in enumerate(parallelisms) for s in range(count)]
    finished = data.draw(st.sets(st.sampled_from(keys), max_size=len(keys) - 1))
    made = graph(plan, ends(*finished))
    told = set(triggered(made))
    for v, s in set(keys) - finished:
        feeders = [
            (each.source, producer) for each in edges if each.target == v for producer, _ in plan.channels_of(each, s)
        ]
        assert ((v, s) in told) is all(each in finished for each in feeders)
    assert set(CheckpointPlanner(made).plan().to_wait_for) == {
        each.attempt for each in made.executions() if each.vertex.key not in finished
    }
