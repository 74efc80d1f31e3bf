"""What tasks, operators, task managers and the job report, by Flink's metric names and scopes.

A heartbeat carries plain numbers under short names; here they become what Flink's REST API and its reporters call them.
Nothing is counted for it. Flink: MetricNames, TaskIOMetricGroup, ScopeFormats, QueryScopeInfo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from flinkbuf.runtime.picture.job_picture import AttemptPicture, JobPicture, ManagerPicture, VertexPicture
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import Json
from flinkbuf.runtime.scheduler.execution_state import ExecutionState

# Flink's name, and ours, of numbers that grow and of those that go up and down.
_TASK_NUMBERS: Final = {
    "numRecordsIn": "records_in",
    "numRecordsOut": "records_out",
    "numBytesIn": "bytes_in",
    "numBytesOut": "bytes_out",
    "numBuffersIn": "buffers_in",
    "numBuffersOut": "buffers_out",
    "accumulateBusyTimeMs": "busy_ms",
    "accumulateIdleTimeMs": "idle_ms",
    "accumulateBackPressuredTimeMs": "back_pressured_ms",
    "accumulateSoftBackPressuredTimeMs": "soft_back_pressured_ms",
    "accumulateHardBackPressuredTimeMs": "hard_back_pressured_ms",
    "mailboxQueueSize": "mailbox_queue_size",
    "numMailsProcessed": "mails_processed",
    "mailboxLatencyMs": "mailbox_latency_ms",
    "currentInputWatermark": "watermark",
    "Shuffle.Netty.Input.Buffers.inputQueueLength": "queued_in",
    "Shuffle.Netty.Input.Buffers.inPoolUsage": "in_pool_usage",
    "Shuffle.Netty.Output.Buffers.outputQueueLength": "queued_out",
    "Shuffle.Netty.Output.Buffers.outPoolUsage": "out_pool_usage",
}
_RATE_NAMES: Final = (
    "numRecordsInPerSecond",
    "numRecordsOutPerSecond",
    "numBytesInPerSecond",
    "numBytesOutPerSecond",
    "numRowsInPerSecond",
    "numRowsOutPerSecond",
)
_SHARE_NAMES: Final = ("busyTimeMsPerSecond", "idleTimeMsPerSecond", "backPressuredTimeMsPerSecond")
_NS_PER_MS: Final = 1_000_000
_CHECKPOINT_TIMES: Final = {  # in nanoseconds, as Flink has them
    "checkpointAlignmentTime": "alignment_ms",
    "checkpointStartDelayNanos": "start_delay_ms",
}
_OPERATOR_NUMBERS: Final = {
    "numRecordsIn": "records_in",
    "numRecordsOut": "records_out",
    "currentInputWatermark": "input_watermark",
    "currentOutputWatermark": "output_watermark",
}
_ROW_NUMBERS: Final = {"numRowsIn": "rows_in", "numRowsOut": "rows_out"}  # where records are batches of columns
_MANAGER_NUMBERS: Final = {
    "Status.Process.CPU.Load": "cpu_share",
    "Status.Process.CPU.Time": "cpu_ns",
    "Status.Process.Memory.Resident": "resident_bytes",
    "Status.Process.Memory.PeakResident": "peak_resident_bytes",
    "Status.Process.Memory.Limit": "memory_limit_bytes",
    "Status.Process.Memory.Machine": "machine_bytes",
    "Status.Process.Threads.Count": "threads",
    "Status.Process.Files.Open": "open_files",
    "Status.Process.Files.Limit": "open_files_limit",
    "Status.Python.GarbageCollector.Count": "gc_collections",
    "Status.Python.GarbageCollector.Collected": "gc_collected",
    "Status.Python.GarbageCollector.Uncollectable": "gc_uncollectable",
    "Status.Flink.Memory.Managed.Total": "managed_memory_total",
    "Status.Flink.Memory.Managed.Used": "managed_memory_used",
    "Status.Shuffle.Netty.TotalMemory": "totalMemory",
    "Status.Shuffle.Netty.TotalMemorySegments": "totalMemorySegments",
    "Status.Shuffle.Netty.UsedMemorySegments": "usedMemorySegments",
}


@dataclass(frozen=True, slots=True)
class NamedMetric:
    """One metric with its place.

    Attributes
    ----------
    scope : str
        Flink's logical scope: ``jobmanager.job``, ``taskmanager``, ``taskmanager.job.task`` or
        ``taskmanager.job.task.operator``.
    name : str
        Groups of the user's before it, with dots between.
    value : object
        A number, a text, a dict of a histogram's statistics, or None.
    labels : dict
        Flink's variables without their brackets, and what groups with a key and a value say.
    """

    scope: str
    name: str
    value: Any
    labels: Mapping[str, str]


def task_metrics(attempt: AttemptPicture) -> Json:
    """Return what the task of one subtask reports.

    What each of its operators reports follows, under its name: ``Map.numRecordsIn``.
    """
    shown = _own_metrics(attempt)
    for operator in attempt.metrics.get("operators", ()):
        prefix = dotted(operator.get("name", ""))
        shown |= {f"{prefix}.{name}": value for name, value in operator_metrics(operator).items()}
    return shown


def _own_metrics(attempt: AttemptPicture) -> Json:
    reported = attempt.metrics
    if not reported:
        return {}
    shown = {name: reported.get(ours) for name, ours in (_TASK_NUMBERS | _ROW_NUMBERS).items()}
    shown |= {name: _NS_PER_MS * reported.get(ours, 0) for name, ours in _CHECKPOINT_TIMES.items()}
    shown |= dict(zip(_RATE_NAMES, (round(rate, 3) for rate in attempt.rates), strict=True))
    return shown | dict(zip(_SHARE_NAMES, (round(1000 * share) for share in attempt.shares), strict=True))


def operator_metrics(reported: Json) -> Json:
    """Return what one operator reports: Flink's numbers, latencies, then its function's own."""
    shown = {name: reported.get(ours) for name, ours in _OPERATOR_NUMBERS.items()}
    shown |= {name: reported[ours] for name, ours in _ROW_NUMBERS.items() if reported.get(ours) is not None}
    for origin, latency in reported.get("latency", {}).items():
        shown[f"latency.{origin}.latency" if origin else "latency"] = latency
    return shown | dict(reported.get("metrics", {}))


def manager_metrics(picture: ManagerPicture) -> Json:
    """Return what a task manager reports of its process; what has no name of Flink's keeps its own."""
    return named_figures(picture.metrics)


def named_figures(figures: Mapping[str, object]) -> Json:
    """Return the figures of a process by Flink's names.

    Examples
    --------
    >>> named_figures({"threads": 3, "ours": 1})
    {'Status.Process.Threads.Count': 3, 'ours': 1}
    """
    known = {ours: name for name, ours in _MANAGER_NUMBERS.items()}
    return {known.get(ours, ours): value for ours, value in figures.items()}


def job_metrics(picture: JobPicture) -> Json:
    """Return what the job manager knows of the job."""
    completed = picture.checkpoints.latest.get("completed")
    restored = picture.checkpoints.restored
    counts = picture.checkpoints.counts
    running_ms = picture.timestamps.get(JobStatus.RUNNING)
    is_running = picture.status is JobStatus.RUNNING and running_ms is not None
    since_ms = picture.now_ms - picture.timestamps[picture.status]
    return {
        "numRestarts": picture.restart_count,
        "fullRestarts": picture.restart_count,
        "uptime": picture.now_ms - (running_ms or 0) if is_running else -1 if picture.is_over else 0,
        "downtime": 0 if is_running else -1 if picture.is_over else since_ms,
        "numRunningTasks": sum(vertex.state_counts[ExecutionState.RUNNING] for vertex in picture.vertices),
        "totalNumberOfCheckpoints": counts["total"],
        "numberOfInProgressCheckpoints": counts["in_progress"],
        "numberOfCompletedCheckpoints": counts["completed"],
        "numberOfFailedCheckpoints": counts["failed"],
        "lastCheckpointDuration": -1 if completed is None else completed.duration_ms(picture.now_ms),
        "lastCheckpointSize": -1 if completed is None else completed.summary(picture.now_ms)["checkpointed_size"],
        "lastCheckpointFullSize": -1 if completed is None else completed.summary(picture.now_ms)["state_size"],
        "lastCheckpointExternalPath": "n/a" if completed is None else completed.path,
        "lastCheckpointCompletedTimestamp": -1 if completed is None else completed.end_ms,
        "lastCheckpointRestoreTimestamp": -1 if restored is None else restored["restore_timestamp"],
        "lastCompletedCheckpointId": -1 if completed is None else completed.id,
        **{f"{status.name.lower()}Time": since_ms if picture.status is status else 0 for status in _STATES},
    }


_STATES: Final = (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING, JobStatus.CANCELLING, JobStatus.FAILING)


def dotted(name: str) -> str:
    """Return a name without what divides the parts of a metric's name, as Flink's query service has it.

    Examples
    --------
    >>> dotted("Source: numbers 1.5")
    'Source__numbers_1_5'
    """
    return "".join("_" if sign in " :." else sign for sign in name)


# ---- all of them, for reporters


SUBTASKS_MAX: Final = 2_000  # of a job, whose metrics go to reporters: each has some dozens


def all_metrics(picture: JobPicture, subtask_limit: int = SUBTASKS_MAX) -> Iterator[NamedMetric]:
    """Yield the metrics of a job with labels; of more than `subtask_limit` subtasks the first ones of each vertex."""
    job = {"job_id": picture.job_id, "job_name": picture.plan.job_name}
    for name, value in job_metrics(picture).items():
        yield NamedMetric("jobmanager.job", name, value, job)
    for manager in picture.managers:
        labels = {**job, "host": manager.manager.host, "tm_id": manager.id}
        for name, value in manager_metrics(manager).items():
            yield NamedMetric("taskmanager", name, value, labels)
    share = max(1, subtask_limit // max(1, len(picture.vertices)))
    is_too_wide = sum(len(vertex.subtasks) for vertex in picture.vertices) > subtask_limit
    for vertex in picture.vertices:
        yield from _of_vertex(vertex, job, share if is_too_wide else None)


def _of_vertex(vertex: VertexPicture, job: Mapping[str, str], limit: int | None) -> Iterator[NamedMetric]:
    task = {**job, "task_id": vertex.plan.id, "task_name": vertex.plan.name}
    for subtask in vertex.subtasks[:limit]:
        attempt = subtask.current
        if not attempt.metrics or attempt.state is not ExecutionState.RUNNING:
            continue  # Flink takes the metrics of a task away at its end
        labels = {
            **task,
            "host": attempt.host or "",
            "tm_id": attempt.manager_id or "",
            "subtask_index": str(subtask.index),
            "task_attempt_num": str(attempt.attempt.attempt_number),
        }
        yield from _of_attempt(attempt, labels)


def _of_attempt(attempt: AttemptPicture, labels: Mapping[str, str]) -> Iterator[NamedMetric]:
    for name, value in _own_metrics(attempt).items():
        yield NamedMetric("taskmanager.job.task", name, value, labels)
    for operator in attempt.metrics.get("operators", ()):
        id, name = operator.get("operator_id", ""), operator.get("name", "")
        of_operator = {**labels, "operator_id": id, "operator_name": name}
        own = operator.get("labels", {})
        for name, value in operator_metrics(operator).items():
            yield NamedMetric("taskmanager.job.task.operator", name, value, {**of_operator, **own.get(name, {})})
