"""The target ``local``: task managers are processes on the program's machine, one for each slot. No Java, no Spark.

A launcher beside the program forks them (launcher.py); they connect to the program over the loopback interface, like
task managers anywhere. Flink: MiniCluster, but with processes.
"""

from __future__ import annotations

import functools
import logging
import os
import secrets
import sys
import threading
from dataclasses import replace
from pathlib import Path

from flinkbuf.config import NetworkConfig
from flinkbuf.control.connection import Connection
from flinkbuf.control.control_server import control_server_of
from flinkbuf.log import logger
from flinkbuf.runtime.driver.job_files import JobFiles
from flinkbuf.runtime.driver.target import ManagerListener, ManagerProvider
from flinkbuf.runtime.graph.job_graph import JobGraph
from flinkbuf.runtime.graph.job_plan import plan_of
from flinkbuf.runtime.manager.shuffle import Shuffle, io_manager_for, network_shuffle, slot_segments_needed
from flinkbuf.runtime.manager.task_manager import TASK_MANAGER_KILLED
from flinkbuf.runtime.protocol.control_link import CODEC, ControlConnection
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import ManagerLeaving, RegisterManager
from flinkbuf.runtime.scheduler.slots import slot_count
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.targets.launcher_process import LauncherProcess, ProcessEnd, program_path, the_launcher, working_directory
from flinkbuf.targets.local_manager import ManagerOrder

HOST = "127.0.0.1"
STOP_GRACE_S = 2.0  # for a task manager that is to end, before it is killed
OTHER_HALF_S = 1.0  # a process and its connection end together: so long for the second to be heard of
CLOSE_PATIENCE_S = 5.0
LEAST_LIMIT, LIMIT_A_CORE = 64, 16  # slots; what needs more was hardly meant


class LocalTarget:
    """Where a job runs that is to run on local processes."""

    name = "local"
    is_in_process = False
    managers_come_together = False

    def can_restart_in_place(self, graph: JobGraph) -> bool:
        """Return whether a restart may use the running processes."""
        return True

    def shares_files(self) -> bool:
        """Return True: all tasks are on this machine."""
        return True

    def check(self, graph: JobGraph, settings: ExecutionSettings) -> None:
        """Refuse a system that cannot fork; start the launcher, which takes longer than all that follows.

        Raises
        ------
        RuntimeError
            This system has no fork().
        ValueError
            The job needs more processes than one machine is meant to run.
        """
        if not hasattr(os, "fork"):
            raise RuntimeError(
                f"execution.target: local needs a system with fork(), which {sys.platform} is not: use embedded"
            )
        slots, cores = slot_count(plan_of(graph, "")), os.cpu_count() or 1
        limit = max(LEAST_LIMIT, LIMIT_A_CORE * cores)
        if slots > limit and graph.settings.slot_limit is None:
            raise ValueError(
                f"job {graph.settings.job_name!r} needs {slots:,} slots, each a process, and this machine has {cores} "
                f"cores: set a parallelism of at most {limit}, or slotmanager.number-of-slots.max to {slots} if you "
                "mean it"
            )
        the_launcher()

    def make_provider(self, job: ManagerListener) -> ManagerProvider:
        """Return what starts the processes of a job."""
        return LocalProcesses(job)


class _Manager:
    """One task manager, from the order to the end of process and connection; used on the control server's thread."""

    def __init__(self, manager_id: str, run: int, index: int) -> None:
        self.id = manager_id
        self.run = run
        self.index = index
        self.number: int | None = None  # number of the process at the launcher
        self.pid: int | None = None
        self.connection: Connection | None = None
        self.has_registered = False
        self.leaves_because = ""  # the manager's own reason for leaving
        self.stopped_because = ""
        self.process_end: ProcessEnd | None = None
        self.connection_end = ""
        self.is_over = False  # the job knows of the loss

    def __str__(self) -> str:
        return f"task manager {self.index} (process {self.pid or 'unknown'})"


class LocalProcesses:
    """The task managers of one job, as processes of this machine."""

    def __init__(self, job: ManagerListener) -> None:
        self._job = job
        network = job.bundle.network or NetworkConfig()
        self._network = network if network.auth is not None else network.replace(auth=secrets.token_bytes(32))
        self._lease = control_server_of(HOST, tls=network.tls if network.data_ssl_enabled else None)
        self._server = self._lease.server
        self._group_id = f"job-{job.job_id}-{job.session_id}"
        self._server.open(self._group_id, self)
        self._launcher: LauncherProcess | None = None
        self._working_directory = ""
        self._managers: dict[str, _Manager] = {}  # those whose process has not ended
        self._by_connection: dict[int, _Manager] = {}
        self._oom_kills = _oom_kills()
        self._is_closing = False
        self._all_ended = threading.Event()

    # ---- what the job wants; on its thread

    def program_shuffle(self) -> Shuffle:
        """Return how the tasks in the program itself are reached by these processes, and reach them."""
        count = slot_segments_needed(self._job.plan, self._network, in_program=True)
        return network_shuffle(self._job.bundle, self._network, host=HOST, num_segments=count)

    def start(self, run: int, indexes: tuple[int, ...]) -> None:
        """Have a process forked for each of these slots."""
        launcher = self._launcher_with_bundle()
        for index in indexes:
            manager = _Manager(f"local-{run}-{index}", run, index)
            self._server.call_soon(self._expect, manager)
            started = functools.partial(self._server.call_soon, self._started, manager)
            ended = functools.partial(self._server.call_soon, self._process_ended, manager)
            try:
                manager.number = launcher.start(self._group_id, self._order(manager), started, ended)
            except OSError as error:
                ended(ProcessEnd(error=f"the launcher of task managers has ended: {error}"))

    def _launcher_with_bundle(self) -> LauncherProcess:
        launcher = the_launcher()
        if launcher is not self._launcher:
            bundle = self._bundle()
            try:
                launcher.keep(self._group_id, bundle)
            except OSError:  # the launcher was killed, and this process did not know yet
                launcher.close()
                launcher = the_launcher()
                launcher.keep(self._group_id, bundle)
            self._launcher = launcher
        return launcher

    def stop(self, manager_id: str, reason: str) -> None:
        """End a process: by itself, or killed soon after."""
        self._server.call_soon(self._stop, manager_id, reason)

    def close(self) -> None:
        """End all processes and connections of the job."""
        self._server.call_soon(self._end_all)
        if not self._all_ended.wait(CLOSE_PATIENCE_S):
            logger.error("processes of task managers have not ended, though they were killed")
        left = io_manager_for(self._job.bundle)  # what killed processes have left goes when one is made
        if left is not None:
            left.close()
        self._server.close_group(self._group_id)
        if self._launcher is not None:
            self._launcher.forget(self._group_id)
        self._lease.close()

    def _bundle(self) -> bytes:
        """Return what each process needs; files are read where they lie, so none is sent along."""
        files = self._job.bundle.files
        directory = files.local_directory() if isinstance(files, JobFiles) else None  # where archives are unpacked
        self._working_directory = directory or working_directory()
        bundle = replace(
            self._job.bundle,
            files=(),
            network=self._network,
            network_segments=slot_segments_needed(self._job.plan, self._network),
            sys_path=tuple(program_path()),
            working_directory=self._working_directory,
        )
        return bundle.to_bytes()

    def _order(self, manager: _Manager) -> ManagerOrder:
        host, port = self._server.address
        return ManagerOrder(
            manager_id=manager.id,
            run=manager.run,
            index=manager.index,
            host=host,
            port=port,
            group_id=self._group_id,
            secret=self._server.secret_of(self._group_id).hex(),
            sys_path=program_path(),
            working_directory=self._working_directory,
            environment=dict(os.environ),
            log_level=logging.getLogger().level,
            log_format=self._job.bundle.log_format,
        )

    # ---- what the control server hears; on its thread, like all that follows

    def connected(self, connection: Connection) -> None:
        """Note a connection of some task manager; its first message says which."""

    def received(self, connection: Connection, payload: bytes) -> None:
        """Handle a message of a task manager."""
        message = CODEC.decode(payload)
        manager = self._by_connection.get(connection.number)
        if manager is None:
            if isinstance(message, RegisterManager) and message.manager_id not in self._managers:
                connection.close()  # its process has ended before it was heard
                return
            manager = self._recognize(connection, message)
        if isinstance(message, ManagerLeaving):
            manager.leaves_because = message.reason
        if not manager.is_over:
            self._job.manager_said(manager.id, message)

    def _recognize(self, connection: Connection, message: object) -> _Manager:
        manager = self._managers.get(message.manager_id) if isinstance(message, RegisterManager) else None
        if manager is None or manager.connection is not None:
            raise ConnectionError(f"the first message of a connection is {message!r:.100}: no manager is due with it")
        manager.connection = connection
        manager.has_registered = True
        self._by_connection[connection.number] = manager
        self._job.manager_connected(manager.id, ControlConnection(connection))
        return manager

    def disconnected(self, connection: Connection, reason: str) -> None:
        """Handle the end of a connection."""
        manager = self._by_connection.pop(connection.number, None)
        if manager is not None:
            manager.connection_end = reason
            self._end_half(manager)

    # ---- what the launcher hears

    def _expect(self, manager: _Manager) -> None:
        for older in self._managers.values():
            if older.index == manager.index and not older.is_over:
                self._stop(older.id, "another one takes its slot")
        self._managers[manager.id] = manager

    def _started(self, manager: _Manager, pid: int) -> None:
        manager.pid = pid

    def _process_ended(self, manager: _Manager, end: ProcessEnd) -> None:
        manager.process_end = end
        del self._managers[manager.id]
        self._end_half(manager)
        self._look_whether_all_ended()

    # ---- the end of one

    def _stop(self, manager_id: str, reason: str) -> None:
        manager = self._managers.get(manager_id)
        if manager is None:
            return
        manager.stopped_because = manager.stopped_because or reason
        if manager.connection is not None:
            manager.connection.close()
        if manager.number is not None and self._launcher is not None:
            # A manager without a connection runs no task yet, and no message can tell it to end.
            self._launcher.end(manager.number, STOP_GRACE_S if manager.connection is not None else 0.0)

    def _end_half(self, manager: _Manager) -> None:
        """Wait, but not long, for the rest of a manager of which either process or connection has ended."""
        has_both = manager.process_end is not None and (manager.connection is None or manager.connection_end)
        if has_both:
            self._end(manager)
        else:
            self._server.call_later(OTHER_HALF_S, self._end, manager)

    def _end(self, manager: _Manager) -> None:
        if manager.is_over:
            return
        manager.is_over = True
        is_lost, reason = manager.has_registered or bool(manager.stopped_because), self._reason(manager)
        if manager.process_end is None:  # no message of the manager can come any more
            self._stop(manager.id, "its connection has ended")
        if self._is_closing:
            return
        if is_lost:
            self._job.manager_lost(manager.id, reason)
        else:
            self._job.run_failed(manager.run, self._start_failure(manager))

    def _reason(self, manager: _Manager) -> str:
        """Return the sentence that says why a task manager is lost."""
        end = manager.process_end
        if manager.stopped_because:
            return f"{manager} was stopped: {manager.stopped_because}"
        if manager.leaves_because:
            return f"{manager} has left: {manager.leaves_because}"
        if end is None:
            return f"{manager} is lost: its connection to the program ended: {manager.connection_end}"
        if end.error:
            return f"{manager} {end}: {end.error.strip()}"
        if end.signal is not None:
            return f"{manager} {end}{self._memory_hint(end)}"
        if end.exit_code == TASK_MANAGER_KILLED:
            return f"{manager} ended itself, since a task went on for task.cancellation.timeout after it was cancelled"
        return f"{manager} {end} while tasks ran in it: a function has ended the process"

    def _memory_hint(self, end: ProcessEnd) -> str:
        if end.signal != 9:
            return ""
        peak = f"it had {end.peak_kib // 1024} MiB at most"
        before, self._oom_kills = self._oom_kills, _oom_kills()
        if self._oom_kills > before:
            return f" by the system, which was out of memory; {peak}: lower the parallelism, or hold less in functions"
        return f" by another process; {peak}"

    def _start_failure(self, manager: _Manager) -> Failure:
        end = manager.process_end or ProcessEnd(error=manager.connection_end)
        what = f"{manager} could not be started" if end.pid is None else f"{manager} {end} before it had registered"
        return Failure("builtins.RuntimeError", f"{what}: {end.error.strip()}" if end.error else what)

    # ---- the end of all

    def _end_all(self) -> None:
        self._is_closing = True
        for manager in list(self._managers.values()):
            self._stop(manager.id, "the job is over")
        self._look_whether_all_ended()

    def _look_whether_all_ended(self) -> None:
        if self._is_closing and not self._managers:
            self._all_ended.set()


def _oom_kills() -> int:
    """Return how many processes this machine has killed for want of memory."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    figures = dict(line.split(" ", 1) for line in lines)
    return int(figures.get("oom_kill", 0))
