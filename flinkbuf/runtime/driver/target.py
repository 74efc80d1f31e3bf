"""Where a job's tasks run: the interfaces of targets and providers, and the targets by name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final, Protocol

from flinkbuf.runtime.manager.manager_link import ManagerConnection
from flinkbuf.runtime.protocol.failure import Failure

if TYPE_CHECKING:
    from flinkbuf.runtime.graph.job_graph import JobGraph
    from flinkbuf.runtime.graph.job_plan import JobPlan
    from flinkbuf.runtime.manager.job_bundle import JobBundle
    from flinkbuf.runtime.manager.shuffle import Shuffle
    from flinkbuf.runtime.master.job_master import JobMasterConfig
    from flinkbuf.streaming.chain.operator_config import ExecutionSettings
    from flinkbuf.streaming.time.clock import Clock


class ManagerListener(Protocol):
    """The job, for the provider of its task managers. The methods: from any thread; they never wait, nor raise."""

    job_id: str
    session_id: str
    graph: JobGraph
    plan: JobPlan
    settings: ExecutionSettings
    bundle: JobBundle  # without network and files; a target with these makes its own bundle with dataclasses.replace
    config: JobMasterConfig
    clock: Clock
    page: str | None  # the address of the job's page

    def manager_connected(self, manager_id: str, connection: ManagerConnection) -> None:
        """Note the connection to a task manager; before its first message."""
        ...

    def manager_said(self, manager_id: str, message: object) -> None:
        """Take a task manager's message; the first is its `RegisterManager`."""
        ...

    def manager_lost(self, manager_id: str, reason: str) -> None:
        """Note that a task manager was lost; again: nothing."""
        ...

    def run_failed(self, run: int, failure: Failure) -> None:
        """Note that the task managers of one call of `start` do not come, or went as a whole."""
        ...


class ManagerProvider(Protocol):
    """Brings the task managers of one job. Called on the job's thread, in the order of the job master's actions.

    Flink: ResourceManagerDriver.
    """

    def start(self, run: int, indexes: tuple[int, ...]) -> None:
        """Start task managers for these slots; returns soon. An exception fails the run."""
        ...

    def stop(self, manager_id: str, reason: str) -> None:
        """End a task manager, even against its will; returns soon."""
        ...

    def close(self) -> None:
        """End all that was started for the job, which is over. May wait a few seconds."""
        ...

    def program_shuffle(self) -> Shuffle:
        """Return how the tasks in the program itself reach those of this target, and are reached; called once, first.

        The program's task manager closes the shuffle. Never called where `Target.is_in_process`.
        """
        ...


class Target(Protocol):
    """A kind of place where jobs run."""

    name: str
    is_in_process: bool  # all tasks are threads of the program
    managers_come_together: bool  # the loss of one manager ends all of its run

    def can_restart_in_place(self, graph: JobGraph) -> bool:
        """Return whether a restart may use the running task managers; False: input came with them."""
        ...

    def shares_files(self) -> bool:
        """Return whether all tasks see the directories of this machine."""
        ...

    def check(self, graph: JobGraph, settings: ExecutionSettings) -> None:
        """Refuse a job before anything of it is started: raise what says why, and the way out."""
        ...

    def make_provider(self, job: ManagerListener) -> ManagerProvider:
        """Return what brings the task managers of a job; starts nothing yet."""
        ...


TARGETS: Final = {
    "embedded": ("flinkbuf.targets.embedded", "EmbeddedTarget"),
    "local": ("flinkbuf.targets.local_processes", "LocalTarget"),
    "spark": ("flinkbuf.spark.stage.job", "SparkTarget"),
}


def target_named(name: str) -> Target:
    """Return a target; its module is imported now, and not before.

    Raises
    ------
    ValueError
        No target has that name.

    Examples
    --------
    >>> target_named("embedded").name
    'embedded'
    """
    if name not in TARGETS:
        names = ", ".join(repr(each) for each in TARGETS)
        raise ValueError(f"execution.target must be one of {names}, got {name!r}")
    module, attribute = TARGETS[name]
    made: Target = getattr(importlib.import_module(module), attribute)()
    return made
