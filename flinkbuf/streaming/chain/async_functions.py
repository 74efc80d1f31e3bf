"""Asynchronous functions and when their calls are made again: PyFlink's classes.

Flink: AsyncFunction, AsyncRetryStrategies; PyFlink: datastream/functions.py, async_retry_strategies.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flinkbuf.streaming.chain.functions import Function

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class AsyncFunction(Function, Generic[IN, OUT]):
    """Answers each record with a coroutine; many run at the same time. Flink's ``AsyncFunction``.

    Examples
    --------
    >>> import asyncio
    >>> class Lookup(AsyncFunction):
    ...     async def async_invoke(self, value):
    ...         return [value, value + 1]
    ...     def timeout(self, value):
    ...         return []
    >>> asyncio.run(Lookup().async_invoke(1)), Lookup().timeout(1)
    ([1, 2], [])
    """

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """Return the results for a record."""

    def timeout(self, value: IN) -> list[OUT]:
        """Return the results for a record whose call took too long, or raise, which ends the job."""
        raise TimeoutError(f"Async function call has timed out for input: {value}")


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Which outcomes of a call are tried again. Flink's ``AsyncRetryPredicate``.

    Examples
    --------
    >>> class IfRefused(AsyncRetryPredicate):
    ...     def result_predicate(self):
    ...         return None
    ...     def exception_predicate(self):
    ...         return lambda error: isinstance(error, ConnectionError)
    >>> IfRefused().exception_predicate()(ConnectionRefusedError())
    True
    """

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """Return what is asked with the results; None: no result is tried again."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Return what is asked with the exception; None: no exception is tried again."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Whether and when a call is made again. Flink's ``AsyncRetryStrategy``.

    Examples
    --------
    >>> class Twice(AsyncRetryStrategy):
    ...     def can_retry(self, current_attempts):
    ...         return current_attempts <= 2
    ...     def get_backoff_time_millis(self, current_attempts):
    ...         return 50 * current_attempts
    ...     def get_retry_predicate(self):
    ...         return RetryPredicate(lambda results: not results, None)
    >>> Twice().can_retry(2), Twice().get_backoff_time_millis(2), Twice().can_retry(3)
    (True, 100, False)
    >>> Twice().get_retry_predicate().result_predicate()([])
    True
    """

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Tell whether there may be another attempt after so many."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return how long to wait after so many attempts, in milliseconds."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return which outcomes are tried again."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Never again.

        Examples
        --------
        >>> strategy = AsyncRetryStrategy.no_restart()
        >>> strategy.can_retry(1), strategy.get_backoff_time_millis(1)
        (False, -1)
        """
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[Any]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> AsyncRetryStrategy[Any]:
        """Again after the same time, so many times.

        Examples
        --------
        >>> strategy = AsyncRetryStrategy.fixed_delay(2, 100, None, lambda error: isinstance(error, OSError))
        >>> [(strategy.can_retry(attempts), strategy.get_backoff_time_millis(attempts)) for attempts in (1, 2, 3)]
        [(True, 100), (True, 100), (False, 100)]
        >>> strategy.get_retry_predicate().exception_predicate()(ConnectionRefusedError())
        True
        """
        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[list[Any]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> AsyncRetryStrategy[Any]:
        """Again after times that grow by a factor up to a limit, in milliseconds.

        Examples
        --------
        >>> strategy = AsyncRetryStrategy.exponential_backoff(4, 100, 500, 2.0, lambda results: not results, None)
        >>> [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2, 3, 4)]
        [100, 200, 400, 500]
        >>> strategy.get_retry_predicate().result_predicate()([])
        True
        """
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate[OUT], Generic[OUT]):
    """Two functions that say which outcomes are tried again."""

    def __init__(
        self,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """Return what is asked with the results."""
        return self._result_predicate

    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Return what is asked with the exception."""
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """One attempt."""

    def can_retry(self, current_attempts: int) -> bool:
        """Tell that there is no other attempt."""
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return -1: there is nothing to wait for."""
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return that nothing is tried again."""
        return RetryPredicate(None, None)


def _check(**numbers: float) -> None:
    for name, number in numbers.items():
        if number <= 0:
            raise ValueError(f"{name} should be greater than zero, got {number!r}")


class FixedDelayRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """So many further attempts, always after the same time."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        _check(max_attempts=max_attempts, backoff_time_millis=backoff_time_millis)
        self._max_attempts = max_attempts
        self._backoff_time_millis = backoff_time_millis
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """Tell whether attempts are left."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the time between two attempts."""
        return self._backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return which outcomes are tried again."""
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """So many further attempts, after times that grow by a factor up to a limit."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        _check(
            max_attempts=max_attempts,
            initial_delay=initial_delay,
            max_retry_delay=max_retry_delay,
            multiplier=multiplier,
        )
        self._max_attempts = max_attempts
        self._initial_delay = initial_delay
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """Tell whether attempts are left."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the time after so many attempts; it depends on this record's own attempts only."""
        if current_attempts <= 1:
            return self._initial_delay
        delay_ms = self._initial_delay
        for _ in range(current_attempts - 1):
            delay_ms = int(min(delay_ms * self._multiplier, self._max_retry_delay))
        return delay_ms

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return which outcomes are tried again."""
        return self._predicate


NO_RETRY_STRATEGY: AsyncRetryStrategy[Any] = NoRetryStrategy()
