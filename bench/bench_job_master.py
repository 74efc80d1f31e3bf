"""How many subtasks a second does a job master bring up, and bring to their end?

Two tasks of 500 subtasks, each reading from each other: registered, scheduled, deployed with their descriptors, then
three reports of each. No network, no codec: what deciding alone costs. Beside it what the descriptors would cost if
each of the 250,000 channels were an object of its own, as the first version had it. Flink: SchedulerBenchmark,
DeployingTasksInStreamingJobBenchmark.
"""

from random import Random

import pytest
from measure import measure, scaled

from flinkbuf.jobs.graphs.job_plan import EdgePlan, JobPlan, VertexPlan
from flinkbuf.jobs.master.job_details import job_details
from flinkbuf.jobs.master.job_master import JobMaster
from flinkbuf.jobs.master.master_actions import ManagerSaid, SendTo, StartJob
from flinkbuf.jobs.master.restart_strategy import NoRestart
from flinkbuf.jobs.messages import DeployTask, RegisterManager, TaskStateReport

PARALLELISM = scaled(500)
SUBTASKS = 2 * PARALLELISM
SESSION = "5e" * 16


def plan(is_pointwise):
    vertices = tuple(VertexPlan(name * 32, name, PARALLELISM, 1024) for name in "ab")
    return JobPlan("0b" * 16, "wide", vertices, (EdgePlan(0, 1, 0, 0, is_pointwise),))


def deployed(is_pointwise=False):
    """A job whose tasks are all deployed, and what their task managers were told."""
    job = JobMaster(plan(is_pointwise), session_id=SESSION, restart_strategy=NoRestart().create(Random(1)))
    job.handle(StartJob(), 0)
    actions = []
    for index in range(PARALLELISM):
        register = RegisterManager(f"m{index}", 1, index, "127.0.0.1", 5000 + index, 1, index)
        actions += job.handle(ManagerSaid(f"m{index}", register), 0)
    sent = [action for action in actions if isinstance(action, SendTo) and isinstance(action.message, DeployTask)]
    assert len(sent) == SUBTASKS
    return job, sent


def life():
    """A whole job: beside its deployment, three reports of each task, and its end."""
    job, sent = deployed()
    for state in ("INITIALIZING", "RUNNING", "FINISHED"):
        for action in sent:
            job.handle(ManagerSaid(action.manager_id, _report(action, state)), 1)
    assert job.is_over


def _report(action, state):
    return TaskStateReport(SESSION, action.message.descriptor.attempt, state)


def details():
    job, _ = deployed()
    return lambda: job_details(job, 1), SUBTASKS, "subtasks"


def channels():
    _, sent = deployed()
    gates = [gate for action in sent for gate in action.message.descriptor.gates]
    return lambda: [gate.channels for gate in gates], SUBTASKS, "subtasks"


CASES = {
    "job_master.deploy.all_to_all": lambda: (deployed, SUBTASKS, "subtasks"),
    "job_master.deploy.pointwise": lambda: (lambda: deployed(True), SUBTASKS, "subtasks"),
    "job_master.deploy.a_channel_an_object": channels,
    "job_master.life": lambda: (life, SUBTASKS, "subtasks"),
    "job_master.details": details,
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name](), benchmark=benchmark)


if __name__ == "__main__":
    for name, case in CASES.items():
        measure(name, *case())
