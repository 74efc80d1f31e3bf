"""What becomes of the runs of pipelined exchanges, decided at the driver: who meets whom, who is gone, what is over.

A run is one attempt of Spark's to compute the barrier stage of an exchange. It gathers its tasks, tells all of them
where the others are, and is over when all have said what they counted, or one is gone. A connection that ends without a
last word is that of a task which is gone, and Spark is asked why. Spark is asked, too, whether all that are waited for
still run: nothing else knows of a task that failed before it came, or ended without ever coming.

Nothing here waits, reads a clock or talks to anybody: `rendezvous` does. Nothing is remembered of an exchange but while
its tasks run, and a little longer for tasks that come late.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from flinkbuf.spark.exchange.messages import (
    TEXT_LIMIT,
    DriverMessage,
    Goodbye,
    Peer,
    Peers,
    Register,
    RunFailed,
    TaskDone,
    TaskFailed,
    TaskLeaves,
    TaskMessage,
)
from flinkbuf.spark.exchange.summary import ExchangeSummary, TaskFigures
from flinkbuf.spark.stage_attempts import Admission, StageAttempts
from flinkbuf.spark.stage_progress import AttemptTasks, StageProgress, TaskEnd

LOOK_MS = 1000  # how often Spark is asked about a run
LEAVING_LOOK_MS = 100  # the same while a task sends others theirs that Spark may count as ended, well or not
FAILURE_LOOK_MS = 20  # the same while a failure is told as soon as Spark knows of it
FAILURE_WAIT_MS = 2000  # so long the others are not told of a failure that Spark has not heard of
ATTEMPT_LOOK_MS = 50
ATTEMPT_LOOKS = 10  # so often Spark is asked which attempt a task is of, before its number has to tell
RUNS_KEPT_MS = 60_000  # from its start, so long a run that is over is remembered, for tasks that come late

# ---- what is heard of; a task is known by the number of its connection


@dataclass(frozen=True)
class TaskSaid:
    """A task has sent a message."""

    connection: int
    exchange_id: str
    task_count: int
    message: TaskMessage


@dataclass(frozen=True)
class TaskGone:
    """A task's connection has ended."""

    connection: int
    reason: str


@dataclass(frozen=True)
class AttemptFound:
    """What Spark answers to `FindAttempt`."""

    connection: int
    attempt: AttemptTasks | None


@dataclass(frozen=True)
class StageFound:
    """What Spark answers to `FindStage`."""

    exchange_id: str
    stage: int
    progress: StageProgress | None
    failures: tuple[TaskEnd, ...] = ()
    end: TaskEnd | None = None


@dataclass(frozen=True)
class TimePassed:
    """Something may be due."""


Stimulus = TaskSaid | TaskGone | AttemptFound | StageFound | TimePassed

# ---- what is to be done


@dataclass(frozen=True)
class Tell:
    """Send a message to tasks."""

    connections: tuple[int, ...]
    message: DriverMessage


@dataclass(frozen=True)
class Dismiss:
    """Close the connection of a task that makes no sense."""

    connection: int


@dataclass(frozen=True)
class FindAttempt:
    """Ask Spark which attempt of a stage has begun a task."""

    connection: int
    stage: int
    task: int
    task_count: int


@dataclass(frozen=True)
class FindStage:
    """Ask Spark how far a stage is, who has failed, and how one task, if it is named, has ended."""

    exchange_id: str
    stage: int
    attempt: AttemptTasks | None
    is_failing: bool = False
    task: int | None = None


@dataclass(frozen=True)
class Warn:
    """Log that a run has failed."""

    text: str


@dataclass(frozen=True)
class Keep:
    """Keep what a run has counted."""

    summary: ExchangeSummary


Action = Tell | Dismiss | FindAttempt | FindStage | Warn | Keep


@dataclass
class _Arrival:
    """A task that has registered, while it is not known which attempt it is of."""

    exchange_id: str
    task_count: int
    message: Register
    looks: int = 0
    ask_at_ms: int | None = None  # None: Spark is being asked


@dataclass
class _Member:
    """One task of a run."""

    connection: int
    peer: Peer
    task: int
    is_leaving: bool = False
    is_over: bool = False  # it has said its last word, or is gone
    figures: TaskFigures | None = None  # once it is done


@dataclass
class _Run:
    """One attempt of Spark's to run the barrier stage of an exchange."""

    exchange_id: str
    stage: int
    task_count: int
    started_ms: int
    look_at_ms: int | None  # when to ask Spark; None: it is being asked, or need not be
    state: str = "gathering"  # then "running" and "done", or "failing", while nobody is told, and "failed"
    members: dict[int, _Member] = field(default_factory=dict)
    reason: str = ""
    lost: _Member | None = None  # who is gone without a word
    tell_at_ms: int = 0  # when the others are told of the failure, whatever Spark knows

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "failing", "failed")

    @property
    def is_watched(self) -> bool:
        """Whether a task of it may wait for what never comes."""
        return self.state == "failing" or not self.is_over and any(not one.is_over for one in self.members.values())


class ExchangeRuns:
    """Decides for all pipelined exchanges of one driver. Owns no socket, thread or clock.

    Examples
    --------
    >>> runs, peer = ExchangeRuns(), Peer(0, "10.0.0.7", 7001, "ab" * 60, 4711)
    >>> runs.handle(TaskSaid(1, "ff", 1, Register(peer, stage=3, task=9)), now_ms=0)
    [FindAttempt(connection=1, stage=3, task=9, task_count=1)]
    >>> (told,) = runs.handle(AttemptFound(1, AttemptTasks(0, 9, 1)), now_ms=2)
    >>> told.connections, [str(peer) for peer in told.message.peers]
    ((1,), ['task 0 (process 4711 at 10.0.0.7:7001)'])
    """

    def __init__(self) -> None:
        self._arrivals: dict[int, _Arrival] = {}  # by connection, as all that concerns one task
        self._members: dict[int, tuple[_Run, _Member]] = {}
        self._runs: dict[tuple[str, int], tuple[StageAttempts, _Run]] = {}  # by exchange and stage: the latest
        self._actions: list[Action] = []
        self._now = 0

    @property
    def next_deadline_ms(self) -> int | None:
        """When it wants to be called, whatever comes; None: only if something does."""
        wanted = [arrival.ask_at_ms for arrival in self._arrivals.values()]
        for _, run in self._runs.values():
            wanted += [run.look_at_ms, run.tell_at_ms if run.state == "failing" else None]
            wanted.append(None if run.is_watched else run.started_ms + RUNS_KEPT_MS)
        return min((at_ms for at_ms in wanted if at_ms is not None), default=None)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is remembered of any exchange."""
        return not (self._arrivals or self._members or self._runs)

    def handle(self, stimulus: Stimulus, now_ms: int) -> list[Action]:
        """Return what is to be done, in this order, about what was heard of."""
        self._actions, self._now = [], now_ms
        if isinstance(stimulus, TaskSaid):
            self._hear(stimulus)
        elif isinstance(stimulus, TaskGone):
            self._miss(stimulus)
        elif isinstance(stimulus, AttemptFound):
            self._place(stimulus)
        elif isinstance(stimulus, StageFound):
            self._look(stimulus)
        self._do_what_is_due()
        return self._actions

    # ---- the way in

    def _hear(self, said: TaskSaid) -> None:
        message, known = said.message, self._members.get(said.connection)
        if known is not None and not known[1].is_over:
            self._take(*known, message)
        elif known is None and isinstance(message, Register) and message.peer.is_one_of(said.task_count):
            self._receive(_Arrival(said.exchange_id, said.task_count, message), said.connection)
        else:
            self._actions.append(Dismiss(said.connection))

    def _receive(self, arrival: _Arrival, connection: int) -> None:
        known = self._runs.get((arrival.exchange_id, arrival.message.stage))
        if known is not None and known[0].knows(arrival.message.task):
            self._admit(connection, arrival, None)
        else:
            self._arrivals[connection] = arrival
            arrival.ask_at_ms = self._now

    def _place(self, found: AttemptFound) -> None:
        """Spark may hear of the start of a task later than the task is here, and is asked again then."""
        arrival = self._arrivals.get(found.connection)
        if arrival is None:
            return
        arrival.looks += 1
        if found.attempt is None and arrival.looks < ATTEMPT_LOOKS:
            arrival.ask_at_ms = self._now + ATTEMPT_LOOK_MS
        else:
            del self._arrivals[found.connection]
            self._admit(found.connection, arrival, found.attempt)

    def _admit(self, connection: int, arrival: _Arrival, attempt: AttemptTasks | None) -> None:
        """Put a task into the run it belongs to, or send it away."""
        message, key = arrival.message, (arrival.exchange_id, arrival.message.stage)
        attempts, run = self._runs.get(key, (StageAttempts(arrival.task_count), None))
        admission = attempts.admit(message.peer.index, message.task, attempt)
        if admission is Admission.OLD:
            reason = f"Spark has started a later attempt of stage {message.stage} than this task's"
            self._actions.append(Tell((connection,), RunFailed(reason)))
            return
        if run is None or admission is Admission.NEW:
            if run is not None:
                self._fail_at_once(run, _again(run.stage))
            run = _Run(*key, arrival.task_count, self._now, self._now + LOOK_MS)
            self._runs[key] = attempts, run
        member = _Member(connection, message.peer, message.task)
        self._members[connection] = run, member
        self._join(run, member)

    def _join(self, run: _Run, member: _Member) -> None:
        """Once all tasks are there, tell them how to find each other; who comes when it has failed is told that."""
        run.members[member.peer.index] = member
        if run.state == "failed":
            self._actions.append(Tell((member.connection,), RunFailed(run.reason)))
        elif run.state == "gathering" and len(run.members) == run.task_count:
            run.state = "running"
            peers = tuple(run.members[index].peer for index in range(run.task_count))
            self._actions.append(Tell(_connections(run), Peers(peers)))

    # ---- the way out

    def _take(self, run: _Run, member: _Member, message: TaskMessage) -> None:
        if isinstance(message, TaskLeaves):
            member.is_leaving = True
            if run.look_at_ms is not None:
                run.look_at_ms = min(run.look_at_ms, self._next_look(run))
        elif isinstance(message, TaskFailed):
            member.is_over = True
            self._begin_failing(run, f"{member.peer} failed with {message.reason[:TEXT_LIMIT]}")
        elif isinstance(message, TaskDone):
            member.is_over, member.figures = True, replace(message.figures, index=member.peer.index)
            self._actions.append(Tell((member.connection,), Goodbye()))  # now the job may end: what it counted is here
            self._finish(run)
        else:
            self._actions.append(Dismiss(member.connection))

    def _finish(self, run: _Run) -> None:
        """Sum up, if all tasks are done."""
        figures = [member.figures for member in run.members.values() if member.figures is not None]
        if run.state == "running" and len(figures) == run.task_count:
            run.state = "done"
            figures.sort(key=lambda one: one.index)
            seconds = (self._now - run.started_ms) / 1000
            self._actions.insert(0, Keep(ExchangeSummary(run.exchange_id, run.stage, seconds, tuple(figures))))

    def _miss(self, gone: TaskGone) -> None:
        """A task that is gone without a last word takes the others with it."""
        self._arrivals.pop(gone.connection, None)
        run, member = self._members.pop(gone.connection, (None, None))
        if run is None or member is None or member.is_over:
            return
        member.is_over = True
        if not run.is_over:
            run.lost = member
            self._begin_failing(run, f"{member.peer} went away without a word ({gone.reason})")

    # ---- failures

    def _begin_failing(self, run: _Run, reason: str) -> None:
        """Let a run fail with one of its tasks, and tell the others as soon as Spark knows of it.

        Spark shows its user the failure that it hears of first, and that has to be the cause.
        """
        if not run.is_over:
            run.state, run.reason = "failing", reason
            run.tell_at_ms, run.look_at_ms = self._now + FAILURE_WAIT_MS, self._now

    def _fail_at_once(self, run: _Run, reason: str) -> None:
        if not run.is_over:
            run.state, run.reason = "failing", reason
        if run.state == "failing":
            self._tell_failure(run)

    def _tell_failure(self, run: _Run) -> None:
        run.state, run.look_at_ms = "failed", None
        waiting = tuple(member.connection for member in run.members.values() if not member.is_over)
        self._actions.append(Warn(f"exchange {run.exchange_id}, stage {run.stage}: {run.reason}"))
        if waiting:
            self._actions.append(Tell(waiting, RunFailed(run.reason)))

    # ---- what Spark knows

    def _look(self, found: StageFound) -> None:
        attempts, run = self._runs.get((found.exchange_id, found.stage), (None, None))
        if attempts is None or run is None or not run.is_watched:
            return
        if run.state == "failing":
            self._look_for_cause(attempts, run, found)
        elif found.progress is not None and attempts.is_superseded(found.progress):
            self._fail_at_once(run, _again(run.stage))
        elif found.progress is not None and attempts.has_failed(found.progress):
            self._fail_at_once(run, _first_failure(run, found.failures))
        else:
            self._look_for_ended(attempts, run, found.progress)
        if run.is_watched:
            run.look_at_ms = self._next_look(run)

    def _next_look(self, run: _Run) -> int:
        if run.state == "failing":
            return self._now + FAILURE_LOOK_MS
        is_leaving = any(member.is_leaving and not member.is_over for member in run.members.values())
        return self._now + (LEAVING_LOOK_MS if is_leaving else LOOK_MS)

    def _look_for_cause(self, attempts: StageAttempts, run: _Run, found: StageFound) -> None:
        """Tell of a failure if Spark has heard of it, is at another attempt, or cannot be asked."""
        if run.lost is not None and found.end is not None and found.end.task == run.lost.task:
            run.reason = _end_of(run.lost, found.end, run.reason)
        elif run.lost is not None and found.failures:
            run.reason = _first_failure(run, found.failures)
        elif found.progress is not None and not found.failures:
            if not found.progress.failed and not attempts.is_superseded(found.progress):
                return
        self._tell_failure(run)

    def _look_for_ended(self, attempts: StageAttempts, run: _Run, progress: StageProgress | None) -> None:
        """End a run that waits for tasks which have ended already: it would wait for ever."""
        members = run.members.values()
        known = sum(member.figures is not None or member.is_leaving for member in members)
        waiting = -1 if run.state == "running" else sum(not member.is_over for member in members)
        ended = attempts.ended_without_a_word(progress, known, waiting)
        if ended:
            what = _ENDED_WHILE_RUNNING if run.state == "running" else _ENDED_WHILE_GATHERING
            self._fail_at_once(run, f"{ended} of the {run.task_count} tasks ended without {what}")

    # ---- time

    def _do_what_is_due(self) -> None:
        for connection, arrival in self._arrivals.items():
            if arrival.ask_at_ms is not None and arrival.ask_at_ms <= self._now:
                arrival.ask_at_ms = None
                stage, task = arrival.message.stage, arrival.message.task
                self._actions.append(FindAttempt(connection, stage, task, arrival.task_count))
        for key, (attempts, run) in list(self._runs.items()):
            if run.state == "failing" and run.tell_at_ms <= self._now:
                self._tell_failure(run)
            elif not run.is_watched:
                run.look_at_ms = None
                if run.started_ms + RUNS_KEPT_MS <= self._now:
                    del self._runs[key]
            elif run.look_at_ms is not None and run.look_at_ms <= self._now:
                run.look_at_ms = None
                lost = None if run.lost is None else run.lost.task
                self._actions.append(FindStage(*key, attempts.current, run.state == "failing", lost))


def _connections(run: _Run) -> tuple[int, ...]:
    return tuple(member.connection for member in run.members.values())


# ---- sentences

_ENDED_WHILE_RUNNING: Final = (
    "having sent the others all that is theirs. Either the code that reads its records stopped before the last one and "
    "still holds the iterator: close it, or drop it. Or Spark wanted no more of them, as for the limit() of a "
    "DataFrame: put a shuffle such as repartition() between"
)
_ENDED_WHILE_GATHERING: Final = (
    "taking part, which the others wait for: their results are in Spark's cache, which has lost those of the others. "
    "A pipelined exchange is computed whole or not at all: unpersist() its result and run the job again; persist it "
    "with StorageLevel.MEMORY_AND_DISK, or write it out"
)


def _again(stage: int) -> str:
    return f"Spark has started stage {stage} again"


def _first_failure(run: _Run, failures: tuple[TaskEnd, ...]) -> str:
    """Name the first task that Spark knows to have failed, whether it ever came or not."""
    if not failures:
        return f"a task of stage {run.stage} failed"
    first = failures[0]
    who = [str(member.peer) for member in run.members.values() if member.task == first.task]
    return f"{who[0] if who else f'task {first.task} of Spark, which had not come yet,'} failed with {first.reason}"


def _end_of(lost: _Member, end: TaskEnd, reason: str) -> str:
    """Say why a task is gone without a word, by how Spark counts it."""
    if end.is_failed:
        return f"{reason}; Spark says: {end.reason}"
    return (
        f"{lost.peer} was ended before it had sent the others what is theirs: Spark wanted no more of its records, as "
        "for the limit() of a DataFrame: put a shuffle such as repartition() between"
    )
