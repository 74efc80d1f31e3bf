"""A task manager on a thread of the program, with which the job talks through a queue."""

from __future__ import annotations

import threading

from flinkbuf.log import logger
from flinkbuf.runtime.driver.target import ManagerListener
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.runtime.manager.manager_link import link_pair
from flinkbuf.runtime.manager.running_task import RunningTask
from flinkbuf.runtime.manager.shuffle import Shuffle
from flinkbuf.runtime.manager.task_manager import TaskManager


class InProcessManager:
    """One task manager, from `start` to `close`.

    Parameters
    ----------
    job : ManagerListener
        Whose it is.
    bundle : JobBundle
    shuffle : Shuffle
        The task manager's from now on: it closes it.
    manager_id : str
    run, index, slot_count : int
        As it registers.
    """

    def __init__(
        self,
        job: ManagerListener,
        bundle: JobBundle,
        shuffle: Shuffle,
        *,
        manager_id: str,
        run: int = 0,
        index: int = -1,
        slot_count: int = 0,
    ) -> None:
        self._job = job
        self._manager_id = manager_id
        self._link, self._connection = link_pair(
            lambda message: job.manager_said(manager_id, message), lambda reason: job.manager_lost(manager_id, reason)
        )
        self._manager = TaskManager(
            bundle,
            self._link,
            manager_id=manager_id,
            run=run,
            index=index,
            slot_count=slot_count,
            shuffle=shuffle,
            make_task=RunningTask,
            clock=job.clock,
            can_kill_process=False,
        )
        self._thread = threading.Thread(
            target=self._run, name=f"task manager of {job.graph.settings.job_name}", daemon=True
        )

    def start(self) -> None:
        """Connect the task manager to the job and start its thread.

        Raises
        ------
        RuntimeError
            The system has no thread left.
        """
        self._job.manager_connected(self._manager_id, self._connection)
        self._thread.start()

    def stop(self, reason: str) -> None:
        """Ask the manager to end; it cancels the tasks that still run. Returns at once."""
        self._connection.close()

    def close(self, timeout_s: float) -> bool:
        """Call `stop`, wait for the manager's threads, and return whether they have ended."""
        self._connection.close()
        if self._thread.ident is not None:  # it was started
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        reason = "it has ended"
        try:
            reason = self._manager.run()
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}"
            logger.exception("the task manager of a job in this process has failed")
        finally:
            self._job.manager_lost(self._manager_id, reason)
