"""Metrics by name, of one thing or over several, and all of them for Prometheus.

What is not known (any more, or yet) has no metrics, and that is no error: tools ask for them while jobs come and go.
Flink: AbstractMetricsHandler, AbstractAggregatingMetricsHandler.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Final

from flinkbuf.runtime.manager.process_figures import ProcessFigures
from flinkbuf.runtime.picture.metric_names import job_metrics, manager_metrics, named_figures, task_metrics
from flinkbuf.web.cluster_routes import manager_of
from flinkbuf.web.prometheus import CONTENT_TYPE, exposition
from flinkbuf.web.router import TEXTS, Answer, Cluster, HttpError, Json, Request, Router
from flinkbuf.web.vertex_routes import VERTEX, subtask_of

router = Router()
_process = ProcessFigures()  # of the program
_NAMED = {"get": TEXTS}
_AGGREGATED = {"get": TEXTS, "agg": TEXTS}


def flat(metrics: Json) -> Json:
    """Return metrics with each number of a histogram under a name of its own.

    Examples
    --------
    >>> flat({"seen": 1, "size": {"count": 2, "p99": 7.0}})
    {'seen': 1, 'size_count': 2, 'size_p99': 7.0}
    """
    made: Json = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            made.update({f"{name}_{part}": each for part, each in value.items()})
        else:
            made[name] = value
    return made


def _listed(metrics: Json, request: Request) -> list[Json]:
    """Names; with ``get=…`` those, each with its value as text."""
    known, wanted = flat(metrics), request.several("get")
    if wanted is None:
        return [{"id": name} for name in known]
    return [{"id": name, "value": str(known[name])} for name in wanted if known.get(name) is not None]


MetricsHandler = Callable[[Cluster, Request, Mapping[str, str]], list[Json]]


def _route(path: str, query: Mapping[str, Mapping[str, object]] = _NAMED) -> Callable[[MetricsHandler], MetricsHandler]:
    """As `router.route`, but what is not there has no metrics."""

    def note(handler: MetricsHandler) -> MetricsHandler:
        @router.route("GET", path, query=query)
        @wraps(handler)
        def answer(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> list[Json]:
            try:
                return handler(cluster, request, parts)
            except HttpError as error:
                if error.status != 404:
                    raise
                return []

        return handler

    return note


@_route("/jobs/:jobid/metrics")
def of_job(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> list[Json]:
    """Of a job."""
    return _listed(job_metrics(cluster.picture(parts)), request)


@_route(VERTEX + "/metrics")
def of_vertex(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> list[Json]:
    """Of all subtasks of a vertex, each name with the subtask before it: ``0.numRecordsIn``."""
    _, found = cluster.vertex(parts)
    made: Json = {}
    for subtask in found.subtasks:
        made |= {f"{subtask.index}.{name}": value for name, value in task_metrics(subtask.current).items()}
    return _listed(made, request)


@_route(VERTEX + "/subtasks/:subtaskindex/metrics")
def of_subtask(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> list[Json]:
    """Of one subtask."""
    _, found = cluster.vertex(parts)
    return _listed(task_metrics(subtask_of(found, parts).current), request)


@_route("/taskmanagers/:taskmanagerid/metrics")
def of_manager(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> list[Json]:
    """Of one task manager."""
    return _listed(manager_metrics(manager_of(cluster, parts)[0]), request)


@router.route("GET", "/jobmanager/metrics", query=_NAMED)
def of_job_manager(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> list[Json]:
    """Of the program's process."""
    pictures = [job.picture for job in cluster.jobs.values()]
    numbers = {
        "numRunningJobs": sum(not picture.is_over for picture in pictures),
        "numRegisteredTaskManagers": sum(len(picture.managers) for picture in pictures if not picture.is_over),
    }
    return _listed({**numbers, **named_figures(_process.look())}, request)


# ---- over several


def _skew(values: list[float]) -> float:
    """In percent: 0 is even, 100 all at one."""
    if len(values) < 2 or not sum(values):
        return 0.0
    mean = sum(values) / len(values)
    return 100 * sum(abs(value - mean) for value in values) / (2 * (len(values) - 1) * abs(mean))


_AGGREGATIONS: Final[dict[str, Callable[[list[float]], float]]] = {
    "min": min,
    "max": max,
    "sum": sum,
    "avg": lambda values: sum(values) / len(values),
    "skew": _skew,
}


def _aggregated(all_metrics: Iterable[Json], request: Request) -> list[Json]:
    """Names that any of them has; with ``get=…`` what these come to, by ``agg=min,max,avg,sum,skew``."""
    known, wanted = [flat(metrics) for metrics in all_metrics], request.several("get")
    if wanted is None:
        return [{"id": name} for name in sorted({name for metrics in known for name in metrics})]
    asked = request.several("agg") or list(_AGGREGATIONS)
    for name in asked:
        if name not in _AGGREGATIONS:
            raise HttpError(400, f'Cannot resolve query parameter (agg) from value "{name[:80]}".')
    made = []
    for name in wanted:
        values = [float(metrics[name]) for metrics in known if _is_number(metrics.get(name))]
        if values:
            made.append({"id": name} | {each: _AGGREGATIONS[each](values) for each in asked})
    return made


def _is_number(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= sys.float_info.max  # a larger one has no float
    return isinstance(value, float)


def _chosen(request: Request, name: str, known: Iterable[str]) -> list[str]:
    chosen = request.several(name)
    return [each for each in known if chosen is None or each in chosen]


@router.route("GET", "/jobs/metrics", query={"jobs": TEXTS, **_AGGREGATED})
def over_jobs(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> list[Json]:
    """Over jobs: all, or ``jobs=…``."""
    for id in request.several("jobs") or ():
        if not re.fullmatch("[0-9a-fA-F]{32}", id):
            raise HttpError(400, f'Cannot resolve query parameter (jobs) from value "{id[:80]}".')
    chosen = _chosen(request, "jobs", list(cluster.jobs))
    return _aggregated([job_metrics(cluster.jobs[id].picture) for id in chosen], request)


@router.route("GET", "/taskmanagers/metrics", query={"taskmanagers": TEXTS, **_AGGREGATED})
def over_managers(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> list[Json]:
    """Over task managers: all, or ``taskmanagers=…``."""
    pictures = [job.picture for job in cluster.jobs.values()]
    managers = {each.id: each for picture in pictures if not picture.is_over for each in picture.managers}
    chosen = _chosen(request, "taskmanagers", managers)
    return _aggregated([manager_metrics(managers[id]) for id in chosen], request)


@_route(VERTEX + "/subtasks/metrics", {"subtasks": TEXTS, **_AGGREGATED})
def over_subtasks(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> list[Json]:
    """Over the subtasks of a vertex: all, or ``subtasks=0,2-5``."""
    _, found = cluster.vertex(parts)
    indexes = _indexes(request.several("subtasks"), len(found.subtasks))
    return _aggregated([task_metrics(found.subtasks[index].current) for index in indexes], request)


def _indexes(texts: list[str] | None, count: int) -> list[int]:
    if texts is None:
        return list(range(count))
    indexes: set[int] = set()
    for text in texts:
        first, dash, last = text.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(text) > 20:
            raise HttpError(400, f'Cannot resolve query parameter (subtasks) from value "{text[:80]}".')
        indexes.update(range(int(first), min(count, int(last if dash else first) + 1)))
    return sorted(index for index in indexes if index < count)


@router.route("GET", "/metrics")
def prometheus(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Answer:
    """All of them as Prometheus scrapes them."""
    pictures = [picture for picture in (job.picture for job in cluster.jobs.values()) if not picture.is_over]
    figures = named_figures(_process.look()) if pictures else {}
    return Answer(exposition(pictures, figures), content_type=CONTENT_TYPE)
