"""The thread of a task that writes its state: slow, failing, or hanging; cut off at any moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flinkbuf.checkpoints.handles import SubtaskState
from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.jobs.manager import task_actions as tm
from simulation.flow_state import Snapshot

if TYPE_CHECKING:
    from simulation.flow_task import FlowTask


class AsyncPart:
    """What is being written for one task, by checkpoint."""

    def __init__(self, task: FlowTask) -> None:
        self._task = task
        self._open: dict[int, Snapshot] = {}
        self._when_done: Callable[[], None] | None = None

    def begin(self, checkpoint_id: int, snapshot: Snapshot, options: CheckpointOptions) -> None:
        """Write it, some time."""
        world, flow = self._task.world, self._task.flow
        self._open[checkpoint_id] = snapshot
        is_ill = not world.is_healed
        if is_ill and world.rng.random() < flow.async_hangs:
            return
        fails = is_ill and world.rng.random() < flow.async_fails
        delay_ms = world.between(flow.async_ms if is_ill else (0, 5))
        world.agenda.after(delay_ms, self._end, checkpoint_id, options, fails)

    def _end(self, checkpoint_id: int, options: CheckpointOptions, fails: bool) -> None:
        snapshot = self._open.pop(checkpoint_id, None)
        task = self._task
        if snapshot is None:
            return
        if fails:
            failure = task.world.failure(f"{task.attempt}: writing its state")
            task.decline(checkpoint_id, "CHECKPOINT_ASYNC_EXCEPTION", failure)
        else:
            state = task.writer.write(checkpoint_id, snapshot, options)
            task.world.invariants.part_written(task, checkpoint_id, state, snapshot)
            self._acknowledge(checkpoint_id, state)
        if not self._open and self._when_done is not None:
            self._when_done()

    def _acknowledge(self, checkpoint_id: int, state: SubtaskState) -> None:
        self._task.manager.checkpoint_said(tm.CheckpointDone(self._task.attempt, checkpoint_id, state))

    def finish_first(self, then: Callable[[], None]) -> None:
        """Call `then` when nothing is being written."""
        if self._open:
            self._when_done = then
        else:
            then()

    def cancel(self, checkpoint_id: int) -> None:
        """What was written of it is deleted."""
        self._open.pop(checkpoint_id, None)
        if not self._open and self._when_done is not None:
            self._when_done()

    def cancel_all(self) -> None:
        """The task ends."""
        self._open.clear()
        self._when_done = None

    def vanish(self) -> None:
        """The process ends: what has no name yet is lost."""
        self.cancel_all()
