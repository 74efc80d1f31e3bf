"""What the options say to those who take checkpoints, begin from them, and take jobs over.

Flink: CheckpointingOptions, StateRecoveryOptions, StateBackendOptions, HighAvailabilityOptions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flinkbuf.common import options
from flinkbuf.common.configuration import Configuration
from flinkbuf.runtime.checkpoint.checkpoint_config import CheckpointCoordinatorConfig, RecoverySettings
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.checkpoint.snapshot_writer import MAX_INLINE_SIZE


@dataclass(frozen=True)
class HighAvailability:
    """Where jobs are noted, so that another program can go on with them. Flink: HighAvailabilityServices."""

    directory: str
    cluster_id: str
    lease_timeout_ms: int
    falls_back: bool = False  # a job whose newest checkpoint is damaged begins from an older one


def checkpointing_of(configuration: Configuration) -> CheckpointCoordinatorConfig:
    """Return when checkpoints are taken and where they go.

    Raises
    ------
    ValueError
        If a value is out of range, or contradicts another one.

    Examples
    --------
    >>> configuration = Configuration().set_string("execution.checkpointing.interval", "3 s")
    >>> checkpointing_of(configuration).interval_ms, checkpointing_of(Configuration()).interval_ms
    (3000, 0)
    """

    def read(option: options.Option[options.T]) -> options.T:
        return options.read(configuration, option)

    is_exact = read(options.CHECKPOINTING_MODE) == "EXACTLY_ONCE"
    return CheckpointCoordinatorConfig(
        interval_ms=max(read(options.CHECKPOINT_INTERVAL), 0),
        timeout_ms=read(options.CHECKPOINT_TIMEOUT),
        min_pause_ms=read(options.CHECKPOINT_MIN_PAUSE),
        max_concurrent=read(options.MAX_CONCURRENT_CHECKPOINTS),
        tolerable_failures=read(options.TOLERABLE_CHECKPOINT_FAILURES),
        retained=read(options.RETAINED_CHECKPOINTS),
        is_exactly_once=is_exact,
        is_unaligned=is_exact and read(options.UNALIGNED_CHECKPOINTS),
        aligned_timeout_ms=read(options.ALIGNED_CHECKPOINT_TIMEOUT),
        after_tasks_finish=read(options.CHECKPOINTS_AFTER_TASKS_FINISH),
        retention=read(options.CHECKPOINT_RETENTION),
        directory=_directory_of(configuration),
        savepoint_directory=read(options.SAVEPOINT_DIRECTORY) or "",
    )


def _directory_of(configuration: Configuration) -> str:
    """Empty: none was said."""
    storage = options.read(configuration, options.CHECKPOINT_STORAGE)
    directory: str = options.read(configuration, options.CHECKPOINT_DIRECTORY) or ""
    if storage == "filesystem" and not directory:
        raise ValueError(
            f"{options.CHECKPOINT_STORAGE.key} = filesystem needs {options.CHECKPOINT_DIRECTORY.key}: the directory or "
            "URI that checkpoints go to"
        )
    return directory


def _inline_threshold(configuration: Configuration) -> int:
    """Up to how many bytes the state of a subtask goes into the metadata, and not into a file of its own."""
    threshold: int = options.read(configuration, options.INLINE_THRESHOLD)
    is_kept_by_job_master = options.read(configuration, options.CHECKPOINT_STORAGE) == "jobmanager"
    return max(threshold, MAX_INLINE_SIZE) if is_kept_by_job_master else threshold


def with_checkpoints(settings: ExecutionSettings, configuration: Configuration) -> ExecutionSettings:
    """Return the settings of a job's tasks together with what they have to know of checkpoints and state."""

    def read(option: options.Option[options.T]) -> options.T:
        return options.read(configuration, option)

    config = checkpointing_of(configuration)
    backend_options = {
        key: text for key, text in configuration.to_dict().items() if key.startswith(options.STATE_BACKEND_PREFIX)
    }
    return replace(
        settings,
        checkpointing_enabled=config.interval_ms > 0,
        checkpoints_after_tasks_finish=config.after_tasks_finish,
        is_exactly_once=config.is_exactly_once,
        unaligned_checkpoints_enabled=config.is_unaligned,
        max_concurrent_checkpoints=config.max_concurrent,
        checkpoint_directory=config.directory,
        checkpoint_memory_threshold=_inline_threshold(configuration),
        checkpoint_compression=read(options.SNAPSHOT_COMPRESSION),
        state_backend=read(options.STATE_BACKEND),
        state_backend_options={
            **backend_options,
            options.INCREMENTAL_CHECKPOINTS.key: str(read(options.INCREMENTAL_CHECKPOINTS)).lower(),
        },
    )


def recovery_of(configuration: Configuration) -> RecoverySettings | None:
    """Return what a job is to begin from; None: with nothing."""
    path = options.read(configuration, options.RECOVERY_PATH)
    if not path:
        return None
    return RecoverySettings(
        path,
        options.read(configuration, options.RECOVERY_CLAIM_MODE),
        options.read(configuration, options.RECOVERY_IGNORES_UNCLAIMED),
        options.read(configuration, options.RECOVERY_FALLS_BACK),
    )


def high_availability_of(configuration: Configuration) -> HighAvailability | None:
    """Return where jobs are noted for others; None: nowhere.

    Raises
    ------
    ValueError
        If there is no directory though there should be one.
    """

    def read(option: options.Option[options.T]) -> options.T:
        return options.read(configuration, option)

    directory, kind = read(options.HA_DIRECTORY), read(options.HA_TYPE)
    if kind == "filesystem" and not directory:
        raise ValueError(
            f"{options.HA_TYPE.key} = filesystem needs {options.HA_DIRECTORY.key}: a directory that every machine sees "
            "on which the program may be started again"
        )
    if not directory or kind == "none":
        return None
    if read(options.HA_LEASE_TIMEOUT) < 1000:
        raise ValueError(
            f"{options.HA_LEASE_TIMEOUT.key} must be at least 1 s, got {read(options.HA_LEASE_TIMEOUT)} ms"
        )
    lease_timeout_ms, falls_back = read(options.HA_LEASE_TIMEOUT), read(options.RECOVERY_FALLS_BACK)
    return HighAvailability(directory, read(options.HA_CLUSTER), lease_timeout_ms, falls_back)
