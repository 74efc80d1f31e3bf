"""The container around one task's work: its states, its end in every outcome, its cancellation. Flink: Task."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

from flinkbuf.errors import CancelTaskError
from flinkbuf.network.events import CheckpointBarrier
from flinkbuf.network.input_gate import InputGate
from flinkbuf.network.partition import ResultPartition
from flinkbuf.streaming.clock import Clock
from flinkbuf.streaming.metrics import TaskMetrics
from flinkbuf.streaming.operator_config import ChainConfig, ExecutionSettings, TaskInfo
from flinkbuf.streaming.stream_task import StreamTask, ignore_event
from flinkbuf.streaming.task_events import TaskEvent, TaskStateChanged
from flinkbuf.streaming.task_snapshot import TaskStateSnapshot
from flinkbuf.streaming.task_state import TaskState, TaskStep, next_state


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
    restore : TaskStateSnapshot, optional
        What its operators begin with.
    report : callable, optional
        Called with each `TaskEvent`, on the thread where it happens; it must be short and must not raise.
    options
        As `StreamTask` has them: ``make_context``, ``barriers``, ``ticks``, ``seed``.

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
        restore: TaskStateSnapshot | None = None,
        report: Callable[[TaskEvent], None] = ignore_event,
        **options: Any,
    ) -> None:
        self.info = info
        self.error: BaseException | None = None
        self._gates = list(gates)
        self._partitions = list(partitions)
        self._report = report
        self._lock = threading.RLock()
        self._state = TaskState.CREATED
        self._over = threading.Event()
        self._thread: int | None = None  # while it runs
        self._failure: BaseException | None = None  # from outside
        self._stream_task: StreamTask | None = None
        self._last_metrics = TaskMetrics()

        def make() -> StreamTask:
            return StreamTask(
                info, config, gates, partitions, settings, clock, restore=restore, report=report, **options
            )

        self._make_stream_task = make

    # ---- states -----------------------------------------------------------------------------------------

    @property
    def state(self) -> TaskState:
        """Where it is in its life."""
        return self._state

    @property
    def is_over(self) -> bool:
        """Whether its thread has come out, and all is freed."""
        return self._over.is_set()

    def wait(self, timeout_ms: int | None = None) -> bool:
        """Wait until it is over; returns whether it is."""
        return self._over.wait(None if timeout_ms is None else timeout_ms / 1000)

    def _step(self, step: TaskStep, error: BaseException | None = None) -> TaskState:
        """Change the state and report it; the lock keeps reports in order."""
        with self._lock:
            before, self._state = self._state, next_state(self._state, step)
            if self._state is TaskState.FAILED and before is not TaskState.FAILED:
                self.error = error
            if self._state is not before:
                self._report(TaskStateChanged(self.info, self._state, error))
            return self._state

    # ---- the task's thread ------------------------------------------------------------------------------

    def run(self) -> None:
        """Run it on the calling thread to its end; once. Never raises: `state` and `error` say how it ended."""
        with self._lock:
            if self._state is not TaskState.CREATED:
                if self._state.is_terminal and self._thread is None:
                    return  # cancelled before it began
                raise RuntimeError(f"a task runs once, this one is {self._state.value}")
            self._thread = threading.get_ident()
            self._step(TaskStep.DEPLOY)
        error: BaseException | None = None
        try:
            self._work()
        except BaseException as raised:
            error = raised
        error = self._clean_up(error)
        self._end(error)

    def _work(self) -> None:
        stream_task = self._make_stream_task()
        with self._lock:
            self._stream_task = stream_task
            is_canceling = self._state is TaskState.CANCELING or self._failure is not None
        if is_canceling:
            raise CancelTaskError(f"{self.info.task_name_with_subtask} was cancelled before it began")
        self._step(TaskStep.INITIALIZE)
        stream_task.restore()
        self._step(TaskStep.RUN)
        stream_task.invoke()
        stream_task.finish_partitions()

    def _clean_up(self, error: BaseException | None) -> BaseException | None:
        """Free all; returns the error that the task ends with. An interrupt that comes late changes nothing."""
        with self._lock:
            self._thread = None  # nobody interrupts any more
        stream_task = self._stream_task
        if stream_task is not None:
            error = stream_task.clean_up(error)
            self._last_metrics = stream_task.metrics
        if error is None:
            return None
        cause = self._failure or error
        is_canceled = self._state is TaskState.CANCELING and self._failure is None
        for partition in self._partitions:
            if not is_canceled:
                partition.fail(cause)
            partition.abort(cause, timeout_ms=0)
        for gate in self._gates:
            gate.close()
        return error

    def _end(self, error: BaseException | None) -> None:
        if self._failure is not None:
            self._step(TaskStep.FAIL, self._failure)
        elif error is None:
            self._step(TaskStep.FINISH)
        elif isinstance(error, CancelTaskError):
            self._step(TaskStep.CONFIRM_CANCEL, error)
        else:
            self._step(TaskStep.FAIL, error)
        self._over.set()

    # ---- any thread -------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Have it end as soon as its thread comes back from what it is in; at any time, from any thread.

        Returns at once. A function of the user that does not return keeps the task in CANCELING; see `interrupt`.
        """
        with self._lock:
            is_begun = self._state is not TaskState.CREATED
            if self._step(TaskStep.CANCEL).is_terminal:
                if not is_begun:
                    self._free_unused()
                return
        self._stop("the task was cancelled")

    def fail(self, error: BaseException) -> None:
        """As `cancel`, but it ends FAILED with this error; from any thread."""
        with self._lock:
            if self._state.is_terminal or self._state is TaskState.CANCELING or self._failure is not None:
                return
            if self._state is TaskState.CREATED:
                self._step(TaskStep.FAIL, error)
                self._free_unused()
                return
            self._failure = error
        self._stop(error)

    def _stop(self, cause: str | BaseException) -> None:
        """Wake its thread wherever it waits."""
        stream_task = self._stream_task
        if stream_task is not None:
            stream_task.cancel()
        for partition in self._partitions:
            partition.abort(cause, timeout_ms=0)

    def _free_unused(self) -> None:
        """It never ran: its consumers must not wait for it."""
        for partition in self._partitions:
            partition.abort(self.error or "the task was cancelled before it began", timeout_ms=0)
        for gate in self._gates:
            gate.close()
        self._over.set()

    def interrupt(self) -> bool:
        """Raise CancelTaskError in the task's thread, at its next instruction of Python; from any thread.

        For a user's function that goes on after `cancel`: call it again every ``task.cancellation.interval``. One that
        waits in a system call is not reached before that returns. Returns whether the task was still running.
        """
        with self._lock:
            if self._thread is None or not (self._state is TaskState.CANCELING or self._failure is not None):
                return False
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(CancelTaskError))
            return True

    def trigger_checkpoint(self, barrier: CheckpointBarrier) -> bool:
        """Have a checkpoint taken between two records; what comes of it is reported. False: it does not run."""
        stream_task = self._stream_task
        return stream_task is not None and stream_task.trigger_checkpoint(barrier)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> bool:
        """Tell its operators that a checkpoint counts. False: it does not run."""
        stream_task = self._stream_task
        return stream_task is not None and stream_task.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed_id: int = 0) -> bool:
        """Tell its operators that a checkpoint will never count. False: it does not run."""
        stream_task = self._stream_task
        return stream_task is not None and stream_task.notify_checkpoint_aborted(checkpoint_id, latest_completed_id)

    @property
    def metrics(self) -> TaskMetrics:
        """Its numbers now, or those it ended with."""
        stream_task = self._stream_task
        return self._last_metrics if stream_task is None or self.is_over else stream_task.metrics
