"""One call of the user's function: as a coroutine on the loop, on a thread of the pool, or by a result future."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from typing import Any, Protocol

from flinkbuf._core.operators.async_call import AsyncCall
from flinkbuf.async_io.admission import Work
from flinkbuf.async_io.function import AsyncOptions, CompletedTwiceError, Function, ResultFuture
from flinkbuf.async_io.handover import Inbox
from flinkbuf.async_io.timer import Timers

Call = AsyncCall | Future[object]  # a call that can be cancelled
_AT_HAND = (list, tuple, str, bytes, dict)  # iterables that take no time


class AttemptOwner(Protocol):
    """Who makes attempts, and what it is told of them."""

    loop: asyncio.AbstractEventLoop
    inbox: Inbox
    timers: Timers

    def attempt_ended(self, work: Work, result: object, error: BaseException | None) -> None:
        """A call for `work` has ended that is waited for."""

    def place_released(self, work: Work) -> None:
        """The call of `work` was abandoned and has now ended, or is not waited for any longer."""

    def fail(self, error: BaseException) -> None:
        """The task has to fail."""


class Attempts:
    """Makes calls in the way of the function, and tells once how each one ended.

    A call that nobody waits for any more is cancelled, and keeps its place until it has really ended: only then may
    another one take it.

    Parameters
    ----------
    owner : AttemptOwner
        Told of every end.
    function : Function
        What is called, and how.
    invoke : callable
        Calls it, given a record or a list of them.
    base_context : contextvars.Context
        Each coroutine runs in a copy of it.
    options : AsyncOptions
        Size of the thread pool, and the seconds that a cancelled call may keep its place.

    Attributes
    ----------
    dying : dict
        Calls that were cancelled and still run: whose place they keep, None for nobody's.

    Notes
    -----
    Threads: everything happens on that of the loop, but for the plain functions themselves.
    """

    def __init__(
        self,
        owner: AttemptOwner,
        function: Function,
        invoke: Callable[..., object],
        base_context: Context,
        options: AsyncOptions,
    ) -> None:
        self.dying: dict[Call, Work | None] = {}
        self._owner = owner
        self._function, self._invoke, self._base_context = function, invoke, base_context
        self._patience = options.close_timeout
        self._all_ended: asyncio.Future[None] | None = None
        self._pool: ThreadPoolExecutor | None = None
        if function.kind == "thread":
            self._pool = ThreadPoolExecutor(options.thread_count, "flinkbuf-async")

    def make(self, work: Work, argument: object, named: dict[str, object]) -> None:
        """Make a call for `work`, whose `call` it becomes; it may have ended when this returns.

        Raises
        ------
        Exception
            If there is no call: the function refused before it began.
        """
        if self._pool is not None:
            work.call = future = self._pool.submit(self._on_thread, argument, named)
            future.add_done_callback(functools.partial(self._owner.inbox.put, self._thread_ended, work))
        elif self._function.kind == "callback":
            text = f"record {work.entries[0].number}"
            work.call = result_future = ResultFuture(self._future_completed, work, text)
            self._invoke(argument, result_future, **named)
        else:
            self._call_coroutine(work, self._invoke(argument, **named))

    def _call_coroutine(self, work: Work, awaitable: Any) -> None:
        work.call = call = AsyncCall(self._owner.loop, self.coroutine_ended, work)
        call.start(awaitable, self._base_context)

    # ---------------------------------------------------------------- ends

    def coroutine_ended(self, call: AsyncCall, result: object, error: BaseException | None) -> None:
        """What `AsyncCall` tells when its coroutine has ended."""
        work = call.work
        if work is None or work.call is not call:
            self._release(call)
            return
        work.call = None
        self._owner.attempt_ended(work, result, error)

    def _on_thread(self, argument: object, named: dict[str, object]) -> object:
        """Runs on a thread of the pool, to the end of what the function yields."""
        result = self._invoke(argument, **named)
        if self._function.is_flat and isinstance(result, Iterable) and not isinstance(result, _AT_HAND):
            result = list(result)
        return result

    def _thread_ended(self, work: Work, future: Future[object]) -> None:
        if work.call is not future:
            self._release(future)
            return
        work.call = None
        error = future.exception()
        result = None if error is not None else future.result()
        if error is None and inspect.isawaitable(result):
            try:
                self._call_coroutine(work, result)  # a plain function that gave a coroutine, such as a lambda
            except Exception as refused:
                work.call = None
                self._owner.attempt_ended(work, None, refused)
        else:
            self._owner.attempt_ended(work, result, error)

    def _future_completed(self, future: ResultFuture, results: object, error: BaseException | None) -> None:
        """Runs on any thread."""
        self._owner.inbox.put(self._result_arrived, future, results, error)

    def _result_arrived(self, future: ResultFuture, results: object, error: BaseException | None) -> None:
        work = future.work
        if isinstance(error, CompletedTwiceError):  # also where nobody waits for it any more
            self._owner.fail(error)
        elif work.call is future:
            work.call = None
            if callable(results):
                try:
                    results = results()
                except Exception as raised:
                    error = raised
            self._owner.attempt_ended(work, results, error)

    # ---------------------------------------------------------------- cancelled calls

    def abandon(self, work: Work) -> bool:
        """Cancel the call of `work`, if it has one; True if it keeps its place until `place_released`."""
        call = work.call
        work.call = None
        if call is None or isinstance(call, ResultFuture):
            return False  # whoever completes it cannot be stopped, nor seen to end
        self.dying[call] = work
        call.cancel()
        self._owner.timers.at(time.monotonic() + self._patience, functools.partial(self._lose_patience, call))
        return True

    def _lose_patience(self, call: Call) -> None:
        work = self.dying.get(call)
        if work is not None:
            self.dying[call] = None  # it runs on, beside those that are allowed
            self._owner.place_released(work)

    def _release(self, call: Call) -> None:
        work = self.dying.pop(call, None)
        if work is not None:
            self._owner.place_released(work)
        if self._all_ended is not None and not self.dying and not self._all_ended.done():
            self._all_ended.set_result(None)

    async def close(self, works: Iterable[Work], timeout: float) -> tuple[int, int]:
        """Cancel the calls of `works` and wait for their end and that of others; how many calls and threads did not.

        Parameters
        ----------
        works : iterable of entries and batches
            Whose calls run; nobody is told of their end.
        timeout : float
            Seconds to wait at most; a coroutine that takes longer is dropped.
        """
        until = time.monotonic() + timeout
        self.dying = dict.fromkeys(self.dying)
        for work in works:
            call = work.call
            work.call = None
            if call is not None and not isinstance(call, ResultFuture):
                self.dying[call] = None
        for call in list(self.dying):
            call.cancel()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._all_ended = self._owner.loop.create_future()
        if self.dying:
            await asyncio.wait([self._all_ended], timeout=timeout)
        coroutines = [call for call in self.dying if isinstance(call, AsyncCall)]
        for call in coroutines:
            call.close()
        return len(coroutines), await self._threads_left(until)

    async def _threads_left(self, until: float) -> int:
        threads = list(self._pool._threads) if self._pool is not None else []
        while any(thread.is_alive() for thread in threads) and time.monotonic() < until:
            await asyncio.sleep(0.001)
        return sum(thread.is_alive() for thread in threads)
