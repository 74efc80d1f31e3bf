"""A task's connection to the driver while a pipelined exchange runs: registration, peers, notices, the end.

It stays open as long as the task runs. What fails on one side is told to the other, and a connection that ends without
a last word means that the task, or the driver, has died.
"""

from __future__ import annotations

import contextlib
import time

from flinkbuf.control.control_client import ControlClient
from flinkbuf.errors import CorruptDataError, PeerFailedError, RemoteTransportError
from flinkbuf.spark.exchange.messages import (
    CODEC,
    TEXT_LIMIT,
    DriverMessage,
    ExchangeFailed,
    Peer,
    Peers,
    Register,
    TaskDone,
    TaskFailed,
    TaskMessage,
)
from flinkbuf.spark.exchange.summary import TaskFigures
from flinkbuf.spark.stage.driver_address import DriverAddress

GOODBYE_TIMEOUT_S = 1.0


class Membership:
    """One task's membership in a run. Only the task's thread uses it, between its records.

    Attributes
    ----------
    local_host : str
        The address of this host as the driver sees it: the one to listen at.
    """

    def __init__(self, client: ControlClient) -> None:
        self._client = client
        self.local_host = client.local_host

    @classmethod
    def join(cls, driver: DriverAddress) -> Membership:
        """Connect to the driver; RemoteTransportError if it is out of reach, which says what to open."""
        return cls(driver.connect())

    def register(self, me: Peer, stage: int, task: int) -> tuple[Peer, ...]:
        """Say where this task listens, and wait to learn where the others do.

        Parameters
        ----------
        me : Peer
        stage, task : int
            Spark's stage id and task attempt id: what tells the tasks of one run from those of another.

        Raises
        ------
        PeerFailedError
            If another task failed meanwhile, or the driver refuses this one or is gone.
        """
        self._send(Register(me, stage, task))
        while True:
            answer = self._receive(None)
            if isinstance(answer, Peers):
                return answer.peers

    def check(self) -> None:
        """Look whether the driver says that another task is gone; PeerFailedError with that task, and why."""
        while self._receive(0) is not None:
            pass

    def wait_for_notice(self, timeout_s: float) -> None:
        """Give the driver some time to say who is gone: it often knows better than a broken connection."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            self._receive(left)

    def fail(self, reason: str) -> None:
        """Say that this task failed, for the driver to tell the others, and close the connection."""
        self._send(TaskFailed(reason[:TEXT_LIMIT]))
        self.close()

    def finish(self, figures: TaskFigures) -> None:
        """Say that this task has sent and read everything, with its counts, and close the connection."""
        self._send(TaskDone(figures))
        with contextlib.suppress(PeerFailedError):
            self._receive(GOODBYE_TIMEOUT_S)  # the driver's goodbye: now it has the counts, and the job may end
        self.close()

    def close(self) -> None:
        """Close the connection; without `fail` or `finish` before, that reads as this task's death. Idempotent."""
        self._client.close()

    def _send(self, message: TaskMessage) -> None:
        with contextlib.suppress(RemoteTransportError):  # a driver that is gone is found out by `check`
            self._client.send(CODEC.encode(message))

    def _receive(self, timeout_s: float | None) -> DriverMessage | None:
        """Return the driver's next message, None if there is none; what it says of another task's end is raised."""
        try:
            data = self._client.receive(timeout_s)
            message = None if data is None else CODEC.decode(data)
        except (RemoteTransportError, CorruptDataError) as error:
            raise PeerFailedError(
                f"the driver ended its connection to this task; it has stopped, or has given up the exchange: {error}"
            ) from None
        if isinstance(message, ExchangeFailed):
            raise PeerFailedError(message.reason)  # the driver waits itself until Spark knows of it
        return message
