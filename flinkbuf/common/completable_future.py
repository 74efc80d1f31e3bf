"""A result that is still to come. Flink: CompletableFuture, as PyFlink gives it."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


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
