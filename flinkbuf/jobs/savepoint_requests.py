"""Savepoints and checkpoints that users have asked a job for, and where they wait for them."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.errors import FlinkbufError
from flinkbuf.jobs.failure import Failure
from flinkbuf.jobs.master.master_actions import RequestAnswered, TriggerSavepoint


class SavepointError(FlinkbufError, RuntimeError):
    """A savepoint or checkpoint that was asked for came to nothing. Flink: CheckpointException."""


class SavepointRequests:
    """The requests of one job; from any thread.

    Examples
    --------
    >>> requests = SavepointRequests()
    >>> stimulus, future = requests.ask(SnapshotKind.SAVEPOINT, "/savepoints")
    >>> requests.answered(RequestAnswered(stimulus.request, path="/savepoints/savepoint-1"))
    >>> future.result()
    '/savepoints/savepoint-1'
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._open: dict[int, tuple[SnapshotKind, Future[Any]]] = {}

    def ask(self, kind: SnapshotKind, directory: str = "") -> tuple[TriggerSavepoint, Future[Any]]:
        """Return what the job master is told, and what gets a savepoint's path, a checkpoint's number, or an error.

        The error is a `SavepointError`.
        """
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # nobody takes a request back
        with self._lock:
            self._count += 1
            self._open[self._count] = kind, future
            return TriggerSavepoint(self._count, kind, directory), future

    def answered(self, answer: RequestAnswered) -> None:
        """The job master says what became of one."""
        with self._lock:
            kind, future = self._open.pop(answer.request, (None, None))
        if kind is None or future is None:
            return
        if answer.failure is None:
            future.set_result(answer.path if kind.is_savepoint else answer.checkpoint_id)
        else:
            future.set_exception(_error_of(answer.failure))

    def end(self, reason: str) -> None:
        """The job is over: what is still open comes to nothing."""
        with self._lock:
            waiting, self._open = self._open, {}
        for _, future in waiting.values():
            future.set_exception(SavepointError(reason))


def _error_of(failure: Failure) -> SavepointError:
    error = SavepointError(failure.message)
    error.__cause__ = failure.exception
    return error
