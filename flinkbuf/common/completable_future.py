"""A result that is still to come. Flink: CompletableFuture, as PyFlink gives it."""

from __future__ import annotations

import contextlib
from concurrent.futures import CancelledError, Future, TimeoutError
from typing import Final, Generic, TypeVar

T = TypeVar("T")
WAIT_SLICE_S: Final = 0.1  # how long a waiting program is deaf to a signal that another thread was given


class CompletableFuture(Generic[T]):
    """What an asynchronous call of a client returns.

    Parameters
    ----------
    future : concurrent.futures.Future
        What completes it.

    Examples
    --------
    >>> future = Future()
    >>> future.set_result(4)
    >>> CompletableFuture(future).result()
    4
    """

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def cancel(self) -> bool:
        """Do not wait for it any more; tells whether it had not come yet."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Tell whether it was cancelled."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Tell whether it has come, failed or was cancelled."""
        return self._future.done()

    def result(self) -> T:
        """Wait for it; raises what it failed with."""
        while not self._future.done():
            with contextlib.suppress(TimeoutError, CancelledError):
                self._future.exception(WAIT_SLICE_S)
        return self._future.result()

    def exception(self) -> BaseException | None:
        """Return what it failed with; None if it did not, or has not come yet."""
        return self._future.exception() if self._future.done() else None

    def __str__(self) -> str:
        return f"CompletableFuture({'completed' if self.done() else 'not completed'})"


def completed(result: T) -> CompletableFuture[T]:
    """Return a future whose result is there."""
    future: Future[T] = Future()
    future.set_result(result)
    return CompletableFuture(future)


def failed(error: BaseException) -> CompletableFuture[T]:
    """Return a future that has failed."""
    future: Future[T] = Future()
    future.set_exception(error)
    return CompletableFuture(future)
