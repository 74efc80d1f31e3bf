"""A source of Kafka and brokers of Apache Kafka: what they answer that models do not."""

import threading
import time

import pytest

library = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

from support.programs.embedded import embedded  # noqa: E402
from support.servers.kafka_cluster import running_kafka  # noqa: E402
from support.waiting import wait_until  # noqa: E402
from test_kafka import Attempt, sink_of, source_of  # noqa: E402
from test_kafka_columns import ColumnAttempt, schema_of  # noqa: E402

from flinkbuf.common import Configuration, Duration, Time, Types, WatermarkStrategy  # noqa: E402
from flinkbuf.datastream import ProcessWindowFunction, StreamExecutionEnvironment  # noqa: E402
from flinkbuf.datastream.connectors.base import DeliveryGuarantee  # noqa: E402
from flinkbuf.datastream.connectors.kafka import (  # noqa: E402
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaTopicPartition,
)
from flinkbuf.datastream.window import TumblingEventTimeWindows  # noqa: E402
from flinkbuf.errors import FlinkbufError  # noqa: E402

pytestmark = pytest.mark.hosts


@pytest.fixture(scope="module")
def kafka():
    with running_kafka() as cluster:
        yield cluster


def texts(count, begin=0):
    return [f"value {number}" for number in range(begin, begin + count)]


def read(source, parallelism=1):
    """What a bounded source gives."""
    attempt = Attempt(source, parallelism).emit()
    attempt.close()
    return attempt.values


def to_the_end(kafka, topic, starting=None, ending=None, **properties):
    builder = source_of(kafka.address, topic).set_bounded(ending or KafkaOffsetsInitializer.latest())
    for key, value in properties.items():
        builder.set_property(key.replace("_", "."), value)
    return builder.set_starting_offsets(starting or KafkaOffsetsInitializer.earliest()).build()


def emit_until(attempt, condition, seconds=30):
    """Have the subtasks emit, and the coordinator's clock go on, until the condition holds."""

    def step():
        attempt.time.now += 50
        assert not attempt.failures, attempt.failures
        for around in attempt.subtasks:
            around.mailbox.run()
            around.operator.emit_next(around.output, 10)
        return condition()

    wait_until(step, seconds)


# Where it begins and ends


def test_a_source_begins_at_a_time_an_offset_an_edge_or_what_was_committed(kafka):
    kafka.create_topic("begin", 2)
    kafka.write("begin", texts(10), 2)
    group = kafka.consumer(group_id="begins")
    group.commit(offsets=[library.TopicPartition("begin", 0, 3)], asynchronous=False)
    group.close()
    given = {KafkaTopicPartition("begin", 1): 4}
    by_kind = KafkaOffsetsInitializer
    for starting, numbers in (
        (by_kind.earliest(), range(10)),
        (by_kind.latest(), []),
        (by_kind.timestamp(0), range(10)),
        (by_kind.timestamp(1_000), range(10)),
        (by_kind.timestamp(1_001), range(1, 10)),
        (by_kind.timestamp(10_000), [9]),
        (by_kind.timestamp(10_001), []),
        (by_kind.offsets(given, KafkaOffsetResetStrategy.LATEST), [9]),
        (by_kind.offsets(given, KafkaOffsetResetStrategy.EARLIEST), [0, 2, 4, 6, 8, 9]),
        (by_kind.committed_offsets(KafkaOffsetResetStrategy.EARLIEST), [6, 8, 1, 3, 5, 7, 9]),
        (by_kind.committed_offsets(KafkaOffsetResetStrategy.LATEST), [6, 8]),
    ):
        found = read(to_the_end(kafka, "begin", starting, group_id="begins"))
        assert sorted(found) == sorted(f"value {number}" for number in numbers), starting


def test_a_source_ends_at_an_offset_or_at_a_time(kafka):
    kafka.create_topic("end", 2)
    kafka.write("end", texts(10), 2)
    ends = {KafkaTopicPartition("end", 0): 2, KafkaTopicPartition("end", 1): 0}
    assert read(to_the_end(kafka, "end", ending=KafkaOffsetsInitializer.offsets(ends))) == ["value 0", "value 2"]
    found = read(to_the_end(kafka, "end", ending=KafkaOffsetsInitializer.timestamp(4_000)), 3)
    assert sorted(found) == texts(3)


def test_a_record_has_the_message_s_time_and_the_deserializer_sees_all_of_it(kafka):
    kafka.create_topic("whole")
    producer = kafka.producer()
    headers = [("trace", b"\x00\xff"), ("none", None), ("trace", b"again")]
    producer.produce("whole", b"value", None, timestamp=1, headers=headers)
    producer.produce("whole", None, b"deleted")
    producer.flush()
    builder = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topics("whole")
    builder.set_deserializer(lambda message: (message.key(), message.value(), message.headers(), message.offset()))
    attempt = Attempt(builder.set_bounded(KafkaOffsetsInitializer.latest()).build(), 1).emit()
    attempt.close()
    first, second = attempt.subtasks[0].output.elements
    assert (first.value, first.timestamp) == ((None, b"value", headers, 0), 1)
    assert second.value == (b"deleted", None, None, 1) and abs(second.timestamp - time.time() * 1_000) < 60_000


def test_messages_that_the_broker_stamps_have_the_broker_s_time(kafka):
    kafka.create_topic("stamped", message_timestamp_type="LogAppendTime")
    kafka.write("stamped", texts(1))
    attempt = Attempt(to_the_end(kafka, "stamped"), 1).emit()
    attempt.close()
    (element,) = attempt.subtasks[0].output.elements
    assert abs(element.timestamp - time.time() * 1_000) < 60_000


# Transactions and compaction


def write_transactions(kafka, topic, outcomes, values=lambda turn: [f"{turn} a", f"{turn} b"]):
    """A transaction for each outcome: True is committed, False aborted after the brokers had all of it."""
    producer = kafka.producer(transactional_id=f"writes {topic}")
    producer.init_transactions(30)
    for turn, is_committed in enumerate(outcomes):
        producer.begin_transaction()
        for number, value in enumerate(values(turn)):
            producer.produce(topic, value, partition=number)
        producer.flush()
        producer.commit_transaction(30) if is_committed else producer.abort_transaction(30)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_aborted_messages_are_never_seen_and_marks_of_transactions_hold_nothing_up(kafka, parallelism):
    topic = kafka.create_topic(f"aborted-{parallelism}", 2)
    write_transactions(kafka, topic, [True, False, True, False])
    assert sorted(read(to_the_end(kafka, topic), parallelism)) == ["0 a", "0 b", "2 a", "2 b"]
    seen = read(to_the_end(kafka, topic, isolation_level="read_uncommitted"), parallelism)
    assert len(seen) == 8  # who asks for them has them


def test_aborted_messages_are_in_no_batch_of_columns(kafka):
    kafka.create_topic("aborted-columns", 2)
    write_transactions(kafka, "aborted-columns", [True, False, True], lambda turn: [f'{{"n": {turn}}}'] * 2)
    builder = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topics("aborted-columns")
    source = builder.set_value_only_deserializer(schema_of()).set_bounded(KafkaOffsetsInitializer.latest()).build()
    attempt = ColumnAttempt(source.of_batches(None, 8192, 1 << 22)[0], 1).emit()
    attempt.close()
    assert sorted(attempt.values) == [0, 0, 2, 2]


def test_a_topic_of_aborted_messages_alone_ends(kafka):
    kafka.create_topic("nothing", 2)
    write_transactions(kafka, "nothing", [False, False])
    assert read(to_the_end(kafka, "nothing")) == []


def test_the_latest_message_of_a_bounded_source_is_before_the_first_open_transaction(kafka):
    kafka.create_topic("open")
    kafka.write("open", ["before"])
    producer = kafka.producer(transactional_id="stays open")
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("open", "inside")
    producer.flush()
    kafka.write("open", ["after"])
    assert read(to_the_end(kafka, "open")) == ["before"]
    producer.abort_transaction(30)
    assert read(to_the_end(kafka, "open")) == ["before", "after"]


def test_a_compacted_topic_is_read_over_its_gaps_and_again_from_within_one(kafka):
    settings = {"segment_ms": 100, "min_cleanable_dirty_ratio": 0.01, "max_compaction_lag_ms": 100}
    kafka.create_topic("compacted", cleanup_policy="compact", **settings)
    producer = kafka.producer()
    for number in range(50):
        producer.produce("compacted", f"value {number}", f"key {number % 3}")
    producer.flush()

    def is_compacted():  # the last segment never is: something has to begin a new one
        producer.produce("compacted", f"late {time.monotonic()}", "late")
        producer.flush()
        return len([each for each in kafka.read("compacted")[0] if each.key() != b"late"]) == 3

    wait_until(is_compacted, pause_s=0.15)
    whole = [message.value().decode() for message in kafka.read("compacted")[0]]
    source = to_the_end(kafka, "compacted")
    for cut in range(4):
        first = Attempt(source, 1).emit(cut)
        done, checkpoint = first.values, first.checkpoint()
        first.close()
        second = Attempt(source, 2, checkpoint).emit()
        second.close()
        assert (done + second.values)[: len(whole) - 1] == whole[:-1], cut
    begins = {KafkaTopicPartition("compacted", 0): 5}  # of a message that is gone
    assert read(to_the_end(kafka, "compacted", KafkaOffsetsInitializer.offsets(begins)))[:1] == ["value 47"]


# What changes while it reads


def test_new_partitions_and_topics_are_read_from_their_first_message(kafka):
    kafka.create_topic("grows-a", 1)
    kafka.write("grows-a", ["old"])
    builder = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topic_pattern("grows-.*")
    builder.set_starting_offsets(KafkaOffsetsInitializer.latest())
    deserialize = source_of(kafka.address, "any").build().options.deserialize
    builder.set_deserializer(deserialize).set_property("partition.discovery.interval.ms", "50")
    attempt = Attempt(builder.build(), 3)
    emit_until(attempt, lambda: attempt.coordinator.snapshot(1) is not None)
    kafka.add_partitions("grows-a", 3)
    kafka.create_topic("grows-b", 2)
    wait_until(lambda: len(kafka.admin.list_topics(timeout=10).topics["grows-a"].partitions) == 3)
    kafka.write("grows-a", texts(3), 3)
    kafka.write("grows-b", texts(2, 3), 2)
    emit_until(attempt, lambda: len(attempt.values) == 5)
    attempt.close()
    assert sorted(attempt.values) == texts(5)


def test_more_subtasks_than_partitions_and_another_number_after_each_checkpoint(kafka):
    kafka.create_topic("rescaled", 3)
    kafka.write("rescaled", texts(60), 3)
    source = to_the_end(kafka, "rescaled")
    done, checkpoint = [], None
    for parallelism, count in ((5, 13), (1, 20), (2, 15), (4, 10**9)):
        attempt = Attempt(source, parallelism, checkpoint).emit(count)
        done, checkpoint = done + attempt.values, attempt.checkpoint()
        attempt.close()
    assert sorted(done) == sorted(texts(60))
    for partition in range(3):  # in order, whoever read them
        assert [each for each in done if int(each.split()[1]) % 3 == partition] == texts(60)[partition::3]


def test_a_topic_that_is_deleted_while_it_is_read_ends_the_job_with_its_name(kafka):
    kafka.create_topic("deleted", 2)
    kafka.write("deleted", texts(4), 2)
    attempt = Attempt(source_of(kafka.address, "deleted").build(), 2).emit(4)
    kafka.delete_topic("deleted")

    def is_told():
        attempt.time.now += 1_000
        return attempt.failures

    wait_until(is_told, 30, 0.02)
    attempt.close()
    with pytest.raises(
        FlinkbufError, match="topic 'deleted' of Kafka, which the job reads, was deleted: the brokers at"
    ):
        raise attempt.failures[0]


def test_an_offset_that_retention_has_dropped_is_told_with_what_to_do(kafka):
    kafka.create_topic("dropped")
    kafka.write("dropped", texts(5))
    first = Attempt(to_the_end(kafka, "dropped"), 1).emit(1)
    checkpoint = first.checkpoint()
    first.close()
    kafka.delete_records("dropped", 0, 3)
    attempt = Attempt(to_the_end(kafka, "dropped"), 1, checkpoint)
    words = r"partition 0 of topic 'dropped' .* do not have offset 1, .*\"auto.offset.reset\", \"earliest\""
    with pytest.raises(FlinkbufError, match=words):
        attempt.emit()
    attempt.close()
    again = Attempt(to_the_end(kafka, "dropped", auto_offset_reset="earliest"), 1, checkpoint).emit()
    again.close()
    assert again.values == texts(2, 3)


def test_a_broker_that_comes_back_is_read_on(kafka):
    kafka.create_topic("comes-back", 2)
    kafka.write("comes-back", texts(4), 2)
    attempt = Attempt(source_of(kafka.address, "comes-back").build(), 2).emit(4)
    kafka.kill()
    began = time.monotonic()
    emit_until(attempt, lambda: time.monotonic() > began + 1)
    kafka.start()
    kafka.write("comes-back", texts(4, 4), 2)
    emit_until(attempt, lambda: len(attempt.values) == 8)
    attempt.close()
    assert sorted(attempt.values) == texts(8)


def test_a_job_that_is_held_up_for_longer_than_a_member_of_a_group_may_goes_on(kafka):
    kafka.create_topic("slow")
    kafka.write("slow", texts(2_000))
    limits = {"max_poll_interval_ms": "1000", "session_timeout_ms": "1000", "heartbeat_interval_ms": "300"}
    attempt = Attempt(to_the_end(kafka, "slow", group_id="slow", **limits), 1).emit(1)
    time.sleep(2.5)
    attempt.emit()
    attempt.close()
    assert attempt.values == texts(2_000)


# Jobs


class Windows(ProcessWindowFunction):
    """How many values each window has."""

    def process(self, key, context, elements):
        yield context.window().start, len(list(elements))


@pytest.mark.parametrize("is_idle", [True, False])
def test_a_partition_without_messages_holds_windows_back_unless_it_counts_as_idle(kafka, is_idle):
    topic = kafka.create_topic(f"idle-{is_idle}", 3)
    kafka.write(topic, texts(30), 2)  # at 1,000 to 30,000, nothing in the third
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if is_idle:
        strategy = strategy.with_idleness(Duration.of_millis(200))
    stream = embedded(2).from_source(source_of(kafka.address, topic).build(), strategy, "idle")
    windows = stream.key_by(lambda value: 0, Types.LONG()).window(TumblingEventTimeWindows.of(Time.seconds(10)))
    found = []
    with windows.process(Windows()).execute_and_collect() as results:
        reader = threading.Thread(target=lambda: found.extend(next(results) for _ in range(2)))
        reader.start()
        if not is_idle:
            time.sleep(0.7)
            assert found == []
            kafka.write_one(topic, "now", partition=2, timestamp=40_000)
        reader.join(30)
    assert found == [(0, 9), (10_000, 10)]


def test_a_savepoint_goes_on_with_another_parallelism_and_the_group_has_its_offsets(kafka, tmp_path):
    kafka.create_topic("savepoint", 3)
    kafka.create_topic("savepoint-out")
    source = source_of(kafka.address, "savepoint").set_group_id("of the savepoint").build()
    savepoint = None
    for turn, parallelism in enumerate((2, 4, 1), 1):
        settings = {
            "execution.target": "embedded",
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": str(tmp_path),
            **({} if savepoint is None else {"execution.state-recovery.path": savepoint}),
        }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
        stream = env.set_parallelism(parallelism).from_source(source, WatermarkStrategy.no_watermarks(), "in").uid("in")
        stream.sink_to(sink_of(kafka.address, "savepoint-out", DeliveryGuarantee.EXACTLY_ONCE)).uid("out")
        client = env.execute_async("savepoint")
        kafka.write("savepoint", texts(30, 30 * (turn - 1)), 3)
        wait_until(lambda: len(kafka.read("savepoint-out")[0]) == 30 * turn, pause_s=0.1)  # noqa: B023
        savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
        client.get_job_execution_result().result()
        assert kafka.committed("of the savepoint", "savepoint", 3) == [10 * turn] * 3
    found = [message.value().decode() for message in kafka.read("savepoint-out")[0]]
    assert sorted(found) == sorted(texts(90))


def test_the_group_is_at_the_end_when_a_bounded_job_is(kafka, tmp_path):
    kafka.create_topic("group-at-end", 2)
    kafka.write("group-at-end", texts(20), 2)
    settings = {"execution.target": "embedded", "execution.checkpointing.interval": "1 h"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(2)
    source = to_the_end(kafka, "group-at-end", group_id="at the end")
    assert len(list(env.from_source(source, WatermarkStrategy.no_watermarks(), "in").execute_and_collect())) == 20
    assert kafka.committed("at the end", "group-at-end", 2) == [10, 10]
