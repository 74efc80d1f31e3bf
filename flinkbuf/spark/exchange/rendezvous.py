"""Where the tasks of pipelined exchanges meet: the control server of the driver, and one thread that asks Spark.

It does what `exchange_runs` decides. An RDD may be computed at any time, or never, so nothing is kept for an exchange
but while its tasks run: its secret is made from its name and the key of the server.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from flinkbuf.config import TlsConfig
from flinkbuf.errors import CorruptDataError
from flinkbuf.log import logger
from flinkbuf.spark.driver_address import DriverAddress, DriverSettings
from flinkbuf.spark.exchange.exchange_runs import (
    Action,
    AttemptFound,
    Dismiss,
    ExchangeRuns,
    FindAttempt,
    FindStage,
    Keep,
    StageFound,
    Stimulus,
    TaskGone,
    TaskSaid,
    Tell,
    TimePassed,
    Warn,
)
from flinkbuf.spark.exchange.messages import CODEC
from flinkbuf.spark.exchange.summary import ExchangeSummary
from flinkbuf.spark.stage_progress import SparkStages, Stages

if TYPE_CHECKING:
    from pyspark import SparkContext

    from flinkbuf.control.control_server import Connection, ControlServer, ServerLease

SUMMARIES_KEPT = 100
LOOK_S = 1.0  # how often the thread looks whether its context has stopped
_numbers = itertools.count()


class Rendezvous:
    """The driver's end of all pipelined exchanges of one SparkContext.

    Parameters
    ----------
    settings : DriverSettings
        Where to listen.
    stages : Stages
        Who is asked which attempt a task is of, and about runs that do not get on.
    is_over : callable, optional
        Asked once a second whether nobody needs it any more; then it closes itself.
    """

    def __init__(self, settings: DriverSettings, stages: Stages, is_over: Callable[[], bool] = lambda: False) -> None:
        self._settings, self._stages, self._is_over = settings, stages, is_over
        self._prefix = f"exchange/{next(_numbers)}/"  # two contexts may have one server, one after the other
        self._leases: dict[TlsConfig | None, ServerLease] = {}
        self._groups: dict[str, _Group] = {}
        self._inbox: queue.SimpleQueue[Stimulus | None] = queue.SimpleQueue()
        self._summaries: deque[ExchangeSummary] = deque(maxlen=SUMMARIES_KEPT)
        self.runs = ExchangeRuns()
        self.connections: dict[int, Connection] = {}
        self._thread = threading.Thread(target=self._run, name="flinkbuf-exchanges", daemon=True)
        self._thread.start()

    def address_of(self, exchange_id: str, task_count: int, tls: TlsConfig | None = None) -> DriverAddress:
        """Return what the tasks of an exchange need to come here.

        Raises
        ------
        OSError
            If it cannot listen where it is to.
        """
        lease = self._leases.get(tls)
        if lease is None:
            self._leases[tls] = lease = self._settings.listen(tls)
            server = lease.server
            server.on_unknown(self._prefix, lambda group_id: self._open(server, group_id))
        group_id = f"{self._prefix}{exchange_id}/{task_count}"
        return DriverAddress(lease.server.address, group_id, lease.server.secret_of(group_id), tls)

    @property
    def is_closed(self) -> bool:
        """Whether nobody can come any more."""
        return not self._thread.is_alive()

    @property
    def summaries(self) -> list[ExchangeSummary]:
        """What the latest runs that came to their end counted, the last one last."""
        return list(self._summaries)

    def close(self) -> None:
        """End the thread, let go of the server. Tasks that still run take it for the end of the driver. Idempotent."""
        self._inbox.put(None)
        self._thread.join()

    # ---- on the server's thread

    def _open(self, server: ControlServer, group_id: str) -> _Group:
        exchange_id, task_count = group_id.removeprefix(self._prefix).split("/")
        group = self._groups[group_id] = _Group(self, server, group_id, exchange_id, int(task_count))
        return group

    def take(self, stimulus: Stimulus) -> None:
        """Have something decided about."""
        self._inbox.put(stimulus)

    def forget(self, group_id: str) -> None:
        """Note that an exchange has no tasks any more."""
        self._groups.pop(group_id, None)

    # ---- on its own thread

    def _run(self) -> None:
        try:
            while not self._is_over():
                stimulus = self._next()
                if stimulus is None:
                    break
                for action in self.runs.handle(stimulus, _now_ms()):
                    self._perform(action)
        finally:
            for lease in self._leases.values():
                lease.server.off_unknown(self._prefix)
                for group_id in list(self._groups):
                    lease.server.close_group(group_id)
                lease.close()

    def _next(self) -> Stimulus | None:
        deadline = self.runs.next_deadline_ms
        left = LOOK_S if deadline is None else max(0.0, (deadline - _now_ms()) / 1000)
        try:
            return self._inbox.get(timeout=min(LOOK_S, left))
        except queue.Empty:
            return TimePassed()

    def _perform(self, action: Action) -> None:
        """Do it; what Spark answers is heard of next."""
        if isinstance(action, Tell):
            message = CODEC.encode(action.message)  # once: the peers of a thousand tasks are 300 KB
            for connection in map(self.connections.get, action.connections):
                if connection is not None:
                    connection.send(message)
        elif isinstance(action, FindStage):
            self.take(self._find_stage(action))
        elif isinstance(action, FindAttempt):
            attempt = self._stages.attempt_of(action.stage, action.task, action.task_count)
            self.take(AttemptFound(action.connection, attempt))
        elif isinstance(action, Keep):
            self._summaries.append(action.summary)
            logger.info("%s", action.summary)
        elif isinstance(action, Warn):
            logger.warning("%s", action.text)
        elif isinstance(action, Dismiss):
            with contextlib.suppress(KeyError):
                self.connections[action.connection].close()

    def _find_stage(self, asked: FindStage) -> StageFound:
        progress, failures, end = self._stages.progress(asked.stage), [], None
        if progress is not None and (asked.is_failing or progress.failed):
            number = progress.attempt if asked.attempt is None else asked.attempt.number
            failures = self._stages.failures(asked.stage, number)
        if asked.attempt is not None and asked.task is not None:
            end = self._stages.end_of(asked.stage, asked.attempt, asked.task)
        return StageFound(asked.exchange_id, asked.stage, progress, tuple(failures), end)


class _Group:
    """The tasks of one exchange that are connected, as the control server's thread sees them."""

    def __init__(
        self, meeting: Rendezvous, server: ControlServer, group_id: str, exchange_id: str, task_count: int
    ) -> None:
        self._meeting, self._server, self._group_id = meeting, server, group_id
        self._exchange_id, self._task_count = exchange_id, task_count
        self._numbers: dict[Connection, int] = {}

    def connected(self, connection: Connection) -> None:
        """Give it a number: a server's own are its alone."""
        number = self._numbers[connection] = next(_numbers)
        self._meeting.connections[number] = connection

    def received(self, connection: Connection, payload: bytes) -> None:
        """Hand on what a task says, or close its connection if that is nothing."""
        try:
            message = CODEC.decode(payload)
        except CorruptDataError:
            connection.close()
            return
        self._meeting.take(TaskSaid(self._numbers[connection], self._exchange_id, self._task_count, message))

    def disconnected(self, connection: Connection, reason: str) -> None:
        """Forget it, and the exchange with its last one."""
        number = self._numbers.pop(connection)
        self._meeting.connections.pop(number, None)
        self._meeting.take(TaskGone(number, reason))
        if not self._numbers:
            self._server.close_group(self._group_id)
            self._meeting.forget(self._group_id)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


# ---- the one of each SparkContext

_lock = threading.Lock()
_by_context: weakref.WeakKeyDictionary[SparkContext, Rendezvous] = weakref.WeakKeyDictionary()


def rendezvous_of(context: SparkContext) -> Rendezvous:
    """Return the rendezvous of a SparkContext, opened if it is not yet; ValueError if its port's setting is none."""
    with _lock:
        known = _by_context.get(context)
        if known is not None and not known.is_closed:
            return known
        reference = weakref.ref(context)

        def is_over() -> bool:
            living = reference()
            return living is None or living._jsc is None  # PySpark's own sign of a context that was stopped

        opened = _by_context[context] = Rendezvous(DriverSettings.of(context), SparkStages(context), is_over)
        return opened


def summaries_of(context: SparkContext) -> list[ExchangeSummary]:
    """Return what the latest runs in a SparkContext counted, the last one last."""
    known = _by_context.get(context)
    return [] if known is None else known.summaries
