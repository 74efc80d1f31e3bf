"""All that a task of a pipelined exchange and the driver tell each other. Frozen; one codec writes them as JSON.

They cross the control plane (`flinkbuf.control`), each authenticated. A number of `KINDS` is never used again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flinkbuf.control.message_codec import MessageCodec
from flinkbuf.spark.exchange.summary import TaskFigures

TEXT_LIMIT: Final = 4000  # characters of a failure's text
_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Peer:
    """One task of an exchange, as the others see it: where it listens, and what it calls its partition."""

    index: int
    host: str
    port: int
    partition_id: str  # 120 hexadecimal digits
    process_id: int

    def __str__(self) -> str:
        return f"task {self.index} (process {self.process_id} at {self.host}:{self.port})"

    def is_one_of(self, task_count: int) -> bool:
        """Whether a task of an exchange with so many can be this."""
        is_id = len(self.partition_id) == 120 and _HEX.issuperset(self.partition_id)
        return 0 <= self.index < task_count and 0 < self.port < 65536 and len(self.host) <= 256 and is_id


# ---- from a task


@dataclass(frozen=True)
class Register:
    """A task listens; its first message. It is answered by `Peers`, or `ExchangeFailed`."""

    peer: Peer
    stage: int
    task: int  # Spark's number of it, its ``taskAttemptId``


@dataclass(frozen=True)
class TaskFailed:
    """The task has failed; its last message."""

    reason: str


@dataclass(frozen=True)
class TaskDone:
    """The task has sent and read everything; its last message, answered by `Goodbye`."""

    figures: TaskFigures


# ---- to a task


@dataclass(frozen=True)
class Peers:
    """Where all tasks listen, by index."""

    peers: tuple[Peer, ...]


@dataclass(frozen=True)
class ExchangeFailed:
    """Another task is gone, or Spark runs them all again: why the task is to end."""

    reason: str


@dataclass(frozen=True)
class Goodbye:
    """The driver has what the task counted: now the job may end."""


TaskMessage = Register | TaskFailed | TaskDone
DriverMessage = Peers | ExchangeFailed | Goodbye
KINDS: Final = {
    1: Register,
    2: Peers,
    3: ExchangeFailed,
    4: TaskFailed,
    5: TaskDone,
    6: Goodbye,
}
CODEC: Final = MessageCodec(KINDS)
