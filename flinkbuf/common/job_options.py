"""What the options say to those who run a job: when it is restarted, what counts as lost, how machines are reached."""

from __future__ import annotations

import sys
from datetime import timedelta

from flinkbuf.common import checkpoint_options, options
from flinkbuf.common.configuration import Configuration
from flinkbuf.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from flinkbuf.config import NetworkConfig
from flinkbuf.runtime.master.restart_strategy import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    NoRestart,
    RestartConfig,
)
from flinkbuf.runtime.process.termination import SAVEPOINT, TerminationSettings
from flinkbuf.runtime.scheduler.job_master_config import JobMasterConfig


def target_name(configuration: Configuration) -> str:
    """Return where a job shall run: what was set, else Spark if it is active in this process, else local processes."""
    name: str | None = options.read(configuration, options.TARGET)
    return name or ("spark" if _is_spark_active() else "local")


def _is_spark_active() -> bool:
    """Without importing pyspark: if nobody has, there is no session."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    if getattr(context, "_active_spark_context", None) is not None:
        return True
    session = getattr(sys.modules.get("pyspark.sql.connect.session"), "SparkSession", None)
    return session is not None and session.getActiveSession() is not None


def restart_of(configuration: Configuration, *, has_checkpoints: bool) -> RestartConfig:
    """Return the restart strategy that was configured.

    Where nothing was said, a job that makes checkpoints goes on from the latest one, again and again; without them it
    would begin anew, so it fails instead. Flink: RestartBackoffTimeStrategyFactoryLoader.

    Raises
    ------
    ValueError
        If a value is out of range, or contradicts another one.

    Examples
    --------
    >>> restart_of(Configuration(), has_checkpoints=False)
    NoRestart()
    >>> restart_of(Configuration().set_string("restart-strategy.type", "fixed-delay"), has_checkpoints=False)
    FixedDelayRestart(attempts=1, delay_ms=1000)
    """

    def read(option: options.Option[options.T]) -> options.T:
        return options.read(configuration, option)

    kind = read(options.RESTART_STRATEGY) or ("exponential-delay" if has_checkpoints else "none")
    if kind == "fixed-delay":
        return FixedDelayRestart(read(options.FIXED_DELAY_ATTEMPTS), read(options.FIXED_DELAY))
    if kind == "failure-rate":
        return FailureRateRestart(
            read(options.FAILURE_RATE_MAX), read(options.FAILURE_RATE_INTERVAL), read(options.FAILURE_RATE_DELAY)
        )
    if kind == "exponential-delay":
        return ExponentialDelayRestart(
            initial_backoff_ms=read(options.EXPONENTIAL_INITIAL),
            max_backoff_ms=read(options.EXPONENTIAL_MAX),
            backoff_multiplier=read(options.EXPONENTIAL_FACTOR),
            reset_backoff_threshold_ms=read(options.EXPONENTIAL_RESET),
            jitter_factor=read(options.EXPONENTIAL_JITTER),
            attempts_before_reset=read(options.EXPONENTIAL_ATTEMPTS),
        )
    return NoRestart()


def set_restart(configuration: Configuration, strategy: RestartStrategyConfiguration) -> None:
    """Write one of PyFlink's ``RestartStrategies`` as options.

    Raises
    ------
    TypeError
        If it is none of them.
    """
    pairs: dict[options.Option, str]
    if isinstance(strategy, RestartStrategies.NoRestartStrategyConfiguration):
        pairs = {options.RESTART_STRATEGY: "none"}
    elif isinstance(strategy, RestartStrategies.FixedDelayRestartStrategyConfiguration):
        pairs = {
            options.RESTART_STRATEGY: "fixed-delay",
            options.FIXED_DELAY_ATTEMPTS: str(strategy.get_restart_attempts()),
            options.FIXED_DELAY: _text_of(strategy.get_delay_between_attempts_interval()),
        }
    elif isinstance(strategy, RestartStrategies.FailureRateRestartStrategyConfiguration):
        pairs = {
            options.RESTART_STRATEGY: "failure-rate",
            options.FAILURE_RATE_MAX: str(strategy.get_max_failure_rate()),
            options.FAILURE_RATE_INTERVAL: _text_of(strategy.get_failure_interval()),
            options.FAILURE_RATE_DELAY: _text_of(strategy.get_delay_between_attempts_interval()),
        }
    elif isinstance(strategy, RestartStrategies.FallbackRestartStrategyConfiguration):
        pairs = {}  # what holds where nothing was said
    else:
        raise TypeError(
            "a restart strategy is one of flinkbuf.common.RestartStrategies, such as "
            f"RestartStrategies.fixed_delay_restart(3, 1000), got {strategy!r}"
        )
    for key in (options.RESTART_STRATEGY.key, *options.RESTART_STRATEGY.fallback_keys):
        configuration.remove_config(key)
    for option, text in pairs.items():
        configuration.set_string(option.key, text)


def master_config_of(configuration: Configuration) -> JobMasterConfig:
    """Return the times of the job master.

    Raises
    ------
    ValueError
        If a heartbeat would time out before the next one was due.
    """
    interval_ms = options.read(configuration, options.HEARTBEAT_INTERVAL)
    timeout_ms = options.read(configuration, options.HEARTBEAT_TIMEOUT)
    if not 0 < interval_ms < timeout_ms:
        raise ValueError(
            f"{options.HEARTBEAT_TIMEOUT.key} = {timeout_ms} ms must be longer than {options.HEARTBEAT_INTERVAL.key} = "
            f"{interval_ms} ms, which must be more than 0"
        )
    return JobMasterConfig(
        slot_request_timeout_ms=options.read(configuration, options.SLOT_REQUEST_TIMEOUT),
        heartbeat_interval_ms=interval_ms,
        heartbeat_timeout_ms=timeout_ms,
    )


def network_config_of(configuration: Configuration) -> NetworkConfig:
    """Return the knobs of the network stack that were set, the others as they are by default.

    Raises
    ------
    ValueError
        If a value cannot be read or is out of range.
    """
    return NetworkConfig.from_flink(options.network_options(configuration))


def termination_of(configuration: Configuration) -> TerminationSettings:
    """Return what SIGTERM does to a job.

    Raises
    ------
    ValueError
        The values contradict each other, or others.

    Examples
    --------
    >>> termination_of(Configuration())
    TerminationSettings(mode='SUSPEND', is_draining=False, grace_ms=25000)
    """
    mode, drains = options.TERMINATION_MODE, options.TERMINATION_DRAINS
    settings = TerminationSettings(
        options.read(configuration, mode),
        options.read(configuration, drains),
        options.read(configuration, options.TERMINATION_GRACE),
    )
    if settings.grace_ms < 1:
        raise ValueError(f"{options.TERMINATION_GRACE.key} must be more than 0 ms")
    if settings.mode != SAVEPOINT:
        if settings.is_draining:
            raise ValueError(f"{drains.key} is for {mode.key} {SAVEPOINT}: other modes drain nothing")
        return settings
    if options.read(configuration, options.SAVEPOINT_DIRECTORY) is None:
        raise ValueError(f"{mode.key} {SAVEPOINT} needs {options.SAVEPOINT_DIRECTORY.key}, where savepoints go")
    if checkpoint_options.high_availability_of(configuration) is not None and not settings.is_draining:
        raise ValueError(
            f"{mode.key} {SAVEPOINT} ends a job for good, and {options.HA_DIRECTORY.key} keeps one that has ended from "
            "running again: use SUSPEND, with which the program started again goes on from the latest checkpoint"
        )
    return settings


def _text_of(interval: timedelta) -> str:
    return f"{interval // timedelta(milliseconds=1)} ms"
