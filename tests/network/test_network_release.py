"""Gates, partitions and environments that are given up at random moments while data flow: everything comes home.

FLINKBUF_RELEASE_ROUNDS sets how many rounds are played in all (1,000), FLINKBUF_FAULT_SEED the seed. A failure names
its round and seed.
"""

import os
import random
import sys
import time

import pytest
from support.faults.fault_job import TYPE, Pair, Task, nothing_left, records_of
from support.faults.fault_proxy import wait_until

import flinkbuf as fb
from flinkbuf.network.buffer import DataType

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads and files are counted in /proc")

ROUNDS = int(os.environ.get("FLINKBUF_RELEASE_ROUNDS", "1000"))
SEED = int(os.environ.get("FLINKBUF_FAULT_SEED", "7"))
RECORDS = [records_of(1500, channel) for channel in range(2)]  # 13 buffers each
# What the two tasks of a round may end with, besides well: what they use was closed, given up or lost.
ERRORS = (fb.errors.CancelTaskError, fb.errors.RemoteTransportError, fb.errors.PartitionNotFoundError, RuntimeError)


class Round:
    """Two channels, remote or one of them local, a task at each end, and one who interferes."""

    def __init__(self, pair, rng):
        self.pair, self.rng = pair, rng
        self.id = fb.network.ResultPartitionID.random()
        self.is_mixed = rng.random() < 0.2  # the gate also reads a partition of its own process
        self.partition = pair.there.create_partition(self.id, 1 if self.is_mixed else 2)
        self.local = None
        channels = [fb.network.RemoteChannel(*pair.there.address, self.id, 0)]
        if self.is_mixed:
            self.local_id = fb.network.ResultPartitionID.random()
            self.local = pair.here.create_partition(self.local_id, 1)
            channels.append(fb.network.LocalChannel(self.local_id, 0))
        else:
            channels.append(fb.network.RemoteChannel(*pair.there.address, self.id, 1))
        self.gate = pair.here.create_gate(channels)
        self.received = [[], []]

    def produce(self):
        timeout_ms = self.rng.choice([0, 1, 5])
        with self.partition, fb.RecordWriter(self.partition, TYPE, "rebalance", buffer_timeout_ms=timeout_ms) as writer:
            for records in zip(*RECORDS[: self.partition.subpartition_count], strict=True):
                for channel, record in enumerate(records):
                    writer.emit_to(record, channel)

    def produce_locally(self):
        with self.local, fb.RecordWriter(self.local, TYPE, buffer_timeout_ms=1) as writer:
            writer.emit_all(RECORDS[1])

    def consume(self):
        with self.gate, fb.RecordReader(self.gate, TYPE) as reader:
            for record in reader:
                self.received[reader.channel_index].append(record)

    def actions(self):
        """What may happen to it, by name."""
        return {
            "nothing": lambda: None,
            "close gate": self.gate.close,
            "release": self.partition.release,
            "fail": lambda: self.partition.fail(ValueError("enough")),
            "close gate and release": lambda: (self.gate.close(), self.partition.release()),
            "release and close gate": lambda: (self.partition.release(), self.gate.close()),
            "close consumer": self.pair.here.close,
            "close producer": self.pair.there.close,
        }

    def play(self, action, moment_s):
        self.tasks = [Task(self.produce), Task(self.consume)]
        if self.local is not None:
            self.tasks.append(Task(self.produce_locally))
        for task in self.tasks:
            task.start()
        time.sleep(moment_s)
        actions = self.actions()
        actions[action]()
        self.tasks[1].end()
        for partition in (self.partition, self.local):
            if partition is not None:
                partition.release()  # a gate that was closed before it asked leaves a producer that waits for it
        for task in self.tasks:
            task.end()
            assert task.error is None or isinstance(task.error, ERRORS), repr(task.error)
        for got, sent in zip(self.received, RECORDS, strict=False):
            assert got == sent[: len(got)]
        if self.tasks[1].error is None:
            assert self.received == RECORDS
        assert action != "nothing" or all(task.error is None for task in self.tasks)


@pytest.mark.parametrize("buffers_per_channel", [0, 2])
def test_whatever_is_given_up_whenever_all_segments_come_home(buffers_per_channel):
    rng = random.Random(SEED + buffers_per_channel)
    pair, usual_s = None, 0.01
    with nothing_left():
        for number in range(ROUNDS // 2):
            pair = pair or Pair(buffers_per_channel)
            rare = ["close consumer", "close producer"] if rng.random() < 0.1 else []
            action = rng.choice(
                rare or ["nothing", "close gate", "release", "fail", "close gate and release", "release and close gate"]
            )
            moment_s = rng.random() * usual_s * 1.2 if action != "nothing" else 0
            started = time.monotonic()
            try:
                Round(pair, rng).play(action, moment_s)
                if action == "nothing":
                    usual_s = 0.7 * usual_s + 0.3 * min(time.monotonic() - started, 0.1)
                if rare:
                    close_rest(pair)
                    pair = None
                else:
                    pair.check_home()
            except AssertionError as error:
                raise AssertionError(
                    f"round {number}, seed {SEED}, {action} after {moment_s:.4f} s: {error}"
                ) from error
        if pair is not None:
            pair.__exit__(None, None, None)


def close_rest(pair):
    """One side is closed: the other has everything back before it is closed, too."""
    for side in (pair.there, pair.here):
        if not side.is_closed:
            free = side.pool
            assert wait_until(lambda free=free: free.available_segment_count == pair.num_segments), "segments are away"
            side.close()


# ---- a release that takes its time ----------------------------------------------------------------------------

WIDTH = 64  # subpartitions, the last of which is read
EVENTS = 2000  # in each, so that a release takes its time on the way to the last one
COUNT = 1000  # records, all to that one, eight in a buffer
EVERYTHING = list(range(COUNT))


def slow_partition(pool):
    partition = fb.ResultPartition(pool, WIDTH)
    for _ in range(EVENTS):
        partition.broadcast_event_bytes(b"nobody reads it", DataType.EVENT_BUFFER)
    return partition


def write_to_the_last(partition):
    with partition, fb.RecordWriter(partition, fb.Types.INT(), "rebalance") as writer:
        for record in EVERYTHING:
            writer.emit_to(record, WIDTH - 1)


def read_the_last(partition):
    with fb.InputGate([(partition, WIDTH - 1)]) as gate, fb.RecordReader(gate, fb.Types.INT()) as reader:
        return list(reader)


@pytest.fixture
def short_turns():
    """Threads of Python take turns often, so that many moments are tried."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("way", ["release", "fail", "abort"])
def test_a_channel_that_ends_well_has_lost_nothing_whenever_its_partition_goes(way, short_turns):
    rng, usual_s = random.Random(f"{SEED} {way}"), 0.001
    ways = {
        "release": lambda partition: partition.release(),
        "fail": lambda partition: partition.fail("enough"),
        "abort": lambda partition: partition.abort("enough"),
    }
    with fb.NetworkBufferPool(WIDTH + 32, segment_size=64) as pool:
        for number in range(ROUNDS // 10):
            partition = slow_partition(pool)
            reader, writer = Task(read_the_last, partition), Task(write_to_the_last, partition)
            reader.start(), writer.start()
            moment_s = usual_s * (0.2 + 0.8 * rng.random())
            time.sleep(moment_s)
            ways[way](partition)
            reader.end(), writer.end()
            assert reader.error is None or isinstance(reader.error, fb.errors.CancelTaskError), repr(reader.error)
            assert reader.error is not None or reader.result == EVERYTHING, (
                f"round {number}, seed {SEED}, {way} after {moment_s:.4f} s: {len(reader.result)} of {COUNT} records, "
                "and then a clean end"
            )
            usual_s = 0.9 * usual_s + 0.1 * writer.seconds
        assert wait_until(lambda: pool.available_segment_count == WIDTH + 32), "segments are away"
