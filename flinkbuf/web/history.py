"""Jobs that have ended, out of their archive, over the same paths as those that run. Flink: HistoryServer.

What a file says is looked at when somebody asks for it, and kept for a while: a file that comes or goes is seen at the
next request. Nothing is ever written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from flinkbuf._version import __version__
from flinkbuf.errors import CorruptDataError
from flinkbuf.runtime.picture.job_archive import archived_jobs, read_archived_job
from flinkbuf.runtime.protocol.flame_tree import TERMINATED
from flinkbuf.web.router import Answer, HttpError, Json, Later, Request, Router

KEPT: Final = 8  # archives in memory
LISTED: Final = 500  # jobs of the overview, those that ended last
SIZE_MAX: Final = 256 << 20  # of an archive, in bytes
_OVERVIEW: Final = ("jid", "name", "start-time", "end-time", "duration", "state", "job-type")

router = Router()


class JobHistory:
    """The jobs of one archive.

    Parameters
    ----------
    directory : path
        What ``jobmanager.archive.fs.dir`` was set to.

    Raises
    ------
    NotADirectoryError
        There is no such directory.

    Notes
    -----
    Threads: one.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise NotADirectoryError(
                f"{str(directory)!r} is no directory; jobs are archived by jobmanager.archive.fs.dir"
            )
        self._kept: OrderedDict[str, tuple[tuple[int, int], Json]] = OrderedDict()
        self._lines: dict[str, tuple[tuple[int, int], Json]] = {}

    def answer(self, request: Request) -> Answer | Later:
        """Return the answer to a request; an error is one, too."""
        return router.answer(self, request)

    def jobs(self) -> list[Json]:
        """Return a line for each job, the one that ended last first; files that cannot be read are left out."""
        lines = []
        for job_id in archived_jobs(self.directory)[:LISTED]:
            try:
                stamp = self._stamp(job_id)
                if self._lines.get(job_id, (None,))[0] != stamp:
                    self._lines[job_id] = (stamp, _line(self.job(job_id)))
                lines.append(self._lines[job_id][1])
            except HttpError:
                continue
        self._lines = {line["jid"]: self._lines[line["jid"]] for line in lines}
        return lines

    def job(self, job_id: str) -> Json:
        """Return what was archived of a job.

        Raises
        ------
        HttpError
            It is not there, or not to be read.
        """
        stamp = self._stamp(job_id)
        kept = self._kept.get(job_id)
        if kept is None or kept[0] != stamp:
            try:
                kept = (stamp, read_archived_job(self.directory, job_id))
            except FileNotFoundError as error:
                raise HttpError(404, f"Job {job_id} not found") from error
            except (CorruptDataError, OSError, RecursionError) as error:
                raise HttpError(500, str(error)) from error
            self._kept[job_id] = kept
        self._kept.move_to_end(job_id)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return kept[1]

    def _stamp(self, job_id: str) -> tuple[int, int]:
        try:
            found = (self.directory / f"{job_id}.json").stat()
        except OSError as error:
            raise HttpError(404, f"Job {job_id} not found") from error
        if found.st_size > SIZE_MAX:
            raise HttpError(500, f"the archive of job {job_id} has {found.st_size} bytes; {SIZE_MAX} are read at most")
        return found.st_mtime_ns, found.st_size


def _line(details: Json) -> Json:
    line = {name: details.get(name) for name in _OVERVIEW}
    counts: dict[str, int] = {}
    for vertex in details.get("vertices", ()):
        for state, count in vertex.get("tasks", {}).items():
            counts[state.lower()] = counts.get(state.lower(), 0) + count
    return line | {"last-modification": details.get("end-time"), "tasks": {"total": sum(counts.values()), **counts}}


# ---- routes


@router.route("GET", "/config")
def config(history: JobHistory, request: Request, parts: Mapping[str, str]) -> Json:
    """Where one is."""
    return {"flink-version": __version__, "features": {"web-submit": False, "web-cancel": False, "web-history": True}}


@router.route("GET", "/jobs")
def ids(history: JobHistory, request: Request, parts: Mapping[str, str]) -> Json:
    """All jobs."""
    return {"jobs": [{"id": each["jid"], "status": each["state"]} for each in history.jobs()]}


@router.route("GET", "/jobs/overview")
def overview(history: JobHistory, request: Request, parts: Mapping[str, str]) -> Json:
    """All jobs, with how they ended."""
    return {"jobs": history.jobs()}


@router.route("GET", "/jobs/:jobid")
def details(history: JobHistory, request: Request, parts: Mapping[str, str]) -> Json:
    """The job, its vertices, its plan."""
    return {name: value for name, value in history.job(parts["jobid"]).items() if name != "picture"}


@router.route("GET", "/jobs/:jobid/plan")
def plan(history: JobHistory, request: Request, parts: Mapping[str, str]) -> Json:
    """Its plan."""
    return {"plan": _part(history, parts, "plan")}


@router.route("GET", "/jobs/:jobid/exceptions")
def exceptions(history: JobHistory, request: Request, parts: Mapping[str, str]) -> Json:
    """What failed in it."""
    return _part(history, parts, "exceptions")


@router.route("GET", "/jobs/:jobid/checkpoints")
def checkpoints(history: JobHistory, request: Request, parts: Mapping[str, str]) -> Json:
    """Its checkpoints."""
    return _part(history, parts, "checkpoints")


@router.route("GET", "/jobs/:jobid/accumulators")
def accumulators(history: JobHistory, request: Request, parts: Mapping[str, str]) -> Json:
    """What its functions have added up."""
    return _part(history, parts, "accumulators")


@router.route("GET", "/jobs/:jobid/picture")
def picture(history: JobHistory, request: Request, parts: Mapping[str, str]) -> Json:
    """Its last picture."""
    return _part(history, parts, "picture") | {"can-command": False, "is-archived": True}


@router.route("GET", "/picture")
def newest(history: JobHistory, request: Request, parts: Mapping[str, str]) -> Json:
    """The last picture of the job that ended last."""
    found = archived_jobs(history.directory)
    if not found:
        raise HttpError(404, f"No job is archived in {str(history.directory)!r} yet.")
    return picture(history, request, {"jobid": found[0]})


@router.route("GET", "/jobs/:jobid/vertices/:vertexid/flamegraph")
def flame_graph(history: JobHistory, request: Request, parts: Mapping[str, str]) -> Json:
    """There is nothing to look at any more."""
    history.job(parts["jobid"])
    return dict(TERMINATED)


def _part(history: JobHistory, parts: Mapping[str, str], name: str) -> Json:
    found = history.job(parts["jobid"]).get(name)
    if found is None:
        raise HttpError(404, f"The archive of job {parts['jobid']} has no {name}.")
    return found
