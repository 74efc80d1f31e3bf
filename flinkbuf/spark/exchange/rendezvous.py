"""Where the tasks of a pipelined exchange find each other: a socket of the driver.

One socket and one background thread serve all exchanges of a SparkContext, from the first one on and until the
context stops. Tasks connect, prove that they know their exchange's secret, and say where they listen; when all tasks
of a barrier stage have come, each learns the others' addresses. The connections stay open: the driver passes on which
task failed and why, takes a connection that breaks off for the death of its task, and collects what the tasks counted.
What the tasks say: membership.py; what becomes of those of one stage: stage_run.py.

The driver remembers nothing of an exchange but while its tasks run: an RDD may be computed at any time later, or never,
so each exchange's secret is derived from its id and the key of the rendezvous.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flinkbuf.log import logger
from flinkbuf.network.ports import listen, open_first_free, parse_ports
from flinkbuf.spark.exchange.membership import (
    GREETING_LIMIT,
    TASK_LIMIT,
    TEXT_LIMIT,
    VERSION,
    Peer,
    is_proof,
    keep_alive,
    new_nonce,
    number_of,
    proof,
    text_of,
)
from flinkbuf.spark.exchange.stage_run import Exchange, Member, Run, TaskConnection
from flinkbuf.spark.exchange.summary import ExchangeSummary, TaskFigures
from flinkbuf.spark.stage_progress import SparkStages, Stages

if TYPE_CHECKING:
    from pyspark import SparkContext

GREETING_TIMEOUT_S = 10.0  # a connection that has not proved anything by then is closed
GATHER_AFTER_S = 10.0  # if by then not all tasks are here, some may be unable to come: all go to allGather
STRANGERS_MAX = 1024  # connections at once that have not proved anything
SUMMARIES_KEPT = 100
LOOK_S = 1.0  # how often the thread looks whether its context has stopped, and after runs that do not get going
ATTEMPT_LOOK_S = 0.05
ATTEMPT_LOOKS = 10  # so often Spark is asked which attempt a task is of, before its number has to tell
FAILURE_LOOK_S = 0.02
FAILURE_WAIT_S = 2.0  # so long the others are not told of a failure that Spark has not heard of


class Rendezvous:
    """The driver's end of all pipelined exchanges of one SparkContext.

    Parameters
    ----------
    bind_host : str
        The address to listen at.
    host : str
        The address that tasks are told.
    ports : iterable of int, default (0,)
        The first one that is free is taken; 0 is any.
    is_over : callable, optional
        Asked once a second whether nobody needs it any more; then it closes itself.
    stages : Stages, optional
        Asked which attempt a task is of, and about runs that do not get on.

    Attributes
    ----------
    address : tuple of (str, int)
        Where tasks connect to.

    Raises
    ------
    OSError
        If it cannot listen.
    """

    def __init__(
        self,
        bind_host: str,
        host: str,
        ports: Iterable[int] = (0,),
        is_over: Callable[[], bool] = lambda: False,
        stages: Stages | None = None,
    ) -> None:
        self._exchanges: dict[str, Exchange] = {}
        self._summaries: deque[ExchangeSummary] = deque(maxlen=SUMMARIES_KEPT)
        self._is_over = is_over
        self._stages = stages
        self._stranger_count = 0
        self._key = secrets.token_bytes(32)
        self._socket = open_first_free(
            ports, lambda port: listen(bind_host, port, STRANGERS_MAX), "spark.flinkbuf.driver.port"
        )
        self.address: tuple[str, int] = (host, self._socket.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="flinkbuf-rendezvous", daemon=True)
        self._thread.start()

    def secret_of(self, exchange_id: str, task_count: int) -> bytes:
        """Return what only the tasks of an exchange and this driver know: who proves to know it may take part."""
        return hmac.new(
            self._key, f"{exchange_id}\n{task_count}".encode("utf-8", "surrogatepass"), hashlib.sha256
        ).digest()

    @property
    def is_closed(self) -> bool:
        """Whether it listens no more."""
        return not self._thread.is_alive()

    @property
    def summaries(self) -> list[ExchangeSummary]:
        """What the latest runs that came to their end counted, the last one last."""
        return list(self._summaries)

    def close(self) -> None:
        """Stop listening, end the thread. Tasks that still run take it for the end of the driver. Idempotent."""
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    # ---- on the thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve_all())
            pending = asyncio.all_tasks(self._loop)
            for task in pending:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        finally:
            self._socket.close()
            self._loop.close()

    async def _serve_all(self) -> None:
        server = await asyncio.start_server(self._serve, sock=self._socket, limit=GREETING_LIMIT)
        try:
            while not self._closing.is_set() and not self._is_over():
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), LOOK_S)
                for exchange in list(self._exchanges.values()):
                    exchange.forget_runs()
                    if exchange.is_unused:
                        del self._exchanges[exchange.id]
                    for run in list(exchange.runs.values()):
                        await self._look_after(run)
        finally:
            server.close()

    async def _look_after(self, run: Run) -> None:
        """End a run that waits for tasks which have ended already: it would wait for ever.

        Spark's own allGather does, and nobody but Spark ends that.
        """
        if self._stages is None or not run.is_waiting:
            return
        state = run.state
        ended = run.find_ended(await asyncio.to_thread(self._stages.progress, run.stage))
        if ended == 0 or run.state != state or not run.is_waiting:
            return
        if state == "running":
            run.fail(
                f"{ended} of the {run.exchange.task_count} tasks ended without having sent the others all that is "
                "theirs. Either the code that reads its records stopped before the last one and still holds the "
                "iterator: close it, or drop it. Or Spark wanted no more of them, as for the limit() of a DataFrame: "
                "put a shuffle such as repartition() between"
            )
            return
        reason = (
            f"{ended} of the {run.exchange.task_count} tasks ended without taking part, which the others wait for: "
            "their results are in Spark's cache, which has lost those of the others. A pipelined exchange is "
            "computed whole or not at all: unpersist() its result and run the job again; persist it with "
            "StorageLevel.MEMORY_AND_DISK, or write it out"
        )
        run.fail(reason)
        if run.is_by_gather:
            with contextlib.suppress(Exception):  # the JVM may go at any moment
                await asyncio.to_thread(self._stages.cancel, run.stage, f"exchange {run.exchange.id}: {reason}")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = TaskConnection(reader, writer)
        exchange = None
        try:
            keep_alive(writer.get_extra_info("socket"))
            exchange = await self._greet(connection)
            if exchange is not None:
                await self._serve_task(exchange, connection)
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError) as error:
            logger.debug("a connection to the rendezvous ended: %r", error)
        except asyncio.CancelledError:
            pass  # it is closing; Python 3.11's streams would log a traceback of it
        finally:
            if exchange is not None:
                exchange.connection_count -= 1
            writer.close()

    async def _greet(self, connection: TaskConnection) -> Exchange | None:
        """Let the task prove what it is, within time and size; None if it does not."""
        if self._stranger_count >= STRANGERS_MAX:
            return None
        self._stranger_count += 1
        try:
            return await asyncio.wait_for(self._check_proof(connection), GREETING_TIMEOUT_S)
        finally:
            self._stranger_count -= 1

    async def _check_proof(self, connection: TaskConnection) -> Exchange | None:
        driver_nonce = new_nonce()
        connection.send({"flinkbuf": VERSION, "nonce": driver_nonce})
        said = await connection.receive(GREETING_LIMIT)
        exchange_id, task_nonce = text_of(said, "exchange"), text_of(said, "nonce")
        task_count = number_of(said, "tasks", 1)
        secret = self.secret_of(exchange_id, task_count)
        if not is_proof(text_of(said, "proof"), proof(secret, "task", exchange_id, driver_nonce, task_nonce)):
            logger.warning("the rendezvous refused a connection that does not know the secret of an exchange")
            return None
        connection.send({"proof": proof(secret, "driver", exchange_id, driver_nonce, task_nonce)})
        exchange = self._exchanges.setdefault(exchange_id, Exchange(exchange_id, task_count))
        exchange.connection_count += 1
        return exchange

    async def _serve_task(self, exchange: Exchange, connection: TaskConnection) -> None:
        run, member = await self._register(exchange, connection)
        if run is None:
            return
        try:
            while member.figures is None:
                await self._take(run, member, await connection.receive(TASK_LIMIT))
        except (OSError, asyncio.IncompleteReadError) as error:
            went = "went away without a word" if isinstance(error, asyncio.IncompleteReadError) else f"is lost: {error}"
            reason = f"{member.peer} {went}; its process was killed, or failed in code outside of the exchange"
            await self._fail(run, reason, member)

    async def _register(self, exchange: Exchange, connection: TaskConnection) -> tuple[Run | None, Member]:
        """Put a task into the run it belongs to; None if that is over."""
        said = await connection.receive(TASK_LIMIT)
        peer = Peer.from_message(said.get("register", {}))
        if peer.index >= exchange.task_count:
            raise ConnectionError(f"task {peer.index} of an exchange with {exchange.task_count} tasks")
        stage, attempt = number_of(said, "stage"), number_of(said, "attempt")
        member = Member(peer, attempt, connection)
        run = exchange.run_for(stage, peer.index, attempt, await self._attempt_of(stage, attempt, exchange.task_count))
        if run is None:
            connection.send({"failed": f"Spark has started a later attempt of stage {stage} than this task's"})
        elif run.state == "failed":
            await run.may_tell.wait()
            connection.send({"failed": run.reason})
        else:
            if not run.members:
                self._loop.call_later(GATHER_AFTER_S, run.go_by_gather, GATHER_AFTER_S)
            run.add(member)
            return run, member
        return None, member

    async def _attempt_of(self, stage: int, task: int, task_count: int) -> int | None:
        """Ask Spark which attempt of a stage a task is of; it may hear of the start later than the task is here."""
        if self._stages is None:
            return None
        for _ in range(ATTEMPT_LOOKS):
            attempt = await asyncio.to_thread(self._stages.attempt_of, stage, task, task_count)
            if attempt is not None:
                return attempt
            await asyncio.sleep(ATTEMPT_LOOK_S)
        return None

    async def _take(self, run: Run, member: Member, message: dict[str, Any]) -> None:
        """Act on what a task says."""
        if "failed" in message:
            member.figures = TaskFigures(member.peer.index)
            await self._fail(run, f"{member.peer} failed with {text_of(message, 'failed', TEXT_LIMIT)}", member)
        elif "done" in message:
            summary = run.finish(member, TaskFigures.from_message(member.peer.index, message["done"]))
            if summary is not None:
                self._summaries.append(summary)
                logger.info("%s", summary)
            member.connection.send({"goodbye": True})  # now the job may end: what it counted is here
        elif "met" in message:
            run.meet(member)
        elif "ended" in message:
            member.has_ended = True
        else:
            raise ConnectionError(f"a message of {', '.join(message)[:40]!r}")

    async def _fail(self, run: Run, reason: str, failed: Member) -> None:
        """Let a run fail with one of its tasks, and tell the others as soon as Spark knows of it.

        Spark shows its user the failure that it hears of first, and that has to be the cause.
        """
        if not run.begin_failing(reason):
            return
        deadline = time.monotonic() + FAILURE_WAIT_S
        while not await self._is_known_to_spark(run) and time.monotonic() < deadline:
            await asyncio.sleep(FAILURE_LOOK_S)
        run.tell_failure(failed)

    async def _is_known_to_spark(self, run: Run) -> bool:
        """Whether Spark has heard that a task of the run failed, or is at another attempt; or cannot be asked."""
        if self._stages is None:
            return True
        progress = await asyncio.to_thread(self._stages.progress, run.stage)
        return progress is None or progress.failed > 0 or progress.attempt > (run.attempt or 0)


# ---- the one of each SparkContext

_lock = threading.Lock()
_by_context: weakref.WeakKeyDictionary[SparkContext, Rendezvous] = weakref.WeakKeyDictionary()


def rendezvous_of(context: SparkContext) -> Rendezvous:
    """Return the rendezvous of a SparkContext, opened if it is not yet.

    It listens at ``spark.flinkbuf.driver.bindAddress`` (or ``spark.driver.bindAddress``), a port of
    ``spark.flinkbuf.driver.port``, and tells the tasks ``spark.flinkbuf.driver.host`` (or ``spark.driver.host``).

    Raises
    ------
    OSError
        If it cannot listen there.
    ValueError
        If the port's setting is none.
    """
    with _lock:
        known = _by_context.get(context)
        if known is not None and not known.is_closed:
            return known
        conf = context.getConf()
        host = conf.get("spark.flinkbuf.driver.host") or conf.get("spark.driver.host") or "127.0.0.1"
        bind_host = conf.get("spark.flinkbuf.driver.bindAddress") or conf.get("spark.driver.bindAddress") or host
        reference = weakref.ref(context)

        def is_over() -> bool:
            living = reference()
            return living is None or living._jsc is None  # PySpark's own sign of a context that was stopped

        ports = parse_ports(conf.get("spark.flinkbuf.driver.port") or "0")
        opened = Rendezvous(bind_host, host, ports, is_over, SparkStages(context))
        _by_context[context] = opened
        return opened


def summaries_of(context: SparkContext) -> list[ExchangeSummary]:
    """Return what the latest runs in a SparkContext counted, the last one last."""
    known = _by_context.get(context)
    return [] if known is None else known.summaries
