"""Where the tasks of pipelined exchanges meet: the control server of the driver, and one thread that asks Spark.

It does what `exchange_runs` decides. An RDD may be computed at any time, or never, so nothing is kept for an exchange
but while its tasks run: its secret is made from its name and the key of the server.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from flinkbuf.config import TlsConfig
from flinkbuf.errors import CorruptDataError
from flinkbuf.log import logger
from flinkbuf.spark.exchange.exchange_runs import (
    Action,
    ExchangeRuns,
    FindStage,
    GiveUp,
    Note,
    PeerGone,
    PeerSaid,
    StageFound,
    Stimulus,
    Tell,
)
from flinkbuf.spark.exchange.messages import CODEC, Register
from flinkbuf.spark.exchange.summary import ExchangeSummary
from flinkbuf.spark.stage.driver_address import ClientSettings, DriverAddress, listen_for_tasks
from flinkbuf.spark.stage.stage_progress import SparkStages, TaskEnd, UnknownStages
from flinkbuf.spark.stage.task_end import last_calls_of

if TYPE_CHECKING:
    from pyspark import SparkContext

    from flinkbuf.control.connection import Connection
    from flinkbuf.control.control_server import ControlServer, ServerLease

SUMMARIES_KEPT = 100
EARLIER_ATTEMPTS = 4  # as many as Spark makes in a row unless it is told otherwise
LOOK_S = 1.0  # how often the thread looks whether its context has stopped
_numbers = itertools.count()


class Rendezvous:
    """The driver's end of all pipelined exchanges of one SparkContext.

    Parameters
    ----------
    listen : callable
        Given a TlsConfig or None, returns a lease of the control server that tasks connect to.
    stages : SparkStages
        Asked which attempt a task is of, and about runs that do not get on.
    is_over : callable, optional
        Asked once a second whether nobody needs it any more; then it closes itself.
    last_calls : Accumulator, optional
        What the tasks are called by at their end.
    """

    def __init__(
        self,
        listen: Callable[[TlsConfig | None], ServerLease],
        stages: SparkStages | UnknownStages,
        is_over: Callable[[], bool] = lambda: False,
        last_calls: Any = None,
    ) -> None:
        self._listen, self._stages, self._is_over = listen, stages, is_over
        self._is_closing = False
        self._prefix = f"exchange/{next(_numbers)}/"  # two contexts may have one server, one after the other
        self._leases: dict[TlsConfig | None, ServerLease] = {}
        self._inbox: queue.SimpleQueue[Stimulus | None] = queue.SimpleQueue()
        self._groups: dict[str, ControlServer] = {}  # by id: one for each exchange whose tasks are connected
        self._counts: Counter[str] = Counter()  # of its connections
        self._summaries: deque[ExchangeSummary] = deque(maxlen=SUMMARIES_KEPT)
        self.runs = ExchangeRuns()
        self.last_calls = last_calls
        self._thread = threading.Thread(target=self._run, name="flinkbuf-exchanges", daemon=True)
        self._thread.start()

    def address_of(self, exchange_id: str, task_count: int, tls: TlsConfig | None = None) -> DriverAddress:
        """Return what the tasks of an exchange need to come here; OSError if it cannot listen for them."""
        with _lock:
            if tls not in self._leases:
                self._leases[tls] = self._listen(tls)
                server = self._leases[tls].server
                server.on_unknown(self._prefix, partial(self._open, server))
        server = self._leases[tls].server
        group_id = f"{self._prefix}{exchange_id}/{task_count}"
        return DriverAddress(server.address, group_id, server.secret_of(group_id), tls)

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
        self._is_closing = True
        self._inbox.put(None)
        self._thread.join()

    # ---- on the thread of a server, as the handler of its groups

    def _open(self, server: ControlServer, group_id: str) -> Rendezvous:
        self._groups[group_id] = server
        return self

    def connected(self, connection: Connection) -> None:
        """Expect a task to register."""
        self._counts[connection.group_id] += 1

    def received(self, connection: Connection, payload: bytes) -> None:
        """Hear what a task says, or close its connection if that is nothing."""
        _, _, exchange_id, task_count = connection.group_id.split("/")
        try:
            message = CODEC.decode(payload)
        except CorruptDataError:
            connection.close()
        else:
            self._inbox.put(PeerSaid(connection, exchange_id, int(task_count), message))

    def disconnected(self, connection: Connection, reason: str) -> None:
        """Note that a task is gone, and forget the exchange with its last one."""
        self._inbox.put(PeerGone(connection, reason))
        self._counts[connection.group_id] -= 1
        if self._counts[connection.group_id] == 0:
            del self._counts[connection.group_id]
            self._groups.pop(connection.group_id).close_group(connection.group_id)

    # ---- on its own thread

    def _run(self) -> None:
        try:
            while not self._is_over() and not self._is_closing:
                for action in self.runs.handle(self._next(), _now_ms()):
                    self._perform(action)
        finally:
            for lease in self._leases.values():
                lease.server.off_unknown(self._prefix)
                for group_id in list(self._groups):
                    lease.server.close_group(group_id)
                lease.close()

    def _next(self) -> Stimulus | None:
        """Wait for something to be heard of, or for the time when something is due."""
        deadline = self.runs.next_deadline_ms
        left = LOOK_S if deadline is None else max(0.0, (deadline - _now_ms()) / 1000)
        try:
            stimulus = self._inbox.get(timeout=min(LOOK_S, left))
        except queue.Empty:
            return None
        if isinstance(stimulus, PeerSaid) and isinstance(stimulus.message, Register):
            first, count = stimulus.message, stimulus.task_count
            if not self.runs.knows_attempt_of(stimulus.exchange_id, first):
                attempt = self._stages.attempt_of(first.stage, first.task, count)
                number = 0 if attempt is None else attempt.number
                asked = range(max(0, number - EARLIER_ATTEMPTS), number) if number > 1 else ()
                earlier = [self._stages.failures(first.stage, each) for each in asked]
                return replace(stimulus, attempt=attempt, earlier_failures=earlier)
        return stimulus

    def _perform(self, action: Action) -> None:
        """Do it; what Spark answers is heard of next."""
        if isinstance(action, Tell):
            message = CODEC.encode(action.message)  # once: the peers of a thousand tasks are 300 KB
            for connection in action.connections:
                connection.send(message)
        elif isinstance(action, FindStage):
            self._inbox.put(self._find_stage(action))
        elif isinstance(action, GiveUp):
            self._stages.give_up(action.stage, action.reason)
        elif isinstance(action, Note):
            logger.log(logging.WARNING if action.summary is None else logging.INFO, "%s", action.text)
            if action.summary is not None:
                self._summaries.append(action.summary)

    def _find_stage(self, asked: FindStage) -> StageFound:
        stages, attempt = self._stages, asked.attempt
        progress, end = stages.progress(asked.stage), None
        failures: list[TaskEnd] = []
        if progress is not None and (asked.is_failing or progress.failed):
            failures = stages.failures(asked.stage, progress.attempt if attempt is None else attempt.number)
        if attempt is not None and asked.task is not None:
            end = stages.end_of(asked.stage, attempt, asked.task)
        return StageFound(asked.exchange_id, asked.stage, progress, failures, end)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


# ---- the one of each SparkContext

_lock = threading.Lock()
_by_context: weakref.WeakKeyDictionary[SparkContext, Rendezvous] = weakref.WeakKeyDictionary()
_by_session: weakref.WeakKeyDictionary[Any, Rendezvous] = weakref.WeakKeyDictionary()  # of Spark Connect


def rendezvous_of(context: SparkContext) -> Rendezvous:
    """Return the rendezvous of a SparkContext, made if there is none yet."""
    with _lock:
        known = _by_context.get(context)
        if known is not None and not known.is_closed:
            return known
        reference = weakref.ref(context)

        def is_over() -> bool:
            living = reference()
            return living is None or living._jsc is None  # PySpark's own sign of a context that was stopped

        listen = partial(listen_for_tasks, context.getConf())
        last_calls = last_calls_of(context) if known is None else known.last_calls
        opened = _by_context[context] = Rendezvous(listen, SparkStages(context), is_over, last_calls)
        return opened


def rendezvous_of_client(session: Any) -> Rendezvous:
    """Return the rendezvous of a session of Spark Connect, in this process, which is not Spark's driver.

    Nobody here can ask Spark about its stages: a task that is gone is known by its connection alone.
    """
    with _lock:
        known = _by_session.get(session)
        if known is not None and not known.is_closed:
            return known
        reference = weakref.ref(session)

        def is_over() -> bool:
            living = reference()
            return living is None or living.is_stopped

        listen = partial(listen_for_tasks, ClientSettings(session))
        opened = _by_session[session] = Rendezvous(listen, UnknownStages(), is_over)
        return opened


def summaries_of(owner: SparkContext | Any) -> list[ExchangeSummary]:
    """Return what the latest runs in a SparkContext, or a session of Spark Connect, counted, the last one last."""
    known = _by_context.get(owner) or _by_session.get(owner)
    return [] if known is None else known.summaries
