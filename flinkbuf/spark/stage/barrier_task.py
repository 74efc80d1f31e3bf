"""What each task of a barrier stage sees to before it meets the others, in jobs and in pipelined exchanges alike."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flinkbuf.config import NetworkConfig
from flinkbuf.control.message_codec import MessageCodec
from flinkbuf.errors import PeerFailedError
from flinkbuf.runtime.protocol.control_link import ControlLink
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import (
    KINDS,
    AcknowledgeReport,
    RegistrationRefused,
    ReleaseManager,
    TaskStateReport,
)
from flinkbuf.streaming.task.task_state import TaskState

if TYPE_CHECKING:
    from flinkbuf.control.control_client import ControlClient

CONNECT_TIMEOUT_S = 30  # to another task: Flink's 120 are long for a stage whose tasks all run
_IN_PART = "again, having kept the output of the others"


@dataclass(frozen=True)
class StageTask:
    """A task of a stage that Spark started on its own says which one it is; before its manager registers."""

    stage: int
    task: int  # Spark's number of it


CODEC: Final = MessageCodec({**KINDS, 64: StageTask})


class WatchedLink(ControlLink):
    """A task manager's link to the driver that notes how the job ends, and the task of this process.

    Spark's task may end well only where the job does: Spark keeps what such a task gave, and runs nothing again if the
    others seem to have ended well, too. The first failure that is the process' own is told to Spark at once; the driver
    tells the others of it when Spark knows.

    Parameters
    ----------
    client : ControlClient

    Attributes
    ----------
    on_failed : callable
        Called with the first failure of a task here that failed by itself, when the driver is about to hear of it.
    on_over : callable
        Called when `is_over` is set.
    reason : str
        Why the task manager is to go, when `is_over` is set.
    is_over, is_heard, is_told : Event
        The driver needs this manager no more, or is gone; it has the last report of a task; that was sent.
    """

    def __init__(self, client: ControlClient) -> None:
        super().__init__(client, CODEC)
        self.on_failed: Callable[[Failure], object] = bool
        self.on_over: Callable[[], object] = bool
        self.reason = ""
        self._is_finished = self._has_failed = False
        self.is_over, self.is_heard, self.is_told = threading.Event(), threading.Event(), threading.Event()

    def send(self, message: object) -> None:
        """Send a message to the driver, and note the last one of a task."""
        super().send(message)
        if isinstance(message, TaskStateReport) and TaskState(message.state).is_terminal:
            self.is_told.set()
            if message.failure is not None and not message.failure.is_echo and not self._has_failed:
                self._has_failed = True
                self.on_failed(message.failure)

    def receive(self, timeout_s: float | None) -> object:
        """Return the driver's next message, and note what it says of the end."""
        try:
            message = super().receive(timeout_s)
        except Exception as error:
            gone = "the driver ended its connection to this task; it has stopped, or has given up"
            self._end(f"{gone} the exchange: {error}")
            raise
        if isinstance(message, AcknowledgeReport):
            self.is_heard.set()
        elif isinstance(message, (RegistrationRefused, ReleaseManager)):
            self._is_finished |= isinstance(message, ReleaseManager) and message.is_finished
            self._end(message.reason)
        return message

    def check_finished(self, job_name: str, reason: str) -> None:
        """Raise why Spark's task fails, unless the driver has said that the job has finished.

        That all tasks of this process have is not enough: others may have failed, or were never deployed.

        Raises
        ------
        PeerFailedError
            It has not; where a task here failed by itself, Spark's thread has that failure already.
        """
        if not self._is_finished:
            raise PeerFailedError(f"job {job_name!r}: {reason}")

    def _end(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.is_over.set()
        self.is_heard.set()
        self.on_over()


def this_task() -> StageTask:
    """Return which task this is."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return StageTask(context.stageId(), context.taskAttemptId())


def check_all_run(task_count: int, tasks: str, work: str, where: str = "") -> None:
    """Refuse to run if Spark runs only some tasks of the stage.

    Where a task succeeds at the moment when another fails, or an executor is lost with some of the shuffle's files,
    Spark starts the stage again without those whose output it has. A task that fails has it drop them all, so the
    attempt after this one is whole.

    Parameters
    ----------
    task_count : int
        Tasks of the whole stage.
    tasks, work : str
        What the error calls all of them, and what they do together.
    where : str, optional
        What it begins with.

    Raises
    ------
    PeerFailedError
        If there are others.
    """
    from pyspark import BarrierTaskContext

    count = len(BarrierTaskContext.get().getTaskInfos())
    if count != task_count:
        raise PeerFailedError(
            f"{where}Spark has started {count} of {tasks} {_IN_PART}; {work} is computed whole or not at all. Spark "
            "starts all of them after this failure, within spark.stage.maxConsecutiveAttempts"
        )


def is_refused_part(reason: str) -> bool:
    """Return whether `check_all_run` is why a task has failed, so that no function of a user has run in it."""
    return _IN_PART in reason


def data_plane(config: NetworkConfig | None, secret: bytes) -> NetworkConfig:
    """Return how the tasks send each other records."""
    config = config or NetworkConfig()
    if config.netty_client_connect_timeout_s is None:
        config = config.replace(netty_client_connect_timeout_s=CONNECT_TIMEOUT_S)
    # The environment lives no longer than the task, and neither do its connections.
    return config.replace(tcp_connection_enable_reuse_across_jobs=False, auth=config.auth or secret)
