"""A checkpoint under way: which tasks have answered, and the metadata of all answers. Flink: PendingCheckpoint."""

from __future__ import annotations

from enum import Enum
from zlib import crc32

from flinkbuf.checkpoints.handles import (
    CheckpointMetadata,
    OperatorInCheckpoint,
    StateHandle,
    SubtaskState,
    VertexInCheckpoint,
)
from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.runtime.checkpoint.checkpoint_plan import CheckpointPlan
from flinkbuf.runtime.checkpoint.checkpoint_requests import CheckpointRequest
from flinkbuf.runtime.checkpoint.completed_checkpoints import CompletedCheckpoint
from flinkbuf.runtime.graph.job_plan import OperatorPlan, VertexPlan
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.scheduler.execution_graph import ExecutionGraph, ExecutionJobVertex
from flinkbuf.runtime.scheduler.execution_state import ExecutionState

_FINISHED = SubtaskState(is_finished=True)


class Stage(Enum):
    """The progress of a pending checkpoint."""

    COORDINATORS = "the coordinators of sources give their state"
    TASKS = "tasks give theirs"
    STORING = "the metadata is written"


class UnionStateError(Exception):
    """A task has finished, and with it its part of a union list: a checkpoint could not have all of the list."""


class PendingCheckpoint:
    """A checkpoint under way.

    Parameters
    ----------
    id : int
    request : CheckpointRequest
    options : CheckpointOptions
    plan : CheckpointPlan
    now_ms, due_ms : int
        When it began, and when it is given up.

    Attributes
    ----------
    stage : Stage
    missing : dict
        Tasks that have not answered, by attempt.
    states : dict
        What the others gave, by attempt.
    coordinator_states : dict
        By operator id.
    due_ms : int or None
        When it times out; None: it has, but the storage has not answered yet whether it counts.
    completed : CompletedCheckpoint or None
        What it becomes, while it is stored.
    """

    def __init__(
        self,
        id: int,
        request: CheckpointRequest,
        options: CheckpointOptions,
        plan: CheckpointPlan,
        now_ms: int,
        due_ms: int,
    ) -> None:
        self.id = id
        self.request = request
        self.kind = options.snapshot_kind
        self.options = options
        self.plan = plan
        self.timestamp_ms = now_ms
        self.due_ms: int | None = due_ms
        self.stage = Stage.COORDINATORS
        self.missing = dict(plan.to_wait_for)
        self.states: dict[AttemptId, SubtaskState] = {}
        self._finished_count = 0
        self.coordinator_states: dict[str, bytes] = {}
        self.completed: CompletedCheckpoint | None = None

    @property
    def is_complete(self) -> bool:
        """Return whether all tasks have answered, and the checkpoint is to be stored."""
        return not self.missing and self.stage is Stage.TASKS

    @property
    def can_be_subsumed(self) -> bool:
        """Return whether a later checkpoint makes this one needless; a user waits for a savepoint."""
        return not self.kind.is_savepoint and not self.request.is_forced

    def acknowledge(self, attempt: AttemptId, state: SubtaskState) -> None:
        """Take the answer of a task that was waited for."""
        del self.missing[attempt]
        self.states[attempt] = state
        self._finished_count += state.is_finished

    @property
    def is_last(self) -> bool:
        """Return whether all tasks answered after their operators had finished: no record comes after it."""
        return self._finished_count == len(self.plan.to_wait_for)

    def metadata(self, graph: ExecutionGraph) -> CheckpointMetadata:
        """Return the metadata, now that all tasks have answered.

        Raises
        ------
        UnionStateError
        """
        vertices = [
            VertexInCheckpoint(
                vertex.plan.id,
                vertex.plan.name,
                vertex.plan.parallelism,
                vertex.plan.max_parallelism,
                tuple(self._operator(operator) for operator in vertex.plan.operators),
                self._subtasks(vertex),
            )
            for vertex in graph.vertices
        ]
        plan = graph.plan
        return CheckpointMetadata(
            self.id, self.timestamp_ms, plan.job_id, plan.job_name, self.kind.is_savepoint, tuple(vertices)
        )

    def _operator(self, operator: OperatorPlan) -> OperatorInCheckpoint:
        data = self.coordinator_states.get(operator.id)
        state = None if data is None else StateHandle(len(data), crc32(data), data=data)
        return OperatorInCheckpoint(operator.id, operator.name, operator.uid, state)

    def _subtasks(self, vertex: ExecutionJobVertex) -> tuple[SubtaskState | None, ...]:
        """Return the state of each subtask; one that had finished before has none, and begins as finished."""
        found = []
        for subtask in vertex.subtasks:
            execution = subtask.current
            state = self.states.get(execution.attempt)
            if state is None and execution.state is ExecutionState.FINISHED:
                state = _FINISHED
            found.append(state)
        _check_union_lists(vertex.plan, found)
        return tuple(found)


def _check_union_lists(vertex: VertexPlan, subtasks: list[SubtaskState | None]) -> None:
    finished = [each is not None and each.is_finished for each in subtasks]
    if not any(finished) or all(finished):
        return
    for state in subtasks:
        for operator in () if state is None else state.operators:
            if operator.has_union_lists and not operator.has_alike_unions:
                raise UnionStateError(
                    f"subtask {finished.index(True) + 1} of {len(finished)} of {vertex.name!r} has come to its end, "
                    "and its part of a union list with it: there are no checkpoints until all of them have"
                )
