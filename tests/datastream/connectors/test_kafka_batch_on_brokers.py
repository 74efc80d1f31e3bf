"""Exactly once in batch, where writers and committers are tasks of their own, with a real broker."""

import threading
import time

import pytest

library = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

from support.servers.kafka_cluster import running_kafka  # noqa: E402
from test_kafka import sink_of  # noqa: E402
from test_kafka_kills import MOMENTS, Around, Died  # noqa: E402

from flinkbuf.common import Configuration, RestartStrategies, Types  # noqa: E402
from flinkbuf.datastream import RuntimeExecutionMode, StreamExecutionEnvironment  # noqa: E402
from flinkbuf.datastream.connectors.base import DeliveryGuarantee  # noqa: E402
from flinkbuf.streaming.sinks import kafka_sink  # noqa: E402
from flinkbuf.streaming.sinks.kafka_sink import _Session  # noqa: E402

pytestmark = pytest.mark.hosts

COUNT = 100
EXPECTED = sorted(map(str, range(COUNT)))


@pytest.fixture(scope="module")
def kafka():
    with running_kafka() as cluster:
        yield cluster


def run(kafka, topic, function=str, attempts=3, **properties):
    """Write numbers as texts, two subtasks of them."""
    options = {"execution.target": "embedded", "pipeline.progress": "false"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(2).set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(attempts, 0))
    texts = env.from_collection(range(COUNT), Types.LONG()).rebalance().map(function, Types.STRING())
    texts.sink_to(sink_of(kafka.address, topic, DeliveryGuarantee.EXACTLY_ONCE, **properties))
    env.execute()


def values(kafka, topic):
    return [message.value().decode() for partition in kafka.read(topic) for message in partition]


def disturb_first_commit(monkeypatch, moment, disturb):
    """Have something happen at a moment of the first commit of any committer."""
    commit, first = _Session.commit, iter([True])

    def commit_disturbed(session, transaction):
        if next(first, False):
            if moment == "before":
                disturb()
            elif moment == "begun":
                session._producer = Around(session._producer, "begin_transaction", after=disturb)
            elif moment == "committed":
                session._producer = Around(session._producer, "commit_transaction", after=disturb)
            else:
                at = {"before": disturb} if moment == "written" else {"after": disturb}
                session._marks = Around(session._marks, "write", **at)
        return commit(session, transaction)

    monkeypatch.setattr(_Session, "commit", commit_disturbed)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_committer_that_fails_around_a_commit_gets_the_same_again(kafka, monkeypatch, moment):
    topic = kafka.create_topic(f"fails-{moment}")

    def die():
        raise Died

    disturb_first_commit(monkeypatch, moment, die)
    run(kafka, topic)
    assert sorted(values(kafka, topic)) == EXPECTED


@pytest.mark.parametrize(("moment", "task_dies"), [("marked", True), ("committed", False)])
def test_a_broker_that_dies_around_a_commit_and_comes_back(kafka, monkeypatch, moment, task_dies):
    topic = kafka.create_topic(f"dies-{moment}-{task_dies}", 2)
    later = threading.Timer(0.5, kafka.start)

    def disturb():
        kafka.kill()
        later.start()
        if task_dies:
            raise Died

    disturb_first_commit(monkeypatch, moment, disturb)
    run(kafka, topic)
    later.join()
    assert sorted(values(kafka, topic)) == EXPECTED


def test_a_writer_that_fails_leaves_nothing(kafka, tmp_path):
    topic = kafka.create_topic("writer")
    mark = tmp_path / "mark"

    def fails_once(number):
        if number == COUNT - 1 and not mark.exists():
            time.sleep(0.2)
            mark.touch()
            raise ValueError("once, when others have prepared")
        return str(number)

    run(kafka, topic, fails_once)
    assert mark.exists()
    assert sorted(values(kafka, topic)) == EXPECTED


def test_a_job_that_takes_longer_than_transactions_may(kafka):
    topic = kafka.create_topic("long")

    def slow(number):
        if number == 0:
            time.sleep(3)
        return str(number)

    run(kafka, topic, slow, **{"transaction.timeout.ms": "1000"})
    assert sorted(values(kafka, topic)) == EXPECTED


def test_a_subtask_has_transactions_of_limited_size_and_each_is_committed_once(kafka, monkeypatch):
    topic = kafka.create_topic("parts")
    monkeypatch.setattr(kafka_sink, "_MOST_RECORDS", 7)
    commit, count = _Session.commit, iter(range(100))
    sizes = []

    def commit_and_die(session, transaction):
        was_new = commit(session, transaction)
        sizes.append(len(transaction.records))
        if next(count) == 3:
            raise Died
        return was_new

    monkeypatch.setattr(_Session, "commit", commit_and_die)
    run(kafka, topic)
    found = values(kafka, topic)
    assert sorted(found) == EXPECTED
    assert max(sizes) == 7
    for parity in (0, 1):
        of_subtask = [int(each) for each in found if int(each) % 2 == parity]
        assert of_subtask == sorted(of_subtask)
