"""Which failures end a job whatever its restart strategy says: those of what cannot be had a second time."""

from types import SimpleNamespace

import pytest
from support.worlds.master_world import JOB, SESSION, error, vertex

from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.master.restart_limits import RestartLimits
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.messages import TaskStateReport
from flinkbuf.runtime.scheduler.master_actions import CoordinatorFailed, ManagerSaid, RunFailed

AGAIN = None  # what a factory answers that can begin again


def limits(*answers, is_asked=True):
    """Of a job of two subtasks a vertex, which nothing connects; each vertex has a factory that answers so."""
    plan = JobPlan(JOB, "numbers", tuple(vertex(f"v{index}") for index in range(len(answers))), ())
    factories = [SimpleNamespace(why_not_again=lambda answer=answer: answer) for answer in answers]
    chains = [[SimpleNamespace(factory=object()), SimpleNamespace(factory=factory)] for factory in factories]
    graph = SimpleNamespace(vertices=[SimpleNamespace(chain=SimpleNamespace(operators=each)) for each in chains])
    return plan, RestartLimits(graph, plan, is_asked=is_asked)


def failed(plan, index, failure):
    attempt = AttemptId(plan.vertices[index].id, 0, 0)
    return ManagerSaid("m", TaskStateReport(SESSION, attempt, "FAILED", failure))


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_failure_is_final_where_what_begins_again_with_it_cannot(index):
    plan, found = limits(AGAIN, "it was read", "it was given away")
    report = found.checked(failed(plan, index, error())).message
    assert report.failure.message == "boom"
    assert report.failure.can_restart is (index == 0)
    assert (
        found.refusal
        == (None, "the job was not restarted: it was read", "the job was not restarted: it was given away")[index]
    )


@pytest.mark.parametrize("stimulus", [CoordinatorFailed(error()), RunFailed(1, error())])
def test_what_concerns_the_whole_job_begins_all_of_it_again(stimulus):
    _, found = limits(AGAIN, "it was read")
    assert found.checked(stimulus).failure.can_restart is False
    assert found.refusal == "the job was not restarted: it was read"


def test_what_is_no_failure_goes_through_as_it_is():
    plan, found = limits("it was read")
    for stimulus in (failed(plan, 0, None), ManagerSaid("m", "something else"), object()):
        assert found.checked(stimulus) is stimulus
    assert found.refusal is None


@pytest.mark.parametrize(("answers", "is_asked"), [((AGAIN, AGAIN), True), (("it was read",), False), ((), True)])
def test_a_job_that_can_begin_again_or_would_not_is_left_alone(answers, is_asked):
    plan, found = limits(*answers, is_asked=is_asked)
    for index in range(len(answers)):
        stimulus = failed(plan, index, error())
        assert found.checked(stimulus).message.failure.can_restart
    assert found.refusal is None


def test_the_reason_is_logged_once(caplog):
    plan, found = limits("it was read")
    for _ in range(3):
        found.checked(failed(plan, 0, error()))
    assert caplog.text.count("job numbers is not restarted: it was read") == 1
