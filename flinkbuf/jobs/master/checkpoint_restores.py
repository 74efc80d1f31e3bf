"""What new attempts begin with: the latest checkpoint, dealt out. Flink: SchedulerBase.restoreState."""

from __future__ import annotations

from flinkbuf.checkpoints.handles import StateHandle
from flinkbuf.jobs.master.checkpoint_config import RestoredCheckpoint
from flinkbuf.jobs.master.checkpoint_statistics import CheckpointTracker
from flinkbuf.jobs.master.completed_checkpoints import CompletedCheckpoint, CompletedCheckpoints
from flinkbuf.jobs.master.execution_graph import ExecutionVertex
from flinkbuf.jobs.master.master_actions import ResetSources
from flinkbuf.jobs.master.state_assignment import StateAssignment
from flinkbuf.jobs.master.task_control import TaskControl


class CheckpointRestores:
    """Deals the latest checkpoint out to those who begin again.

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
        self._assignment: StateAssignment | None = None
        if initial is not None:
            self._assignment = StateAssignment(
                initial.metadata, self._plan, allow_non_restored_state=initial.allow_non_restored_state
            )
            store.begin_with(initial)

    def restore(self, subtasks: list[ExecutionVertex], sources: set[str], is_global: bool, now_ms: int) -> None:
        """Give each of the subtasks what it begins with, and say where sources go back to.

        Parameters
        ----------
        subtasks : list of ExecutionVertex
            Those that begin again, with their new attempts.
        sources : set of str
            Ids of the vertices that have a coordinator.
        is_global : bool
            Coordinators are made anew; else they only take back what they gave to these subtasks.
        now_ms : int
        """
        latest = self._store.latest
        states: dict[str, StateHandle] = {}
        if latest is not None:
            assignment = self._assignment_of(latest)
            for subtask in subtasks:
                subtask.current.restore = assignment.restore_of(*subtask.key)
            if is_global:
                states = assignment.coordinator_states()
            self._tracker.restored(latest.id, latest.path, latest.metadata.is_savepoint, now_ms)
        concerned = tuple((each.plan.id, each.index) for each in subtasks if each.plan.id in sources)
        if concerned:
            self._outbox.do(ResetSources(concerned, is_global, None if latest is None else latest.id, states))

    def _assignment_of(self, completed: CompletedCheckpoint) -> StateAssignment:
        known = self._assignment
        if known is None or known.metadata is not completed.metadata:
            known = self._assignment = StateAssignment(completed.metadata, self._plan, is_same_plan=True)
        return known
