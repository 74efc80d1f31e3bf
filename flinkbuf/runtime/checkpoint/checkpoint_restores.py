"""Deals the latest checkpoint out to new attempts. Flink: SchedulerBase.restoreState."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from flinkbuf.checkpoints.handles import StateHandle
from flinkbuf.checkpoints.locations import parent
from flinkbuf.runtime.checkpoint.checkpoint_config import RestoredCheckpoint
from flinkbuf.runtime.checkpoint.checkpoint_statistics import CheckpointTracker
from flinkbuf.runtime.checkpoint.completed_checkpoints import CompletedCheckpoint, CompletedCheckpoints
from flinkbuf.runtime.checkpoint.state_assignment import StateAssignment
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.scheduler.execution_graph import ExecutionVertex
from flinkbuf.runtime.scheduler.master_actions import ResetSources
from flinkbuf.runtime.scheduler.task_control import TaskControl

TRIES: Final = 3  # beginnings from a checkpoint whose state cannot be read: the storage may recover
_UNREADABLE: Final = ("flinkbuf.errors.CorruptDataError", "builtins.FileNotFoundError")


def _is_of_state(failure: Failure, checkpoint: CompletedCheckpoint) -> bool:
    """Return whether a failure says that a file of this checkpoint, or beside it, is damaged or gone."""
    place = parent(checkpoint.location) if checkpoint.location else "state in memory"
    return failure.type_name in _UNREADABLE and place in failure.message


class CheckpointRestores:
    """Deals the latest checkpoint out to subtasks that begin again.

    Parameters
    ----------
    tasks : TaskControl
    store : CompletedCheckpoints
    tracker : CheckpointTracker
    initial : RestoredCheckpoint or None
        What the job begins with.

    Raises
    ------
    ValueError
        `initial` does not fit the job.
    """

    def __init__(
        self,
        tasks: TaskControl,
        store: CompletedCheckpoints,
        tracker: CheckpointTracker,
        initial: RestoredCheckpoint | None,
    ) -> None:
        self._plan = tasks.graph.plan
        self._outbox = tasks.outbox
        self._store = store
        self._tracker = tracker
        self._begun_count = 0
        self._failed: tuple[int, int, int] = (0, 0, 0)  # checkpoint, the beginning that failed last, how many in a row
        self._assignment: StateAssignment | None = None
        if initial is not None:
            self._assignment = StateAssignment(
                initial.metadata, self._plan, allow_non_restored_state=initial.allow_non_restored_state
            )
            store.begin_with(initial)

    def restore(self, subtasks: list[ExecutionVertex], sources: set[str], is_global: bool, now_ms: int) -> None:
        """Give each subtask its part of the checkpoint, and reset the coordinators of sources.

        Parameters
        ----------
        subtasks : list of ExecutionVertex
            The subtasks that begin again, with their new attempts.
        sources : set of str
            Ids of the vertices that have a coordinator.
        is_global : bool
            Coordinators are made anew; else they only take back what they gave to these subtasks.
        now_ms : int
        """
        self._begun_count += 1
        latest = self._store.latest
        states: dict[str, StateHandle] = {}
        if latest is not None:
            assignment = self._assignment
            if assignment is None or assignment.metadata is not latest.metadata:
                assignment = self._assignment = StateAssignment(latest.metadata, self._plan, is_same_plan=True)
            for subtask in subtasks:
                subtask.current.restore = assignment.restore_of(*subtask.key)
            if is_global:
                states = assignment.coordinator_states()
            self._tracker.restored(latest.id, latest.path, latest.metadata.is_savepoint, now_ms)
        concerned = tuple((each.plan.id, each.index) for each in subtasks if each.plan.id in sources)
        if concerned:
            self._outbox.do(ResetSources(concerned, is_global, None if latest is None else latest.id, states))

    def judged(self, failure: Failure) -> Failure:
        """Return the failure, as final if the same checkpoint failed too often: it stays unreadable."""
        latest = self._store.latest
        if latest is None or not _is_of_state(failure, latest):
            return failure
        checkpoint_id, begun, count = self._failed
        if (checkpoint_id, begun) != (latest.id, self._begun_count):
            count = count + 1 if checkpoint_id == latest.id else 1
            self._failed = latest.id, self._begun_count, count
        if count < TRIES:
            return failure
        older = [each.location for each in self._store.older]
        advice = (
            f"the job has begun {count} times from checkpoint {latest.id} in {latest.location} and cannot read it; "
            "`python -m flinkbuf checkpoint verify` says what is whole; begin from an older one with "
            f"execution.state-recovery.fall-back: true{f', such as {older[-1]}' if older else ''}: what was committed "
            "after it is committed again"
        )
        traceback = failure.traceback and f"{failure.traceback.rstrip()}\n{advice}"
        message = f"{failure.message}; {advice}"
        return replace(failure, message=message, traceback=traceback, can_restart=False, exception=None)
