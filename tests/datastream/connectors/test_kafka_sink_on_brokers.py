"""A sink of Kafka and brokers of Apache Kafka, whose transactions nobody models in full."""

import threading
import time

import pytest

library = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

from support.servers.kafka_cluster import running_kafka  # noqa: E402
from support.waiting import wait_until  # noqa: E402
from support.worlds.failing_sinks import play, stored  # noqa: E402
from test_kafka import SCRIPT, opened, sink_of  # noqa: E402

from flinkbuf.datastream.connectors.base import DeliveryGuarantee  # noqa: E402
from flinkbuf.errors import FlinkbufError  # noqa: E402
from flinkbuf.streaming.sinks import kafka_sink, sink_operator  # noqa: E402
from flinkbuf.streaming.sinks.kafka_coordinators import KafkaCoordinators  # noqa: E402
from flinkbuf.streaming.sinks.kafka_sink import _Session  # noqa: E402

pytestmark = pytest.mark.hosts

EXACTLY_ONCE, AT_LEAST_ONCE = DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE
FORGETS_SOON = {  # who has a transactional id, a second after it was last used
    "transactional.id.expiration.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    "producer.id.expiration.ms": "1000",
    "producer.id.expiration.check.interval.ms": "200",
}


@pytest.fixture(scope="module")
def kafka():
    with running_kafka() as cluster:
        yield cluster


def exactly_once(kafka, topic, **properties):
    return sink_of(kafka.address, topic, EXACTLY_ONCE, **properties)


def values(kafka, topic):
    """What everybody can read, in order."""
    return [message.value().decode() for message in kafka.read(topic)[0]]


def step(sink, checkpoint_id, *elements):
    """Write elements between two checkpoints, and notify the sink of the second."""
    for each in elements:
        sink.process_element(each)
    sink.snapshot(checkpoint_id)
    sink.operator.notify_checkpoint_complete(checkpoint_id)


class Died(Exception):
    """What the process dies of in a test."""


def die_at(monkeypatch, moment):
    """Have the next commit end in the middle: records are with the brokers, or all is, and nothing more is done."""
    commit, owner = _Session.commit, []

    class Producer:
        def __init__(self, producer):
            self._producer = producer

        def __getattr__(self, name):
            return getattr(self._producer, name)

        def commit_transaction(self, timeout):
            self._producer.commit_transaction(timeout)
            raise Died

    class Marks:
        def __init__(self, marks):
            self._marks = marks

        def __getattr__(self, name):
            return getattr(self._marks, name)

        def write(self, *mark):
            if moment == "marked":
                self._marks.write(*mark)
            if moment != "committed":
                raise Died
            self._marks.write(*mark)

    def commit_once(session, transaction):
        monkeypatch.setattr(_Session, "commit", commit)
        monkeypatch.setattr(_Session, "close", lambda session: owner.append(session))  # who is dead aborts nothing
        session._producer, session._marks = Producer(session._producer), Marks(session._marks)
        return commit(session, transaction)

    monkeypatch.setattr(_Session, "commit", commit_once)


@pytest.mark.parametrize("moment", ["before", "written", "marked", "committed"])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_wherever_it_dies_between_pre_commit_and_commit_each_record_is_visible_once(
    kafka, monkeypatch, moment, parallelism
):
    topic = kafka.create_topic(f"dies-{moment}-{parallelism}")
    snapshots = {}
    first = opened(exactly_once(kafka, topic))
    step(first, 1, "a")
    if moment == "before":
        play(first, ["b", "c", ("snap", 2)], snapshots)
    else:
        die_at(monkeypatch, moment)
        with pytest.raises(Died):
            play(first, ["b", "c", ("snap", 2), ("done", 2)], snapshots)
    monkeypatch.undo()
    options = {"parallelism": parallelism}
    others = [
        opened(exactly_once(kafka, topic), [snapshots[2]], subtask_index=index, **options)
        for index in range(parallelism)
    ]
    assert values(kafka, topic) == ["a", "b", "c"]
    step(others[-1], 3, "d")
    assert values(kafka, topic) == ["a", "b", "c", "d"]
    for sink in (first, *others):
        sink.close()


def test_a_script_of_checkpoints_that_are_notified_late_or_never(kafka):
    kafka.create_topic("script")
    sink = opened(exactly_once(kafka, "script"))
    play(sink, [*SCRIPT, ("snap", 4), ("done", 4)], {})
    assert values(kafka, "script") == list("abcdef")
    sink.close()


def test_a_zombie_is_shut_out_and_what_it_had_begun_is_never_seen(kafka):
    kafka.create_topic("zombie")
    old = opened(exactly_once(kafka, "zombie"))
    step(old, 1, "a")
    old.process_element("b")
    state = stored(old.snapshot(2))
    old.process_element("lost with its attempt")
    new = opened(exactly_once(kafka, "zombie"), [state])
    assert values(kafka, "zombie") == ["a", "b"]
    old.operator.notify_checkpoint_complete(2)  # it is told late, and commits nothing twice
    step(new, 3, "c")
    assert values(kafka, "zombie") == ["a", "b", "c"]
    seen = [message.value() for message in kafka.read("zombie", "read_uncommitted")[0]]
    assert b"lost with its attempt" not in seen
    old.close(), new.close()


def test_more_transactions_than_ever_wait_are_committed_once(kafka):
    kafka.create_topic("many")
    sink = opened(exactly_once(kafka, "many"))
    for number in range(1, 101):
        sink.process_element(str(number))
        state = stored(sink.snapshot(number))
    sink.operator.notify_checkpoint_complete(100)
    sink.close()
    opened(exactly_once(kafka, "many"), [state]).close()
    assert values(kafka, "many") == [str(number) for number in range(1, 101)]


def test_at_least_once_waits_for_brokers_that_are_away_and_keeps_the_order(kafka):
    kafka.create_topic("away-at-least-once")
    sink = opened(sink_of(kafka.address, "away-at-least-once", AT_LEAST_ONCE, enable_idempotence="true"))
    step(sink, 1, *map(str, range(100)))
    kafka.kill()
    later = threading.Timer(1, kafka.start)
    later.start()
    step(sink, 2, *map(str, range(100, 200)))
    later.join()
    assert values(kafka, "away-at-least-once") == [str(number) for number in range(200)]
    sink.close()


def test_a_sink_that_was_quiet_for_longer_than_brokers_keep_its_id_goes_on():
    with running_kafka(settings=FORGETS_SOON) as kafka:
        kafka.create_topic("quiet")
        sink = opened(exactly_once(kafka, "quiet"))
        for checkpoint_id, value in enumerate("abc", 1):
            step(sink, checkpoint_id, value)
            time.sleep(2.5)
        assert values(kafka, "quiet") == ["a", "b", "c"]
        sink.close()


def test_a_topic_that_is_not_there_is_told_at_once_and_written_when_it_is(kafka):
    sink = opened(exactly_once(kafka, "missing"))
    sink.process_element("a")
    state = stored(sink.snapshot(1))
    began = time.monotonic()
    with pytest.raises(FlinkbufError, match="have no topic 'missing'.* create it; the records are"):
        sink.operator.notify_checkpoint_complete(1)
    assert time.monotonic() - began < 15
    sink.close()
    kafka.create_topic("missing")
    opened(exactly_once(kafka, "missing"), [state]).close()
    assert values(kafka, "missing") == ["a"]


def test_a_record_that_brokers_refuse_is_told_with_its_reason_and_leaves_nothing_open(kafka):
    kafka.create_topic("refused", max_message_bytes=1_000)
    sink = opened(exactly_once(kafka, "refused"))
    began = time.monotonic()
    sink.process_element("first")
    with pytest.raises(FlinkbufError, match="cannot be committed: .*Message size too large"):
        step(sink, 1, "a" * 2_000)
    kafka.write_one("refused", "behind")  # who reads what is committed does not wait behind it
    wait_until(lambda: values(kafka, "refused") == ["behind"], 20, 0.2)
    assert time.monotonic() - began < 30
    sink.close()


def test_a_mark_whose_marker_brokers_have_lost_is_settled_as_its_transaction_ended(monkeypatch, caplog):
    """A transaction that has not been told of the group whose offset it has does not tell the group of its end."""
    with running_kafka(settings={"transaction.partition.verification.enable": "false"}) as kafka:
        for moment, ended in (("told", "committed"), ("committed", "committed"), ("marked", "aborted")):
            topic = kafka.create_topic(f"lost-{moment}")
            sink = opened(exactly_once(kafka, topic))
            step(sink, 1, "a")
            snapshots = {}
            play(sink, ["b", ("snap", 2)], snapshots)
            caplog.clear()
            with monkeypatch.context() as patch:
                forget_the_group(patch)
                if moment != "told":
                    die_at(patch, moment)
                    with pytest.raises(Died):
                        sink.operator.notify_checkpoint_complete(2)
                    patch.undo()
                    sink = opened(exactly_once(kafka, topic), [snapshots[2]])
                sink.operator.notify_checkpoint_complete(2)
            assert f"a transaction that was {ended}" in caplog.text
            step(sink, 3, "c")
            assert values(kafka, topic) == ["a", "b", "c"]
            sink.close()


def forget_the_group(monkeypatch):
    """Have the next transaction leave out the group."""
    add_group = KafkaCoordinators.add_group

    def forget(*arguments):
        monkeypatch.setattr(KafkaCoordinators, "add_group", add_group)

    monkeypatch.setattr(KafkaCoordinators, "add_group", forget)


def test_a_transaction_that_takes_too_long_is_told_with_what_to_do_and_written_when_there_is_time(kafka, monkeypatch):
    topic = kafka.create_topic("slow")
    sink = opened(exactly_once(kafka, topic, transaction_timeout_ms="1000"))
    step(sink, 1, "a")
    sink.process_element("b")
    state = stored(sink.snapshot(2))
    with monkeypatch.context() as patch:
        patch.setattr(sink_operator, "COMMIT_ATTEMPTS", 2)
        write = kafka_sink.produce
        patch.setattr(kafka_sink, "produce", lambda *record: (write(*record), time.sleep(1.7)))
        with pytest.raises(FlinkbufError, match=r"1 records were not .* within 1 s .* transaction.max.timeout.ms"):
            sink.operator.notify_checkpoint_complete(2)
    sink.close()
    again = opened(exactly_once(kafka, topic, transaction_timeout_ms="5000"), [state])
    assert values(kafka, topic) == ["a", "b"]
    again.close()
