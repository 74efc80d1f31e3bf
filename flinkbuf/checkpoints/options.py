"""How one checkpoint is to be taken. Flink: CheckpointOptions, SnapshotType."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

NO_TIMEOUT = -1


class SnapshotKind(Enum):
    """What a checkpoint is for."""

    CHECKPOINT = "CHECKPOINT"
    FULL_CHECKPOINT = "FULL_CHECKPOINT"  # refers to no file of an earlier one
    SAVEPOINT = "SAVEPOINT"
    SAVEPOINT_SUSPEND = "SAVEPOINT_SUSPEND"  # the job stops with it, and can go on later
    SAVEPOINT_TERMINATE = "SAVEPOINT_TERMINATE"  # the job stops for good: event time comes to its end first

    @property
    def is_savepoint(self) -> bool:
        """Return whether a user asked for it; aligned, in the form that every backend reads."""
        return self.value.startswith("SAVEPOINT")

    @property
    def noun(self) -> str:
        """Return the users' word for the kind."""
        return "savepoint" if self.is_savepoint else "checkpoint"

    @property
    def is_synchronous(self) -> bool:
        """Return whether the tasks end with the checkpoint."""
        return self in (SnapshotKind.SAVEPOINT_SUSPEND, SnapshotKind.SAVEPOINT_TERMINATE)


@dataclass(frozen=True)
class CheckpointOptions:
    """How a checkpoint is to be taken.

    Attributes
    ----------
    kind : str
        A `SnapshotKind` by name.
    location : str
        The directory that its files go to, as `CheckpointStorage` knows it; empty: the job master keeps all state.
    is_exactly_once : bool
        Channels wait for each other; else records behind a barrier may count twice.
    is_unaligned : bool
        Barriers may overtake records.
    aligned_timeout_ms : int
        After so long an aligned barrier begins to overtake; 0: at once; `NO_TIMEOUT`: never.
    """

    kind: str = "CHECKPOINT"
    location: str = ""
    is_exactly_once: bool = True
    is_unaligned: bool = False
    aligned_timeout_ms: int = NO_TIMEOUT

    @property
    def snapshot_kind(self) -> SnapshotKind:
        """Return `kind` as a member."""
        return SnapshotKind(self.kind)


@dataclass(frozen=True)
class CheckpointMetrics:
    """The figures of a task's part of a checkpoint. Flink: CheckpointMetrics."""

    start_delay_ms: int = 0  # from the trigger until the first barrier came
    alignment_ms: int = 0
    sync_ms: int = 0
    async_ms: int = 0
    bytes_processed_during_alignment: int = 0
    bytes_persisted_during_alignment: int = 0
    is_unaligned: bool = False
