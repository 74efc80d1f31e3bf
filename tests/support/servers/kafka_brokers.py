"""Brokers of Kafka for tests: librdkafka's mock cluster, and a small model of transactions, which that one lacks."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest


@contextmanager
def mock_cluster():
    """The address of brokers that live in this process."""
    library = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    owner = library.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    brokers = owner.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    del owner


class Failure(Exception):
    """What the process dies of in a test."""


class ModelBroker:
    """Topics, offsets of groups, and transactions: visible once committed, one producer for a transactional id."""

    def __init__(self):
        self.visible = []  # (topic, key, value)
        self.marks = {}  # by group and topic: offset and metadata
        self.epochs = {}

    def producer(self, properties):
        return ModelProducer(self, properties["transactional.id"])

    def marks_of(self, properties, transactional_id, producer):
        return ModelMarks(self, transactional_id, producer)


class ModelProducer:
    fail_at = None  # "produce", "mark", "commit", "committed": raised there, once

    def __init__(self, broker, transactional_id):
        self.broker, self.transactional_id = broker, transactional_id
        self.records, self.marks = [], {}

    def _check(self, step=None):
        from confluent_kafka import KafkaError, KafkaException

        if self.broker.epochs[self.transactional_id] is not self:
            raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", True))
        failing = ModelProducer.fail_at
        if step is not None and failing is not None and failing[0] == step:
            ModelProducer.fail_at = None
            raise failing[1]

    def init_transactions(self, timeout):
        self.broker.epochs[self.transactional_id] = self

    def list_topics(self, topic, timeout):
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None)})

    def begin_transaction(self):
        self._check()
        self.records, self.marks = [], {}

    def produce(self, topic, value, key, partition, on_delivery, *more):
        self._check("produce")
        self.records.append((topic, key, value))

    def flush(self, timeout):
        return 0

    def commit_transaction(self, timeout):
        self._check("commit")
        self.broker.visible += self.records
        self.broker.marks.update(self.marks)
        self._check("committed")  # it is, and nobody hears of it

    def purge(self):
        pass

    def abort_transaction(self, timeout):
        self.records, self.marks = [], {}


class ModelMarks:
    """The marks of a transactional id: those of an open transaction are the producer's."""

    def __init__(self, broker, name, producer):
        self.broker, self.name, self.producer = broker, name, producer
        self.is_begun = False

    def begin(self):
        assert self.broker.epochs[self.name] is self.producer

    def settle_topic(self, topic):
        self.producer._check()

    def begin_transaction(self):
        self.is_begun = True

    def confirm(self, place):
        assert self.read(place) and self.is_begun
        self.is_begun = False

    def read(self, place):
        return self.broker.marks.get((self.name, place.topic), "")

    def write(self, place, offset, said):
        self.producer._check("mark")
        self.producer.marks[self.name, place.topic] = said

    def close(self):
        pass
