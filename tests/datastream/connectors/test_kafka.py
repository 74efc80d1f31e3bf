"""Topics of Kafka: read from offsets that are in the checkpoint, written in transactions or not."""

import pickle
import threading
import time

import cloudpickle
import pytest

library = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

from support.servers.kafka_brokers import Failure, ModelBroker, ModelProducer, mock_cluster  # noqa: E402
from support.waiting import wait_until  # noqa: E402
from support.worlds.failing_sinks import play, stored  # noqa: E402
from support.worlds.source_attempt import SourceAttempt  # noqa: E402

from flinkbuf.common.serialization import SimpleStringSchema  # noqa: E402
from flinkbuf.datastream.connectors.base import DeliveryGuarantee  # noqa: E402
from flinkbuf.datastream.connectors.kafka import (  # noqa: E402
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
    KafkaTopicSelector,
)
from flinkbuf.errors import FlinkbufError  # noqa: E402
from flinkbuf.streaming.chain.operator_config import ExecutionSettings  # noqa: E402
from flinkbuf.streaming.sinks import kafka_group, kafka_sink  # noqa: E402
from flinkbuf.streaming.sinks.sink_factories import SinkWriterFactory  # noqa: E402
from flinkbuf.streaming.sources.input_status import InputStatus  # noqa: E402
from flinkbuf.streaming.sources.kafka_client import calling_back  # noqa: E402
from flinkbuf.streaming.sources.source import Boundedness  # noqa: E402
from flinkbuf.streaming.state.snapshot import OperatorSnapshot  # noqa: E402
from flinkbuf.testing import OperatorHarness  # noqa: E402

WITH_CHECKPOINTS = ExecutionSettings(checkpointing_enabled=True)


@pytest.fixture(scope="module")
def brokers():
    with mock_cluster() as address:
        yield address


def write(brokers, topic, values, partitions=4):
    """Values by turns into the partitions, their timestamps 1,000, 2,000, …"""
    producer = library.Producer({"bootstrap.servers": brokers})
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), f"key {number}", number % partitions, timestamp=1_000 * (number + 1))
    assert producer.flush(10) == 0


def read(brokers, topic, partitions=4):
    consumer = library.Consumer({"bootstrap.servers": brokers, "group.id": "test", "enable.partition.eof": True})
    consumer.assign([library.TopicPartition(topic, number, 0) for number in range(partitions)])
    found, ended = [], 0
    while ended < partitions:
        message = consumer.poll(10)
        if message.error() is not None:
            ended += 1
        else:
            found.append(message)
    consumer.close()
    return found


def source_of(brokers, topic):
    builder = KafkaSource.builder().set_bootstrap_servers(brokers).set_topics(topic)
    return builder.set_value_only_deserializer(SimpleStringSchema())


def bounded(brokers, topic):
    return source_of(brokers, topic).set_bounded(KafkaOffsetsInitializer.latest()).build()


class Attempt(SourceAttempt):
    """All subtasks of a source, from the beginning or from what `checkpoint` returned."""

    def emit(self, count=10**9, until=None):
        """So many records in all, or until the end."""
        deadline = time.monotonic() + 20
        while len(self.values) < count and not all(around.has_ended for around in self.subtasks):
            assert not self.failures, self.failures
            assert time.monotonic() < deadline, f"only {len(self.values)} records came"
            before = len(self.values)
            for around in self.subtasks:
                around.mailbox.run()
                if len(self.values) < count:
                    status = around.operator.emit_next(around.output, 1)
                    around.has_ended = status == InputStatus.END_OF_INPUT
            if len(self.values) == before:
                time.sleep(0.005)
        return self


VALUES = [f"value {number}" for number in range(40)]


def test_a_bounded_source_reads_every_message_with_its_timestamp(brokers):
    write(brokers, "all", VALUES)
    source = bounded(brokers, "all")
    assert source.boundedness is Boundedness.BOUNDED
    attempt = Attempt(source, 3).emit()
    elements = [element for around in attempt.subtasks for element in around.output.elements]
    attempt.close()
    assert sorted(element.value for element in elements) == sorted(VALUES)
    assert {element.timestamp for element in elements} == {1_000 * number for number in range(1, 41)}


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 3), (3, 1)])
def test_a_source_goes_on_where_the_checkpoint_was(brokers, before, after):
    topic = f"restore-{before}-{after}"
    write(brokers, topic, VALUES)
    source = bounded(brokers, topic)
    for cut in (0, 1, 7, 20, 39, 40):
        first = Attempt(source, before).emit(cut)
        done, checkpoint = first.values, first.checkpoint()
        first.emit(cut + 5)
        first.close()
        second = Attempt(source, after, checkpoint).emit()
        second.close()
        assert sorted(done + second.values) == sorted(VALUES), cut


def test_messages_that_come_later_are_read_and_new_partitions_from_their_first(brokers):
    write(brokers, "more", VALUES[:8])
    source = source_of(brokers, "more").set_property("partition.discovery.interval.ms", "-1").build()
    attempt = Attempt(source, 2).emit(8)
    write(brokers, "more", VALUES[8:16])
    attempt.emit(16)
    assert sorted(attempt.values) == sorted(VALUES[:16])
    (known, pending), states = pickle.loads(attempt.checkpoint()[0]), attempt.checkpoint()[1]
    attempt.close()
    assert pending == [] and len(known) == 4
    # As if the last partition had been made while the job was down.
    lists = [OperatorSnapshot.decode(state).lists["SourceReaderState"] for state in states]
    old = [
        OperatorSnapshot(lists={"SourceReaderState": [s for s in one if s.partition.partition < 3]}) for one in lists
    ]
    state = cloudpickle.dumps((known[:3], []))
    again = Attempt(source, 2, (state, [each.encode() for each in old])).emit(4)
    again.close()
    assert sorted(again.values) == sorted(VALUES[3:16:4])


@pytest.fixture(scope="module")
def written(brokers):
    write(brokers, "start", VALUES)


@pytest.mark.parametrize(
    ("starting", "expected"),
    [
        (KafkaOffsetsInitializer.earliest(), VALUES),
        (KafkaOffsetsInitializer.latest(), []),
        (
            KafkaOffsetsInitializer.offsets({KafkaTopicPartition("start", 1): 8}, KafkaOffsetResetStrategy.LATEST),
            VALUES[33:38:4],
        ),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST), VALUES),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST), []),
    ],
)
def test_where_to_begin(brokers, written, starting, expected):
    builder = source_of(brokers, "start").set_group_id("nothing committed").set_starting_offsets(starting)
    attempt = Attempt(builder.set_bounded(KafkaOffsetsInitializer.latest()).build(), 1).emit()
    attempt.close()
    assert sorted(attempt.values) == sorted(expected)


def test_a_group_can_see_how_far_the_last_checkpoint_was(brokers):
    write(brokers, "group", VALUES)
    builder = source_of(brokers, "group").set_group_id("the group").set_bounded(KafkaOffsetsInitializer.latest())
    attempt = Attempt(builder.build(), 1).emit(30)
    attempt.checkpoint(1)
    attempt.subtasks[0].operator.notify_checkpoint_complete(1)
    consumer = library.Consumer({"bootstrap.servers": brokers, "group.id": "the group"})
    asked, deadline = [library.TopicPartition("group", number) for number in range(4)], time.monotonic() + 10
    while sum(each.offset for each in consumer.committed(asked, timeout=10) if each.offset > 0) != 30:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    consumer.close()
    attempt.close()
    starting = KafkaOffsetsInitializer.committed_offsets()
    rest = Attempt(builder.set_starting_offsets(starting).build(), 2).emit()
    rest.close()
    assert sorted(attempt.values + rest.values) == sorted(VALUES)


def test_what_nothing_was_committed_for_and_what_is_not_there_is_an_error(brokers):
    write(brokers, "errors", ["a"])
    builder = source_of(brokers, "errors").set_group_id("none").set_bounded(KafkaOffsetsInitializer.latest())
    for source, words in (
        (builder.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()).build(), "has no offset to begin"),
        (builder.set_partitions({KafkaTopicPartition("errors", 99)}).build(), "know no partition .*99"),
    ):
        attempt = Attempt(source, 1)
        deadline = time.monotonic() + 20
        while not attempt.failures:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        attempt.close()
        with pytest.raises(ValueError, match=words):
            raise attempt.failures[0]


def test_whole_messages_and_patterns_of_topics(brokers):
    write(brokers, "pattern-a", ["1"])
    write(brokers, "pattern-b", ["2"])
    builder = KafkaSource.builder().set_bootstrap_servers(brokers).set_topic_pattern("pattern-[ab]")
    builder = builder.set_deserializer(lambda message: (message.topic(), message.key(), message.value()))
    attempt = Attempt(builder.set_bounded(KafkaOffsetsInitializer.latest()).build(), 2).emit()
    attempt.close()
    assert sorted(attempt.values) == [("pattern-a", b"key 0", b"1"), ("pattern-b", b"key 0", b"2")]


# Sinks


def serializer(topic):
    return (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_key_serialization_schema(SimpleStringSchema())
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )


def sink_of(brokers, topic, guarantee, **properties):
    builder = KafkaSink.builder().set_bootstrap_servers(brokers).set_record_serializer(serializer(topic))
    builder.set_delivery_guarantee(guarantee).set_transactional_id_prefix(f"sink of {topic}")
    for key, value in properties.items():
        builder.set_property(key.replace("_", "."), value)
    return builder.build()


def opened(sink, restore=None, **options):
    operator = pickle.loads(cloudpickle.dumps(SinkWriterFactory(sink)))()
    harness = OperatorHarness(operator, restore=restore, settings=WITH_CHECKPOINTS, is_keyed=False, **options)
    harness.open()
    return harness


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.NONE])
def test_the_brokers_have_everything_at_a_checkpoint_or_at_the_end(brokers, guarantee):
    topic = f"sink-{guarantee.name}"
    sink = opened(sink_of(brokers, topic, guarantee))
    for number in range(200):
        sink.process_element(f"{number}", 1_000 + number)
    if guarantee is DeliveryGuarantee.NONE:
        sink.end_input()
    else:
        sink.snapshot(1)
    found = read(brokers, topic)
    sink.close()
    assert sorted(message.value() for message in found) == sorted(f"{number}".encode() for number in range(200))
    assert {message.timestamp()[1] for message in found} == set(range(1_000, 1_200))
    assert all(message.key() == message.value() for message in found)


def test_what_the_brokers_never_took_fails_the_checkpoint(brokers):
    sink = opened(sink_of("127.0.0.1:1", "nowhere", DeliveryGuarantee.AT_LEAST_ONCE, message_timeout_ms="50"))
    sink.process_element("a")
    with pytest.raises(library.KafkaException, match="timed out"):
        sink.snapshot(1)
    sink.close()


def test_a_transaction_reaches_the_brokers_when_the_checkpoint_counts(brokers):
    sink = opened(sink_of(brokers, "transactions", DeliveryGuarantee.EXACTLY_ONCE))
    sink.process_element("a")
    sink.snapshot(1)
    sink.process_element("b")
    sink.operator.notify_checkpoint_complete(1)
    assert [message.value() for message in read(brokers, "transactions")] == [b"a"]
    sink.snapshot(2)
    sink.operator.notify_checkpoint_complete(2)
    assert sorted(message.value() for message in read(brokers, "transactions")) == [b"a", b"b"]
    sink.close()


@pytest.fixture
def model(monkeypatch):
    broker = ModelBroker()
    monkeypatch.setattr(kafka_sink, "make_producer", broker.producer)
    monkeypatch.setattr(kafka_sink, "marks_of", broker.marks_of)
    monkeypatch.setattr(kafka_sink, "check_access", lambda properties: None)
    monkeypatch.setattr(ModelProducer, "fail_at", None)
    return broker


def exactly_once():
    return sink_of("model", "out", DeliveryGuarantee.EXACTLY_ONCE)


def values(model):
    return [value.decode() for _, _, value in model.visible]


SCRIPT = ["a", "b", ("snap", 1), "c", ("done", 1), "d", ("snap", 2), "e", ("snap", 3), ("done", 3), "f"]


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("dies_in", [None, "produce", "mark", "commit", "committed"])
@pytest.mark.parametrize("cut", range(len(SCRIPT) + 1))
def test_wherever_it_dies_each_record_is_visible_once(model, cut, dies_in, parallelism):
    snapshots = {}
    first = opened(exactly_once())
    ModelProducer.fail_at = dies_in and (dies_in, Failure())
    try:
        play(first, SCRIPT[:cut], snapshots)
    except Failure:
        assert dies_in is not None
    ModelProducer.fail_at = None
    done = max(snapshots, default=0)
    restore = [snapshots[done]] if done else None
    others = [
        opened(exactly_once(), restore, parallelism=parallelism, subtask_index=index) for index in range(parallelism)
    ]
    left = SCRIPT[SCRIPT.index(("snap", done)) + 1 :] if done else SCRIPT
    for step in left:
        if isinstance(step, str):
            others[-1].process_element(step)
    for other in others:
        other.snapshot(9)
        other.operator.notify_checkpoint_complete(9)
        other.close()
    assert sorted(values(model)) == list("abcdef")


def test_who_lives_on_is_shut_out_and_commits_nothing_twice(model):
    old = opened(exactly_once())
    old.process_element("a")
    old.snapshot(1)
    old.operator.notify_checkpoint_complete(1)
    old.process_element("b")
    state = stored(old.snapshot(2))
    new = opened(exactly_once(), state)
    assert values(model) == ["a", "b"]
    old.operator.notify_checkpoint_complete(2)  # it hears of it late
    new.process_element("c")
    new.snapshot(3)
    new.operator.notify_checkpoint_complete(3)
    assert values(model) == ["a", "b", "c"]
    assert max(len(text) for text in model.marks.values()) < 4_096


def test_however_many_transactions_wait_for_the_brokers_each_is_committed_once(model):
    sink = opened(exactly_once())
    for checkpoint_id in range(1, 301):
        sink.process_element(str(checkpoint_id))
        state = stored(sink.snapshot(checkpoint_id))
    sink.operator.notify_checkpoint_complete(300)
    (text,) = model.marks.values()
    assert len(text) < 4_096 and len(model.visible) == 300
    opened(exactly_once(), state).close()  # nobody had heard that they were
    assert values(model) == [str(number) for number in range(1, 301)]


@pytest.mark.parametrize("step", ["produce", "mark", "commit", "committed"])
def test_what_may_be_tried_again_is_and_what_went_through_is_not_repeated(model, step):
    error = library.KafkaError(library.KafkaError._TIMED_OUT, "timed out", False, True)
    sink = opened(exactly_once())
    for checkpoint_id, value in enumerate("abc", 1):
        sink.process_element(value)
        sink.snapshot(checkpoint_id)
    ModelProducer.fail_at = step, library.KafkaException(error)
    sink.operator.notify_checkpoint_complete(3)
    assert values(model) == ["a", "b", "c"]
    sink.close()


# What is built


class ByLength(KafkaTopicSelector):
    def apply(self, data):
        return f"length-{len(data)}"


def test_topics_are_chosen_by_an_object_or_a_function():
    for selector in (ByLength(), lambda data: f"length-{len(data)}"):
        builder = KafkaRecordSerializationSchema.builder().set_topic_selector(selector)
        schema = builder.set_value_serialization_schema(SimpleStringSchema()).build()
        assert schema("abc") == ("length-3", None, b"abc") and schema.serialize("abc") == b"abc"
    with pytest.raises(TypeError, match="must be KafkaTopicSelector or a callable"):
        KafkaRecordSerializationSchema.builder().set_topic_selector("topic")


def test_what_is_missing_is_said_when_it_is_built(monkeypatch):
    source = KafkaSource.builder()
    sink = KafkaSink.builder()
    schema = KafkaRecordSerializationSchema.builder()
    for build, words in (
        (source.build, "KafkaSource needs set_bootstrap_servers"),
        (lambda: source.set_bootstrap_servers("a:1").build(), "needs set_topics"),
        (lambda: source.set_topics("t").build(), "needs set_value_only_deserializer"),
        (
            lambda: (
                source.set_value_only_deserializer(SimpleStringSchema())
                .set_starting_offsets(KafkaOffsetsInitializer.committed_offsets())
                .build()
            ),
            r"set_group_id\(...\) is missing",
        ),
        (sink.build, "KafkaSink needs set_bootstrap_servers"),
        (lambda: sink.set_bootstrap_servers("a:1").build(), "needs set_record_serializer"),
        (
            lambda: (
                sink.set_record_serializer(serializer("t"))
                .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .build()
            ),
            "requires a transactional id prefix",
        ),
        (schema.build, "needs set_topic"),
        (lambda: schema.set_topic("t").build(), "needs set_value_serialization_schema"),
    ):
        with pytest.raises(ValueError, match=words):
            build()
    with pytest.raises(TypeError, match="must be a DeliveryGuarantee"):
        sink.set_delivery_guarantee("once")
    with pytest.raises(TypeError, match="must be a KafkaRecordSerializationSchema"):
        sink.set_record_serializer("schema")
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka", None)
    with pytest.raises(ImportError, match=r"pip install 'flinkbuf\[kafka\]'"):
        source.set_starting_offsets(KafkaOffsetsInitializer.earliest()).build()


def test_properties_that_are_flink_s_or_java_s_do_not_reach_the_client():
    builder = source_of("a:1", "t").set_group_id("g").set_client_id_prefix("me")
    builder.set_properties({"commit.offsets.on.checkpoint": "false", "key.deserializer": "x", "fetch.min.bytes": 7})
    options = builder.set_property("partition.discovery.interval.ms", "10").build().options
    assert options.properties == {
        "bootstrap.servers": "a:1",
        "group.id": "g",
        "client.id": "me",
        "fetch.min.bytes": "7",
    }
    assert not options.commits_offsets and options.discovery_interval_ms == 10
    assert source_of("a:1", "t").set_unbounded(KafkaOffsetsInitializer.latest()).build().options.stopping is not None


def test_a_transaction_that_lost_records_says_so(model, monkeypatch):
    def lossy(self, topic, value, key, partition, on_delivery, *more):
        on_delivery("the broker is full", None)

    monkeypatch.setattr(ModelProducer, "produce", lossy)
    sink = opened(exactly_once())
    sink.process_element("a")
    sink.snapshot(1)
    with pytest.raises(FlinkbufError, match="without some of them: the broker is full"):
        sink.operator.notify_checkpoint_complete(1)


def test_what_the_client_library_waits_for_without_end_is_left(monkeypatch):
    monkeypatch.setattr(kafka_group, "_GRACE_S", 0.01)
    comes = threading.Event()
    with pytest.raises(library.KafkaException, match="the coordinator of a group took no offset within 0.01 s") as told:
        kafka_group._within(0.01, lambda: comes.wait(60))
    assert told.value.args[0].code() == library.KafkaError._TIMED_OUT
    comes.set()
    wait_until(lambda: not [each for each in threading.enumerate() if each.name == "flinkbuf-kafka-offsets"])
    with pytest.raises(LookupError, match="it is that"):
        kafka_group._within(30, lambda: {}["it is that"])
    done = []
    kafka_group._within(30, lambda: done.append(1))
    assert done == [1]


def test_what_the_client_library_finds_fatal_within_a_callback_is_raised_as_itself():
    fatal = library.KafkaException(library.KafkaError(library.KafkaError._FENCED, "fenced", True))

    def call(cause):
        raise SystemError("a method returned a result with an exception set") from cause

    with pytest.raises(library.KafkaException, match="fenced"):
        calling_back(lambda: call(fatal))
    with pytest.raises(SystemError):
        calling_back(lambda: call(None))
    assert calling_back(lambda: 7) == 7
