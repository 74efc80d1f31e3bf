"""What Flink's REST API says of jobs and their checkpoints. Flink: JobDetailsHandler, JobExceptionsHandler, …"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from flinkbuf.runtime.checkpoint.checkpoint_statistics import CheckpointStatistics, quantiles
from flinkbuf.runtime.picture.job_details import (
    UNKNOWN,
    accumulators_json,
    exceptions_json,
    overview_of,
    plan_json,
    state_counts,
    vertex_summary,
)
from flinkbuf.runtime.picture.job_picture import JobPicture
from flinkbuf.runtime.picture.page_picture import ROWS, ROWS_MAX, page_picture
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.scheduler.execution_state import ExecutionState
from flinkbuf.web.router import TEXTS, Cluster, HttpError, Json, Request, Router, whole

router = Router()
_PAGE = {"subtasks": whole(0, ROWS_MAX), "vertex": TEXTS}
EXCEPTIONS = 20  # of the history, by default. Flink: web.max-exceptions


@router.route("GET", "/jobs")
def jobs(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """Ids and states."""
    return {"jobs": [{"id": id, "status": job.picture.status.name} for id, job in cluster.jobs.items()]}


@router.route("GET", "/jobs/overview")
def overview(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """One line a job."""
    return {"jobs": [_line(job.picture) for job in cluster.jobs.values()]}


def _line(picture: JobPicture) -> Json:
    about = overview_of(picture)
    states = Counter[ExecutionState]()
    for vertex in picture.vertices:
        states.update(vertex.state_counts)
    counts = state_counts(states)
    return {
        **{name: about[name] for name in ("jid", "name", "start-time", "end-time", "duration", "state", "job-type")},
        "last-modification": picture.timestamps[picture.status],
        "tasks": {"total": sum(counts.values())} | {state.lower(): count for state, count in counts.items()},
        "pending-operators": 0,
    }


@router.route("GET", "/jobs/:jobid")
def details(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """The job, its vertices, its plan."""
    picture = cluster.picture(parts)
    return {
        **overview_of(picture),
        "vertices": [vertex_summary(vertex, picture.now_ms) for vertex in picture.vertices],
        "status-counts": state_counts(vertex.aggregate_state for vertex in picture.vertices),
        "plan": plan_json(picture.plan),
        "pending-operators": 0,
    }


@router.route("GET", "/jobs/:jobid/picture", query=_PAGE)
def picture_of_job(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """All that the page draws."""
    return _page(cluster, request, parts["jobid"])


@router.route("GET", "/picture", query=_PAGE)
def picture_of_newest(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """The same of the newest job."""
    if not cluster.jobs:
        raise HttpError(404, "No job runs")
    return _page(cluster, request, next(reversed(cluster.jobs)))


def _page(cluster: Cluster, request: Request, job_id: str) -> Json:
    job = cluster.job({"jobid": job_id})
    rows = request.number("subtasks", ROWS, 0, ROWS_MAX)
    made = page_picture(job.picture, rows=rows, vertices=request.several("vertex"))
    can_command = cluster.can_command and not job.is_over
    return made | {"can-command": can_command, "can-rescale": can_command and job.rescale is not None}


@router.route("GET", "/jobs/:jobid/plan")
def plan(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """Vertices and edges."""
    return {"plan": plan_json(cluster.picture(parts).plan)}


@router.route("GET", "/jobs/:jobid/status")
def status(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """Where it is in its life."""
    return {"status": cluster.picture(parts).status.name}


@router.route("GET", "/jobs/:jobid/config")
def configuration(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """What it was configured with."""
    job = cluster.job(parts)
    plan, settings = job.picture.plan, job.configuration
    return {
        "jid": plan.job_id,
        "name": plan.job_name,
        "execution-config": {
            "execution-mode": "BATCH" if plan.is_batch else "PIPELINED",
            "restart-strategy": settings.get("restart-strategy.type", "default"),
            "job-parallelism": max((vertex.parallelism for vertex in plan.vertices), default=UNKNOWN),
            "object-reuse-mode": settings.get("pipeline.object-reuse", "false") == "true",
            "user-config": job.job_parameters,
        },
    }


@router.route("GET", "/jobs/:jobid/jobmanager/config")
def settings(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> list[Json]:
    """Every key that the program has set; secrets are hidden."""
    return configuration_entries(cluster.job(parts).configuration)


def configuration_entries(values: Mapping[str, str]) -> list[Json]:
    """Return keys and values, by key."""
    return [{"key": key, "value": values[key]} for key in sorted(values)]


@router.route("GET", "/jobs/:jobid/accumulators")
def accumulators(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """What functions have added up."""
    made = accumulators_json(cluster.picture(parts).attempts())
    return made | {
        "user-task-accumulators": as_texts(made["user-task-accumulators"]),
        "serialized-user-task-accumulators": {},
    }


def as_texts(listed: list[Json]) -> list[Json]:
    """Return accumulators with values as text, as Flink's API has them."""
    return [{**each, "value": str(each["value"])} for each in listed]


@router.route("GET", "/jobs/:jobid/exceptions", query={"maxExceptions": whole(0, 1_000), "failureLabelFilter": TEXTS})
def exceptions(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """Failures, the newest first, each with what failed beside it."""
    picture = cluster.picture(parts)
    limit = request.number("maxExceptions", EXCEPTIONS, 0, 1_000)
    made = exceptions_json(picture.outages, limit)
    wanted = request.several("failureLabelFilter")
    if wanted is not None:
        labels = [tuple(each.split(":", 1)) for each in wanted]
        if any(len(label) != 2 for label in labels):
            raise HttpError(400, f'Cannot resolve query parameter (failureLabelFilter) from value "{wanted}".')
        history = made["exceptionHistory"]
        history["entries"] = [
            each
            for each in history["entries"]
            if all(each["failureLabels"].get(name) == value for name, value in labels)
        ]
    return made


@router.route("GET", "/jobs/:jobid/execution-result")
def execution_result(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """How it ended; IN_PROGRESS while it has not."""
    picture = cluster.picture(parts)
    if not picture.is_over:
        return {"status": {"id": "IN_PROGRESS"}}
    about = overview_of(picture)
    result: Json = {
        "id": picture.job_id,
        "application-status": _APPLICATION_STATUS.get(picture.status, "UNKNOWN"),
        "accumulator-results": {},
        "net-runtime": about["duration"],
    }
    if picture.status is JobStatus.FAILED:
        failure = picture.failure or (picture.outages[-1].root.failure if picture.outages else None)
        if failure is not None:  # one that never began has failed in no task
            result["failure-cause"] = failure_cause(failure)
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}


_APPLICATION_STATUS = {
    JobStatus.FINISHED: "SUCCEEDED",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELED: "CANCELED",
}


def failure_cause(failure: Failure) -> Json:
    """Return a failure in the shape of Flink's SerializedThrowable; nothing is serialized here."""
    text = failure.traceback or f"{failure.type_name}: {failure.message}"
    return {"class": failure.type_name, "stack-trace": text, "serialized-throwable": ""}


# ---- checkpoints


@router.route("GET", "/jobs/:jobid/checkpoints")
def checkpoints(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """Numbers of all, and the last ones."""
    picture = cluster.picture(parts)
    kept, now_ms = picture.checkpoints, picture.now_ms
    summary = {
        name: quantiles([each[name] for each in kept.samples])
        for name in (
            "checkpointed_size",
            "state_size",
            "end_to_end_duration",
            "alignment_buffered",
            "processed_data",
            "persisted_data",
        )
    }
    latest = {
        name: kept.latest[name].summary(now_ms) if name in kept.latest else None
        for name in ("completed", "savepoint", "failed")
    }
    return {
        "counts": dict(kept.counts),
        "summary": summary,
        "latest": latest | {"restored": kept.restored},
        "history": [each.summary(now_ms) for each in reversed(kept.history)],
    }


@router.route("GET", "/jobs/:jobid/checkpoints/config")
def checkpoint_config(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """How they are taken."""
    job = cluster.job(parts)
    backend = job.configuration.get("state.backend.type", "hashmap")
    return job.picture.checkpoints.config_json() | {
        "state_backend": backend,
        "state_changelog_enabled": False,
        "changelog_periodic_materialization_interval": UNKNOWN,
        "changelog_storage": "",
    }


@router.route("GET", "/jobs/:jobid/checkpoints/details/:checkpointid")
def checkpoint_details(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """One of the last ones, with its vertices."""
    picture = cluster.picture(parts)
    found = _checkpoint(picture, parts)
    tasks = {vertex: found.task_json(vertex) for vertex in found.vertex_sizes}
    for task in tasks.values():
        del task["subtasks"]
    return found.summary(picture.now_ms) | {"tasks": tasks}


@router.route("GET", "/jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid")
def checkpoint_subtasks(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """What the subtasks of one vertex have given, and what that sums up to."""
    found = _checkpoint(cluster.picture(parts), parts)
    if parts["vertexid"] not in found.vertex_sizes:
        raise HttpError(404, f"There is no checkpoint statistics for task {parts['vertexid']}.")
    made = found.task_json(parts["vertexid"])
    answered = {each["index"] for each in made["subtasks"]}
    missing = [index for index in range(made["num_subtasks"]) if index not in answered]
    state = "pending_or_failed"
    pending = [{"className": state, "index": index, "status": state} for index in missing]
    listed = made["subtasks"]
    made["subtasks"] = sorted([*listed, *pending], key=lambda each: each["index"])
    made["summary"] = _summary(listed)
    return made


def _summary(subtasks: list[Json]) -> Json:
    def over(name: str, part: str | None = None) -> Json:
        return quantiles([each[name] if part is None else each[name][part] for each in subtasks])

    return {
        "checkpointed_size": over("checkpointed_size"),
        "state_size": over("state_size"),
        "end_to_end_duration": over("end_to_end_duration"),
        "checkpoint_duration": {name: over("checkpoint", name) for name in ("sync", "async")},
        "alignment": {name: over("alignment", name) for name in ("buffered", "processed", "persisted", "duration")},
        "start_delay": over("start_delay"),
    }


def _checkpoint(picture: JobPicture, parts: Mapping[str, str]) -> CheckpointStatistics:
    found = picture.checkpoints.find(int(parts["checkpointid"]))
    if found is None:
        raise HttpError(404, f"Could not find checkpointing statistics for checkpoint {parts['checkpointid']}.")
    return found
