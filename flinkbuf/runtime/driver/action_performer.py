"""Does what a job master wants done: with task managers, messages and the coordinators of sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.control.secure_link import MessageTooLargeError
from flinkbuf.log import logger
from flinkbuf.runtime.driver.checkpoint_io import CheckpointIo
from flinkbuf.runtime.driver.coordinators import CoordinatorHost
from flinkbuf.runtime.driver.in_process_manager import InProcessManager
from flinkbuf.runtime.driver.target import ManagerListener, ManagerProvider, Target
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.runtime.manager.manager_link import ManagerConnection
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import PROGRAM_MANAGER, DeployTasks, OperatorEventMessage
from flinkbuf.runtime.scheduler.master_actions import (
    CoordinatorFailed,
    CoordinatorsSnapshotted,
    DiscardState,
    NotifyCoordinators,
    ResetSources,
    SendTo,
    SnapshotCoordinators,
    StartManagers,
    StopManager,
    StoreCheckpoint,
    SubtaskGone,
    TellCoordinator,
    TriggerSavepoint,
    WithdrawCheckpoint,
)

NO_ANSWER = 0  # the number of a request that nobody waits for
CLOSE_WAIT_S = 5.0  # for the threads of the program's own task manager, whose tasks have all ended


class ActionPerformer:
    """Performs the actions of one job: holds its task managers, connections and coordinators.

    Parameters
    ----------
    job : ManagerListener
    tell : callable
        Called with each stimulus for the job master; from any thread.
    checkpoints : CheckpointIo
    """

    def __init__(self, job: ManagerListener, tell: Callable[[object], None], checkpoints: CheckpointIo) -> None:
        self._job = job
        self._tell = tell
        self._checkpoints = checkpoints

        def coordinator_failed(failure: Failure) -> None:
            tell(CoordinatorFailed(failure))

        def request_checkpoint() -> None:
            tell(TriggerSavepoint(NO_ANSWER, SnapshotKind.CHECKPOINT))

        self._coordinators = CoordinatorHost(
            job.graph, job.job_id, job.clock, self._send_event, coordinator_failed, request_checkpoint
        )
        self._connections: dict[str, ManagerConnection] = {}
        self._manager_of: dict[AttemptId, str] = {}  # of those that run
        self._provider: ManagerProvider | None = None
        self._program_manager: InProcessManager | None = None

    def start(self, target: Target, make_program_bundle: Callable[[], JobBundle], *, is_restored: bool) -> None:
        """Start what actions need: task managers, checkpoint storage, coordinators. After an exception call `close`."""
        self._coordinators.start(is_restored=is_restored)
        self._provider = target.make_provider(self._job)
        if any(vertex.is_in_program for vertex in self._job.plan.vertices):
            # Tasks whose functions hold objects of the program run here, beside those of the target.
            self._program_manager = InProcessManager(
                self._job, make_program_bundle(), self._provider.program_shuffle(), manager_id=PROGRAM_MANAGER
            )
            self._program_manager.start()

    def connected(self, manager_id: str, connection: ManagerConnection) -> None:
        """Note the connection to a task manager; from any thread."""
        self._connections[manager_id] = connection

    def lost(self, manager_id: str) -> None:
        """Drop a lost manager's connection; from any thread."""
        self._connections.pop(manager_id, None)

    def send(self, manager_id: str, message: object) -> None:
        """Send a message to a task manager; from any thread. If its connection is lost: nothing happens."""
        connection = self._connections.get(manager_id)
        if connection is not None:
            connection.send(message)

    def perform(self, action: object) -> None:
        """Perform one action; its results come back to the job as stimuli."""
        match action:
            case StartManagers():
                self._start_managers(action)
            case SendTo():
                self._send_to(action)
            case StopManager():
                self._stop_manager(action)
            case SubtaskGone():
                self._manager_of.pop(action.attempt, None)
                self._coordinators.gone(action.attempt)
            case ResetSources():
                reading = {key: partial(self._checkpoints.read, handle) for key, handle in action.states.items()}
                self._coordinators.reset(action.subtasks, action.is_global, action.checkpoint_id, reading)
            case TellCoordinator():
                self._coordinators.tell(action.attempt, action.operator_id, action.payload)
            case SnapshotCoordinators(checkpoint_id):
                self._coordinators.snapshot(
                    checkpoint_id,
                    lambda states, failure: self._tell(CoordinatorsSnapshotted(checkpoint_id, states, failure)),
                )
            case NotifyCoordinators():
                self._coordinators.complete(action.checkpoint_id)
            case StoreCheckpoint():
                self._checkpoints.store(action)
            case WithdrawCheckpoint():
                self._checkpoints.withdraw(action)
            case DiscardState():
                self._checkpoints.discard(action)
            case _:
                raise TypeError(f"a job master does not ask for {action!r}")

    def close(self) -> None:
        """Free everything, and wait until it is freed."""
        self._coordinators.close()
        provider, self._provider = self._provider, None
        if provider is not None:
            try:
                provider.close()
            except BaseException:
                logger.exception("ending the task managers of job %s failed", self._job.job_id)
        manager, self._program_manager = self._program_manager, None
        if manager is not None and not manager.close(CLOSE_WAIT_S):
            logger.warning("a task of job %s in this process has not come back and was left", self._job.job_id)
        self._connections.clear()
        self._manager_of.clear()

    def _start_managers(self, action: StartManagers) -> None:
        try:
            self._started_provider().start(action.run, action.indexes)
        except Exception as error:
            self._job.run_failed(action.run, Failure.of(error))

    def _send_to(self, action: SendTo) -> None:
        connection = self._connections.get(action.manager_id)
        if connection is None:
            return  # the connection was just lost: the master will hear of it
        if isinstance(action.message, DeployTasks):
            self._manager_of.update((task.attempt, action.manager_id) for task in action.message.tasks)
        try:
            _send_in_parts(connection, action.message)
        except MessageTooLargeError as error:  # such as of a task that begins with state from the metadata
            what = f"{type(action.message).__name__} for task manager {action.manager_id} cannot be sent"
            failure = Failure.of(error)
            self._tell(CoordinatorFailed(replace(failure, message=f"{what}: {failure.message}")))

    def _stop_manager(self, action: StopManager) -> None:
        if action.manager_id == PROGRAM_MANAGER:
            if self._program_manager is not None:
                self._program_manager.stop(action.reason)
            return
        try:
            self._started_provider().stop(action.manager_id, action.reason)
        except Exception:
            logger.exception("a task manager of job %s could not be stopped", self._job.job_id)

    def coordinators_were_heard(self, checkpoint_id: int) -> None:
        """Let coordinators send events again: the job master has acted on the state that they gave."""
        self._coordinators.let_go(checkpoint_id)

    def _started_provider(self) -> ManagerProvider:
        if self._provider is None:
            raise RuntimeError("the job was not started")
        return self._provider

    def _send_event(self, attempt: AttemptId, operator_id: str, payload: bytes) -> None:
        """Send a coordinator's event to a source operator whose attempt runs; on any thread."""
        manager_id = self._manager_of.get(attempt)
        connection = None if manager_id is None else self._connections.get(manager_id)
        if connection is not None:
            connection.send(OperatorEventMessage(self._job.session_id, attempt, operator_id, payload))


def _send_in_parts(connection: ManagerConnection, message: object) -> None:
    """Send a message; tasks that are too large together, by the state they begin with, go in several.

    Raises
    ------
    MessageTooLargeError
        One task is too large by itself, or another message is.
    """
    try:
        connection.send(message)
    except MessageTooLargeError:
        if not isinstance(message, DeployTasks) or len(message.tasks) == 1:
            raise
        half = len(message.tasks) // 2
        for tasks in (message.tasks[:half], message.tasks[half:]):
            _send_in_parts(connection, replace(message, tasks=tasks))
