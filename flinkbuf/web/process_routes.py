"""What the processes of a job say of themselves: their logs, and what their threads do.

Flink: JobManagerLogFileHandler, TaskManagerLogFileHandler, ThreadDump handlers. The program's own is given at once; a
task manager is asked, and answers over its control connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flinkbuf.runtime.manager.task_log import logged
from flinkbuf.runtime.manager.thread_dump import thread_dump
from flinkbuf.web.cluster_routes import manager_of
from flinkbuf.web.router import Answer, Cluster, HttpError, Json, Later, Request, Router

router = Router()
_TEXT = "text/plain; charset=UTF-8"


@router.route("GET", "/jobmanager/log")
def log(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Answer:
    """The last MiB that the program has logged since it is served."""
    return Answer(logged(), content_type=_TEXT)


@router.route("GET", "/jobmanager/thread-dump")
def threads(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """What all threads of the program are doing."""
    return thread_dump()


@router.route("GET", "/taskmanagers/:taskmanagerid/log")
def log_of_manager(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Later:
    """The last MiB that its process has logged."""
    return _asked(cluster, parts, "log", lambda said: Answer(str(said.get("log", "")), content_type=_TEXT))


@router.route("GET", "/taskmanagers/:taskmanagerid/thread-dump")
def threads_of_manager(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Later:
    """What all threads of its process are doing."""
    return _asked(cluster, parts, "thread-dump", lambda said: said)


def _asked(cluster: Cluster, parts: Mapping[str, str], subject: str, make: Callable[..., object]) -> Later:
    manager, picture = manager_of(cluster, parts)
    try:
        future = cluster.jobs[picture.job_id].inspect_manager(manager.id, subject)
    except RuntimeError as error:  # its job ends at this moment
        raise HttpError(404, f"Could not find TaskExecutor {manager.id}: {error}") from error
    return Later(future, make)
