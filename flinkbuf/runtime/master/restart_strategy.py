"""Whether a job goes on after a failure, and after which time.

A strategy is told of each failure and decides; it reads no clock and draws no lots of its own. Flink:
RestartBackoffTimeStrategy and its four kinds. Options of Flink begin with ``restart-strategy``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000


class Chance(Protocol):
    """Draws lots, as `random.Random` does."""

    def uniform(self, a: float, b: float) -> float:
        """Return a number between two."""


class RestartStrategy(Protocol):
    """Decides after each failure whether the job restarts."""

    def notify_failure(self, now_ms: int) -> bool:
        """Take note of a failure; returns whether it begins a new attempt rather than belongs to the one before."""

    def can_restart(self) -> bool:
        """Return whether the job goes on after the last failure."""

    def backoff_ms(self, now_ms: int) -> int:
        """Return how long the job waits before the restart."""


class RestartSettings(Protocol):
    """A restart strategy as it was configured; each job makes its own of it."""

    def create(self, chance: Chance) -> RestartStrategy:
        """Return one that has seen no failure."""
        ...


@dataclass(frozen=True)
class NoRestart:
    """Fails the job at the first failure.

    Examples
    --------
    >>> from random import Random
    >>> strategy = NoRestart().create(Random(1))
    >>> strategy.notify_failure(0), strategy.can_restart()
    (True, False)
    """

    def create(self, chance: Chance) -> RestartStrategy:
        """Return a strategy for one job."""
        return _NoRestart()


@dataclass(frozen=True)
class FixedDelayRestart:
    """Restarts so many times, always after the same delay. Flink: FixedDelayRestartBackoffTimeStrategy."""

    attempts: int = 1
    delay_ms: int = SECOND_MS

    def __post_init__(self) -> None:
        _check_at_least(0, attempts=self.attempts, delay_ms=self.delay_ms)

    def create(self, chance: Chance) -> RestartStrategy:
        """Return a strategy for one job."""
        return _FixedDelayRestart(self)


@dataclass(frozen=True)
class FailureRateRestart:
    """Restarts while failures do not come too fast. Flink: FailureRateRestartBackoffTimeStrategy."""

    max_failures: int = 1
    failure_interval_ms: int = MINUTE_MS
    delay_ms: int = SECOND_MS

    def __post_init__(self) -> None:
        _check_at_least(1, max_failures=self.max_failures)
        _check_at_least(1, failure_interval_ms=self.failure_interval_ms)
        _check_at_least(0, delay_ms=self.delay_ms)

    def create(self, chance: Chance) -> RestartStrategy:
        """Return a strategy for one job."""
        return _FailureRateRestart(self)


@dataclass(frozen=True)
class ExponentialDelayRestart:
    """After ever longer times, until it ran well for long enough. Flink: ExponentialDelayRestartBackoffTimeStrategy.

    Parameters
    ----------
    initial_backoff_ms, max_backoff_ms : int
        The first time, and the longest.
    backoff_multiplier : float
        How much longer each is than the one before; more than 1.
    reset_backoff_threshold_ms : int
        After so long without a failure, the next one waits the first time again.
    jitter_factor : float
        By how much of itself a time is longer or shorter, by chance; 0 to 1.
    attempts_before_reset : int or None
        So many in a row; None for no limit.

    Examples
    --------
    Failures while it waits are one with the failure that it waits for.

    >>> from random import Random
    >>> strategy = ExponentialDelayRestart(jitter_factor=0.0).create(Random(1))
    >>> [(strategy.notify_failure(now_ms), strategy.backoff_ms(now_ms)) for now_ms in (0, 400, 1_001)]
    [(True, 1000), (False, 600), (True, 1500)]
    """

    initial_backoff_ms: int = SECOND_MS
    max_backoff_ms: int = MINUTE_MS
    backoff_multiplier: float = 1.5
    reset_backoff_threshold_ms: int = HOUR_MS
    jitter_factor: float = 0.1
    attempts_before_reset: int | None = None

    def __post_init__(self) -> None:
        _check_at_least(1, initial_backoff_ms=self.initial_backoff_ms)
        _check_at_least(1, reset_backoff_threshold_ms=self.reset_backoff_threshold_ms)
        if self.max_backoff_ms < self.initial_backoff_ms:
            raise ValueError(
                f"max_backoff_ms must be at least initial_backoff_ms ({self.initial_backoff_ms}), "
                f"got {self.max_backoff_ms}"
            )
        if not self.backoff_multiplier > 1:
            raise ValueError(f"backoff_multiplier must be more than 1, got {self.backoff_multiplier}")
        if not 0 <= self.jitter_factor <= 1:
            raise ValueError(f"jitter_factor must be from 0 to 1, got {self.jitter_factor}")
        if self.attempts_before_reset is not None:
            _check_at_least(1, attempts_before_reset=self.attempts_before_reset)

    def create(self, chance: Chance) -> RestartStrategy:
        """Return a strategy for one job."""
        return _ExponentialDelayRestart(self, chance)


RestartConfig = NoRestart | FixedDelayRestart | FailureRateRestart | ExponentialDelayRestart


def _check_at_least(least: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < least:
            raise ValueError(f"{name} must be at least {least}, got {number}")


class _NoRestart:
    def notify_failure(self, now_ms: int) -> bool:
        return True

    def can_restart(self) -> bool:
        return False

    def backoff_ms(self, now_ms: int) -> int:
        return 0


class _FixedDelayRestart:
    def __init__(self, config: FixedDelayRestart) -> None:
        self.config = config
        self.attempt = 0

    def notify_failure(self, now_ms: int) -> bool:
        self.attempt += 1
        return True

    def can_restart(self) -> bool:
        return self.attempt <= self.config.attempts

    def backoff_ms(self, now_ms: int) -> int:
        return self.config.delay_ms


class _FailureRateRestart:
    def __init__(self, config: FailureRateRestart) -> None:
        self.config = config
        self.failed_at_ms: deque[int] = deque(maxlen=config.max_failures + 1)
        self.now_ms = 0

    def notify_failure(self, now_ms: int) -> bool:
        self.failed_at_ms.append(now_ms)
        self.now_ms = now_ms
        return True

    def can_restart(self) -> bool:
        is_full = len(self.failed_at_ms) > self.config.max_failures
        return not (is_full and self.now_ms - self.failed_at_ms[0] <= self.config.failure_interval_ms)

    def backoff_ms(self, now_ms: int) -> int:
        return self.config.delay_ms


class _ExponentialDelayRestart:
    def __init__(self, config: ExponentialDelayRestart, chance: Chance) -> None:
        self.config = config
        self.chance = chance
        self.attempt = 0
        self.next_restart_ms: int | None = None  # of the last failure; None before the first

    def notify_failure(self, now_ms: int) -> bool:
        if self.next_restart_ms is not None:
            if now_ms <= self.next_restart_ms:
                return False
            if now_ms - self.next_restart_ms >= self.config.reset_backoff_threshold_ms:
                self.attempt = 0
        self.next_restart_ms = now_ms + self._delay_ms()
        self.attempt += 1
        return True

    def _delay_ms(self) -> int:
        config = self.config
        try:
            delay = config.initial_backoff_ms * config.backoff_multiplier**self.attempt
        except OverflowError:  # after some thousand attempts
            return config.max_backoff_ms
        delay += delay * self.chance.uniform(-config.jitter_factor, config.jitter_factor)
        return round(min(max(delay, config.initial_backoff_ms), config.max_backoff_ms))

    def can_restart(self) -> bool:
        limit = self.config.attempts_before_reset
        return limit is None or self.attempt <= limit

    def backoff_ms(self, now_ms: int) -> int:
        return 0 if self.next_restart_ms is None else max(0, self.next_restart_ms - now_ms)
