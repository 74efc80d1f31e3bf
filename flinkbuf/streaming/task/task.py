"""The container around one task's work: its states, its end in every outcome, its cancellation. Flink: Task."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from flinkbuf.checkpoints.handles import TaskRestore
from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.errors import CancelTaskError
from flinkbuf.network.input_gate import InputGate
from flinkbuf.network.partition import ResultPartition
from flinkbuf.streaming.chain.metrics import TaskMetrics
from flinkbuf.streaming.chain.operator_config import ChainConfig, ExecutionSettings, TaskInfo
from flinkbuf.streaming.checkpoint.task_snapshot import TaskStateSnapshot
from flinkbuf.streaming.sources.interrupts import interrupt_function, take_interrupt
from flinkbuf.streaming.task.stream_task import StreamTask, ignore_event
from flinkbuf.streaming.task.task_events import TaskEvent, TaskStateChanged
from flinkbuf.streaming.task.task_state import TaskState, TaskStep, next_state
from flinkbuf.streaming.time.clock import Clock

if TYPE_CHECKING:
    from flinkbuf.checkpoints.storage import CheckpointStorage

INTERRUPT_PAUSE_NS = 1_000_000_000


class Task:
    """Runs one chain of operators between gates and partitions, and frees them whatever happens.

    Parameters
    ----------
    info : TaskInfo
        Which subtask of which job.
    config : ChainConfig
        Its operators, in order.
    gates, partitions : sequence
        What it reads and writes, in the order in which `config` numbers them. They are the task's from now on: gates
        are closed at its end; partitions live on after a clean end until they were read, fail with the task's error,
        or are aborted if it is cancelled.
    settings : ExecutionSettings
        What holds for all tasks of the job.
    clock : Clock
        Processing time. One that jumps has ``subscribe(callback)``, which calls back after each move.
    restore : TaskRestore or TaskStateSnapshot, optional
        What its operators begin with; read from storage on the task's thread.
    storage : CheckpointStorage, optional
        Where its state goes; None: the job master keeps it.
    report : callable, optional
        Called with each `TaskEvent`, on the thread where it happens; it must be short and must not raise.
    options
        As `StreamTask` has them: ``io_manager`` (where sorted inputs put what memory does not hold), ``make_context``,
        ``write_snapshot``, ``read_restore``, ``ticks``, ``seed``.

    Attributes
    ----------
    info : TaskInfo
    error : BaseException or None
        Why it FAILED: the very object that the user's function raised.
    """

    def __init__(
        self,
        info: TaskInfo,
        config: ChainConfig,
        gates: Sequence[InputGate],
        partitions: Sequence[ResultPartition],
        settings: ExecutionSettings,
        clock: Clock,
        *,
        restore: TaskRestore | TaskStateSnapshot | None = None,
        storage: CheckpointStorage | None = None,
        report: Callable[[TaskEvent], None] = ignore_event,
        **options: Any,
    ) -> None:
        self.info = info
        self.error: BaseException | None = None
        self._gates = list(gates)
        self._partitions = list(partitions)
        self._report = report
        self._lock = threading.RLock()  # of the state and of what follows from it; no callback runs under it
        self._state = TaskState.CREATED
        self._changes: deque[TaskStateChanged] = deque()  # that were not reported yet
        self._is_reporting = False
        self._over = threading.Event()
        self._thread: int | None = None  # while it runs
        self._next_interrupt_ns = 0
        self._is_interrupted = False
        self._failure: BaseException | None = None  # from outside
        self._stream_task: StreamTask | None = None
        self._last_metrics = TaskMetrics()
        self._last_accumulators: dict[str, object] = {}

        def make() -> StreamTask:
            given = {"restore": restore, "storage": storage, "report": report, **options}
            return StreamTask(info, config, gates, partitions, settings, clock, **given)

        self._make_stream_task = make

    # ---- states -----------------------------------------------------------------------------------------

    @property
    def state(self) -> TaskState:
        """Return the state of the task."""
        return self._state

    @property
    def is_over(self) -> bool:
        """Return whether the task's thread has ended, and all is freed."""
        return self._over.is_set()

    def wait(self, timeout_ms: int | None = None) -> bool:
        """Wait for the end of the task; return whether it has ended."""
        return self._over.wait(None if timeout_ms is None else timeout_ms / 1000)

    def _step(self, step: TaskStep, error: BaseException | None = None) -> TaskState:
        """Change the state; under the lock. `_tell` comes after it."""
        before, self._state = self._state, next_state(self._state, step)
        if self._state is not before:
            if self._state is TaskState.FAILED:
                self.error = error
            self._changes.append(TaskStateChanged(self.info, self._state, error))
        return self._state

    def _tell(self) -> None:
        """Report changes in their order, one thread for all; without the lock, since reports may take others."""
        while True:
            with self._lock:
                if self._is_reporting or not self._changes:
                    return
                self._is_reporting = True
                change = self._changes.popleft()
            try:
                self._report(change)
            finally:
                with self._lock:
                    self._is_reporting = False
            if change.state.is_terminal:
                self._over.set()

    def _change(self, step: TaskStep, error: BaseException | None = None) -> TaskState:
        with self._lock:
            state = self._step(step, error)
        self._tell()
        return state

    # ---- the task's thread ------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the task on the calling thread to its end; once. Never raises: `state` and `error` say how it ended."""
        with self._lock:
            if self._state.is_terminal and self._thread is None:
                return  # cancelled before it began
            if self._state is not TaskState.CREATED:
                raise RuntimeError(f"a task runs once, this one is {self._state.value}")
            self._thread = threading.get_ident()
            self._step(TaskStep.DEPLOY)
        self._tell()
        error: BaseException | None = None
        try:
            try:
                self._work()
            finally:
                self._refuse_interrupts()
        except BaseException as raised:
            error = raised
        self._end(self._clean_up(error))

    def _work(self) -> None:
        stream_task = self._make_stream_task()
        with self._lock:
            self._stream_task = stream_task
        if self._is_stopping:
            raise CancelTaskError(f"{self.info.task_name_with_subtask} was cancelled before it began")
        self._change(TaskStep.INITIALIZE)
        stream_task.restore()
        self._change(TaskStep.RUN)
        stream_task.invoke()
        stream_task.finish_partitions()

    @property
    def _is_stopping(self) -> bool:
        return self._state is TaskState.CANCELING or self._failure is not None

    def _refuse_interrupts(self) -> None:
        """Drop an interrupt that is on its way: the code that cleans up is not interrupted."""
        with self._lock:
            self._thread = None
        if self._is_interrupted:
            take_interrupt()
            self._is_interrupted = False

    def _clean_up(self, error: BaseException | None) -> BaseException | None:
        """Free all; returns the error that the task ends with."""
        self._refuse_interrupts()
        stream_task = self._stream_task
        if stream_task is not None:
            error = stream_task.clean_up(error)
            self._last_metrics = stream_task.metrics
            self._last_accumulators = stream_task.chain.accumulators.to_json()
        if error is not None:
            self._free(self._failure or error)
        with self._lock:
            self._stream_task = None
        return error

    def _free(self, cause: str | BaseException) -> None:
        """Free gates and partitions; the first cause that a partition is told stays."""
        for partition in self._partitions:
            partition.abort(cause, timeout_ms=0)
        for gate in self._gates:
            gate.close()

    def _end(self, error: BaseException | None) -> None:
        if self._failure is not None:
            self._change(TaskStep.FAIL, self._failure)
        elif error is None:
            self._change(TaskStep.FINISH)
        elif isinstance(error, CancelTaskError):
            self._change(TaskStep.CONFIRM_CANCEL, error)
        else:
            self._change(TaskStep.FAIL, error)

    # ---- any thread -------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """End the task as soon as its thread comes back from its call; at any time, from any thread.

        Returns at once. A function of the user that does not return keeps the task in CANCELING; see `interrupt`.
        """
        self._stop(TaskStep.CANCEL, None)

    def fail(self, error: BaseException) -> None:
        """End the task as FAILED with this error, as `cancel` does; from any thread."""
        self._stop(TaskStep.FAIL, error)

    def _stop(self, step: TaskStep, error: BaseException | None) -> None:
        """Wake the task's thread wherever it waits. The first of `cancel` and `fail` decides the final state."""
        with self._lock:
            if self._state.is_terminal or self._is_stopping:
                return
            is_begun = self._thread is not None
            if not is_begun or error is None:
                self._step(step, error)
            else:
                self._failure = error
            stream_task = self._stream_task
        if stream_task is not None:
            stream_task.cancel()
        cause = error or f"{self.info.task_name_with_subtask} was cancelled"
        if is_begun:
            for partition in self._partitions:
                partition.abort(cause, timeout_ms=0)
        else:
            self._free(cause)
        self._tell()

    def interrupt(self) -> bool:
        """Raise CancelTaskError in the user's function that the task's thread is in, if it was cancelled.

        From any thread. For a function that goes on after `cancel`: call it again every
        ``task.cancellation.interval``. One that waits in a system call is not reached before that returns. Calls within
        a second are one, so that what answers the first is not interrupted itself.

        Returns
        -------
        bool
            Whether a function is, or was, interrupted. The task's own code never is: it comes out by itself.
        """
        with self._lock:
            if self._thread is None or not self._is_stopping:
                return False
            if time.monotonic_ns() < self._next_interrupt_ns:
                return True
            if not interrupt_function(self._thread):
                return False
            self._next_interrupt_ns = time.monotonic_ns() + INTERRUPT_PAUSE_NS
            self._is_interrupted = True
            return True

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int, options: CheckpointOptions) -> bool:
        """Take a checkpoint between two records; the result is reported. False: the task does not run."""
        stream_task = self._stream_task
        return stream_task is not None and stream_task.trigger_checkpoint(checkpoint_id, timestamp_ms, options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> bool:
        """Notify operators: checkpoint complete. False: the task does not run."""
        stream_task = self._stream_task
        return stream_task is not None and stream_task.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed_id: int = 0) -> bool:
        """Notify operators: checkpoint aborted. False: the task does not run."""
        stream_task = self._stream_task
        return stream_task is not None and stream_task.notify_checkpoint_aborted(checkpoint_id, latest_completed_id)

    @property
    def metrics(self) -> TaskMetrics:
        """Return the task's numbers now, or those it ended with."""
        stream_task = self._stream_task
        return self._last_metrics if stream_task is None or self.is_over else stream_task.metrics

    def accumulators(self) -> dict[str, object]:
        """Return the accumulators of the functions, now or at the end; as `AccumulatorRegistry.to_json` gives them."""
        stream_task = self._stream_task
        return self._last_accumulators if stream_task is None else stream_task.chain.accumulators.to_json()
