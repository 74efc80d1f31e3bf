"""How many subtasks a second does a job master bring up, and bring to their end?

Two tasks of 500 subtasks, each reading from each other: registered, scheduled, deployed with their descriptors, then
three reports of each. No network, no codec: what deciding alone costs. Beside it what the descriptors would cost if
each of the 250,000 channels were an object of its own, as the first version had it. Then 5,000 subtasks on 2,500 task
managers of 160 hosts, each at a port of its own, with their messages as bytes; `bench_job_master.py deployment` prints
such figures over the number of subtasks. And what a checkpoint costs it, from the trigger until all are told, with ten
shared files a subtask; and to deal one out again, at the same parallelism
and at another. Flink: SchedulerBenchmark, DeployingTasksInStreamingJobBenchmark.
"""

import sys
import time
from random import Random

import pytest
from measure import measure, scaled

from flinkbuf._core.record.key_group import key_group_range
from flinkbuf.checkpoints.handles import (
    CheckpointMetadata,
    KeyedStateHandle,
    OperatorInCheckpoint,
    OperatorSubtaskState,
    SharedFile,
    StateHandle,
    SubtaskState,
    VertexInCheckpoint,
)
from flinkbuf.control.message_codec import MessageCodec
from flinkbuf.runtime.checkpoint.checkpoint_config import CheckpointCoordinatorConfig
from flinkbuf.runtime.checkpoint.state_assignment import StateAssignment
from flinkbuf.runtime.graph.job_plan import EdgePlan, JobPlan, OperatorPlan, VertexPlan
from flinkbuf.runtime.master.job_master import JobMaster
from flinkbuf.runtime.master.restart_strategy import NoRestart
from flinkbuf.runtime.picture.job_details import job_details
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.messages import (
    KINDS,
    CheckpointAcknowledgement,
    DeployTasks,
    RegisterManager,
    TaskStateReport,
)
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.runtime.scheduler.master_actions import CheckpointStored, ManagerSaid, SendTo, StartJob, StoreCheckpoint

PARALLELISM = scaled(500)
SUBTASKS = 2 * PARALLELISM
SESSION = "5e" * 16
CODEC = MessageCodec(KINDS)


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
    sent = [action for action in actions if isinstance(action, SendTo) and isinstance(action.message, DeployTasks)]
    assert sum(len(action.message.tasks) for action in sent) == SUBTASKS
    return job, sent


def deployment(parallelism, is_pointwise=False):
    """All that a job master does until two tasks are deployed; returns the bytes of their messages."""
    vertices = tuple(VertexPlan(name * 32, name, parallelism, 1 << 14) for name in "ab")
    wide = JobPlan("0b" * 16, "wide", vertices, (EdgePlan(0, 1, 0, 0, is_pointwise),))
    job = JobMaster(wide, session_id=SESSION, restart_strategy=NoRestart().create(Random(1)))
    job.handle(StartJob(), 0)
    chance, size = Random(parallelism), 0
    for index in range(parallelism):
        host = f"10.0.0.{chance.randrange(160)}"
        register = RegisterManager(f"m{index}", 1, index, host, chance.randrange(32_768, 61_000), 1, index)
        for action in job.handle(ManagerSaid(f"m{index}", register), 0):
            if isinstance(action, SendTo) and isinstance(action.message, DeployTasks):
                size += len(CODEC.encode(action.message))
    assert job.graph.subtask_count == 2 * parallelism == len(job.graph.open_on("m0")) * parallelism
    return size


def drawn():
    """Print seconds and bytes of deployments over their subtasks."""
    print(f"{'subtasks':>8}  {'all to all':>10}  {'bytes':>12}  {'pointwise':>10}  {'bytes':>12}")
    for subtasks in (1_000, 2_000, 5_000, 10_000):
        row = []
        for is_pointwise in (False, True):
            started = time.process_time()
            size = deployment(subtasks // 2, is_pointwise)
            row += [f"{time.process_time() - started:9.2f}s", f"{size:12,}"]
        print(f"{subtasks:>8}", *row, sep="  ")


def life():
    """A whole job: beside its deployment, three reports of each task, and its end."""
    job, sent = deployed()
    attempts = _attempts(sent)
    for state in ("INITIALIZING", "RUNNING", "FINISHED"):
        for manager_id, attempt in attempts:
            job.handle(ManagerSaid(manager_id, TaskStateReport(SESSION, attempt, state)), 1)
    assert job.is_over


def _attempts(sent):
    return [(action.manager_id, task.attempt) for action in sent for task in action.message.tasks]


# ---- checkpoints


def running():
    """A job whose tasks all run."""
    vertices = tuple(
        VertexPlan(name * 32, name, PARALLELISM, 1024, operators=(OperatorPlan(name, name),)) for name in "ab"
    )
    job = JobMaster(
        JobPlan("0b" * 16, "wide", vertices, (EdgePlan(0, 1, 0, 0, False),)),
        session_id=SESSION,
        restart_strategy=NoRestart().create(Random(1)),
        checkpointing=CheckpointCoordinatorConfig(interval_ms=1_000, directory="/checkpoints"),
    )
    job.handle(StartJob(), 0)
    sent = []
    for index in range(PARALLELISM):
        register = RegisterManager(f"m{index}", 1, index, "127.0.0.1", 5000 + index, 1, index)
        sent += job.handle(ManagerSaid(f"m{index}", register), 0)
    tasks = _attempts(each for each in sent if isinstance(each, SendTo) and isinstance(each.message, DeployTasks))
    for state in ("INITIALIZING", "RUNNING"):
        for manager_id, attempt in tasks:
            job.handle(ManagerSaid(manager_id, TaskStateReport(SESSION, attempt, state)), 0)
    return job, tasks


def subtask_state(number, attempt):
    """An operator with lists, keyed state in a file of its own, and ten shared files, half of them old."""
    index = attempt.subtask_index
    own = StateHandle(1_000, 1, f"/checkpoints/job/chk-{number}/{attempt}", 0)
    names = [f"/checkpoints/job/shared/{attempt}-{number - age}-{each}" for age in (0, 1) for each in range(5)]
    files = tuple(SharedFile(name, StateHandle(10_000, 1, name)) for name in names)
    keyed = KeyedStateHandle(*key_group_range(1024, PARALLELISM, index), 1024, own, "rocksdb", files)
    return SubtaskState((OperatorSubtaskState(attempt.vertex_id[0], own, True, False, (keyed,)),))


def checkpoint():
    job, tasks = running()
    states = {number: [subtask_state(number, attempt) for _, attempt in tasks] for number in (1, 2, 3, 4, 5, 6, 7, 8)}
    clock = [0, 0]  # now, number

    def one():
        clock[0] += 1_000
        job.handle(TimePassed(), clock[0])
        clock[1] += 1
        number = clock[1]
        for (manager_id, attempt), state in zip(tasks, states[(number - 1) % 8 + 1], strict=True):
            message = CheckpointAcknowledgement(SESSION, attempt, number, state)
            actions = job.handle(ManagerSaid(manager_id, message), clock[0])
        assert any(isinstance(each, StoreCheckpoint) for each in actions)
        told = job.handle(CheckpointStored(number, "/checkpoints/job/chk", 9), clock[0])
        assert sum(isinstance(each, SendTo) for each in told) == SUBTASKS

    return one, SUBTASKS, "subtasks"


def restore(parallelism):
    """The metadata of a checkpoint, dealt out."""
    vertices = []
    for name in "ab":
        subtasks = [subtask_state(3, AttemptId(name * 32, index, 0)) for index in range(PARALLELISM)]
        operators = (OperatorInCheckpoint(name, name),)
        vertices.append(VertexInCheckpoint(name * 32, name, PARALLELISM, 1024, operators, tuple(subtasks)))
    metadata = CheckpointMetadata(3, 0, "0b" * 16, "wide", False, tuple(vertices))
    plans = tuple(VertexPlan(n * 32, n, parallelism, 1024, operators=(OperatorPlan(n, n),)) for n in "ab")
    plan = JobPlan("0b" * 16, "wide", plans, (EdgePlan(0, 1, 0, 0, False),))

    def deal():
        assignment = StateAssignment(metadata, plan)
        return [assignment.restore_of(vertex, index) for vertex in (0, 1) for index in range(parallelism)]

    return deal, 2 * parallelism, "subtasks"


def details():
    job, _ = deployed()
    return lambda: job_details(job, 1), SUBTASKS, "subtasks"


def channels():
    _, sent = deployed()
    gates = [gate for action in sent for task in action.message.descriptors for gate in task.gates]
    return lambda: [gate.channels for gate in gates], SUBTASKS, "subtasks"


CASES = {
    "job_master.deploy.all_to_all": lambda: (deployed, SUBTASKS, "subtasks"),
    "job_master.deploy.pointwise": lambda: (lambda: deployed(True), SUBTASKS, "subtasks"),
    "job_master.deploy.with_bytes": lambda: (lambda: deployment(scaled(2_500)), 2 * scaled(2_500), "subtasks"),
    "job_master.deploy.a_channel_an_object": channels,
    "job_master.life": lambda: (life, SUBTASKS, "subtasks"),
    "job_master.details": details,
    "job_master.checkpoint": checkpoint,
    "job_master.restore": lambda: restore(PARALLELISM),
    "job_master.restore.rescaled": lambda: restore(PARALLELISM * 3 // 2),
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name](), benchmark=benchmark)


if __name__ == "__main__":
    if sys.argv[1:] == ["deployment"]:
        drawn()
        sys.exit()
    for name, case in CASES.items():
        measure(name, *case())
