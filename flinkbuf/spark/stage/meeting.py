"""Where tasks that Spark starts on its own meet: the control server of the driver, and one thread that asks Spark.

An RDD may be computed at any time, or never, and each attempt of Spark's to compute it is a job. So the tasks come to
the driver unasked and say of which stage they are; for each attempt there is one job, with a job master of its own. It
never restarts by itself, since what Spark has taken cannot be taken back. What is done is what `stage_runs` decides;
nothing is kept of a stage but while its tasks run.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from flinkbuf.config import TlsConfig
from flinkbuf.errors import CorruptDataError
from flinkbuf.log import logger
from flinkbuf.runtime.protocol.messages import RegisterManager, RegistrationRefused, TaskStateReport
from flinkbuf.spark.stage.barrier_task import CODEC, StageTask
from flinkbuf.spark.stage.driver_address import ClientSettings, DriverAddress, listen_for_tasks
from flinkbuf.spark.stage.job_stage import forget_connection
from flinkbuf.spark.stage.stage_job import StageJob
from flinkbuf.spark.stage.stage_progress import SparkStages, TaskEnd, UnknownStages
from flinkbuf.spark.stage.stage_runs import (
    Action,
    Begin,
    FailRun,
    FindStage,
    Finished,
    GiveUp,
    JobOver,
    Join,
    Note,
    PassOn,
    Refuse,
    StageFound,
    StageProgram,
    StageRuns,
    Stimulus,
    TaskCame,
    TaskGone,
    TaskReported,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from flinkbuf.control.connection import Connection
    from flinkbuf.control.control_server import ControlServer, ServerLease

EARLIER_ATTEMPTS = 4  # as many as Spark makes in a row unless it is told otherwise
LOOK_S = 1.0  # how often the thread looks whether its context has stopped
_numbers = itertools.count()


class Meeting:
    """The driver's end of all stages that Spark computes on its own, of one SparkContext or client of Spark Connect.

    Parameters
    ----------
    listen : callable
        Given a TlsConfig or None, returns a lease of the control server that tasks connect to.
    stages : SparkStages
        Asked which attempt a task is of, and about runs that do not get on.
    is_over : callable, optional
        Asked once a second whether nobody needs it any more; then it closes itself.
    """

    def __init__(
        self,
        listen: Callable[[TlsConfig | None], ServerLease],
        stages: SparkStages | UnknownStages,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._listen, self._stages, self._is_over = listen, stages, is_over
        self._is_closing = False
        self._prefix = f"stages/{next(_numbers)}/"  # two contexts may have one server, one after the other
        self._leases: dict[TlsConfig | None, ServerLease] = {}
        self._inbox: queue.SimpleQueue[Stimulus | None] = queue.SimpleQueue()
        self._programs: dict[str, Callable[[str], StageProgram]] = {}  # by the first word of a group's id
        self._groups: dict[str, tuple[ControlServer, StageProgram]] = {}  # by id: those whose tasks are connected
        self._counts: Counter[str] = Counter()  # of their connections
        self._arriving: dict[int, StageTask] = {}  # by connection: tasks whose task managers have not registered
        self._registering: dict[str, _Arrival] = {}  # by id of the task manager
        self._joined: dict[int, StageJob] = {}  # by connection
        self._jobs: dict[int, StageJob] = {}  # by run
        self.runs = StageRuns()
        self._thread = threading.Thread(target=self._run, name="flinkbuf-stages", daemon=True)
        self._thread.start()

    def server_of(self, tls: TlsConfig | None = None) -> ControlServer:
        """Return the server that tasks connect to, opened if it is not yet; OSError if it cannot listen."""
        with _lock:
            if tls not in self._leases:
                self._leases[tls] = self._listen(tls)
                server = self._leases[tls].server
                server.on_unknown(self._prefix, partial(self._open, server))
            return self._leases[tls].server

    def address_of(self, word: str, rest: str, tls: TlsConfig | None = None) -> DriverAddress:
        """Return what the tasks of a stage need to come here.

        Parameters
        ----------
        word : str
            Which of the programs that `serve` was told.
        rest : str
            What that program is asked for.
        tls : TlsConfig, optional

        Raises
        ------
        OSError
            If it cannot listen for them.
        """
        server, group_id = self.server_of(tls), f"{self._prefix}{word}/{rest}"
        return DriverAddress(server.address, group_id, server.secret_of(group_id), tls)

    def serve(self, word: str, program_of: Callable[[str], StageProgram]) -> None:
        """Let tasks come whose groups begin with a word; `program_of` gets the group's id, on the server's thread."""
        self._programs[word] = program_of

    def forget(self, word: str) -> None:
        """Let none of them come any more, and end their jobs."""
        self._programs.pop(word, None)
        for job in list(self._jobs.values()):
            if job.program.group_id.startswith(f"{self._prefix}{word}/"):
                job.cancel()

    @property
    def is_closed(self) -> bool:
        """Whether nobody can come any more."""
        return not self._thread.is_alive()

    def close(self) -> None:
        """End the thread, let go of the server. Tasks that still run take it for the end of the driver. Idempotent."""
        self._is_closing = True
        self._inbox.put(None)
        self._thread.join()

    # ---- on the thread of a server, as the handler of its groups

    def _open(self, server: ControlServer, group_id: str) -> Meeting | None:
        program_of = self._programs.get(group_id.removeprefix(self._prefix).partition("/")[0])
        if program_of is None:
            return None
        self._groups[group_id] = server, program_of(group_id)
        return self

    def connected(self, connection: Connection) -> None:
        """Wait until it says which task it is."""
        self._counts[connection.group_id] += 1

    def received(self, connection: Connection, payload: bytes) -> None:
        """Hear what a task says.

        Raises
        ------
        CorruptDataError
            It is no message, or comes before it was said which task sends it.
        """
        message = CODEC.decode(payload)
        job = self._joined.get(connection.number)
        if job is not None:
            self._said(job, connection, message)
        elif isinstance(message, StageTask):
            self._arriving[connection.number] = message
        elif isinstance(message, RegisterManager) and connection.number in self._arriving:
            task = self._arriving.pop(connection.number)
            arrival = self._registering[message.manager_id] = _Arrival(
                connection, message, *self._groups[connection.group_id]
            )
            self._inbox.put(TaskCame(arrival.program, message, task.stage, task.task))
        else:
            raise CorruptDataError(f"a {type(message).__name__} before it was said which task of Spark's sends it")

    def _said(self, job: StageJob, connection: Connection, message: object) -> None:
        """Pass it on, but for failures, which Spark is to hear of first, and ends that are counted."""
        manager_id = job.managers.id_of(connection)
        if manager_id is not None and isinstance(message, TaskStateReport):
            is_each = job.program.on_finished is not None
            # Where one failure brings about others, the job knows which is the cause; in an exchange nobody else does.
            is_cause = message.state == "FAILED" and (is_each or message.failure is None or not message.failure.is_echo)
            if is_cause or (is_each and message.state == "FINISHED"):
                self._inbox.put(TaskReported(manager_id, message))
                return
        job.managers.said(connection, message)

    def disconnected(self, connection: Connection, reason: str) -> None:
        """Note that a task is gone, and close its group with the last one."""
        self._arriving.pop(connection.number, None)
        job = self._joined.pop(connection.number, None)
        if job is not None:
            job.managers.disconnected(connection, reason)
        self._counts[connection.group_id] -= 1
        if self._counts[connection.group_id] == 0:
            del self._counts[connection.group_id]
            self._groups.pop(connection.group_id)[0].close_group(connection.group_id)

    def _join(self, job: StageJob, connection: Connection, message: RegisterManager) -> None:
        if not connection.is_over:
            self._joined[connection.number] = job
        job.add(connection, message)

    # ---- on its own thread

    def _run(self) -> None:
        try:
            while not self._is_over() and not self._is_closing:
                self._turn()
        finally:
            for lease in self._leases.values():
                lease.server.off_unknown(self._prefix)
                for group_id in list(self._groups):
                    lease.server.close_group(group_id)
                lease.close()
            self._programs.clear()
            for job in list(self._jobs.values()):
                job.fail("the driver has stopped")
            forget_connection()

    def _turn(self) -> None:
        """Hear of one thing, and do what follows; one stage that goes wrong ends no other."""
        try:
            for action in self.runs.handle(self._next(), _now_ms()):
                self._perform(action)
        except Exception:
            logger.exception("a stage whose tasks came to the driver")

    def _next(self) -> Stimulus | None:
        """Wait for something to be heard of, or for the time when something is due."""
        deadline = self.runs.next_deadline_ms
        left = LOOK_S if deadline is None else max(0.0, (deadline - _now_ms()) / 1000)
        try:
            stimulus = self._inbox.get(timeout=min(LOOK_S, left))
        except queue.Empty:
            return None
        if isinstance(stimulus, JobOver):
            self._jobs.pop(stimulus.run, None)
        return self._placed(stimulus) if isinstance(stimulus, TaskCame) else stimulus

    def _placed(self, came: TaskCame) -> TaskCame:
        """Add which attempt of its stage a task is of, and what failed in earlier ones."""
        program, stage = came.program, came.stage
        if self.runs.knows_attempt_of(program.group_id, stage, came.task):
            return came
        attempt = self._stages.attempt_of(stage, came.task, program.task_count)
        number = 0 if attempt is None else attempt.number
        asked = range(max(0, number - EARLIER_ATTEMPTS), number) if number > 1 else ()
        earlier: list[list[TaskEnd]] = [self._stages.failures(stage, each) for each in asked]
        return replace(came, attempt=attempt, earlier_failures=earlier)

    def _perform(self, action: Action) -> None:
        """Do it; what Spark answers is heard of next."""
        if isinstance(action, Begin):
            self._begin(action.run, self._registering[action.manager_id])
        elif isinstance(action, Join):
            arrival, job = self._registering.pop(action.manager_id), self._jobs.get(action.run)
            if job is None:
                arrival.refuse("the job is over")
            else:
                arrival.server.call_soon(self._join, job, arrival.connection, arrival.message)
        elif isinstance(action, Refuse):
            self._registering.pop(action.manager_id).refuse(action.reason)
        elif isinstance(action, PassOn):
            self._tell(action.run, lambda job: job.said(action.manager_id, action.report))
        elif isinstance(action, FailRun):
            self._tell(action.run, lambda job: job.fail(action.reason))
        elif isinstance(action, Finished):
            self._tell(action.run, lambda job: job.program.on_finished and job.program.on_finished(action))
        elif isinstance(action, FindStage):
            self._inbox.put(self._find_stage(action))
        elif isinstance(action, GiveUp):
            self._stages.give_up(action.stage, action.reason)
        elif isinstance(action, Note):
            logger.warning("%s", action.text)

    def _begin(self, run: int, first: _Arrival) -> None:
        job = self._jobs[run] = StageJob(
            first.program, first.server.call_soon, lambda: self._inbox.put(JobOver(run)), self._lost
        )
        # Coordinators of sources are made there, by code of the user that may take its time.
        threading.Thread(target=job.begin, name="flinkbuf-stage", daemon=True).start()

    def _tell(self, run: int, tell: Callable[[StageJob], object]) -> None:
        job = self._jobs.get(run)
        if job is not None:
            tell(job)

    def _lost(self, manager_id: str, reason: str) -> None:
        self._inbox.put(TaskGone(manager_id, reason))

    def _find_stage(self, asked: FindStage) -> StageFound:
        stages, attempt = self._stages, asked.attempt
        progress, end = stages.progress(asked.stage), None
        failures: list[TaskEnd] = []
        if progress is not None and (asked.is_failing or progress.failed):
            failures = stages.failures(asked.stage, progress.attempt if attempt is None else attempt.number)
        if attempt is not None and asked.task is not None:
            end = stages.end_of(asked.stage, attempt, asked.task)
        return StageFound(asked.run, progress, failures, end)


@dataclass(frozen=True)
class _Arrival:
    """A task manager that has come and waits to be let in."""

    connection: Connection
    message: RegisterManager
    server: ControlServer
    program: StageProgram

    def refuse(self, reason: str) -> None:
        self.connection.send(CODEC.encode(RegistrationRefused(reason)))


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


# ---- the one of each SparkContext

Owner = TypeVar("Owner")  # a SparkContext, or a session of Spark Connect
_lock = threading.RLock()
_by_owner: weakref.WeakKeyDictionary[object, Meeting] = weakref.WeakKeyDictionary()


def meeting_of(context: SparkContext) -> Meeting:
    """Return the meeting of a SparkContext, made if there is none yet."""
    listen = partial(listen_for_tasks, context.getConf())
    return _known_or_new(context, listen, lambda: SparkStages(context), lambda context: context._jsc is None)


def meeting_of_client(session: SparkSession) -> Meeting:
    """Return the meeting of a session of Spark Connect, in this process, which is not Spark's driver.

    Nobody here can ask Spark about its stages: a task that is gone is known by its connection alone.
    """
    listen = partial(listen_for_tasks, ClientSettings(session))
    return _known_or_new(session, listen, UnknownStages, lambda session: bool(getattr(session, "is_stopped", False)))


def _known_or_new(
    owner: Owner,
    listen: Callable[[TlsConfig | None], ServerLease],
    make_stages: Callable[[], SparkStages | UnknownStages],
    is_stopped: Callable[[Owner], bool],
) -> Meeting:
    with _lock:
        known = _by_owner.get(owner)
        if known is not None and not known.is_closed:
            return known
        reference = weakref.ref(owner)

        def is_over() -> bool:
            living = reference()
            return living is None or is_stopped(living)

        opened = _by_owner[owner] = Meeting(listen, make_stages(), is_over)
        return opened
