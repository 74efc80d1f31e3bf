"""What the options of checkpoints, recovery and high availability come to."""

import pytest

from flinkbuf.common import Configuration
from flinkbuf.common.checkpoint_options import (
    HighAvailability,
    RecoverySettings,
    checkpointing_of,
    high_availability_of,
    recovery_of,
    with_checkpoints,
)
from flinkbuf.runtime.checkpoint.checkpoint_config import CheckpointCoordinatorConfig
from flinkbuf.streaming.chain.operator_config import ExecutionSettings


def configured(options):
    return Configuration.from_dict(options)


def test_without_an_interval_there_are_only_savepoints():
    config = checkpointing_of(Configuration())
    assert (config.interval_ms, config.directory) == (0, "")
    assert not with_checkpoints(ExecutionSettings(), Configuration()).checkpointing_enabled


@pytest.mark.parametrize(
    ("key", "text", "changes"),
    [
        ("execution.checkpointing.interval", "2 s", {"interval_ms": 2000}),
        ("execution.checkpointing.mode", "at_least_once", {"is_exactly_once": False}),
        ("execution.checkpointing.timeout", "1 min", {"timeout_ms": 60_000}),
        ("execution.checkpointing.min-pause", "500", {"min_pause_ms": 500}),
        ("execution.checkpointing.max-concurrent-checkpoints", "3", {"max_concurrent": 3}),
        ("execution.checkpointing.tolerable-failed-checkpoints", "-1", {"tolerable_failures": -1}),
        (
            "execution.checkpointing.externalized-checkpoint-retention",
            "retain_on_cancellation",
            {"retention": "RETAIN_ON_CANCELLATION"},
        ),
        ("execution.checkpointing.unaligned", "true", {"is_unaligned": True}),
        ("execution.checkpointing.alignment-timeout", "3 s", {"aligned_timeout_ms": 3000}),
        ("execution.checkpointing.checkpoints-after-tasks-finish", "false", {"after_tasks_finish": False}),
        ("state.checkpoints.dir", "/c", {"directory": "/c"}),
        ("state.savepoints.dir", "/s", {"savepoint_directory": "/s"}),
        ("execution.checkpointing.num-retained", "4", {"retained": 4}),
    ],
)
def test_each_option_is_taken_over(key, text, changes):
    plain = {"retention": "NO_EXTERNALIZED_CHECKPOINTS", **changes}
    assert checkpointing_of(configured({key: text})) == CheckpointCoordinatorConfig(**plain)


@pytest.mark.parametrize(
    "options",
    [
        {"execution.checkpointing.tolerable-failed-checkpoints": "-2"},
        {"execution.checkpointing.max-concurrent-checkpoints": "0"},
        {"execution.checkpointing.externalized-checkpoint-retention": "SOMETIMES"},
        {"execution.checkpointing.storage": "filesystem"},
        {"execution.checkpointing.unaligned": "true", "execution.checkpointing.max-concurrent-checkpoints": "2"},
    ],
)
def test_what_contradicts_itself_is_refused(options):
    with pytest.raises(ValueError):
        checkpointing_of(configured(options))


def test_with_at_least_once_nothing_overtakes():
    config = checkpointing_of(
        configured({"execution.checkpointing.mode": "AT_LEAST_ONCE", "execution.checkpointing.unaligned": "true"})
    )
    assert not config.is_unaligned


def test_tasks_are_told_what_they_have_to_know():
    settings = with_checkpoints(
        ExecutionSettings(auto_watermark_interval_ms=7),
        configured(
            {
                "execution.checkpointing.interval": "100",
                "execution.checkpointing.dir": "s3://bucket/c",
                "execution.checkpointing.data-inline-threshold": "1 kb",
                "execution.checkpointing.snapshot-compression": "true",
                "state.backend": "rocksdb",
                "state.backend.incremental": "true",
                "state.backend.rocksdb.localdir": "/fast",
            }
        ),
    )
    assert settings.checkpointing_enabled and settings.auto_watermark_interval_ms == 7
    assert (settings.checkpoint_directory, settings.checkpoint_memory_threshold) == ("s3://bucket/c", 1024)
    assert settings.checkpoint_compression and settings.state_backend == "rocksdb"
    assert settings.state_backend_options["state.backend.rocksdb.localdir"] == "/fast"
    assert settings.state_backend_options["execution.checkpointing.incremental"] == "true"


def test_where_the_job_master_keeps_state_it_goes_into_the_metadata():
    options = {"execution.checkpointing.dir": "/c", "execution.checkpointing.data-inline-threshold": "1 kb"}
    assert with_checkpoints(ExecutionSettings(), configured(options)).checkpoint_memory_threshold == 1024
    options["execution.checkpointing.storage"] = "jobmanager"
    settings = with_checkpoints(ExecutionSettings(), configured(options))
    assert (settings.checkpoint_directory, settings.checkpoint_memory_threshold) == ("/c", 5 << 20)
    options["execution.checkpointing.data-inline-threshold"] = "8 mb"
    assert with_checkpoints(ExecutionSettings(), configured(options)).checkpoint_memory_threshold == 8 << 20


def test_a_job_can_begin_from_a_path_by_its_new_and_its_old_names():
    assert recovery_of(Configuration()) is None
    for prefix in ("execution.state-recovery", "execution.savepoint"):
        options = {f"{prefix}.path": "/s/savepoint-1", f"{prefix}.ignore-unclaimed-state": "true"}
        assert recovery_of(configured(options)) == RecoverySettings("/s/savepoint-1", "NO_CLAIM", True)
    options = {"execution.state-recovery.path": "/s", "execution.state-recovery.claim-mode": "claim"}
    assert recovery_of(configured(options)).claim_mode == "CLAIM"


def test_a_directory_is_enough_to_be_available():
    assert high_availability_of(Configuration()) is None
    assert high_availability_of(configured({"high-availability.storageDir": "/ha"})) == HighAvailability(
        "/ha", "default", 15_000
    )
    options = {"high-availability.storageDir": "/ha", "high-availability.type": "NONE"}
    assert high_availability_of(configured(options)) is None


@pytest.mark.parametrize(
    "options",
    [
        {"high-availability.type": "filesystem"},
        {"high-availability.type": "zookeeper"},
        {"high-availability.storageDir": "/ha", "high-availability.lease-timeout": "10 ms"},
    ],
)
def test_what_would_not_make_it_available_is_refused(options):
    with pytest.raises(ValueError):
        high_availability_of(configured(options))
