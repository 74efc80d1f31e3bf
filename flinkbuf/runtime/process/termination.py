"""The end of a program that is told to end by SIGTERM: first its jobs, each as its settings say, then the program.

The first signal stops the jobs, on a thread of its own, while the main thread goes on: it may have to read what they
give. When they have ended, the main thread raises `ProgramTerminated`, so that whatever the program has opened is
closed. A second signal ends the process at once, and so does the end of the grace period. Where the program, or a
library, has a handler of its own, that one is kept and nothing of this happens. Flink: ClusterEntrypoint.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from dataclasses import dataclass
from enum import Enum
from typing import Final, NoReturn, Protocol

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.log import logger
from flinkbuf.runtime.graph.job_graph import JobGraph
from flinkbuf.runtime.process import signals
from flinkbuf.runtime.protocol.job_status import JobStatus

EXIT_CODE: Final = 128 + signal.SIGTERM  # 143, as shells call the end by that signal
GRACE_MS: Final = 25_000  # Kubernetes kills what has not ended after 30 s
SUSPEND, CANCEL, SAVEPOINT, NONE = "SUSPEND", "CANCEL", "SAVEPOINT", "NONE"
REASON: Final = "its program was told to end (SIGTERM)"
_RESERVE_S: Final = 5.0  # of the grace period, for the end of a job whose savepoint is late
_LAST_CALLS_S: Final = 5.0  # for the listeners of the jobs' ends
_AGAIN_S: Final = 0.5
_STOPPABLE: Final = (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING)


class ProgramTerminated(SystemExit):
    """Raised on the main thread when the jobs of a program that was told to end have ended."""


@dataclass(frozen=True)
class TerminationSettings:
    """What SIGTERM does to a job.

    Attributes
    ----------
    mode : str
        ``SUSPEND``: all tasks are cancelled, checkpoints stay, and another program may take the job over. ``CANCEL``:
        the job is over for good. ``SAVEPOINT``: it stops with a savepoint. ``NONE``: the signal is left alone.
    is_draining : bool
        Whether timers and windows fire before that savepoint.
    grace_ms : int
        How long the process may take to end.
    """

    mode: str = SUSPEND
    is_draining: bool = False
    grace_ms: int = GRACE_MS


class StoppableJob(Protocol):
    """A job as it is stopped here: `RunningJob`, or the face of one that can begin again."""

    graph: JobGraph
    is_started: bool
    stopping_savepoint: str

    @property
    def status(self) -> JobStatus: ...

    def cancel(self) -> None: ...

    def suspend(self, reason: str) -> None: ...

    def trigger_savepoint(self, directory: str | None, kind: SnapshotKind) -> Future[str]: ...


class WatchedJob:
    """A job that a signal would stop, from before it is made to its end.

    Parameters
    ----------
    settings : TerminationSettings
    on_ending : callable
        Called when all of the job is gone.
    """

    def __init__(self, settings: TerminationSettings, on_ending: Callable[[], None]) -> None:
        self.settings = settings
        self.is_ending = threading.Event()
        self.has_ended = threading.Event()
        self._job: StoppableJob | None = None
        self._on_ending = on_ending

    def is_of(self, job: StoppableJob) -> None:
        """Note which job it is."""
        self._job = job

    def ending(self, _: BaseException | None) -> None:
        """Note that all of the job is gone; to be called before anyone who waits for it knows."""
        self.is_ending.set()
        self._on_ending()

    def ended(self, _: BaseException | None) -> None:
        """Note that all who wait for the job know; to be called last."""
        self.has_ended.set()

    @property
    def name(self) -> str:
        """Return the name of the job."""
        return "" if self._job is None else self._job.graph.settings.job_name

    @property
    def is_started(self) -> bool:
        """Return whether there is something to stop."""
        return self._job is not None and self._job.is_started

    @property
    def is_drained(self) -> bool:
        """Return whether the job has done all that it was to do."""
        is_finished = self._job is not None and self._job.status is JobStatus.FINISHED
        return is_finished and self.settings.mode == SAVEPOINT and self.settings.is_draining

    def begin_savepoint(self) -> Future[str] | None:
        """Stop the job with a savepoint, if its settings say so."""
        if self.settings.mode != SAVEPOINT or self._job is None:
            return None
        drains = self.settings.is_draining
        kind = SnapshotKind.SAVEPOINT_TERMINATE if drains else SnapshotKind.SAVEPOINT_SUSPEND
        logger.warning("SIGTERM: job %r %sstops with a savepoint", self.name, "drains and " if drains else "")
        return self._job.trigger_savepoint(None, kind)

    def finish_savepoint(self, savepoint: Future[str], timeout_s: float) -> None:
        """Wait for the savepoint; if there is none in time, the job is suspended instead."""
        assert self._job is not None
        try:
            savepoint.result(max(0.0, timeout_s))
            return
        except TimeoutError:
            why = "it is not complete in time"
        except Exception as error:
            why = str(error)
        if self.is_ending.is_set():
            return
        self.stop()
        if self._job.stopping_savepoint:
            text = "SIGTERM: job %r is stopped with savepoint %s, which is whole, before all its tasks have ended: %s"
            logger.warning(text, self.name, self._job.stopping_savepoint, why)
        else:
            logger.warning("SIGTERM: job %r has no savepoint (%s), and is suspended instead", self.name, why)

    def stop(self) -> None:
        """Stop the job at once; a job that is on its way to its end goes that way."""
        if self._job is None or self._job.status not in _STOPPABLE:
            return
        if self.settings.mode == CANCEL:
            self._job.cancel()
        else:
            self._job.suspend(REASON)


class _Phase(Enum):
    IDLE = "no signal has come"
    STOPPING = "jobs are stopped, while the main thread goes on"
    OVER = "they have ended, and the main thread is to know"
    LEAVING = "the main thread leaves"


class Termination:
    """What SIGTERM does in this process. All but `watch` and the ends of jobs: on the main thread.

    Parameters
    ----------
    end_process : callable
        Given an exit code, ends the process at once.
    """

    def __init__(self, end_process: Callable[[int], NoReturn] = os._exit) -> None:
        self._end_process = end_process
        self._phase = _Phase.IDLE
        self._jobs: list[WatchedJob] = []  # no lock: the handler may interrupt who holds it
        self._telling = threading.Lock()
        self._stopped: list[WatchedJob] = []
        self._exit_code = EXIT_CODE
        self._ends_s = 0.0  # of a clock that only goes on

    @property
    def is_begun(self) -> bool:
        """Return whether the program was told to end."""
        return self._phase is not _Phase.IDLE

    @property
    def left_s(self) -> float:
        """Return what is left of the grace period."""
        return max(0.0, self._ends_s - time.monotonic())

    # ---- jobs come and go

    def watch(self, settings: TerminationSettings) -> WatchedJob:
        """Return what watches a job that is made next; until it is started a signal ends the program at once.

        Raises
        ------
        ProgramTerminated
            The program was told to end already.
        """
        if self.is_begun:
            raise ProgramTerminated(EXIT_CODE)
        watched = WatchedJob(settings, lambda: self._job_ends(watched))
        if settings.mode != NONE and not _is_interactive():
            self._jobs.append(watched)
            signals.handle(signal.SIGTERM, self._came)
        return watched

    def forget(self, watched: WatchedJob) -> None:
        """Watch a job no more."""
        if watched in self._jobs:
            self._jobs.remove(watched)

    def give_back(self) -> None:
        """Leave the signal to the system again, if no job runs."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and not self._jobs and not self.is_begun:
            signals.give_back(signal.SIGTERM)

    def wait(self) -> None:
        """Wait until the jobs that are stopped have ended, but not longer than the grace period."""
        for job in self._stopped:
            job.has_ended.wait(self.left_s)

    def exit_as_told(self) -> None:
        """End the process with its exit code, at the exit of a main thread that had nothing left to leave."""
        if self._phase in (_Phase.STOPPING, _Phase.OVER):
            self._flush()
            self._end_process(self._exit_code)

    def _job_ends(self, watched: WatchedJob) -> None:
        """Note the end of a job; after the last one the main thread is told, before it can see that end itself."""
        self.forget(watched)
        self._look_whether_all_ended()

    def _look_whether_all_ended(self) -> None:
        if self._phase is not _Phase.STOPPING or not all(job.is_ending.is_set() for job in self._stopped):
            return
        if self._telling.acquire(blocking=False):  # once
            self._tell_main_thread()

    # ---- the signal; on the main thread, between two of its steps

    def _came(self) -> None:
        if self._phase is _Phase.OVER:
            self._leave()
        if self._phase is not _Phase.IDLE:
            self._end_process(EXIT_CODE)  # told twice
        jobs = list(self._jobs)
        if jobs:
            self._begin(jobs)
        else:
            self._as_by_default()

    def _begin(self, jobs: list[WatchedJob]) -> None:
        grace_s = max(job.settings.grace_ms for job in jobs) / 1_000
        self._ends_s = time.monotonic() + grace_s
        self._stopped = [job for job in jobs if job.is_started]
        self._phase = _Phase.STOPPING if len(self._stopped) == len(jobs) else _Phase.LEAVING
        try:
            threading.Thread(target=self._run, args=(grace_s,), name="flinkbuf termination", daemon=True).start()
        except RuntimeError:  # the system has no thread left: what is registered for the exit stops the jobs
            self._phase = _Phase.LEAVING
        if self._phase is _Phase.LEAVING:  # one is not started: what it has taken is given back on the way out
            raise ProgramTerminated(EXIT_CODE)

    def _leave(self) -> NoReturn:
        self._phase = _Phase.LEAVING
        for job in self._stopped:
            job.has_ended.wait(min(_LAST_CALLS_S, self.left_s))
        raise ProgramTerminated(self._exit_code)

    def _as_by_default(self) -> None:
        """Do what the signal does to a program without jobs."""
        signals.give_back(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        raise ProgramTerminated(EXIT_CODE)  # the first process of a container does not hear its default

    # ---- its own thread

    def _run(self, grace_s: float) -> None:
        try:
            self._stop(grace_s)
        except Exception:
            logger.exception("stopping the jobs of a program that was told to end")
        self._look_whether_all_ended()
        self._end_late(grace_s)

    def _end_late(self, grace_s: float) -> None:
        """End the process at the end of its grace period, if it is still there."""
        time.sleep(self.left_s)
        logger.critical("SIGTERM: the program has not ended in %g s, its grace period, and is ended", grace_s)
        self._flush()
        self._end_process(self._exit_code)

    def _stop(self, grace_s: float) -> None:
        savepoints = {job: job.begin_savepoint() for job in self._stopped}
        for job, savepoint in savepoints.items():
            if savepoint is None:
                verb = "cancelled" if job.settings.mode == CANCEL else "suspended"
                logger.warning("SIGTERM: job %r is %s", job.name, verb)
                job.stop()
        for job, savepoint in savepoints.items():
            if savepoint is not None:
                job.finish_savepoint(savepoint, self.left_s - min(_RESERVE_S, grace_s / 2))
        for job in self._stopped:
            while not job.is_ending.wait(min(_AGAIN_S, self.left_s)) and self.left_s > 0:
                job.stop()  # again: it may just begin anew

    def _tell_main_thread(self) -> None:
        is_drained = all(job.is_drained for job in self._stopped)
        self._exit_code = 0 if is_drained else EXIT_CODE
        logger.warning("SIGTERM: the program ends with exit code %d", self._exit_code)
        main_thread = threading.main_thread()
        self._phase = _Phase.OVER
        if main_thread.is_alive() and main_thread.ident is not None:  # else `exit_as_told` is called
            signal.pthread_kill(main_thread.ident, signal.SIGTERM)

    @staticmethod
    def _flush() -> None:
        logging.shutdown()
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()


def _is_interactive() -> bool:
    """Return whether a person types the program: an interpreter's prompt, or a notebook."""
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules


the_termination: Final = Termination()
atexit.register(the_termination.exit_as_told)  # now: what is registered later is called before


def _forget_in_child() -> None:
    the_termination._jobs.clear()
    the_termination._phase = _Phase.IDLE


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
