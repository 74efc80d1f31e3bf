"""The job of one attempt of a stage that Spark computes on its own: target and provider of a `RunningJob` in one.

Its task managers come unasked, and are let in when the job wants them. It never restarts by itself, since what Spark
has taken cannot be taken back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from flinkbuf.log import logger
from flinkbuf.runtime.driver.target import ManagerListener
from flinkbuf.runtime.graph.job_graph import JobGraph
from flinkbuf.runtime.manager.shuffle import Shuffle
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import RegisterManager, RegistrationRefused
from flinkbuf.runtime.scheduler.job_master_config import JobMasterConfig
from flinkbuf.spark.stage.barrier_task import CODEC
from flinkbuf.spark.stage.job_stage import StageManagers, forget_connection
from flinkbuf.spark.stage.stage_runs import StageProgram
from flinkbuf.streaming.chain.operator_config import ExecutionSettings

if TYPE_CHECKING:
    from flinkbuf.control.connection import Connection

NEVER_MS = 24 * 24 * 3_600_000  # no wait of the system is longer


class StageJob:
    """One run of a program, in one attempt of a stage: the target of its `RunningJob`, and its provider.

    Parameters
    ----------
    program : StageProgram
    call_soon : callable
        Calls on the control server's thread.
    on_over : callable
        Called when the job has ended.
    on_lost : callable
        Called with a manager's id and a reason when its connection has ended though nobody said why.

    Attributes
    ----------
    managers : StageManagers
        Hears the task managers.
    """

    name = "spark"
    is_in_process = False
    managers_come_together = True

    def __init__(
        self,
        program: StageProgram,
        call_soon: Callable[..., None],
        on_over: Callable[[], object],
        on_lost: Callable[[str, str], None],
    ) -> None:
        self.program = program
        self._call_soon = call_soon
        self._on_over = on_over
        self._lock = threading.Lock()
        self._run: int | None = None  # as soon as the job master wants its managers
        self._waiting: list[tuple[Connection, RegisterManager]] = []
        self._refusal: str | None = None
        self._job = program.make_job(self, self._note_end)
        self.managers = StageManagers(self._job, on_lost)

    def begin(self) -> None:
        """Start the job, on a thread of its own; the managers that come are told if that fails."""
        try:
            self._job.start()
        except BaseException as error:
            failure = Failure.of(error)
            self._refuse_all(f"{failure.type_name.removeprefix('builtins.')}: {failure.message}")
        finally:
            forget_connection()

    def cancel(self) -> None:
        """End the job."""
        self._job.cancel()

    def said(self, manager_id: str, message: object) -> None:
        """Let the job have what a task manager said."""
        self._job.manager_said(manager_id, message)

    def fail(self, reason: str) -> None:
        """End the job for this reason, which is what its task managers are told, those that come late too."""
        self._refuse_all(reason)
        failure = Failure("flinkbuf.errors.PeerFailedError", reason, is_echo=True, can_restart=False)
        self._job.run_failed(self._run or 1, failure)

    def add(self, connection: Connection, message: RegisterManager) -> None:
        """Take in a task manager; on the control server's thread."""
        with self._lock:
            run, refusal = self._run, self._refusal
            if run is None and refusal is None:
                self._waiting.append((connection, message))
        if refusal is not None:
            connection.send(CODEC.encode(RegistrationRefused(refusal)))
        elif run is not None:
            self.managers.register(connection, replace(message, run=run))

    def _refuse_all(self, reason: str) -> None:
        with self._lock:
            self._refusal = self._refusal or reason
            waiting, self._waiting = self._waiting, []
        for connection, message in waiting:
            self.add(connection, message)

    def _note_end(self, error: BaseException | None) -> None:
        if error is not None:
            logger.info("%s, run by Spark, has failed: %s", self.program.name, error)
        self._on_over()

    # ---- as the target of the job

    def can_restart_in_place(self, graph: JobGraph) -> bool:
        """What Spark has taken cannot be taken back."""
        return False

    def shares_files(self) -> bool:
        """Say no: it keeps no checkpoints."""
        return False

    def check(self, graph: JobGraph, settings: ExecutionSettings) -> None:
        """Everything was checked when the RDD was made."""

    def make_provider(self, job: ManagerListener) -> StageJob:
        """Return itself."""
        return self

    # ---- as the provider of its managers

    def start(self, run: int, indexes: tuple[int, ...]) -> None:
        """Spark has started them: let in those that have come."""
        with self._lock:
            if self._run is not None:
                raise StageOverError("Spark starts the tasks of this job, and runs a stage that failed again itself")
            self._run = run
            waiting, self._waiting = self._waiting, []
        for connection, message in waiting:
            self._call_soon(self.add, connection, message)

    def stop(self, manager_id: str, reason: str) -> None:
        """It was told to end; if it does not, Spark ends it with its stage."""

    def close(self) -> None:
        """Spark ends the stage."""

    def program_shuffle(self) -> Shuffle:
        """Return how tasks in the driver's process and those of the stage reach each other."""
        assert self.program.program_shuffle is not None
        return self.program.program_shuffle(self._job)


class StageOverError(RuntimeError):
    """The stage of a job ends with its job."""

    can_restart = False


def patient(config: JobMasterConfig | None = None) -> JobMasterConfig:
    """Return how a job master goes about tasks that Spark starts: it waits for them as long as Spark does.

    Code of the user may run in a task for any time before its task manager comes.
    """
    return replace(config or JobMasterConfig(), slot_request_timeout_ms=NEVER_MS)
