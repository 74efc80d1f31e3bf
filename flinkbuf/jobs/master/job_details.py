"""A job at one moment, as JSON: what a page or a terminal draws, and what is kept of a job that has ended.

Shapes and names are those of Flink's REST API, gathered under one roof: the picture itself is the answer to
``/jobs/:jobid``; ``exceptions``, ``accumulators`` and ``taskmanagers`` are what these paths answer, and each vertex
has, beside its own, ``subtasks``, ``backpressure`` and ``watermarks`` of ``/jobs/:jobid/vertices/:vertexid``.
What Flink has no name for is written with underscores, as operators' own numbers are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from flinkbuf.jobs.graphs.job_plan import EdgePlan, JobPlan
from flinkbuf.jobs.job_status import JobStatus
from flinkbuf.jobs.master.execution_graph import Execution, ExecutionJobVertex, ExecutionVertex
from flinkbuf.jobs.master.execution_state import ExecutionState
from flinkbuf.jobs.master.failure_history import HISTORY_SIZE, FailureEntry
from flinkbuf.jobs.master.job_master import JobMaster
from flinkbuf.streaming.accumulators import merge_accumulators

Json = dict[str, Any]
UNKNOWN: Final = -1  # a time that has not come

# Flink's name of a number, and ours. What nobody counts is 0 and not "complete".
_IO_METRICS: Final = {
    "read-bytes": "bytes_in",
    "write-bytes": "bytes_out",
    "read-records": "records_in",
    "write-records": "records_out",
}
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


def job_details(job: JobMaster, now_ms: int) -> Json:
    """Return all that is known of a job.

    Examples
    --------
    >>> from random import Random
    >>> from flinkbuf.jobs.graphs.job_plan import JobPlan, VertexPlan
    >>> from flinkbuf.jobs.master.restart_strategy import NoRestart
    >>> plan = JobPlan("c" * 32, "numbers", (VertexPlan("a" * 32, "source", 2, 128),))
    >>> job = JobMaster(plan, session_id="d" * 32, restart_strategy=NoRestart().create(Random(1)))
    >>> details = job_details(job, now_ms=5)
    >>> details["name"], details["state"], details["duration"], details["vertices"][0]["tasks"]["CREATED"]
    ('numbers', 'CREATED', 5, 2)
    """
    started_ms = job.timestamps[JobStatus.CREATED]
    ended_ms = job.timestamps[job.status] if job.status.is_terminal_state() else UNKNOWN
    return {
        "jid": job.plan.job_id,
        "name": job.plan.job_name,
        "isStoppable": False,
        "state": job.status.name,
        "job-type": "STREAMING",
        "start-time": started_ms,
        "end-time": ended_ms,
        "duration": _duration(started_ms, ended_ms, now_ms),
        "maxParallelism": max((vertex.max_parallelism for vertex in job.plan.vertices), default=UNKNOWN),
        "now": now_ms,
        "timestamps": {status.name: job.timestamps.get(status, 0) for status in JobStatus},
        "vertices": [_vertex(vertex, now_ms) for vertex in job.graph.vertices],
        "status-counts": _counted(ExecutionState, (vertex.aggregate_state for vertex in job.graph.vertices)),
        "plan": _plan(job.plan),
        "exceptions": _exceptions(job),
        "accumulators": _accumulators(job),
        "taskmanagers": _managers(job),
        "restarts": job.restart_count,
        "checkpoints": job.checkpoints.details(now_ms),
    }


# ---- vertices and subtasks


def _vertex(vertex: ExecutionJobVertex, now_ms: int) -> Json:
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
        "tasks": _counted(ExecutionState, (each.state for each in executions)),
        "metrics": _io_metrics(executions),
        "operators": _operators(vertex),
        "subtasks": [_subtask(subtask, now_ms) for subtask in vertex.subtasks],
        "backpressure": _back_pressure(executions, now_ms),
        "watermarks": [
            {"id": f"{each.vertex.index}.currentInputWatermark", "value": str(watermark)}
            for each in executions
            if (watermark := each.metrics.get("watermark")) is not None
        ],
    }


def _subtask(subtask: ExecutionVertex, now_ms: int) -> Json:
    details = _attempt(subtask.current, now_ms)
    details["former_attempts"] = [_attempt(each, now_ms) for each in subtask.history]
    return details


def _attempt(execution: Execution, now_ms: int) -> Json:
    started_ms, ended_ms, manager = _started_ms(execution), _ended_ms(execution), execution.manager
    return {
        "subtask": execution.vertex.index,
        "status": execution.state.name,
        "attempt": execution.attempt.attempt_number,
        "host": "(unassigned)" if manager is None else manager.host,
        "endpoint": "(unassigned)" if manager is None else manager.endpoint,
        "taskmanager-id": "(unassigned)" if manager is None else manager.id,
        "start-time": started_ms,
        "end-time": ended_ms,
        "duration": _duration(started_ms, ended_ms, now_ms),
        "metrics": _io_metrics([execution]),
        "status-duration": _status_durations(execution, now_ms),
    }


def _started_ms(execution: Execution) -> int:
    return execution.timestamps.get(ExecutionState.DEPLOYING, UNKNOWN)


def _ended_ms(execution: Execution) -> int:
    return execution.timestamps[execution.state] if execution.state.is_terminal else UNKNOWN


def _duration(started_ms: int, ended_ms: int, now_ms: int) -> int:
    if started_ms == UNKNOWN:
        return UNKNOWN
    return (now_ms if ended_ms == UNKNOWN else ended_ms) - started_ms


def _status_durations(execution: Execution, now_ms: int) -> dict[str, int]:
    """How long it was on each step of its way; -1 for those it has not come to."""
    times = list(execution.timestamps.items())  # in the order in which they came
    ends = [ms for _, ms in times[1:]] + [now_ms]
    spans = {state: end - start for (state, start), end in zip(times, ends, strict=True)}
    return {state.name: spans.get(state, UNKNOWN) for state in _ON_ITS_WAY}


def _io_metrics(executions: list[Execution]) -> Json:
    metrics: Json = {}
    for name, ours in _IO_METRICS.items():
        counts = [each.metrics.get(ours) for each in executions]
        metrics[name] = sum(count for count in counts if count is not None)
        metrics[f"{name}-complete"] = None not in counts
    for name, ours in _TIMES.items():
        metrics[name] = sum(each.metrics.get(ours, 0) for each in executions)
    return metrics


def _operators(vertex: ExecutionJobVertex) -> list[Json]:
    """Records in and out of each operator of a chain, over all subtasks; Flink has them among its metrics only."""
    sums: dict[str, Counter[str]] = {operator.id: Counter() for operator in vertex.plan.operators}
    for subtask in vertex.subtasks:
        for reported in subtask.current.metrics.get("operators", ()):
            if reported.get("operator_id") in sums:
                sums[reported["operator_id"]].update(
                    {key: reported.get(key, 0) for key in ("records_in", "records_out")}
                )
    return [
        {"operator_id": operator.id, "name": operator.name}
        | {key: sums[operator.id][key] if sums[operator.id] else None for key in ("records_in", "records_out")}
        for operator in vertex.plan.operators
    ]


def _back_pressure(executions: list[Execution], now_ms: int) -> Json:
    subtasks = [_subtask_back_pressure(each) for each in executions if each.state is ExecutionState.RUNNING]
    level = back_pressure_level(max((each["ratio"] for each in subtasks), default=0.0))
    return {
        "status": "ok",
        "backpressureLevel": level,
        "end-timestamp": max((each.reported_ms for each in executions), default=0) or now_ms,
        "subtasks": subtasks,
    }


def _subtask_back_pressure(execution: Execution) -> Json:
    busy, idle, held_back = execution.time_shares("busy_ms", "idle_ms", "back_pressured_ms")
    return {
        "subtask": execution.vertex.index,
        "attempt-number": execution.attempt.attempt_number,
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


def _plan(plan: JobPlan) -> Json:
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
            "inputs": [_plan_input(plan, number, edge) for number, edge in enumerate(inputs.get(index, ()))],
            "optimizer_properties": {},
        }
        for index, vertex in enumerate(plan.vertices)
    ]
    return {"jid": plan.job_id, "name": plan.job_name, "type": "STREAMING", "nodes": nodes}


def _plan_input(plan: JobPlan, number: int, edge: EdgePlan) -> Json:
    return {
        "num": number,
        "id": plan.vertices[edge.source].id,
        "ship_strategy": edge.ship_strategy,
        "exchange": edge.partition_type.lower(),
    }


def _exceptions(job: JobMaster) -> Json:
    outages = job.history.outages
    entries = [
        _exception(outage.root) | {"concurrentExceptions": [_exception(each) for each in outage.concurrent]}
        for outage in reversed(outages)
    ]
    return {
        "root-exception": entries[0]["stacktrace"] if entries else None,
        "timestamp": entries[0]["timestamp"] if entries else None,
        "exceptionHistory": {"entries": entries, "truncated": len(outages) == HISTORY_SIZE},
    }


def _exception(entry: FailureEntry) -> Json:
    failure = entry.failure
    return {
        "exceptionName": failure.type_name,
        "stacktrace": failure.traceback or f"{failure.type_name}: {failure.message}",
        "timestamp": entry.timestamp_ms,
        "failureLabels": dict(failure.location),
        "taskName": entry.task_name,
        "endpoint": entry.host,
        "taskManagerId": entry.manager_id,
    }


def _accumulators(job: JobMaster) -> Json:
    parts: dict[str, list[Json]] = {}
    for execution in job.graph.executions():
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


def _managers(job: JobMaster) -> list[Json]:
    taken = Counter(each.manager.id for each in job.graph.executions() if each.manager and each.state.is_deployed)
    return [
        {
            "id": manager.id,
            "path": manager.endpoint,
            "dataPort": manager.data_port,
            "timeSinceLastHeartbeat": manager.heard_ms,  # a time, as in Flink
            "slotsNumber": len(manager.slots),
            "freeSlots": 0 if taken[manager.id] else len(manager.slots),
            "process_id": manager.registration.process_id,
            "metrics": manager.metrics,
        }
        for manager in job.managers.registered.values()
    ]


def _counted(kinds: Iterable[Any], values: Iterator[Any]) -> dict[str, int]:
    counts = Counter(values)
    return {kind.name: counts[kind] for kind in kinds}
