"""Brokers of Apache Kafka for tests, each a JVM of its own: Maven brings the jars once, and tests start, kill and stop
them. `kafka_brokers.py` has the models of them, for tests that need no broker.
"""

import base64
import contextlib
import ctypes
import functools
import os
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.servers.maven_jars import maven_jars

VERSION = os.environ.get("KAFKA_VERSION", "4.3.1")

# What makes a broker quick to begin, to notice and to clean up; what a test is about it sets itself.
_SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.retention.ms": "-1",  # the timestamps of tests are of 1970
    "log.segment.delete.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controlled.shutdown.enable": "false",
}
_JAVA_OPTIONS = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
_LOG_OPTIONS = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"]
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def kafka_jars():
    """The folder of Kafka's jars, fetched by Maven unless it was before; skips the test where that cannot be."""
    return maven_jars("Kafka", VERSION, f"org.apache.kafka:kafka_2.13:{VERSION}", "org.slf4j:slf4j-simple:1.7.36")


def free_ports(count):
    """Ports of 127.0.0.1 that nobody listens at."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


class KafkaCluster:
    """Brokers that are controllers, too; `address` is what clients are given.

    Parameters
    ----------
    folder : path
        For the brokers' files and logs.
    brokers : int
        How many; topics, offsets and transactions are kept by all of them, and one of three may be missing.
    settings : dict
        Properties of all brokers. ``{port}`` in a value is the broker's port for clients.
    client : dict
        Properties with which clients reach them, besides the address.
    format_options : sequence of str
        For the tool that formats storage, such as users of SCRAM.
    listeners : dict
        Protocols of further listeners of one broker, by their names; `address_of` is where they are.
    """

    def __init__(self, folder, brokers=1, settings=None, client=None, format_options=(), listeners=None):
        self.jars = kafka_jars()
        self.folder = Path(folder)
        self.numbers = range(1, brokers + 1)
        ports = free_ports(2 * brokers)
        self.ports = dict(zip(self.numbers, ports[:brokers], strict=True))
        self._controller_ports = dict(zip(self.numbers, ports[brokers:], strict=True))
        self._listeners = dict(listeners or {})
        self._listener_ports = dict(zip(self._listeners, free_ports(len(self._listeners)), strict=True))
        self._processes = {}
        self._starter = ThreadPoolExecutor(1)  # a broker dies with the thread that has started it
        self.client = {"bootstrap.servers": self.address, **(client or {})}
        cluster_id = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]  # "-" begins an option
        for number in self.numbers:
            properties = {**self._properties_of(number), **(settings or {})}
            lines = [f"{key}={value}".replace("{port}", str(self.ports[number])) for key, value in properties.items()]
            self._file(number, "properties").write_text("\n".join(lines))
            arguments = ["format", "-t", cluster_id, "-c", str(self._file(number, "properties")), *format_options]
            subprocess.run([*self._java(), "kafka.tools.StorageTool", *arguments], check=True, capture_output=True)

    @property
    def address(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def address_of(self, listener):
        return f"127.0.0.1:{self._listener_ports[listener]}"

    def _file(self, number, suffix):
        return self.folder / f"broker-{number}.{suffix}"

    def _java(self):
        return ["java", *_JAVA_OPTIONS, *_LOG_OPTIONS, "-cp", f"{self.jars}/*"]

    def _properties_of(self, number):
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in self._controller_ports.items())
        copies = len(self.numbers)
        more = "".join(f",{name}://{self.address_of(name)}" for name in self._listeners)
        protocols = "".join(f",{name}:{protocol}" for name, protocol in self._listeners.items())
        return {
            **_SETTINGS,
            "process.roles": "broker,controller",
            "node.id": number,
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CLIENTS://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{self._controller_ports[number]}{more}",
            "advertised.listeners": f"CLIENTS://127.0.0.1:{{port}}{more}",
            "listener.security.protocol.map": f"CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT{protocols}",
            "inter.broker.listener.name": "CLIENTS",
            "log.dirs": self._file(number, "data"),
            "default.replication.factor": copies,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": max(1, copies - 1),
            "min.insync.replicas": max(1, copies - 1),
        }

    def start(self, *numbers):
        """Start brokers, all unless some are named, and wait until they answer."""
        for number in numbers or self.numbers:
            self._processes[number] = self._starter.submit(self._begin, number).result()
        for number in numbers or self.numbers:
            self._wait_for(number)

    def _begin(self, number):
        command = [*self._java(), "kafka.Kafka", str(self._file(number, "properties"))]
        with open(self._file(number, "log"), "a") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=_die_with_parent)

    def _wait_for(self, number):
        deadline = time.monotonic() + 90
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.ports[number]), 1).close()
                brokers = self.admin.list_topics(timeout=5).brokers
                if number in brokers:
                    return
            except Exception as error:
                if self._processes[number].poll() is not None or time.monotonic() > deadline:
                    log = self._file(number, "log").read_text()[-2_000:]
                    raise AssertionError(f"broker {number} does not come up: {error}\n{log}") from error
            assert time.monotonic() < deadline, f"broker {number} is not among the brokers"
            time.sleep(0.05)

    def kill(self, number=1):
        """End a broker at once."""
        self._end(number, signal.SIGKILL)

    def stop(self):
        """End all brokers that run."""
        for number in list(self._processes):
            self._end(number, signal.SIGKILL)
        self._starter.shutdown()

    def _end(self, number, how):
        process = self._processes.pop(number)
        process.send_signal(how)
        process.wait(60)

    # What tests do beside the product, by confluent-kafka alone.

    @functools.cached_property
    def admin(self):
        from confluent_kafka.admin import AdminClient

        return AdminClient({**self.client, "log_level": 0})

    def create_topic(self, name, partitions=1, **config):
        """Make a topic; ``cleanup_policy="compact"`` are properties of it."""
        from confluent_kafka.admin import NewTopic

        properties = {key.replace("_", "."): str(value) for key, value in config.items()}
        admin = self.admin
        admin.create_topics([NewTopic(name, partitions, len(self.numbers), config=properties)])[name].result(30)
        deadline = time.monotonic() + 30
        while True:  # until it has leaders
            found = admin.list_topics(name, timeout=10).topics[name]
            leaders = [each.leader for each in found.partitions.values()]
            if found.error is None and len(leaders) == partitions and min(leaders) >= 0:
                return name
            assert time.monotonic() < deadline, f"topic {name!r} has no leaders"
            time.sleep(0.02)

    def add_partitions(self, topic, partitions):
        from confluent_kafka.admin import NewPartitions

        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)

    def delete_topic(self, name):
        self.admin.delete_topics([name])[name].result(30)

    def delete_records(self, topic, partition, before):
        """Drop the messages before an offset, as retention does."""
        from confluent_kafka import TopicPartition

        ((_, done),) = self.admin.delete_records([TopicPartition(topic, partition, before)]).items()
        done.result(30)

    def producer(self, **properties):
        from confluent_kafka import Producer

        return Producer({**self.client, **{key.replace("_", "."): value for key, value in properties.items()}})

    def write(self, topic, values, partitions=1, **more):
        """Values by turns into the partitions, their timestamps 1,000, 2,000, …"""
        producer = self.producer()
        for number, value in enumerate(values):
            timestamp = 1_000 * (number + 1)
            producer.produce(topic, value, f"key {number}", number % partitions, timestamp=timestamp, **more)
        assert producer.flush(30) == 0

    def write_one(self, topic, value, **more):
        """A message with the partition, timestamp or headers that are given."""
        producer = self.producer()
        producer.produce(topic, value, **more)
        assert producer.flush(30) == 0

    def consumer(self, **properties):
        from confluent_kafka import Consumer

        given = {key.replace("_", "."): value for key, value in properties.items()}
        return Consumer({**self.client, "group.id": "test", "enable.auto.commit": False, **given})

    def read(self, topic, isolation_level="read_committed"):
        """All messages of a topic, a list for each partition, in order."""
        from confluent_kafka import TopicPartition

        consumer = self.consumer(isolation_level=isolation_level, enable_partition_eof=True)
        partitions = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found, ended = {number: [] for number in partitions}, set()
        deadline = time.monotonic() + 120
        while len(ended) < len(partitions):
            assert time.monotonic() < deadline, f"the brokers do not give all of {topic!r}"
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF" or message.error().retriable(), message.error()
                ended.add(message.partition())
            else:
                found[message.partition()].append(message)
        consumer.close()
        return [found[number] for number in partitions]

    def committed(self, group, topic, partitions):
        """The offsets that a group has committed."""
        from confluent_kafka import TopicPartition

        consumer = self.consumer(group_id=group)
        found = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=30)
        consumer.close()
        return [each.offset for each in found]


def _die_with_parent():
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)


@contextlib.contextmanager
def running_kafka(brokers=1, **options):
    """A cluster in a folder of its own, which is gone with it."""
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    with tempfile.TemporaryDirectory(prefix="flinkbuf-kafka-") as folder:
        cluster = KafkaCluster(folder, brokers, **options)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
