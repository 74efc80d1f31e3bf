"""What a job is started with, as bytes, and the checkpoint that it begins from.

Flink: JobGraphStore (its entries), SavepointRestoreSettings.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import cloudpickle

from flinkbuf.checkpoints.description import verify
from flinkbuf.checkpoints.handles import CheckpointMetadata
from flinkbuf.checkpoints.locations import checkpoint_id_of, parent
from flinkbuf.checkpoints.storage import location_of, storage_of
from flinkbuf.errors import CorruptDataError
from flinkbuf.log import logger
from flinkbuf.runtime.checkpoint.checkpoint_config import (
    CheckpointCoordinatorConfig,
    RecoverySettings,
    RestoredCheckpoint,
)
from flinkbuf.runtime.graph.job_graph import JobGraph
from flinkbuf.runtime.graph.main_module import install_main_classes, main_classes
from flinkbuf.runtime.graph.user_code import pickled
from flinkbuf.runtime.master.restart_strategy import RestartSettings
from flinkbuf.runtime.scheduler.job_master_config import JobMasterConfig
from flinkbuf.streaming.chain.operator_config import ExecutionSettings

DEFAULT_LEASE_TIMEOUT_MS: Final = 15_000


def restored_from(
    path: str,
    claim_mode: str = "NO_CLAIM",
    allow_non_restored_state: bool = False,
    *,
    older: Sequence[str] | None = None,
    falls_back: bool = False,
) -> RestoredCheckpoint:
    """Return what a job begins with that is started from a checkpoint or savepoint.

    Parameters
    ----------
    path : str
        Its directory, or the file ``_metadata`` in it.
    claim_mode, allow_non_restored_state
        As in `RestoredCheckpoint`.
    older : sequence of str, optional
        Others that may be begun from if it is damaged, newest first; by default the complete older ones beside it, if
        it is no savepoint.
    falls_back : bool
        Begin from the first whole one of those, if it is damaged.

    Raises
    ------
    FileNotFoundError
        There is no checkpoint at that path.
    CorruptDataError
        It is damaged; the error names those that are whole, and how to begin from one.
    """
    location = location_of(path)
    try:
        if falls_back:
            _check_whole(location)
        return _restored(location, claim_mode, allow_non_restored_state)
    except (CorruptDataError, FileNotFoundError) as error:
        whole = next(iter(_whole(location, older)), None)
        if whole is None or (isinstance(error, FileNotFoundError) and older is None):
            raise
        if not falls_back:
            raise _with_way_out(error, whole) from None
        logger.warning("the job begins from %s, which is older, since the newest one is damaged: %s", whole, error)
        return _restored(whole, claim_mode, allow_non_restored_state)


def restored_by(settings: RecoverySettings | None) -> RestoredCheckpoint | None:
    """Return what a program says its job begins with; None: with nothing. Raises as `restored_from` does."""
    if settings is None:
        return None
    return restored_from(
        settings.path, settings.claim_mode, settings.allow_non_restored_state, falls_back=settings.falls_back
    )


def _restored(location: str, claim_mode: str, allow_non_restored_state: bool) -> RestoredCheckpoint:
    metadata: CheckpointMetadata = storage_of(location).read_metadata(location)
    return RestoredCheckpoint(metadata, location, claim_mode, allow_non_restored_state)


def _check_whole(location: str) -> None:
    """Read every byte of a checkpoint; raise the first thing that is wrong."""
    problems = verify(storage_of(location), location).problems
    if problems:
        raise CorruptDataError(problems[0].message)


def _whole(location: str, older: Sequence[str] | None) -> Iterator[str]:
    """Yield the older checkpoints that are as they were written, newest first."""
    storage = storage_of(location)
    if older is None:
        with contextlib.suppress(OSError):
            found = [each for each in storage.list_checkpoints(parent(location)) if each.is_complete]
            older = [each.location for each in found if _is_older(each.checkpoint_id, checkpoint_id_of(location))]
    for each in map(location_of, older or ()):
        if each == location:
            continue
        with contextlib.suppress(CorruptDataError, OSError):
            _check_whole(each)
            yield each


def _is_older(checkpoint_id: int | None, than: int | None) -> bool:
    """Return whether a checkpoint was taken before another; beside a savepoint lies what any job has."""
    return checkpoint_id is not None and than is not None and checkpoint_id < than


def _with_way_out(error: Exception, whole: str) -> Exception:
    """Return the error with what the user can do. No older one is begun from unasked: later results count already."""
    text = (
        f"{error}; {whole} is older and whole: execution.state-recovery.fall-back: true begins from it, as does "
        "`python -m flinkbuf recover --fall-back`, and what was committed after it is committed again"
    )
    made = type(error)(text)
    made.__dict__.update(error.__dict__)
    return made


@dataclass(frozen=True)
class StoredJob:
    """All that a job is started with, so that it can be started again without its program.

    `configuration` and `job_parameters` are without secrets, as they may be shown to readers of the job's page.
    `web_settings` say where that was, without the token. `recovery` says what the job begins with as long as it has no
    checkpoint of its own.
    """

    graph: JobGraph
    settings: ExecutionSettings
    target_name: str
    restart_strategy: RestartSettings | None
    config: JobMasterConfig | None
    checkpointing: CheckpointCoordinatorConfig
    bundle_fields: dict[str, object] = field(default_factory=dict)
    lease_timeout_ms: int = DEFAULT_LEASE_TIMEOUT_MS
    configuration: dict[str, str] = field(default_factory=dict)
    job_parameters: dict[str, str] = field(default_factory=dict)
    web_settings: dict[str, str] = field(default_factory=dict)
    recovery: RecoverySettings | None = None

    def to_bytes(self) -> bytes:
        """Return the job as bytes, with the classes of this program's main module.

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
        """Read the bytes of `to_bytes`; only from a sender that may run code here."""
        classes, fields = cloudpickle.loads(data)
        install_main_classes(classes)
        return cls(**cloudpickle.loads(fields))
