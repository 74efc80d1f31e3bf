"""How many messages a second go from topic to topic through a job, next to confluent-kafka alone, same functions.

Messages are JSON of 200 bytes; each is parsed, counted by its key, and written with its count, at least once. A broker
of Apache Kafka is started as for the tests: ``python bench/bench_kafka.py`` (``--count``, ``--rounds``).
"""

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import confluent_kafka
from support.servers.kafka_cluster import running_kafka

from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.common.serialization import DeserializationSchema, SerializationSchema
from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.base import DeliveryGuarantee
from flinkbuf.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from flinkbuf.datastream.state import ValueStateDescriptor

KEYS, BYTES = 1_000, 200


def key_of(record):
    return record["key"]


class ParseJson(DeserializationSchema):
    """A message is an object."""

    def deserialize(self, message):
        return json.loads(message)


class WriteJson(SerializationSchema):
    """An object is a message."""

    def serialize(self, element):
        return json.dumps(element).encode()


class WriteKey(SerializationSchema):
    """The key of a message is that of its record."""

    def serialize(self, element):
        return element["key"].encode()


class Count(KeyedProcessFunction):
    """Adds to each record how many of its key there were."""

    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        value["count"] = count
        yield value


def fill(address, count):
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "linger.ms": 50, "queue.buffering.max.messages": 10**7}
    )
    for number in range(count):
        record = {"key": f"key {number % KEYS}", "number": number, "text": ""}
        record["text"] = "x" * (BYTES - len(json.dumps(record)))
        producer.produce("in", json.dumps(record), record["key"])
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


def plain(address, count, turn, **more):
    """One process and one thread, with nothing else around it; it does not ask whether messages were taken."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": f"plain {turn}", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition("in", 0, 0)])
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    counts, done = {}, 0
    while done < count:
        for message in consumer.consume(500, 1):
            value = json.loads(message.value())
            key = key_of(value)
            counts[key] = value["count"] = counts.get(key, 0) + 1
            while True:
                try:
                    producer.produce("out", json.dumps(value).encode(), key.encode(), **more)
                    break
                except BufferError:
                    producer.poll(0.1)
            done += 1
        producer.poll(0)
    assert producer.flush(120) == 0
    consumer.close()


def checked(address, count, turn):
    """The same, which hears of each message whether it was taken."""
    errors = []
    plain(address, count, f"checked {turn}", on_delivery=lambda error, message: error and errors.append(error))
    assert not errors


def job(address, count, turn):
    """The same as a job of one subtask in this process."""
    settings = {
        "execution.target": "embedded",
        "pipeline.progress": "false",
        "execution.checkpointing.interval": "1 s",
        "pipeline.object-reuse": "true",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(1)
    source = KafkaSource.builder().set_bootstrap_servers(address).set_topics("in").set_group_id(f"job {turn}")
    source.set_bounded(KafkaOffsetsInitializer.latest()).set_value_only_deserializer(ParseJson())
    serializer = KafkaRecordSerializationSchema.builder().set_topic("out")
    serializer.set_key_serialization_schema(WriteKey()).set_value_serialization_schema(WriteJson())
    sink = KafkaSink.builder().set_bootstrap_servers(address).set_record_serializer(serializer.build())
    sink.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "in")
    stream.key_by(key_of).process(Count()).sink_to(sink.build())
    env.execute("bench")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with running_kafka() as kafka:
        kafka.create_topic("in")
        kafka.create_topic("out")
        fill(kafka.address, options.count)
        best, cpu = {}, {}
        for turn in range(options.rounds):
            for way in (plain, checked, job):
                began, cpu_before = time.perf_counter(), time.process_time()
                way(kafka.address, options.count, turn)
                rate = options.count / (time.perf_counter() - began)
                cpu_us = (time.process_time() - cpu_before) / options.count * 1e6
                best[way.__name__] = max(rate, best.get(way.__name__, 0))
                cpu[way.__name__] = min(cpu_us, cpu.get(way.__name__, cpu_us))
        for name, rate in best.items():
            by_cpu = f"{cpu[name]:.2f} us of CPU a message, {cpu['plain'] / cpu[name]:.2f} x"
            print(f"{name}: {rate:,.0f} messages/s, {rate / best['plain']:.2f} x; {by_cpu}")


if __name__ == "__main__":
    main()
