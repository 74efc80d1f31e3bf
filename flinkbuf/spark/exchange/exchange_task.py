"""The task of a pipelined exchange: deployed, watched and reported by a task manager, and run by Spark's own thread.

Whoever reads the records asks for them on Spark's thread, one after the other. So that thread is the task's, and the
task manager has one of its own beside it: no call of the user's code keeps a word of the driver waiting.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from flinkbuf.errors import CancelTaskError, PeerFailedError
from flinkbuf.network.environment import NetworkEnvironment
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.runtime.manager.managed_task import ManagedTask
from flinkbuf.runtime.manager.shuffle import NetworkShuffle
from flinkbuf.runtime.manager.task_executor import TaskExecutorConfig
from flinkbuf.runtime.manager.task_manager import TaskManager
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import Json
from flinkbuf.spark.stage.barrier_task import WatchedLink, this_task
from flinkbuf.spark.stage.driver_address import DriverAddress
from flinkbuf.streaming.chain.metrics import TaskMetrics
from flinkbuf.streaming.task.task_state import TaskState

if TYPE_CHECKING:
    from flinkbuf.network.input_gate import InputGate
    from flinkbuf.network.partition import ResultPartition
    from flinkbuf.runtime.manager.managed_task import TaskSurroundings
    from flinkbuf.runtime.manager.memory_manager import MemoryManager
    from flinkbuf.runtime.protocol.deployment import TaskDeploymentDescriptor

GOODBYE_TIMEOUT_S = 1.0  # for the driver to take what the task has counted, or why it has failed
PATIENT = TaskExecutorConfig(cancellation_interval_ms=0, cancellation_timeout_ms=0)  # Spark ends who does not come out


class ExchangeTask(ManagedTask):
    """An attempt that Spark's thread runs; what it does is given by `run_by`.

    Parameters
    ----------
    descriptor, surroundings, memory
        What `ManagedTask` takes.
    thread : Thread
        Spark's.
    deployed : callable
        Called with the task when its partition is there.
    """

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        surroundings: TaskSurroundings,
        memory: MemoryManager,
        *,
        thread: threading.Thread,
        deployed: Callable[[ExchangeTask], object],
    ) -> None:
        super().__init__(descriptor, surroundings, memory)
        self._thread = thread
        self._deployed = deployed
        self._started = time.monotonic()
        self._over = threading.Event()
        self._figures: Callable[[], dict[str, int]] = dict

    # ---- the control thread

    def start(self) -> None:
        """Make the partition, and have Spark's thread go on."""
        self._start_with(lambda: self._deployed(self))

    @property
    def thread(self) -> threading.Thread:
        """Return Spark's thread."""
        return self._thread

    def cancel(self) -> None:
        """Have Spark's thread find out; it comes out of the exchange by itself."""
        with self._lock:
            self._is_canceled = True
        for partition in self._partitions:
            partition.abort("the exchange has ended", timeout_ms=0)

    def end(self) -> None:
        """Do as `cancel` does: nothing but Spark interrupts what its thread does."""
        self.cancel()

    def fail(self, error: BaseException) -> None:
        """End the task; what the task manager has found is in its log."""
        self.cancel()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the task, which is not that of its thread."""
        return self._over.wait(timeout_s)

    def deliver(self, operator_id: str, payload: bytes) -> None:
        """Do nothing: it has no operators."""

    def notify_checkpoint(self, checkpoint_id: int, is_complete: bool, latest_completed_id: int) -> None:
        """Do nothing: it takes part in no checkpoint."""

    def metrics(self) -> Json:
        """Return the task's figures now, those of its summary among them."""
        figures = self._figures()
        total_ms = int(1000 * (time.monotonic() - self._started))
        waited_ms = figures.get("idle_ms", 0) + figures.get("back_pressured_ms", 0)
        return {**asdict(TaskMetrics()), **figures, "busy_ms": max(0, total_ms - waited_ms), "total_ms": total_ms}

    # ---- Spark's thread

    @property
    def partition(self) -> ResultPartition:
        """What the task writes."""
        return self._partitions[0]

    @property
    def producers(self) -> list[str]:
        """Where the channels of its gate come from, as errors name it."""
        return [f"{each.host}:{each.port}" for each in self.descriptor.gates[0].locations]

    def open_gate(self) -> InputGate:
        """Make the gate that the task reads."""
        return self._surroundings.shuffle.create_gate(self.attempt, self.descriptor.gates[0])

    def check(self) -> None:
        """Raise CancelTaskError if the task was cancelled."""
        if self._is_canceled:
            raise CancelTaskError("the exchange has ended")

    def run_by(self, figures: Callable[[], dict[str, int]]) -> None:
        """Note that the task runs, and who counts."""
        self._figures = figures
        self._tell_state(TaskState.RUNNING)

    def finish(self) -> None:
        """Report that all is sent and read, with what was counted."""
        self._come_to(TaskState.FINISHED, None)

    def give_up(self, error: BaseException) -> None:
        """Report why nothing more comes from here."""
        is_echo = isinstance(error, PeerFailedError) and type(error) is PeerFailedError
        state = TaskState.CANCELED if self._is_canceled else TaskState.FAILED
        self._come_to(state, Failure.of(error, is_echo=is_echo))

    def _come_to(self, state: TaskState, failure: Failure | None) -> None:
        metrics = self.metrics()
        self._figures = dict
        self._free(state)
        self._over.set()
        self._tell_state(state, failure, metrics=metrics)


class ExchangeManager:
    """The task manager of one task of an exchange, on a thread of its own.

    Parameters
    ----------
    driver : DriverAddress
    index : int
        The task's.
    name : str
        Of the exchange.
    open_network : callable
        Given the address of this host as the driver sees it, returns the environment, which is the manager's then.

    Raises
    ------
    RemoteTransportError
        If the driver is out of reach; it says what to open.
    """

    def __init__(
        self, driver: DriverAddress, index: int, name: str, open_network: Callable[[str], NetworkEnvironment]
    ) -> None:
        self._events: queue.SimpleQueue[ExchangeTask | None] = queue.SimpleQueue()
        client = driver.connect()
        try:
            self.environment = open_network(client.local_host)
        except BaseException:
            client.close()
            raise
        manager_id = f"exchange-{name}-{index}-{uuid.uuid4().hex[:8]}"
        self._link = WatchedLink(client)
        self._link.on_over = lambda: self._events.put(None)
        self._manager = TaskManager(
            JobBundle(name, f"exchange {name}", {}),
            self._link,
            manager_id=manager_id,
            run=0,
            index=index,
            slot_count=1,
            shuffle=NetworkShuffle(self.environment),
            config=PATIENT,
            make_task=partial(ExchangeTask, thread=threading.current_thread(), deployed=self._events.put),
        )
        self._thread = threading.Thread(target=self._serve, name="flinkbuf task manager", daemon=True)
        with contextlib.suppress(ConnectionError):  # the manager finds it out
            self._link.send(this_task())
        self._thread.start()

    def _serve(self) -> None:
        try:
            self._manager.run()
        finally:
            self._events.put(None)

    def take(self) -> ExchangeTask:
        """Wait until the task is deployed, which it is when all have come.

        Raises
        ------
        PeerFailedError
            If it never will be, with the driver's reason.
        """
        task = self._events.get()
        if task is None:
            raise PeerFailedError(self._link.reason or "its task manager has failed")
        return task

    def reason(self, timeout_s: float) -> str | None:
        """Return why the driver has this task end; None if it does not say so within a while.

        It often knows better than a broken connection who is gone.
        """
        return self._link.reason if self._link.is_over.wait(timeout_s) else None

    def leave(self) -> None:
        """Go, when the driver has what the task has counted: now the job may end."""
        self._link.is_heard.wait(GOODBYE_TIMEOUT_S)
        self._manager.leave("the task has sent and read everything")
        self._thread.join()

    def give_up(self) -> None:
        """Go when the driver wants it, which it does as soon as Spark knows why the task has failed."""
        if not self._link.is_over.is_set() and self._link.is_told.wait(GOODBYE_TIMEOUT_S):
            self._link.flush(GOODBYE_TIMEOUT_S)
        if self._link.is_over.is_set():
            self._thread.join(GOODBYE_TIMEOUT_S)

    def abandon(self, error: BaseException) -> None:
        """Go without having taken a task; one that is deployed all the same ends with the error."""
        self._manager.leave("the task ends before it has begun")
        with contextlib.suppress(queue.Empty):
            while self._thread.is_alive():
                task = self._events.get(timeout=GOODBYE_TIMEOUT_S)
                if task is not None:
                    task.give_up(error)
