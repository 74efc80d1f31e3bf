"""What a job is started with, as bytes, and the checkpoint that it begins from.

Flink: JobGraphStore (its entries), SavepointRestoreSettings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import cloudpickle

from flinkbuf.checkpoints.handles import CheckpointMetadata
from flinkbuf.checkpoints.locations import METADATA, name_of, normalized, parent
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.jobs.graphs.job_graph import JobGraph
from flinkbuf.jobs.graphs.user_code import pickled
from flinkbuf.jobs.main_module import install_main_classes, main_classes
from flinkbuf.jobs.master.checkpoint_config import CheckpointCoordinatorConfig, RestoredCheckpoint
from flinkbuf.jobs.master.job_master_config import JobMasterConfig
from flinkbuf.streaming.operator_config import ExecutionSettings

DEFAULT_LEASE_TIMEOUT_MS: Final = 15_000


def restored_from(
    path: str, claim_mode: str = "NO_CLAIM", allow_non_restored_state: bool = False
) -> RestoredCheckpoint:
    """Return what a job begins with that is started from a checkpoint or savepoint.

    Parameters
    ----------
    path : str
        Its directory, or the file ``_metadata`` in it.
    claim_mode, allow_non_restored_state
        As in `RestoredCheckpoint`.

    Raises
    ------
    FileNotFoundError
        There is no checkpoint at that path.
    CorruptDataError
        It is damaged.
    """
    location = normalized(path)
    if name_of(location) == METADATA:
        location = parent(location)
    metadata: CheckpointMetadata = storage_of(location).read_metadata(location)
    return RestoredCheckpoint(metadata, location, claim_mode, allow_non_restored_state)


@dataclass(frozen=True)
class StoredJob:
    """All that a job is started with, so that it can be started again without its program."""

    graph: JobGraph
    settings: ExecutionSettings
    target_name: str
    restart_strategy: Any
    config: JobMasterConfig | None
    checkpointing: CheckpointCoordinatorConfig
    bundle_fields: dict[str, Any] = field(default_factory=dict)
    lease_timeout_ms: int = DEFAULT_LEASE_TIMEOUT_MS

    def to_bytes(self) -> bytes:
        """Write it, with the classes of this program's main module.

        Raises
        ------
        TypeError
            A function of the job cannot be pickled.
        """
        try:
            # In two parts: what is pickled by name in the second is found once the first was read.
            data: bytes = pickled((main_classes(), pickled(dict(self.__dict__))))
        except Exception as error:
            raise TypeError(
                f"job {self.graph.settings.job_name!r} cannot be kept for another program to go on with: "
                f"{type(error).__name__}: {error}"
            ) from error
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> StoredJob:
        """Read what `to_bytes` gave; only from whoever may run code here."""
        classes, fields = cloudpickle.loads(data)
        install_main_classes(classes)
        return cls(**cloudpickle.loads(fields))
