"""What the options say to those who run a job."""

import sys
from datetime import timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.common import Configuration, RestartStrategies
from flinkbuf.common.job_options import master_config_of, network_config_of, restart_of, set_restart, target_name
from flinkbuf.runtime.master.restart_strategy import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    NoRestart,
)


def of(pairs, *, has_checkpoints=False):
    return restart_of(Configuration.from_dict(pairs), has_checkpoints=has_checkpoints)


# --- targets


def test_where_nothing_is_set_a_job_runs_on_local_processes_or_on_spark_if_it_is_active(monkeypatch):
    for name in ("pyspark", "pyspark.sql.connect.session"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert target_name(Configuration()) == "local"
    stopped = SimpleNamespace(SparkContext=SimpleNamespace(_active_spark_context=None))
    monkeypatch.setitem(sys.modules, "pyspark", stopped)
    assert target_name(Configuration()) == "local"
    monkeypatch.setattr(stopped.SparkContext, "_active_spark_context", object())
    assert target_name(Configuration()) == "spark"
    assert target_name(Configuration.from_dict({"execution.target": "embedded"})) == "embedded"


def test_a_session_of_spark_connect_is_active_too(monkeypatch):
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    session = SimpleNamespace(getActiveSession=lambda: object())
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", SimpleNamespace(SparkSession=session))
    assert target_name(Configuration()) == "spark"


# --- restart strategies


def test_without_checkpoints_a_failure_is_the_end_and_with_them_it_is_not():
    assert of({}) == NoRestart() == of({"restart-strategy.type": "none"}, has_checkpoints=True)
    assert of({}, has_checkpoints=True) == ExponentialDelayRestart()


@pytest.mark.parametrize(
    ("kind", "options", "strategy"),
    [
        ("fixed-delay", {"attempts": "7", "delay": "3 s"}, FixedDelayRestart(7, 3_000)),
        ("fixed-delay", {}, FixedDelayRestart(1, 1_000)),
        (
            "failure-rate",
            {"max-failures-per-interval": "5", "failure-rate-interval": "2 min", "delay": "0 s"},
            FailureRateRestart(5, 120_000, 0),
        ),
        ("failure-rate", {}, FailureRateRestart(1, 60_000, 1_000)),
        (
            "exponential-delay",
            {
                "initial-backoff": "10 ms",
                "max-backoff": "1 s",
                "backoff-multiplier": "3",
                "reset-backoff-threshold": "1 min",
                "jitter-factor": "0",
                "attempts-before-reset-backoff": "4",
            },
            ExponentialDelayRestart(10, 1_000, 3.0, 60_000, 0.0, 4),
        ),
        ("exponential-delay", {}, ExponentialDelayRestart()),
    ],
)
def test_restart_strategies_are_read_from_flinks_keys(kind, options, strategy):
    pairs = {f"restart-strategy.{kind}.{key}": text for key, text in options.items()}
    assert of({"restart-strategy.type": kind, **pairs}) == strategy


def test_options_of_a_strategy_that_contradict_each_other_are_refused():
    pairs = {"restart-strategy.type": "exponential-delay", "restart-strategy.exponential-delay.max-backoff": "1 ms"}
    with pytest.raises(ValueError, match="max_backoff_ms must be at least"):
        of(pairs)


@given(st.integers(0, 2**31), st.integers(0, 10**9))
def test_what_was_set_as_an_object_is_read_as_options(attempts, delay_ms):
    configuration = Configuration()
    set_restart(configuration, RestartStrategies.fixed_delay_restart(attempts, delay_ms))
    assert restart_of(configuration, has_checkpoints=False) == FixedDelayRestart(attempts, delay_ms)


def test_the_last_strategy_that_was_set_holds():
    configuration = Configuration.from_dict({"restart-strategy": "none"})  # an older name of the same option
    set_restart(configuration, RestartStrategies.failure_rate_restart(3, timedelta(minutes=1), 20))
    assert restart_of(configuration, has_checkpoints=False) == FailureRateRestart(3, 60_000, 20)
    set_restart(configuration, RestartStrategies.no_restart())
    assert restart_of(configuration, has_checkpoints=True) == NoRestart()
    set_restart(configuration, RestartStrategies.fall_back_restart())
    assert restart_of(configuration, has_checkpoints=True) == ExponentialDelayRestart()


def test_what_is_no_strategy_is_refused():
    with pytest.raises(TypeError, match="RestartStrategies.fixed_delay_restart"):
        set_restart(Configuration(), "fixed-delay")


# --- times and the network


def test_times_of_the_job_master_are_flinks():
    config = master_config_of(Configuration())
    assert (config.heartbeat_interval_ms, config.heartbeat_timeout_ms) == (10_000, 50_000)
    assert config.slot_request_timeout_ms == 300_000
    pairs = {"heartbeat.interval": "1 s", "heartbeat.timeout": "3 s", "slot.request.timeout": "7 s"}
    config = master_config_of(Configuration.from_dict(pairs))
    assert (config.heartbeat_interval_ms, config.heartbeat_timeout_ms) == (1_000, 3_000)
    assert config.slot_request_timeout_ms == 7_000


@pytest.mark.parametrize("pairs", [{"heartbeat.interval": "1 min"}, {"heartbeat.interval": "0 s"}])
def test_a_heartbeat_that_would_always_be_late_is_refused(pairs):
    with pytest.raises(ValueError, match=r"heartbeat.timeout = 50000 ms must be longer than heartbeat.interval"):
        master_config_of(Configuration.from_dict(pairs))


def test_knobs_of_the_network_are_read_and_other_keys_of_task_managers_left_alone():
    pairs = {
        "taskmanager.memory.segment-size": "64 kb",
        "taskmanager.network.memory.floating-buffers-per-gate": "3",
        "taskmanager.memory.process.size": "1 gb",
        "execution.buffer-timeout": "5 ms",
        "execution.buffer-timeout.interval": "5 ms",
    }
    config = network_config_of(Configuration.from_dict(pairs))
    assert (config.segment_size, config.floating_buffers_per_gate) == (65536, 3)
    with pytest.raises(ValueError, match="power of two"):
        network_config_of(Configuration.from_dict({"taskmanager.memory.segment-size": "5000"}))
