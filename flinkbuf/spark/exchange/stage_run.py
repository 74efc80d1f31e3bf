"""One attempt of Spark's to run the barrier stage of a pipelined exchange, as the driver's rendezvous sees it.

A run gathers its tasks, tells all of them where the others are, and is over when all have said what they counted, or
one has failed. Which attempt a task is of, and whether those that are waited for still run, is told by stage_progress.
Everything here is used on the rendezvous' thread only.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from flinkbuf.log import logger
from flinkbuf.spark.exchange.membership import Peer, decode_message, encode_message, message_length
from flinkbuf.spark.exchange.summary import ExchangeSummary, TaskFigures
from flinkbuf.spark.stage_progress import StageProgress

RUNS_KEPT_S = 60.0  # from its start, so long a run that is over is remembered, for tasks that come late
ENDED_LOOKS = 3  # so many times in a row tasks were found to have ended without a word


class TaskConnection:
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
    connection: TaskConnection
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
    may_tell: asyncio.Event = field(default_factory=asyncio.Event, repr=False)  # why it failed

    @property
    def is_over(self) -> bool:
        """Whether no task can register any more."""
        return self.state in ("failed", "done")

    @property
    def is_left(self) -> bool:
        """Whether all tasks that registered have said that they are done."""
        return self.done_count == len(self.members)

    @property
    def done_count(self) -> int:
        """How many tasks have said that they are done."""
        return sum(member.figures is not None for member in self.members.values())

    @property
    def known_count(self) -> int:
        """How many tasks have said that they are done, or only send the rest after Spark counts them as ended."""
        return sum(member.figures is not None or member.has_ended for member in self.members.values())

    @property
    def waiting_count(self) -> int:
        """How many tasks have registered and wait for others to do so."""
        if self.state != "gathering":
            return 0
        return sum(not member.has_met and member.figures is None for member in self.members.values())

    @property
    def is_waiting(self) -> bool:
        """Whether tasks of the run wait for each of the others: for it to register, or for its records."""
        return self.state == "running" or self.waiting_count > 0

    def find_ended(self, progress: StageProgress | None) -> int:
        """Return how many tasks Spark counts as completed that never told the driver so; 0 while that is not certain.

        It is certain when `ENDED_LOOKS` looks in a row agree: some tasks are completed that have not said so, and all
        others, which wait for them, still run. That is how it cannot be mistaken for the figures of an earlier attempt,
        which Spark may still show: they have no active tasks.
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
        """Register a task; once all have, or cannot all come, tell them how to find each other."""
        self.members[member.peer.index] = member
        if self.is_by_gather:
            member.connection.send({"gather": True})
        elif len(self.members) == self.exchange.task_count:
            self.state = "running"
            peers = [self.members[index].peer.to_message() for index in sorted(self.members)]
            self._tell_all({"peers": peers})

    def meet(self, member: Member) -> None:
        """Note that a task has learned the others' addresses in allGather and no longer waits for any to register."""
        member.has_met = True
        if not self.is_over and sum(one.has_met for one in self.members.values()) == self.exchange.task_count:
            self.state = "running"

    def go_by_gather(self, seconds: float) -> None:
        """Send the registered tasks to Spark's allGather: the others, so late, may be unable to reach the driver."""
        if self.state != "gathering" or self.is_by_gather:
            return
        logger.warning(
            "exchange %s, stage %d: %d of %d tasks reached the driver within %g s; they find each other by Spark's "
            "allGather, which takes a second",
            self.exchange.id,
            self.stage,
            len(self.members),
            self.exchange.task_count,
            seconds,
        )
        self.is_by_gather = True
        self._tell_all({"gather": True})

    def fail(self, reason: str) -> None:
        """Let the run fail for what none of its tasks did, and tell all of them, once."""
        if self.begin_failing(reason):
            self.tell_failure()

    def begin_failing(self, reason: str) -> bool:
        """Note that the run has failed, and why; its tasks learn of it by `tell_failure`. False if it was over."""
        if self.is_over:
            return False
        self.state = "failed"
        self.reason = reason
        logger.warning("exchange %s, stage %d: %s", self.exchange.id, self.stage, reason)
        return True

    def tell_failure(self, failed: Member | None = None) -> None:
        """Tell all tasks but the failed one why the run failed."""
        self.may_tell.set()
        for member in self.members.values():
            if member is not failed and member.figures is None:
                member.connection.send({"failed": self.reason})

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
            member.connection.send_bytes(encoded)


@dataclass
class Exchange:
    """One call of exchange(), while its tasks run: the latest run of each stage that Spark made of it."""

    id: str
    task_count: int
    runs: dict[int, Run] = field(default_factory=dict)  # by stage
    connection_count: int = 0  # of tasks that have proved to be its own

    @property
    def is_unused(self) -> bool:
        """Whether there is nothing to remember of it; should Spark compute it again, it starts anew."""
        return not self.runs and self.connection_count == 0

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
