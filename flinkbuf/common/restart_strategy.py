"""What happens after a failure. Flink: RestartStrategies; its options begin with ``restart-strategy``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


def _interval_of(name: str, value: int | timedelta) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"The parameter '{name}' only supports integer and datetime.timedelta, current input type is {type(value)}."
        )
    return timedelta(milliseconds=value)


def _milliseconds(interval: timedelta) -> int:
    return interval // timedelta(milliseconds=1)


class RestartStrategyConfiguration:
    """What happens after a failure."""

    def get_description(self) -> str:
        """Say it in a sentence."""
        raise NotImplementedError


class RestartStrategies:
    """Makes the strategies.

    Examples
    --------
    >>> RestartStrategies.fixed_delay_restart(3, 1000).get_description()
    'Restart with fixed delay (1000 ms). #3 restart attempts.'
    """

    @dataclass(frozen=True)
    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The job fails."""

        def get_description(self) -> str:
            """Say it in a sentence."""
            return "Restart deactivated."

    @dataclass(frozen=True)
    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """What the cluster is configured to do."""

        def get_description(self) -> str:
            """Say it in a sentence."""
            return "Cluster level default restart strategy"

    @dataclass(frozen=True)
    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """So many attempts, always after the same time."""

        restart_attempts: int
        delay_between_attempts_interval: timedelta

        def get_restart_attempts(self) -> int:
            """Return how often the job is restarted."""
            return self.restart_attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the time before a restart."""
            return self.delay_between_attempts_interval

        def get_description(self) -> str:
            """Say it in a sentence."""
            delay_ms = _milliseconds(self.delay_between_attempts_interval)
            return f"Restart with fixed delay ({delay_ms} ms). #{self.restart_attempts} restart attempts."

    @dataclass(frozen=True)
    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """As long as failures do not come too fast."""

        max_failure_rate: int
        failure_interval: timedelta
        delay_between_attempts_interval: timedelta

        def get_max_failure_rate(self) -> int:
            """Return how many failures there may be within the interval."""
            return self.max_failure_rate

        def get_failure_interval(self) -> timedelta:
            """Return the interval in which failures are counted."""
            return self.failure_interval

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the time before a restart."""
            return self.delay_between_attempts_interval

        def get_description(self) -> str:
            """Say it in a sentence."""
            return (
                f"Failure rate restart with maximum of {self.max_failure_rate} failures within interval "
                f"{_milliseconds(self.failure_interval)} ms and fixed delay "
                f"{_milliseconds(self.delay_between_attempts_interval)} ms."
            )

    @staticmethod
    def no_restart() -> RestartStrategies.NoRestartStrategyConfiguration:
        """Let the job fail."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategies.FallbackRestartStrategyConfiguration:
        """Do what the cluster is configured to do."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int | timedelta
    ) -> RestartStrategies.FixedDelayRestartStrategyConfiguration:
        """Restart so often, always after the same time (an int is milliseconds)."""
        if restart_attempts < 0:
            raise ValueError(f"restart_attempts must be at least 0, got {restart_attempts}")
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(
            restart_attempts, _interval_of("delay_between_attempts", delay_between_attempts)
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int | timedelta, delay_interval: int | timedelta
    ) -> RestartStrategies.FailureRateRestartStrategyConfiguration:
        """Restart as long as there are no more than so many failures within an interval (an int is milliseconds)."""
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate,
            _interval_of("failure_interval", failure_interval),
            _interval_of("delay_interval", delay_interval),
        )
