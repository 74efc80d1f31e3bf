"""One line in the log for each checkpoint, what became of it and what was slow, and for each restart, why."""

from __future__ import annotations

import logging

from flinkbuf.checkpoints.failure_reason import CheckpointFailureReason
from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.jobs.failure import Failure
from flinkbuf.jobs.master.master_actions import CheckpointRecord
from flinkbuf.log import logger

_SERIOUS = (
    CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE,
    CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE,
    CheckpointFailureReason.TASK_CHECKPOINT_FAILURE,
)
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def log_checkpoint(job_name: str, record: CheckpointRecord) -> None:
    """Say it: as a warning if somebody should look, not where a restart or the end of a task came in between."""
    reason = CheckpointFailureReason.named(record.reason)
    is_usual = not (reason.counts or reason in _SERIOUS or SnapshotKind(record.kind).is_savepoint)
    level = logging.INFO if record.status == "COMPLETED" or is_usual else logging.WARNING
    logger.log(level, "job %s: %s", job_name, text_of(record))


def log_restart(job_name: str, cause: Failure | None) -> None:
    """Say that a job begins again, and why; where as well, if that is known."""
    if cause is None:
        logger.warning("job %s begins again", job_name)
        return
    task = cause.location.get("task_name")
    text = f"{cause.type_name.removeprefix('builtins.')}: {cause.message}{f' in {task}' if task else ''}"
    logger.warning("job %s begins again: %s", job_name, text)


def text_of(record: CheckpointRecord) -> str:
    """Return the line.

    Examples
    --------
    >>> text_of(CheckpointRecord(7, "CHECKPOINT", "COMPLETED", 0, 143, 5 << 20, 2048, "/c/chk-7", sync_ms=3))
    'checkpoint 7 is complete after 143 ms: 5.0 MiB in /c/chk-7; synchronous part at most 3 ms'
    >>> text_of(CheckpointRecord(8, "SAVEPOINT", "FAILED", 0, 20, reason="CHECKPOINT_DECLINED", failure="disk full"))
    'savepoint 8 came to nothing after 20 ms: CHECKPOINT_DECLINED: disk full'
    """
    name = f"{'savepoint' if SnapshotKind(record.kind).is_savepoint else 'checkpoint'} {record.checkpoint_id}"
    if record.status != "COMPLETED":
        said = ": ".join(part for part in (record.reason, record.failure) if part)
        missing = f"; last heard of: {record.slowest}" if record.slowest else ""
        return f"{name} came to nothing after {record.duration_ms} ms: {said}{missing}"
    parts = [f"{name} is complete after {record.duration_ms} ms: {size_text(record.size)}"]
    parts[0] += f" in {record.path}" if record.path else ", kept by the job master"
    if record.alignment_ms:
        parts.append(f"{'unaligned, ' if record.is_unaligned else ''}alignment at most {record.alignment_ms} ms")
    if record.sync_ms:
        parts.append(f"synchronous part at most {record.sync_ms} ms")
    if record.slowest:
        parts.append(f"last was {record.slowest}")
    return "; ".join(parts)


def size_text(size: int) -> str:
    """Return a size for people.

    Examples
    --------
    >>> size_text(700), size_text(1536)
    ('700 bytes', '1.5 KiB')
    """
    if size < 1024:
        return f"{size} bytes"
    power = min((size.bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{size / 1024**power:.1f} {_UNITS[power]}"
