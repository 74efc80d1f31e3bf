"""Writes the state of a task away while the task goes on: the asynchronous part of its checkpoints.

One thread a task, made when it is first needed. A job can be cancelled at any moment; a thread that does not come back
from a storage that hangs is given up, so that the next checkpoint does not wait for it. Flink: AsyncCheckpointRunnable.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from flinkbuf.checkpoints.handles import SubtaskState
from flinkbuf.log import logger

MAX_THREADS = 8  # of which all but one are stuck in storage
CLOSE_TIMEOUT_S = 2.0  # how long the end of a task waits for what was cancelled


@dataclass(eq=False)
class SnapshotJob:
    """One snapshot that is to be written.

    Attributes
    ----------
    checkpoint_id : int
    write : callable
        Returns the `SubtaskState`; asks the callable that it is given whether it was cancelled, and raises then.
    done : callable
        Given the state that was written; not after it was cancelled.
    failed : callable
        Given the error of `write`; not after it was cancelled.
    drop : callable
        Frees what waits to be written; for a job that was cancelled before it began.
    discard : callable
        Deletes what was written for nothing.
    """

    checkpoint_id: int
    write: Callable[[Callable[[], bool]], SubtaskState]
    done: Callable[[SubtaskState], None]
    failed: Callable[[BaseException], None]
    drop: Callable[[], None]
    discard: Callable[[SubtaskState], None]
    is_cancelled: bool = False


class SnapshotRunner:
    """Runs `SnapshotJob` objects one after the other; all methods may be called from any thread.

    Parameters
    ----------
    name : str
        Of its thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._waiting: deque[SnapshotJob] = deque()
        self._running: SnapshotJob | None = None
        self._worker: object | None = None  # the token of the thread that takes the next job
        self._threads: set[threading.Thread] = set()
        self._is_closed = False

    def submit(self, job: SnapshotJob) -> None:
        """Queue a snapshot to be written."""
        with self._changed:
            refusal = self._refused_thread()
            if refusal is None:
                self._waiting.append(job)
                self._changed.notify_all()
                return
            is_closed = self._is_closed
        job.drop()
        if not is_closed:
            job.failed(refusal)

    def _refused_thread(self) -> Exception | None:
        """Start a thread that takes the next job; under the lock. Return why there can be none."""
        if self._is_closed:
            return RuntimeError("the task has ended")
        if self._worker is None and len(self._threads) >= MAX_THREADS:
            return OSError(
                f"{MAX_THREADS} threads of {self._name} hang in the storage of earlier checkpoints: see why it does "
                f"not answer"
            )
        try:
            self._start_thread()
        except RuntimeError as error:  # the system has none left
            return error
        return None

    def cancel(self, checkpoint_id: int) -> None:
        """Cancel one job; nothing happens if it is done."""
        self._cancel(lambda job: job.checkpoint_id == checkpoint_id)

    def cancel_all(self) -> None:
        """Cancel all jobs."""
        self._cancel(lambda job: True)

    def _cancel(self, is_meant: Callable[[SnapshotJob], bool]) -> None:
        refused: list[SnapshotJob] = []
        refusal: Exception | None = None
        with self._changed:
            dropped = [job for job in self._waiting if is_meant(job)]
            self._waiting = deque(job for job in self._waiting if not is_meant(job))
            for job in dropped:
                job.is_cancelled = True
            if self._running is not None and is_meant(self._running):
                self._running.is_cancelled = True
                self._running = self._worker = None  # its thread ends when it comes back; another takes the next job
                if self._waiting and (refusal := self._refused_thread()) is not None:
                    refused, self._waiting = list(self._waiting), deque()
            self._changed.notify_all()
        for job in (*dropped, *refused):
            job.drop()
        for job in refused:
            if refusal is not None and not self._is_closed:
                job.failed(refusal)

    @property
    def is_idle(self) -> bool:
        """Return whether no job waits or runs, but for cancelled ones."""
        return self._running is None and not self._waiting

    def wait_until_idle(self) -> None:
        """Wait until all jobs are done or cancelled."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_idle)

    def close(self) -> None:
        """Give all jobs up and end the thread; one that hangs in storage is left behind."""
        with self._changed:
            self._is_closed = True
        self.cancel_all()
        with self._changed:
            self._worker = None
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._threads, CLOSE_TIMEOUT_S)
            stuck = len(self._threads)
        if stuck:
            logger.warning(
                "%d thread(s) of %s hang in the storage of checkpoints %g s after they were cancelled; they are left "
                "behind",
                stuck,
                self._name,
                CLOSE_TIMEOUT_S,
            )

    # ---- its threads ------------------------------------------------------------------------------------

    def _start_thread(self) -> None:
        if self._worker is not None:
            return
        self._worker = token = object()
        thread = threading.Thread(target=self._run, args=(token,), name=self._name, daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except BaseException:  # no thread is left
            self._threads.discard(thread)
            self._worker = None
            raise

    def _run(self, token: object) -> None:
        try:
            while (job := self._next_job(token)) is not None:
                self._run_job(job)
        finally:
            with self._changed:
                self._threads.discard(threading.current_thread())
                self._changed.notify_all()

    def _next_job(self, token: object) -> SnapshotJob | None:
        with self._changed:
            self._changed.wait_for(lambda: self._worker is not token or self._waiting)
            if self._worker is not token:
                return None
            self._running = self._waiting.popleft()
            return self._running

    def _run_job(self, job: SnapshotJob) -> None:
        state: SubtaskState | None = None
        error: BaseException | None = None
        try:
            state = job.write(lambda: job.is_cancelled)
        except BaseException as raised:
            error = raised
        if job.is_cancelled:
            self._discard(job, state)
            return
        self._tell(job, state, error)
        with self._changed:
            if self._running is job:
                self._running = None
            self._changed.notify_all()

    def _tell(self, job: SnapshotJob, state: SubtaskState | None, error: BaseException | None) -> None:
        try:
            if state is not None:
                job.done(state)
            else:
                job.failed(error or RuntimeError("a snapshot was written and came to nothing"))
        except BaseException:
            logger.exception("reporting checkpoint %d of %s failed", job.checkpoint_id, self._name)

    def _discard(self, job: SnapshotJob, state: SubtaskState | None) -> None:
        if state is None:
            return  # its writer has deleted it
        try:
            job.discard(state)
        except Exception as error:
            logger.warning(
                "what was written for checkpoint %d, which was given up, could not be deleted: %s",
                job.checkpoint_id,
                error,
            )
