"""Two network namespaces joined by one link, which is cut while records flow, and mended.

A cut that is mended in time changes nothing: the system sends again what was lost. After one that is not, both sides
have an error that names the other within the patience that is configured: also the side whose own interface is still
up and hears nothing, and the one that was not sending. An end that is cut is one whose interface goes down.

The namespaces have no names: a thread that enters one makes the environment there, whose I/O thread inherits it. They
go with their last file and socket. Skipped where the system does not permit them.
"""

import contextlib
import itertools
import os
import random
import threading
import time

import pytest
from support.faults.fault_job import TYPE, Task, nothing_left, records_of
from support.faults.fault_proxy import wait_until
from support.faults.namespaces import linked_namespaces

import flinkbuf as fb

SEED = int(os.environ.get("FLINKBUF_FAULT_SEED", "7"))
HERE, THERE = "10.99.0.1", "10.99.0.2"  # the consumer's and the producer's
NUM_SEGMENTS = 64
PATIENCE_S = 60  # by itself the system would go on for a quarter of an hour
SOON = {
    "dead_peer_timeout_ms": 2000,
    "netty_client_tcp_keep_idle_s": 1,
    "netty_client_tcp_keep_interval_s": 1,
    "netty_client_tcp_keep_count": 2,
}


class Line:
    """Two namespaces with an environment in each, and the link between them."""

    def __init__(self, **knobs):
        config = fb.NetworkConfig(
            **{"segment_size": 4096, "buffer_timeout_ms": 5, "tcp_connection_enable_reuse_across_jobs": False, **knobs}
        )
        with contextlib.ExitStack() as opened:
            self.spaces = opened.enter_context(linked_namespaces(HERE, THERE))
            self.here, self.there = (
                space.run(fb.NetworkEnvironment, config, host=address, num_segments=NUM_SEGMENTS)
                for address, space in self.spaces.items()
            )
            self.opened = opened.pop_all()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        with self.opened:
            try:
                if error is None:
                    for side in (self.here, self.there):
                        home = wait_until(lambda free=side.pool: free.available_segment_count == NUM_SEGMENTS)
                        assert home, f"{NUM_SEGMENTS - side.pool.available_segment_count} segments are away"
            finally:
                self.here.close()
                self.there.close()

    def cut(self, end):
        self.spaces[end].ip("link", "set", "link0", "down")

    def mend(self, end):
        self.spaces[end].ip("link", "set", "link0", "up")


class Job:
    """One channel from there to here, with a task at each end."""

    def __init__(self, line, records):
        self.received, self.may_go_on = [], threading.Event()
        partition_id = fb.network.ResultPartitionID.random()
        self.address = line.there.address
        self.partition = line.there.create_partition(partition_id, 1)
        self.gate = line.here.create_gate([fb.network.RemoteChannel(*self.address, partition_id, 0)])
        self.producer = Task(self.write, self.partition, records)
        self.consumer = Task(self.read, self.gate)

    def start(self):
        self.producer.start()
        self.consumer.start()
        return self

    def write(self, partition, records):
        with partition, fb.RecordWriter(partition, TYPE, buffer_timeout_ms=5) as writer:
            writer.emit_all(records)

    def read(self, gate):
        with gate, fb.RecordReader(gate, TYPE) as reader:
            for record in reader:
                self.received.append(record)

    def has_read(self, count):
        assert wait_until(lambda: len(self.received) >= count or not self.consumer.is_alive(), PATIENCE_S)
        assert len(self.received) >= count, repr(self.consumer.error)

    def check_lost(self):
        """Both sides have an error that names the other, after nothing but right records."""
        for task, peer in ((self.consumer, f"{THERE}:{self.address[1]}"), (self.producer, f"{HERE}:")):
            task.end(PATIENCE_S)
            assert isinstance(task.error, fb.errors.RemoteTransportError), repr(task.error)
            assert peer in str(task.error)
        for number, record in enumerate(self.received):
            assert record == (number, f"record {number} of channel 0")


def endless():
    return ((number, f"record {number} of channel 0") for number in itertools.count())


@pytest.fixture(scope="module")
def is_permitted():
    try:
        with Line():
            pass
    except (OSError, AttributeError) as error:  # the system has no such call
        pytest.skip(f"network namespaces with a link between them are not permitted here, or `ip` is missing: {error}")


@pytest.fixture(autouse=True)
def everything_is_returned(is_permitted):
    with nothing_left():
        yield


@contextlib.contextmanager
def lines(**knobs):
    """One for each end that is cut, at the same time: most of these tests wait for patience to end."""
    with Line(**knobs) as first, Line(**knobs) as second:
        yield {HERE: first, THERE: second}


@pytest.mark.parametrize("end", [HERE, THERE])
def test_a_cut_that_is_mended_in_time_changes_nothing(end):
    rng = random.Random(f"{SEED} {end}")
    records = records_of(100_000)
    with Line() as line:
        job = Job(line, records).start()
        for _ in range(3):
            job.has_read(min(len(job.received) + rng.randrange(20_000), len(records)))
            line.cut(end)
            time.sleep(rng.random() * 0.2)
            line.mend(end)
        for task in (job.consumer, job.producer):
            assert task.end(PATIENCE_S).error is None
        assert job.received == records


def test_a_cut_for_good_is_an_error_on_both_sides_that_names_the_other():
    with lines(**SOON) as both:
        jobs = [Job(line, endless()).start() for line in both.values()]
        for job in jobs:
            job.has_read(10_000)
        for end, line in both.items():
            line.cut(end)
        for job in jobs:
            job.check_lost()


def test_a_cut_is_noticed_also_while_nothing_is_sent():
    """By the probes of both systems: the readers wait for writers that have nothing to write."""
    may_go_on = threading.Event()

    def halting():
        yield from records_of(100)
        may_go_on.wait(PATIENCE_S)
        yield from endless()

    with lines(**SOON) as both:
        jobs = [Job(line, halting()).start() for line in both.values()]
        for job in jobs:
            job.has_read(100)
        for end, line in both.items():
            line.cut(end)
        for job in jobs:
            assert isinstance(job.consumer.end(PATIENCE_S).error, fb.errors.RemoteTransportError)
            assert wait_until(lambda job=job: job.partition.is_reader_lost, PATIENCE_S)
        may_go_on.set()
        for job in jobs:
            job.check_lost()


def test_who_cannot_connect_is_told_so():
    with lines(netty_client_connect_timeout_s=1) as both:
        jobs = [Job(line, records_of(100)) for line in both.values()]
        for job, (end, line) in zip(jobs, both.items(), strict=True):
            line.cut(end)
            job.consumer.start()
        for job in jobs:
            assert isinstance(job.consumer.end(PATIENCE_S).error, fb.errors.RemoteTransportError), repr(
                job.consumer.error
            )
            assert f"{THERE}:{job.address[1]}" in str(job.consumer.error)
            job.partition.release()
            job.partition.close()
