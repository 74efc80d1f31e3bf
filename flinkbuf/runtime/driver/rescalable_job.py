"""A job that can begin again with another parallelism: stopped with a savepoint, and started from it.

To the program, and to readers of its page, it is one job: the id stays, and waiting for its end waits for that of its
last run. Flink: RescalingHandlers, AdaptiveScheduler's Restarting.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.log import logger
from flinkbuf.runtime.checkpoint.checkpoint_config import RestoredCheckpoint
from flinkbuf.runtime.driver.running_job import RunningJob
from flinkbuf.runtime.driver.stored_job import restored_from
from flinkbuf.runtime.graph.job_graph import JobGraph
from flinkbuf.runtime.picture.job_picture import JobPicture
from flinkbuf.runtime.protocol.job_status import JobStatus

OnEnd = Callable[["BaseException | None"], None]


class RunMaker(Protocol):
    """Makes one run of a job; it is not started yet."""

    def __call__(
        self,
        on_end: list[OnEnd],
        graph: JobGraph | None = None,
        restored: RestoredCheckpoint | None = None,
        job_id: str | None = None,
    ) -> RunningJob:
        """Without a graph the first run: as the program and its configuration say."""
        ...


@dataclass
class _Rescaling:
    """A rescaling that was asked for; `done` gets the job's id when the new run has begun."""

    parallelism: int
    directory: str | None  # of the savepoint, if it is ours to remove
    done: Future[str] = field(default_factory=Future)
    path: str | None = None


class RescalableJob:
    """The face of `RunningJob` over the runs of one job; what is not below is that of its present run.

    Parameters
    ----------
    make : RunMaker
    graph_at : callable
        Given a parallelism and what the job begins with, or None; returns the job graph. Raises ValueError where there
        can be none.
    on_end : iterable of callable
        As in `RunningJob`, for the end of the last run.
    savepoint_directory : str
        Where savepoints go, and stay; empty: to a temporary directory of this machine each, which is there until the
        run that begins with it has a checkpoint of its own, or the next savepoint, or has ended.

    Examples
    --------
    >>> job.rescale(4).result()  # doctest: +SKIP
    '0e2278fe2ab045ff8b1f62999af8b008'
    """

    def __init__(
        self,
        make: RunMaker,
        graph_at: Callable[[int, RestoredCheckpoint | None], JobGraph],
        on_end: Iterable[OnEnd],
        savepoint_directory: str = "",
    ) -> None:
        self._make = make
        self._graph_at = graph_at
        self._on_end = list(on_end)
        self._savepoint_directory = savepoint_directory
        self._lock = threading.Lock()
        self._rescaling: _Rescaling | None = None  # ended by the thread that takes it out
        self._is_between_runs = False
        self._is_cancelled = False  # a cancel that came between two runs
        self._temporary: list[str] = []  # directories to be removed, at the end at the latest
        self._run = self._first_run = make([self._run_ended])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    @property
    def status(self) -> JobStatus:
        """Return the status of the present run; RESTARTING between two runs."""
        status: JobStatus = self._run.status
        return JobStatus.RESTARTING if self._goes_on and status.is_terminal_state() else status

    @property
    def picture(self) -> JobPicture:
        """Return the picture of the present run; between two runs the job begins again."""
        picture: JobPicture = self._run.picture
        if not (self._goes_on and picture.is_over):
            return picture
        times = {**picture.timestamps, JobStatus.RESTARTING: picture.now_ms}
        return replace(picture, status=JobStatus.RESTARTING, timestamps=times)

    @property
    def page(self) -> str | None:
        """Return the address of the job's page: all runs have one id, and one page."""
        return self._run.page

    @page.setter
    def page(self, page: str | None) -> None:
        self._run.page = page

    @property
    def is_started(self) -> bool:
        """Return whether its first run was started."""
        return self._run is not self._first_run or self._first_run.is_started

    @property
    def _goes_on(self) -> bool:
        return self._rescaling is not None or self._is_between_runs

    # ---- the program

    def run(self) -> None:
        """Start the job and wait for its end, as `RunningJob.run` does."""
        try:
            self._run.start()
            self.wait()
        except KeyboardInterrupt:
            self.cancel()
            raise

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait for the end of the last run, as `RunningJob.wait` does."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            run = self._run
            try:
                run.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
            except Exception:
                if self._run is run:
                    raise
            if self._run is run:  # this run was the last one
                return

    def cancel(self) -> None:
        """Cancel the job, whichever run it is in; returns at once."""
        with self._lock:
            rescaling, self._rescaling = self._rescaling, None
            self._is_cancelled = self._is_between_runs  # the run that is over would not hear of it
            self._run.cancel()
        if rescaling is not None:
            self._give_up(rescaling, RuntimeError("the job was cancelled"))

    def rescale(self, parallelism: int) -> Future[str]:
        """Continue the job with another parallelism; from any thread, returns at once.

        Operators that were made with the parallelism of the environment take the new one, others keep theirs. The
        future gives the job's id when its tasks are to begin; it fails, and the job goes on as it is, if there can be
        no savepoint or no such parallelism.
        """
        rescaling = _Rescaling(parallelism, None)
        with self._lock:
            if self._rescaling is not None:
                text = f"job {self._run.job_id} is being brought to parallelism {self._rescaling.parallelism} already"
                rescaling.done.set_exception(RuntimeError(text))
                return rescaling.done
            self._rescaling = rescaling
        try:
            self._check(self._graph_at(parallelism, None))  # what cannot be is said before anything stops
            if not self._savepoint_directory:
                rescaling.directory = tempfile.mkdtemp(prefix="flinkbuf-rescaling-")
                with self._lock:
                    self._temporary.append(rescaling.directory)
            directory = rescaling.directory or self._savepoint_directory
            savepoint = self._run.trigger_savepoint(directory, SnapshotKind.SAVEPOINT_SUSPEND)
        except Exception as error:
            self._withdraw(rescaling, error)
        else:
            savepoint.add_done_callback(lambda made: self._savepoint_made(rescaling, made))
        return rescaling.done

    # ---- any thread

    def _check(self, graph: JobGraph) -> None:
        """Refuse more subtasks than the key groups the job began with."""
        limits = {each.id: vertex.max_parallelism for vertex in self._run.plan.vertices for each in vertex.operators}
        for vertex in graph.vertices:
            for operator in vertex.chain.operators:
                limit = limits.get(operator.operator_id, vertex.parallelism)
                if vertex.parallelism > limit:
                    raise ValueError(
                        f"operator {operator.name!r} cannot have parallelism {vertex.parallelism}: its max parallelism "
                        f"is {limit}"
                    )

    def _savepoint_made(self, rescaling: _Rescaling, savepoint: Future[str]) -> None:
        """Note where the savepoint is; the end of the run is next.

        If a task failed behind it the next run begins with it all the same, and commits what waits in it.
        """
        error = savepoint.exception()
        if error is None:
            rescaling.path = savepoint.result()
        elif self._run.stopping_savepoint:
            rescaling.path = self._run.stopping_savepoint
        else:
            self._withdraw(rescaling, error)

    def _withdraw(self, rescaling: _Rescaling, error: BaseException) -> None:
        with self._lock:
            if self._rescaling is not rescaling:  # cancelled, or the run is over: that thread gives it up
                return
            self._rescaling = None
        self._give_up(rescaling, error)

    def _give_up(self, rescaling: _Rescaling, error: BaseException) -> None:
        """End a rescaling without a new run; called once, by the thread that took it out of `_rescaling`."""
        if rescaling.directory is not None and not _holds_savepoint(rescaling.directory):
            shutil.rmtree(rescaling.directory, ignore_errors=True)  # a task may still write there: see `_end`
        rescaling.done.set_exception(error)

    def _remove(self, directories: Iterable[str]) -> None:
        """Remove savepoint directories that no run begins from any more."""
        for directory in directories:
            shutil.rmtree(directory, ignore_errors=True)
        with self._lock:
            self._temporary = [each for each in self._temporary if each not in directories]

    # ---- the thread of a run, when that is over

    def _run_ended(self, error: BaseException | None) -> None:
        with self._lock:
            rescaling, self._rescaling = self._rescaling, None
            is_stopped = self._run.status in (JobStatus.FINISHED, JobStatus.FAILED)
            self._is_between_runs = rescaling is not None and rescaling.path is not None and is_stopped
        if rescaling is not None and rescaling.path is not None and is_stopped:
            self._begin_again(rescaling, rescaling.path)
            return
        if rescaling is not None:
            self._give_up(rescaling, error or RuntimeError(f"the job was {self._run.status.name} before it could"))
        self._end(error)

    def _begin_again(self, rescaling: _Rescaling, path: str) -> None:
        with self._lock:  # what the runs before began with: the one that ended has a savepoint of its own
            former = [each for each in self._temporary if each != rescaling.directory]
        try:
            restored = restored_from(path)
            graph = self._graph_at(rescaling.parallelism, restored)
            new = self._make([self._run_ended], graph, restored, self._run.job_id)
            new.page = self._run.page
        except Exception as error:  # the savepoint is there, and stays; the job is not any more
            refusal = RuntimeError(
                f"the job has stopped with {path}, but did not begin again: {error}; start its program with "
                "execution.state-recovery.path to go on from there"
            )
            refusal.__cause__ = error
            with self._lock:
                self._temporary = former
            self._is_between_runs = False
            self._run.fail_after_end(refusal)
            rescaling.done.set_exception(refusal)
            self._end(refusal)
            return
        self._remove(former)
        if rescaling.directory is not None:
            new.after_first_checkpoint = partial(self._remove, (rescaling.directory,))
        with self._lock:
            self._run, self._is_between_runs = new, False
            if self._is_cancelled:
                new.cancel()  # as soon as it has begun
        logger.info("job %s goes on with parallelism %d", new.job_id, rescaling.parallelism)
        try:
            new.start()  # what is wrong ends the new run, and so comes to `_run_ended`
        except Exception as refusal:
            rescaling.done.set_exception(refusal)
        else:
            rescaling.done.set_result(new.job_id)

    def _end(self, error: BaseException | None) -> None:
        """Remove the savepoint directories; a failed job's whole savepoint may be its only state, and stays."""
        kept = [each for each in self._temporary if error is not None and _holds_savepoint(each)]
        for each in kept:
            logger.warning("job %s has failed; the savepoint of its rescaling stays in %s", self._run.job_id, each)
        self._remove([each for each in self._temporary if each not in kept])
        for call in self._on_end:
            try:
                call(error)
            except BaseException:
                logger.exception("telling %r of the end of a job failed", call)


def _holds_savepoint(directory: str) -> bool:
    """Return whether a directory has a whole savepoint: metadata are written last."""
    return any(Path(directory).glob("*/_metadata"))
