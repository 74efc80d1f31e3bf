"""What a program holds of a job that runs beside it. Flink: JobClient."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from flinkbuf.common.completable_future import CompletableFuture, completed, failed
from flinkbuf.common.job_execution_result import JobExecutionResult
from flinkbuf.common.job_id import JobID
from flinkbuf.jobs.failure import JobCanceledError
from flinkbuf.jobs.job_status import JobStatus


class JobEnd:
    """Learns of the end of a job and tells those who wait for its result."""

    def __init__(self) -> None:
        self.result: Future[JobExecutionResult] = Future()
        self.job: Any = None

    def __call__(self, error: BaseException | None) -> None:
        """Take the job's exception, or None; called once, by its last task."""
        if error is None and self.job.status is JobStatus.CANCELED:
            error = JobCanceledError(f"job {self.job.graph.settings.job_name!r} was canceled")
        if error is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(JobExecutionResult(JobID(self.job.job_id), self.job.net_runtime_ms))


class JobClient:
    """A running job; made by ``env.execute_async``. Flink's ``JobClient``.

    Parameters
    ----------
    job : RunningJob
        A job that was started.
    end : JobEnd
        What learns of its end.
    """

    def __init__(self, job: Any, end: JobEnd) -> None:
        self._job = job
        self._end = end

    def get_job_id(self) -> JobID:
        """Return which job it is."""
        return JobID(self._job.job_id)

    def get_job_status(self) -> CompletableFuture:
        """Return where the job is in its life; a job that has ended can be asked, too."""
        return completed(self._job.status)

    def cancel(self) -> CompletableFuture:
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
    ) -> CompletableFuture:
        """Fail: there are no savepoints yet."""
        return failed(NotImplementedError("this version keeps no checkpoints, so a job cannot be stopped with one"))

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        """Fail: there are no savepoints yet."""
        return failed(NotImplementedError("this version keeps no checkpoints, so it makes no savepoint"))

    def get_accumulators(self) -> CompletableFuture:
        """Return what the job's functions have gathered so far: nothing, as Python functions have no accumulators."""
        return completed({})

    def get_job_execution_result(self) -> CompletableFuture:
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
