"""Requests of users for savepoints and checkpoints of a job, with their futures."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.errors import FlinkbufError
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.scheduler.master_actions import RequestAnswered, TriggerSavepoint


class SavepointError(FlinkbufError, RuntimeError):
    """A requested savepoint or checkpoint failed. Flink: CheckpointException."""


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
        self._open: dict[int, tuple[SnapshotKind, Future[object]]] = {}

    def ask(self, kind: SnapshotKind, directory: str = "") -> tuple[TriggerSavepoint, Future[Any]]:
        """Return the stimulus for the job master, and the future of a savepoint's path or a checkpoint's number.

        The future may fail with a `SavepointError`.
        """
        future: Future[object] = Future()
        future.set_running_or_notify_cancel()  # a request cannot be cancelled
        with self._lock:
            self._count += 1
            self._open[self._count] = kind, future
            return TriggerSavepoint(self._count, kind, directory), future

    def answered(self, answer: RequestAnswered) -> None:
        """Complete the future of a request with the job master's answer."""
        with self._lock:
            kind, future = self._open.pop(answer.request, (None, None))
        if kind is None or future is None:
            return
        if answer.failure is None:
            future.set_result(answer.path if kind.is_savepoint else answer.checkpoint_id)
        else:
            future.set_exception(_error_of(answer.failure))

    def end(self, reason: str) -> None:
        """Fail all open requests: the job is over."""
        with self._lock:
            waiting, self._open = self._open, {}
        for _, future in waiting.values():
            future.set_exception(SavepointError(reason))


def _error_of(failure: Failure) -> SavepointError:
    error = SavepointError(failure.message)
    error.__cause__ = failure.exception
    return error
