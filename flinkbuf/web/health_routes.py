"""Whether the program works, and whether its jobs do: for those who would start it again, such as Kubernetes.

They are no users and have no token, so anybody may ask; the answers hold no names, and nothing of what failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from flinkbuf.runtime.picture.job_picture import JobPicture
from flinkbuf.runtime.process.termination import the_termination
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.scheduler.execution_state import ExecutionState
from flinkbuf.web.router import Answer, Cluster, Request, Router
from flinkbuf.web.served_job import ServedJob

router = Router()
SILENCE_S: Final = 60.0  # without a picture, of which there is one a second: the job's thread does not come to it
_AT_WORK: Final = (ExecutionState.RUNNING, ExecutionState.FINISHED)


@router.route("GET", "/health")
def health(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Answer:
    """Whether the program works and all tasks of its jobs run; 503 with the reasons where not."""
    return _answer(cluster, [*_not_live(cluster), *_not_ready(cluster)])


@router.route("GET", "/health/live")
def live(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Answer:
    """Whether the program works: 503 where only starting it again would help."""
    return _answer(cluster, list(_not_live(cluster)))


@router.route("GET", "/health/ready")
def ready(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Answer:
    """Whether all tasks of its jobs run: 503 while a job begins, begins again or ends, and where none runs."""
    return _answer(cluster, list(_not_ready(cluster)))


def _answer(cluster: Cluster, reasons: list[str]) -> Answer:
    jobs = [
        {
            "id": picture.job_id,
            "status": picture.status.name,
            "running-tasks": _at_work(picture),
            "tasks": _all(picture),
        }
        for picture in (job.picture for job in _jobs(cluster))
    ]
    if reasons:
        return Answer({"status": "DOWN", "errors": reasons, "jobs": jobs}, 503)
    return Answer({"status": "UP", "jobs": jobs})


def _jobs(cluster: Cluster) -> list[ServedJob]:
    return [job for job in list(cluster.jobs.values()) if not job.is_over]


def _not_live(cluster: Cluster) -> Iterator[str]:
    for job in _jobs(cluster):
        if job.silence_s > SILENCE_S:
            yield f"The thread of job {job.picture.job_id} has not answered for {job.silence_s:.0f} s."


def _not_ready(cluster: Cluster) -> Iterator[str]:
    if the_termination.is_begun:
        yield "The program was told to end."
    pictures = [job.picture for job in _jobs(cluster)]
    if not pictures:
        yield "No job runs."
    for picture in pictures:
        if picture.status is not JobStatus.RUNNING:
            yield f"Job {picture.job_id} is {picture.status.name}."
        elif not picture.plan.is_batch and _at_work(picture) < _all(picture):  # those of a batch job come in turn
            yield f"Job {picture.job_id}: {_at_work(picture)} of {_all(picture)} tasks run."


def _at_work(picture: JobPicture) -> int:
    return sum(vertex.state_counts[state] for vertex in picture.vertices for state in _AT_WORK)


def _all(picture: JobPicture) -> int:
    return sum(len(vertex.subtasks) for vertex in picture.vertices)
