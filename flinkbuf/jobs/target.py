"""Where a job's tasks run: what a target is asked, what it tells a job, and which there are, by name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final, Protocol

from flinkbuf.jobs.failure import Failure
from flinkbuf.jobs.manager.manager_link import ManagerConnection

if TYPE_CHECKING:
    from flinkbuf.jobs.graphs.job_graph import JobGraph
    from flinkbuf.jobs.graphs.job_plan import JobPlan
    from flinkbuf.jobs.manager.job_bundle import JobBundle
    from flinkbuf.jobs.manager.shuffle import Shuffle
    from flinkbuf.jobs.master.job_master import JobMasterConfig
    from flinkbuf.streaming.clock import Clock
    from flinkbuf.streaming.operator_config import ExecutionSettings


class ManagerListener(Protocol):
    """The job, as who brings its task managers sees it. The methods: from any thread; they never wait, nor raise."""

    job_id: str
    session_id: str
    graph: JobGraph
    plan: JobPlan
    settings: ExecutionSettings
    bundle: JobBundle  # without network and files; a target that has such makes its own with dataclasses.replace
    config: JobMasterConfig
    clock: Clock
    page: str | None  # where one can look at it

    def manager_connected(self, manager_id: str, connection: ManagerConnection) -> None:
        """There is a way to a task manager; before its first message."""
        ...

    def manager_said(self, manager_id: str, message: object) -> None:
        """A task manager's message; the first is its `RegisterManager`."""
        ...

    def manager_lost(self, manager_id: str, reason: str) -> None:
        """Nothing comes from a task manager any more; said again, it changes nothing."""
        ...

    def run_failed(self, run: int, failure: Failure) -> None:
        """The task managers of one call of `start` do not come, or went as a whole."""
        ...


class ManagerProvider(Protocol):
    """Brings the task managers of one job. Called on the job's thread, in the order of the job master's actions.

    Flink: ResourceManagerDriver.
    """

    def start(self, run: int, indexes: tuple[int, ...]) -> None:
        """Have task managers started for these slots; returns soon. What it raises fails the run."""
        ...

    def stop(self, manager_id: str, reason: str) -> None:
        """Have a task manager end, even against its will; returns soon."""
        ...

    def close(self) -> None:
        """The job is over: end all that was started for it. It may wait a few seconds."""
        ...

    def program_shuffle(self) -> Shuffle:
        """Return how the tasks in the program itself reach those of this target, and are reached; called once, first.

        Its task manager closes it. Never called where `Target.is_in_process`.
        """
        ...


class Target(Protocol):
    """A kind of place where jobs run."""

    name: str
    is_in_process: bool  # every task is a thread of the program, also those that have to be
    managers_come_together: bool  # one that is lost takes all of its run along

    def can_restart_in_place(self, graph: JobGraph) -> bool:
        """Whether a restart may use the task managers that are there; False: what the job reads came with them."""
        ...

    def shares_files(self) -> bool:
        """Whether all tasks see the directories of this machine."""
        ...

    def check(self, graph: JobGraph, settings: ExecutionSettings) -> None:
        """Refuse a job before anything of it is started: raise what says why, and the way out."""
        ...

    def make_provider(self, job: ManagerListener) -> ManagerProvider:
        """Return what brings the task managers of a job; starts nothing yet."""
        ...


TARGETS: Final = {
    "embedded": ("flinkbuf.jobs.embedded", "EmbeddedTarget"),
    "local": ("flinkbuf.jobs.local_processes", "LocalTarget"),
    "spark": ("flinkbuf.spark.job", "SparkTarget"),
}


def target_named(name: str) -> Target:
    """Return a target; its module is imported now, and not before.

    Raises
    ------
    ValueError
        There is none by that name.

    Examples
    --------
    >>> target_named("embedded").name
    'embedded'
    """
    if name not in TARGETS:
        names = ", ".join(repr(each) for each in TARGETS)
        raise ValueError(f"execution.target must be one of {names}, got {name!r}")
    module, attribute = TARGETS[name]
    made: Any = getattr(importlib.import_module(module), attribute)()
    target: Target = made
    return target
