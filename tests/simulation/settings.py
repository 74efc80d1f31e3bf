"""Settings of a job, drawn from the seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from flinkbuf.runtime.master.restart_strategy import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    NoRestart,
)
from flinkbuf.runtime.scheduler.job_master_config import JobMasterConfig

Restart = NoRestart | FixedDelayRestart | FailureRateRestart | ExponentialDelayRestart


@dataclass(frozen=True)
class Settings:
    """Of the job master, the task managers and the target."""

    master: JobMasterConfig
    restart: Restart
    slots_each: int  # of a manager
    cancellation_interval_ms: int
    cancellation_timeout_ms: int
    report_interval_ms: int
    registration_timeout_ms: int

    @property
    def restart_limit(self) -> int:
        """The failures after which it may begin again, all in all; the strategy may stop it earlier."""
        if isinstance(self.restart, NoRestart):
            return 0
        return self.restart.attempts if isinstance(self.restart, FixedDelayRestart) else 1 << 60

    @property
    def patience_ms(self) -> int:
        """How long a job may take to come to its end when nothing goes wrong any more."""
        master = self.master
        return 3 * (
            master.slot_request_timeout_ms
            + master.heartbeat_timeout_ms
            + master.cancel_attempts * master.cancel_retry_ms
            + master.release_timeout_ms
            + 4 * self.cancellation_interval_ms
            + self.cancellation_timeout_ms
            + 300_000
        )


def draw_settings(rng: Random, slot_count: int) -> Settings:
    """Quick ones and patient ones."""
    interval_ms = rng.choice((1_000, 3_000, 10_000))
    gang = rng.random() < 0.25
    return Settings(
        master=JobMasterConfig(
            slot_request_timeout_ms=rng.choice((10_000, 60_000)),
            heartbeat_interval_ms=interval_ms,
            heartbeat_timeout_ms=5 * interval_ms,
            cancel_attempts=rng.choice((1, 3, 3)),
            cancel_retry_ms=rng.choice((500, 3_000, 10_000)),
            release_timeout_ms=rng.choice((2_000, 30_000)),
            managers_come_together=gang,
            can_restart_in_place=rng.random() > (0.4 if gang else 0.05),
        ),
        restart=_restart(rng),
        slots_each=max(1, slot_count) if rng.random() < 0.15 else rng.choice((1, 1, 1, 2)),
        cancellation_interval_ms=rng.choice((500, 5_000)),
        cancellation_timeout_ms=rng.choice((0, 3_000, 20_000)),
        report_interval_ms=rng.choice((500, 5_000)),
        registration_timeout_ms=rng.choice((10_000, 300_000)),
    )


def calm_settings() -> Settings:
    """What a program has that sets nothing, with one slot a manager."""
    return Settings(
        master=JobMasterConfig(),
        restart=NoRestart(),
        slots_each=1,
        cancellation_interval_ms=30_000,
        cancellation_timeout_ms=180_000,
        report_interval_ms=5_000,
        registration_timeout_ms=300_000,
    )


def _restart(rng: Random) -> Restart:
    kind = rng.random()
    if kind < 0.2:
        return NoRestart()
    if kind < 0.6:
        return FixedDelayRestart(attempts=rng.choice((1, 3, 10, 1_000)), delay_ms=rng.choice((0, 50, 1_000, 10_000)))
    if kind < 0.8:
        return FailureRateRestart(rng.choice((1, 3)), 10_000, rng.choice((0, 500)))
    return ExponentialDelayRestart(
        initial_backoff_ms=rng.choice((1, 500)),
        max_backoff_ms=20_000,
        attempts_before_reset=rng.choice((None, 3)),
    )
