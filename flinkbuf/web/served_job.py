"""What is served of a job: its pictures, and what one may ask of it. Flink: DispatcherGateway, of one job."""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.runtime.picture.job_picture import JobPicture
from flinkbuf.runtime.protocol.flame_tree import TERMINATED
from flinkbuf.runtime.protocol.messages import Json

if TYPE_CHECKING:
    from flinkbuf.runtime.driver.rescalable_job import RescalableJob
    from flinkbuf.runtime.driver.running_job import RunningJob

OPERATIONS_MAX: Final = 100  # that are remembered
LINGER_MS: Final = 60_000
LOOKING_S: Final = (
    120.0  # before its end: who has asked about it since then still looks; a hidden page does so once a minute
)
SHOWN_S: Final = 1.5  # after somebody has seen the end: others, who ask every second, have, too


Operation = Future[str] | Future[int]


class ServedJob:
    """A job, and after its end its last picture.

    Parameters
    ----------
    job : RunningJob
        Or what else has ``picture``, ``cancel()``, ``trigger_savepoint(directory, kind)`` and
        ``trigger_checkpoint(kind)``.
    configuration : mapping, optional
        What the program was configured with, as anybody may see it who may look at the job: without secrets.
    job_parameters : mapping, optional
        What its functions can ask for, likewise.
    rescale : callable, optional
        Given a parallelism; returns a `Future`. None: the job cannot begin again with another one.
    linger_ms : int
        How long who looks at it may take to see its end.
    clock : callable, optional
        Seconds that only go on.

    Notes
    -----
    Threads: any. Nothing here waits for the job.
    """

    def __init__(
        self,
        job: RunningJob | RescalableJob,
        configuration: Mapping[str, str] | None = None,
        rescale: Callable[[int], Future[str]] | None = None,
        *,
        job_parameters: Mapping[str, str] | None = None,
        linger_ms: int = LINGER_MS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job: RunningJob | RescalableJob | None = job
        self._linger_s = linger_ms / 1_000
        self._clock = clock
        self._looked_s: float | None = None  # when somebody has last asked about it while it ran
        self._ended_s: float | None = None
        self._seen_s: float | None = None  # when somebody has first asked about it after its end
        self._last: JobPicture | None = None
        self.configuration = dict(configuration or {})
        self.job_parameters = dict(job_parameters or {})
        self.rescale = rescale

    @property
    def picture(self) -> JobPicture:
        """The newest one."""
        job, last = self._job, self._last
        if last is not None:
            return last
        assert job is not None
        return job.picture

    @property
    def is_over(self) -> bool:
        """Whether nothing can be asked of it any more."""
        return self._last is not None or self.picture.is_over

    @property
    def silence_s(self) -> float:
        """For how long the job's thread has made no picture."""
        job = self._job
        return 0.0 if job is None else job.silence_s

    def end(self) -> None:
        """Keep the last picture, and nothing else of the job."""
        self._last = self.picture
        self._job = self.rescale = None
        self._ended_s = self._clock()

    def was_looked_at(self) -> None:
        """Note that a client has looked at the job, or at its end."""
        if not self.is_over:
            self._looked_s = self._clock()
        elif self._seen_s is None:
            self._seen_s = self._clock()

    @property
    def is_end_seen(self) -> bool:
        """Whether a client has seen its end."""
        return self._seen_s is not None

    @property
    def linger_s(self) -> float:
        """How long it has to be served after its end for who looks at it to see that, at most; 0: nobody waits for it.

        Flink: CompletedOperationCache, which a cluster that ends waits for.
        """
        if self._ended_s is None or self._looked_s is None or self._ended_s - self._looked_s > LOOKING_S:
            return 0.0
        until_s = self._ended_s + self._linger_s
        if self._seen_s is not None:
            until_s = min(until_s, self._seen_s + SHOWN_S)
        return max(0.0, until_s - self._clock())

    def flame_graph(self, vertex_id: str, subtask: int | None, kind: str) -> Json:
        """Return what the threads of a task do, in Flink's shape; see `RunningJob.flame_graph`."""
        job = self._job
        return dict(TERMINATED) if job is None else job.flame_graph(vertex_id, subtask, kind)

    def inspect_manager(self, manager_id: str, subject: str) -> Future[Json]:
        """Ask a task manager about its process, see `RunningJob.inspect_manager`."""
        job = self._job
        if job is None:
            raise RuntimeError(f"job {self.picture.job_id} has ended")
        return job.inspect_manager(manager_id, subject)

    def cancel(self) -> None:
        """Have it end. Nothing happens to one that is over."""
        job = self._job
        if job is not None:
            job.cancel()

    def trigger_savepoint(self, directory: str | None, kind: SnapshotKind) -> Future[str]:
        """Have a savepoint made; the future gives its path."""
        job = self._job
        if job is None:
            raise RuntimeError(f"job {self.picture.job_id} has ended")
        return job.trigger_savepoint(directory, kind)

    def trigger_checkpoint(self, kind: SnapshotKind) -> Future[int]:
        """Have a checkpoint taken now; the future gives its number."""
        job = self._job
        if job is None:
            raise RuntimeError(f"job {self.picture.job_id} has ended")
        return job.trigger_checkpoint(kind)


class Operations:
    """What was begun over HTTP, by the id that its answer is asked for with; the oldest are forgotten.

    Flink: AsynchronousJobOperationKey, CompletedOperationCache.

    Examples
    --------
    >>> operations = Operations()
    >>> trigger_id = operations.add("c" * 32, done := Future())
    >>> operations.find("c" * 32, trigger_id) is done
    True
    """

    def __init__(self) -> None:
        self._futures: OrderedDict[tuple[str, str], Operation] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, job_id: str, future: Operation, trigger_id: str | None = None) -> str:
        """Remember one; returns its id: `trigger_id`, if that was given, else a new one."""
        trigger_id = trigger_id or uuid.uuid4().hex
        with self._lock:
            self._futures[job_id, trigger_id] = future
            while len(self._futures) > OPERATIONS_MAX:
                self._futures.popitem(last=False)
        return trigger_id

    def find(self, job_id: str, trigger_id: str) -> Operation | None:
        """Return one; None: it was never begun, or is forgotten."""
        with self._lock:
            return self._futures.get((job_id, trigger_id))
