"""What sources and sinks of Kafka have in common: the client library, and its errors. Needs confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from types import ModuleType

    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

REQUEST_TIMEOUT_S = 30.0  # for an answer of the brokers
_PAUSE_S = 0.1

Answer = TypeVar("Answer")


@dataclass(frozen=True, order=True)
class KafkaTopicPartition:
    """A partition of a topic. PyFlink: KafkaTopicPartition."""

    topic: str
    partition: int


def client_library() -> ModuleType:
    """Return confluent_kafka, which is an extra."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise ImportError("Kafka needs confluent-kafka: pip install 'flinkbuf[kafka]'") from error
    return confluent_kafka


def kafka_error(name: str, reason: str) -> KafkaException:
    """Return the client library's exception with one of its codes."""
    library = client_library()
    return library.KafkaException(library.KafkaError(getattr(library.KafkaError, name), reason))


def make_consumer(properties: Mapping[str, object]) -> Consumer:
    """Return a consumer that commits nothing by itself."""
    return client_library().Consumer({"enable.auto.commit": False, "enable.auto.offset.store": False, **properties})


def make_producer(properties: Mapping[str, object]) -> Producer:
    """Return a producer that calls back for messages that brokers do not take, not for each of the others."""
    return client_library().Producer({"delivery.report.only.error": True, **properties})


def calling_back(call: Callable[[], Answer]) -> Answer:
    """Return what a call of a producer returns that serves callbacks, or raise what the client library found fatal.

    That it raises within the call, but goes on to other callbacks, in which Python then complains of an exception that
    is raised already.
    """
    try:
        return call()
    except SystemError as error:
        if isinstance(error.__cause__, client_library().KafkaException):
            raise error.__cause__ from None
        raise


def as_client(partition: KafkaTopicPartition, *position: object) -> TopicPartition:
    """Return a partition, with an offset if one is given, as the client library has it."""
    return client_library().TopicPartition(partition.topic, partition.partition, *position)


def client_properties(properties: Mapping[str, str], own: tuple[str, ...]) -> dict[str, str]:
    """Return what goes to the client library: all but `own`, and but serializers, which are Java classes."""
    left_out = (*own, "key.serializer", "value.serializer", "key.deserializer", "value.deserializer")
    return {key: value for key, value in properties.items() if key not in left_out}


def ask(question: Callable[[], Answer]) -> Answer:
    """Return the answer to a question about a group, which is asked again while another broker takes the group over."""
    codes = client_library().KafkaError
    passing = (
        codes.NOT_COORDINATOR,
        codes.COORDINATOR_LOAD_IN_PROGRESS,
        codes.COORDINATOR_NOT_AVAILABLE,
        codes.UNSTABLE_OFFSET_COMMIT,
        codes._WAIT_COORD,
        codes._TRANSPORT,
    )
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while True:
        try:
            return question()
        except client_library().KafkaException as error:
            if error.args[0].code() not in passing or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_S)
