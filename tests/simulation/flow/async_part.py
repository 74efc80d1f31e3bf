"""What stands for a task's `SnapshotRunner`: slow, failing, or hanging; cut off at any moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flinkbuf.streaming.checkpoint.snapshot_runner import SnapshotJob

if TYPE_CHECKING:
    from simulation.flow.flow_task import FlowTask


class TaskFailure(Exception):
    """What a user's function raises, or a storage."""

    def __init__(self, task: FlowTask, text: str) -> None:
        super().__init__(text)
        self.failure = task.world.failure(f"{task.attempt}: {text}")


class AsyncPart:
    """What is being written for one task, by checkpoint."""

    def __init__(self, task: FlowTask) -> None:
        self._task = task
        self._open: dict[int, SnapshotJob] = {}
        self._when_done: Callable[[], None] | None = None

    def submit(self, job: SnapshotJob) -> None:
        """Write it, some time."""
        world, flow = self._task.world, self._task.flow
        if not self._task.acts():
            return
        self._open[job.checkpoint_id] = job
        is_ill = not world.is_healed
        if is_ill and world.rng.random() < flow.async_hangs:
            return
        fails = is_ill and world.rng.random() < flow.async_fails
        delay_ms = world.between(flow.async_ms if is_ill else (0, 5))
        if is_ill and world.invariants.is_savepoint(job.checkpoint_id):
            delay_ms *= flow.savepoint_factor
        world.agenda.after(delay_ms, self._end, job, fails)

    def _end(self, job: SnapshotJob, fails: bool) -> None:
        if self._open.get(job.checkpoint_id) is not job:
            return
        del self._open[job.checkpoint_id]
        if fails:
            job.failed(TaskFailure(self._task, "writing its state"))
        else:
            job.done(job.write(lambda: False))
        self._look()

    def _look(self) -> None:
        if not self._open and self._when_done is not None:
            self._when_done()

    def finish_first(self, then: Callable[[], None]) -> None:
        """Call `then` when nothing is being written."""
        self._when_done = then
        self._look()

    def cancel(self, checkpoint_id: int) -> None:
        """What was written of it is deleted."""
        self._open.pop(checkpoint_id, None)
        self._look()

    def cancel_all(self) -> None:
        """The task ends, or its process: what has no name yet is lost."""
        self._open.clear()
        self._when_done = None
