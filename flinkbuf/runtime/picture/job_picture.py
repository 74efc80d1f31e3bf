"""A job at one moment: frozen, so that any thread may look at it for as long as it likes while the job goes on.

The job master's thread makes one a second. What has not changed is shared with the picture before, and metrics are the
very dicts that heartbeats brought, which no code changes: so a picture costs little, and a reader that wants JSON makes
it on a thread of its own (job_details.py, page_picture.py). Flink: ArchivedExecutionGraph, ExecutionGraphCache.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from flinkbuf.runtime.checkpoint.checkpoint_statistics import CheckpointsPicture
from flinkbuf.runtime.graph.job_plan import JobPlan, VertexPlan
from flinkbuf.runtime.master.failure_history import Outage
from flinkbuf.runtime.master.job_master import JobMaster
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import Json
from flinkbuf.runtime.scheduler.execution_graph import Execution, ExecutionJobVertex, ExecutionVertex, aggregate_state
from flinkbuf.runtime.scheduler.execution_state import ExecutionState
from flinkbuf.runtime.scheduler.manager import Manager

PICTURE_INTERVAL_MS: Final = 1_000
HISTORY_LENGTH: Final = 120  # samples of a vertex's rates
LOST_MANAGERS: Final = 16  # that are remembered
RATES: Final = ("records_in", "records_out", "bytes_in", "bytes_out", "rows_in", "rows_out")
TIMES: Final = ("busy_ms", "idle_ms", "back_pressured_ms")
TOTALS: Final = (*RATES, "buffers_in", "buffers_out", "queued_in", "queued_out", *TIMES)
_END_OF_TIME: Final = 2**62  # the watermark of a subtask that has seen all input, or none


@dataclass(frozen=True, slots=True)
class AttemptPicture:
    """One attempt of a subtask.

    Attributes
    ----------
    timestamps : dict
        When it came into each state it has been in, in their order.
    manager_id, host, endpoint : str or None
        Where it runs, or ran; None before it is deployed.
    metrics, accumulators : dict
        As last reported, at `reported_ms`.
    rates : tuple of float
        How fast each of `RATES` grew between the last two reports, a second; zeros once it has ended.
    shares : tuple of float
        Which share of that time it was busy, idle and back-pressured.
    """

    attempt: AttemptId
    state: ExecutionState
    timestamps: Mapping[ExecutionState, int]
    manager_id: str | None
    host: str | None
    endpoint: str | None
    metrics: Json
    accumulators: Json
    reported_ms: int
    rates: tuple[float, ...]
    shares: tuple[float, ...]
    failure: Failure | None

    @classmethod
    def of(cls, execution: Execution) -> AttemptPicture:
        """Return the picture of an attempt as it is."""
        manager = execution.manager
        return cls(
            execution.attempt,
            execution.state,
            dict(execution.timestamps),
            None if manager is None else manager.id,
            None if manager is None else manager.host,
            None if manager is None else manager.endpoint,
            execution.metrics,
            execution.accumulators,
            execution.reported_ms,
            _rates(execution),
            tuple(execution.time_shares(*TIMES)),
            execution.failure,
        )

    def is_of(self, execution: Execution) -> bool:
        """Return whether the attempt has not changed since the picture."""
        return (
            self.metrics is execution.metrics
            and self.state is execution.state
            and self.accumulators is execution.accumulators
            and self.attempt is execution.attempt
            and self.manager_id == (None if execution.manager is None else execution.manager.id)
        )

    @property
    def busy(self) -> float:
        """Return the share of the attempt's time in which it worked."""
        return self.shares[0]

    @property
    def idle(self) -> float:
        """Return the share of the attempt's time in which it had nothing to do."""
        return self.shares[1]

    @property
    def back_pressured(self) -> float:
        """Return the share of the attempt's time in which its output was blocked."""
        return self.shares[2]

    @property
    def watermark(self) -> int | None:
        """Return how far event time has come in the attempt; None: it has no watermark yet."""
        watermark: int | None = self.metrics.get("watermark")
        return watermark


_NO_RATES: Final = (0.0,) * len(RATES)


def _rates(execution: Execution) -> tuple[float, ...]:
    span_ms = execution.reported_ms - execution.former_ms
    if execution.state.is_terminal or not execution.former_metrics or span_ms <= 0:
        return _NO_RATES
    now, then, rates = execution.metrics, execution.former_metrics, []
    for name in RATES:
        grown = now.get(name, 0) - then.get(name, 0)
        rates.append(grown * 1000 / span_ms if grown > 0 else 0.0)
    return tuple(rates)


@dataclass(frozen=True, slots=True)
class SubtaskPicture:
    """One subtask: its newest attempt, and those before, oldest first."""

    index: int
    current: AttemptPicture
    history: tuple[AttemptPicture, ...]


@dataclass(frozen=True, slots=True)
class RateSample:
    """What a vertex did at one moment: a point of its history."""

    time_ms: int
    records_in: float
    records_out: float
    rows_in: float
    rows_out: float
    busy: float
    back_pressured: float
    watermark_lag_ms: int | None


@dataclass(frozen=True, slots=True)
class VertexPicture:
    """One task, with all its subtasks.

    Attributes
    ----------
    totals : dict
        Sums of `TOTALS` over the newest attempts.
    rates : dict
        Sums of `RATES`, a second.
    shares : tuple of float
        Means of busy, idle and back-pressured over the subtasks that run.
    busiest, most_held_back : SubtaskPicture or None
        None: none of them runs.
    behind : SubtaskPicture or None
        The one with the lowest watermark.
    watermarks : tuple
        The lowest and the highest, and how many subtasks have one.
    samples : tuple of RateSample
        Oldest first.
    """

    plan: VertexPlan
    subtasks: tuple[SubtaskPicture, ...]
    state_counts: Counter[ExecutionState]
    totals: Mapping[str, int]
    rates: Mapping[str, float]
    shares: tuple[float, ...]
    busiest: SubtaskPicture | None
    most_held_back: SubtaskPicture | None
    behind: SubtaskPicture | None
    watermarks: tuple[int | None, int | None, int]
    samples: tuple[RateSample, ...] = ()

    @property
    def aggregate_state(self) -> ExecutionState:
        """Return one state for all subtasks of the vertex."""
        return aggregate_state(self.state_counts)

    def lag_ms(self, now_ms: int) -> int | None:
        """Return how far the lowest watermark is behind the clock; None: no watermark, or no more records."""
        lowest = self.watermarks[0]
        return None if lowest is None or abs(lowest) >= _END_OF_TIME else now_ms - lowest


@dataclass(frozen=True, slots=True)
class ManagerPicture:
    """A task manager; `lost_ms` is None for one that is there."""

    manager: Manager
    heard_ms: int
    metrics: Json
    lost_ms: int | None = None

    @property
    def id(self) -> str:
        """Return the manager's id."""
        return self.manager.id


@dataclass(frozen=True, slots=True)
class JobPicture:
    """All that is known of a job at one moment.

    Attributes
    ----------
    now_ms : int
        When it was made.
    timestamps : dict
        When the job came into each status it has been in.
    outages : tuple of Outage
        Failures, newest last; no code changes these.
    managers, lost_managers : tuple of ManagerPicture
        Those that are there; the last ones that are not any more, newest first.
    checkpoints : CheckpointsPicture
    failure : Failure or None
        What the job has failed with.
    savepoint : str
        Where the savepoint lies that the job was stopped with; empty: it was not.
    """

    now_ms: int
    plan: JobPlan
    status: JobStatus
    timestamps: Mapping[JobStatus, int]
    restart_count: int
    vertices: tuple[VertexPicture, ...]
    managers: tuple[ManagerPicture, ...]
    lost_managers: tuple[ManagerPicture, ...]
    outages: tuple[Outage, ...]
    checkpoints: CheckpointsPicture
    failure: Failure | None = None
    savepoint: str = ""

    @property
    def job_id(self) -> str:
        """Return the job's id, 32 hex digits."""
        return self.plan.job_id

    @property
    def is_over(self) -> bool:
        """Return whether the job has ended here."""
        return self.status.is_terminal_state()

    def attempts(self) -> Iterator[AttemptPicture]:
        """Return the newest attempt of each subtask."""
        return (subtask.current for vertex in self.vertices for subtask in vertex.subtasks)


@dataclass
class _VertexAlbum:
    """What the pictures of one vertex share."""

    version: int = -1
    last: VertexPicture | None = None
    samples: deque[RateSample] = field(default_factory=lambda: deque(maxlen=HISTORY_LENGTH))


class PictureMaker:
    """Makes the pictures of one job.

    Parameters
    ----------
    job : JobMaster
        Is only read; on the thread that owns it.

    Examples
    --------
    >>> from random import Random
    >>> from flinkbuf.runtime.graph.job_plan import JobPlan, VertexPlan
    >>> from flinkbuf.runtime.master.restart_strategy import NoRestart
    >>> plan = JobPlan("c" * 32, "numbers", (VertexPlan("a" * 32, "source", 2, 128),))
    >>> maker = PictureMaker(JobMaster(plan, session_id="d" * 32, restart_strategy=NoRestart().create(Random(1))))
    >>> picture = maker.make(now_ms=5)
    >>> picture.status.name, [len(vertex.subtasks) for vertex in picture.vertices]
    ('CREATED', [2])
    """

    def __init__(self, job: JobMaster) -> None:
        self._job = job
        self._albums = [_VertexAlbum() for _ in job.graph.vertices]
        self._managers: dict[str, ManagerPicture] = {}
        self._lost: deque[ManagerPicture] = deque(maxlen=LOST_MANAGERS)

    def make(self, now_ms: int) -> JobPicture:
        """Take a picture of the job as it is; called once a second it also keeps how rates went."""
        job = self._job
        self._look_at_managers(now_ms)
        return JobPicture(
            now_ms,
            job.plan,
            job.status,
            dict(job.timestamps),
            job.restart_count,
            tuple(self._vertex(vertex, now_ms) for vertex in job.graph.vertices),
            tuple(self._managers.values()),
            tuple(self._lost),
            tuple(replace(each, concurrent=list(each.concurrent)) for each in job.history.outages),
            job.checkpoints.tracker.picture(),
        )

    def _vertex(self, vertex: ExecutionJobVertex, now_ms: int) -> VertexPicture:
        album = self._albums[vertex.index]
        made = album.last
        if made is None or album.version != vertex.version:
            before = (None,) * len(vertex.subtasks) if made is None else made.subtasks
            made = _gathered(vertex, tuple(map(_subtask, vertex.subtasks, before)))
            album.last, album.version = made, vertex.version
        lag_ms = made.lag_ms(now_ms)
        if not album.samples or now_ms - album.samples[-1].time_ms >= PICTURE_INTERVAL_MS // 2:
            rates, shares = made.rates, made.shares
            album.samples.append(
                RateSample(
                    now_ms,
                    rates["records_in"],
                    rates["records_out"],
                    rates["rows_in"],
                    rates["rows_out"],
                    shares[0],
                    shares[2],
                    lag_ms,
                )
            )
        return replace(made, samples=tuple(album.samples))

    def _look_at_managers(self, now_ms: int) -> None:
        before = self._managers
        registered = self._job.managers.registered
        self._managers = {
            manager.id: ManagerPicture(manager, manager.heard_ms, manager.metrics) for manager in registered.values()
        }
        if not self._job.is_over:
            gone = (picture for id, picture in before.items() if id not in registered)
            self._lost.extendleft(replace(each, lost_ms=now_ms) for each in gone)
        elif not registered:
            self._managers = before  # that were there at its end


def _subtask(subtask: ExecutionVertex, before: SubtaskPicture | None) -> SubtaskPicture:
    current = subtask.current
    if before is None:
        return SubtaskPicture(subtask.index, AttemptPicture.of(current), tuple(map(AttemptPicture.of, subtask.history)))
    if before.current.is_of(current):
        return before
    history = before.history
    if before.current.attempt is not current.attempt:
        history = tuple(map(AttemptPicture.of, subtask.history))
    return SubtaskPicture(subtask.index, AttemptPicture.of(current), history)


def _gathered(vertex: ExecutionJobVertex, subtasks: tuple[SubtaskPicture, ...]) -> VertexPicture:
    """Return what all subtasks of a vertex share: sums, means, and the subtasks that stand out."""
    running = [each for each in subtasks if each.current.state is ExecutionState.RUNNING]
    known = [each for each in subtasks if each.current.watermark is not None]
    behind = min(known, key=_watermark_of, default=None)
    ahead = max(known, key=_watermark_of, default=None)
    count = len(running) or 1
    return VertexPicture(
        vertex.plan,
        subtasks,
        Counter(each.current.state for each in subtasks),
        _totals(subtasks),
        {name: sum(each.current.rates[place] for each in running) for place, name in enumerate(RATES)},
        tuple(round(sum(each.current.shares[place] for each in running) / count, 4) for place in range(len(TIMES))),
        max(running, key=lambda each: each.current.shares[0], default=None),
        max(running, key=lambda each: each.current.shares[2], default=None),
        behind,
        (
            None if behind is None else behind.current.watermark,
            None if ahead is None else ahead.current.watermark,
            len(known),
        ),
    )


def _watermark_of(subtask: SubtaskPicture) -> int:
    watermark = subtask.current.watermark
    assert watermark is not None
    return watermark


def _totals(subtasks: tuple[SubtaskPicture, ...]) -> dict[str, int]:
    sums = dict.fromkeys(TOTALS, 0)
    for subtask in subtasks:
        metrics = subtask.current.metrics
        if metrics:
            for name in TOTALS:
                sums[name] += metrics.get(name) or 0
    return sums
