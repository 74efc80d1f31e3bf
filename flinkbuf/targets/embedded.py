"""A job in the program's own process: one task manager on a thread of it, one thread a subtask, all channels local.

Breakpoints, coverage and tests work in it as in any Python program. The threads share the interpreter, so more
parallelism does not make Python code faster here. No socket is opened. Flink: MiniCluster.
"""

from __future__ import annotations

from typing import NoReturn

from flinkbuf.log import logger
from flinkbuf.runtime.driver.in_process_manager import InProcessManager
from flinkbuf.runtime.driver.target import ManagerListener
from flinkbuf.runtime.graph.job_graph import JobGraph
from flinkbuf.runtime.manager.shuffle import LocalShuffle, Shuffle, io_manager_for, segments_needed
from flinkbuf.runtime.scheduler.slots import slot_count
from flinkbuf.streaming.chain.operator_config import ExecutionSettings

CLOSE_WAIT_S = 5.0  # for threads of a task manager whose tasks have all ended


class EmbeddedTarget:
    """Runs jobs on threads of the program."""

    name = "embedded"
    is_in_process = True
    managers_come_together = False

    def can_restart_in_place(self, graph: JobGraph) -> bool:
        """Return True: the threads belong to the program."""
        return True

    def shares_files(self) -> bool:
        """Return True: all tasks are on this machine."""
        return True

    def check(self, graph: JobGraph, settings: ExecutionSettings) -> None:
        """Refuse nothing: there are as many slots as a job wants."""

    def make_provider(self, job: ManagerListener) -> EmbeddedProvider:
        """Return what makes the job's task manager."""
        return EmbeddedProvider(job)


class EmbeddedProvider:
    """The one task manager of an embedded job, which has all of its slots."""

    def __init__(self, job: ManagerListener) -> None:
        self._job = job
        self._manager: InProcessManager | None = None

    def start(self, run: int, indexes: tuple[int, ...]) -> None:
        """Start the task manager with all slots, whatever number is asked for."""
        job = self._job
        self._manager = InProcessManager(
            job,
            job.bundle,
            LocalShuffle(segments_needed(job.plan), io_manager=io_manager_for(job.bundle)),
            manager_id=f"embedded-{run}",
            run=run,
            index=0,
            slot_count=slot_count(job.plan),
        )
        self._manager.start()

    def stop(self, manager_id: str, reason: str) -> None:
        """Ask the task manager to end."""
        if self._manager is not None:
            self._manager.stop(reason)

    def close(self) -> None:
        """Wait until the task manager's threads have ended."""
        manager, self._manager = self._manager, None
        if manager is not None and not manager.close(CLOSE_WAIT_S):
            logger.warning("a thread of a job in this process has not come back in %g s and was left", CLOSE_WAIT_S)

    def program_shuffle(self) -> Shuffle:
        """Never called: all tasks are in one task manager."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise RuntimeError("tasks in the program and all others are in one task manager here")
