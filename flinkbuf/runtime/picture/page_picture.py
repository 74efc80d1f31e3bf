"""All that a page draws of a job, as one JSON object, bounded however many subtasks there are.

Sums, worst ones and the history of rates stand at each vertex, so that a page needs no subtask to draw its graph; of
subtasks there are as many rows as asked for, those that stand out first. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from flinkbuf.runtime.checkpoint.checkpoint_statistics import CheckpointStatistics
from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.picture.answers import answers_of, illness_of
from flinkbuf.runtime.picture.job_details import (
    UNKNOWN,
    accumulators_json,
    back_pressure_level,
    exceptions_json,
    headline_of,
    manager_json,
    operators_json,
    overview_of,
    vertex_times,
)
from flinkbuf.runtime.picture.job_picture import (
    RATES,
    TOTALS,
    JobPicture,
    ManagerPicture,
    RateSample,
    SubtaskPicture,
    VertexPicture,
)
from flinkbuf.runtime.protocol.messages import Json
from flinkbuf.runtime.scheduler.execution_state import ExecutionState

VERSION: Final = 1  # of the shape
ROWS: Final = 1_000  # of subtasks, by default
ROWS_MAX: Final = 10_000
NAMES: Final = 16  # of tasks that are named where many could be
_PLACE: Final = ("subtask", "attempt", "status", "taskmanager", "host", "start_time")
_COUNTS: Final = ("records_in", "records_out", "records_in_rate", "records_out_rate", "bytes_in", "bytes_out")
_STATE: Final = ("busy", "idle", "back_pressured", "watermark", "queued_in", "queued_out", "out_pool_usage", "reported")


def page_picture(picture: JobPicture, *, rows: int = ROWS, vertices: Collection[str] | None = None) -> Json:
    """Return what a page draws.

    Parameters
    ----------
    picture : JobPicture
    rows : int, default 1000
        Of subtasks, of each vertex at most.
    vertices : collection of str, optional
        Ids of those whose subtasks, operators and history are wanted; all by default. A job of many tasks has a picture
        of all of it each second, and a reader looks at one of them.
    """
    counts = Counter[ExecutionState]()
    known = [vertex for vertex in reversed(picture.vertices) if vertex.watermarks[0] is not None]
    last = min(known, key=lambda vertex: vertex.watermarks[0] or 0, default=None)  # of which an answer says how it went
    for vertex in picture.vertices:
        counts.update(vertex.state_counts)
    made = {
        "version": VERSION,
        **overview_of(picture),
        "since": picture.timestamps[picture.status],
        "restarts": picture.restart_count,
        "failure": None if picture.failure is None else headline_of(picture.failure),
        "savepoint": picture.savepoint or None,
        "tasks": {state.name: counts[state] for state in ExecutionState},
        "subtask-count": counts.total(),
        "vertices": [
            _vertex(
                vertex,
                picture.now_ms,
                rows,
                is_wanted=vertices is None or vertex.plan.id in vertices,
                is_last=vertex is last,
            )
            for vertex in picture.vertices
        ],
        "edges": _edges(picture.plan),
        "exceptions": exceptions_json(picture.outages),
        "checkpoints": _checkpoints(picture),
        "taskmanagers": _managers(picture),
        "lost-taskmanagers": [
            {
                "id": each.id,
                "path": each.manager.endpoint,
                "lost-time": each.lost_ms,
                "process_id": each.manager.registration.process_id,
            }
            for each in picture.lost_managers
        ],
        "accumulators": accumulators_json(picture.attempts())["user-task-accumulators"],
    }
    return made | {"answers": answers_of(made)}


# ---- vertices


def _vertex(vertex: VertexPicture, now_ms: int, rows: int, *, is_wanted: bool, is_last: bool) -> Json:
    busy, idle, held_back = vertex.shares
    return {
        **vertex_times(vertex, now_ms),
        "operators": operators_json(vertex) if is_wanted else [],
        "totals": {name: vertex.totals[name] for name in TOTALS},
        "rates": {name: round(vertex.rates[name], 3) for name in RATES},
        "busy": busy,
        "idle": idle,
        "back_pressured": held_back,
        "busiest": _standing_out(vertex.busiest, 0),
        "most_held_back": _standing_out(vertex.most_held_back, 2),
        "skew": skew_of(vertex),
        "watermark": _watermark(vertex, now_ms),
        "history": _history(vertex.samples if is_wanted or is_last else ()),
        "subtasks": _rows(vertex, rows if is_wanted else 0),
    }


def _standing_out(subtask: SubtaskPicture | None, place: int) -> Json | None:
    if subtask is None:
        return None
    ratio = subtask.current.shares[place]
    shown: Json = {"subtask": subtask.index, "ratio": ratio}
    return shown | {"level": back_pressure_level(ratio)} if place == 2 else shown


def skew_of(vertex: VertexPicture) -> float | None:
    """Return how unevenly a vertex's records lie on its subtasks, in percent; None: it has none yet.

    0 is even, 100 all on one: the mean distance from the mean, as a share of what that can be at most. Flink's page.
    """
    name = "records_in" if vertex.totals["records_in"] else "records_out"
    counts = [subtask.current.metrics.get(name) or 0 for subtask in vertex.subtasks]
    whole, width = sum(counts), len(counts)
    if not whole:
        return None
    if width == 1:
        return 0.0
    mean = whole / width
    most = 2 * (width - 1) * mean  # the sum of distances when one has all
    return round(100 * sum(abs(count - mean) for count in counts) / most, 1)


def _watermark(vertex: VertexPicture, now_ms: int) -> Json:
    lowest, highest, known = vertex.watermarks
    return {
        "lowest": lowest,
        "highest": highest,
        "subtask": None if vertex.behind is None else vertex.behind.index,
        "lag": vertex.lag_ms(now_ms),
        "known": known,
    }


def _history(samples: Sequence[RateSample]) -> Json:
    return {
        "time": [each.time_ms for each in samples],
        "records_in": [round(each.records_in, 1) for each in samples],
        "records_out": [round(each.records_out, 1) for each in samples],
        "rows_in": [round(each.rows_in, 1) for each in samples],
        "rows_out": [round(each.rows_out, 1) for each in samples],
        "busy": [each.busy for each in samples],
        "back_pressured": [each.back_pressured for each in samples],
        "watermark_lag": [each.watermark_lag_ms for each in samples],
    }


def _rows(vertex: VertexPicture, limit: int) -> Json:
    subtasks: Iterable[SubtaskPicture] = vertex.subtasks
    if limit == 0:
        subtasks = ()
    elif len(vertex.subtasks) > limit:
        worst = sorted(vertex.subtasks, key=_standing, reverse=True)[:limit]
        subtasks = sorted(worst, key=lambda each: each.index)
    return {
        "columns": [*_PLACE, *_COUNTS, *_STATE],
        "rows": [_row(each) for each in subtasks],
        "count": len(vertex.subtasks),
    }


def _standing(subtask: SubtaskPicture) -> tuple[bool, float]:
    """Return how much a subtask stands out: it does not run, or is busy or held back."""
    attempt = subtask.current
    is_odd = attempt.state not in (ExecutionState.RUNNING, ExecutionState.FINISHED)
    return is_odd, max(attempt.busy, attempt.back_pressured)


def _row(subtask: SubtaskPicture) -> list[object]:
    attempt = subtask.current
    metrics, rates = attempt.metrics, attempt.rates
    return [
        subtask.index,
        attempt.attempt.attempt_number,
        attempt.state.name,
        attempt.manager_id,
        attempt.host,
        attempt.timestamps.get(ExecutionState.DEPLOYING, UNKNOWN),
        metrics.get("records_in"),
        metrics.get("records_out"),
        round(rates[0], 1),
        round(rates[1], 1),
        metrics.get("bytes_in"),
        metrics.get("bytes_out"),
        attempt.busy,
        attempt.idle,
        attempt.back_pressured,
        attempt.watermark,
        metrics.get("queued_in"),
        metrics.get("queued_out"),
        metrics.get("out_pool_usage"),
        attempt.reported_ms,
    ]


def _edges(plan: JobPlan) -> list[Json]:
    return [
        {
            "source": plan.vertices[edge.source].id,
            "target": plan.vertices[edge.target].id,
            "ship_strategy": edge.ship_strategy,
            "exchange": edge.partition_type.lower(),
        }
        for edge in plan.edges
    ]


# ---- checkpoints


def _checkpoints(picture: JobPicture) -> Json:
    checkpoints, now_ms = picture.checkpoints, picture.now_ms
    latest = {
        name: _checkpoint(checkpoints.latest[name], now_ms) if name in checkpoints.latest else None
        for name in ("completed", "savepoint", "failed")
    }
    history = list(reversed(checkpoints.history))
    kept = checkpoints.latest.get("completed")
    if kept is not None and all(each.id != kept.id for each in history):
        history.append(kept)  # a restart begins from it, however many have failed since
    return {
        "counts": dict(checkpoints.counts),
        "config": checkpoints.config_json(),
        "latest": latest | {"restored": checkpoints.restored},
        "running": [_running(each, now_ms) for each in checkpoints.running],
        "history": [_checkpoint(each, now_ms) for each in history],
    }


def _running(checkpoint: CheckpointStatistics, now_ms: int) -> Json:
    missing = checkpoint.missing()
    names = [str(execution.vertex) for execution in missing[:NAMES]]
    return _checkpoint(checkpoint, now_ms) | {"missing": names, "missing-count": len(missing)}


def _checkpoint(checkpoint: CheckpointStatistics, now_ms: int) -> Json:
    shown = checkpoint.summary(now_ms)
    metrics = [each.metrics for each in checkpoint.answers]
    last = max(checkpoint.answers, key=lambda each: each.ack_ms, default=None)
    return shown | {
        "alignment": max((each.alignment_ms for each in metrics), default=0),
        "sync": max((each.sync_ms for each in metrics), default=0),
        "async": max((each.async_ms for each in metrics), default=0),
        "start_delay": max((each.start_delay_ms for each in metrics), default=0),
        "slowest": None if last is None else str(last.execution.vertex),
    }


# ---- task managers


def _managers(picture: JobPicture) -> list[Json]:
    counts: Counter[str] = Counter()
    rates: dict[str, list[float]] = {}
    for attempt in picture.attempts():
        if attempt.manager_id is not None and attempt.state.is_deployed:
            counts[attempt.manager_id] += 1
            sums = rates.setdefault(attempt.manager_id, [0.0, 0.0, 0.0])
            sums[0] += attempt.rates[0]
            sums[1] += attempt.rates[1]
            sums[2] += attempt.metrics.get("credit_in") or 0
    return [
        _manager(each, counts[each.id], rates.get(each.id, [0.0, 0.0, 0.0]), picture.now_ms)
        for each in picture.managers
    ]


def _manager(picture: ManagerPicture, task_count: int, rates: list[float], now_ms: int) -> Json:
    made = manager_json(picture, task_count) | {
        "host": picture.manager.host,
        "heartbeat-age": max(0, now_ms - picture.heard_ms),
        "records_in": round(rates[0], 1),
        "records_out": round(rates[1], 1),
        "credit": int(rates[2]),
        "tasks": task_count,
    }
    return made | {"illness": illness_of(made)}
