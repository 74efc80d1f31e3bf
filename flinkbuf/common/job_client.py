"""What a program holds of a job that runs beside it. Flink: JobClient."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.common.completable_future import CompletableFuture, completed, failed
from flinkbuf.common.job_execution_result import Accumulators, JobExecutionResult
from flinkbuf.common.job_id import JobID
from flinkbuf.log import logger
from flinkbuf.runtime.driver.checkpoint_log import log_stop
from flinkbuf.runtime.protocol.failure import JobCanceledError, JobSuspendedError
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import Json

if TYPE_CHECKING:
    from flinkbuf.runtime.driver.ended_job import EndedJob
    from flinkbuf.runtime.driver.rescalable_job import RescalableJob
    from flinkbuf.runtime.driver.running_job import RunningJob


class JobEnd:
    """Learns of the end of a job, archives it, and tells those who wait for its result.

    Parameters
    ----------
    archive_directory : str, optional
        Where the details of the job are kept; None: nowhere.
    """

    def __init__(self, archive_directory: str | None = None) -> None:
        self.result: Future[JobExecutionResult] = Future()
        self.job: RunningJob | RescalableJob | EndedJob
        self._archive_directory = archive_directory

    def __call__(self, error: BaseException | None) -> None:
        """Take the job's exception, or None; called once, when all of it is gone."""
        self._archive()
        name = self.job.graph.settings.job_name
        if hasattr(self.job, "picture"):  # one that had ended before has none
            log_stop(name, self.job.picture.savepoint)
        if error is None and self.job.status is JobStatus.CANCELED:
            error = JobCanceledError(f"job {name!r} was canceled")
        if error is None and self.job.status is JobStatus.SUSPENDED:
            error = JobSuspendedError(f"job {name!r} was suspended: {self.job.why_suspended}")
        if error is not None:
            self.result.set_exception(error)
            return
        try:
            accumulators = self.job.accumulators()
        except Exception as error_of_accumulators:  # those of two subtasks cannot be merged
            self.result.set_exception(error_of_accumulators)
        else:
            result = JobExecutionResult(JobID(self.job.job_id), self.job.net_runtime_ms, accumulators)
            self.result.set_result(result)

    def _archive(self) -> None:
        if self._archive_directory is None:
            return
        from flinkbuf.runtime.picture.job_archive import archive_job
        from flinkbuf.runtime.picture.page_picture import page_picture

        try:
            details = self.job.details()
            if hasattr(self.job, "picture"):  # one that had ended before has none
                details["picture"] = page_picture(self.job.picture) | {"can-command": False, "can-rescale": False}
            archive_job(self._archive_directory, details)
        except Exception:  # the job has done its work
            logger.exception("job %s could not be archived in %s", self.job.job_id, self._archive_directory)


class JobClient:
    """A running job; made by ``env.execute_async``. Flink's ``JobClient``.

    Parameters
    ----------
    job : RunningJob
        A job that was started.
    end : JobEnd
        What learns of its end.
    """

    def __init__(self, job: RunningJob | RescalableJob | EndedJob, end: JobEnd) -> None:
        self._job = job
        self._end = end

    def __repr__(self) -> str:
        return f"<JobClient of job {self._job.job_id}>"

    @property
    def page(self) -> str | None:
        """The link to the job's page, with the token that lets one act there; None where the job is not served."""
        link: str | None = getattr(self._job, "page", None)
        return link

    def get_job_id(self) -> JobID:
        """Return which job it is."""
        return JobID(self._job.job_id)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return where the job is in its life; a job that has ended can be asked, too."""
        return completed(self._job.status)

    def cancel(self) -> CompletableFuture[None]:
        """End the job; the future is done when its last task has ended."""
        self._job.cancel()
        over: Future[None] = Future()

        def tell(result: object) -> None:
            if over.set_running_or_notify_cancel():
                over.set_result(None)

        self._end.result.add_done_callback(tell)
        return CompletableFuture(over)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint; the future gives its path when the job has ended.

        Parameters
        ----------
        advance_to_end_of_event_time : bool
            Whether all timers and windows fire first: for a job that is not to go on.
        savepoint_directory : str, optional
            Above the savepoint's own; what ``execution.checkpointing.savepoint-dir`` says if left out.
        """
        kind = SnapshotKind.SAVEPOINT_TERMINATE if advance_to_end_of_event_time else SnapshotKind.SAVEPOINT_SUSPEND
        return CompletableFuture(self._job.trigger_savepoint(savepoint_directory, kind))

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Make a savepoint while the job goes on; the future gives its path."""
        return CompletableFuture(self._job.trigger_savepoint(savepoint_directory))

    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Make a savepoint, then cancel the job: what came in between is read again by who begins from it.

        The future gives the path when the job has ended. If there is no savepoint, the job goes on.
        """
        path: Future[str] = Future()

        def made(savepoint: Future[str]) -> None:
            if savepoint.exception() is not None:
                path.set_exception(savepoint.exception())
                return
            self._end.result.add_done_callback(lambda result: path.set_result(savepoint.result()))
            self._job.cancel()

        self._job.trigger_savepoint(savepoint_directory).add_done_callback(made)
        return CompletableFuture(path)

    def get_accumulators(self) -> CompletableFuture[Accumulators]:
        """Return what the job's functions have gathered so far, by name; a job that has ended can be asked, too."""
        try:
            return completed(self._job.accumulators())
        except Exception as error:  # those of two subtasks that cannot be merged
            return failed(error)

    def details(self) -> Json:
        """Return a picture of the job as it is now: vertices, subtasks, metrics, back-pressure, watermarks, failures.

        Plain dicts, lists, numbers and texts, which ``json.dumps`` writes, in the shapes of Flink's REST API
        (``/jobs/:jobid`` and what stands below it). A job that has ended can be asked, too.
        """
        return self._job.details()

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return the job's result, when it has ended; the future raises what the job failed with."""
        own: Future[JobExecutionResult] = Future()  # cancelled alone: others wait for the job's end, too
        self._end.result.add_done_callback(lambda result: _pass_on(result, own))
        return CompletableFuture(own)


def _pass_on(result: Future[JobExecutionResult], own: Future[JobExecutionResult]) -> None:
    if not own.set_running_or_notify_cancel():
        return
    error = result.exception()
    if error is not None:
        own.set_exception(error)
    else:
        own.set_result(result.result())
