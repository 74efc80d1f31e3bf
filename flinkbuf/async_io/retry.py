"""When an asynchronous call is made again, and after how long: fixed and exponential delays."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

ExceptionPredicate = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]


@dataclass(frozen=True, kw_only=True)
class RetryOptions:
    """What fixed and exponential delays have in common.

    Parameters
    ----------
    on_exception : exception class, tuple of them, or callable, default Exception
        Which failures are tried again; a callable is asked with the exception.
    on_result : callable, optional
        Asked with what the function returned; true means try again. When the attempts are used up, the last result
        counts.
    jitter : float, default 0
        Each delay is multiplied by a random number between ``1 - jitter`` and ``1 + jitter``, so that records that
        failed together do not come back together. From 0 to 1.
    """

    on_exception: ExceptionPredicate = Exception
    on_result: Callable[[object], bool] | None = None
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.jitter, Real) and 0 <= float(self.jitter) <= 1):
            raise ValueError(f"jitter must lie between 0 and 1, got {self.jitter!r}")
        wanted = self.on_exception
        if not callable(wanted) and not (isinstance(wanted, tuple) and all(isinstance(each, type) for each in wanted)):
            raise TypeError(f"on_exception must be an exception class, a tuple of them or a function, got {wanted!r}")
        if self.on_result is not None and not callable(self.on_result):
            raise TypeError(f"on_result must be a function, got {self.on_result!r}")

    def wants(self, result: object, error: BaseException | None) -> bool:
        """Tell whether an attempt that ended so should be made again, if attempts are left."""
        if error is None:
            return self.on_result is not None and bool(self.on_result(result))
        if isinstance(self.on_exception, (type, tuple)):
            return isinstance(error, self.on_exception)
        return bool(self.on_exception(error))

    def can_retry(self, attempts: int) -> bool:
        """Tell whether there may be another attempt after so many."""
        raise NotImplementedError

    def delay_before(self, retry: int) -> float:
        """Return the seconds to wait before retry number `retry`, the first being 1."""
        raise NotImplementedError

    def _spread(self, delay: float) -> float:
        return delay * random.uniform(1 - self.jitter, 1 + self.jitter) if self.jitter else delay


@dataclass(frozen=True)
class FixedDelayRetry(RetryOptions):
    """Try again after the same delay each time.

    Parameters
    ----------
    max_attempts : int
        How often it is tried **again**: a call is made at most ``max_attempts + 1`` times.
    delay : float
        Seconds between the end of one attempt and the start of the next.

    Notes
    -----
    Further options: `on_exception`, `on_result`, `jitter`; see `RetryOptions`. The timeout of a record covers all
    its attempts and the delays between them.

    References
    ----------
    Flink ``AsyncRetryStrategies.FixedDelayRetryStrategy``; other than there, every `Exception` is tried again
    unless a predicate says otherwise.

    Examples
    --------
    >>> FixedDelayRetry(3, 0.5).delay_before(2)
    0.5
    """

    max_attempts: int
    delay: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(max_attempts=self.max_attempts, delay=self.delay)

    def can_retry(self, attempts: int) -> bool:
        """Tell whether there may be another attempt after so many."""
        return attempts <= self.max_attempts

    def delay_before(self, retry: int) -> float:
        """Return the seconds to wait before retry number `retry`, the first being 1."""
        return self._spread(self.delay)


@dataclass(frozen=True)
class ExponentialRetry(RetryOptions):
    """Try again after delays that grow by a factor.

    Parameters
    ----------
    max_attempts : int
        How often it is tried **again**.
    initial_delay : float
        Seconds before the first retry.
    max_delay : float, default 60
        Seconds that a delay does not exceed, before jitter.
    multiplier : float, default 2
        Each delay is so many times the one before.

    Notes
    -----
    Further options: `on_exception`, `on_result`, `jitter`; see `RetryOptions`. The delay depends on the record's own
    attempts only; Flink's strategy object shares its last delay between records.

    References
    ----------
    Flink ``AsyncRetryStrategies.ExponentialBackoffDelayRetryStrategy``.

    Examples
    --------
    >>> [ExponentialRetry(5, 0.1, max_delay=1).delay_before(retry) for retry in (1, 2, 3, 4, 5)]
    [0.1, 0.2, 0.4, 0.8, 1]
    """

    max_attempts: int
    initial_delay: float
    max_delay: float = 60.0
    multiplier: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(max_attempts=self.max_attempts, initial_delay=self.initial_delay, max_delay=self.max_delay)
        if not (isinstance(self.multiplier, Real) and float(self.multiplier) > 0):
            raise ValueError(f"multiplier must be more than 0, got {self.multiplier!r}")

    def can_retry(self, attempts: int) -> bool:
        """Tell whether there may be another attempt after so many."""
        return attempts <= self.max_attempts

    def delay_before(self, retry: int) -> float:
        """Return the seconds to wait before retry number `retry`, the first being 1."""
        try:
            delay = self.initial_delay * self.multiplier ** (retry - 1)
        except OverflowError:
            delay = self.max_delay
        return self._spread(min(delay, self.max_delay))


@dataclass(frozen=True)
class PyFlinkRetry(RetryOptions):
    """An ``AsyncRetryStrategy`` that a PyFlink user has written."""

    strategy: Any

    def can_retry(self, attempts: int) -> bool:
        """Ask the strategy."""
        return bool(self.strategy.can_retry(attempts))

    def delay_before(self, retry: int) -> float:
        """Ask the strategy, which counts milliseconds."""
        return max(0.0, self.strategy.get_backoff_time_millis(retry) / 1000)


def as_retry(strategy: object) -> RetryOptions | None:
    """Make a strategy of ours out of one of ours, None, or PyFlink's ``AsyncRetryStrategy``.

    Raises
    ------
    TypeError
        If it is none of these.
    """
    if strategy is None or isinstance(strategy, RetryOptions):
        return strategy
    kind = type(strategy).__name__
    if kind == "NoRetryStrategy":
        return None
    if all(hasattr(strategy, name) for name in ("can_retry", "get_backoff_time_millis", "get_retry_predicate")):
        return _from_pyflink(strategy)
    raise TypeError(
        "retry must be an fb.async_io.FixedDelayRetry, an fb.async_io.ExponentialRetry or "
        f"PyFlink's AsyncRetryStrategy, got {kind} {strategy!r:.80}"
    )


def _from_pyflink(strategy: Any) -> RetryOptions:
    """Read the numbers of PyFlink's strategies: their own methods keep the delay of whatever record came before."""
    predicate = strategy.get_retry_predicate()
    options: dict[str, Any] = {
        # Without a predicate Flink tries nothing again.
        "on_exception": predicate.exception_predicate() or (lambda error: False),
        "on_result": predicate.result_predicate(),
    }
    if type(strategy).__name__ == "ExponentialBackoffDelayRetryStrategy":
        return ExponentialRetry(
            strategy._max_attempts,
            strategy._initial_delay / 1000,
            strategy._max_retry_delay / 1000,
            strategy._multiplier,
            **options,
        )
    if type(strategy).__name__ == "FixedDelayRetryStrategy":
        return FixedDelayRetry(strategy._max_attempts, strategy._backoff_time_millis / 1000, **options)
    return PyFlinkRetry(strategy, **options)


def _check(max_attempts: int, **delays: float) -> None:
    if isinstance(max_attempts, bool) or not isinstance(max_attempts, int) or max_attempts < 1:
        raise ValueError(f"max_attempts must be a whole number of at least 1, got {max_attempts!r}")
    for name, delay in delays.items():
        if not (isinstance(delay, Real) and float(delay) >= 0):
            raise ValueError(f"{name} must be 0 seconds or more, got {delay!r}")
