"""What brokers of Kafka are asked over the protocol about transactions and the offsets of groups.

The client library has no requests for most of it, and answers from what it remembers where it should ask.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from flinkbuf.streaming.sources.kafka_access import (
    API_VERSIONS,
    METADATA,
    BrokerAnswer,
    KafkaAccess,
    KafkaConnection,
    compact_count,
    compact_text,
    int16,
    int32,
    int64,
    text,
)
from flinkbuf.streaming.sources.kafka_client import (
    REQUEST_TIMEOUT_S,
    KafkaTopicPartition,
    client_library,
    kafka_error,
)

_ONE_REQUEST_S = 10.0  # a broker that does not answer within it may not be the coordinator any more
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.5
_DESCRIBED_AT_ONCE = 4  # partitions; the answer has 37 bytes for each producer that wrote there within a day
_LARGEST_DESCRIPTION = 64 << 20  # bytes: of 450,000 producers a partition
_PRODUCER = struct.Struct(">qiiqiq")  # id, epoch, number, time, coordinator's epoch, where its transaction begins

_OFFSET_FETCH, _FIND_COORDINATOR, _ADD_PARTITIONS, _ADD_OFFSETS, _END_TRANSACTION = 9, 10, 24, 25, 26
_TXN_OFFSET_COMMIT, _DESCRIBE_PRODUCERS, _DESCRIBE_TRANSACTIONS = 28, 61, 65
_VERSIONS = {  # that are spoken here: brokers have them from Kafka 3.0 on, and Kafka 4 has them still
    METADATA: 4,
    _OFFSET_FETCH: 7,
    _FIND_COORDINATOR: 2,
    _ADD_PARTITIONS: 1,
    _ADD_OFFSETS: 2,
    _END_TRANSACTION: 1,
    _TXN_OFFSET_COMMIT: 2,
    _DESCRIBE_PRODUCERS: 0,
    _DESCRIBE_TRANSACTIONS: 0,
}
_GROUP, _TRANSACTION = 0, 1  # kinds of coordinators
_TRANSACTIONAL_ID_NOT_FOUND = 105

Result = TypeVar("Result")
ProducerOwner = tuple[str, int, int]  # transactional id, and the producer's id and epoch


@dataclass(frozen=True)
class TransactionState:
    """What the coordinator of a transactional id knows of its last transaction."""

    name: str  # Ongoing, PrepareCommit and CompleteCommit, the same of Abort, or Empty: the producer has begun anew
    producer_id: int
    epoch: int
    places: tuple[KafkaTopicPartition, ...]  # that it has been written to, until they know how it ended

    @property
    def is_over(self) -> bool:
        """Return whether, by the coordinator, all partitions know how it ended."""
        return self.name == "Empty" or self.name.startswith("Complete")


class UnstableOffsetError(Exception):
    """The offset of a group is part of a transaction that its coordinator takes for open."""


class KafkaCoordinators:
    """Brokers that look after transactional ids and groups: found by asking any, and again when others take over.

    Parameters
    ----------
    access : KafkaAccess
        How brokers are reached.
    timeout_s : float
        So long one request and its repetitions may take.
    """

    def __init__(self, access: KafkaAccess, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self.timeout_s = timeout_s
        self._access = access
        self._servers = deque(access.servers)
        self._connections: dict[tuple[str, int], KafkaConnection] = {}
        self._addresses: dict[tuple[int, str], tuple[str, int]] = {}  # of coordinators, by kind and name

    def __str__(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self._access.servers)

    def are_understood(self) -> bool:
        """Return whether the brokers know all requests that are made here, in the versions that are spoken."""

        def versions(deadline: float) -> bool:
            answer = self._any_broker(deadline).ask(API_VERSIONS, 0, b"", deadline)
            _refuse(answer.int16(), "which requests it knows")
            offered = {answer.int16(): (answer.int16(), answer.int16()) for _ in range(answer.count())}
            return all(
                least <= version <= most
                for api, version in _VERSIONS.items()
                for least, most in [offered.get(api, (1, 0))]
            )

        return self._until_answered(versions)

    # Transactions

    def transaction_of(self, transactional_id: str) -> TransactionState | None:
        """Return the last transaction of a transactional id, and whose it is; None: there has been no producer."""

        def read(answer: BrokerAnswer) -> TransactionState | None:
            _pass_throttle(answer)
            _require(answer.compact_count())
            code = answer.int16()
            if code == _TRANSACTIONAL_ID_NOT_FOUND:
                return None
            _refuse(code, f"the transaction of {transactional_id!r}")
            _, state, _, _ = answer.compact_text(), answer.compact_text(), answer.int32(), answer.int64()
            producer_id, epoch = answer.int64(), answer.int16()
            places = []
            for _ in range(answer.compact_count()):
                topic = answer.compact_text()
                places += [KafkaTopicPartition(topic, answer.int32()) for _ in range(answer.compact_count())]
                answer.skip_tags()
            return TransactionState(state, producer_id, epoch, tuple(places))

        body = b"\x02" + compact_text(transactional_id) + b"\0"
        return self._ask((_TRANSACTION, transactional_id), _DESCRIBE_TRANSACTIONS, body, read, is_compact=True)

    def wait_until_over(self, owner: ProducerOwner) -> None:
        """Wait until, by the coordinator, all partitions know how the transaction of a producer ended."""
        transactional_id, producer_id, epoch = owner
        deadline = time.monotonic() + self.timeout_s
        pause_s = _FIRST_PAUSE_S
        while True:
            state = self.transaction_of(transactional_id)
            if state is None or (state.producer_id, state.epoch) != (producer_id, epoch):
                raise kafka_error("_FENCED", f"another producer has begun as {transactional_id!r}")
            if state.is_over:
                return
            if time.monotonic() + pause_s > deadline:
                reason = f"the transaction of {transactional_id!r} is {state.name} after {self.timeout_s:g} s still"
                raise kafka_error("_TIMED_OUT", reason)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def add_partitions(self, owner: ProducerOwner, places: Iterable[KafkaTopicPartition]) -> None:
        """Say that partitions belong to the transaction of a producer, which it begins if there is none."""
        transactional_id, producer_id, epoch = owner
        topics = _by_topic(places)

        def read(answer: BrokerAnswer) -> None:
            _pass_throttle(answer)
            for _ in range(answer.count()):
                topic = answer.text()
                for _ in range(answer.count()):
                    what = f"adding partition {answer.int32()} of {topic!r} to the transaction of {transactional_id!r}"
                    _refuse(answer.int16(), what)

        body = text(transactional_id) + int64(producer_id) + int16(epoch) + int32(len(topics))
        for topic, partitions in topics.items():
            body += text(topic) + int32(len(partitions)) + b"".join(map(int32, partitions))
        self._ask((_TRANSACTION, transactional_id), _ADD_PARTITIONS, body, read)

    def add_group(self, owner: ProducerOwner, group: str) -> None:
        """Say that offsets of a group belong to the transaction of a producer, which it begins if there is none."""
        transactional_id, producer_id, epoch = owner

        def read(answer: BrokerAnswer) -> None:
            _pass_throttle(answer)
            _refuse(answer.int16(), f"adding group {group!r} to the transaction of {transactional_id!r}")

        body = text(transactional_id) + int64(producer_id) + int16(epoch) + text(group)
        self._ask((_TRANSACTION, transactional_id), _ADD_OFFSETS, body, read)

    def end_transaction(self, owner: ProducerOwner, is_committed: bool) -> None:
        """Commit or abort the transaction of a producer; one that has ended so already may be ended so again."""
        transactional_id, producer_id, epoch = owner

        def read(answer: BrokerAnswer) -> None:
            _pass_throttle(answer)
            _refuse(answer.int16(), f"ending the transaction of {transactional_id!r}")

        body = text(transactional_id) + int64(producer_id) + int16(epoch) + bytes([is_committed])
        self._ask((_TRANSACTION, transactional_id), _END_TRANSACTION, body, read)

    # Offsets of groups

    def offset_text(self, group: str, place: KafkaTopicPartition) -> str:
        """Return the text of the offset that a group has committed.

        A coordinator that has just taken the group over, or does not know yet that another one has, may answer at once
        with what was committed before, if it is not asked to wait for transactions: so it is, and has to agree with the
        other brokers first.

        Raises
        ------
        UnstableOffsetError
            A later offset is in a transaction whose end the coordinator has not heard of.
        """
        what = f"the offset of group {group!r}"

        def read(answer: BrokerAnswer) -> str:
            _pass_throttle(answer)
            if answer.compact_count() == 0:
                _refuse(answer.int16(), what)
                _require(0)
            answer.compact_text()
            _require(answer.compact_count())
            answer.int32()
            offset, _, said = answer.int64(), answer.int32(), answer.compact_text()
            code = answer.int16()
            if code == client_library().KafkaError.UNSTABLE_OFFSET_COMMIT:
                raise UnstableOffsetError(f"{what} waits for a transaction")
            _refuse(code, what)
            answer.skip_tags()
            answer.skip_tags()
            _refuse(answer.int16(), what)
            return said if offset >= 0 else ""

        one_place = b"\x02" + compact_text(place.topic) + b"\x02" + int32(place.partition) + b"\0"
        body = compact_text(group) + one_place + b"\x01" + b"\0"
        return self._ask((_GROUP, group), _OFFSET_FETCH, body, read, is_compact=True)

    def commit_offset(
        self, owner: ProducerOwner, group: str, place: KafkaTopicPartition, offset: int, said: str
    ) -> None:
        """Commit an offset with its text, as part of the transaction of a producer."""
        transactional_id, producer_id, epoch = owner

        def read(answer: BrokerAnswer) -> None:
            _pass_throttle(answer)
            _require(answer.count())
            answer.text()
            _require(answer.count())
            answer.int32()
            _refuse(answer.int16(), f"the offset of group {group!r} in the transaction of {transactional_id!r}")

        body = text(transactional_id) + text(group) + int64(producer_id) + int16(epoch)
        body += int32(1) + text(place.topic) + int32(1) + int32(place.partition)
        body += int64(offset) + int32(-1) + text(said)
        self._ask((_GROUP, group), _TXN_OFFSET_COMMIT, body, read)

    # Partitions

    def partitions_of(self, topic: str) -> list[KafkaTopicPartition]:
        """Return the partitions of a topic; none if it is not there."""
        return self._until_answered(lambda deadline: sorted(self._leaders_of([topic], deadline)))

    def open_at(self, producer_id: int, places: Iterable[KafkaTopicPartition]) -> list[KafkaTopicPartition]:
        """Return those of some partitions in which, by their leaders, a producer's transaction is open.

        Partitions of which the user may not know it are left out.
        """
        wanted = sorted(places)

        def once(deadline: float) -> list[KafkaTopicPartition]:
            by_leader: dict[tuple[str, int], list[KafkaTopicPartition]] = {}
            if wanted:
                leaders = self._leaders_of({place.topic for place in wanted}, deadline)
                for place in wanted:
                    if (leader := leaders.get(place)) is None:
                        raise _TryAgainError(f"partition {place.partition} of {place.topic!r} has no leader")
                    by_leader.setdefault(leader, []).append(place)
            found = []
            for leader, some in by_leader.items():
                for first in range(0, len(some), _DESCRIBED_AT_ONCE):
                    part = some[first : first + _DESCRIBED_AT_ONCE]
                    found += self._open_of_one_leader(leader, producer_id, part, deadline)
            return found

        return self._until_answered(once)

    def _open_of_one_leader(
        self, leader: tuple[str, int], producer_id: int, places: Sequence[KafkaTopicPartition], deadline: float
    ) -> list[KafkaTopicPartition]:
        topics = _by_topic(places)
        body = compact_count(len(topics))
        for topic, partitions in topics.items():
            body += compact_text(topic) + compact_count(len(partitions)) + b"".join(map(int32, partitions)) + b"\0"
        version = _VERSIONS[_DESCRIBE_PRODUCERS]
        connection = self._connection(leader, deadline)
        answer = connection.ask(_DESCRIBE_PRODUCERS, version, body + b"\0", deadline, True, _LARGEST_DESCRIPTION)
        _pass_throttle(answer)
        found = []
        for _ in range(answer.compact_count()):
            topic = answer.compact_text()
            for _ in range(answer.compact_count()):
                place, code, _ = KafkaTopicPartition(topic, answer.int32()), answer.int16(), answer.compact_text()
                if code != client_library().KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    _refuse(code, f"which producers write to partition {place.partition} of {topic!r}")
                for _ in range(answer.compact_count()):
                    each, _, _, _, _, begin = _PRODUCER.unpack(answer.take(_PRODUCER.size))
                    if begin >= 0 and each == producer_id:
                        found.append(place)
                    answer.skip_tags()
                answer.skip_tags()
            answer.skip_tags()
        return found

    def _leaders_of(self, topics: Iterable[str], deadline: float) -> dict[KafkaTopicPartition, tuple[str, int] | None]:
        """Return where the leader of each partition is; None: it has none now."""
        wanted = sorted(topics)
        body = int32(len(wanted)) + b"".join(map(text, wanted)) + b"\0"
        answer = self._any_broker(deadline).ask(METADATA, _VERSIONS[METADATA], body, deadline)
        _pass_throttle(answer)
        brokers = {}
        for _ in range(answer.count()):
            number, address = answer.int32(), (answer.text(), answer.int32())
            brokers[number] = address
            answer.text()  # its rack
        answer.text(), answer.int32()  # the cluster, its controller
        leaders = {}
        for _ in range(answer.count()):
            _, topic, _ = answer.int16(), answer.text(), answer.int8()
            for _ in range(answer.count()):
                _, number, leader = answer.int16(), answer.int32(), answer.int32()
                leaders[KafkaTopicPartition(topic, number)] = brokers.get(leader)
                for _ in ("replicas", "those that are in step"):
                    answer.take(4 * answer.count())
        return leaders

    def _ask(
        self,
        coordinator: tuple[int, str],
        api: int,
        body: bytes,
        read: Callable[[BrokerAnswer], Result],
        is_compact: bool = False,
    ) -> Result:
        def once(deadline: float) -> Result:
            try:
                address = self._addresses.get(coordinator) or self._find(coordinator, deadline)
                connection = self._connection(address, deadline)
                return read(connection.ask(api, _VERSIONS[api], body, deadline, is_compact))
            except BaseException:
                self._addresses.pop(coordinator, None)
                raise

        return self._until_answered(once)

    def _find(self, coordinator: tuple[int, str], deadline: float) -> tuple[str, int]:
        kind, name = coordinator
        connection = self._any_broker(deadline)
        answer = connection.ask(_FIND_COORDINATOR, _VERSIONS[_FIND_COORDINATOR], text(name) + bytes([kind]), deadline)
        answer.int32()
        code, _ = answer.int16(), answer.text()
        _refuse(code, f"the coordinator of {name!r}")
        answer.int32()
        self._addresses[coordinator] = answer.text(), answer.int32()
        return self._addresses[coordinator]

    def _any_broker(self, deadline: float) -> KafkaConnection:
        """Return a connection to one of the brokers; raises the error of the last if there is none."""
        failure: OSError = ConnectionError("no broker of Kafka is named")
        for connection in self._connections.values():
            if not connection.is_closed:
                return connection
        for _ in range(len(self._servers)):
            try:
                return self._connection(self._servers[0], deadline)
            except OSError as error:
                failure = error
                self._servers.rotate(-1)  # who is away may take all the time that there is, but not twice
        raise failure

    def _connection(self, address: tuple[str, int], deadline: float) -> KafkaConnection:
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            connection = self._connections[address] = KafkaConnection(address, self._access, deadline)
        return connection

    def _until_answered(self, question: Callable[[float], Result]) -> Result:
        """Ask again while brokers are away, or hand over to each other."""
        deadline = time.monotonic() + self.timeout_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return question(min(deadline, time.monotonic() + _ONE_REQUEST_S))
            except (OSError, _TryAgainError) as error:
                if not isinstance(error, _TryAgainError):
                    self.close()  # what else is connected may have ended, too
                if time.monotonic() + pause_s > deadline:
                    reason = f"brokers of Kafka did not do in {self.timeout_s:g} s what they were asked: {error}"
                    raise kafka_error("_TIMED_OUT", reason) from error
            except ValueError as error:
                self.close()
                raise kafka_error("_BAD_MSG", str(error)) from error
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def close(self) -> None:
        """Close connections; they are opened again if something is asked."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


class _TryAgainError(Exception):
    """A broker asks to be asked again, or another one."""


def _refuse(code: int, what: str) -> None:
    """Raise the error that a broker answers with, if it is one."""
    if code == 0:
        return
    library = client_library()
    codes = library.KafkaError
    error = codes(code, f"{what}: {codes(code).str()}")
    passing = (
        codes.COORDINATOR_LOAD_IN_PROGRESS,
        codes.COORDINATOR_NOT_AVAILABLE,
        codes.NOT_COORDINATOR,
        codes.CONCURRENT_TRANSACTIONS,
        codes.REQUEST_TIMED_OUT,
        codes.NOT_ENOUGH_REPLICAS,
        codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        codes.UNKNOWN_TOPIC_OR_PART,  # the broker has not heard of it yet
        codes.LEADER_NOT_AVAILABLE,
        codes.NOT_LEADER_FOR_PARTITION,
        codes.NETWORK_EXCEPTION,
    )
    if code in passing:
        raise _TryAgainError(str(error))
    raise library.KafkaException(error)


def _pass_throttle(answer: BrokerAnswer) -> None:
    answer.int32()  # for how long the broker holds requests back


def _require(count: int) -> None:
    if count == 0:
        raise ValueError("a broker of Kafka answered for nothing that it was asked about")


def _by_topic(places: Iterable[KafkaTopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for place in places:
        topics.setdefault(place.topic, []).append(place.partition)
    return topics
