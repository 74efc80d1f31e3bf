"""A job at one moment, as JSON: what a page or a terminal draws, and what is kept of a job that has ended.

Shapes and names are those of Flink's REST API, gathered under one roof: the picture itself is the answer to
``/jobs/:jobid``; ``exceptions``, ``accumulators`` and ``taskmanagers`` are what these paths answer, and each vertex
has, beside its own, ``subtasks``, ``backpressure`` and ``watermarks`` of ``/jobs/:jobid/vertices/:vertexid``.
What Flink has no name for is written with underscores, as operators' own numbers are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from flinkbuf.runtime.graph.job_plan import EdgePlan, JobPlan
from flinkbuf.runtime.master.failure_history import HISTORY_SIZE, FailureEntry, Outage
from flinkbuf.runtime.master.job_master import JobMaster
from flinkbuf.runtime.picture.job_picture import (
    AttemptPicture,
    JobPicture,
    ManagerPicture,
    PictureMaker,
    SubtaskPicture,
    VertexPicture,
)
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import Json
from flinkbuf.runtime.scheduler.execution_state import ExecutionState
from flinkbuf.streaming.chain.accumulators import merge_accumulators

UNKNOWN: Final = -1  # a time that has not come
HEADLINE_LENGTH: Final = 300
UNASSIGNED: Final = "(unassigned)"
RECONCILING: Final = "RECONCILING"  # a state of tasks that Flink has, and nothing is ever in

# Flink's name of a number, and ours. What is not counted is 0 and not "complete".
_IO_METRICS: Final = {
    "read-bytes": "bytes_in",
    "write-bytes": "bytes_out",
    "read-records": "records_in",
    "write-records": "records_out",
}
_OPERATOR_COUNTS: Final = ("records_in", "records_out", "rows_in", "rows_out")
_TIMES: Final = {
    "accumulated-backpressured-time": "back_pressured_ms",
    "accumulated-idle-time": "idle_ms",
    "accumulated-busy-time": "busy_ms",
}
_ON_ITS_WAY: Final = (
    ExecutionState.CREATED,
    ExecutionState.SCHEDULED,
    ExecutionState.DEPLOYING,
    ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
)


def job_details(job: JobMaster | JobPicture, now_ms: int | None = None) -> Json:
    """Return all that is known of a job, or of one at the time of a picture.

    Examples
    --------
    >>> from random import Random
    >>> from flinkbuf.runtime.graph.job_plan import JobPlan, VertexPlan
    >>> from flinkbuf.runtime.master.restart_strategy import NoRestart
    >>> plan = JobPlan("c" * 32, "numbers", (VertexPlan("a" * 32, "source", 2, 128),))
    >>> job = JobMaster(plan, session_id="d" * 32, restart_strategy=NoRestart().create(Random(1)))
    >>> details = job_details(job, now_ms=5)
    >>> details["name"], details["state"], details["duration"], details["vertices"][0]["tasks"]["CREATED"]
    ('numbers', 'CREATED', 5, 2)
    """
    picture = job if isinstance(job, JobPicture) else PictureMaker(job).make(now_ms or 0)
    return {
        **overview_of(picture),
        "vertices": [vertex_details(vertex, picture.now_ms) for vertex in picture.vertices],
        "status-counts": state_counts(vertex.aggregate_state for vertex in picture.vertices),
        "plan": plan_json(picture.plan),
        "exceptions": exceptions_json(picture.outages),
        "accumulators": accumulators_json(picture.attempts()),
        "taskmanagers": managers_json(picture),
        "restarts": picture.restart_count,
        "checkpoints": picture.checkpoints.as_json(picture.now_ms),
    }


def overview_of(picture: JobPicture) -> Json:
    """Return what is said of the job before its vertices."""
    job, now_ms = picture, picture.now_ms
    started_ms = job.timestamps[JobStatus.CREATED]
    ended_ms = job.timestamps[job.status] if job.status.is_terminal_state() else UNKNOWN
    return {
        "jid": job.plan.job_id,
        "name": job.plan.job_name,
        "isStoppable": False,
        "state": job.status.name,
        "job-type": job_type(job.plan),
        "start-time": started_ms,
        "end-time": ended_ms,
        "duration": _duration(started_ms, ended_ms, now_ms),
        "maxParallelism": max((vertex.max_parallelism for vertex in job.plan.vertices), default=UNKNOWN),
        "now": now_ms,
        # A job of Flink is INITIALIZING while its job master is made; here that takes no time.
        "timestamps": {"INITIALIZING": started_ms}
        | {status.name: job.timestamps.get(status, 0) for status in JobStatus},
    }


# ---- vertices and subtasks


def vertex_summary(vertex: VertexPicture, now_ms: int) -> Json:
    """Return what ``/jobs/:jobid`` says of a vertex."""
    return {**vertex_times(vertex, now_ms), "metrics": io_metrics([subtask.current for subtask in vertex.subtasks])}


def vertex_times(vertex: VertexPicture, now_ms: int) -> Json:
    """Return the vertex without what its subtasks have counted."""
    executions = [subtask.current for subtask in vertex.subtasks]
    started_ms = min((ms for each in executions if (ms := _started_ms(each)) != UNKNOWN), default=UNKNOWN)
    ends = [_ended_ms(each) for each in executions]
    ended_ms = UNKNOWN if UNKNOWN in ends else max(ends)
    return {
        "id": vertex.plan.id,
        "slotSharingGroupId": vertex.plan.slot_sharing_group,
        "name": vertex.plan.name,
        "maxParallelism": vertex.plan.max_parallelism,
        "parallelism": vertex.plan.parallelism,
        "status": vertex.aggregate_state.name,
        "start-time": started_ms,
        "end-time": ended_ms,
        "duration": _duration(started_ms, ended_ms, now_ms),
        "tasks": state_counts(vertex.state_counts),
    }


def vertex_details(vertex: VertexPicture, now_ms: int) -> Json:
    """Return the vertex with all that stands below ``/jobs/:jobid/vertices/:vertexid``."""
    return {
        **vertex_summary(vertex, now_ms),
        "operators": operators_json(vertex),
        "subtasks": [subtask_json(subtask, now_ms) for subtask in vertex.subtasks],
        "backpressure": back_pressure_json(vertex, now_ms),
        "watermarks": watermarks_json(vertex),
    }


def watermarks_json(vertex: VertexPicture) -> list[Json]:
    """Return what ``/jobs/:jobid/vertices/:vertexid/watermarks`` does."""
    return [
        {"id": f"{subtask.index}.currentInputWatermark", "value": str(watermark)}
        for subtask in vertex.subtasks
        if (watermark := subtask.current.watermark) is not None
    ]


def subtask_json(subtask: SubtaskPicture, now_ms: int) -> Json:
    """Return a subtask's newest attempt, with those before."""
    details = attempt_json(subtask.current, now_ms)
    details["former_attempts"] = [attempt_json(each, now_ms) for each in subtask.history]
    return details


def attempt_json(execution: AttemptPicture, now_ms: int) -> Json:
    """Return what ``…/subtasks/:subtaskindex/attempts/:attempt`` does."""
    started_ms, ended_ms = _started_ms(execution), _ended_ms(execution)
    return {
        "subtask": execution.attempt.subtask_index,
        "status": execution.state.name,
        "attempt": execution.attempt.attempt_number,
        "host": execution.host or UNASSIGNED,
        "endpoint": execution.endpoint or UNASSIGNED,
        "taskmanager-id": execution.manager_id or UNASSIGNED,
        "start-time": started_ms,
        "end-time": ended_ms,
        "duration": _duration(started_ms, ended_ms, now_ms),
        "metrics": io_metrics([execution]),
        "status-duration": status_durations(execution, now_ms),
    }


def _started_ms(execution: AttemptPicture) -> int:
    return execution.timestamps.get(ExecutionState.DEPLOYING, UNKNOWN)


def _ended_ms(execution: AttemptPicture) -> int:
    return execution.timestamps[execution.state] if execution.state.is_terminal else UNKNOWN


def _duration(started_ms: int, ended_ms: int, now_ms: int) -> int:
    if started_ms == UNKNOWN:
        return UNKNOWN
    return (now_ms if ended_ms == UNKNOWN else ended_ms) - started_ms


def status_durations(execution: AttemptPicture, now_ms: int) -> dict[str, int]:
    """Return how long an attempt was in each state; -1 for states it has not come to."""
    times = list(execution.timestamps.items())  # in the order in which they came
    ends = [ms for _, ms in times[1:]] + [now_ms]
    spans = {state: end - start for (state, start), end in zip(times, ends, strict=True)}
    return {state.name: spans.get(state, UNKNOWN) for state in _ON_ITS_WAY}


def io_metrics(executions: list[AttemptPicture]) -> Json:
    """Return sums in Flink's IOMetricsInfo."""
    metrics: Json = {}
    for name, ours in _IO_METRICS.items():
        counts = [each.metrics.get(ours) for each in executions]
        metrics[name] = sum(count for count in counts if count is not None)
        metrics[f"{name}-complete"] = None not in counts
    for name, ours in _TIMES.items():
        metrics[name] = sum(each.metrics.get(ours, 0) for each in executions)
    return metrics


def operators_json(vertex: VertexPicture) -> list[Json]:
    """Return records in and out of each operator of a chain, over all subtasks; in Flink these are metrics only.

    Rows are told apart from records where these are batches of columns, else they are null.
    """
    sums: dict[str, Counter[str]] = {operator.id: Counter() for operator in vertex.plan.operators}
    for subtask in vertex.subtasks:
        for reported in subtask.current.metrics.get("operators", ()):
            if reported.get("operator_id") in sums:
                sums[reported["operator_id"]].update(
                    {key: count for key in _OPERATOR_COUNTS if (count := reported.get(key)) is not None}
                )
    return [
        {"operator_id": operator.id, "name": operator.name}
        | {key: sums[operator.id].get(key) for key in _OPERATOR_COUNTS}
        for operator in vertex.plan.operators
    ]


def back_pressure_json(vertex: VertexPicture, now_ms: int) -> Json:
    """Return what ``/jobs/:jobid/vertices/:vertexid/backpressure`` does."""
    executions = [subtask.current for subtask in vertex.subtasks]
    subtasks = [_subtask_back_pressure(each) for each in executions if each.state is ExecutionState.RUNNING]
    level = back_pressure_level(max((each["ratio"] for each in subtasks), default=0.0))
    return {
        "status": "ok",
        "backpressureLevel": level,
        "end-timestamp": max((each.reported_ms for each in executions), default=0) or now_ms,
        "subtasks": subtasks,
    }


def _subtask_back_pressure(execution: AttemptPicture) -> Json:
    busy, idle, held_back = execution.shares
    return {
        "subtask": execution.attempt.subtask_index,
        "backpressureLevel": back_pressure_level(held_back),
        "ratio": held_back,
        "idleRatio": idle,
        "busyRatio": busy,
    }


def back_pressure_level(ratio: float) -> str:
    """Return Flink's word for the share of time in which a task could not give on what it had made.

    Examples
    --------
    >>> back_pressure_level(0.1), back_pressure_level(0.5), back_pressure_level(0.51)
    ('ok', 'low', 'high')
    """
    return "ok" if ratio <= 0.1 else "low" if ratio <= 0.5 else "high"


# ---- the job as a whole


def plan_json(plan: JobPlan) -> Json:
    """Return what ``/jobs/:jobid/plan`` has as ``plan``."""
    inputs: dict[int, list[EdgePlan]] = {}
    for edge in plan.edges:
        inputs.setdefault(edge.target, []).append(edge)
    nodes = [
        {
            "id": vertex.id,
            "parallelism": vertex.parallelism,
            "operator": "",
            "operator_strategy": "",
            "description": vertex.name,
            "optimizer_properties": {},
            **_plan_inputs(plan, inputs.get(index, ())),
        }
        for index, vertex in enumerate(plan.vertices)
    ]
    return {"jid": plan.job_id, "name": plan.job_name, "type": job_type(plan), "nodes": nodes}


def job_type(plan: JobPlan) -> str:
    """Return Flink's word for how a job runs."""
    return "BATCH" if plan.is_batch else "STREAMING"


def _plan_inputs(plan: JobPlan, edges: Sequence[EdgePlan]) -> Json:
    """A source has none, and then Flink does not speak of them."""
    inputs = [
        {
            "num": number,
            "id": plan.vertices[edge.source].id,
            "ship_strategy": edge.ship_strategy,
            "exchange": edge.partition_type.lower(),
        }
        for number, edge in enumerate(edges)
    ]
    return {"inputs": inputs} if inputs else {}


def exceptions_json(outages: Sequence[Outage], limit: int = HISTORY_SIZE) -> Json:
    """Return what ``/jobs/:jobid/exceptions`` does: the newest first, `limit` at most."""
    entries = [
        _exception(outage.root)
        | {"concurrentExceptions": [_exception(each) for each in outage.concurrent]}
        | {"restarted": {"count": outage.taken_down_count, "tasks": list(outage.taken_down)}}
        for outage in list(reversed(outages))[:limit]
    ]
    return {
        "root-exception": entries[0]["stacktrace"] if entries else None,
        "timestamp": entries[0]["timestamp"] if entries else None,
        "exceptionHistory": {"entries": entries, "truncated": len(outages) > limit or len(outages) == HISTORY_SIZE},
    }


def _exception(entry: FailureEntry) -> Json:
    failure = entry.failure
    return {
        "exceptionName": failure.type_name,
        "message": failure.message,  # Flink has none: it is the end of the stacktrace
        "stacktrace": failure.traceback or f"{failure.type_name}: {failure.message}",
        "timestamp": entry.timestamp_ms,
        "failureLabels": dict(failure.location),
        "taskName": entry.task_name,
        "endpoint": entry.host,
        "taskManagerId": entry.manager_id,
    }


def headline_of(failure: Failure) -> str:
    """Return what has failed in a line: the type, and the first line of the message.

    Examples
    --------
    >>> headline_of(Failure("builtins.ValueError", "no number: 'x'\\nin operator 'Map'"))
    "ValueError: no number: 'x'"
    """
    name, message = failure.type_name.rpartition(".")[2], failure.message.strip().partition("\n")[0]
    return f"{name}: {message}"[:HEADLINE_LENGTH] if message else name


def accumulators_json(executions: Iterable[AttemptPicture]) -> Json:
    """Return what ``/jobs/:jobid/accumulators`` does."""
    parts: dict[str, list[Json]] = {}
    for execution in executions:
        for name, part in execution.accumulators.items():
            parts.setdefault(name, []).append(part)
    return {
        "job-accumulators": [],
        "user-task-accumulators": [_accumulator(name, parts[name]) for name in sorted(parts)],
    }


def _accumulator(name: str, parts: list[Json]) -> Json:
    try:
        merged = merge_accumulators({name: part} for part in parts)[name]
    except ValueError as error:  # two functions gave one name to different kinds
        return {"name": name, "type": "failed", "value": str(error)}
    return {"name": name, "type": merged["type"], "value": merged["value"]}


def managers_json(picture: JobPicture) -> list[Json]:
    """Return what ``/taskmanagers`` has of each, with the figures that it last reported."""
    taken = Counter(each.manager_id for each in picture.attempts() if each.state.is_deployed)
    return [manager_json(each, taken[each.id]) for each in picture.managers]


def manager_json(picture: ManagerPicture, task_count: int) -> Json:
    """Return what is said of one task manager."""
    manager = picture.manager
    return {
        "id": manager.id,
        "path": manager.endpoint,
        "dataPort": manager.data_port,
        "timeSinceLastHeartbeat": picture.heard_ms,  # a time, as in Flink
        "slotsNumber": len(manager.slots),
        "freeSlots": 0 if task_count else len(manager.slots),
        "process_id": manager.registration.process_id,
        "metrics": dict(picture.metrics),
    }


def state_counts(states: Iterable[ExecutionState] | Counter[ExecutionState]) -> dict[str, int]:
    """Return how many are in each of Flink's states, those included that none is in; of states, or of counts of them.

    Examples
    --------
    >>> state_counts([ExecutionState.RUNNING, ExecutionState.RUNNING])["RUNNING"]
    2
    """
    counts = Counter(states)
    return {state.name: counts[state] for state in ExecutionState} | {RECONCILING: 0}
