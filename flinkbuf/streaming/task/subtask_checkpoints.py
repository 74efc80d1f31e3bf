"""A task's part of each checkpoint: the barrier goes on, the state is taken, and is written away meanwhile.

All on the task's thread, but for what says so. Flink: SubtaskCheckpointCoordinatorImpl.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from flinkbuf.checkpoints.failure_reason import CheckpointFailureReason
from flinkbuf.checkpoints.handles import SubtaskState
from flinkbuf.checkpoints.options import CheckpointMetrics, CheckpointOptions
from flinkbuf.log import logger
from flinkbuf.network.events import AlignmentType, CancelCheckpointMarker, CheckpointBarrier, Event
from flinkbuf.streaming.chain.chain import OperatorChain
from flinkbuf.streaming.chain.metrics import NS_PER_MS
from flinkbuf.streaming.chain.operator_config import ExecutionSettings, TaskInfo
from flinkbuf.streaming.checkpoint.barrier_actions import TakeCheckpoint
from flinkbuf.streaming.checkpoint.barriers import kind_of, options_of, overtaking, times_out_at
from flinkbuf.streaming.checkpoint.snapshot_runner import SnapshotJob, SnapshotRunner
from flinkbuf.streaming.checkpoint.task_snapshot import TaskStateSnapshot
from flinkbuf.streaming.checkpoint.task_storage import TaskStorage
from flinkbuf.streaming.task.task_events import CheckpointAcknowledged, CheckpointDeclined, TaskEvent
from flinkbuf.streaming.time.processing_time import TaskTimerService

if TYPE_CHECKING:
    from flinkbuf.streaming.state.snapshot import OperatorSnapshot
    from flinkbuf.streaming.time.processing_time import TimerHandle

MAX_ABORTED = 128  # checkpoints that were given up before they came here
SLOW_SYNC_MS = 500  # the task does nothing else meanwhile
MAX_SETTLE_PAUSE_MS = 50  # how often it is asked, at least, whether a barrier has left all output queues


class InFlight(Protocol):
    """What is under way between this task and others: `TaskChannelState`."""

    def broadcast(self, barrier: CheckpointBarrier) -> None:
        """Send a barrier on; an unaligned one overtakes what is queued."""

    def convert_output(self, checkpoint_id: int) -> bool:
        """Let a barrier that is still queued overtake."""

    def is_output_settled(self, checkpoint_id: int) -> bool:
        """Return whether no buffer is left that the barrier can overtake."""

    def start_input(self, checkpoint_id: int) -> bool:
        """Keep the records before barriers that have not come; False: a newer checkpoint's barrier has come."""

    def stop_input(self, checkpoint_id: int) -> None:
        """End keeping records: all barriers are here."""

    def take(self, checkpoint_id: int) -> tuple[Sequence[tuple[int, int, bytes]], Sequence[tuple[int, int, bytes]]]:
        """Return the buffers that belong to the checkpoint, of inputs and of outputs."""

    def size(self, checkpoint_id: int) -> int:
        """Return how many bytes the checkpoint has so far."""

    def abort(self, checkpoint_id: int) -> None:
        """Forget this checkpoint, and older ones."""


@dataclass
class TaskProgress:
    """The progress of a task."""

    is_running: bool = False
    has_ended_data: bool = False  # its operators are finished
    is_drained: bool = False  # ... since nothing will ever come; else the job goes on from a savepoint


@dataclass
class _Taken:
    """A snapshot with buffers still under way."""

    snapshot: TaskStateSnapshot
    barrier: CheckpointBarrier
    metrics: CheckpointMetrics
    waits_for_input: bool
    waits_for_output: bool
    pause_ms: int = 1  # until it is seen again whether the barrier has left
    timer: TimerHandle | None = None


class SubtaskCheckpoints:
    """Takes checkpoints of one task and remembers how they ended.

    Parameters
    ----------
    info : TaskInfo
    chain : OperatorChain
    broadcast : callable
        Sends an event to all consumers of the task.
    progress : TaskProgress
        Kept up to date by the task.
    storage : TaskStorage
    report : callable
        Given `CheckpointAcknowledged` and `CheckpointDeclined`, on the thread where it happens.
    timers : TaskTimerService
    ticks : callable
        Nanoseconds of a clock that never jumps.
    fail : callable
        Given the error of a state that holds a value that cannot be written; on the thread that writes.

    Attributes
    ----------
    in_flight : InFlight or None
        None: no barrier of this job overtakes anything. Set before the task runs.
    completed_id : int
        The latest checkpoint that counts.
    final_id : int or None
        The first one that was taken after the operators were finished.
    synchronous_id : int or None
        The savepoint that the task ends with.
    """

    def __init__(
        self,
        info: TaskInfo,
        chain: OperatorChain,
        broadcast: Callable[[Event], None],
        progress: TaskProgress,
        storage: TaskStorage,
        report: Callable[[TaskEvent], None],
        timers: TaskTimerService,
        ticks: Callable[[], int],
        fail: Callable[[BaseException], None],
    ) -> None:
        self.completed_id = 0
        self.final_id: int | None = None
        self.synchronous_id: int | None = None
        self.in_flight: InFlight | None = None
        self.last_metrics: CheckpointMetrics | None = None  # of the last one that it began to write
        self.runner = SnapshotRunner(f"{info.task_name_with_subtask} snapshots")
        self._info = info
        self._chain = chain
        self._broadcast = broadcast
        self._progress = progress
        self._storage = storage
        self._report = report
        self._timers = timers
        self._ticks = ticks
        self._fail = fail
        self._last_id = 0
        self._aborted: set[int] = set()  # that were given up before their barrier came
        self._taken: dict[int, _Taken] = {}

    # ---- taking one -------------------------------------------------------------------------------------

    def take(self, action: TakeCheckpoint, bytes_processed: int = 0) -> TaskStateSnapshot | None:
        """Send the barrier on, take the operators' state and have it written; None if it is not to be.

        Raises
        ------
        Exception
            What an operator has raised: the task fails then, since half of its state may have changed.
        """
        barrier = action.barrier
        if barrier.alignment is AlignmentType.FORCED_ALIGNED and self.in_flight is not None:
            barrier = overtaking(barrier)  # only the edge that it came by had it wait
        checkpoint_id = barrier.checkpoint_id
        if not self._is_due(checkpoint_id):
            return None
        if kind_of(barrier).is_synchronous:
            self.synchronous_id = checkpoint_id
        if self._progress.has_ended_data and self.final_id is None:
            self.final_id = checkpoint_id
        start_ns = self._ticks()
        self._chain.prepare_snapshot_pre_barrier(checkpoint_id)
        self._send(barrier)  # before the state is taken: those behind can begin
        snapshot = self._take_state(checkpoint_id)
        metrics = CheckpointMetrics(
            start_delay_ms=action.start_delay_ms,
            alignment_ms=action.alignment_ms or 0,
            sync_ms=(self._ticks() - start_ns) // NS_PER_MS,
            bytes_processed_during_alignment=bytes_processed,
            is_unaligned=barrier.alignment is AlignmentType.UNALIGNED,
        )
        self._keep(_Taken(snapshot, barrier, metrics, action.alignment_ms is None, self._can_overtake_later(barrier)))
        return snapshot

    def _is_due(self, checkpoint_id: int) -> bool:
        """Return whether to take the checkpoint; else downstream tasks are told not to wait, unless they know."""
        if checkpoint_id <= self._last_id:
            logger.debug("%s: checkpoint %d is out of order", self._info.task_name_with_subtask, checkpoint_id)
            return False
        self._last_id = checkpoint_id
        is_running, is_aborted = self._progress.is_running, checkpoint_id in self._aborted
        self._aborted = {other for other in self._aborted if other > checkpoint_id}
        if is_aborted:
            self._broadcast(CancelCheckpointMarker(checkpoint_id))
        elif not is_running:
            self._decline(checkpoint_id, CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY.name)
        return is_running and not is_aborted

    def _send(self, barrier: CheckpointBarrier) -> None:
        if self.in_flight is None:
            self._broadcast(barrier)
        else:
            self.in_flight.broadcast(barrier)

    def _take_state(self, checkpoint_id: int) -> TaskStateSnapshot:
        """Return references to the state of all operators, which the task may change again afterwards."""
        operators: dict[str, OperatorSnapshot] = {}
        slowest = ("", 0)
        before_ns = self._ticks()
        try:
            for config, state in self._chain.snapshot_state(checkpoint_id):
                operators[config.operator_id] = state
                now_ns = self._ticks()
                slowest = max(slowest, (config.name, now_ns - before_ns), key=lambda each: each[1])
                before_ns = now_ns
        except BaseException:
            _release(operators)
            raise
        if slowest[1] >= SLOW_SYNC_MS * NS_PER_MS:
            logger.warning(
                "%s: checkpoint %d has stopped the task for more than %d ms: taking references to the state of %s took "
                "%d ms. A snapshot_state() that copies or computes much is better done as records come.",
                self._info.task_name_with_subtask,
                checkpoint_id,
                SLOW_SYNC_MS,
                slowest[0],
                slowest[1] // NS_PER_MS,
            )
        return TaskStateSnapshot(checkpoint_id, operators, is_finished=self._progress.is_drained)

    # ---- what is still under way ------------------------------------------------------------------------

    def _can_overtake_later(self, barrier: CheckpointBarrier) -> bool:
        return self.in_flight is not None and times_out_at(barrier) is not None

    def _keep(self, taken: _Taken) -> None:
        self._taken[taken.snapshot.checkpoint_id] = taken
        self._settle_output(taken)
        self._write_if_settled(taken)

    def _settle_output(self, taken: _Taken) -> None:
        """See whether the barrier has left all queues, and at its timeout let it overtake."""
        deadline_ms = times_out_at(taken.barrier)
        if not taken.waits_for_output or self.in_flight is None or deadline_ms is None:
            return
        checkpoint_id, now_ms = taken.snapshot.checkpoint_id, self._timers.now_ms()
        if self.in_flight.is_output_settled(checkpoint_id):
            taken.waits_for_output = False
        elif now_ms >= deadline_ms:
            has_overtaken = self.in_flight.convert_output(checkpoint_id)
            taken.metrics = replace(taken.metrics, is_unaligned=taken.metrics.is_unaligned or has_overtaken)
            taken.waits_for_output = False
        else:
            at_ms = min(deadline_ms, now_ms + taken.pause_ms)
            taken.pause_ms = min(2 * taken.pause_ms, MAX_SETTLE_PAUSE_MS)
            taken.timer = self._timers.register_timer(at_ms - 1, lambda timestamp_ms: self._look_again(taken))

    def _look_again(self, taken: _Taken) -> None:
        if self._taken.get(taken.snapshot.checkpoint_id) is taken:
            self._settle_output(taken)
            self._write_if_settled(taken)

    def begin_input(self, checkpoint_id: int) -> bool:
        """Keep what comes before the barriers that have not come; False: the checkpoint cannot be taken any more."""
        return self.in_flight is not None and self.in_flight.start_input(checkpoint_id)

    def end_input(self, checkpoint_id: int, alignment_ms: int, bytes_processed: int) -> None:
        """End keeping records: all barriers have come, and the checkpoint has all that was under way."""
        taken = self._taken.get(checkpoint_id)
        if taken is None or self.in_flight is None:
            return
        try:
            self.in_flight.stop_input(checkpoint_id)
        except MemoryError as error:  # more was under way than is kept
            self.give_up(checkpoint_id, CheckpointFailureReason.CHECKPOINT_DECLINED.name, error)
            return
        taken.waits_for_input = False
        taken.metrics = replace(
            taken.metrics, alignment_ms=alignment_ms, bytes_processed_during_alignment=bytes_processed
        )
        self._write_if_settled(taken)

    def _write_if_settled(self, taken: _Taken) -> None:
        if taken.waits_for_input or taken.waits_for_output:
            return
        snapshot, metrics = taken.snapshot, taken.metrics
        del self._taken[snapshot.checkpoint_id]
        if self.in_flight is not None:
            metrics = replace(metrics, bytes_persisted_during_alignment=self.in_flight.size(snapshot.checkpoint_id))
            inputs, outputs = self.in_flight.take(snapshot.checkpoint_id)
            snapshot = replace(snapshot, input_channels=inputs, output_channels=outputs)
        self._write(snapshot, options_of(taken.barrier), metrics)

    # ---- writing it -------------------------------------------------------------------------------------

    def _write(self, snapshot: TaskStateSnapshot, options: CheckpointOptions, metrics: CheckpointMetrics) -> None:
        checkpoint_id, start_ns = snapshot.checkpoint_id, self._ticks()
        self.last_metrics = metrics

        def done(state: SubtaskState) -> None:
            async_ms = (self._ticks() - start_ns) // NS_PER_MS
            self._report(CheckpointAcknowledged(self._info, checkpoint_id, state, replace(metrics, async_ms=async_ms)))

        def failed(error: BaseException) -> None:
            if hasattr(error, "refused_state"):  # the next checkpoint would fail likewise
                self._fail(error)
                return
            reason = CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION.name
            self._report(CheckpointDeclined(self._info, checkpoint_id, reason, error))

        self.runner.submit(
            SnapshotJob(
                checkpoint_id,
                lambda is_cancelled: self._storage.write(snapshot, options, is_cancelled),
                done,
                failed,
                lambda: _release(snapshot.operators),
                self._storage.discard,
            )
        )

    # ---- how they end -----------------------------------------------------------------------------------

    def give_up(self, checkpoint_id: int, reason: str, error: BaseException | None = None) -> None:
        """Abort the checkpoint here: downstream tasks shall not wait for it, and the job master hears why."""
        self._drop(checkpoint_id)
        is_known = checkpoint_id in self._aborted
        self._last_id = max(self._last_id, checkpoint_id)
        if is_known:
            self._broadcast(CancelCheckpointMarker(checkpoint_id))
        else:
            self._decline(checkpoint_id, reason, error)
        self._check_synchronous(checkpoint_id)

    def _decline(self, checkpoint_id: int, reason: str, error: BaseException | None = None) -> None:
        self._broadcast(CancelCheckpointMarker(checkpoint_id))
        self._report(CheckpointDeclined(self._info, checkpoint_id, reason, error))

    def _drop(self, checkpoint_id: int) -> None:
        """Forget the state that was taken for a checkpoint."""
        self.runner.cancel(checkpoint_id)
        if self.in_flight is not None:
            self.in_flight.abort(checkpoint_id)
        taken = self._taken.pop(checkpoint_id, None)
        if taken is not None:
            if taken.timer is not None:
                taken.timer.cancel()
            _release(taken.snapshot.operators)

    def complete(self, checkpoint_id: int) -> None:
        """Notify operators: checkpoint complete; an id that is not above the last one is passed over."""
        if checkpoint_id > self.completed_id:
            self.completed_id = checkpoint_id
            self._chain.notify("notify_checkpoint_complete", checkpoint_id)

    def abort(self, checkpoint_id: int, latest_completed_id: int) -> None:
        """Notify operators: checkpoint aborted. A completion that was missed is told first."""
        self.complete(latest_completed_id)
        self._drop(checkpoint_id)
        if checkpoint_id > self._last_id:
            self._aborted.add(checkpoint_id)
            if len(self._aborted) > MAX_ABORTED:
                self._aborted.discard(min(self._aborted))
        self._chain.notify("notify_checkpoint_aborted", checkpoint_id)
        self._check_synchronous(checkpoint_id)

    def _check_synchronous(self, checkpoint_id: int) -> None:
        if checkpoint_id == self.synchronous_id:
            raise RuntimeError(
                f"savepoint {checkpoint_id}, which {self._info.task_name_with_subtask} was to end with, has failed; "
                f"its sources read no more, so the job begins again"
            )

    def is_over(self, checkpoint_id: int) -> bool:
        """Return whether the checkpoint was taken, or will not be."""
        return checkpoint_id <= self._last_id or checkpoint_id in self._aborted

    @property
    def has_unsettled(self) -> bool:
        """Return whether buffers of a checkpoint are still under way."""
        return bool(self._taken)

    @property
    def is_last_one_complete(self) -> bool:
        """Return whether the checkpoint that the task ends with is complete."""
        if self.synchronous_id is not None:
            return self.completed_id >= self.synchronous_id
        return self.final_id is not None and self.completed_id >= self.final_id

    def may_end(self, settings: ExecutionSettings, is_all_read: Callable[[], bool]) -> bool:
        """Return whether the task, whose input has ended, need not wait for a checkpoint.

        It waits for the savepoint that it ends with, or for a checkpoint after the end of its operators, which commits
        what sinks wrote last; for that one its consumers must also have processed all that it sent (`is_all_read`).
        """
        is_enabled = settings.checkpointing_enabled and settings.checkpoints_after_tasks_finish
        waits = is_enabled and self._progress.has_ended_data
        if not waits and self.synchronous_id is None:
            return True
        if not self.is_last_one_complete or self.has_unsettled:
            return False
        return not waits or is_all_read()

    def close(self) -> None:
        """Give up all snapshots that were not written."""
        for checkpoint_id in list(self._taken):
            self._drop(checkpoint_id)
        self.runner.close()


def _release(operators: Mapping[str, OperatorSnapshot]) -> None:
    """Let the operators change their state in place again."""
    for state in operators.values():
        release = getattr(state, "release", None)
        if release is not None:
            release()
