"""What becomes of stages that Spark computes on its own, decided at the driver: whose job a task joins, who is gone.

A run is one attempt of Spark's to compute a stage, and one job. It gathers its tasks, each a task manager, and is over
when the job is, or when all tasks have reported their end, or one is gone. A connection that ends without a last word
is that of a task which is gone, and Spark is asked why. Spark is asked, too, whether all that are waited for still run:
nobody else knows of a task that failed before it came, or ended without ever coming.

Nothing here waits, reads a clock or talks to anybody: `meeting` does. Nothing is remembered of a stage but while its
tasks run, and a little longer for tasks that come late.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import Json, RegisterManager, TaskStateReport
from flinkbuf.spark.stage.barrier_task import is_refused_part
from flinkbuf.spark.stage.stage_attempts import StageAttempts, TaskAdmission
from flinkbuf.spark.stage.stage_progress import AttemptTasks, StageProgress, TaskEnd

if TYPE_CHECKING:
    from flinkbuf.runtime.driver.running_job import RunningJob
    from flinkbuf.runtime.manager.shuffle import Shuffle

LOOK_MS = 1000  # how often Spark is asked about a run
FAILURE_LOOK_MS = 20  # the same while a failure waits to be told until Spark knows of it
FAILURE_WAIT_MS = 2000  # so long the others are not told of a failure that Spark has not heard of
RUNS_KEPT_MS = 60_000  # from its start, so long a run that is over is remembered, for tasks that come late


@dataclass(frozen=True)
class StageProgram:
    """What the tasks of a stage run together, in each attempt.

    Attributes
    ----------
    group_id : str
        Of their connections.
    name, kind : str
        What it is called, such as "exchange 00ab" and "a pipelined exchange".
    task_count : int
    make_job : callable
        Given a target, and what is called with the job's exception or None at its end, returns a `RunningJob`.
    on_finished : callable, optional
        Called with `Finished` before the last task is told to go, where each task is one of the job and may go when it
        has reported its end; else all go when the job is over.
    program_shuffle : callable, optional
        Given the job, returns how its tasks in the driver's process reach the others.
    """

    group_id: str
    name: str
    kind: str
    task_count: int
    make_job: Callable[..., RunningJob]
    on_finished: Callable[[Finished], object] | None = None
    program_shuffle: Callable[[RunningJob], Shuffle] | None = None


# ---- what is heard of; a task is known by the id of its task manager


@dataclass(frozen=True)
class TaskCame:
    """A task manager wants to register.

    With the first one comes which attempt the task is of, where that was not known, and from the third attempt on what
    failed in the ones before, the latest one last.
    """

    program: StageProgram
    registration: RegisterManager
    stage: int
    task: int  # Spark's number of it, its ``taskAttemptId``
    attempt: AttemptTasks | None = None
    earlier_failures: Sequence[Sequence[TaskEnd]] = ()


@dataclass(frozen=True)
class TaskReported:
    """The attempt in a task manager has failed, or has finished where each ends by itself."""

    manager_id: str
    report: TaskStateReport


@dataclass(frozen=True)
class TaskGone:
    """The connection to a task manager has ended, and nobody said why."""

    manager_id: str
    reason: str


@dataclass(frozen=True)
class JobOver:
    """The job of a run has ended."""

    run: int


@dataclass(frozen=True)
class StageFound:
    """What Spark answers to `FindStage`; no progress: it cannot be asked."""

    run: int
    progress: StageProgress | None
    failures: Sequence[TaskEnd] = ()
    end: TaskEnd | None = None


Stimulus = TaskCame | TaskReported | TaskGone | JobOver | StageFound

# ---- what is to be done


@dataclass(frozen=True)
class Begin:
    """Start a job for a run whose first task manager this is."""

    run: int
    manager_id: str


@dataclass(frozen=True)
class Join:
    """Let a task manager register with the job of a run."""

    run: int
    manager_id: str


@dataclass(frozen=True)
class Refuse:
    """Send a task manager away."""

    manager_id: str
    reason: str


@dataclass(frozen=True)
class PassOn:
    """Let the job have the report of a task manager."""

    run: int
    manager_id: str
    report: TaskStateReport


@dataclass(frozen=True)
class FailRun:
    """Have the job of a run fail, and tell its tasks why."""

    run: int
    reason: str


@dataclass(frozen=True)
class Finished:
    """All tasks of a run have reported their end: what they counted, by index."""

    run: int
    name: str
    stage: int
    seconds: float
    metrics: tuple[Json, ...]


@dataclass(frozen=True)
class FindStage:
    """Ask Spark how far a stage is, who has failed, and how one task, if it is named, has ended."""

    run: int
    stage: int
    attempt: AttemptTasks | None
    is_failing: bool = False
    task: int | None = None


@dataclass(frozen=True)
class GiveUp:
    """Have Spark fail the job whose stage this is, instead of starting the stage once more."""

    stage: int
    reason: str


@dataclass(frozen=True)
class Note:
    """Log how a run has failed."""

    text: str


Action = Begin | Join | Refuse | PassOn | FailRun | Finished | FindStage | GiveUp | Note


@dataclass
class _Member:
    """One task of a run."""

    registration: RegisterManager
    task: int
    is_over: bool = False  # it has said its last word, or is gone
    metrics: Json | None = None  # once it is done

    def __str__(self) -> str:
        me = self.registration
        return f"task {me.index} (process {me.process_id} at {me.host}:{me.data_port})"


@dataclass
class _Run:
    """One attempt of Spark's to run a stage."""

    number: int
    program: StageProgram
    stage: int
    attempts: StageAttempts
    started_ms: int
    look_at_ms: int | None  # when to ask Spark; None: it is being asked, or need not be
    state: str = "gathering"  # then "running" and "done", or "failing", while nobody is told, and "failed"
    members: dict[int, _Member] = field(default_factory=dict)
    reason: str = ""
    report: TaskReported | None = None  # of the task that failed first
    lost: _Member | None = None  # who is gone without a word
    tell_at_ms: int = 0  # when the others are told of the failure, whatever Spark knows

    def waiting(self) -> list[_Member]:
        """Return the members that have not reported their end."""
        return [member for member in self.members.values() if not member.is_over]

    @property
    def is_watched(self) -> bool:
        """Whether Spark is to be asked about it: a task of it waits, maybe for what never comes."""
        return self.state == "failing" or (self.state in ("gathering", "running") and bool(self.waiting()))


class StageRuns:
    """Decides for all stages of one driver whose tasks come unasked. Owns no socket, thread or clock.

    Examples
    --------
    >>> runs, me = StageRuns(), RegisterManager("m1", 0, 0, "10.0.0.7", 7001, 1, 4711)
    >>> program = StageProgram("group", "exchange ff", "a pipelined exchange", 1, make_job=print)
    >>> came = TaskCame(program, me, 3, 9, AttemptTasks(0, 9, 1))
    >>> [type(action).__name__ for action in runs.handle(came, now_ms=2)]
    ['Begin', 'Join']
    """

    def __init__(self) -> None:
        self._members: dict[str, tuple[_Run, _Member]] = {}  # by id of the task manager
        self._runs: dict[tuple[str, int], _Run] = {}  # by group and stage: the latest
        self._count = 0
        self._actions: list[Action] = []
        self._now = 0

    @property
    def next_deadline_ms(self) -> int | None:
        """When it wants to be called, whatever comes; None: only if something does."""
        looks = [run.look_at_ms for run in self._runs.values() if run.look_at_ms is not None]
        return min(looks, default=min((run.started_ms + RUNS_KEPT_MS for run in self._runs.values()), default=None))

    def knows_attempt_of(self, group_id: str, stage: int, task: int) -> bool:
        """Whether Spark need not be asked which attempt a task is of."""
        run = self._runs.get((group_id, stage))
        return run is not None and run.attempts.knows(task)

    def handle(self, stimulus: Stimulus | None, now_ms: int) -> list[Action]:
        """Return what is to be done, in this order, about what was heard of; None: nothing was, but time has passed."""
        self._actions, self._now = [], now_ms
        if isinstance(stimulus, TaskCame):
            self._admit(stimulus)
        elif isinstance(stimulus, TaskReported):
            self._hear(stimulus)
        elif isinstance(stimulus, TaskGone):
            self._miss(stimulus)
        elif isinstance(stimulus, JobOver):
            self._end(stimulus)
        elif isinstance(stimulus, StageFound):
            self._look(stimulus)
        self._ask_and_forget()
        return self._actions

    # ---- the way in

    def _admit(self, came: TaskCame) -> None:
        """Put a task into the run it belongs to, or send it away."""
        program, me, stage = came.program, came.registration, came.stage
        if not 0 <= me.index < program.task_count:
            self._do(Refuse(me.manager_id, "what this task said makes no sense to the driver"))
            return
        run = self._runs.get((program.group_id, stage))
        attempts = StageAttempts(program.task_count) if run is None else run.attempts
        admission = attempts.admit(me.index, came.task, came.attempt)
        if admission is TaskAdmission.OLD:
            self._do(Refuse(me.manager_id, f"Spark has started a later attempt of stage {stage} than this task's"))
            return
        if run is None or admission is TaskAdmission.NEW:
            if run is not None:
                self._fail(run, f"Spark has started stage {stage} again")
            self._count += 1
            run = _Run(self._count, program, stage, attempts, self._now, self._now + LOOK_MS)
            self._runs[program.group_id, stage] = run
            self._do(Begin(run.number, me.manager_id))
        member = run.members[me.index] = _Member(me, came.task)
        self._members[me.manager_id] = run, member
        if run.state == "failed":
            self._do(Refuse(me.manager_id, run.reason))
            return
        self._do(Join(run.number, me.manager_id))
        repeated = _repeated_error(came.earlier_failures)
        if repeated and run.state == "gathering":
            self._give_up(run, repeated)
        elif run.state == "gathering" and len(run.members) == program.task_count:
            run.state = "running"

    # ---- the way out

    def _hear(self, said: TaskReported) -> None:
        run, member = self._members.get(said.manager_id, (None, None))
        if run is None or member is None:
            return
        failure = said.report.failure
        if member.is_over or run.state not in ("gathering", "running"):
            if run.state != "failing":  # then the job is about to fail
                self._do(PassOn(run.number, said.manager_id, said.report))
        elif failure is None:
            member.is_over, member.metrics = True, said.report.metrics
            self._sum_up(run)
            self._do(PassOn(run.number, said.manager_id, said.report))
        else:
            member.is_over, run.report = True, said
            self._begin_failing(run, f"{member} failed with {described(failure)}")

    def _sum_up(self, run: _Run) -> None:
        """Tell what the run has counted, if all of its tasks are done."""
        counted = sorted(index for index, member in run.members.items() if member.metrics is not None)
        if run.state == "running" and len(counted) == run.attempts.task_count:
            run.state = "done"
            metrics = tuple(run.members[index].metrics or {} for index in counted)
            seconds = (self._now - run.started_ms) / 1000
            self._do(Finished(run.number, run.program.name, run.stage, seconds, metrics))

    def _miss(self, gone: TaskGone) -> None:
        """A task that is gone without a last word takes the others with it."""
        run, member = self._members.pop(gone.manager_id, (None, None))
        if run is None or member is None or member.is_over:
            return
        member.is_over = True
        if run.state in ("gathering", "running"):
            run.lost = member
            self._begin_failing(run, f"{member} went away without a word ({gone.reason})")

    def _end(self, over: JobOver) -> None:
        """End a run whose job is over, whatever that has come to."""
        for run in self._runs.values():
            if run.number == over.run and run.state in ("gathering", "running"):
                run.state, run.look_at_ms = "done", None

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
            self._do(Note(f"{run.program.name}, stage {run.stage}: {run.reason}"))
            if run.report is not None:
                self._do(PassOn(run.number, run.report.manager_id, run.report.report))
            self._do(FailRun(run.number, run.reason))

    def _give_up(self, run: _Run, error: str) -> None:
        """End an attempt before it begins, and Spark's job with it: two before have failed in the same way."""
        reason = f"a task failed with {error}, and so did one of the attempt before: it is not tried a third time"
        self._do(GiveUp(run.stage, f"{run.program.name}: {reason}"))
        self._fail(run, reason)

    def _do(self, action: Action) -> None:
        self._actions.append(action)

    # ---- what Spark knows

    def _look(self, found: StageFound) -> None:
        run = next((each for each in self._runs.values() if each.number == found.run), None)
        progress = found.progress
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
        is_gathering = run.state == "gathering"
        if not is_gathering and run.program.on_finished is None:
            return  # Spark may have enough of a task's records while its task manager goes on
        known = sum(member.metrics is not None for member in run.members.values())
        ended = run.attempts.ended_without_a_word(progress, known, len(run.waiting()) if is_gathering else -1)
        if ended:
            what = _ended_while_gathering(run.program.kind) if is_gathering else _ENDED_WHILE_RUNNING
            self._fail(run, f"{ended} of the {run.attempts.task_count} tasks {what}")

    def _ask_and_forget(self) -> None:
        for key, run in list(self._runs.items()):
            if not run.is_watched:
                run.look_at_ms = None
                if run.started_ms + RUNS_KEPT_MS <= self._now and run.state in ("done", "failed"):
                    del self._runs[key]
            elif run.look_at_ms is not None and run.look_at_ms <= self._now:
                run.look_at_ms = None
                task = None if run.lost is None else run.lost.task
                is_failing = run.state == "failing"
                self._do(FindStage(run.number, run.stage, run.attempts.current, is_failing, task))


# ---- sentences

_ENDED_WHILE_RUNNING = (
    "ended without having sent the others all that is theirs: Spark wanted no more of their records, as for the "
    "limit() of a DataFrame: put a shuffle such as repartition() between. Or a thread that goes on after its task "
    "reads from them"
)


def _ended_while_gathering(kind: str) -> str:
    return (
        "ended without taking part, which the others wait for: their results are in Spark's cache, which has lost "
        f"those of the others. {kind[0].upper()}{kind[1:]} is computed whole or not at all: unpersist() its result and "
        "run the job again; persist it with StorageLevel.MEMORY_AND_DISK, or write it out"
    )


def described(failure: Failure) -> str:
    """Return a failure as the others are told of it.

    Examples
    --------
    >>> described(Failure.of(OSError("no input")))
    'OSError: no input'
    """
    return f"{failure.type_name.rpartition('.')[2]}: {failure.message}"


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
        f"{lost} was ended before it had sent the others all that is theirs: Spark wanted no more of its records, "
        "as for the limit() of a DataFrame: put a shuffle such as repartition() between"
    )


def _failure(run: _Run, failures: Sequence[TaskEnd]) -> str:
    """Name the first task that Spark knows to have failed, whether it ever came or not."""
    if not failures:
        return f"a task of stage {run.stage} failed"
    first = failures[0]
    who = [str(member) for member in run.members.values() if member.task == first.task]
    return f"{who[0] if who else f'task {first.task} of Spark, which had not come yet,'} failed with {first.reason}"
