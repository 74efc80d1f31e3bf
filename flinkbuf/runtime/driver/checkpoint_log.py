"""One line in the log for each checkpoint, what became of it and what was slow, for each restart, and for a stop."""

from __future__ import annotations

import logging

from flinkbuf.checkpoints.failure_reason import CheckpointFailureReason
from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.log import logger
from flinkbuf.runtime.master.failure_history import CAUSE, FailureEntry, Outage
from flinkbuf.runtime.picture.plain_words import size_text
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.scheduler.master_actions import CheckpointRecord

_SERIOUS = (
    CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE,
    CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE,
    CheckpointFailureReason.TASK_CHECKPOINT_FAILURE,
)


def log_checkpoint(job_name: str, record: CheckpointRecord) -> None:
    """Log a checkpoint: as a warning if the user should look, unless a restart or a task's end came in between."""
    reason = CheckpointFailureReason.named(record.reason)
    is_usual = not (reason.counts or reason in _SERIOUS or SnapshotKind(record.kind).is_savepoint)
    level = logging.INFO if record.status == "COMPLETED" or is_usual else logging.WARNING
    logger.log(level, "job %s: %s", job_name, text_of(record))


def log_stop(job_name: str, savepoint: str) -> None:
    """Log the savepoint that stopped a job, if one did: the request may have come from another process."""
    if savepoint:
        logger.warning(
            "job %s was stopped with savepoint %s: execution.state-recovery.path begins from it", job_name, savepoint
        )


class RestartLog:
    """Logs each outage once, with its cause, when the job begins again.

    The first failure is often only a lost connection to the task that failed. It is not named while another failure may
    still give the cause, until the job begins again.

    Parameters
    ----------
    job_name : str
    """

    def __init__(self, job_name: str) -> None:
        self._job_name = job_name
        self._said: Outage | None = None

    def look(self, status: JobStatus, outages: list[Outage]) -> None:
        """Look at a job after each step of its job master."""
        outage = outages[-1] if outages else None
        if outage is None or outage is self._said:
            return
        is_known = status is JobStatus.RESTARTING and outage.root.weight == CAUSE
        if is_known or status is JobStatus.RUNNING:
            self._said = outage
            logger.warning("job %s begins again: %s", self._job_name, cause_text(outage.root))


def cause_text(entry: FailureEntry) -> str:
    """Return what failed, and in which operator of which task as far as that is known.

    Examples
    --------
    >>> from flinkbuf.runtime.protocol.failure import Failure
    >>> place = {"operator_name": "Map", "task_name": "Source: numbers -> Map (1/2)#0"}
    >>> cause_text(FailureEntry(Failure("builtins.ValueError", "no number", location=place), 0))
    "ValueError: no number in operator 'Map' of Source: numbers -> Map (1/2)#0"
    """
    failure = entry.failure
    operator, task = failure.location.get("operator_name"), failure.location.get("task_name") or entry.task_name
    place = "" if task is None else f" in {task}" if operator is None else f" in operator {operator!r} of {task}"
    return f"{failure.type_name.removeprefix('builtins.')}: {failure.message}{place}"


def text_of(record: CheckpointRecord) -> str:
    """Return the log line of a checkpoint.

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
