"""What becomes of the runs of pipelined exchanges, decided at the driver: who meets whom, who is gone, what is over.

A run is one attempt of Spark's to compute the barrier stage of an exchange. It gathers its tasks, tells all of them
where the others are, and is over when all have said what they counted, or one is gone. A connection that ends without a
last word is that of a task which is gone, and Spark is asked why. Spark is asked, too, whether all that are waited for
still run: nobody else knows of a task that failed before it came, or ended without ever coming.

Nothing here waits, reads a clock or talks to anybody: `rendezvous` does. Nothing is remembered of an exchange but while
its tasks run, and a little longer for tasks that come late.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flinkbuf.spark.exchange.messages import (
    DriverMessage,
    ExchangeFailed,
    Goodbye,
    Peer,
    Peers,
    Register,
    TaskDone,
    TaskFailed,
    TaskMessage,
)
from flinkbuf.spark.exchange.summary import ExchangeSummary, TaskFigures
from flinkbuf.spark.stage.barrier_task import is_refused_part
from flinkbuf.spark.stage.stage_attempts import StageAttempts, TaskAdmission
from flinkbuf.spark.stage.stage_progress import AttemptTasks, StageProgress, TaskEnd

LOOK_MS = 1000  # how often Spark is asked about a run
FAILURE_LOOK_MS = 20  # the same while a failure waits to be told until Spark knows of it
FAILURE_WAIT_MS = 2000  # so long the others are not told of a failure that Spark has not heard of
RUNS_KEPT_MS = 60_000  # from its start, so long a run that is over is remembered, for tasks that come late

# ---- what is heard of; a task is known by its connection, whatever that is here


@dataclass(frozen=True)
class PeerSaid:
    """A task has sent a message.

    With the first one comes which attempt the task is of, where that was not known, and from the third attempt on what
    failed in the ones before, the latest one last.
    """

    connection: Any
    exchange_id: str
    task_count: int
    message: TaskMessage
    attempt: AttemptTasks | None = None
    earlier_failures: Sequence[Sequence[TaskEnd]] = ()


@dataclass(frozen=True)
class PeerGone:
    """A task's connection has ended."""

    connection: Any
    reason: str


@dataclass(frozen=True)
class StageFound:
    """What Spark answers to `FindStage`; no progress: it cannot be asked."""

    exchange_id: str
    stage: int
    progress: StageProgress | None
    failures: Sequence[TaskEnd] = ()
    end: TaskEnd | None = None


Stimulus = PeerSaid | PeerGone | StageFound

# ---- what is to be done


@dataclass(frozen=True)
class Tell:
    """Send a message to tasks."""

    connections: tuple[Any, ...]
    message: DriverMessage


@dataclass(frozen=True)
class FindStage:
    """Ask Spark how far a stage is, who has failed, and how one task, if it is named, has ended."""

    exchange_id: str
    stage: int
    attempt: AttemptTasks | None
    is_failing: bool = False
    task: int | None = None


@dataclass(frozen=True)
class Note:
    """Log how a run went, and keep its counts if it came to its end."""

    text: str
    summary: ExchangeSummary | None = None


@dataclass(frozen=True)
class GiveUp:
    """Have Spark fail the job whose stage this is, instead of starting the stage once more."""

    stage: int
    reason: str


Action = Tell | FindStage | Note | GiveUp


@dataclass
class _Member:
    """One task of a run."""

    connection: Any
    peer: Peer
    task: int
    is_over: bool = False  # it has said its last word, or is gone
    figures: TaskFigures | None = None  # once it is done


@dataclass
class _Run:
    """One attempt of Spark's to run the barrier stage of an exchange."""

    exchange_id: str
    stage: int
    attempts: StageAttempts
    started_ms: int
    look_at_ms: int | None  # when to ask Spark; None: it is being asked, or need not be
    state: str = "gathering"  # then "running" and "done", or "failing", while nobody is told, and "failed"
    members: dict[int, _Member] = field(default_factory=dict)
    reason: str = ""
    lost: _Member | None = None  # who is gone without a word
    tell_at_ms: int = 0  # when the others are told of the failure, whatever Spark knows

    def waiting(self) -> list[_Member]:
        """Return the members that have not reported their end."""
        return [member for member in self.members.values() if not member.is_over]

    @property
    def is_watched(self) -> bool:
        """Whether Spark is to be asked about it: a task of it waits, maybe for what never comes."""
        return self.state == "failing" or (self.state in ("gathering", "running") and bool(self.waiting()))


class ExchangeRuns:
    """Decides for all pipelined exchanges of one driver. Owns no socket, thread or clock.

    Examples
    --------
    >>> runs, peer = ExchangeRuns(), Peer(0, "10.0.0.7", 7001, "ab" * 60, 4711)
    >>> said = PeerSaid("its connection", "ff", 1, Register(peer, stage=3, task=9), AttemptTasks(0, 9, 1))
    >>> (told,) = runs.handle(said, now_ms=2)
    >>> told.connections, [str(peer) for peer in told.message.peers]
    (('its connection',), ['task 0 (process 4711 at 10.0.0.7:7001)'])
    """

    def __init__(self) -> None:
        self._members: dict[Any, tuple[_Run, _Member]] = {}  # by connection
        self._runs: dict[tuple[str, int], _Run] = {}  # by exchange and stage: the latest
        self._actions: list[Action] = []
        self._now = 0

    @property
    def next_deadline_ms(self) -> int | None:
        """When it wants to be called, whatever comes; None: only if something does."""
        looks = [run.look_at_ms for run in self._runs.values() if run.look_at_ms is not None]
        return min(looks, default=min((run.started_ms + RUNS_KEPT_MS for run in self._runs.values()), default=None))

    def knows_attempt_of(self, exchange_id: str, first: Register) -> bool:
        """Whether Spark need not be asked which attempt a task is of that registers."""
        run = self._runs.get((exchange_id, first.stage))
        return run is not None and run.attempts.knows(first.task)

    def handle(self, stimulus: Stimulus | None, now_ms: int) -> list[Action]:
        """Return what is to be done, in this order, about what was heard of; None: nothing was, but time has passed."""
        self._actions, self._now = [], now_ms
        if isinstance(stimulus, PeerSaid):
            self._hear(stimulus)
        elif isinstance(stimulus, PeerGone):
            self._miss(stimulus)
        elif isinstance(stimulus, StageFound):
            self._look(stimulus)
        self._ask_and_forget()
        return self._actions

    # ---- the way in

    def _hear(self, said: PeerSaid) -> None:
        message, (run, member) = said.message, self._members.get(said.connection, (None, None))
        if run is None or member is None:
            if isinstance(message, Register) and message.peer.is_one_of(said.task_count):
                self._admit(said, message)
            elif not isinstance(message, TaskFailed):  # it failed before it came that far, or was sent away
                self._tell([said.connection], ExchangeFailed("what this task said makes no sense to the driver"))
        elif isinstance(message, TaskFailed):
            member.is_over = True
            self._begin_failing(run, f"{member.peer} failed with {message.reason}")
        elif isinstance(message, TaskDone):
            member.is_over, member.figures = True, replace(message.figures, index=member.peer.index)
            self._sum_up(run)
            self._tell([member.connection], Goodbye())  # now the job may end: what it counted is here

    def _admit(self, said: PeerSaid, message: Register) -> None:
        """Put a task into the run it belongs to, or send it away."""
        stage, run = message.stage, self._runs.get((said.exchange_id, message.stage))
        attempts = StageAttempts(said.task_count) if run is None else run.attempts
        admission = attempts.admit(message.peer.index, message.task, said.attempt)
        if admission is TaskAdmission.OLD:
            reason = f"Spark has started a later attempt of stage {stage} than this task's"
            self._tell([said.connection], ExchangeFailed(reason))
            return
        if run is None or admission is TaskAdmission.NEW:
            if run is not None:
                self._fail(run, f"Spark has started stage {stage} again")
            run = _Run(said.exchange_id, stage, attempts, self._now, self._now + LOOK_MS)
            self._runs[said.exchange_id, stage] = run
        member = run.members[message.peer.index] = _Member(said.connection, message.peer, message.task)
        self._members[said.connection] = run, member
        repeated = _repeated_error(said.earlier_failures)
        if repeated and run.state == "gathering":
            self._give_up(run, repeated)
        elif run.state == "failed":
            self._tell([member.connection], ExchangeFailed(run.reason))
        elif run.state == "gathering" and len(run.members) == said.task_count:
            run.state = "running"
            peers = tuple(run.members[index].peer for index in range(said.task_count))
            self._tell([member.connection for member in run.members.values()], Peers(peers))

    # ---- the way out

    def _sum_up(self, run: _Run) -> None:
        """Note what the run has counted, if all of its tasks are done."""
        figures = [member.figures for member in run.members.values() if member.figures is not None]
        if run.state == "running" and len(figures) == run.attempts.task_count:
            run.state = "done"
            figures.sort(key=lambda one: one.index)
            seconds = (self._now - run.started_ms) / 1000
            summary = ExchangeSummary(run.exchange_id, run.stage, seconds, tuple(figures))
            self._actions.append(Note(str(summary), summary))

    def _miss(self, gone: PeerGone) -> None:
        """A task that is gone without a last word takes the others with it."""
        run, member = self._members.pop(gone.connection, (None, None))
        if run is None or member is None or member.is_over:
            return
        member.is_over = True
        if run.state in ("gathering", "running"):
            run.lost = member
            self._begin_failing(run, f"{member.peer} went away without a word ({gone.reason})")

    def _begin_failing(self, run: _Run, reason: str) -> None:
        """Let a run fail with one of its tasks, and tell the others as soon as Spark knows of it.

        Spark shows its user the failure that it hears of first, and that has to be the cause.
        """
        if run.state in ("gathering", "running"):
            run.state, run.reason = "failing", reason
            run.tell_at_ms, run.look_at_ms = self._now + FAILURE_WAIT_MS, self._now

    def _fail(self, run: _Run, reason: str) -> None:
        """Tell the tasks that wait why their run has failed, at once; the first reason counts."""
        self._begin_failing(run, reason)
        if run.state == "failing":
            run.state, run.look_at_ms = "failed", None
            self._actions.append(Note(f"exchange {run.exchange_id}, stage {run.stage}: {run.reason}"))
            self._tell([member.connection for member in run.waiting()], ExchangeFailed(run.reason))

    def _give_up(self, run: _Run, error: str) -> None:
        """End an attempt before it begins, and Spark's job with it: two before have failed in the same way."""
        reason = f"a task failed with {error}, and so did one of the attempt before: it is not tried a third time"
        self._actions.append(GiveUp(run.stage, f"exchange {run.exchange_id}: {reason}"))
        self._fail(run, reason)

    def _tell(self, connections: Sequence[Any], message: DriverMessage) -> None:
        if connections:
            self._actions.append(Tell(tuple(connections), message))

    # ---- what Spark knows

    def _look(self, found: StageFound) -> None:
        run, progress = self._runs.get((found.exchange_id, found.stage)), found.progress
        if run is None or not run.is_watched:
            return
        if run.state == "failing":
            self._look_for_cause(run, found)
        elif progress is not None and run.attempts.is_superseded(progress):
            self._fail(run, f"Spark has started stage {run.stage} again")
        elif progress is not None and run.attempts.has_failed(progress):
            self._fail(run, _failure(run, found.failures))
        else:
            self._look_for_ended(run, progress)
        if run.is_watched:
            run.look_at_ms = self._now + (FAILURE_LOOK_MS if run.state == "failing" else LOOK_MS)

    def _look_for_cause(self, run: _Run, found: StageFound) -> None:
        """Tell of a failure if Spark has heard of it, is at another attempt, or cannot be asked."""
        lost, progress = run.lost, found.progress
        if lost is not None and found.end is not None and found.end.task == lost.task:
            run.reason = f"{run.reason}; Spark says: {found.end.reason}" if found.end.is_failed else _unwanted(lost)
        elif lost is not None and found.failures:
            run.reason = _failure(run, found.failures)
        is_known = progress is None or progress.failed > 0 or run.attempts.is_superseded(progress)
        if is_known or found.failures or found.end is not None or self._now >= run.tell_at_ms:
            self._fail(run, run.reason)

    def _look_for_ended(self, run: _Run, progress: StageProgress | None) -> None:
        """End a run that waits for tasks which have ended already: it would wait for ever."""
        known = sum(member.figures is not None for member in run.members.values())
        ended = run.attempts.ended_without_a_word(progress, known, -1 if run.state == "running" else len(run.waiting()))
        if ended:
            what = _ENDED_WHILE_RUNNING if run.state == "running" else _ENDED_WHILE_GATHERING
            self._fail(run, f"{ended} of the {run.attempts.task_count} tasks ended without {what}")

    def _ask_and_forget(self) -> None:
        for key, run in list(self._runs.items()):
            if not run.is_watched:
                run.look_at_ms = None
                if run.started_ms + RUNS_KEPT_MS <= self._now:
                    del self._runs[key]
            elif run.look_at_ms is not None and run.look_at_ms <= self._now:
                run.look_at_ms = None
                task = None if run.lost is None else run.lost.task
                self._actions.append(FindStage(*key, run.attempts.current, run.state == "failing", task))


# ---- sentences

_ENDED_WHILE_RUNNING = (
    "having sent the others all that is theirs: Spark wanted no more of their records, as for the limit() of a "
    "DataFrame: put a shuffle such as repartition() between. Or a thread that goes on after its task reads from them"
)
_ENDED_WHILE_GATHERING = (
    "taking part, which the others wait for: their results are in Spark's cache, which has lost those of the others. "
    "A pipelined exchange is computed whole or not at all: unpersist() its result and run the job again; persist it "
    "with StorageLevel.MEMORY_AND_DISK, or write it out"
)


# How the errors begin of tasks that failed for what happened to others.
_OF_OTHERS = re.compile(
    r"(flinkbuf\.errors\.)?(PeerFailed|RemoteTransport|PartitionNotFound|CancelTask|CorruptData)Error\b"
)


def _repeated_error(attempts: Sequence[Sequence[TaskEnd]]) -> str:
    """Return an error of a function that tasks of the last two attempts failed with; empty if there is none.

    An attempt that Spark began in part counts for nothing: its tasks refused to run. And there is none if something
    else went wrong, too: a lost executor, files of a shuffle that are gone, a process that was killed. That may go well
    the next time.
    """
    ran = [
        failures for failures in attempts if not failures or not all(is_refused_part(end.reason) for end in failures)
    ]
    if len(ran) < 2 or not all(end.is_raised for failures in ran[-2:] for end in failures):
        return ""
    common = set.intersection(*({end.reason for end in failures} for failures in ran[-2:]))
    return min((reason for reason in common if not _OF_OTHERS.match(reason)), default="")


def _unwanted(lost: _Member) -> str:
    return (
        f"{lost.peer} was ended before it had sent the others all that is theirs: Spark wanted no more of its records, "
        "as for the limit() of a DataFrame: put a shuffle such as repartition() between"
    )


def _failure(run: _Run, failures: Sequence[TaskEnd]) -> str:
    """Name the first task that Spark knows to have failed, whether it ever came or not."""
    if not failures:
        return f"a task of stage {run.stage} failed"
    first = failures[0]
    who = [str(member.peer) for member in run.members.values() if member.task == first.task]
    return f"{who[0] if who else f'task {first.task} of Spark, which had not come yet,'} failed with {first.reason}"
