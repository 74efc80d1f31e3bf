"""The way between a job and one task manager, as either end sees it; and the one within a process, without bytes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Protocol


class ManagerLink(Protocol):
    """The task manager's end of the connection to a job."""

    def send(self, message: object) -> None:
        """Send a message to the job; from any thread, without waiting long.

        Raises
        ------
        ConnectionError
            The link has ended.
        """
        ...

    def receive(self, timeout_s: float | None) -> object | None:
        """Return the next message; None if none came in time, or `wake` was called. One thread only.

        Raises
        ------
        ConnectionError
            The link has ended, and all that came before was returned.
        """
        ...

    def wake(self) -> None:
        """Make the current or next `receive` return None; from any thread."""
        ...

    def close(self) -> None:
        """Close the link; the job learns of it. Again: nothing."""
        ...


class ManagerConnection(Protocol):
    """The job's end of the connection to a task manager."""

    def send(self, message: object) -> None:
        """Send a message to the manager, in order; from any thread, without waiting. If it is gone: nothing happens."""
        ...

    def close(self) -> None:
        """Close the connection; the manager learns of it after the messages sent before."""
        ...


_WAKE: object = object()
_CLOSED: object = object()


class QueueLink:
    """The manager's end within a process: gives its messages to a function, and takes the job's from a queue.

    Parameters
    ----------
    on_message : callable
        Called with each message on the thread that sends it; short.
    on_closed : callable
        Called once with a reason when the manager closes its end first.
    """

    def __init__(self, on_message: Callable[[object], None], on_closed: Callable[[str], None]) -> None:
        self._on_message = on_message
        self._on_closed = on_closed
        self._queue: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_closed = False
        self._has_ended = False  # `receive` has reported the end

    def send(self, message: object) -> None:
        """Give a message to the job."""
        if self._is_closed:
            raise ConnectionError("the link between the job and this task manager has ended")
        self._on_message(message)

    def receive(self, timeout_s: float | None) -> object | None:
        """Return the job's next message."""
        if self._has_ended:
            raise ConnectionError("the job has ended its link to this task manager")
        try:
            message = self._queue.get(timeout=None if timeout_s is None else max(0.0, timeout_s))
        except queue.Empty:
            return None
        if message is _CLOSED:
            self._has_ended = True
            raise ConnectionError("the job has ended its link to this task manager")
        return None if message is _WAKE else message

    def wake(self) -> None:
        """Make `receive` return None."""
        self._queue.put(_WAKE)

    def close(self) -> None:
        """Close the link from the manager's side."""
        if self._end():
            self._on_closed("the task manager has closed its link")

    def _end(self) -> bool:
        with self._lock:
            was_open, self._is_closed = not self._is_closed, True
        if was_open:
            self._queue.put(_CLOSED)
        return was_open


class QueueConnection:
    """The job's end of a `QueueLink`."""

    def __init__(self, link: QueueLink) -> None:
        self._link = link

    def send(self, message: object) -> None:
        """Put a message into the manager's queue."""
        if not self._link._is_closed:
            self._link._queue.put(message)

    def close(self) -> None:
        """Close the link from the job's side; the manager still gets the messages sent before."""
        self._link._end()


def link_pair(
    on_message: Callable[[object], None], on_closed: Callable[[str], None]
) -> tuple[QueueLink, QueueConnection]:
    """Return both ends of a connection within this process: the manager's and the job's.

    Examples
    --------
    >>> heard = []
    >>> link, connection = link_pair(heard.append, heard.append)
    >>> link.send("up"); connection.send("down")
    >>> heard, link.receive(1.0)
    (['up'], 'down')
    """
    link = QueueLink(on_message, on_closed)
    return link, QueueConnection(link)
