"""The job's side of a query that it reads: rows from the network, what of them counts, checkpoints at any moment."""

import itertools
import pickle
import threading
from unittest.mock import Mock

import cloudpickle
import pytest
from support.worlds.surroundings import ManualTime, Surroundings

from flinkbuf.control.control_client import ControlClient
from flinkbuf.control.control_server import group_secret
from flinkbuf.errors import CorruptDataError, RemoteTransportError
from flinkbuf.records.arrow_batches import arrow_schema
from flinkbuf.spark.frames.arrow_input import ArrowBatches, ArrowRows
from flinkbuf.spark.streams import query_feed
from flinkbuf.spark.streams.epoch_source import EpochSource, EpochSourceFactory
from flinkbuf.spark.streams.epochs import EpochEmitted, JobBegan, JobLeft, Part, ReaderCame, SealEpoch, TakenEpochs
from flinkbuf.spark.streams.received_parts import MemoryBudget, PartRows, ReceivedParts, StoredBatch
from flinkbuf.spark.streams.rows_protocol import group_of, messages_of, read_message
from flinkbuf.spark.streams.rows_sender import RowsSender
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.sources.source_coordinator import CoordinatorStore
from flinkbuf.streaming.state.snapshot import OperatorSnapshot, redistribute
from flinkbuf.streaming.time.watermark_strategy import WatermarkStrategy
from flinkbuf.types.duration import Duration
from flinkbuf.types.types import as_type

pa = pytest.importorskip("pyarrow")

TYPE = as_type("n bigint, name string")
SCHEMA = arrow_schema(TYPE)


class Feed:
    """The program's side, which only notes what it is told."""

    key, hosts, tls = b"k" * 32, ("127.0.0.1", None), None

    def __init__(self):
        self.told = []
        self._generations = itertools.count(1)

    def next_generation(self):
        return next(self._generations)

    def attach(self, enumerator):
        self.enumerator = enumerator

    def detach(self, enumerator):
        pass

    def tell(self, message):
        self.told.append(message)

    def of(self, kind):
        return [each for each in self.told if isinstance(each, kind)]


class Job:
    """All subtasks of the source and its coordinator, from the beginning or from a checkpoint."""

    def __init__(self, parallelism=1, checkpoint=None, read=None, strategy=None):
        self.feed = Feed()
        self.requested = []
        factory = EpochSourceFactory(EpochSource(self.feed, read or ArrowRows(SCHEMA, TYPE)), strategy)
        store = CoordinatorStore(lambda: self.requested.append(1))
        self.coordinator = factory.create_coordinator(parallelism, ManualTime(), store, print)
        taken, states = (None, None) if checkpoint is None else checkpoint
        self.coordinator.start(taken)
        self.subtasks = []
        for index in range(parallelism):
            around = Surroundings(subtask_index=index, parallelism=parallelism, coordinator=self.coordinator)
            snapshot = (
                None if states is None else redistribute(map(OperatorSnapshot.decode, states), parallelism, index)
            )
            around.operator = around.open(pickle.loads(cloudpickle.dumps(factory))(), snapshot)
            around.mailbox.run()
            self.subtasks.append(around)

    @property
    def places(self):
        return tuple(came.place for came in self.feed.of(ReaderCame))

    def send(self, run, partition, attempt, *numbers, rows_a_batch=2):
        """Have a task of Spark send a part; returns what it would tell the driver."""
        place = self.places[partition % len(self.places)]
        secrets = {place.token: group_secret(self.feed.key, group_of(place.token))}
        table = pa.table({"n": numbers, "name": [f"<{n}>" for n in numbers]}, SCHEMA)
        batches = iter(table.to_batches(rows_a_batch))
        sender = RowsSender(run, self.places, secrets, SCHEMA)
        count = sender._send(place, (run, partition, attempt), next(batches), batches)
        return Part(run, partition, attempt, place.subtask, place.token, count)

    def seal(self, epoch, run, *parts):
        (began,) = self.feed.of(JobBegan)[-1:]
        self.feed.enumerator.seal(SealEpoch(began.generation, run, TakenEpochs("q", epoch), parts))

    def turns(self, count=1_000, records=1):
        for around in self.subtasks:
            around.mailbox.run()
            for _ in range(count):
                if around.operator.emit_next(around.output, records) != InputStatus.MORE_AVAILABLE:
                    break
        return self

    def checkpoint(self, checkpoint_id=1):
        taken = self.coordinator.snapshot(checkpoint_id)
        for around in self.subtasks:
            around.mailbox.run()
        return taken, [around.operator.snapshot_state(checkpoint_id).encode() for around in self.subtasks]

    def numbers(self):
        """Of the rows that each subtask has emitted."""
        return [
            [
                n
                for value in around.output.values
                for n in ([value.n] if hasattr(value, "n") else value["n"].to_pylist())
            ]
            for around in self.subtasks
        ]

    def close(self):
        for around in self.subtasks:
            around.operator.close()
        self.coordinator.close()


@pytest.fixture
def job_of():
    jobs = []

    def make(*arguments, **named):
        jobs.append(Job(*arguments, **named))
        return jobs[-1]

    yield make
    for job in jobs:
        job.close()


def test_the_attempts_that_count_are_the_epoch_and_no_others(job_of):
    job = job_of(2)
    failed = job.send(1, 0, 10, 90, 91, 92)  # Spark gave it up
    first, second = job.send(1, 0, 12, 1, 2, 3), job.send(1, 1, 11, 4)
    third = job.send(1, 2, 13, 5, 6)
    assert job.turns().numbers() == [[], []], "nothing counts yet"
    job.seal(0, 1, first, second, third)
    assert job.turns().numbers() == [[1, 2, 3, 5, 6], [4]] and failed.row_count == 3
    assert sorted(job.feed.of(EpochEmitted), key=repr) == [EpochEmitted(0, 0), EpochEmitted(1, 0)]
    late = job.send(1, 1, 14, 70)
    assert late.row_count == 1, "an attempt that comes too late is answered, and dropped"
    job.seal(1, 2, job.send(2, 0, 15, 7))
    assert job.turns().numbers() == [[1, 2, 3, 5, 6, 7], [4]]


@pytest.mark.parametrize("read", [ArrowRows(SCHEMA, TYPE), ArrowBatches(SCHEMA)], ids=["rows", "batches"])
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_a_checkpoint_in_the_middle_of_an_epoch_has_the_rest_of_its_rows(job_of, read, before, after):
    for turns in range(8):
        job = job_of(before, read=read)
        parts = [
            job.send(1, partition, partition, *range(10 * partition, 10 * partition + 5)) for partition in range(3)
        ]
        job.seal(0, 1, *parts)
        emitted = job.turns(turns).numbers()
        taken, states = job.checkpoint()
        assert taken == TakenEpochs("q", 0)
        other = ArrowBatches(SCHEMA) if turns % 2 else ArrowRows(SCHEMA, TYPE)  # what is read next may be the other
        again = job_of(after, (taken, states), read=other)
        again.seal(1, 1, again.send(1, 0, 7, 99))
        rest = again.turns().numbers()
        assert sorted(itertools.chain(*emitted, *rest)) == sorted([*range(5), *range(10, 15), *range(20, 25), 99])


def test_event_time_moves_at_the_end_of_an_epoch_and_a_reader_without_rows_is_idle(job_of):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_assigner(
        lambda row, timestamp: row.n
    )
    job = job_of(2, strategy=strategy)
    job.seal(0, 1, job.send(1, 0, 1, 100, 300), job.send(1, 2, 2, 50, 200))
    job.turns()
    told = [[str(each) for each in around.output.elements if not hasattr(each, "value")] for around in job.subtasks]
    assert len(told[0]) == 1 and "294" in told[0][0] and "Status" in told[1][0]
    job.seal(1, 2, job.send(2, 1, 3, 400))
    job.turns()
    told = [[str(each) for each in around.output.elements if not hasattr(each, "value")] for around in job.subtasks]
    assert "394" in told[1][-1] and "Status" in told[0][-1]


def test_subtasks_that_begin_again_together_take_the_job_back_and_one_alone_is_refused(job_of):
    job = job_of(2)
    job.checkpoint(1)
    job.seal(0, 1, job.send(1, 0, 1, 1))
    job.checkpoint(2)
    for subtask in range(2):
        job.coordinator.reset_reader(subtask, 1)
    assert job.feed.told[-2:] == [JobLeft(), JobBegan(3, 2, TakenEpochs())]
    job.coordinator.reset_reader(0, 1)
    with pytest.raises(RuntimeError, match="some subtasks of the source begin again, and others go on"):
        job.coordinator.register_reader(0, None)


def test_a_query_is_read_by_one_source_of_one_job_at_a_time_and_by_the_next_one_anew(monkeypatch):
    monkeypatch.setattr(query_feed, "check_workers", lambda context: None)
    monkeypatch.setattr(query_feed, "END_WAIT_S", 0.05)
    options = {"trigger": None, "query_name": None}
    one, other = (
        query_feed.QueryFeed(Mock(), Mock(), SCHEMA, checkpoint_location=place, **options) for place in ("/q", "/q/")
    )
    first, second, third = Mock(), Mock(), Mock()
    one.attach(first)
    with pytest.raises(query_feed.QueryFailedError, match="a query has one source.* call as_columns") as refused:
        one.attach(second)
    assert not refused.value.can_restart
    with pytest.raises(query_feed.QueryFailedError, match="checkpoint_location '/q/' is that of another query"):
        other.attach(second)
    monkeypatch.setattr(query_feed, "END_WAIT_S", 30)
    threading.Timer(0.05, lambda: (one.detach(first), one.end())).start()
    other.attach(second)  # a job that is about to end is waited for
    other.detach(second)
    other.end()
    one.attach(third)
    assert one._thread.is_alive() and one._ledger._generation == 0
    one.end()  # of a job before, which is late
    (error,) = third.fail.call_args[0]
    assert "has ended only now" in str(error) and error.can_restart
    assert not query_feed._places


def test_who_does_not_know_the_secret_brings_nothing(job_of):
    job = job_of()
    place = job.places[0]
    with pytest.raises(RemoteTransportError):
        ControlClient.connect((place.host, place.port), group_of(place.token), b"x" * 32, timeout_s=5)


def test_a_sender_says_which_reader_it_does_not_reach(job_of):
    job = job_of()
    job.subtasks[0].operator.close()
    with pytest.raises(
        RemoteTransportError, match=r"rows of a micro-batch did not reach subtask 0 of the job's source"
    ):
        job.send(1, 0, 1, 1)


@pytest.mark.parametrize("limit", [0, 7, 1_000])
def test_rows_beyond_what_memory_has_go_to_a_file_and_come_back(limit):
    budget = MemoryBudget(limit)
    rows = PartRows(budget)
    batches = [StoredBatch(count, bytes([count] * 4)) for count in (3, 1, 2)]
    for batch in batches:
        rows.append(batch)
    assert [list(rows.batches(skipped)) for skipped in range(7)] == [
        batches, batches, batches, batches[1:], batches[2:], batches[2:], []
    ]  # fmt: skip
    rows.close()
    assert budget.take(limit) and rows.row_count == 6


def test_a_part_that_is_cut_off_or_has_other_rows_than_it_says_is_none():
    parts = ReceivedParts(MemoryBudget())
    parts.begin((1, 0, 5))
    parts.add((1, 0, 5), StoredBatch(2, b"ab"))
    with pytest.raises(CorruptDataError, match="partition 0 of a micro-batch has 2 rows, where its sender says 3"):
        parts.end((1, 0, 5), 3)
    with pytest.raises(CorruptDataError, match="this reader does not have it"):
        parts.seal(1, [Part(1, 0, 5, 0, "t", 2)])


def test_batches_are_cut_to_messages_and_what_is_none_is_refused():
    batch = pa.record_batch({"text": ["x" * 600_000] * 5})
    said = [read_message(message) for message in messages_of(batch)]
    assert [each.row_count for each in said] == [1, 1, 1, 1, 1]
    with pytest.raises(CorruptDataError, match="a sender of rows does not say b'hello'"):
        read_message(b"hello")
