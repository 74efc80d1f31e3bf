"""One attempt of a subtask on a thread of its own: made there, run there, and all that it has freed at its end.

Flink: Task.run, TaskExecutor.submitTask.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Final

from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.log import logger
from flinkbuf.runtime.manager.coordinator_proxy import CoordinatorProxy
from flinkbuf.runtime.manager.managed_task import ManagedTask, TaskSurroundings
from flinkbuf.runtime.manager.memory_manager import MemoryManager, OperatorMemory
from flinkbuf.runtime.manager.task_log import task_in_log
from flinkbuf.runtime.protocol.deployment import TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.messages import (
    NO_SESSION,
    CheckpointAcknowledgement,
    CheckpointRefusal,
    EndOfDataReport,
    Json,
    OperatorEventReport,
)
from flinkbuf.streaming.chain.operator_config import OperatorConfig
from flinkbuf.streaming.chain.operator_context import MailboxExecutor, OperatorContext
from flinkbuf.streaming.chain.operator_setup import make_context
from flinkbuf.streaming.sources.interrupts import function_of, interrupt_function, take_interrupt
from flinkbuf.streaming.task.task import Task
from flinkbuf.streaming.task.task_events import (
    CheckpointAcknowledged,
    CheckpointDeclined,
    EndOfDataReached,
    TaskEvent,
    TaskStateChanged,
)

FIRST_INTERRUPT_S: Final = 0.1  # a function that returns by itself does so in this time
LAST_WARNING_S: Final = 1.0  # after the first interrupt
ANYWHERE: Final = "/"  # a storage reads and writes any file whose whole path it is given


class RunningTask(ManagedTask):
    """An attempt that has a thread of its own, and a chain of operators; parameters are those of `ManagedTask`."""

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, surroundings: TaskSurroundings, memory: MemoryManager
    ) -> None:
        super().__init__(descriptor, surroundings, memory)
        self._proxies: dict[str, CoordinatorProxy] = {}
        self._task: Task | None = None
        self._making: int | None = None  # the task's thread, while it makes the task
        self._is_interrupted = False  # cancelled while the task was made
        self._thread = threading.Thread(target=self._run, name=self._info.task_name_with_subtask, daemon=True)

    # ---- the control thread -----------------------------------------------------------------------------

    def start(self) -> None:
        """Make the partitions, so that tasks started later find them, and start the thread."""
        self._start_with(self._thread.start)

    def cancel(self) -> None:
        """Cancel the task; may call cancel() of a user's source, which takes as long as it likes."""
        with self._lock:
            self._is_canceled = True
            task = self._task
        if task is not None:
            task.cancel()

    def fail(self, error: BaseException) -> None:
        """End the task with this error, which the task manager has found."""
        task = self._task
        if task is not None:
            task.fail(error)

    def end(self) -> None:
        """Call `cancel`, interrupt a function that does not return soon, and wait until the task has ended or was.

        What an interrupt does not reach, such as a function that sleeps, is told: which function, on which line.
        """
        self.cancel()
        if self._surroundings.bundle.settings.task_cancellation_interval_ms == 0:
            return  # nothing is ever interrupted
        while not self.join(FIRST_INTERRUPT_S):
            if self.interrupt():
                break
        if not self.join(LAST_WARNING_S) and (place := self.place) is not None:
            logger.warning("%s was cancelled, but does not end: it is in %s", self.descriptor.task_name, place)

    def interrupt(self) -> bool:
        """Raise CancelTaskError in the running user's function of a cancelled task; return whether it was."""
        with self._lock:
            if self._making is not None and self._is_canceled:
                is_interrupted = interrupt_function(self._making)
                self._is_interrupted |= is_interrupted
                return is_interrupted
            task = self._task
        return task is not None and task.interrupt()

    @property
    def place(self) -> str | None:
        """Return the user's function that the task's thread is in, with its line; None: no function in Python code."""
        return function_of(self._thread.ident or 0)

    def deliver(self, operator_id: str, payload: bytes) -> None:
        """Give a coordinator's event to an operator of the task."""
        proxy = self._proxies.get(operator_id)
        if proxy is not None:
            proxy.deliver(payload)

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int, options: CheckpointOptions) -> None:
        """Take a checkpoint that begins at this task."""
        task = self._task
        if task is None or not task.trigger_checkpoint(checkpoint_id, timestamp_ms, options):
            super().trigger_checkpoint(checkpoint_id, timestamp_ms, options)

    def notify_checkpoint(self, checkpoint_id: int, is_complete: bool, latest_completed_id: int) -> None:
        """Notify the task: checkpoint complete, or aborted."""
        task = self._task
        if task is None:
            return
        if is_complete:
            task.notify_checkpoint_complete(checkpoint_id)
        else:
            task.notify_checkpoint_aborted(checkpoint_id, latest_completed_id)

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the task's thread; return whether it has ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def thread(self) -> threading.Thread:
        """Return the task's thread."""
        return self._thread

    def metrics(self) -> Json:
        """Return the task's figures now."""
        task = self._task
        return {} if task is None else asdict(task.metrics)

    def accumulators(self) -> Json:
        """Return the accumulators of the task's functions, as they are now."""
        task = self._task
        return {} if task is None else task.accumulators()

    # ---- its own thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        with task_in_log(self._info):
            try:
                try:
                    with self._lock:
                        self._making = threading.get_ident()
                    task = self._make()
                finally:
                    self._refuse_interrupts()
            except BaseException as error:
                self._refuse_interrupts()
                self._end_unmade(error)
                return
            with self._lock:
                self._task = task
                is_canceled = self._is_canceled
            if is_canceled:
                task.cancel()
            task.run()

    def _refuse_interrupts(self) -> None:
        """Drop an interrupt that is on its way: from here on the task handles its cancellation itself."""
        with self._lock:
            self._making = None
        if self._is_interrupted:
            take_interrupt()
            self._is_interrupted = False

    def _make(self) -> Task:
        """Unpickle the user's functions, and make gates: each may take its time, and fail."""
        around, descriptor = self._surroundings, self.descriptor
        chain = around.bundle.chain_of(self.attempt.vertex_id).copy()
        gates = [around.shuffle.create_gate(self.attempt, each) for each in descriptor.gates]
        # A job that keeps its state at the job master may begin from files all the same, and write a savepoint.
        storage = storage_of(around.bundle.settings.checkpoint_directory or ANYWHERE)
        return Task(
            self._info,
            chain,
            gates,
            self._partitions,
            around.bundle.settings,
            around.clock,
            restore=descriptor.restore,
            storage=storage,
            report=self._reported,
            make_context=self._make_context,
            io_manager=around.shuffle.io_manager,
        )

    def _make_context(self, *, config: OperatorConfig, mailbox: MailboxExecutor, **rest: object) -> OperatorContext:
        """Make the context of an operator; a source's also has its coordinator."""
        owner, proxy = (self.attempt, config.operator_id), None
        self._owners.append(owner)
        if hasattr(config.factory, "create_coordinator"):

            def send(payload: bytes) -> None:
                self._surroundings.tell(OperatorEventReport(NO_SESSION, self.attempt, config.operator_id, payload))

            proxy = self._proxies[config.operator_id] = CoordinatorProxy(send, mailbox)
        make: Callable[..., OperatorContext] = make_context
        return make(
            config=config,
            mailbox=mailbox,
            coordinator=proxy,
            memory=OperatorMemory(self._memory, owner),
            target_io=self._surroundings.target_io,
            **rest,
        )

    # ---- its end ----------------------------------------------------------------------------------------

    def _reported(self, event: TaskEvent) -> None:
        """Pass on an event of the task; on its thread, its snapshots' thread, or where it was cancelled early."""
        tell = self._surroundings.tell
        if isinstance(event, CheckpointAcknowledged):
            tell(CheckpointAcknowledgement(NO_SESSION, self.attempt, event.checkpoint_id, event.state, event.metrics))
        elif isinstance(event, CheckpointDeclined):
            failure = None if event.error is None else self._failure_of(event.error)
            tell(CheckpointRefusal(NO_SESSION, self.attempt, event.checkpoint_id, event.reason, failure))
        elif isinstance(event, EndOfDataReached):
            tell(EndOfDataReport(NO_SESSION, self.attempt))
        elif isinstance(event, TaskStateChanged):
            self._changed(event)

    def _changed(self, event: TaskStateChanged) -> None:
        if not event.state.is_terminal:
            # With what functions registered in open(): two kinds of one name are found before anything is written.
            self._tell_state(event.state, accumulators=self.accumulators())
            return
        metrics, accumulators = self.metrics(), self.accumulators()
        self._free(event.state)
        failure = None if event.error is None else self._failure_of(event.error)
        self._tell_state(event.state, failure, accumulators, metrics)
