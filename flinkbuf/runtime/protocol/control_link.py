"""The way between a job and a task manager in another process: messages over the control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flinkbuf.control.message_codec import MessageCodec
from flinkbuf.runtime.protocol.messages import KINDS

if TYPE_CHECKING:  # each end needs one of them, and a task manager starts faster without asyncio
    from flinkbuf.control.connection import Connection
    from flinkbuf.control.control_client import ControlClient

CODEC: Final = MessageCodec(KINDS)
LAST_WORDS_S = 1.0  # for the last messages to leave


class ControlLink:
    """The task manager's end: a `ManagerLink` over a `ControlClient`.

    Parameters
    ----------
    client : ControlClient
        Closed by `close`.
    codec : MessageCodec, optional
        Of the messages between job masters and task managers if left out.
    """

    def __init__(self, client: ControlClient, codec: MessageCodec = CODEC) -> None:
        self._client = client
        self._codec = codec

    def send(self, message: object) -> None:
        """Send a message to the job; from any thread, without waiting.

        Raises
        ------
        ConnectionError
            The connection has ended.
        TypeError
            The message holds what cannot travel.
        """
        self._client.send(self._codec.encode(message))

    def receive(self, timeout_s: float | None) -> object:
        """Return the next message; None if none came in time, or `wake` was called. One thread only.

        Raises
        ------
        ConnectionError
            The connection has ended, and all that came before was returned.
        CorruptDataError
            What came is no message: the job runs another version of this library.
        """
        payload = self._client.receive(timeout_s)
        return None if payload is None else self._codec.decode(payload)

    def wake(self) -> None:
        """Make the current or next `receive` return None; from any thread."""
        self._client.wake()

    def flush(self, timeout_s: float) -> bool:
        """Wait until the system has taken all messages sent; False if it has not by then."""
        return self._client.flush(timeout_s)

    def close(self) -> None:
        """Close the connection when all messages have left, or after a second. Again: nothing."""
        self._client.close(LAST_WORDS_S)


class ControlConnection:
    """The job's end: a `ManagerConnection` over a connection of a `ControlServer`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, message: object) -> None:
        """Send a message to the manager, in order; from any thread, without waiting. If it is gone: nothing happens."""
        self._connection.send(CODEC.encode(message))

    def close(self) -> None:
        """Close the connection; the manager learns of it after the messages sent before."""
        self._connection.close()
