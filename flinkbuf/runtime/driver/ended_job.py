"""A job that had ended for good before its program was started again: it is not run a second time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.control.message_codec import Json
from flinkbuf.log import logger
from flinkbuf.runtime.driver.job_result import JobResult
from flinkbuf.runtime.driver.savepoint_requests import SavepointError
from flinkbuf.runtime.graph.job_graph import JobGraph
from flinkbuf.runtime.protocol.failure import JobCanceledError
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.streaming.chain.accumulators import results_of


class EndedJob:
    """The face of `RunningJob` for a job that had ended: gives the result that was noted. Flink: JobResultStore.

    Parameters
    ----------
    graph : JobGraph
        As the program makes it now.
    result : JobResult
    noted_in : str
        Where its end was noted.
    on_end : iterable of callable
        As in `RunningJob`; called by `start`.
    """

    def __init__(
        self,
        graph: JobGraph,
        result: JobResult,
        noted_in: str,
        on_end: Iterable[Callable[[BaseException | None], None]],
    ) -> None:
        self.graph = graph
        self.job_id = result.job_id
        self.net_runtime_ms = result.net_runtime_ms
        self.status = JobStatus.__members__.get(result.status, JobStatus.FAILED)
        self.has_ended = True
        self.why_suspended = ""
        self.exception: BaseException | None = None
        self._result = result
        self._on_end = list(on_end)
        self._text = (
            f"job {graph.settings.job_name!r} has ended before, {result.status}, and is not run again: set another "
            f"high-availability.cluster-id to run it as another job, or remove {noted_in}"
        )
        if self.status is JobStatus.FAILED:
            self.exception = RuntimeError(self._text) if result.failure is None else result.failure.to_exception()

    def start(self) -> None:
        """Log that the job has ended, and call the listeners of its end."""
        logger.warning("%s", self._text)
        for call in self._on_end:
            call(self.exception)

    def run(self) -> None:
        """`start` and `wait`."""
        self.start()
        self.wait()

    def wait(self, timeout_s: float | None = None) -> None:
        """Return at once, or raise the noted failure."""
        if self.exception is not None:
            raise self.exception
        if self.status is JobStatus.CANCELED:
            raise JobCanceledError(self._text)

    def cancel(self) -> None:
        """Do nothing."""

    def accumulators(self) -> dict[str, object]:
        """Return the accumulators noted at the end of the job."""
        return results_of(self._result.accumulators or {})

    def details(self) -> Json:
        """Return the noted details of the job."""
        return {
            "jid": self.job_id,
            "name": self.graph.settings.job_name,
            "state": self.status.name,
            "duration": self.net_runtime_ms,
        }

    def trigger_savepoint(
        self, directory: str | None = None, kind: SnapshotKind = SnapshotKind.SAVEPOINT
    ) -> Future[str]:
        """Raise: the job does not run."""
        future: Future[str] = Future()
        future.set_exception(SavepointError(self._text))
        return future

    def trigger_checkpoint(self, kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> Future[int]:
        """Raise: the job does not run."""
        future: Future[int] = Future()
        future.set_exception(SavepointError(self._text))
        return future
