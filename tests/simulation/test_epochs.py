"""Whoever dies, and whenever: each row of a query is in the job once, by what `EpochLedger` decides.

A small world around the classes that decide: a query that notes its batches as done, tasks of Spark that fail, come
twice and come late, readers with `ReceivedParts`, a job with checkpoints that begins again in part or as a whole, and a
program that dies and leaves only what was stored. Chance comes from a seed. After some hundred steps nothing fails any
more, and the query has to come to its end, with each row in the job's state once.
"""

from __future__ import annotations

import copy
from random import Random

import pytest

from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.spark.streams.epochs import (
    BatchOffered,
    CheckpointCompleted,
    CommitBatch,
    EndInput,
    EpochEmitted,
    EpochLedger,
    FailBatch,
    FailJob,
    JobBegan,
    JobEnded,
    JobLeft,
    Part,
    QueryEnded,
    ReaderCame,
    ReaderPlace,
    RequestCheckpoint,
    RunBatch,
    RunEnded,
    SealEpoch,
    SnapshotTaken,
    StartQuery,
    TakenEpochs,
)
from flinkbuf.spark.streams.received_parts import MemoryBudget, ReceivedParts, StoredBatch

BATCHES, PARTITIONS = 5, 3
TROUBLED_STEPS = 400
MOST_STEPS = 4_000


def rows_of(epoch, partition):
    return [epoch * 100 + partition * 10 + n for n in range((epoch + partition) % 3 + 1)]


ALL_ROWS = sorted(row for epoch in range(BATCHES) for part in range(PARTITIONS) for row in rows_of(epoch, part))


class Reader:
    """A subtask: what it has received, what of it is sealed, and what it has emitted, which is the state behind it."""

    def __init__(self, subtask, token, state):
        self.place = ReaderPlace(subtask, token, "host", 1)
        self.received = ReceivedParts(MemoryBudget(20))
        self.rest, self.emitted = copy.deepcopy(state)

    def seal(self, order):
        parts = [part for part in order.parts if part.subtask == self.place.subtask]
        for _, rows in self.received.seal(order.run, parts):
            self.rest += [row for batch in rows.batches() for row in batch.message]
            rows.close()
        self.rest.append(("end", order.taken.last))

    def state(self):
        return copy.deepcopy(([each for each in self.rest if isinstance(each, int)], self.emitted))


class World:
    def __init__(self, seed):
        self.rng = Random(seed)
        self.parallelism = self.rng.choice((1, 2, 3))
        self.done = -1  # the last batch that the query has noted as done: all that is left of it when it dies
        self.stored = {}  # complete checkpoints: taken, and the state of each reader
        self.next_checkpoint = 1
        self.attempt = 0
        self.counts = {"runs": 0, "refused": 0}
        self.begin_program()

    # ---- the program, which dies with all of this

    def begin_program(self):
        self.ledger, self.now, self.inbox = EpochLedger(), 0, []
        self.generation, self.calls, self.token = 0, 0, 0
        self.has_query, self.call, self.has_ended, self.is_query_over = False, None, False, False
        self.run_order, self.sends, self.results, self.late = None, [], {}, []
        self.begin_job()

    def begin_job(self, tells_left=False):
        """From the latest complete checkpoint."""
        if tells_left:
            self.inbox.append(JobLeft())
        self.pending = None
        self.generation += 1
        self.has_ended = False
        latest = max(self.stored, default=None)
        empty = [([], []) for _ in range(self.parallelism)]
        self.taken, states = (TakenEpochs(), empty) if latest is None else self.stored[latest]
        self.snapshots = {}
        self.inbox.append(JobBegan(self.generation, self.parallelism, self.taken))
        self.readers, self.coming = {}, list(range(self.parallelism))
        self.states = states

    def tell(self, message):
        crash_after = self.rng.randrange(3) if self.is_troubled and self.rng.random() < 0.01 else None
        for number, action in enumerate(self.ledger.handle(message, self.now)):
            if number == crash_after:  # between two actions
                self.begin_program()
                return
            self.perform(action)

    def perform(self, action):
        match action:
            case StartQuery():
                assert not self.has_query
                self.has_query = True
            case RunBatch():
                self.run_order, self.results = action, {}
                self.sends = list(range(PARTITIONS))
                self.counts["runs"] += 1
            case SealEpoch():
                if action.generation == self.generation:
                    self.taken = action.taken
                    for reader in self.readers.values():
                        reader.seal(action)
            case RequestCheckpoint():
                self.wants_checkpoint = True
            case CommitBatch(call):
                if call != self.call:  # of a query that has ended meanwhile
                    return
                assert self.stored[max(self.stored)][0].last >= self.epoch, "it is in a complete checkpoint"
                if not (self.is_troubled and self.rng.random() < 0.1):  # else Spark dies before it notes it
                    self.done = self.epoch
                    self.call = None
                else:
                    self.end_query("Spark died")
            case FailBatch(call):
                if call == self.call:
                    self.end_query("its batch failed")
            case FailJob():
                assert action.can_restart, action.message
                self.begin_job(tells_left=True)
            case EndInput():
                assert self.is_query_over
                self.has_ended = True

    def end_query(self, error):
        order, results = self.run_order, tuple(self.results.values())
        if order is not None:  # Spark ends it some time later, perhaps when the query has begun again
            self.late.append(lambda: self.inbox.append(RunEnded(order.run, results)))
        self.has_query, self.call, self.run_order = False, None, None
        self.inbox.append(QueryEnded(error))

    # ---- what may happen next

    def steps(self):
        if self.inbox:
            yield self.hear
        if self.coming:
            yield self.reader_comes
        if self.has_query and self.call is None:
            yield self.offer
        if self.run_order is not None:
            yield self.task_of_spark
        for reader in self.readers.values():
            if reader.rest:
                yield lambda reader=reader: self.emit(reader)
        yield self.checkpoint
        if self.late and self.rng.random() < 0.2:
            yield self.late.pop()
        if self.ledger.next_deadline_ms is not None and self.rng.random() < 0.1:
            yield self.time_passes
        if self.is_troubled:
            if self.rng.random() < 0.04:
                yield lambda: self.begin_job(tells_left=True)
            if self.has_query and self.rng.random() < 0.03:
                yield lambda: self.end_query("the query failed")
            if self.rng.random() < 0.02:
                yield self.begin_program

    def hear(self):
        self.tell(self.inbox.pop(0))

    def time_passes(self):
        self.now = self.ledger.next_deadline_ms
        self.inbox.append(TimePassed())

    def reader_comes(self):
        if len(self.inbox) and self.rng.random() < 0.5:
            return
        subtask = self.coming.pop(self.rng.randrange(len(self.coming)))
        self.token += 1
        reader = self.readers[subtask] = Reader(subtask, f"{self.generation}.{self.token}", self.states[subtask])
        self.inbox.append(ReaderCame(reader.place))

    def offer(self):
        if self.done + 1 == BATCHES:
            self.has_query, self.is_query_over = False, True
            self.inbox.append(QueryEnded())
            return
        self.calls += 1
        self.call, self.epoch = self.calls, self.done + 1
        self.inbox.append(BatchOffered(self.call, "q", self.epoch))

    def task_of_spark(self):
        """One task of the run sends, perhaps twice, in part, late; when all have, the run has ended."""
        order = self.run_order
        if not self.sends:
            self.run_order = None
            self.inbox.append(RunEnded(order.run, tuple(self.results.values())))
            return
        partition = self.sends[0]
        self.attempt += 1
        place = order.places[partition % len(order.places)]
        chance = self.rng.random() if self.is_troubled else 1.0
        send = self.sending(order, partition, self.attempt, place)
        if chance < 0.05:  # an attempt that Spark gives up; its rows come, or come too late
            if self.rng.random() < 0.5:
                self.late.append(send)
            else:
                send()
            return
        if chance < 0.08:
            self.run_order = None
            self.inbox.append(RunEnded(order.run, error="a function of the query raised"))
            return
        if not send():
            self.run_order = None
            self.inbox.append(RunEnded(order.run, error="not delivered", is_undelivered=True))
            return
        count = len(rows_of(order.epoch, partition))
        self.results[partition] = Part(order.run, partition, self.attempt, place.subtask, place.token, count)
        self.sends.pop(0)

    def sending(self, order, partition, attempt, place):
        is_cut_off = self.is_troubled and self.rng.random() < 0.05

        def send():
            reader = self.readers.get(place.subtask)
            if reader is None or reader.place.token != place.token:
                return False
            key = (order.run, partition, attempt)
            reader.received.begin(key)
            for row in rows_of(order.epoch, partition):
                reader.received.add(key, StoredBatch(1, [row]))
            if is_cut_off:
                reader.received.drop(key)
                return False
            reader.received.end(key, len(rows_of(order.epoch, partition)))
            return True

        return send

    def emit(self, reader):
        if reader.rest:
            each = reader.rest.pop(0)
            if isinstance(each, int):
                reader.emitted.append(each)
            else:
                self.inbox.append(EpochEmitted(reader.place.subtask, each[1]))

    def checkpoint(self):
        """Begin one, or end it: at any moment, whether it was asked for or not."""
        if len(self.readers) < self.parallelism:
            return
        if self.pending is None:
            states = [self.readers[subtask].state() for subtask in range(self.parallelism)]
            self.pending = self.next_checkpoint, self.taken, states
            self.next_checkpoint += 1
            self.inbox.append(SnapshotTaken(self.pending[0], self.taken))
        elif self.rng.random() < 0.5:
            number, taken, states = self.pending
            self.stored[number] = taken, states
            self.pending = None
            if not (self.is_troubled and self.rng.random() < 0.05):  # else the notice is lost
                self.inbox.append(CheckpointCompleted(number))

    def run(self):
        for step in range(MOST_STEPS):
            self.is_troubled = step < TROUBLED_STEPS
            has_rest = any(reader.rest for reader in self.readers.values())
            if self.has_ended and not (self.is_troubled or self.inbox or self.coming or has_rest):
                return self.result()
            steps = list(self.steps())
            self.rng.choice(steps)()
        raise AssertionError("the query does not come to its end")

    def result(self):
        return sorted(row for reader in self.readers.values() for row in reader.emitted)

    is_troubled = True


def test_each_row_of_a_query_is_in_the_job_once(seeds):
    for seed in seeds:
        world = World(seed)
        try:
            rows = world.run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        assert rows == ALL_ROWS, f"seed {seed}"


# ---- what is refused, and said


NOTHING_TAKEN = TakenEpochs()


def begun(taken=NOTHING_TAKEN):
    ledger = EpochLedger()
    ledger.handle(JobBegan(1, 1, taken), 0)
    assert ledger.handle(ReaderCame(ReaderPlace(0, "t", "host", 1)), 0) == [StartQuery()]
    return ledger


@pytest.mark.parametrize(
    ("taken", "query_id", "epoch", "said"),
    [
        (TakenEpochs(), "q", 3, "goes on with batch 3, and the job has none of its batches: the rows between would be"),
        (TakenEpochs("q", 3), "q", 5, "goes on with batch 5, and the job has its batches up to 3"),
        (TakenEpochs("q", 3), "other", 0, "has the batches up to 3 of another query, q, and this one is other: give"),
    ],
)
def test_a_query_and_a_job_that_do_not_fit_are_refused(taken, query_id, epoch, said):
    fail_batch, fail_job = begun(taken).handle(BatchOffered(1, query_id, epoch), 0)
    assert said in fail_batch.message and fail_job == FailJob(fail_batch.message, can_restart=False)


def test_rows_that_reach_no_reader_fail_the_batch_only_if_the_job_does_not_begin_again():
    ledger = begun()
    ledger.handle(BatchOffered(1, "q", 0), 0)
    assert ledger.handle(RunEnded(1, error="no reader", is_undelivered=True), 100) == []
    assert ledger.handle(JobLeft(), 200) == [] and ledger.next_deadline_ms is None
    assert ledger.handle(JobBegan(2, 1, TakenEpochs()), 300) == []
    (again,) = ledger.handle(ReaderCame(ReaderPlace(0, "u", "host", 2)), 400)
    assert (again.run, again.places[0].token) == (2, "u")
    ledger.handle(RunEnded(2, error="no reader", is_undelivered=True), 500)
    assert ledger.handle(TimePassed(), ledger.next_deadline_ms) == [FailBatch(1, "no reader")]


def test_a_checkpoint_is_asked_for_again_until_one_is_complete():
    ledger = begun()
    ledger.handle(BatchOffered(1, "q", 0), 0)
    ledger.handle(RunEnded(1), 0)
    assert ledger.next_deadline_ms is None, "it is not emitted yet"
    assert ledger.handle(EpochEmitted(0, 0), 10) == [RequestCheckpoint()]
    assert ledger.handle(TimePassed(), ledger.next_deadline_ms) == [RequestCheckpoint()]
    ledger.handle(SnapshotTaken(4, TakenEpochs("q", 0)), 20)
    assert ledger.handle(CheckpointCompleted(4), 30) == [CommitBatch(1)] and ledger.next_deadline_ms is None


def test_who_waits_is_told_when_the_job_is_over():
    ledger = begun()
    ledger.handle(BatchOffered(1, "q", 0), 0)
    assert ledger.handle(JobEnded(), 0) == [FailBatch(1, "the job that reads the query has ended")]
    assert ledger.handle(BatchOffered(2, "q", 0), 0) == [FailBatch(2, "the job that reads the query has ended")]
    assert ledger.handle(QueryEnded(), 0) == []
