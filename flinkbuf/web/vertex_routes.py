"""What Flink's REST API says of vertices and subtasks. Flink: JobVertexDetailsHandler, SubtasksTimesHandler, …"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from flinkbuf.runtime.picture.job_details import (
    RECONCILING,
    UNASSIGNED,
    UNKNOWN,
    accumulators_json,
    attempt_json,
    back_pressure_json,
    headline_of,
    io_metrics,
    state_counts,
    status_durations,
    watermarks_json,
)
from flinkbuf.runtime.picture.job_picture import AttemptPicture, SubtaskPicture, VertexPicture
from flinkbuf.runtime.scheduler.execution_graph import aggregate_state
from flinkbuf.runtime.scheduler.execution_state import ExecutionState
from flinkbuf.web.job_routes import as_texts
from flinkbuf.web.router import Cluster, HttpError, Json, Request, Router

router = Router()
VERTEX: Final = "/jobs/:jobid/vertices/:vertexid"
_COUNTED: Final = (
    "read-bytes write-bytes read-records write-records accumulated-backpressured-time accumulated-idle-time "
    "accumulated-busy-time"
)


@router.route("GET", VERTEX)
def vertex(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """Its subtasks."""
    picture, found = cluster.vertex(parts)
    attempts = [subtask.current for subtask in found.subtasks]
    return {
        "id": found.plan.id,
        "name": found.plan.name,
        "parallelism": found.plan.parallelism,
        "maxParallelism": found.plan.max_parallelism,
        "now": picture.now_ms,
        "subtasks": [_attempt(attempt, picture.now_ms) for attempt in attempts],
        "aggregated": _aggregated(attempts, picture.now_ms),
    }


def _attempt(attempt: AttemptPicture, now_ms: int) -> Json:
    made = attempt_json(attempt, now_ms)
    return made | {"start_time": made["start-time"]}


def _aggregated(attempts: list[AttemptPicture], now_ms: int) -> Json:
    metrics = [io_metrics([attempt]) for attempt in attempts]
    spans = [status_durations(attempt, now_ms) for attempt in attempts]
    return {
        "metrics": {name: _whole(each[name] for each in metrics) for name in _COUNTED.split()},
        "status-duration": {name: _whole(each[name] for each in spans) for name in spans[0]} if spans else {},
    }


def _whole(values: Iterable[int]) -> Json:
    """Quantiles in whole numbers, and the sum, as Flink's MetricStatistics."""
    ordered = sorted(values)
    if not ordered:
        return dict.fromkeys(("min", "max", "avg", "sum", *_SHARES), 0)
    at = {name: ordered[min(int(share * len(ordered)), len(ordered) - 1)] for name, share in _SHARES.items()}
    return {"min": ordered[0], "max": ordered[-1], "avg": sum(ordered) // len(ordered), "sum": sum(ordered)} | at


_SHARES: Final = {"median": 0.5, "p25": 0.25, "p75": 0.75, "p95": 0.95}


@router.route("GET", VERTEX + "/accumulators")
def accumulators(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """What its functions have added up, over all subtasks."""
    _, found = cluster.vertex(parts)
    return {"id": found.plan.id, "user-accumulators": _own(subtask.current for subtask in found.subtasks)}


def _own(attempts: Iterable[AttemptPicture]) -> list[Json]:
    return as_texts(accumulators_json(attempts)["user-task-accumulators"])


@router.route("GET", VERTEX + "/subtasks/accumulators")
def accumulators_of_subtasks(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """The same of each subtask."""
    _, found = cluster.vertex(parts)
    return {
        "id": found.plan.id,
        "parallelism": found.plan.parallelism,
        "subtasks": [
            {
                "subtask": subtask.index,
                "attempt": subtask.current.attempt.attempt_number,
                "endpoint": subtask.current.endpoint or UNASSIGNED,
                "host": subtask.current.host or UNASSIGNED,
                "user-accumulators": _own([subtask.current]),
            }
            for subtask in found.subtasks
        ],
    }


@router.route("GET", VERTEX + "/backpressure")
def back_pressure(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """Which share of its time each subtask could not give on what it had made."""
    picture, found = cluster.vertex(parts)
    if picture.is_over:
        return {"status": "deprecated"}  # Flink's word for: nobody measures it
    made = back_pressure_json(found, picture.now_ms)
    # Flink gives this one under both names: the second is that of its versions before 1.13.
    made["backpressure-level"] = made["backpressureLevel"]
    for each in made["subtasks"]:
        each["backpressure-level"] = each["backpressureLevel"]
    return made


@router.route("GET", VERTEX + "/watermarks")
def watermarks(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> list[Json]:
    """How far event time has come in each subtask; a source has no input that it could come from."""
    picture, found = cluster.vertex(parts)
    has_input = any(picture.plan.vertices[edge.target].id == found.plan.id for edge in picture.plan.edges)
    return watermarks_json(found) if has_input else []


@router.route("GET", VERTEX + "/subtasktimes")
def times(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """When each subtask came into which state."""
    picture, found = cluster.vertex(parts)
    return {
        "id": found.plan.id,
        "name": found.plan.name,
        "now": picture.now_ms,
        "subtasks": [_times(subtask, picture.now_ms) for subtask in found.subtasks],
    }


def _times(subtask: SubtaskPicture, now_ms: int) -> Json:
    made, times = attempt_json(subtask.current, now_ms), subtask.current.timestamps
    return {
        "subtask": subtask.index,
        "host": made["host"],
        "endpoint": made["endpoint"],
        "duration": made["duration"],
        "timestamps": {state.name: times.get(state, 0) for state in ExecutionState} | {RECONCILING: 0},
    }


@router.route("GET", VERTEX + "/taskmanagers")
def task_managers(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """Its subtasks by where they run."""
    picture, found = cluster.vertex(parts)
    places: dict[str, list[AttemptPicture]] = {}
    for subtask in found.subtasks:
        places.setdefault(subtask.current.manager_id or UNASSIGNED, []).append(subtask.current)
    return {
        "id": found.plan.id,
        "name": found.plan.name,
        "now": picture.now_ms,
        "taskmanagers": [_place(id, attempts, picture.now_ms) for id, attempts in places.items()],
    }


def _place(id: str, attempts: list[AttemptPicture], now_ms: int) -> Json:
    shown = [attempt_json(attempt, now_ms) for attempt in attempts]
    counts = state_counts(attempt.state for attempt in attempts)
    starts = [each["start-time"] for each in shown if each["start-time"] != UNKNOWN]
    ends = [each["end-time"] for each in shown]
    start_ms = min(starts, default=UNKNOWN)
    end_ms = UNKNOWN if UNKNOWN in ends else max(ends)
    duration_ms = UNKNOWN if start_ms == UNKNOWN else (now_ms if end_ms == UNKNOWN else end_ms) - start_ms
    return {
        "host": shown[0]["host"],
        "endpoint": shown[0]["endpoint"],
        "status": aggregate_state(Counter(attempt.state for attempt in attempts)).name,
        "start-time": start_ms,
        "end-time": end_ms,
        "duration": duration_ms,
        "metrics": io_metrics(attempts),
        "status-counts": counts,
        "taskmanager-id": id,
        "aggregated": _aggregated(attempts, now_ms),
    }


def subtask_of(found: VertexPicture, parts: Mapping[str, str]) -> SubtaskPicture:
    """Return the subtask that a path names."""
    index = int(parts["subtaskindex"])
    if index >= len(found.subtasks):
        raise HttpError(404, f"Invalid subtask index for vertex {found.plan.id}: {index}")
    return found.subtasks[index]


def _attempt_of(found: VertexPicture, parts: Mapping[str, str]) -> AttemptPicture:
    subtask, number = subtask_of(found, parts), int(parts["attempt"])
    for attempt in (subtask.current, *subtask.history):
        if attempt.attempt.attempt_number == number:
            return attempt
    raise HttpError(404, f"Could not find execution for attempt {number} of subtask {subtask.index}")


@router.route("GET", VERTEX + "/subtasks/:subtaskindex")
def subtask(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """Its newest attempt."""
    picture, found = cluster.vertex(parts)
    return _attempt(subtask_of(found, parts).current, picture.now_ms)


@router.route("GET", VERTEX + "/subtasks/:subtaskindex/attempts/:attempt")
def attempt(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """One of its attempts, with what it has failed with."""
    picture, found = cluster.vertex(parts)
    made = _attempt_of(found, parts)
    return _attempt(made, picture.now_ms) | {"failure": None if made.failure is None else headline_of(made.failure)}


@router.route("GET", VERTEX + "/subtasks/:subtaskindex/attempts/:attempt/accumulators")
def accumulators_of_attempt(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """What the functions of one attempt have added up."""
    _, found = cluster.vertex(parts)
    made = _attempt_of(found, parts)
    return {
        "subtask": made.attempt.subtask_index,
        "attempt": made.attempt.attempt_number,
        "id": str(made.attempt),
        "user-accumulators": _own([made]),
    }
