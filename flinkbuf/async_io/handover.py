"""Between the thread of a task and that of its event loop: work goes one way, results come back the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from flinkbuf.async_io.queue import OrderedQueue, UnorderedQueue

_LINGER_SECONDS = 0.002  # results wait for others so long if there are calls enough to make without the task


class Inbox:
    """What other threads want done on the loop's: done in order, with one wake-up for all that has gathered.

    Notes
    -----
    Threads: any may call `put`. What is put must not raise.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._mutex = threading.Lock()
        self._waiting: list[tuple[Callable[..., None], tuple[object, ...]]] = []

    def put(self, function: Callable[..., None], *arguments: object) -> None:
        """Have `function` called on the loop; nothing happens if the loop has been closed."""
        with self._mutex:
            self._waiting.append((function, arguments))
            is_first = len(self._waiting) == 1
        if is_first:
            try:
                self._loop.call_soon_threadsafe(self._work)
            except RuntimeError:
                if not self._loop.is_closed():
                    raise

    def _work(self) -> None:
        with self._mutex:
            waiting, self._waiting = self._waiting, []
        for function, arguments in waiting:
            function(*arguments)


class Outbox:
    """What leaves the operator, on its way to the thread of the task.

    Parameters
    ----------
    on_ready : callable, optional
        Called on the loop's thread when there is something to take and nobody waits for it.

    Attributes
    ----------
    failure : BaseException or None
        Why the task has to fail.

    Notes
    -----
    Threads: `put` and `contents` are for the loop's thread, `take` for the task's, `fail` for any.
    """

    def __init__(self, on_ready: Callable[[], None] | None = None) -> None:
        self.failure: BaseException | None = None
        self._on_ready = on_ready
        self._mutex = threading.Lock()
        self._ready: list[object] = []
        self._record_count = 0
        self._is_awaited = False
        self._wakeup = threading.Lock()  # held, but for the moment between `_wake` and the return of the one who waits
        self._wakeup.acquire()

    def put(self, ready: list[object], record_count: int) -> None:
        """Hand on what belongs to `record_count` records."""
        with self._mutex:
            self._ready.extend(ready)
            self._record_count += record_count
        self._wake()

    def fail(self, error: BaseException) -> None:
        """Let the task fail with this error, if it is the first."""
        with self._mutex:
            if self.failure is None:
                self.failure = error
        self._wake()

    def contents(self) -> list[object]:
        """Return what has not been taken yet."""
        return list(self._ready)

    def take(self, timeout: float | None = 0.0) -> tuple[list[object], int]:
        """Take all that has been put, and for how many records it is; both may be none.

        Parameters
        ----------
        timeout : float or None, default 0
            Seconds to wait for something, or for a failure; None waits as long as it takes.

        Raises
        ------
        BaseException
            The failure, if there is one.
        """
        with self._mutex:
            self._is_awaited = is_waiting = (
                timeout != 0 and not self._ready and not self._record_count and self.failure is None
            )
        if is_waiting and not self._wakeup.acquire(timeout=-1 if timeout is None else timeout):
            with self._mutex:
                is_woken, self._is_awaited = not self._is_awaited, False
            if is_woken:  # in the moment between
                self._wakeup.acquire()
        with self._mutex:
            if self.failure is not None:
                raise self.failure
            ready, self._ready = self._ready, []
            count, self._record_count = self._record_count, 0
            return ready, count

    def _wake(self) -> None:
        with self._mutex:
            is_awaited, self._is_awaited = self._is_awaited, False
        if is_awaited:
            self._wakeup.release()
        elif self._on_ready is not None:
            self._on_ready()


class Departures:
    """Takes what can leave out of the queue and puts it into the outbox, by the handful.

    Parameters
    ----------
    queue : OrderedQueue or UnorderedQueue
        Of the operator.
    outbox : Outbox
        Where it goes.
    loop : asyncio.AbstractEventLoop
        Everything happens on its thread.
    results_of : callable or None
        What to put there for an entry; None for the entry itself.
    may_linger : callable
        Whether the task's thread is not needed yet: there are calls enough to make without new records.

    Attributes
    ----------
    out : list
        What leaves without having been in the queue, before all others.
    out_count : int
        Its records.
    """

    def __init__(
        self,
        queue: OrderedQueue | UnorderedQueue,
        outbox: Outbox,
        loop: asyncio.AbstractEventLoop,
        results_of: Callable[..., list[object]] | None,
        may_linger: Callable[[], bool],
    ) -> None:
        self.out: list[object] = []
        self.out_count = 0
        self._queue, self._outbox, self._loop = queue, outbox, loop
        self._results_of, self._may_linger = results_of, may_linger
        self._handle: asyncio.Handle | None = None  # of a handing on that is to come
        self._is_lingering = False

    def soon(self) -> None:
        """Hand on when all that ends now has ended, or a little later if the task's thread is not needed yet."""
        if self._handle is not None and not self._is_lingering:
            return
        may_linger = self._may_linger()
        if self._handle is not None:
            if may_linger:
                return
            self._handle.cancel()
        self._is_lingering = may_linger
        self._handle = (
            self._loop.call_later(_LINGER_SECONDS, self.now) if may_linger else self._loop.call_soon(self.now)
        )

    def now(self) -> None:
        """Hand on what can leave."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        ready, count = self.out, self.out_count
        self.out, self.out_count = [], 0
        entries = self._queue.take_ready()
        if self._results_of is None:
            ready += entries
        else:
            for results in map(self._results_of, entries):
                ready += results
        if entries or count:
            self._outbox.put(ready, count + len(entries))
