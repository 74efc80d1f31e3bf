"""Open requests about task managers' processes, with the futures of their answers; from any thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import Final

from flinkbuf.runtime.protocol.messages import Json

OPEN_MAX: Final = 64  # that wait; one more takes the place of the oldest


class ManagerInquiries:
    """Inquiries about the task managers of one job.

    Examples
    --------
    >>> inquiries = ManagerInquiries()
    >>> request, future = inquiries.ask()
    >>> inquiries.answered(request, {"log": "all is well"})
    >>> future.result()
    {'log': 'all is well'}
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._open: OrderedDict[int, Future[Json]] = OrderedDict()

    def ask(self) -> tuple[int, Future[Json]]:
        """Return the number of the request to send, and the future of its answer."""
        future: Future[Json] = Future()
        future.set_running_or_notify_cancel()  # a request cannot be cancelled
        dropped = None
        with self._lock:
            self._last += 1
            self._open[self._last] = future
            if len(self._open) > OPEN_MAX:
                _, dropped = self._open.popitem(last=False)
            request = self._last
        if dropped is not None:
            dropped.set_exception(RuntimeError("too many ask about task managers"))
        return request, future

    def answered(self, request: int, answer: Json) -> None:
        """Give the answer of a task manager to its request; an answer without a request is dropped."""
        with self._lock:
            future = self._open.pop(request, None)
        if future is not None:
            future.set_result(answer)

    def end(self, reason: str) -> None:
        """Fail all open requests: no answer will come any more."""
        with self._lock:
            waiting, self._open = self._open, OrderedDict()
        for future in waiting.values():
            future.set_exception(RuntimeError(reason))
