"""Brokers, tasks and drivers that are killed: a consumer of what is committed finds each record once, in order.

KAFKA_KILLS says how many are killed beside a running job, KAFKA_SEED when and whom; make test-kafka-kills KILLS=1000.
"""

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

library = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

import kafka_kills_program  # noqa: E402
from support.servers.kafka_cluster import running_kafka  # noqa: E402
from support.worlds.failing_sinks import stored  # noqa: E402
from test_kafka import opened, sink_of  # noqa: E402

from flinkbuf.datastream.connectors.base import DeliveryGuarantee  # noqa: E402

pytestmark = pytest.mark.hosts

KILLS = int(os.environ.get("KAFKA_KILLS", "8"))
SEED = int(os.environ.get("KAFKA_SEED", str(time.time_ns() % 1_000_000)))
MOMENTS = ["before", "begun", "written", "marked", "committed"]


# A broker that dies at each point of a commit


class Died(Exception):
    """What the process dies of."""


class Around:
    """Passes all calls on to an object, and does something before or after the first of one name."""

    def __init__(self, around, name, before=None, after=None):
        self._around, self._name, self._before, self._after = around, name, before, after

    def __getattr__(self, name):
        method = getattr(self._around, name)
        if name != self._name:
            return method

        def call(*arguments):
            before, self._before = self._before, None
            after, self._after = self._after, None
            if before is not None:
                before()
            result = method(*arguments)
            if after is not None:
                after()
            return result

        return call


def disturb_at(sink, moment, disturb):
    """Have something happen at a moment of the sink's next commit, whose session has begun."""
    ((_, session),) = sink.operator._committer._sessions.items()
    if moment == "begun":
        session._producer = Around(session._producer, "begin_transaction", after=disturb)
    elif moment in ("written", "marked"):
        at = {"before": disturb} if moment == "written" else {"after": disturb}
        session._marks = Around(session._marks, "write", **at)
    elif moment == "committed":
        session._producer = Around(session._producer, "commit_transaction", after=disturb)
    else:
        disturb()


@pytest.fixture(scope="module")
def kafka():
    with running_kafka() as cluster:
        yield cluster


@pytest.mark.parametrize("task_dies", [False, True])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_broker_that_dies_around_a_commit_and_comes_back(kafka, moment, task_dies):
    topic = kafka.create_topic(f"dies-{moment}-{task_dies}")
    sink = opened(sink_of(kafka.address, topic, DeliveryGuarantee.EXACTLY_ONCE))
    sink.process_element("a")
    sink.snapshot(1)
    sink.operator.notify_checkpoint_complete(1)
    sink.process_element("b")
    state = stored(sink.snapshot(2))
    is_back = []

    def start():
        kafka.start()
        is_back.append(time.monotonic())

    later = threading.Timer(0.5, start)

    def disturb():
        kafka.kill()
        later.start()
        if task_dies:
            raise Died

    try:
        disturb_at(sink, moment, disturb)
        sink.operator.notify_checkpoint_complete(2)
    except Died:
        again = opened(sink_of(kafka.address, topic, DeliveryGuarantee.EXACTLY_ONCE), [state])
        sink.close()
        sink = again
    went_through = time.monotonic()
    later.join()
    sink.process_element("c")
    sink.snapshot(3)
    sink.operator.notify_checkpoint_complete(3)
    sink.close()
    assert [message.value() for message in kafka.read(topic)[0]] == [b"a", b"b", b"c"]
    assert went_through - is_back[0] < 60, "the commit did not go on when the broker was back"


# Sinks that commit at once


class CommittingSink:
    """A sink in a thread of its own, which goes on behind a killed broker in its process, or as a new one."""

    def __init__(self, cluster, number):
        self._cluster = cluster
        self.topic = cluster.create_topic(f"storm-{number}", 2)
        self.written, self.failure = [], None
        self._checkpoint_id, self._state = 0, None
        self._sink = self._open()

    def _open(self, states=None):
        return opened(sink_of(self._cluster.address, self.topic, DeliveryGuarantee.EXACTLY_ONCE), states)

    def write(self, *values):
        for value in values:
            self._sink.process_element(value)
        self.written += values
        self._checkpoint_id += 1
        self._state = stored(self._sink.snapshot(self._checkpoint_id))

    def commit(self):
        self._sink.operator.notify_checkpoint_complete(self._checkpoint_id)

    def commit_disturbed(self, disturb, dies, is_disturbed):
        """Commit; `disturb` is called right behind, and the process dies there or lives on."""

        def after():
            disturb()
            if dies:
                raise Died

        disturb_at(self._sink, "committed", after)
        try:
            self.commit()
        except Died:
            is_disturbed.wait(60)
            old, self._sink = self._sink, self._open([self._state])
            old.close()
        except BaseException as error:
            self.failure = error

    def check(self):
        assert self.failure is None, f"{self.topic}: {self.failure!r} (KAFKA_SEED={SEED})"
        found = sorted(message.value().decode() for some in self._cluster.read(self.topic) for message in some)
        assert found == sorted(self.written), f"{self.topic} (KAFKA_SEED={SEED})"

    def close(self):
        self._sink.close()


def test_sinks_that_commit_at_once_while_their_broker_is_killed():
    """The instant behind a commit, which kills at random rarely meet: brokers lose markers there."""
    rng = random.Random(SEED)
    told = dict.fromkeys(("task", "broker"), 0)
    with running_kafka(client={"log_level": 0}) as cluster:
        sinks = [CommittingSink(cluster, number) for number in range(6)]
        for sink in sinks:
            sink.write("first")
            sink.commit()
        turns = 0
        while sum(told.values()) < KILLS:
            turns += 1
            storm(cluster, sinks, rng, told)
            for sink in sinks:
                sink.check()
            print(f"{turns} turns, {told}", flush=True)
        for sink in sinks:
            sink.close()


def storm(cluster, sinks, rng, told):
    """Have all sinks commit at once, kill the broker behind one of the commits, and perhaps again when it is back."""
    place, is_killed, lock = rng.randrange(len(sinks)), threading.Event(), threading.Lock()
    turns = itertools.count()

    def disturb():
        with lock:
            if next(turns) == place:
                cluster.kill()
                is_killed.set()

    threads = []
    for sink in sinks:
        sink.write(*(f"{sum(told.values())}-{number}" for number in range(rng.randint(1, 3))))
        dies = rng.random() < 0.5
        told["task"] += dies
        threads.append(threading.Thread(target=sink.commit_disturbed, args=(disturb, dies, is_killed)))
    for thread in threads:
        thread.start()
    assert is_killed.wait(120), [sink.failure for sink in sinks]
    time.sleep(rng.uniform(0, 1))
    cluster.start()
    told["broker"] += 1
    for _ in range(rng.choice((0, 1, 1, 2))):
        time.sleep(rng.uniform(0, 2.5))
        cluster.kill()
        time.sleep(rng.uniform(0, 0.5))
        cluster.start()
        told["broker"] += 1
    for thread in threads:
        thread.join()


# Jobs


class Writer(threading.Thread):
    """Writes records of eight keys, numbered for each key, until it is stopped."""

    def __init__(self, cluster, per_second):
        super().__init__(daemon=True)
        self.producer = cluster.producer(enable_idempotence="true", message_timeout_ms="600000", linger_ms="5")
        self.numbers = dict.fromkeys((f"key {number}" for number in range(8)), 0)
        self._pause_s = len(self.numbers) / per_second
        self._ends = threading.Event()

    def run(self):
        while not self._ends.wait(self._pause_s):
            for key in self.numbers:
                self.numbers[key] += 1
                self.producer.produce("in", json.dumps([key, self.numbers[key]]), key)
            self.producer.poll(0)

    def stop(self):
        self._ends.set()
        self.join()
        assert self.producer.flush(120) == 0


class Reader(threading.Thread):
    """Reads what is committed, and says what is wrong with it."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.consumer = cluster.consumer(isolation_level="read_committed", auto_offset_reset="earliest")
        self.consumer.assign([library.TopicPartition("out", number, 0) for number in range(2)])
        self.seen, self.offsets, self.total, self.faults = {}, {}, 0, []
        self._ends = threading.Event()

    def run(self):
        while not self._ends.is_set():
            message = self.consumer.poll(0.2)
            if message is None or message.error() is not None:
                continue
            key, number, count = json.loads(message.value())
            expected = self.seen.get(key, 0) + 1
            if (number, count) != (expected, expected):
                place = f"offset {message.offset()} of partition {message.partition()}"
                behind = self.offsets.get(message.partition())  # a client that went back itself reads no newer one
                fault = f"{key}: {number} (counted {count}) where {expected} should be, at {place} behind {behind}"
                self.faults.append(fault)
            self.offsets[message.partition()] = message.offset()
            self.seen[key] = number
            self.total += 1
        self.consumer.close()

    def stop(self):
        self._ends.set()
        self.join()


class Driver:
    """The program in a process of its own; begun again, it takes its job over."""

    def __init__(self, folder):
        self._folder = folder
        self._process = None
        self.begin()

    def begin(self):
        places = [str(Path(kafka_kills_program.__file__).parent), *sys.path]
        surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
        with open(self._folder / "driver.log", "a") as log:
            program = [sys.executable, kafka_kills_program.__file__, str(self._folder)]
            self._process = subprocess.Popen(program, env=surroundings, stdout=log, stderr=log, start_new_session=True)

    def check(self):
        assert self._process.poll() is None, (self._folder / "driver.log").read_text()[-3_000:]

    def kill(self):
        self._process.kill()
        self._process.wait()


def kill_workers(folder, rng):
    alive = kafka_kills_program.workers(folder)
    for victim in rng.sample(alive, rng.randint(1, len(alive))) if alive else ():
        end(victim)


def end(pid):
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("brokers", [1, 3])
def test_jobs_whose_tasks_driver_and_brokers_are_killed(tmp_path, brokers):
    rng = random.Random(SEED)
    with running_kafka(brokers, client={"log_level": 0}) as cluster:
        cluster.create_topic("in", 2)
        cluster.create_topic("out", 2)
        properties = {"transaction.timeout.ms": "10000"}
        (tmp_path / "job.json").write_text(json.dumps({"servers": cluster.address, "properties": properties}))
        writer, reader, driver = Writer(cluster, 200), Reader(cluster), Driver(tmp_path)
        writer.start(), reader.start()
        try:
            killed, told = campaign(cluster, tmp_path, driver, reader, rng)
            writer.stop()
            expected = sum(writer.numbers.values())
            wait_for(driver, reader, lambda: reader.total >= expected, "all records")
            time.sleep(1)
            assert reader.total == expected and reader.seen == writer.numbers, told
        finally:
            driver.kill()
            reader.stop()
            for pid in kafka_kills_program.workers(tmp_path):
                end(pid)
    print(f"\n{brokers} brokers: {killed} kills, {told}, {expected} records (KAFKA_SEED={SEED})")


def campaign(cluster, folder, driver, reader, rng):
    """Kill one or several at once, again and again; each time the job has to go on."""
    wait_for(driver, reader, lambda: reader.total, "the first record")
    killed, told = 0, dict.fromkeys(("task", "driver", "broker"), 0)
    while killed < KILLS:
        victims = rng.sample(sorted(told), rng.choice((1, 1, 2, 3)))
        away = []
        for victim in victims:
            time.sleep(rng.choice((0, rng.uniform(0, 0.3))))
            if victim == "task":
                kill_workers(folder, rng)
            elif victim == "driver":
                driver.kill()
            else:
                away = rng.sample(list(cluster.numbers), rng.choice((1, 1, len(cluster.numbers))))
                for number in away:
                    cluster.kill(number)
            told[victim] += 1
            killed += 1
        time.sleep(rng.uniform(0, 1.5))
        if "driver" in victims:
            driver.begin()
        if away:
            cluster.start(*away)
        before = reader.total
        wait_for(driver, reader, lambda: reader.total > before + 50, f"records after the kill of {victims}")  # noqa: B023
        time.sleep(rng.uniform(0, 0.5))
        print(f"{killed} killed, {reader.total} records", flush=True)
    return killed, told


def wait_for(driver, reader, condition, what):
    deadline = time.monotonic() + 180
    while not condition():
        driver.check()
        assert not reader.faults, f"{reader.faults[:3]} (KAFKA_SEED={SEED})"
        assert time.monotonic() < deadline, f"no {what} within 180 s (KAFKA_SEED={SEED})"
        time.sleep(0.05)
