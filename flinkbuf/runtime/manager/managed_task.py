"""One attempt of a subtask, as its task manager has it: what it writes, how it is told to end, what it reports.

What runs it, and on which thread, is for its kinds: `running_task`, and the task of an exchange on Spark. Flink: Task.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.errors import CancelTaskError, PartitionNotFoundError
from flinkbuf.log import logger
from flinkbuf.network.partition import ResultPartition
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.runtime.manager.memory_manager import MemoryManager
from flinkbuf.runtime.manager.shuffle import Shuffle
from flinkbuf.runtime.manager.task_executor import NOT_READY, TaskReport
from flinkbuf.runtime.protocol.deployment import AttemptId, TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import NO_SESSION, CheckpointRefusal, Json, TaskStateReport
from flinkbuf.streaming.chain.operator_config import TaskInfo
from flinkbuf.streaming.task.task_state import TaskState
from flinkbuf.streaming.time.clock import Clock


@dataclass(frozen=True)
class TaskSurroundings:
    """What all tasks of a task manager share.

    Attributes
    ----------
    bundle : JobBundle
    shuffle : Shuffle
    clock : Clock
        Processing time.
    tell : callable
        Called with the reports of tasks; from any thread.
    target_io : object or None
        What the target gives operators of its own.
    """

    bundle: JobBundle
    shuffle: Shuffle
    clock: Clock
    tell: Callable[[TaskReport], None]
    target_io: object | None


class ManagedTask(ABC):
    """An attempt from its descriptor to its last report. Any thread calls it, but for `start`.

    Parameters
    ----------
    descriptor : TaskDeploymentDescriptor
    surroundings : TaskSurroundings
    memory : MemoryManager
        Of its slot.

    Notes
    -----
    What goes wrong is told as the task's failure. The last `TaskStateReport` is given when all is freed.
    """

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, surroundings: TaskSurroundings, memory: MemoryManager
    ) -> None:
        self.descriptor = descriptor
        self.attempt = descriptor.attempt
        self._surroundings = surroundings
        self._memory = memory
        self._owners: list[tuple[AttemptId, str]] = []  # of memory
        self._lock = threading.Lock()
        self._is_canceled = False
        self._partitions: list[ResultPartition] = []
        self._info = _info_of(descriptor, surroundings.bundle)

    # ---- the control thread

    @abstractmethod
    def start(self) -> None:
        """Make the partitions, so that tasks started later find them, and have the task run."""

    def _start_with(self, begin: Callable[[], object]) -> None:
        try:
            for descriptor in self.descriptor.partitions:
                self._partitions.append(self._surroundings.shuffle.create_partition(self.attempt, descriptor))
            begin()
        except Exception as error:  # no buffers, or no thread is left
            self._end_unmade(error)

    @abstractmethod
    def cancel(self) -> None:
        """Cancel the task."""

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """End the task with this error, which the task manager has found."""

    @abstractmethod
    def end(self) -> None:
        """Cancel the task, and do what helps it to come out."""

    @abstractmethod
    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the task's work; return whether it has ended."""

    @property
    @abstractmethod
    def thread(self) -> threading.Thread:
        """Return the thread that runs the task."""

    def interrupt(self) -> bool:
        """Interrupt the user's function of a cancelled task; return whether it was."""
        return False

    @property
    def place(self) -> str | None:
        """Return the user's function that the task's thread is in, with its line; None: no function in Python code."""
        return None

    @abstractmethod
    def deliver(self, operator_id: str, payload: bytes) -> None:
        """Give a coordinator's event to an operator of the task, if it has one that wants it."""

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int, options: CheckpointOptions) -> None:
        """Take a checkpoint that begins at this task, or refuse it."""
        self._surroundings.tell(CheckpointRefusal(NO_SESSION, self.attempt, checkpoint_id, NOT_READY))

    @abstractmethod
    def notify_checkpoint(self, checkpoint_id: int, is_complete: bool, latest_completed_id: int) -> None:
        """Notify the task: checkpoint complete, or aborted."""

    @abstractmethod
    def metrics(self) -> Json:
        """Return the task's figures now."""

    def accumulators(self) -> Json:
        """Return the accumulators of the task's functions, as they are now."""
        return {}

    # ---- its end

    def _tell_state(
        self,
        state: TaskState,
        failure: Failure | None = None,
        accumulators: Json | None = None,
        metrics: Json | None = None,
    ) -> None:
        report = TaskStateReport(NO_SESSION, self.attempt, state.value, failure, accumulators or {}, metrics or {})
        self._surroundings.tell(report)

    def _end_unmade(self, error: BaseException) -> None:
        with self._lock:
            is_canceled = self._is_canceled or isinstance(error, CancelTaskError)
        state = TaskState.CANCELED if is_canceled else TaskState.FAILED
        self._free(state)
        self._tell_state(state, self._failure_of(error))

    def _free(self, state: TaskState) -> None:
        """Free gates and memory; and the partitions, unless the task has written all of them."""
        shuffle = self._surroundings.shuffle
        try:
            if state is TaskState.FINISHED:
                shuffle.release_gates(self.attempt)
            else:
                shuffle.release(self.attempt)
        except BaseException:
            logger.exception("freeing what %s read and wrote has failed", self._info.task_name_with_subtask)
        for owner in self._owners:
            if size := self._memory.release_all(owner):
                logger.debug("operator %s of %s left %d bytes of managed memory", owner[1], self._info.task_name, size)

    def _failure_of(self, error: BaseException) -> Failure:
        failure = Failure.of(error)
        place = {"task_name": self._info.task_name_with_subtask, "subtask_index": str(self._info.subtask_index)}
        # The task that was to write the partition has failed, or was cancelled: its own report says so.
        is_echo = failure.is_echo or isinstance(error, PartitionNotFoundError)
        lost = failure.lost_partition or self._surroundings.shuffle.partition_in(failure.message)
        return replace(failure, location={**place, **failure.location}, is_echo=is_echo, lost_partition=lost)


def _info_of(descriptor: TaskDeploymentDescriptor, bundle: JobBundle) -> TaskInfo:
    return TaskInfo(
        job_id=bundle.job_id,
        job_name=bundle.job_name,
        vertex_id=descriptor.attempt.vertex_id,
        task_name=descriptor.task_name,
        subtask_index=descriptor.attempt.subtask_index,
        parallelism=descriptor.parallelism,
        max_parallelism=descriptor.max_parallelism,
        attempt_number=descriptor.attempt.attempt_number,
        epoch=descriptor.epoch,
    )
