"""What one may ask of a job: cancel, stop with a savepoint, a savepoint, a checkpoint, another parallelism.

Each request only hands a message to the job and comes back with an id to ask again with. Flink: JobCancellationHandler,
SavepointHandlers, CheckpointHandlers, RescalingHandlers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.web.job_routes import failure_cause
from flinkbuf.web.router import FLAG, OPTIONAL_TEXT, TEXT, Answer, Cluster, HttpError, Json, Request, Router, whole
from flinkbuf.web.served_job import Operation, ServedJob

router = Router()
MODES = ("cancel", "stop")  # the second is of Flink's past; it answers that it is
FORMATS = (None, "CANONICAL", "NATIVE")  # all savepoints are such that every backend reads them
TRIGGER_ID = {**OPTIONAL_TEXT, "pattern": "^[0-9a-fA-F]{32}$"}
_SAVED = {"formatType": {**OPTIONAL_TEXT, "enum": [*FORMATS[1:], None]}, "triggerId": TRIGGER_ID}
CHECKPOINT_TYPES = {
    "CONFIGURED": SnapshotKind.CHECKPOINT,
    "INCREMENTAL": SnapshotKind.CHECKPOINT,  # as far as the state backend is
    "FULL": SnapshotKind.FULL_CHECKPOINT,
}


def _running(cluster: Cluster, parts: Mapping[str, str]) -> ServedJob:
    job = cluster.job(parts)
    if job.is_over:
        raise HttpError(409, f"Job {parts['jobid']} is {job.picture.status.name}: nothing can be asked of it any more")
    return job


@router.route("PATCH", "/jobs/:jobid", query={"mode": {**TEXT, "enum": list(MODES)}})
def cancel(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Answer:
    """Cancel it."""
    mode = request.one("mode") or "cancel"
    if mode not in MODES:
        raise HttpError(400, f'Cannot resolve query parameter (mode) from value "{mode[:80]}".')
    job = cluster.job(parts)
    if mode == "stop":
        raise HttpError(
            308,
            'The termination mode "stop" has been removed. For an ungraceful shutdown, please use '
            '"cancel" instead. For a graceful shutdown, please use "jobs/:jobId/stop" instead.',
        )
    if job.is_over and job.picture.status.name != "CANCELED":
        raise HttpError(
            409,
            f"Job cancellation failed because the job has already reached another terminal state "
            f"({job.picture.status.name}).",
        )
    job.cancel()
    return Answer({}, 202)


@router.route("POST", "/jobs/:jobid/savepoints", body={"cancel-job": FLAG, "target-directory": OPTIONAL_TEXT, **_SAVED})
def savepoint(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Answer:
    """Make a savepoint, and cancel the job after it if so wished."""
    shape = "SavepointTriggerRequestBody"
    cancels = request.field("cancel-job", bool, shape) or False
    job, directory = _to_be_saved(cluster, request, parts, shape, "target-directory")

    def begin() -> Future[str]:
        future = job.trigger_savepoint(directory, SnapshotKind.SAVEPOINT)
        if cancels:
            future.add_done_callback(lambda done: None if done.cancelled() or done.exception() else job.cancel())
        return future

    return _accepted(cluster, parts, _trigger_id(request, shape), begin)


@router.route(
    "POST",
    "/jobs/:jobid/checkpoints",
    body={"checkpointType": {**OPTIONAL_TEXT, "enum": [*CHECKPOINT_TYPES, None]}, "triggerId": TRIGGER_ID},
)
def checkpoint(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Answer:
    """Take a checkpoint now."""
    shape = "CheckpointTriggerRequestBody"
    name = request.field("checkpointType", str, shape) or "CONFIGURED"
    if name not in CHECKPOINT_TYPES:
        raise HttpError(400, f"Request did not match expected format {shape}.")
    job = _running(cluster, parts)
    trigger_id = _trigger_id(request, shape)
    return _accepted(cluster, parts, trigger_id, lambda: job.trigger_checkpoint(CHECKPOINT_TYPES[name]))


@router.route("GET", "/jobs/:jobid/checkpoints/:triggerid")
def checkpoint_status(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """What has become of a checkpoint that was asked for."""
    return _status(cluster, parts, "checkpointId", "failureCause")


@router.route("POST", "/jobs/:jobid/stop", body={"drain": FLAG, "targetDirectory": OPTIONAL_TEXT, **_SAVED})
def stop(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Answer:
    """Stop it with a savepoint; with ``drain`` all timers and windows fire first."""
    shape = "StopWithSavepointRequestBody"
    drains = request.field("drain", bool, shape) or False
    job, directory = _to_be_saved(cluster, request, parts, shape, "targetDirectory")
    kind = SnapshotKind.SAVEPOINT_TERMINATE if drains else SnapshotKind.SAVEPOINT_SUSPEND
    trigger_id = _trigger_id(request, shape)
    return _accepted(cluster, parts, trigger_id, lambda: job.trigger_savepoint(directory, kind))


def _to_be_saved(
    cluster: Cluster, request: Request, parts: Mapping[str, str], shape: str, name: str
) -> tuple[ServedJob, str | None]:
    """The job, and where its savepoint goes; None: where the program has said."""
    directory = request.field(name, str, shape)
    if request.field("formatType", str, shape) not in FORMATS:
        raise HttpError(400, f"Request did not match expected format {shape}.")
    job = _running(cluster, parts)
    if not (directory or job.picture.checkpoints.config.savepoint_directory):
        key = "execution.checkpointing.savepoint-dir"
        raise HttpError(400, f"Config key [{key}] is not set. Property [{name}] must be provided.")
    return job, directory


def _trigger_id(request: Request, shape: str) -> str | None:
    """The id that the one who asks wants to ask again with."""
    trigger_id: str | None = request.field("triggerId", str, shape)
    if trigger_id is not None and not re.fullmatch("[0-9a-fA-F]{32}", trigger_id):
        raise HttpError(400, f"Request did not match expected format {shape}.")
    return None if trigger_id is None else trigger_id.lower()


def _accepted(
    cluster: Cluster, parts: Mapping[str, str], trigger_id: str | None, begin: Callable[[], Operation]
) -> Answer:
    """Begin it, unless that id was begun with already: who heard no answer may ask twice."""
    if trigger_id is None or cluster.operations.find(parts["jobid"], trigger_id) is None:
        trigger_id = cluster.operations.add(parts["jobid"], begin(), trigger_id)
    return Answer({"request-id": trigger_id}, 202)


@router.route("PATCH", "/jobs/:jobid/rescaling", query={"parallelism": whole(1, 32_768)}, required=("parallelism",))
def rescale(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Answer:
    """Let it go on with another parallelism: a savepoint, its end, a new start from it."""
    if request.one("parallelism") is None:
        raise HttpError(400, "Missing required query parameter: parallelism.")
    parallelism = request.number("parallelism", 0, 1, 32_768)
    begin = _running(cluster, parts).rescale
    if begin is None:
        raise HttpError(
            503,
            "Rescaling is not possible for this job: start its program again with another parallelism "
            "and execution.state-recovery.path",
        )
    return _accepted(cluster, parts, None, lambda: begin(parallelism))


@router.route("GET", "/jobs/:jobid/savepoints/:triggerid")
def savepoint_status(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """What has become of a savepoint, or of a stop with one."""
    return _status(cluster, parts, "location")


@router.route("GET", "/jobs/:jobid/rescaling/:triggerid")
def rescale_status(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """What has become of it."""
    return _status(cluster, parts, "job-id")


def _status(cluster: Cluster, parts: Mapping[str, str], result_name: str, failure_name: str = "failure-cause") -> Json:
    future = cluster.operations.find(parts["jobid"], parts["triggerid"])
    if future is None:
        raise HttpError(404, f"There is no operation {parts['triggerid']} of job {parts['jobid']}")
    if parts["jobid"] in cluster.jobs:
        cluster.jobs[parts["jobid"]].was_looked_at()
    if not future.done():
        return {"status": {"id": "IN_PROGRESS"}, "operation": None}
    error = None if future.cancelled() else future.exception()
    if future.cancelled() or error is not None:
        failure = Failure.of(error or RuntimeError("it was given up"))
        operation: Json = {failure_name: failure_cause(failure)}
    else:
        operation = {result_name: future.result()}
    return {"status": {"id": "COMPLETED"}, "operation": operation}
