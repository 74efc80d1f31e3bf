"""Which micro-batch of a query counts for a job, and when the query may commit it. It decides, and does nothing else.

A micro-batch of the query is an *epoch* of the job, and has one number on both sides. Three things are kept apart:

* A **run** is one computation of an epoch by Spark, whose tasks send their rows to the job's readers. It may be in
  vain: its tasks fail, or the job begins again meanwhile. Then there is another run, with another number, and what the
  readers have of the older one is dropped.
* An epoch is **sealed** when a run has ended well. Spark has said then which attempt of each of its tasks counts; the
  readers take the rows of these, and drop those of others. From there on the epoch is part of the job's state: it was
  emitted, or a checkpoint has its rows.
* An epoch is **kept** once all readers have emitted it and a checkpoint is complete that was begun after that. Only
  then does the query's batch end, and Spark notes it as done; so the query does not run ahead of a job that is slower.

So whoever dies, and whenever: what Spark has noted as done is in a checkpoint. A batch that Spark repeats is one that
is not kept, and is received anew; or one that is, and is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from flinkbuf.runtime.protocol.time_passed import TimePassed

NONE_TAKEN: Final = -1  # before the first epoch, which is 0
PATIENCE_MS: Final = 10_000  # so long the loss of a task of the job may need to be known, after senders felt it
REPEAT_MS: Final = 5_000  # after so long without a checkpoint another one is asked for


@dataclass(frozen=True)
class TakenEpochs:
    """What a job has of a query; it is part of the job's checkpoints.

    Attributes
    ----------
    query_id : str
        Spark's id of the query, the same for as long as its checkpoint lives; empty before the first epoch.
    last : int
        The number of the last epoch that was sealed; -1: none was.
    """

    query_id: str = ""
    last: int = NONE_TAKEN


@dataclass(frozen=True)
class ReaderPlace:
    """Where a reader of the job takes rows.

    Attributes
    ----------
    subtask : int
    token : str
        Drawn when it began: a reader that took its place has another one.
    host, port
    """

    subtask: int
    token: str
    host: str
    port: int


@dataclass(frozen=True)
class Part:
    """What one task of Spark has sent whole to one reader.

    Attributes
    ----------
    run, partition, attempt : int
        The attempt's id is Spark's, which no other task of the application has.
    subtask, token
        Which reader has it.
    row_count : int
    """

    run: int
    partition: int
    attempt: int
    subtask: int
    token: str
    row_count: int


# What an `EpochLedger` is told.


@dataclass(frozen=True)
class JobBegan:
    """The job begins, or begins again, from a state; its readers will come.

    Attributes
    ----------
    generation : int
        Grows with each beginning; a sealing names it.
    parallelism : int
    taken : TakenEpochs
    """

    generation: int
    parallelism: int
    taken: TakenEpochs


@dataclass(frozen=True)
class JobLeft:
    """The readers of the job are gone; it will begin again, or end."""


@dataclass(frozen=True)
class JobEnded:
    """The job is over for good."""


@dataclass(frozen=True)
class ReaderCame:
    """A reader takes rows from now on."""

    place: ReaderPlace


@dataclass(frozen=True)
class BatchOffered:
    """The query has a batch, and waits. `call` tells apart what waits."""

    call: int
    query_id: str
    epoch: int


@dataclass(frozen=True)
class RunEnded:
    """Spark has computed a batch; or it has not, for an error.

    Attributes
    ----------
    run : int
    parts : sequence of Part
        One for each of its tasks that had rows: of the attempts that count.
    error : str
        Empty: there was none.
    is_undelivered : bool
        The error is that of a task that could not bring its rows to a reader.
    """

    run: int
    parts: Sequence[Part] = ()
    error: str = ""
    is_undelivered: bool = False


@dataclass(frozen=True)
class SnapshotTaken:
    """A checkpoint has begun, with so many epochs sealed before it."""

    checkpoint_id: int
    taken: TakenEpochs


@dataclass(frozen=True)
class CheckpointCompleted:
    """A checkpoint is complete."""

    checkpoint_id: int


@dataclass(frozen=True)
class EpochEmitted:
    """A reader has emitted all that it has of an epoch."""

    subtask: int
    epoch: int


@dataclass(frozen=True)
class QueryEnded:
    """The query has ended: it came to its end or was stopped, or there was an error."""

    error: str = ""
    can_restart: bool = True


# What it wants done.


@dataclass(frozen=True)
class StartQuery:
    """Start the query; it goes on from its own checkpoint."""


@dataclass(frozen=True)
class RunBatch:
    """Have Spark compute a batch, whose tasks send their rows to the readers, partition p to the p-th, in turn."""

    call: int
    run: int
    epoch: int
    places: tuple[ReaderPlace, ...]


@dataclass(frozen=True)
class SealEpoch:
    """Tell all readers whose rows are the epoch, if the job is still that of this generation."""

    generation: int
    run: int
    taken: TakenEpochs
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class RequestCheckpoint:
    """Have the job take a checkpoint soon."""


@dataclass(frozen=True)
class CommitBatch:
    """End the query's batch: Spark notes it as done."""

    call: int


@dataclass(frozen=True)
class FailBatch:
    """Fail the query's batch, and the query with it."""

    call: int
    message: str


@dataclass(frozen=True)
class EndInput:
    """Tell all readers that nothing follows."""


@dataclass(frozen=True)
class FailJob:
    """Have the job fail; it begins again if its restart strategy, and `can_restart`, say so."""

    message: str
    can_restart: bool = True


Message = (
    JobBegan | JobLeft | JobEnded | ReaderCame | BatchOffered | RunEnded | EpochEmitted | SnapshotTaken
    | CheckpointCompleted | QueryEnded | TimePassed
)  # fmt: skip
Action = (
    StartQuery | RunBatch | SealEpoch | RequestCheckpoint | CommitBatch | FailBatch | EndInput | FailJob
)  # fmt: skip


class BatchState(Enum):
    """How far the batch has come that the query waits for."""

    WAITING = "for all readers of the job"
    RUNNING = "Spark computes it"
    OUTDATED = "Spark computes it for readers that are gone"
    DOUBTED = "its rows did not reach a reader, and nobody knows why yet"
    SEALED = "until all readers have emitted it, and for a checkpoint behind that"


@dataclass(frozen=True)
class _Batch:
    call: int
    query_id: str
    epoch: int
    state: BatchState
    run: int = 0
    due_ms: int | None = None
    error: str = ""


class EpochLedger:
    """Decides for one query and the job that reads it. Owns no socket, thread, file, clock or random source.

    The actions of a message are performed in their order, each list to its end before the next message.

    Attributes
    ----------
    next_deadline_ms : int or None
        When it wants to be told that time has passed.

    Examples
    --------
    >>> ledger = EpochLedger()
    >>> place = ReaderPlace(0, "t", "127.0.0.1", 4040)
    >>> ledger.handle(JobBegan(1, 1, TakenEpochs()), 0), ledger.handle(ReaderCame(place), 0)
    ([], [StartQuery()])
    >>> ledger.handle(BatchOffered(1, "q", 0), 0)
    [RunBatch(call=1, run=1, epoch=0, places=(ReaderPlace(subtask=0, token='t', host='127.0.0.1', port=4040),))]
    >>> [type(action).__name__ for action in ledger.handle(RunEnded(1, [Part(1, 0, 7, 0, "t", 3)]), 0)]
    ['SealEpoch']
    >>> ledger.handle(EpochEmitted(0, 0), 0)
    [RequestCheckpoint()]
    >>> ledger.handle(SnapshotTaken(5, TakenEpochs("q", 0)), 0), ledger.handle(CheckpointCompleted(5), 0)
    ([], [CommitBatch(call=1)])
    """

    def __init__(self) -> None:
        self._generation = 0
        self._parallelism = 0  # 0: no job is there
        self._readers: dict[int, ReaderPlace] = {}
        self._taken = TakenEpochs()
        self._emitted: set[int] = set()  # readers that have emitted the last epoch whole
        self._kept = NONE_TAKEN
        self._snapshots: dict[int, int] = {}  # the last sealed epoch, by checkpoint
        self._batch: _Batch | None = None
        self._run = 0
        self._has_query = False
        self._is_query_over = False
        self._has_ended_input = False
        self._is_over = False

    @property
    def next_deadline_ms(self) -> int | None:
        return None if self._batch is None else self._batch.due_ms

    def handle(self, message: Message, now_ms: int) -> list[Action]:
        """Return what has to be done about a message."""
        if self._is_over and not isinstance(message, BatchOffered):
            return []
        match message:
            case JobBegan():
                return self._job_began(message)
            case JobLeft():
                return self._job_left()
            case JobEnded():
                self._is_over = True
                return self._drop_batch("the job that reads the query has ended")
            case ReaderCame():
                self._readers[message.place.subtask] = message.place
                return self._go_on()
            case BatchOffered():
                return self._offered(message, now_ms)
            case RunEnded():
                return self._run_ended(message, now_ms)
            case SnapshotTaken():
                last = message.taken.last
                is_whole = last < self._taken.last or last <= self._kept or self._is_emitted
                self._snapshots[message.checkpoint_id] = last if is_whole else last - 1
                return []
            case EpochEmitted():
                return self._epoch_emitted(message, now_ms)
            case CheckpointCompleted():
                return self._completed(message.checkpoint_id)
            case QueryEnded():
                return self._query_ended(message)
            case TimePassed():
                return self._time_passed(now_ms)

    # ---- the job

    def _job_began(self, message: JobBegan) -> list[Action]:
        self._generation, self._parallelism = message.generation, message.parallelism
        self._readers.clear()
        self._snapshots.clear()
        self._has_ended_input = False
        self._taken, self._kept = message.taken, message.taken.last
        self._emitted.clear()
        batch = self._batch
        if batch is None:
            return []
        if batch.epoch <= self._kept:
            return self._commit()
        refusal = self._refusal_of(batch.query_id, batch.epoch)
        if refusal:
            return [*self._drop_batch(refusal), FailJob(refusal, can_restart=False)]
        is_running = batch.state in (BatchState.RUNNING, BatchState.OUTDATED)
        self._batch = replace(batch, state=BatchState.OUTDATED if is_running else BatchState.WAITING, due_ms=None)
        return []

    def _job_left(self) -> list[Action]:
        self._parallelism = 0
        self._readers.clear()
        batch = self._batch
        if batch is not None and batch.state is BatchState.RUNNING:
            self._batch = replace(batch, state=BatchState.OUTDATED)
        elif batch is not None and batch.state is BatchState.DOUBTED:
            self._batch = replace(batch, state=BatchState.WAITING, due_ms=None)
        return []  # what is sealed may be in the checkpoint that the job begins again from

    def _go_on(self) -> list[Action]:
        """Do what has waited for the readers, once all of them are there."""
        if not self._parallelism or len(self._readers) < self._parallelism:
            return []
        actions: list[Action] = []
        if self._is_query_over:
            if not self._has_ended_input:
                self._has_ended_input = True
                actions.append(EndInput())
        elif not self._has_query:
            self._has_query = True
            actions.append(StartQuery())
        batch = self._batch
        if batch is not None and batch.state is BatchState.WAITING:
            self._run += 1
            self._batch = replace(batch, state=BatchState.RUNNING, run=self._run)
            places = tuple(self._readers[subtask] for subtask in sorted(self._readers))
            actions.append(RunBatch(batch.call, self._run, batch.epoch, places))
        return actions

    # ---- the query

    def _offered(self, message: BatchOffered, now_ms: int) -> list[Action]:
        if self._is_over:
            return [FailBatch(message.call, "the job that reads the query has ended")]
        actions = self._drop_batch("the query has begun again, and offers its batch anew")
        refusal = self._refusal_of(message.query_id, message.epoch)
        if refusal:
            return [*actions, FailBatch(message.call, refusal), FailJob(refusal, can_restart=False)]
        batch = _Batch(message.call, message.query_id, message.epoch, BatchState.WAITING)
        if batch.epoch > self._taken.last:
            self._batch = batch
            return actions + self._go_on()
        self._batch = replace(batch, state=BatchState.SEALED, due_ms=now_ms + REPEAT_MS)
        if batch.epoch <= self._kept:
            return actions + self._commit()
        return [*actions, RequestCheckpoint()] if self._is_emitted else actions

    def _refusal_of(self, query_id: str, epoch: int) -> str:
        """Why a batch cannot be the next one of the job; empty if it can."""
        taken = self._taken
        if taken.query_id and query_id != taken.query_id:
            return (
                f"the job goes on from a checkpoint that has the batches up to {taken.last} of another query, "
                f"{taken.query_id}, and this one is {query_id}: give from_streaming_data_frame() the "
                "checkpoint_location that the query had, or begin the job without the state of its source"
            )
        if epoch > taken.last + 1:
            has = f"has its batches up to {taken.last}" if taken.query_id else "has none of its batches"
            return (
                f"the query goes on with batch {epoch}, and the job {has}: the rows between would be lost. Begin the "
                "job from the latest of its checkpoints (execution.state-recovery.path), or both anew, with another "
                "checkpoint_location"
            )
        return ""

    def _query_ended(self, message: QueryEnded) -> list[Action]:
        self._has_query = False
        actions = self._drop_batch("the query has ended")
        if message.error:
            # Without a job there is one soon, which starts the query again.
            return [*actions, FailJob(message.error, message.can_restart)] if self._parallelism else actions
        self._is_query_over = True
        return actions + self._go_on()

    def _drop_batch(self, message: str) -> list[Action]:
        batch, self._batch = self._batch, None
        return [] if batch is None else [FailBatch(batch.call, message)]

    def _commit(self) -> list[Action]:
        batch, self._batch = self._batch, None
        return [] if batch is None else [CommitBatch(batch.call)]

    # ---- the batch

    def _run_ended(self, message: RunEnded, now_ms: int) -> list[Action]:
        batch = self._batch
        if batch is None or batch.run != message.run:
            return []
        if batch.state is BatchState.OUTDATED:
            self._batch = replace(batch, state=BatchState.WAITING)
            return self._go_on()
        if batch.state is not BatchState.RUNNING:
            return []
        if message.error and message.is_undelivered:  # as it is when a process of the job has just died
            self._batch = replace(batch, state=BatchState.DOUBTED, due_ms=now_ms + PATIENCE_MS, error=message.error)
            return []
        if message.error:
            return self._drop_batch(message.error)
        self._taken = TakenEpochs(batch.query_id, batch.epoch)
        self._emitted.clear()
        self._batch = replace(batch, state=BatchState.SEALED)
        return [SealEpoch(self._generation, batch.run, self._taken, tuple(message.parts))]

    @property
    def _is_emitted(self) -> bool:
        return len(self._emitted) == self._parallelism

    def _epoch_emitted(self, message: EpochEmitted, now_ms: int) -> list[Action]:
        if message.epoch != self._taken.last or message.epoch <= self._kept:
            return []
        self._emitted.add(message.subtask)
        if not self._is_emitted:
            return []
        if self._batch is not None and self._batch.state is BatchState.SEALED:
            self._batch = replace(self._batch, due_ms=now_ms + REPEAT_MS)
        return [RequestCheckpoint()]

    def _completed(self, checkpoint_id: int) -> list[Action]:
        self._kept = max(self._kept, self._snapshots.get(checkpoint_id, NONE_TAKEN))
        self._snapshots = {key: last for key, last in self._snapshots.items() if key > checkpoint_id}
        batch = self._batch
        is_kept = batch is not None and batch.state is BatchState.SEALED and batch.epoch <= self._kept
        return self._commit() if is_kept else []

    def _time_passed(self, now_ms: int) -> list[Action]:
        batch = self._batch
        if batch is None or batch.due_ms is None or now_ms < batch.due_ms:
            return []
        if batch.state is BatchState.DOUBTED:
            return self._drop_batch(batch.error)
        self._batch = replace(batch, due_ms=now_ms + REPEAT_MS)
        return [RequestCheckpoint()] if self._is_emitted else []
