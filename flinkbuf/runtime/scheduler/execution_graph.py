"""All subtasks of a job, each with its attempts: what is known of them, and since when.

Plain data that the job master changes; it decides nothing. Flink: ExecutionGraph, ExecutionJobVertex, ExecutionVertex,
Execution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from flinkbuf.checkpoints.handles import TaskRestore
from flinkbuf.runtime.graph.job_plan import JobPlan, VertexPlan
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import Json
from flinkbuf.runtime.scheduler.execution_state import ExecutionState, ExecutionStep, next_state
from flinkbuf.runtime.scheduler.manager import Manager
from flinkbuf.runtime.scheduler.regions import Subtask
from flinkbuf.runtime.scheduler.slots import slot_offsets

HISTORY_SIZE = 16  # former attempts that a subtask keeps. Flink: web.exception-history-size


class Execution:
    """One attempt of one subtask.

    Attributes
    ----------
    timestamps : dict
        When it came into each state it has been in, in milliseconds.
    manager : Manager or None
        Where it runs, or ran; None before it is deployed.
    accumulators, metrics : dict
        As last reported.
    reported_ms : int
        When that was; 0 before the first time.
    former_metrics, former_ms : dict, int
        Those before them, and when they came.
    is_cancel_heard : bool
        Its task manager knows that it is to end.
    restore : TaskRestore or None
        What it is to begin with, until it is deployed.
    deployed_after, canceled_after : int
        The last heartbeat request to its manager before the deployment, or the cancel, was sent.
    """

    __slots__ = (
        "accumulators",
        "attempt",
        "canceled_after",
        "deployed_after",
        "former_metrics",
        "former_ms",
        "failure",
        "is_cancel_heard",
        "manager",
        "metrics",
        "reported_ms",
        "restore",
        "state",
        "timestamps",
        "vertex",
    )

    def __init__(self, vertex: ExecutionVertex, attempt_number: int, now_ms: int) -> None:
        self.vertex = vertex
        self.attempt: AttemptId = AttemptId(vertex.plan.id, vertex.index, attempt_number)
        self.state = ExecutionState.CREATED
        self.timestamps = {ExecutionState.CREATED: now_ms}
        self.manager: Manager | None = None
        self.failure: Failure | None = None
        self.accumulators: Json = {}
        self.metrics: Json = {}
        self.reported_ms = 0
        self.former_metrics: Json = {}
        self.former_ms = 0
        self.is_cancel_heard = False
        self.restore: TaskRestore | None = None
        self.deployed_after = 0
        self.canceled_after = 0

    def keep(self, metrics: Json | None, accumulators: Json | None, now_ms: int) -> None:
        """Keep the newest accumulators and metrics of a report; a report without them changes nothing."""
        self.vertex.job_vertex.version += 1
        if metrics:
            self.former_metrics, self.former_ms = self.metrics, self.reported_ms
            self.metrics, self.reported_ms = metrics, now_ms
        self.accumulators = accumulators or self.accumulators

    def time_shares(self, *names: str) -> list[float]:
        """Return each counter's share of the time between the last two reports; the counters are milliseconds.

        They are shares of their sum, not of a clock's time: a task counts them up to the moment of its report.
        """
        grown = [max(0, self.metrics.get(name, 0) - self.former_metrics.get(name, 0)) for name in names]
        return [round(each / (sum(grown) or 1), 3) for each in grown]

    def __repr__(self) -> str:
        return f"<Execution {self.vertex} attempt {self.attempt.attempt_number}: {self.state.value}>"


class ExecutionVertex:
    """One subtask.

    Attributes
    ----------
    slot : int or None
        The number of its slot; None for one that runs in the program, and before one of a batch job was given any.
    current : Execution
        Its newest attempt.
    history : list of Execution
        The ones before, oldest first.
    """

    __slots__ = ("current", "history", "index", "job_vertex", "key", "plan", "slot")

    def __init__(self, job_vertex: ExecutionJobVertex, index: int, slot: int | None, now_ms: int) -> None:
        self.job_vertex = job_vertex
        self.plan = job_vertex.plan
        self.index = index
        self.key: Subtask = (job_vertex.index, index)
        self.slot = slot
        self.history: list[Execution] = []
        self.current = Execution(self, 0, now_ms)

    def __str__(self) -> str:
        return f"{self.plan.name} ({self.index + 1}/{self.plan.parallelism})"


class ExecutionJobVertex:
    """One task, with all its subtasks.

    Attributes
    ----------
    version : int
        Another one after each change of an attempt, so that a reader sees at once if there was none.
    """

    def __init__(self, plan: VertexPlan, index: int, first_slot: int | None, now_ms: int) -> None:
        self.plan = plan
        self.index = index  # in the plan
        self.subtasks = [
            ExecutionVertex(self, number, None if first_slot is None else first_slot + number, now_ms)
            for number in range(plan.parallelism)
        ]
        self.version = 0

    @property
    def state_counts(self) -> Counter[ExecutionState]:
        """Return how many subtasks are in each state."""
        return Counter(subtask.current.state for subtask in self.subtasks)

    @property
    def aggregate_state(self) -> ExecutionState:
        """Return one state for all subtasks of the vertex."""
        return aggregate_state(self.state_counts)


def aggregate_state(counts: Counter[ExecutionState]) -> ExecutionState:
    """Return the state that a task shows whose subtasks are in these.

    Examples
    --------
    >>> aggregate_state(Counter([ExecutionState.FINISHED, ExecutionState.DEPLOYING]))
    <ExecutionState.RUNNING: 'RUNNING'>
    """
    states = ExecutionState
    for state in (states.FAILED, states.CANCELING, states.CANCELED, states.INITIALIZING, states.RUNNING):
        if counts[state]:
            return state
    if counts[states.FINISHED]:
        return states.FINISHED if counts[states.FINISHED] == counts.total() else states.RUNNING
    return next(
        (state for state in (states.CREATED, states.SCHEDULED, states.DEPLOYING) if counts[state]), states.CREATED
    )


class ExecutionGraph:
    """The execution of a job plan.

    Parameters
    ----------
    plan : JobPlan
    now_ms : int

    Attributes
    ----------
    vertices : list of ExecutionJobVertex
        In the order of the plan.
    open_count, running_count, finished_count : int
        Subtasks whose newest attempt is not at its end yet; those that run; those that have finished.
    """

    def __init__(self, plan: JobPlan, now_ms: int = 0) -> None:
        self.plan = plan
        offsets = slot_offsets(plan)
        self.vertices = [
            ExecutionJobVertex(
                vertex,
                index,
                None if vertex.is_in_program or plan.is_batch else offsets[vertex.slot_sharing_group],
                now_ms,
            )
            for index, vertex in enumerate(plan.vertices)
        ]
        self._by_id = {vertex.plan.id: vertex for vertex in self.vertices}
        self.subtask_count = self.open_count = sum(len(vertex.subtasks) for vertex in self.vertices)
        self.running_count = 0
        self.finished_count = 0
        self._by_manager: dict[str, dict[AttemptId, Execution]] = {}  # deployed and not at their end

    def subtasks(self) -> Iterator[ExecutionVertex]:
        """Return all subtasks, producers before those that read from them."""
        return (subtask for vertex in self.vertices for subtask in vertex.subtasks)

    def subtask(self, key: Subtask) -> ExecutionVertex:
        """Return a subtask by the index of its vertex and its own."""
        return self.vertices[key[0]].subtasks[key[1]]

    def executions(self) -> Iterator[Execution]:
        """Return the newest attempt of each subtask."""
        return (subtask.current for subtask in self.subtasks())

    def execution_of(self, attempt: AttemptId) -> Execution | None:
        """Return an attempt, if it is the newest of its subtask; None for one that is unknown, or of old."""
        vertex = self._by_id.get(attempt.vertex_id)
        if vertex is None or not 0 <= attempt.subtask_index < len(vertex.subtasks):
            return None
        current = vertex.subtasks[attempt.subtask_index].current
        return current if current.attempt.attempt_number == attempt.attempt_number else None

    def step(self, execution: Execution, step: ExecutionStep, now_ms: int) -> ExecutionState:
        """Bring the newest attempt of a subtask into its next state, and return that.

        Raises
        ------
        RuntimeError
            No such step is possible.
        """
        before, after = execution.state, next_state(execution.state, step)
        if after is not before:
            execution.vertex.job_vertex.version += 1
            execution.state = after
            execution.timestamps[after] = now_ms
            self.open_count -= after.is_terminal
            self.running_count += (after is ExecutionState.RUNNING) - (before is ExecutionState.RUNNING)
            self.finished_count += after is ExecutionState.FINISHED
            if after.is_terminal and execution.manager is not None:
                self._by_manager[execution.manager.id].pop(execution.attempt, None)
        return after

    def deploy(self, execution: Execution, manager: Manager, now_ms: int) -> None:
        """Note that an attempt is sent to a task manager."""
        self.step(execution, ExecutionStep.DEPLOY, now_ms)
        execution.vertex.job_vertex.version += 1
        execution.manager = manager
        self._by_manager.setdefault(manager.id, {})[execution.attempt] = execution

    def open_on(self, manager_id: str) -> dict[AttemptId, Execution]:
        """Return the attempts of a task manager that have not ended; do not change the answer."""
        return self._by_manager.get(manager_id, {})

    def reset(self, subtask: ExecutionVertex, now_ms: int) -> Execution:
        """Begin a new attempt of a subtask whose last one has ended, and return it."""
        last = subtask.current
        if not last.state.is_terminal:
            raise RuntimeError(f"{last!r} has not ended: there can be no other attempt beside it")
        subtask.job_vertex.version += 1
        self.open_count += 1
        self.finished_count -= last.state is ExecutionState.FINISHED
        subtask.history.append(last)
        del subtask.history[:-HISTORY_SIZE]
        subtask.current = Execution(subtask, last.attempt.attempt_number + 1, now_ms)
        return subtask.current
