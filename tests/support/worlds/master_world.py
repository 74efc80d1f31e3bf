"""A job master with task managers that a test plays: it says what they say, and sees what they are told."""

from collections import deque
from random import Random

from flinkbuf.runtime.graph.job_plan import EdgePlan, JobPlan, OperatorPlan, VertexPlan
from flinkbuf.runtime.master.job_master import JobMaster
from flinkbuf.runtime.master.restart_strategy import NoRestart
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import (
    CancelTask,
    DeployTasks,
    HeartbeatReport,
    HeartbeatRequest,
    RegisterManager,
    TaskStateReport,
)
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.runtime.scheduler.job_master_config import JobMasterConfig
from flinkbuf.runtime.scheduler.master_actions import (
    EndJob,
    ManagerLost,
    ManagerSaid,
    SendTo,
    StartJob,
    StartManagers,
    StopManager,
)

SESSION = "5e" * 16
JOB = "0b" * 16


def vertex(name, parallelism=2, *, is_source=False, **fields):
    """A vertex whose id is made of its name."""
    operators = (OperatorPlan(name, name, has_coordinator=is_source),)
    return VertexPlan(name.encode().hex().ljust(32, "0"), name, parallelism, 128, operators=operators, **fields)


def edge(source, target, *, is_pointwise=False, **fields):
    """An edge between the vertices with these indexes, through their first partition and gate."""
    return EdgePlan(
        source, target, fields.pop("partition_index", 0), fields.pop("gate_index", 0), is_pointwise, **fields
    )


def pipeline(parallelism=2, *, is_pointwise=False):
    """A source and a sink: pointwise, each pair of subtasks is a region of its own."""
    vertices = (vertex("source", parallelism, is_source=True), vertex("sink", parallelism))
    return JobPlan(JOB, "pipeline", vertices, (edge(0, 1, is_pointwise=is_pointwise),))


class MasterWorld:
    """A job master, the time, and what it has said."""

    def __init__(self, plan, restart=None, *, checkpointing=None, initial=None, **config):
        self.plan = plan
        self.now_ms = 0
        self.job = JobMaster(
            plan,
            JobMasterConfig(**config),
            session_id=SESSION,
            restart_strategy=(restart or NoRestart()).create(Random(1)),
            checkpointing=checkpointing,
            initial=initial,
        )
        self.actions = []  # all of them
        self.last = []  # those of the last call
        self.place = {}  # manager by attempt
        self.tasks = {}  # deployed and not at their end, with their state
        self.canceled = deque()

    def tell(self, stimulus):
        """The job master is told something; returns what it wants."""
        self.last = self.job.handle(stimulus, self.now_ms)
        self.actions += self.last
        for action in self.last:
            if isinstance(action, SendTo) and isinstance(action.message, DeployTasks):
                for task in action.message.tasks:
                    assert task.attempt not in self.place, "deployed twice"
                    self.place[task.attempt] = action.manager_id
            elif isinstance(action, SendTo) and isinstance(action.message, CancelTask):
                self.canceled.append(action.message.attempt)
        self.tasks.update((task.attempt, "DEPLOYING") for task in self.deployed())
        return self.last

    def start(self):
        self.tell(StartJob())
        return self

    def register(self, index=0, *, run=None, manager_id=None, slot_count=1):
        """The manager of a slot comes up, as the last run that asked for it."""
        if run is None:
            run = max(each.run for each in self.of(StartManagers, all_time=True) if index in each.indexes)
        manager_id = manager_id or f"m{run}-{index}"
        message = RegisterManager(manager_id, run, index, f"host{index}", 5000 + index, slot_count, 100 + index)
        return self.say(manager_id, message)

    def register_all(self):
        """Whoever was asked for last comes up."""
        asked = self.of(StartManagers, all_time=True)[-1]
        for index in asked.indexes:
            self.register(index, run=asked.run)
        return self

    def say(self, manager_id, message):
        return self.tell(ManagerSaid(manager_id, message))

    def report(self, attempt, state, failure=None, *, manager_id=None, session_id=SESSION, **fields):
        """A task is in another state."""
        if state in ("FINISHED", "CANCELED", "FAILED"):
            self.tasks.pop(attempt, None)
        elif attempt in self.tasks:
            self.tasks[attempt] = state
        manager_id = manager_id or self.place[attempt]
        return self.say(manager_id, TaskStateReport(session_id, attempt, state, failure, **fields))

    def all_report(self, *states):
        """All tasks that are there go through these states."""
        for state in states:
            for attempt in list(self.tasks):
                self.report(attempt, state)
        return self

    def confirm_cancels(self):
        """Every task that was told to end does."""
        while self.canceled:
            attempt = self.canceled.popleft()
            if attempt in self.tasks:
                self.report(attempt, "CANCELED")
        return self

    def lose(self, manager_id, reason="killed"):
        """A manager's process is gone, and its tasks with it."""
        self.tasks = {attempt: state for attempt, state in self.tasks.items() if self.place[attempt] != manager_id}
        return self.tell(ManagerLost(manager_id, reason))

    def heartbeat(self, manager_id, attempts=None, **fields):
        """A manager answers the last heartbeat."""
        sequence = self.of(HeartbeatRequest, all_time=True)[-1].sequence
        if attempts is None:
            attempts = tuple(attempt for attempt in self.tasks if self.place[attempt] == manager_id)
        return self.say(manager_id, HeartbeatReport(SESSION, sequence, tuple(attempts), **fields))

    def wait(self, span_ms):
        """Time passes, and the job master is called whenever it wants to be."""
        end_ms = self.now_ms + span_ms
        called = []
        while not self.job.is_over and (due_ms := self.job.next_deadline_ms) is not None and due_ms <= end_ms:
            assert (self.now_ms, due_ms) not in called[-3:], "a deadline that does not go away"
            called.append((self.now_ms, due_ms))
            self.now_ms = max(self.now_ms, due_ms)
            self.tell(TimePassed())
        self.now_ms = end_ms
        return self

    def of(self, kind, *, all_time=False):
        """Actions of a kind, or messages of it that were sent; of the last call."""
        actions = self.actions if all_time else self.last
        sent = [action.message for action in actions if isinstance(action, SendTo)]
        return [each for each in (*actions, *sent) if isinstance(each, kind)]

    def deployed(self):
        """What the last call has deployed, producers first, as its task managers read it."""
        found = [each for message in self.of(DeployTasks) for each in message.descriptors]
        vertices = [each.id for each in self.plan.vertices]
        return sorted(found, key=lambda each: (vertices.index(each.attempt.vertex_id), each.attempt.subtask_index))

    def stopped(self):
        """Managers that were told to end, of all time."""
        return [each.manager_id for each in self.of(StopManager, all_time=True)]

    def attempt(self, vertex_index, subtask, number=0):
        return AttemptId(self.plan.vertices[vertex_index].id, subtask, number)

    def states(self):
        """Of all subtasks, in order."""
        return [execution.state.value for execution in self.job.graph.executions()]

    @property
    def end(self):
        """How it ended, and why; None while it goes on."""
        ends = self.of(EndJob, all_time=True)
        assert len(ends) <= 1
        return (ends[0].status.name, ends[0].failure and ends[0].failure.message) if ends else None


def error(text="boom", **fields):
    return Failure("builtins.ValueError", text, **fields)


def echo(text="somebody has gone"):
    return Failure("flinkbuf.errors.RemoteTransportError", text, is_echo=True)
