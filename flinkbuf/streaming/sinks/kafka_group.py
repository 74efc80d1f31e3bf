"""Where transactions of Kafka leave a mark: the offset of a group of consumers, whose text says which were committed.

The client library can commit an offset with a transaction, too, but waits for a coordinator that is gone for longer
than it is told (https://github.com/confluentinc/librdkafka/issues/5456), and what it sends late may belong to no
transaction any more, and stand in the way of who reads the offset. So it is done over the protocol, with the id and the
epoch of the library's own producer, wherever the brokers and the properties allow.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from flinkbuf.streaming.sources.kafka_access import (
    API_VERSIONS,
    BrokerAnswer,
    KafkaAccess,
    KafkaConnection,
    compact_text,
    int16,
    int32,
    int64,
    text,
)
from flinkbuf.streaming.sources.kafka_client import (
    REQUEST_TIMEOUT_S,
    KafkaTopicPartition,
    as_client,
    ask,
    client_library,
    kafka_error,
    make_consumer,
)

if TYPE_CHECKING:
    from confluent_kafka import Producer

_MARK_TIMEOUT_S = REQUEST_TIMEOUT_S
_GRACE_S = 2.0  # in which the client library may say by itself that time is over
_ONE_REQUEST_S = 10.0  # a broker that does not answer within it may not be the coordinator any more
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.5

_OFFSET_FETCH, _FIND_COORDINATOR, _ADD_OFFSETS, _TXN_OFFSET_COMMIT, _DESCRIBE_TRANSACTIONS = 9, 10, 25, 28, 65
_VERSIONS = {  # that are spoken here: brokers have them from Kafka 3.0 on, and Kafka 4 has them still
    _OFFSET_FETCH: 7,
    _FIND_COORDINATOR: 2,
    _ADD_OFFSETS: 2,
    _TXN_OFFSET_COMMIT: 2,
    _DESCRIBE_TRANSACTIONS: 0,
}
_GROUP, _TRANSACTION = 0, 1  # kinds of coordinators

Result = TypeVar("Result")


class KafkaMarks(ABC):
    """The marks of one transactional id, in the group of the same name."""

    @abstractmethod
    def read(self, place: KafkaTopicPartition) -> str:
        """Return the text that was committed last; "" if there is none."""

    @abstractmethod
    def write(self, place: KafkaTopicPartition, offset: int, said: str) -> None:
        """Have a mark committed with the transaction that is open, whose records the brokers have."""

    @abstractmethod
    def close(self) -> None:
        """Free what was opened."""


def marks_of(properties: Mapping[str, object], transactional_id: str, producer: Producer) -> KafkaMarks:
    """Return the marks of a transactional id which `producer` has begun as."""
    access = KafkaAccess.of(properties)
    if access is not None:
        coordinators = KafkaCoordinators(access)
        try:
            if coordinators.are_understood():
                return CoordinatedMarks(coordinators, transactional_id)
        except BaseException:
            coordinators.close()
            raise
        coordinators.close()
    return LibraryMarks(properties, transactional_id, producer)


class CoordinatedMarks(KafkaMarks):
    """Marks that are read and written over the protocol.

    The coordinator is asked for the producer's id and epoch behind the library's beginning. They are the library's own
    if it can write into a transaction later: another producer that had begun in between would have shut it out.
    """

    def __init__(self, coordinators: KafkaCoordinators, transactional_id: str) -> None:
        self._coordinators = coordinators
        self._name = transactional_id
        self._producer_id, self._epoch = coordinators.producer_of(transactional_id)

    def read(self, place: KafkaTopicPartition) -> str:
        """Return the text that was committed last."""
        return self._coordinators.offset_text(self._name, place)

    def write(self, place: KafkaTopicPartition, offset: int, said: str) -> None:
        """Add the group to the transaction, and the mark to the group."""
        owner = (self._name, self._producer_id, self._epoch)
        self._coordinators.add_group(owner, self._name)
        self._coordinators.commit_offset(owner, self._name, place, offset, said)

    def close(self) -> None:
        """Close connections."""
        self._coordinators.close()


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
        self._access = access
        self._servers = deque(access.servers)
        self._timeout_s = timeout_s
        self._connections: dict[tuple[str, int], KafkaConnection] = {}
        self._addresses: dict[tuple[int, str], tuple[str, int]] = {}  # of coordinators, by kind and name

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

    def producer_of(self, transactional_id: str) -> tuple[int, int]:
        """Return id and epoch of the producer that a transactional id belongs to."""

        def read(answer: BrokerAnswer) -> tuple[int, int]:
            _pass_throttle(answer)
            _require(answer.compact_count())
            _refuse(answer.int16(), f"the transaction of {transactional_id!r}")
            answer.compact_text(), answer.compact_text(), answer.int32(), answer.int64()  # id, state, timeout, begin
            return answer.int64(), answer.int16()

        body = b"\x02" + compact_text(transactional_id) + b"\0"
        return self._ask((_TRANSACTION, transactional_id), _DESCRIBE_TRANSACTIONS, body, read, is_compact=True)

    def offset_text(self, group: str, place: KafkaTopicPartition) -> str:
        """Return the text of the offset that a group has committed; one in a transaction that is open is waited for.

        A coordinator that has just taken the group over, or does not know yet that another one has, may answer at once
        with what was committed before. To wait for transactions it has to agree with the other brokers first.
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
            _refuse(answer.int16(), what)
            answer.skip_tags()
            answer.skip_tags()
            _refuse(answer.int16(), what)
            return said if offset >= 0 else ""

        one_place = b"\x02" + compact_text(place.topic) + b"\x02" + int32(place.partition) + b"\0"
        body = compact_text(group) + one_place + b"\x01" + b"\0"
        return self._ask((_GROUP, group), _OFFSET_FETCH, body, read, is_compact=True)

    def add_group(self, owner: tuple[str, int, int], group: str) -> None:
        """Say that offsets of a group belong to the transaction of a producer: transactional id, id and epoch."""
        transactional_id, producer_id, epoch = owner

        def read(answer: BrokerAnswer) -> None:
            _pass_throttle(answer)
            _refuse(answer.int16(), f"adding group {group!r} to the transaction of {transactional_id!r}")

        body = text(transactional_id) + int64(producer_id) + int16(epoch) + text(group)
        self._ask((_TRANSACTION, transactional_id), _ADD_OFFSETS, body, read)

    def commit_offset(
        self, owner: tuple[str, int, int], group: str, place: KafkaTopicPartition, offset: int, said: str
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
            return connection
        for _ in range(len(self._servers)):
            try:
                return self._connection(self._servers[0], deadline)
            except OSError as error:
                failure = error
                self._servers.rotate(-1)  # who is away may take all the time that there is, but not twice
        raise failure

    def _connection(self, address: tuple[str, int], deadline: float) -> KafkaConnection:
        if address not in self._connections:
            self._connections[address] = KafkaConnection(address, self._access, deadline)
        return self._connections[address]

    def _until_answered(self, question: Callable[[float], Result]) -> Result:
        """Ask again while brokers are away, or hand over to each other."""
        deadline = time.monotonic() + self._timeout_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return question(min(deadline, time.monotonic() + _ONE_REQUEST_S))
            except (OSError, _TryAgainError) as error:
                if not isinstance(error, _TryAgainError):
                    self.close()  # what else is connected may have ended, too
                if time.monotonic() + pause_s > deadline:
                    reason = f"brokers of Kafka did not do in {self._timeout_s:g} s what they were asked: {error}"
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
        codes.UNSTABLE_OFFSET_COMMIT,
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


class LibraryMarks(KafkaMarks):
    """Marks that the client library reads and writes: for older brokers, and where only it knows how to get in."""

    def __init__(self, properties: Mapping[str, object], transactional_id: str, producer: Producer) -> None:
        self._producer = producer
        self._consumer = make_consumer({**_shared(properties), "group.id": transactional_id})

    def read(self, place: KafkaTopicPartition) -> str:
        """Return the text that was committed last."""
        (mark,) = ask(lambda: self._consumer.committed([as_client(place)], timeout=REQUEST_TIMEOUT_S))
        return (mark.metadata or "") if mark.offset >= 0 else ""

    def write(self, place: KafkaTopicPartition, offset: int, said: str) -> None:
        """Give the library an offset for the transaction."""
        mark = as_client(place, offset, said)
        group = self._consumer.consumer_group_metadata()
        _within(_MARK_TIMEOUT_S, lambda: self._producer.send_offsets_to_transaction([mark], group, _MARK_TIMEOUT_S))

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


def _shared(properties: Mapping[str, object]) -> dict[str, object]:
    """Return what a consumer understands of a producer's properties: how to reach the brokers."""
    prefixes = ("bootstrap.", "security.", "sasl.", "ssl.", "client.", "socket.", "broker.", "metadata.")
    return {key: value for key, value in properties.items() if key.startswith(prefixes)}


def _within(seconds: float, call: Callable[[], object]) -> None:
    """Do what the client library may wait for without end, whatever it is told: a coordinator that is not there.

    What came too late is left to its thread: it belongs to a session that the next one with its transactional id shuts
    out.

    Raises
    ------
    KafkaException
        What the call raised, or that it took too long.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="flinkbuf-kafka-offsets", daemon=True)
    thread.start()
    thread.join(seconds + _GRACE_S)
    if thread.is_alive():
        raise kafka_error("_TIMED_OUT", f"the coordinator of a group took no offset within {seconds:g} s")
    if errors:
        raise errors[0]
