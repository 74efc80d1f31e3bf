"""What a job master is told about checkpoints. Flink: CheckpointCoordinatorConfiguration, CheckpointRetentionPolicy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flinkbuf.checkpoints.handles import CheckpointMetadata
from flinkbuf.checkpoints.locations import checkpoint_location, savepoint_location
from flinkbuf.checkpoints.options import NO_TIMEOUT, CheckpointOptions, SnapshotKind

UNLIMITED: Final = -1
RETENTIONS: Final = ("DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS")
CLAIM_MODES: Final = ("CLAIM", "NO_CLAIM")


@dataclass(frozen=True)
class CheckpointCoordinatorConfig:
    """How a job takes checkpoints.

    Attributes
    ----------
    interval_ms : int
        How often; 0: only savepoints that a user asks for.
    timeout_ms : int
        A checkpoint that is not complete by then is aborted.
    min_pause_ms : int
        At least so long after one is complete nothing begins by itself; then only one is under way at a time.
    max_concurrent : int
        How many may be under way.
    tolerable_failures : int
        How many may fail in a row before the job begins again; -1: any number.
    retained : int
        How many complete ones are kept.
    is_exactly_once, is_unaligned, aligned_timeout_ms
        As in `CheckpointOptions`; with a timeout above 0 they begin aligned.
    after_tasks_finish : bool
        Whether they go on when some tasks have come to their end.
    retention : str
        What becomes of them when the job ends: kept if it fails, kept if it fails or is canceled, or never kept.
    directory, savepoint_directory : str
        Above those of jobs and of savepoints; empty: none.
    epoch : int
        Counts the job masters of the job, which took it over from each other.
    history_size : int
        How many `details` shows.

    Raises
    ------
    ValueError
        Values that do not fit each other.

    Examples
    --------
    >>> CheckpointCoordinatorConfig(interval_ms=100, min_pause_ms=500).period_ms
    500
    """

    interval_ms: int = 0
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    retained: int = 1
    is_exactly_once: bool = True
    is_unaligned: bool = False
    aligned_timeout_ms: int = 0
    after_tasks_finish: bool = True
    retention: str = "DELETE_ON_CANCELLATION"
    directory: str = ""
    savepoint_directory: str = ""
    epoch: int = 1
    history_size: int = 10

    def __post_init__(self) -> None:
        for name, least in (
            ("interval_ms", 0),
            ("timeout_ms", 1),
            ("min_pause_ms", 0),
            ("max_concurrent", 1),
            ("tolerable_failures", UNLIMITED),
            ("retained", 1),
            ("aligned_timeout_ms", 0),
            ("epoch", 0),
            ("history_size", 0),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"{name} of checkpoints must be at least {least}, got {getattr(self, name)}")
        if self.retention not in RETENTIONS:
            raise ValueError(f"retention of checkpoints must be one of {', '.join(RETENTIONS)}, got {self.retention!r}")
        if self.is_unaligned and self.max_concurrent > 1:
            raise ValueError(
                f"unaligned checkpoints cannot be under way together, got max_concurrent={self.max_concurrent}"
            )
        if self.is_unaligned and not self.is_exactly_once:
            raise ValueError("unaligned checkpoints are exactly once: records that count twice need no alignment")

    @property
    def period_ms(self) -> int:
        """Return the interval, as it is used."""
        return max(self.interval_ms, self.min_pause_ms) if self.interval_ms else 0

    @property
    def concurrency(self) -> int:
        """Return how many checkpoints are under way at most."""
        return 1 if self.min_pause_ms else self.max_concurrent

    def options(
        self, job_id: str, checkpoint_id: int, kind: SnapshotKind, savepoint_directory: str, savepoint_name: str
    ) -> CheckpointOptions:
        """Return how one checkpoint is taken; savepoints are aligned, and go where their user says."""
        location = ""
        if kind.is_savepoint:
            location = savepoint_location(savepoint_directory, job_id, savepoint_name)
        elif self.directory:
            location = checkpoint_location(self.directory, job_id, checkpoint_id, self.epoch)
        may_overtake = self.is_unaligned and not kind.is_savepoint
        return CheckpointOptions(
            kind.value,
            location,
            is_exactly_once=self.is_exactly_once or kind.is_synchronous,
            is_unaligned=may_overtake and self.aligned_timeout_ms == 0,
            aligned_timeout_ms=self.aligned_timeout_ms if may_overtake else NO_TIMEOUT,
        )


@dataclass(frozen=True)
class RecoverySettings:
    """What the program says its job is to begin from. Flink: SavepointRestoreSettings."""

    path: str
    claim_mode: str = "NO_CLAIM"
    allow_non_restored_state: bool = False
    falls_back: bool = False


@dataclass(frozen=True)
class RestoredCheckpoint:
    """What a job begins with.

    Attributes
    ----------
    location : str
        Its directory.
    claim_mode : str
        "CLAIM": it is the job's from now on, and deleted when it is not needed any more. "NO_CLAIM": it stays its
        owner's, and the job stands on its own as soon as its first checkpoint is complete.
    allow_non_restored_state : bool
        State that the program has no operator for is left out; else it is an error.
    """

    metadata: CheckpointMetadata
    location: str = ""
    claim_mode: str = "NO_CLAIM"
    allow_non_restored_state: bool = False

    def __post_init__(self) -> None:
        if self.claim_mode not in CLAIM_MODES:
            raise ValueError(f"claim mode must be one of {', '.join(CLAIM_MODES)}, got {self.claim_mode!r}")

    @property
    def is_claimed(self) -> bool:
        """Return whether the job may delete the checkpoint."""
        return self.claim_mode == "CLAIM"
