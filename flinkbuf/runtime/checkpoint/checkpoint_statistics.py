"""What a job's checkpoints have cost, in the shapes of Flink's REST API (``/jobs/:jobid/checkpoints``).

Flink: CheckpointStatsTracker, CheckpointStatsHistory, CheckpointingStatistics.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from flinkbuf.checkpoints.handles import SubtaskState
from flinkbuf.checkpoints.options import CheckpointMetrics
from flinkbuf.runtime.checkpoint.checkpoint_config import CheckpointCoordinatorConfig
from flinkbuf.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.messages import Json
from flinkbuf.runtime.scheduler.execution_graph import Execution
from flinkbuf.runtime.scheduler.master_actions import CheckpointRecord

UNKNOWN: Final = -1
SAMPLES: Final = 1_000  # of complete checkpoints that quantiles are made of
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
IN_PROGRESS, COMPLETED, FAILED = "IN_PROGRESS", "COMPLETED", "FAILED"


@dataclass(frozen=True)
class SubtaskAnswer:
    """What one subtask reported of a checkpoint."""

    execution: Execution
    ack_ms: int
    checkpointed_size: int  # bytes that were new
    state_size: int
    metrics: CheckpointMetrics

    @classmethod
    def of(cls, execution: Execution, state: SubtaskState, metrics: CheckpointMetrics, now_ms: int) -> SubtaskAnswer:
        """Return the answer without the state."""
        own = sum(each.size for each in state.handles())
        shared = sum(each.handle.size for each in state.shared_files())
        return cls(execution, now_ms, own, own + shared, metrics)


@dataclass
class CheckpointStatistics:
    """One checkpoint: its sums are made when a reader asks."""

    id: int
    kind: str
    is_savepoint: bool
    is_unaligned: bool
    trigger_ms: int
    vertex_sizes: dict[str, int]  # subtasks that were waited for, by vertex id
    waited: Mapping[AttemptId, Execution]  # these subtasks
    answers: list[SubtaskAnswer] = field(default_factory=list)
    status: str = IN_PROGRESS
    end_ms: int = UNKNOWN
    path: str = ""
    metadata_size: int = 0
    reason: str = ""
    failure: str = ""
    is_discarded: bool = False

    @property
    def subtask_count(self) -> int:
        """Return how many subtasks were waited for."""
        return sum(self.vertex_sizes.values())

    def frozen(self) -> CheckpointStatistics:
        """Return a copy that does not change any more; itself, if the checkpoint is over."""
        return replace(self, answers=list(self.answers)) if self.status == IN_PROGRESS else self

    def missing(self) -> list[Execution]:
        """Return the subtasks that have not answered."""
        answered = {each.execution.attempt for each in self.answers}
        return [execution for attempt, execution in self.waited.items() if attempt not in answered]

    @property
    def latest_ack_ms(self) -> int:
        """Return when the last subtask answered."""
        return max((each.ack_ms for each in self.answers), default=UNKNOWN)

    def duration_ms(self, now_ms: int) -> int:
        """Return how long the checkpoint took, or has taken so far."""
        return (now_ms if self.end_ms == UNKNOWN else self.end_ms) - self.trigger_ms

    def record(self, slowest: str) -> CheckpointRecord:
        """Return the statistics for a line in the log."""
        return CheckpointRecord(
            self.id,
            self.kind,
            self.status,
            self.trigger_ms,
            self.duration_ms(self.end_ms),
            size=sum(each.state_size for each in self.answers),
            metadata_size=self.metadata_size,
            path=self.path,
            reason=self.reason,
            failure=self.failure,
            slowest=slowest,
            alignment_ms=max((each.metrics.alignment_ms for each in self.answers), default=0),
            sync_ms=max((each.metrics.sync_ms for each in self.answers), default=0),
            is_unaligned=any(each.metrics.is_unaligned for each in self.answers),
        )

    def as_json(self, now_ms: int) -> Json:
        """Return the shape of ``/jobs/:jobid/checkpoints/details/:checkpointid``, each task with its subtasks."""
        return self.summary(now_ms) | {"tasks": {vertex: self.task_json(vertex) for vertex in self.vertex_sizes}}

    def summary(self, now_ms: int) -> Json:
        """Return the shape of ``/jobs/:jobid/checkpoints`` in its history: without tasks."""
        shown = {
            "className": self.status.lower(),
            "id": self.id,
            "status": self.status,
            "is_savepoint": self.is_savepoint,
            "savepointFormat": "CANONICAL" if self.is_savepoint else None,
            "trigger_timestamp": self.trigger_ms,
            **_sums(self.answers),
            "latest_ack_timestamp": self.latest_ack_ms,
            "end_to_end_duration": self.duration_ms(now_ms),
            "num_subtasks": self.subtask_count,
            "num_acknowledged_subtasks": len(self.answers),
            "checkpoint_type": self._type,
            "tasks": {},
        }
        if self.status == COMPLETED:
            shown |= {"external_path": self.path, "discarded": self.is_discarded, "metadata_size": self.metadata_size}
        elif self.status == FAILED:
            shown |= {"failure_timestamp": self.end_ms, "failure_message": self.failure}
        return shown

    @property
    def _type(self) -> str:
        if self.is_savepoint:
            return "SYNC_SAVEPOINT" if self.kind in ("SAVEPOINT_SUSPEND", "SAVEPOINT_TERMINATE") else "SAVEPOINT"
        return "UNALIGNED_CHECKPOINT" if self.is_unaligned else "CHECKPOINT"

    def task_json(self, vertex: str) -> Json:
        """Return what one vertex has answered, as ``/checkpoints/details/:checkpointid/subtasks/:vertexid`` does."""
        return self._task(vertex, [each for each in self.answers if each.execution.attempt.vertex_id == vertex])

    def _task(self, vertex: str, answers: list[SubtaskAnswer]) -> Json:
        last_ms = max((each.ack_ms for each in answers), default=UNKNOWN)
        return {
            "id": self.id,
            "status": self.status,
            "latest_ack_timestamp": last_ms,
            **_sums(answers),
            "end_to_end_duration": UNKNOWN if last_ms == UNKNOWN else last_ms - self.trigger_ms,
            "num_subtasks": self.vertex_sizes[vertex],
            "num_acknowledged_subtasks": len(answers),
            "subtasks": [
                self._subtask(each) for each in sorted(answers, key=lambda each: each.execution.attempt.subtask_index)
            ],
        }

    def _subtask(self, answer: SubtaskAnswer) -> Json:
        metrics = answer.metrics
        return {
            "className": "completed",
            "index": answer.execution.attempt.subtask_index,
            "status": "completed",
            "ack_timestamp": answer.ack_ms,
            "end_to_end_duration": answer.ack_ms - self.trigger_ms,
            "checkpointed_size": answer.checkpointed_size,
            "state_size": answer.state_size,
            "checkpoint": {"sync": metrics.sync_ms, "async": metrics.async_ms},
            "alignment": {
                "buffered": 0,
                "processed": metrics.bytes_processed_during_alignment,
                "persisted": metrics.bytes_persisted_during_alignment,
                "duration": metrics.alignment_ms,
            },
            "start_delay": metrics.start_delay_ms,
            "unaligned_checkpoint": metrics.is_unaligned,
            "aborted": False,
        }


def _sums(answers: Iterable[SubtaskAnswer]) -> Json:
    known = list(answers)
    return {
        "checkpointed_size": sum(each.checkpointed_size for each in known),
        "state_size": sum(each.state_size for each in known),
        "alignment_buffered": 0,  # as in Flink: nothing is set aside any more
        "processed_data": sum(each.metrics.bytes_processed_during_alignment for each in known),
        "persisted_data": sum(each.metrics.bytes_persisted_during_alignment for each in known),
    }


class CheckpointTracker:
    """The checkpoints of a job: numbers of all, the last ones with their details.

    Parameters
    ----------
    config : CheckpointCoordinatorConfig
    """

    def __init__(self, config: CheckpointCoordinatorConfig) -> None:
        self._config = config
        self._counts = {"restored": 0, "total": 0, "in_progress": 0, "completed": 0, "failed": 0}
        self._history: deque[CheckpointStatistics] = deque(maxlen=config.history_size)
        self._open: dict[int, CheckpointStatistics] = {}
        self._latest: dict[str, CheckpointStatistics] = {}  # "completed", "savepoint", "failed"
        self._restored: Json | None = None
        self._samples: deque[Json] = deque(maxlen=SAMPLES)

    def began(self, pending: PendingCheckpoint) -> None:
        """Note a checkpoint that has begun."""
        sizes: dict[str, int] = {}
        for attempt in pending.plan.to_wait_for:
            sizes[attempt.vertex_id] = sizes.get(attempt.vertex_id, 0) + 1
        kind, options = pending.kind, pending.options
        made = CheckpointStatistics(
            pending.id,
            kind.value,
            kind.is_savepoint,
            options.is_unaligned,
            pending.timestamp_ms,
            sizes,
            pending.plan.to_wait_for,
        )
        self._open[pending.id] = made
        self._history.append(made)
        self._counts["total"] += 1
        self._counts["in_progress"] += 1

    def answered(
        self, checkpoint_id: int, execution: Execution, state: SubtaskState, metrics: CheckpointMetrics, now_ms: int
    ) -> None:
        """Note a subtask's part of a checkpoint."""
        self._open[checkpoint_id].answers.append(SubtaskAnswer.of(execution, state, metrics, now_ms))

    def completed(self, checkpoint_id: int, path: str, metadata_size: int, now_ms: int) -> CheckpointRecord:
        """Note a complete checkpoint."""
        done = self._close(checkpoint_id, COMPLETED, now_ms)
        done.path, done.metadata_size = path, metadata_size
        self._latest["savepoint" if done.is_savepoint else "completed"] = done
        self._samples.append(_sums(done.answers) | {"end_to_end_duration": done.duration_ms(now_ms)})
        last = max(done.answers, key=lambda each: each.ack_ms, default=None)
        return done.record("" if last is None else str(last.execution.vertex))

    def failed(self, pending: PendingCheckpoint, reason: str, failure: str, now_ms: int) -> CheckpointRecord:
        """Note a failed checkpoint."""
        done = self._close(pending.id, FAILED, now_ms)
        done.reason, done.failure = reason, failure
        self._latest["failed"] = done
        missing = next(iter(pending.missing.values()), None)
        return done.record("" if missing is None else str(missing.vertex))

    def refused(self) -> None:
        """Note a checkpoint that could not begin."""
        self._counts["total"] += 1
        self._counts["failed"] += 1

    def discarded(self, checkpoint_id: int) -> None:
        """Note that a complete checkpoint was discarded."""
        for each in (*self._history, *self._latest.values()):
            if each.id == checkpoint_id:
                each.is_discarded = True

    def restored(self, checkpoint_id: int, path: str, is_savepoint: bool, now_ms: int) -> None:
        """Note the checkpoint that the job has begun from."""
        self._counts["restored"] += 1
        self._restored = {
            "id": checkpoint_id,
            "restore_timestamp": now_ms,
            "is_savepoint": is_savepoint,
            "external_path": path,
        }

    def _close(self, checkpoint_id: int, status: str, now_ms: int) -> CheckpointStatistics:
        done = self._open.pop(checkpoint_id)
        done.status, done.end_ms = status, now_ms
        self._counts["in_progress"] -= 1
        self._counts[status.lower()] += 1
        return done

    def picture(self) -> CheckpointsPicture:
        """Return the statistics as they are now, for other threads."""
        shown = {each.id: each.frozen() for each in (*self._history, *self._latest.values())}
        return CheckpointsPicture(
            self._config,
            dict(self._counts),
            tuple(shown[each.id] for each in self._history),
            {name: shown[each.id] for name, each in self._latest.items()},
            self._restored,
            tuple(self._samples),
        )

    def as_json(self, now_ms: int) -> Json:
        """Return the statistics as JSON, see `CheckpointsPicture.as_json`."""
        return self.picture().as_json(now_ms)


@dataclass(frozen=True)
class CheckpointsPicture:
    """The checkpoints of a job at one moment.

    Attributes
    ----------
    config : CheckpointCoordinatorConfig
    counts : dict
        By what became of them.
    history : tuple of CheckpointStatistics
        Oldest first; those that are under way among them.
    latest : dict
        Of each of "completed", "savepoint" and "failed" the last one, if there is one.
    restored : dict or None
        What the job has begun from.
    samples : tuple of dict
        Sums of complete ones, for quantiles.
    """

    config: CheckpointCoordinatorConfig
    counts: dict[str, int]
    history: tuple[CheckpointStatistics, ...]
    latest: dict[str, CheckpointStatistics]
    restored: Json | None
    samples: tuple[Json, ...]

    @property
    def running(self) -> list[CheckpointStatistics]:
        """Return the checkpoints under way."""
        return [each for each in self.history if each.status == IN_PROGRESS]

    def find(self, checkpoint_id: int) -> CheckpointStatistics | None:
        """Return a checkpoint of the history."""
        found = (each for each in (*self.history, *self.latest.values()) if each.id == checkpoint_id)
        return next(found, None)

    def config_json(self) -> Json:
        """Return what ``/jobs/:jobid/checkpoints/config`` does."""
        return _config_json(self.config)

    def as_json(self, now_ms: int) -> Json:
        """Return ``/jobs/:jobid/checkpoints``, with ``/checkpoints/config`` as ``config``."""
        latest = {
            name: self.latest[name].as_json(now_ms) if name in self.latest else None
            for name in ("completed", "savepoint", "failed")
        }
        names = ("checkpointed_size", "state_size", "end_to_end_duration", "alignment_buffered")
        return {
            "counts": dict(self.counts),
            "summary": {
                name: quantiles([each[name] for each in self.samples])
                for name in (*names, "processed_data", "persisted_data")
            },
            "latest": latest | {"restored": self.restored},
            "history": [each.as_json(now_ms) for each in reversed(self.history)],
            "config": self.config_json(),
        }


def quantiles(values: Sequence[int]) -> Json:
    """Return least, most, mean and quantiles, in Flink's shape."""
    ordered = sorted(values)
    if not ordered:
        return {"min": 0, "max": 0, "avg": 0} | dict.fromkeys(QUANTILES, "NaN")
    at: Callable[[float], int] = lambda share: ordered[min(int(share * len(ordered)), len(ordered) - 1)]  # noqa: E731
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": sum(ordered) // len(ordered),
        **{name: at(share) for name, share in QUANTILES.items()},
    }


def _config_json(config: CheckpointCoordinatorConfig) -> Json:
    return {
        "mode": "exactly_once" if config.is_exactly_once else "at_least_once",
        "interval": config.period_ms,
        "timeout": config.timeout_ms,
        "min_pause": config.min_pause_ms,
        "max_concurrent": config.concurrency,
        "externalization": {
            "enabled": config.retention != "NO_EXTERNALIZED_CHECKPOINTS",
            "delete_on_cancellation": config.retention != "RETAIN_ON_CANCELLATION",
        },
        "checkpoint_storage": config.directory,
        "unaligned_checkpoints": config.is_unaligned,
        "aligned_checkpoint_timeout": config.aligned_timeout_ms,
        "tolerable_failed_checkpoints": config.tolerable_failures,
        "checkpoints_after_tasks_finish": config.after_tasks_finish,
    }
