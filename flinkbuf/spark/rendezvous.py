"""Where the tasks of a pipelined exchange find each other: a socket of the driver.

One socket and one background thread serve all exchanges of a SparkContext, from the first one on and until the
context stops. Tasks connect, prove that they know their exchange's secret, and say where they listen; when all tasks
of a barrier stage are in, each learns the others' addresses. The lines stay open: the driver passes on who fails and
why, counts one that breaks off as dead, and collects what the tasks counted. What the tasks say: membership.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flinkbuf.network import parse_ports
from flinkbuf.spark.exchange_summary import ExchangeSummary, TaskFigures
from flinkbuf.spark.membership import (
    GREETING_LIMIT,
    TASK_LIMIT,
    TEXT_LIMIT,
    VERSION,
    Peer,
    decode_message,
    encode_message,
    is_proof,
    keep_alive,
    message_length,
    new_nonce,
    number_of,
    proof,
    text_of,
)
from flinkbuf.spark.stage_progress import SparkStages, StageProgress, Stages

if TYPE_CHECKING:
    from pyspark import SparkContext

GREETING_TIMEOUT_S = 10.0  # a connection that has not proved anything by then is closed
GATHER_AFTER_S = 10.0  # if by then not all tasks are here, some may be unable to come: all go to allGather
STRANGERS_MAX = 1024  # connections at once that have not proved anything
RUNS_KEPT_S = 60.0  # from its start, so long a run that is over is remembered, for tasks that come late
SUMMARIES_KEPT = 100
LOOK_S = 1.0  # how often the thread looks whether its context has stopped, and after runs that do not get going
ATTEMPT_LOOK_S = 0.05
ATTEMPT_LOOKS = 10  # so often Spark is asked which attempt a task is of, before its number has to tell
ENDED_LOOKS = 3  # so many times in a row tasks were found to have ended without a word

logger = logging.getLogger("flinkbuf")


class Line:
    """One task's connection, as the driver holds it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self, limit: int) -> dict[str, Any]:
        """Wait for a message; ConnectionError or asyncio.IncompleteReadError if none comes any more."""
        length = message_length(await self._reader.readexactly(4), limit)
        return decode_message(await self._reader.readexactly(length))

    def send(self, message: dict[str, Any]) -> None:
        """Send without waiting; what cannot be sent is found out by `receive`."""
        self.send_bytes(encode_message(message))

    def send_bytes(self, message: bytes) -> None:
        """The same with a message that is encoded already."""
        if not self._writer.is_closing():
            self._writer.write(message)


@dataclass
class Member:
    """One task of a run."""

    peer: Peer
    attempt: int
    line: Line
    has_met: bool = False  # the others, in allGather
    has_ended: bool = False  # as Spark may see it: its worker still sends the rest
    figures: TaskFigures | None = None  # once it is done


@dataclass
class Run:
    """One attempt of Spark's to run the barrier stage of an exchange.

    Attributes
    ----------
    attempt : int, optional
        Which one it is, as soon as that is known.
    state : {"gathering", "running", "failed", "done"}
    reason : str
        Why it failed.
    """

    exchange: Exchange
    stage: int
    attempt: int | None = None
    state: str = "gathering"
    members: dict[int, Member] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    is_by_gather: bool = False
    ended_looks: int = 0
    reason: str = ""

    @property
    def is_over(self) -> bool:
        """Whether no task can come in any more."""
        return self.state in ("failed", "done")

    @property
    def is_left(self) -> bool:
        """Whether all tasks that came have gone in good order."""
        return all(member.figures is not None for member in self.members.values())

    @property
    def done_count(self) -> int:
        """How many tasks have gone in good order."""
        return sum(member.figures is not None for member in self.members.values())

    @property
    def known_count(self) -> int:
        """How many tasks have gone in good order, or still send the rest after their end."""
        return sum(member.figures is not None or member.has_ended for member in self.members.values())

    @property
    def waiting_count(self) -> int:
        """How many tasks have come and wait for others to come."""
        if self.state != "gathering":
            return 0
        return sum(not member.has_met and member.figures is None for member in self.members.values())

    def find_ended(self, progress: StageProgress | None) -> int:
        """Return how many tasks have ended without a word, before or after they came; 0 as long as that is not certain.

        While tasks wait for each other none of them ends. Figures of an attempt that is over, where Spark is late with the
        new one's, have no active tasks.
        """
        ended = active = 0
        if progress is not None and progress.attempt >= (self.attempt or 0):
            ended, active = progress.completed - self.known_count, progress.active
        left = self.exchange.task_count - self.known_count - ended if self.state == "running" else self.waiting_count
        is_seen = ended > 0 and active >= left > 0
        self.ended_looks = self.ended_looks + 1 if is_seen else 0
        return ended if self.ended_looks >= ENDED_LOOKS else 0

    def is_of_same_attempt(self, index: int, attempt: int) -> bool:
        """Whether a task can be of the same attempt as those that came: Spark numbers the tasks of one in a row."""
        if index in self.members:
            return False
        attempts = [attempt, *(member.attempt for member in self.members.values())]
        return max(attempts) - min(attempts) < self.exchange.task_count

    def is_newer_than(self, attempt: int) -> bool:
        """Whether Spark has started tasks of this run later than that one."""
        return any(member.attempt > attempt for member in self.members.values())

    def add(self, member: Member) -> None:
        """Take a task in; when all are here, or cannot all come, tell them."""
        self.members[member.peer.index] = member
        if self.is_by_gather:
            member.line.send({"gather": True})
        elif len(self.members) == self.exchange.task_count:
            self.state = "running"
            peers = [self.members[index].peer.to_message() for index in sorted(self.members)]
            self._tell_all({"peers": peers})

    def meet(self, member: Member) -> None:
        """Note that a task has met the others in allGather: it waits for nobody to come any more."""
        member.has_met = True
        if not self.is_over and sum(one.has_met for one in self.members.values()) == self.exchange.task_count:
            self.state = "running"

    def go_by_gather(self) -> None:
        """Some tasks may be unable to reach the driver: those that did meet them in Spark's own allGather."""
        if self.state != "gathering" or self.is_by_gather:
            return
        logger.warning(
            "exchange %s, stage %d: %d of %d tasks reached the driver within %g s; they find each other by Spark's "
            "allGather, which takes a second",
            self.exchange.id, self.stage, len(self.members), self.exchange.task_count, GATHER_AFTER_S,
        )  # fmt: skip
        self.is_by_gather = True
        self._tell_all({"gather": True})

    def fail(self, reason: str, failed: Member | None = None) -> None:
        """Tell all tasks but the failed one, once."""
        if self.is_over:
            return
        self.state = "failed"
        self.reason = reason
        logger.warning("exchange %s, stage %d: %s", self.exchange.id, self.stage, reason)
        for member in self.members.values():
            if member is not failed and member.figures is None:
                member.line.send({"failed": reason})

    def finish(self, member: Member, figures: TaskFigures) -> ExchangeSummary | None:
        """Take a task's counts; returns the summary if it was the last."""
        member.figures = figures
        if self.is_over or self.done_count < self.exchange.task_count:
            return None
        self.state = "done"
        done = [one.figures for one in self.members.values() if one.figures is not None]
        done.sort(key=lambda one: one.index)
        return ExchangeSummary(self.exchange.id, self.stage, time.monotonic() - self.started, tuple(done))

    def _tell_all(self, message: dict[str, Any]) -> None:
        encoded = encode_message(message)  # once: the peers of a thousand tasks are 300 KB
        for member in self.members.values():
            member.line.send_bytes(encoded)


@dataclass
class Exchange:
    """One call of exchange(): its secret, and the latest run of each stage that Spark made of it."""

    id: str
    secret: bytes = field(repr=False)
    task_count: int
    runs: dict[int, Run] = field(default_factory=dict)  # by stage

    def run_for(self, stage: int, index: int, task_attempt: int, attempt: int | None) -> Run | None:
        """Return the run that a task belongs to, a new one if it is the first of its own; None if that is superseded.

        Parameters
        ----------
        stage, index, task_attempt : int
            What the task says of itself.
        attempt : int, optional
            Which one of the stage it is, if that is known.
        """
        run = self.runs.get(stage)
        if run is not None:
            if attempt is None or run.attempt is None:
                is_same, is_old = run.is_of_same_attempt(index, task_attempt), run.is_newer_than(task_attempt)
            else:
                is_same, is_old = attempt == run.attempt, attempt < run.attempt
            if is_same:
                run.attempt = attempt if run.attempt is None else run.attempt
                return run
            if is_old:
                return None
            run.fail(f"Spark has started stage {stage} again")
        self.runs[stage] = run = Run(self, stage, attempt)
        return run

    def forget_runs(self) -> None:
        """Drop those that are over, some time after they began."""
        earliest = time.monotonic() - RUNS_KEPT_S
        for stage, run in list(self.runs.items()):
            if (run.is_over or run.is_left) and run.started <= earliest:
                del self.runs[stage]


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
        self._socket = listen(bind_host, ports)
        self.address: tuple[str, int] = (host, self._socket.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="flinkbuf-rendezvous", daemon=True)
        self._thread.start()

    def add(self, exchange_id: str, secret: bytes, task_count: int) -> None:
        """Expect the tasks of one more exchange."""
        self._exchanges[exchange_id] = Exchange(exchange_id, secret, task_count)

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
                    for run in list(exchange.runs.values()):
                        await self._look_after(run)
        finally:
            server.close()

    async def _look_after(self, run: Run) -> None:
        """End a run that waits for tasks which have ended already: it would wait for ever.

        Spark's own allGather does, and nobody but Spark ends that.
        """
        if self._stages is None or (run.state != "running" and run.waiting_count == 0):
            return
        state = run.state
        ended = run.find_ended(await asyncio.to_thread(self._stages.progress, run.stage))
        if ended == 0 or run.state != state:
            return
        if state == "running":
            run.fail(
                f"{ended} of the {run.exchange.task_count} tasks ended without having sent the others all that is theirs: "
                "what takes the records stopped before the last one, and still holds the iterator. Close it, or let it go"
            )
            return
        if run.waiting_count == 0:
            return
        reason = (
            f"{ended} of the {run.exchange.task_count} tasks ended without taking part, which the others wait for: their "
            "results are in Spark's cache, which has lost those of the others. A pipelined exchange is computed whole or "
            "not at all: unpersist() its result and run the job again; persist it with StorageLevel.MEMORY_AND_DISK, or "
            "write it out"
        )
        run.fail(reason)
        if run.is_by_gather:
            with contextlib.suppress(Exception):  # the JVM may go at any moment
                await asyncio.to_thread(self._stages.cancel, run.stage, f"exchange {run.exchange.id}: {reason}")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(reader, writer)
        try:
            keep_alive(writer.get_extra_info("socket"))
            exchange = await self._greet(line)
            if exchange is not None:
                await self._serve_task(exchange, line)
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError) as error:
            logger.debug("a connection to the rendezvous ended: %r", error)
        except asyncio.CancelledError:
            pass  # it is closing; Python 3.11's streams would log a traceback of it
        finally:
            writer.close()

    async def _greet(self, line: Line) -> Exchange | None:
        """Let the task prove what it is, within time and size; None if it does not."""
        if self._stranger_count >= STRANGERS_MAX:
            return None
        self._stranger_count += 1
        try:
            return await asyncio.wait_for(self._check_proof(line), GREETING_TIMEOUT_S)
        finally:
            self._stranger_count -= 1

    async def _check_proof(self, line: Line) -> Exchange | None:
        driver_nonce = new_nonce()
        line.send({"flinkbuf": VERSION, "nonce": driver_nonce})
        said = await line.receive(GREETING_LIMIT)
        exchange_id, task_nonce = text_of(said, "exchange"), text_of(said, "nonce")
        exchange = self._exchanges.get(exchange_id)
        secret = new_nonce().encode() if exchange is None else exchange.secret  # one that nobody knows
        expected = proof(secret, "task", exchange_id, driver_nonce, task_nonce)
        if not is_proof(text_of(said, "proof"), expected) or exchange is None:
            logger.warning("the rendezvous refused a connection that does not know the secret of an exchange")
            return None
        line.send({"proof": proof(secret, "driver", exchange_id, driver_nonce, task_nonce)})
        return exchange

    async def _serve_task(self, exchange: Exchange, line: Line) -> None:
        run, member = await self._register(exchange, line)
        if run is None:
            return
        try:
            while member.figures is None:
                self._take(run, member, await line.receive(TASK_LIMIT))
        except (OSError, asyncio.IncompleteReadError) as error:
            went = "went away without a word" if isinstance(error, asyncio.IncompleteReadError) else f"is lost: {error}"
            run.fail(f"{member.peer} {went}; its process was killed, or failed in code outside of the exchange", member)

    async def _register(self, exchange: Exchange, line: Line) -> tuple[Run | None, Member]:
        """Put a task into the run it belongs to; None if that is over."""
        said = await line.receive(TASK_LIMIT)
        peer = Peer.from_message(said.get("register", {}))
        if peer.index >= exchange.task_count:
            raise ConnectionError(f"task {peer.index} of an exchange with {exchange.task_count} tasks")
        stage, attempt = number_of(said, "stage"), number_of(said, "attempt")
        member = Member(peer, attempt, line)
        run = exchange.run_for(stage, peer.index, attempt, await self._attempt_of(stage, attempt, exchange.task_count))
        if run is None:
            line.send({"failed": f"Spark has started a later attempt of stage {stage} than this task's"})
        elif run.state == "failed":
            line.send({"failed": run.reason})
        else:
            if not run.members:
                self._loop.call_later(GATHER_AFTER_S, run.go_by_gather)
            run.add(member)
            return run, member
        return None, member

    async def _attempt_of(self, stage: int, task: int, task_count: int) -> int | None:
        """Ask Spark which attempt of a stage a task is of; it may hear of the task's start later than the task is here."""
        if self._stages is None:
            return None
        for _ in range(ATTEMPT_LOOKS):
            attempt = await asyncio.to_thread(self._stages.attempt_of, stage, task, task_count)
            if attempt is not None:
                return attempt
            await asyncio.sleep(ATTEMPT_LOOK_S)
        return None

    def _take(self, run: Run, member: Member, message: dict[str, Any]) -> None:
        """Act on what a task says."""
        if "failed" in message:
            member.figures = TaskFigures(member.peer.index)
            run.fail(f"{member.peer} failed with {text_of(message, 'failed', TEXT_LIMIT)}", member)
        elif "done" in message:
            summary = run.finish(member, TaskFigures.from_message(member.peer.index, message["done"]))
            if summary is not None:
                self._summaries.append(summary)
                logger.info("%s", summary)
            member.line.send({"goodbye": True})  # now the job may end: what it counted is here
        elif "met" in message:
            run.meet(member)
        elif "ended" in message:
            member.has_ended = True
        else:
            raise ConnectionError(f"a message of {', '.join(message)[:40]!r}")


def listen(host: str, ports: Iterable[int]) -> socket.socket:
    """Return a socket that listens at the first of `ports` that is free; OSError if none is."""
    tried = 0
    error: OSError = OSError("no port was given")
    for port in ports:
        tried += 1
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            listening = socket.socket(family, socket.SOCK_STREAM)
            try:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind(address)
                listening.listen(STRANGERS_MAX)
            except OSError:
                listening.close()
                raise
            return listening
        except OSError as failure:
            error = failure
    raise OSError(f"cannot listen at {host} on any of {tried} ports: {error}") from error


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
        bind_host = (
            conf.get("spark.flinkbuf.driver.bindAddress") or conf.get("spark.driver.bindAddress") or host
        )
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
