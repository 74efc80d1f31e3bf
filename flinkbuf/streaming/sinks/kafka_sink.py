"""Records into Kafka's topics: exactly once by transactions, at least once by waiting for the brokers, or neither.

Kafka gives a transaction up when its producer begins again, so one that was only prepared would be lost with its
process. So the records of a transaction are kept in the checkpoint, and written and committed in one go when it counts.
With them the transaction commits an offset whose text names it and those before it: what begins again reads there which
were committed, and writes those that were not. A producer with the same transactional id that lives on is shut out by
the brokers before anything is read. Flink: KafkaSink, KafkaCommitter, GenericWriteAheadSink.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flinkbuf.errors import FlinkbufError
from flinkbuf.log import logger
from flinkbuf.streaming.sinks.kafka_group import marks_of
from flinkbuf.streaming.sinks.kafka_marks import CommittedNumbers
from flinkbuf.streaming.sinks.sink import CommitRequest, Committer, Sink, SinkContext, SinkWriter, WriterContext
from flinkbuf.streaming.sources.kafka_access import check_access
from flinkbuf.streaming.sources.kafka_client import (
    REQUEST_TIMEOUT_S,
    KafkaTopicPartition,
    calling_back,
    client_library,
    kafka_error,
    make_producer,
)

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException, Message, Producer

_ANY_PARTITION = -1  # the key chooses it
_SERVE_EVERY = 64  # records: so often the client library calls back
_WAIT_S = 0.1
_ABORT_S = 5.0
_TRANSACTION_ABORTABLE = 120  # an error of brokers that the client library has no name for
_TOPIC_WAIT_S = 3.0  # brokers may be about to make it, as auto.create.topics.enable says
_PAUSES_S = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # before a transaction is tried again; the last one from then on
_DEFAULT_TRANSACTION_TIMEOUT_MS = 60_000  # librdkafka's
_MOST_RECORDS, _MOST_BYTES = 50_000, 32 << 20  # of a transaction in batch: written in a second or two

KafkaRecord = tuple[str, bytes | None, bytes | None, int | None]  # topic, key, value, timestamp in milliseconds or None


@dataclass(frozen=True)
class KafkaSinkOptions:
    """What a sink of Kafka was built with."""

    serialize: Callable[[object], tuple[str, bytes | None, bytes | None]]  # to topic, key and value
    properties: Mapping[str, object] = field(default_factory=dict)  # of the client library
    is_transactional: bool = False
    waits_for_brokers: bool = False  # at each checkpoint
    transactional_id_prefix: str = ""


@dataclass(frozen=True)
class KafkaTransaction:
    """Records that are to be visible together: the committable of the sink."""

    transactional_id: str
    unique: str  # its writer and its number among those that the writer marks at the same place
    records: tuple[KafkaRecord, ...] = field(repr=False)  # an error names the transaction, not all of them

    def __str__(self) -> str:
        return f"a transaction of {len(self.records)} records as {self.transactional_id!r} of Kafka"

    @property
    def marker(self) -> KafkaTopicPartition:
        """Return the place where the group of the transactional id commits an offset together with the records."""
        return KafkaTopicPartition(self.records[0][0], 0)


class KafkaTopicSink(Sink):
    """Writes records; `flinkbuf.datastream.connectors.kafka.KafkaSink` is its face."""

    def __init__(self, options: KafkaSinkOptions) -> None:
        self.options = options

    def create_writer(self, context: WriterContext) -> SinkWriter:
        """Write the records of one subtask."""
        check_access(self.options.properties)
        if self.options.is_transactional:
            return TransactionalWriter(self.options, context)
        return ProducingWriter(self.options)

    def create_committer(self) -> Committer | None:
        """Write and commit transactions."""
        return KafkaCommitter(self.options.properties) if self.options.is_transactional else None

    @property
    def has_committer(self) -> bool:
        """Return whether it writes transactions."""
        return self.options.is_transactional


class ProducingWriter(SinkWriter):
    """Gives each record to the client library at once."""

    def __init__(self, options: KafkaSinkOptions) -> None:
        self._options = options
        self._serialize = options.serialize
        self._producer = make_producer(options.properties)
        self._refusals = _Refusals()
        self._produce, self._hear = self._producer.produce, self._refusals.hear  # found once, not for each record
        self._until_served = _SERVE_EVERY

    def write(self, element: object, context: SinkContext) -> None:
        """Produce a record; waits while the client library has too many."""
        topic, key, value = self._serialize(element)
        timestamp = context.timestamp()
        self._until_served -= 1
        if self._until_served == 0:
            self._until_served = _SERVE_EVERY
            calling_back(lambda: self._producer.poll(0))
            self._check()
        try:
            # As in `produce`, whose call and tuple would take as long as serializing a short text.
            self._produce(topic, value, key, _ANY_PARTITION, self._hear, None, _stamp_of(timestamp) if timestamp else 0)
        except BufferError:
            produce(self._producer, (topic, key, value, timestamp), self._hear)

    def _check(self) -> None:
        error, self._refusals.first = self._refusals.first, None
        if error is not None:
            raise client_library().KafkaException(error)

    def flush(self, end_of_input: bool) -> None:
        """Wait until the brokers have all records."""
        if self._options.waits_for_brokers or end_of_input:
            while calling_back(lambda: self._producer.flush(_WAIT_S)):
                self._check()
            self._check()

    def close(self) -> None:
        """Drop the records that the brokers do not have."""
        self._producer.purge()
        with contextlib.suppress(client_library().KafkaException):  # what was fatal was told before
            calling_back(lambda: self._producer.flush(_WAIT_S))


class _Refusals:
    """Hears of what the brokers did not take; apart from the writer, so that its producer ends when it is let go."""

    def __init__(self) -> None:
        self.first: KafkaError | None = None

    def hear(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self.first is None:
            self.first = error


class TransactionalWriter(SinkWriter):
    """Keeps the records between two checkpoints, to be written when the second one counts.

    In batch there is but the end, and no limit to how many come before it. So records are handed over when there are
    enough for a transaction, which is written within its timeout and fits into memory; none of them begins before the
    last writer has finished.
    """

    def __init__(self, options: KafkaSinkOptions, context: WriterContext) -> None:
        self._serialize = options.serialize
        self._transactional_id = f"{options.transactional_id_prefix}-{context.subtask_index}"
        self._records: list[KafkaRecord] = []
        self._name = uuid.uuid4().hex[:16]
        self._counts: Counter[str] = Counter()  # of transactions, by the topic that their mark is at
        self._hand_over = context.hand_over
        self._byte_count = 0  # of keys and values that are kept, where they are handed over

    def write(self, element: object, context: SinkContext) -> None:
        """Keep a record."""
        topic, key, value = self._serialize(element)
        self._records.append((topic, key, value, context.timestamp()))
        if self._hand_over is not None:
            self._byte_count += len(key or b"") + len(value or b"")
            if len(self._records) >= _MOST_RECORDS or self._byte_count >= _MOST_BYTES:
                for transaction in self.prepare_commit():
                    self._hand_over(transaction)

    def flush(self, end_of_input: bool) -> None:
        """Do nothing: no record is written before the commit."""

    def prepare_commit(self) -> Sequence[KafkaTransaction]:
        """Return the records since the last call."""
        records, self._records = self._records, []
        self._byte_count = 0
        if not records:
            return []
        first_topic = records[0][0]
        self._counts[first_topic] += 1
        name = f"{self._name}.{self._counts[first_topic]}"
        return [KafkaTransaction(self._transactional_id, name, tuple(records))]


class KafkaCommitter(Committer):
    """Writes each transaction with the producer that its transactional id belongs to, unless it was committed.

    After a rescale several subtasks may have transactions of one id. The one that begins as it shuts the others out,
    reads what was committed by then, and goes on; the others begin again. So each is committed once, by any of them.
    """

    commits_one_by_one = True

    def __init__(self, properties: Mapping[str, object]) -> None:
        self._properties = properties
        self._sessions: dict[str, _Session] = {}  # by transactional id

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Commit each in order, and none of an id behind one that is to be tried again."""
        by_id: dict[str, list[CommitRequest]] = {}
        for request in requests:
            by_id.setdefault(request.committable.transactional_id, []).append(request)
        for transactional_id, some in by_id.items():
            self._commit_in_order(transactional_id, some)

    def _commit_in_order(self, transactional_id: str, requests: list[CommitRequest]) -> None:
        library = client_library()
        time.sleep(_PAUSES_S[min(requests[0].attempts, len(_PAUSES_S) - 1)])
        for number, request in enumerate(requests):
            try:
                if transactional_id not in self._sessions:
                    self._sessions[transactional_id] = _Session(self._properties, transactional_id)
                if not self._sessions[transactional_id].commit(request.committable):
                    request.signal_already_committed()
            except library.KafkaException as error:
                self._drop(transactional_id)
                if not _may_try_again(error.args[0]):
                    raise FlinkbufError(f"{request.committable} cannot be committed: {error}") from error
                logger.warning("%s is committed later: %s", request.committable, error)
                for later in requests[number:]:
                    later.retry_later()
                    later.error = error
                return

    def _drop(self, transactional_id: str) -> None:
        """Drop a session, to begin anew the next time."""
        session = self._sessions.pop(transactional_id, None)
        if session is not None:
            session.close()

    def close(self) -> None:
        """Close all producers."""
        for transactional_id in list(self._sessions):
            self._drop(transactional_id)


class _Session:
    """The time in which a transactional id is this process's: from its beginning until another one begins as it."""

    def __init__(self, properties: Mapping[str, object], transactional_id: str) -> None:
        self._producer = make_producer({**properties, "transactional.id": transactional_id})
        self._marks = marks_of(properties, transactional_id, self._producer)  # asks what was before
        try:
            self._producer.init_transactions(REQUEST_TIMEOUT_S)  # shuts out who was it, and aborts what that had begun
            self._marks.begin()
        except BaseException:
            self._marks.close()
            raise
        self._servers = properties.get("bootstrap.servers")
        given_ms = properties.get("transaction.timeout.ms", _DEFAULT_TRANSACTION_TIMEOUT_MS)
        self._timeout_s = int(str(given_ms)) / 1_000
        self._topics: set[str] = set()  # that are known to be there
        self._committed: dict[KafkaTopicPartition, CommittedNumbers] = {}  # by where their mark is
        self._is_open = False  # a transaction was begun
        self._is_waiting = False  # for a mark to be taken

    def commit(self, transaction: KafkaTransaction) -> bool:
        """Write and commit a transaction; False: that was done before."""
        committed = self._committed_at(transaction.marker)
        topics = {record[0] for record in transaction.records}
        for topic in topics:  # of one that was committed, too: its records may wait to be seen
            self._marks.settle_topic(topic)
        if transaction.unique in committed:
            return False
        for topic in topics - self._topics:
            self._find(topic)
        began = time.monotonic()
        try:
            self._write(transaction, committed)
        except client_library().KafkaException as error:
            if time.monotonic() - began < self._timeout_s or not _may_try_again(error.args[0]):
                raise
            raise kafka_error("_TIMED_OUT", self._too_slow(len(transaction.records), error)) from error
        self._marks.confirm(transaction.marker)  # before that it is not told: who fails now begins again, and finds it
        return True

    def _write(self, transaction: KafkaTransaction, committed: CommittedNumbers) -> None:
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error)

        self._marks.begin_transaction()
        self._producer.begin_transaction()
        self._is_open = True
        for record in transaction.records:
            produce(self._producer, record, delivered)
        if calling_back(lambda: self._producer.flush(self._timeout_s)):
            raise kafka_error("_TIMED_OUT", f"the brokers did not take all records within {self._timeout_s:g} s")
        if not errors:  # otherwise the commit says which of them counts
            committed.add(transaction.unique)  # with the session it is forgotten if the transaction does not go through
            self._is_waiting = True
            self._marks.write(transaction.marker, len(transaction.records), str(committed))
            self._is_waiting = False
        calling_back(lambda: self._producer.commit_transaction(self._timeout_s))
        self._is_open = False
        if errors:
            raise FlinkbufError(f"{transaction} was committed without some of them: {errors[0]}")

    def _too_slow(self, count: int, error: KafkaException) -> str:
        return (
            f"{count} records were not written and committed within {self._timeout_s:g} s ({error.args[0].str()}); "
            "brokers abort a transaction then, and its records are kept. If none of the brokers was away, allow more: "
            'set_property("transaction.timeout.ms", …), up to what the brokers have as transaction.max.timeout.ms, or '
            "take checkpoints more often"
        )

    def _find(self, topic: str) -> None:
        """Refuse a topic that is not there: in a transaction the client library would wait for it, half a minute."""
        deadline = time.monotonic() + _TOPIC_WAIT_S
        while True:
            error = self._producer.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic].error
            if error is None or error.code() != client_library().KafkaError.UNKNOWN_TOPIC_OR_PART:
                self._topics.add(topic)
                return
            if time.monotonic() > deadline:
                raise FlinkbufError(
                    f"the brokers at {self._servers} have no topic {topic!r}, which records are to be written to, and "
                    "make none: create it; the records are in the checkpoint, and are written when the job goes on"
                )
            time.sleep(_WAIT_S)

    def _committed_at(self, marker: KafkaTopicPartition) -> CommittedNumbers:
        if marker not in self._committed:
            self._committed[marker] = CommittedNumbers.parse(self._marks.read(marker))
        return self._committed[marker]

    def close(self) -> None:
        """Abort what was begun: until then consumers of what is committed wait behind it, up to its timeout.

        But not while a mark may still arrive: behind the abort it would belong to no transaction, and never be settled.
        The next session with the transactional id ends the transaction, and shuts the mark out.
        """
        self._producer.purge()
        if self._is_open and not self._is_waiting:
            with contextlib.suppress(client_library().KafkaException):
                calling_back(lambda: self._producer.abort_transaction(_ABORT_S))
        self._marks.close()


def produce(producer: Producer, record: KafkaRecord, delivered: Callable[[KafkaError | None, Message], None]) -> None:
    """Give the client library a record, waiting while it has too many."""
    topic, key, value, timestamp = record
    stamp = 0 if timestamp is None else _stamp_of(timestamp)
    while True:
        try:
            producer.produce(topic, value, key, _ANY_PARTITION, delivered, None, stamp)  # by names it takes longer
            return
        except BufferError:
            calling_back(lambda: producer.poll(_WAIT_S))


def _stamp_of(timestamp: int) -> int:
    return max(timestamp, 0)  # 0: that of the writing


def _may_try_again(error: KafkaError) -> bool:
    codes = client_library().KafkaError
    shut_out = (
        codes._FENCED,
        codes.PRODUCER_FENCED,
        codes.INVALID_PRODUCER_EPOCH,
        codes.INVALID_PRODUCER_ID_MAPPING,
        codes.INVALID_TXN_STATE,
        _TRANSACTION_ABORTABLE,
    )
    if error.code() in shut_out:
        return True  # as who shuts the other out
    if error.code() in (codes._TRANSPORT, codes._TIMED_OUT, codes.NOT_COORDINATOR, codes.COORDINATOR_LOAD_IN_PROGRESS):
        return True
    refused = (
        codes.MSG_SIZE_TOO_LARGE,
        codes.RECORD_LIST_TOO_LARGE,
        codes.INVALID_RECORD,
        codes.INVALID_TIMESTAMP,
        codes.TOPIC_AUTHORIZATION_FAILED,
        codes.GROUP_AUTHORIZATION_FAILED,
        codes.CLUSTER_AUTHORIZATION_FAILED,
        codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        codes.OFFSET_METADATA_TOO_LARGE,
    )
    return error.code() not in refused and not error.fatal() and (error.retriable() or error.txn_requires_abort())
