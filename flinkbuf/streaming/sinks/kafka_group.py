"""Where transactions of Kafka leave a mark: the offset of a group of consumers, whose text says which were committed.

The client library can commit an offset with a transaction, too, but waits for a coordinator that is gone for longer
than it is told (https://github.com/confluentinc/librdkafka/issues/5456), and what it sends late may belong to no
transaction any more, and stand in the way of who reads the offset. So it is done over the protocol, with the id and the
epoch of the library's own producer, wherever the brokers and the properties allow.

Who decides, and what is known when
-----------------------------------
The coordinator of the transactional id decides how a transaction ends: with the line ``PrepareCommit`` in its log it is
committed. Then it writes a marker into each partition that took part, the group's offsets among them, and when all have
one, the line ``CompleteCommit``. Until its marker comes, an offset is unstable (``UNSTABLE_OFFSET_COMMIT``), and who
reads what is committed waits before the records.

Brokers of Kafka 4 can lose markers. A coordinator that has to send one to a partition without a leader takes the
partition for deleted (KAFKA-20734: ``KRaftMetadataCache.getPartitionLeaderEndpoint`` says the same of both, and
``TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue`` leaves out what has been deleted), and writes
``CompleteCommit``. So it happens where the last broker of a partition is killed right behind a commit and comes back.
No marker comes then by itself. The next one that the same producer sends there settles what waits, but as *its*
transaction ends: if that one is aborted, records that were committed are gone. So no transaction is begun before the
one before it is settled everywhere:

* Before a producer begins, the coordinator is asked how the last transaction ended. ``PrepareCommit`` and
  ``CompleteCommit`` say that it was committed, the same of ``Abort`` that it was not. One that is ``Ongoing`` is
  aborted by the beginning. ``Empty`` says nothing of what was before: another producer has begun since then. The epoch
  shows whether anything came in between: a beginning raises it by one, and by one more if it aborts. If it fits not, it
  is not known how the transaction ended.
* The beginning shuts all other producers out. If the coordinator says then that nothing is open, and the offset of the
  group is unstable or a partition has an open transaction of this producer, then its marker was lost: a transaction of
  nothing but these partitions is begun and ended as the lost one had ended, which sends the marker once more.
* A partition without a leader cannot say whether something waits there, and only the client library knows which records
  would go there: it writes them as soon as there is a leader, behind what waits. So the next transaction of a topic
  waits until all its partitions have one, unless this process has seen that nothing waits there, and has confirmed each
  transaction since then; or there has been none, as the producer is the first of its id.
* Behind each commit the same is asked before the commit is told to anybody. A process that dies in between finds
  ``CompleteCommit`` when it begins again.
* If it is not known how the transaction ended, nothing is settled, and the job fails with what an operator can do. That
  takes a process that dies between its producer's beginning and the settling, behind a broker that has lost a marker:
  milliseconds where all partitions have a leader, and otherwise as long as one of them has none, since a marker cannot
  be sent there. A process that lives on remembers it, through all attempts of a job (``kafka_endings``). One that dies
  within the settling itself, between its two requests, leaves a transaction that is aborted.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from flinkbuf.errors import FlinkbufError
from flinkbuf.log import logger
from flinkbuf.streaming.sinks.kafka_coordinators import (
    KafkaCoordinators,
    ProducerOwner,
    TransactionState,
    UnstableOffsetError,
)
from flinkbuf.streaming.sinks.kafka_endings import KnownEnding, KnownEndings, endings_at
from flinkbuf.streaming.sources.kafka_access import KafkaAccess
from flinkbuf.streaming.sources.kafka_client import (
    REQUEST_TIMEOUT_S,
    KafkaTopicPartition,
    as_client,
    ask,
    kafka_error,
    make_consumer,
)

if TYPE_CHECKING:
    from confluent_kafka import Producer

_MARK_TIMEOUT_S = REQUEST_TIMEOUT_S
_GRACE_S = 2.0  # in which the client library may say by itself that time is over
_PAUSE_S = 0.05
_OFFSETS_TOPIC = "__consumer_offsets"


class KafkaMarks(ABC):
    """The marks of one transactional id, in the group of the same name.

    They are made before the id's producer begins, and told when it has begun.
    """

    @abstractmethod
    def begin(self) -> None:
        """Go on as the producer that has begun."""

    @abstractmethod
    def read(self, place: KafkaTopicPartition) -> str:
        """Return the text that was committed last; "" if there is none."""

    @abstractmethod
    def settle_topic(self, topic: str) -> None:
        """See to it that nothing waits in a topic for the end of a transaction from before."""

    @abstractmethod
    def begin_transaction(self) -> None:
        """Note that a transaction begins, which may leave something behind."""

    @abstractmethod
    def write(self, place: KafkaTopicPartition, offset: int, said: str) -> None:
        """Have a mark committed with the transaction that is open, whose records the brokers have."""

    @abstractmethod
    def confirm(self, place: KafkaTopicPartition) -> None:
        """See to it that all brokers know of a commit, whose mark is at this place."""

    @abstractmethod
    def close(self) -> None:
        """Free what was opened."""


def marks_of(properties: Mapping[str, object], transactional_id: str, producer: Producer) -> KafkaMarks:
    """Return the marks of a transactional id which `producer` is about to begin as."""
    access = KafkaAccess.of(properties)
    if access is not None:
        coordinators = KafkaCoordinators(access)
        try:
            if coordinators.are_understood():
                return CoordinatedMarks(coordinators, transactional_id, endings_at(access.servers))
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

    def __init__(self, coordinators: KafkaCoordinators, transactional_id: str, endings: KnownEndings) -> None:
        self._coordinators = coordinators
        self._name = transactional_id
        self._endings = endings
        self._owner: ProducerOwner = (transactional_id, -1, -1)
        self._places: tuple[KafkaTopicPartition, ...] = ()  # of the transaction that is open
        self._was_committed: bool | None = None  # the last transaction that has ended; None: it is not known
        self._is_first = False  # this producer; there is no transaction from before
        self._settled: frozenset[str] = frozenset()  # topics in which nothing waits for an older transaction
        self._before = coordinators.transaction_of(transactional_id)
        known = endings.get(transactional_id)
        if known is not None and known.is_being_settled and _is_open_as(self._before, known):
            owner = (transactional_id, known.producer_id, known.epoch)
            coordinators.end_transaction(owner, known.was_committed)
            self._before = coordinators.transaction_of(transactional_id)

    def begin(self) -> None:
        """Ask whose the transactional id is, and conclude how the last transaction ended."""
        state = self._coordinators.transaction_of(self._name)
        if state is None:
            raise kafka_error("INVALID_PRODUCER_ID_MAPPING", f"the brokers have forgotten who {self._name!r} is")
        self._owner = (self._name, state.producer_id, state.epoch)
        self._is_first = state.epoch == 0
        known = self._endings.get(self._name)
        self._was_committed = was_committed(self._before, state, known)
        if known is not None and self._was_committed is not None and _has_ended_as(self._before, known):
            self._settled = known.settled
        self._remember(self._settled)

    def _remember(self, settled: frozenset[str] = frozenset(), is_being_settled: bool = False) -> None:
        _, producer_id, epoch = self._owner
        if self._was_committed is None:
            self._endings.forget(self._owner)
        else:
            ending = KnownEnding(producer_id, epoch, self._was_committed, is_being_settled, settled)
            self._endings.note(self._name, ending)

    def read(self, place: KafkaTopicPartition) -> str:
        """Return the text that was committed last; one in a transaction that has yet to end is waited for."""
        what = f"the offset of group {self._name!r} for topic {place.topic!r}"
        deadline = time.monotonic() + self._coordinators.timeout_s
        while True:
            try:
                return self._coordinators.offset_text(self._name, place)
            except UnstableOffsetError:
                self._settle((), what, deadline)
            time.sleep(_PAUSE_S)

    def settle_topic(self, topic: str) -> None:
        """End what waits in a topic's partitions for a marker that will not come, where it is not known already."""
        if topic not in self._settled:
            if not self._is_first:
                self._settle_places(self._coordinators.partitions_of(topic))
            self._settled |= {topic}
            self._remember(self._settled)

    def _settle_places(self, places: Sequence[KafkaTopicPartition]) -> None:
        deadline = time.monotonic() + self._coordinators.timeout_s
        _, producer_id, _ = self._owner
        while found := self._coordinators.open_at(producer_id, places):
            what = "what was written last into " + ", ".join(f"{each.topic}-{each.partition}" for each in found)
            self._settle(found, what, deadline)
            time.sleep(_PAUSE_S)

    def _settle(self, places: Sequence[KafkaTopicPartition], what: str, deadline: float) -> None:
        """Send the markers of a transaction once more that has ended, if it is known how."""
        self._coordinators.wait_until_over(self._owner)
        if self._was_committed is None:
            if time.monotonic() > deadline:
                raise FlinkbufError(self._unsettled(what, places))
            return
        if time.monotonic() > deadline:
            raise kafka_error("_TIMED_OUT", f"{what} waits still, though its transaction was ended once more")
        ended = "committed" if self._was_committed else "aborted"
        logger.warning(
            "%s waits for a transaction that was %s, as brokers of Kafka have lost its marker: it is sent again",
            what,
            ended,
        )
        self._remember(is_being_settled=True)
        if places:
            self._coordinators.add_partitions(self._owner, places)
        self._coordinators.add_group(self._owner, self._name)
        self._coordinators.end_transaction(self._owner, self._was_committed)
        self._coordinators.wait_until_over(self._owner)
        self._remember()

    def _unsettled(self, what: str, places: Sequence[KafkaTopicPartition]) -> str:
        _, producer_id, _ = self._owner
        tool = f"kafka-transactions.sh --bootstrap-server {self._coordinators}"
        if places:
            otherwise = "if it had been committed, its records there are gone: write them again"
        else:
            otherwise = "if it had been committed, its records are written twice"
        return (
            f"{what} waits for a transaction of {self._name!r} that brokers of Kafka have ended, but for a marker that "
            "they have lost (KAFKA-20734), and they do not say any more whether it was committed. What was not is in "
            f"the checkpoint. Find what waits by '{tool} find-hanging --broker-id <each> --max-transaction-timeout 0' "
            f"(producer id {producer_id}), abort it by '{tool} abort --topic <topic> --partition <number> "
            f"--start-offset <offset>', and let the job go on from its checkpoint; {otherwise}"
        )

    def begin_transaction(self) -> None:
        """Have the next producer ask all partitions, unless this transaction is confirmed before."""
        self._remember()

    def write(self, place: KafkaTopicPartition, offset: int, said: str) -> None:
        """Add the group to the transaction, and the mark to the group."""
        self._was_committed = None
        self._remember()
        self._coordinators.add_group(self._owner, self._name)
        self._coordinators.commit_offset(self._owner, self._name, place, offset, said)
        state = self._coordinators.transaction_of(self._name)
        places = () if state is None else state.places
        self._places = tuple(each for each in places if each.topic != _OFFSETS_TOPIC)

    def confirm(self, place: KafkaTopicPartition) -> None:
        """Wait until the coordinator has told all partitions, and tell those that it has left out."""
        self._was_committed = True
        self._remember()
        self._coordinators.wait_until_over(self._owner)
        self.read(place)
        self._settle_places(self._places)
        self._remember(self._settled)

    def close(self) -> None:
        """Close connections."""
        self._coordinators.close()


def was_committed(before: TransactionState | None, begun: TransactionState, known: KnownEnding | None) -> bool | None:
    """Return whether the last transaction of a transactional id was committed; None: it is not known.

    Parameters
    ----------
    before : TransactionState
        What the coordinator said before the producer began; None: there was no producer.
    begun : TransactionState
        What it said afterwards.
    known : KnownEnding
        What this process has known before; None: nothing.

    Examples
    --------
    >>> begun = TransactionState("Empty", 4_000, 7, ())
    >>> was_committed(TransactionState("CompleteCommit", 4_000, 6, ()), begun, None)
    True
    >>> was_committed(TransactionState("Ongoing", 4_000, 5, ()), begun, None)
    False
    """
    if before is None or before.producer_id != begun.producer_id:
        return None
    steps = begun.epoch - before.epoch  # one by each beginning, and one where that aborts what is open
    if before.name == "Ongoing":
        return False if steps == 2 else None
    if steps != 1:
        return None
    if before.name == "Empty":
        is_the_same = known is not None and (known.producer_id, known.epoch) == (before.producer_id, before.epoch)
        return known.was_committed if known is not None and is_the_same else None
    return {
        "PrepareCommit": True,
        "CompleteCommit": True,
        "PrepareAbort": False,
        "CompleteAbort": False,
    }.get(before.name)


def _has_ended_as(state: TransactionState | None, known: KnownEnding) -> bool:
    return state is not None and state.is_over and (state.producer_id, state.epoch) == (known.producer_id, known.epoch)


def _is_open_as(state: TransactionState | None, known: KnownEnding) -> bool:
    return state is not None and (state.name, state.producer_id, state.epoch) == (
        "Ongoing",
        known.producer_id,
        known.epoch,
    )


class LibraryMarks(KafkaMarks):
    """Marks that the client library reads and writes: for older brokers, and where only it knows how to get in."""

    def __init__(self, properties: Mapping[str, object], transactional_id: str, producer: Producer) -> None:
        self._producer = producer
        self._consumer = make_consumer({**_shared(properties), "group.id": transactional_id})

    def begin(self) -> None:
        """Do nothing: the producer is the client library's."""

    def read(self, place: KafkaTopicPartition) -> str:
        """Return the text that was committed last."""
        (mark,) = ask(lambda: self._consumer.committed([as_client(place)], timeout=REQUEST_TIMEOUT_S))
        return (mark.metadata or "") if mark.offset >= 0 else ""

    def settle_topic(self, topic: str) -> None:
        """Do nothing: the client library does not know whether something waits there."""

    def begin_transaction(self) -> None:
        """Do nothing, for the same reason."""

    def write(self, place: KafkaTopicPartition, offset: int, said: str) -> None:
        """Give the library an offset for the transaction."""
        mark = as_client(place, offset, said)
        group = self._consumer.consumer_group_metadata()
        _within(_MARK_TIMEOUT_S, lambda: self._producer.send_offsets_to_transaction([mark], group, _MARK_TIMEOUT_S))

    def confirm(self, place: KafkaTopicPartition) -> None:
        """Do nothing: the next transaction waits until this one is over."""

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
