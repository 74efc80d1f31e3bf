"""What `open` makes for the calls of a task, and how it ends."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from flinkbuf.async_io.function import Function

# These have __aenter__ too, but to enter one for the whole task would lock its calls out.
_LOCKS = (asyncio.Lock, asyncio.Semaphore, asyncio.Condition)


class Session:
    """The session of a task: opened before the first call, closed after the last, on the loop's thread.

    Attributes
    ----------
    value : object
        What the calls get, None before `open`.
    is_open : bool
        From the end of `open` until `close`.
    """

    def __init__(self, function: Function, context: object) -> None:
        self.value: object = None
        self._function = function
        self._context = context
        self._leave: Callable[..., object] | None = None
        self.is_open = False

    async def open(self) -> None:
        """Call the function's `open`, await what it gives, and enter it if nothing else would end it."""
        function = self._function
        if function.open is not None:
            session = function.open(*((self._context,) if _takes_argument(function.open) else ()))
            if inspect.isawaitable(session):
                session = await session
            if (
                function.close is None
                and isinstance(session, AbstractAsyncContextManager)
                and not isinstance(session, _LOCKS)
            ):
                self._leave = session.__aexit__
                session = await session.__aenter__()
            self.value = session
        self.is_open = True

    async def close(self, failure: BaseException | None, timeout: float) -> None:
        """Close it, with the reason if the task fails; what did not open is not closed.

        Parameters
        ----------
        failure : BaseException or None
            Given to an asynchronous context manager, which may have something to roll back.
        timeout : float
            Seconds that the user's `close` may take.
        """
        if not self.is_open:
            return
        self.is_open = False
        closing = self._start_closing(failure)
        if inspect.isawaitable(closing):
            task = asyncio.ensure_future(closing)
            try:
                await asyncio.wait_for(task, max(timeout, 0.001))
            except asyncio.TimeoutError:
                if not task.cancelled():
                    raise  # the user's own
                raise TimeoutError(f"closing the session took longer than close_timeout, {timeout:g} s") from None

    def _start_closing(self, failure: BaseException | None) -> object:
        function = self._function
        if self._leave is not None:
            return self._leave(*((type(failure), failure, failure.__traceback__) if failure else (None,) * 3))
        if function.close is None:
            return None
        if function.has_session:
            return function.close(self.value)
        # An AsyncFunction, or a close= without open=.
        return function.close(None) if _takes_argument(function.close) else function.close()


def _takes_argument(func: Callable[..., object]) -> bool:
    try:
        parameters = inspect.signature(func).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(each.kind in kinds and each.default is inspect.Parameter.empty for each in parameters)
