"""One barrier stage of Spark's whose tasks are the task managers of a job, as the driver starts, hears and ends it.

The stage is one Spark job, submitted from a thread of its own in a job group of its own. Its tasks come to the driver's
control server; what they say goes to the job. However it ends, the job is told once, with what Spark says of it.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from flinkbuf.control.connection import Connection
from flinkbuf.control.control_server import ControlServer
from flinkbuf.errors import CorruptDataError, FlinkbufError
from flinkbuf.log import logger
from flinkbuf.runtime.driver.target import ManagerListener
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import ManagerLeaving, RegisterManager, RegistrationRefused
from flinkbuf.spark.stage.barrier_task import CODEC

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark import RDD, SparkContext

GRACE_S = 5.0  # so long managers that were told to end have, before Spark ends their stage
START_PATIENCE_S = 1.0  # so long a stage whose tasks have not all come yet, and find that they are not wanted
VERDICT_S = 2.0  # so long a lost manager waits for what Spark says of it: Spark looks once a second
NO_FLINKBUF = "this worker of Spark runs "  # so begin the sentences of workers.shipped
_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_RAISED = re.compile(r"(?P<name>(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)): (?P<message>.*)")


class SparkStoppedError(FlinkbufError):
    """The SparkContext has been stopped: nothing of it runs any more."""

    can_restart = False


class JobConnection:
    """The driver's end of the way to one task manager: messages, not bytes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, message: object) -> None:
        """Say something to the manager; from any thread, without waiting."""
        self._connection.send(CODEC.encode(message))

    def close(self) -> None:
        """End it, after what was sent."""
        self._connection.close()


class StageManagers:
    """The managers of one run, as a control server's handler; everything on the server's thread.

    Parameters
    ----------
    job : ManagerListener
    on_lost : callable
        Called with a manager's id and a reason when its connection has ended though nobody said why; it tells the job.
    """

    def __init__(self, job: ManagerListener, on_lost: Callable[[str, str], None]) -> None:
        self._job = job
        self._on_lost = on_lost
        self.ids: set[str] = set()  # of all that ever registered
        self._ids: dict[int, str] = {}  # of managers, by the number of their connection
        self._left: dict[int, str] = {}  # why they went, where they said so
        self.refusal = ""  # why nobody is taken in any more

    def connected(self, connection: Connection) -> None:
        """Wait for its registration."""

    def received(self, connection: Connection, payload: bytes) -> None:
        """Pass on what a manager says.

        Raises
        ------
        CorruptDataError
            It is no message, or comes before its registration.
        """
        self.said(connection, CODEC.decode(payload))

    def id_of(self, connection: Connection) -> str | None:
        """Return the id of the manager at the other end."""
        return self._ids.get(connection.number)

    def said(self, connection: Connection, message: object) -> None:
        """Pass on what a manager says; CorruptDataError if it comes before its registration."""
        if isinstance(message, RegisterManager):
            self.register(connection, message)
            return
        manager_id = self._ids.get(connection.number)
        if manager_id is None and self.refusal:
            return
        if manager_id is None:
            raise CorruptDataError(f"a {type(message).__name__} before the registration of its task manager")
        if isinstance(message, ManagerLeaving):
            self._left[connection.number] = message.reason
        self._job.manager_said(manager_id, message)

    def register(self, connection: Connection, message: RegisterManager) -> None:
        """Take in a manager, while they are wanted."""
        if self.refusal:
            connection.send(CODEC.encode(RegistrationRefused(self.refusal)))
            return
        self.ids.add(message.manager_id)
        self._ids[connection.number] = message.manager_id
        self._job.manager_connected(message.manager_id, JobConnection(connection))
        self._job.manager_said(message.manager_id, message)
        if connection.is_over:  # while it waited to be let in
            self.disconnected(connection, "it went away before it was let in")

    def disconnected(self, connection: Connection, reason: str) -> None:
        """Tell the job, at once where the manager had said that it goes."""
        manager_id = self._ids.pop(connection.number, None)
        left = self._left.pop(connection.number, None)
        if manager_id is None:
            return
        if left is not None:
            self._job.manager_lost(manager_id, left)
        else:
            self._on_lost(manager_id, reason)


class StageRun:
    """One Spark job that runs the task managers of one run.

    Parameters
    ----------
    context : SparkContext
    job : ManagerListener
    control : ControlServer
    run : int
        The number by which the job master asked for it.
    task_count : int
        How many tasks it has.
    group : str
        Of Spark's jobs, and of the connections.
    description : str
        What Spark's pages show.
    properties : object
        Spark's local properties of the thread that started the job, such as its scheduler pool.
    make_data : callable
        Returns the RDD to compute; called on the stage's thread.
    """

    def __init__(
        self,
        context: SparkContext,
        job: ManagerListener,
        control: ControlServer,
        *,
        run: int,
        task_count: int,
        group: str,
        description: str,
        properties: JavaObject | None,
        make_data: Callable[[], RDD[object]],
    ) -> None:
        self._context = context
        self._job = job
        self._control = control
        self._run = run
        self._task_count = task_count
        self._group = group
        self._description = description
        self._properties = properties
        self._make_data = make_data
        self._lock = threading.Lock()
        self._is_stopping = False
        self._has_lost = False  # the job heard of the loss of a manager, or will
        self._failure: Failure | None = None
        self._ended = threading.Event()
        self._timer: threading.Timer | None = None
        self._threads: list[threading.Thread] = []

        self._managers = StageManagers(job, self._lost)

    def has_manager(self, manager_id: str) -> bool:
        """Whether a manager is, or was, one of its own."""
        return manager_id in self._managers.ids

    def start(self) -> None:
        """Submit it; returns at once."""
        self._control.open(self._group, self._managers)
        self._on_thread(self._compute, f"flinkbuf stage {self._run}")

    def stop_soon(self) -> None:
        """Its managers were told to end: have Spark end what is left of them after a while."""
        with self._lock:
            self._is_stopping = True
            if self._timer is None and not self._ended.is_set():
                self._timer = threading.Timer(GRACE_S, self.cancel)
                self._timer.daemon = True
                self._timer.start()

    def cancel(self) -> None:
        """Have Spark end it."""
        with self._lock:
            self._is_stopping = True
        if not self._ended.is_set():
            logger.warning("job %s: its task managers have not ended by themselves; Spark ends them", self._job.job_id)
            with contextlib.suppress(Exception):  # the JVM may go at any moment
                self._context.cancelJobGroup(self._group)
            forget_connection()

    def end(self) -> None:
        """Its job is over: wait until it is, or have Spark end it."""
        with self._lock:
            self._is_stopping = True
        self._managers.refusal = "the job has ended"
        if not self._ended.wait(START_PATIENCE_S if len(self._managers.ids) < self._task_count else GRACE_S):
            self.cancel()
            self._ended.wait(GRACE_S)
        self._close()

    def _close(self) -> None:
        """Free what the driver holds of it."""
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            timer.join()
        self._control.close_group(self._group)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(VERDICT_S)

    def _compute(self) -> None:
        """On the stage's thread: have Spark run it, and tell the job if it does not end as it should."""
        try:
            if self._properties is not None:
                self._context._jsc.sc().setLocalProperties(self._properties.clone())
            self._context.setJobGroup(self._group, self._description, interruptOnCancel=True)
            data = self._make_data()
            if not self._is_stopping:
                data.collect()
        except BaseException as error:
            self._failure = failure_of(error, self._context)
        with self._lock:
            self._ended.set()
            is_news = self._failure is not None and not self._is_stopping and not self._has_lost
        if is_news and self._failure is not None:
            self._job.run_failed(self._run, self._failure)

    def _lost(self, manager_id: str, reason: str) -> None:
        """Of a connection that broke, Spark may know why; who asks waits for its word on a thread of its own."""
        with self._lock:
            self._has_lost = True
            is_stopping = self._is_stopping
        if is_stopping:
            self._job.manager_lost(manager_id, reason)
            return

        def tell() -> None:
            self._ended.wait(VERDICT_S)
            said = f"; Spark says: {self._failure.message}" if self._failure is not None else ""
            self._job.manager_lost(manager_id, f"{reason}{said}")

        self._on_thread(tell, f"flinkbuf loss of {manager_id}")

    def _on_thread(self, target: Callable[[], None], name: str) -> None:
        def run() -> None:
            try:
                target()
            finally:
                forget_connection()

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()


def is_stopped(context: SparkContext) -> bool:
    """Whether a SparkContext has been stopped, or is being stopped."""
    if context._jsc is None:  # PySpark's own sign
        return True
    try:
        return bool(context._jsc.sc().isStopped())
    except Exception:  # the JVM has gone
        return True


def forget_connection() -> None:
    """Close this thread's connection to the JVM, which outlives the thread otherwise."""
    from pyspark import InheritableThread

    clean = getattr(InheritableThread, "_clean_py4j_conn_for_current_thread", None)
    if clean is not None:
        with contextlib.suppress(Exception):  # there is none, or no JVM
            clean()


def failure_of(error: BaseException, context: SparkContext) -> Failure:
    """Return why a Spark job failed, as far as its user can act on it: Spark's own text is mostly Java's stack."""
    if is_stopped(context):
        stopped = "the SparkContext was stopped while the job ran in it; start the job again in a new one"
        return Failure("builtins.RuntimeError", stopped, can_restart=False)
    from py4j.protocol import Py4JError

    if not isinstance(error, Py4JError):
        return Failure.of(error)
    summary, traceback = summary_of(str(error))
    found = _RAISED.match(summary)
    name, message = (found["name"], found["message"]) if found else ("RuntimeError", summary)
    return Failure(
        name if "." in name else f"builtins.{name}",
        message,
        traceback,
        can_restart=not message.startswith(NO_FLINKBUF),  # a worker that lacks it will lack it again
    )


def summary_of(text: str) -> tuple[str, str]:
    """Return the line of Spark's error that says what happened, and the traceback of Python's that ends with it.

    Examples
    --------
    >>> summary_of("Job aborted\\nTraceback (most recent call last):\\n  File x\\nOSError: no room\\n\\n\\tat org...")
    ('OSError: no room', 'Traceback (most recent call last):\\n  File x\\nOSError: no room')
    >>> summary_of("An error occurred\\n: Job 3 cancelled part of cancelled job group x")
    (': Job 3 cancelled part of cancelled job group x', '')
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    for known in ("ExecutorLostFailure", "Python worker exited unexpectedly"):
        for line in lines:
            if known in line:
                return line[line.index(known) :], ""
    begin = next((number for number, line in enumerate(lines, 1) if line.endswith(_TRACEBACK)), len(lines))
    for number in range(begin, len(lines)):
        if _RAISED.match(lines[number]) and not (lines[number + 1 : number + 2] or [""])[0].startswith(_CHAINED):
            return lines[number], "\n".join([_TRACEBACK, *lines[begin : number + 1]])
    told = [line for line in lines if "Job aborted" in line or "cancelled" in line]
    return (told or lines or [""])[0], ""
