"""Environments, gates and partitions closed by one thread while others use them: an error each, and all comes home.

FLINKBUF_CLOSE_ROUNDS sets how many random rounds are played (200), FLINKBUF_FAULT_SEED the seed.
"""

import gc
import itertools
import os
import random
import threading
import time
import weakref

import pytest
from support.faults.fault_job import HANG_S, TYPE, Task, config_of, nothing_left, records_of
from support.faults.fault_proxy import wait_until

import flinkbuf as fb
from flinkbuf._core.flow.record_exchange import RecordExchange
from flinkbuf.network import environment as network

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads and files are counted in /proc")

ROUNDS = int(os.environ.get("FLINKBUF_CLOSE_ROUNDS", "200"))
SEED = int(os.environ.get("FLINKBUF_FAULT_SEED", "7"))
NUM_SEGMENTS = 64
EXCLUSIVE = pytest.mark.parametrize("buffers_per_channel", [0, 2])


class WatchedPool:
    """The pool of an environment that goes on counting when that is closed."""

    def __init__(self, pool):
        self.pool = pool
        self.lock = threading.Lock()
        self.is_closed = False

    def __getattr__(self, name):
        return getattr(self.pool, name)

    def create_buffer_pool(self, *args, **kwargs):
        with self.lock:  # as a pool that is closed for good: whoever comes too late gets none
            if self.is_closed:
                raise RuntimeError("the pool is closed")
            return self.pool.create_buffer_pool(*args, **kwargs)

    def close(self):
        with self.lock:
            self.is_closed = True
            self.pool.destroy_all_buffer_pools()

    def check_home(self):
        """Once everybody has ended: a reader gives its buffer back when it comes to know."""
        is_home = wait_until(lambda: self.pool.available_segment_count == NUM_SEGMENTS)
        assert is_home, f"{NUM_SEGMENTS - self.pool.available_segment_count} segments are away"
        self.pool.close()


def start(function, *args):
    task = Task(function, *args)
    task.start()
    return task


def close(env):
    """Within a bound."""
    task = start(env.close).end()
    assert task.error is None, repr(task.error)


@pytest.fixture
def environment():
    """Makes environments; at the end each is closed and has everything back."""
    made = []

    def make(buffers_per_channel=2, **knobs):
        env = fb.NetworkEnvironment(config_of(buffers_per_channel, **knobs), num_segments=NUM_SEGMENTS)
        env.pool = WatchedPool(env.pool)
        made.append(env)
        return env

    with nothing_left():
        yield make
        for env in made:
            close(env)
            env.pool.check_home()
        made.clear()


def write(partition, records, timeout_ms=5):
    with partition, fb.RecordWriter(partition, TYPE, "rebalance", buffer_timeout_ms=timeout_ms) as writer:
        writer.emit_all(records)


def read(gate, received=None):
    received = [] if received is None else received
    with gate, fb.RecordReader(gate, TYPE) as reader:
        received.extend(reader)
    return received


def endless():
    return ((number, f"record {number} of channel 0") for number in itertools.count())


# ---- one thread uses it, another closes its environment ------------------------------------------------------------


@EXCLUSIVE
def test_a_writer_that_waits_for_buffers_is_told(environment, buffers_per_channel):
    env = environment(buffers_per_channel)
    partition = env.create_partition(fb.network.ResultPartitionID.random(), 2)
    task = start(write, partition, endless())
    assert wait_until(lambda: not partition.is_available)
    close(env)
    with pytest.raises(fb.errors.CancelTaskError, match="aborted: its network environment was closed"):
        raise task.end().error
    assert partition.is_closed and partition.is_released


@EXCLUSIVE
def test_a_writer_is_told_while_others_read_and_so_are_they(environment, buffers_per_channel):
    here, there = environment(buffers_per_channel), environment(buffers_per_channel)
    partition_id, received = fb.network.ResultPartitionID.random(), []
    partition = there.create_partition(partition_id, 1)
    gate = here.create_gate([fb.network.RemoteChannel(*there.address, partition_id, 0)])
    writer, reader = start(write, partition, endless()), start(read, gate, received)
    assert wait_until(lambda: gate.figures()["channels"][0]["buffers"] > 20)
    close(there)
    assert isinstance(writer.end().error, fb.errors.CancelTaskError)
    assert isinstance(reader.end().error, (fb.errors.CancelTaskError, fb.errors.RemoteTransportError)), repr(
        reader.error
    )
    assert received == records_of(len(received))


@pytest.mark.parametrize("is_local", [False, True])
def test_a_reader_that_waits_is_told(environment, is_local):
    here, there = environment(), environment()
    partition_id = fb.network.ResultPartitionID.random()
    producer = here if is_local else there
    partition = producer.create_partition(partition_id, 1)
    channel = (
        fb.network.LocalChannel(partition_id, 0)
        if is_local
        else fb.network.RemoteChannel(*there.address, partition_id, 0)
    )
    gate = here.create_gate([channel])
    task = start(read, gate)
    assert wait_until(lambda: gate.figures()["idle_ms"] > 0)
    close(here)
    with pytest.raises(fb.errors.CancelTaskError, match="closed by another thread|its network environment was closed"):
        raise task.end().error
    partition.close()


def test_a_reader_of_a_partition_that_never_came_is_told(environment):
    env = environment(partition_request_timeout_ms=60_000)
    other = environment(partition_request_timeout_ms=60_000)
    channels = [
        fb.network.RemoteChannel(*other.address, fb.network.ResultPartitionID.random(), 0),
        fb.network.LocalChannel(fb.network.ResultPartitionID.random(), 0),
    ]
    tasks = [start(read, env.create_gate([channel])) for channel in channels]
    assert wait_until(lambda: other._server.counters()["channels"] == 1)
    close(env)
    for task in tasks:
        assert isinstance(task.end().error, fb.errors.CancelTaskError), repr(task.error)


def test_a_writer_that_is_busy_with_its_records_is_waited_for_so_long_and_then_closes_by_itself(
    environment, monkeypatch
):
    monkeypatch.setattr(network, "CLOSE_PATIENCE_MS", 50)
    may_go_on, is_busy = threading.Event(), threading.Event()

    def halting():
        yield from records_of(10)
        is_busy.set()
        may_go_on.wait(HANG_S)
        yield from endless()

    env = environment()
    partition = env.create_partition(fb.network.ResultPartitionID.random(), 1)
    task = start(write, partition, halting())
    assert is_busy.wait(HANG_S)
    closing = start(env.close).end()
    assert closing.error is None and task.is_alive()
    assert env.pool.available_segment_count < NUM_SEGMENTS  # a buffer was begun
    may_go_on.set()
    assert isinstance(task.end().error, fb.errors.CancelTaskError)


def test_a_writer_may_close_its_own_environment(environment, monkeypatch):
    monkeypatch.setattr(network, "CLOSE_PATIENCE_MS", 3_600_000)  # nobody waits for oneself
    env = environment()
    partition = env.create_partition(fb.network.ResultPartitionID.random(), 1)

    def closing():
        yield from records_of(10)
        env.close()
        yield from endless()

    assert isinstance(start(write, partition, closing()).end().error, fb.errors.CancelTaskError)
    assert env.is_closed


def test_who_writes_and_reads_in_one_loop_is_told(environment):
    env = environment()
    partition_id = fb.network.ResultPartitionID.random()
    partition = env.create_partition(partition_id, 1)
    writer = fb.RecordWriter(partition, TYPE, "global")
    reader = fb.RecordReader(env.create_gate([fb.network.LocalChannel(partition_id, 0)]), TYPE)
    received = []

    def run():
        try:
            for record in RecordExchange(writer, reader, endless()):
                received.append(record)
        finally:
            writer.stop()
            reader.close()

    task = start(run)
    assert wait_until(lambda: len(received) > 1000)
    close(env)
    assert isinstance(task.end().error, fb.errors.CancelTaskError), repr(task.error)
    assert received == records_of(len(received))


def test_who_waits_for_readers_is_told(environment):
    env = environment()
    partition = env.create_partition(fb.network.ResultPartitionID.random(), 1)
    write(partition, records_of(10))
    waiting, processed = start(env.wait_until_consumed), start(partition.wait_for_all_data_processed)
    time.sleep(0.02)
    close(env)
    with pytest.raises(fb.errors.CancelTaskError, match="closed before everything was read"):
        raise waiting.end().error
    assert processed.end().result is False


def test_who_opens_something_meanwhile_is_refused(environment):
    for number in range(20):
        env = environment()

        def open_all(env=env):
            while True:
                partition_id = fb.network.ResultPartitionID.random()
                with env.create_partition(partition_id, 1):
                    env.create_gate([fb.network.RemoteChannel(*env.address, partition_id, 0)]).close()

        tasks = [start(open_all) for _ in range(2)]
        time.sleep(number * 0.001)
        assert start(env.close).end().error is None
        for task in tasks:
            assert isinstance(task.end().error, (fb.errors.CancelTaskError, RuntimeError)), repr(task.error)
            assert "closed" in str(task.error) or "destroyed" in str(task.error)


def test_who_waits_for_exclusive_buffers_is_told(environment):
    """The gate is not complete: somebody else has taken more than is guaranteed to him."""
    env = environment(buffers_per_channel=8, exclusive_buffers_request_timeout_ms=3_600_000)
    with env.pool.create_buffer_pool(1, NUM_SEGMENTS) as greedy:
        taken = [greedy.request() for _ in range(NUM_SEGMENTS - 4)]
        task = start(
            env.create_gate, [fb.network.RemoteChannel(*env.address, fb.network.ResultPartitionID.random(), 0)]
        )
        assert wait_until(lambda: env.pool.available_segment_count == 0)
        close(env)
        assert isinstance(task.end().error, (fb.errors.CancelTaskError, RuntimeError)), repr(task.error)
        for builder in taken:
            builder.close()


# ---- requests that come too late -----------------------------------------------------------------------------------


def test_a_partition_that_was_aborted_refuses_its_readers(environment):
    here, there = environment(), environment()
    partition_id = fb.network.ResultPartitionID.random()
    partition = there.create_partition(partition_id, 3)
    assert partition.abort("it is enough")
    gates = [
        there.create_gate([fb.network.LocalChannel(partition_id, 0)]),
        here.create_gate([fb.network.RemoteChannel(*there.address, partition_id, 1)]),
    ]
    for gate in gates:
        with gate, pytest.raises(fb.errors.CancelTaskError, match="it is enough"):
            gate.poll(HANG_S * 1000)
    with pytest.raises(fb.errors.CancelTaskError):
        partition.create_view(2)


# ---- several threads close the same --------------------------------------------------------------------------------


def close_by_many(function, count=4):
    ready = threading.Barrier(count)

    def run():
        ready.wait(HANG_S)
        function()

    for task in [start(run) for _ in range(count)]:
        assert task.end().error is None, repr(task.error)


def test_several_threads_may_close_the_same(environment):
    for _ in range(50):
        env = environment()
        ids = [fb.network.ResultPartitionID.random() for _ in range(3)]
        partitions = [env.create_partition(partition_id, 1) for partition_id in ids]
        gates = [env.create_gate([fb.network.LocalChannel(ids[0], 0)])]
        gates.append(
            fb.network.UnionInputGate(
                [env.create_gate([fb.network.RemoteChannel(*env.address, each, 0)]) for each in ids[1:]]
            )
        )
        readers = [start(read, gate) for gate in gates]
        for partition in partitions:
            with fb.RecordWriter(partition, TYPE) as writer:
                writer.emit_all(records_of(10))
        for each in (*partitions, *gates, env):
            close_by_many(each.close)
            assert each.is_closed
        for reader in readers:
            assert reader.end().error is None or isinstance(reader.error, fb.errors.CancelTaskError), repr(reader.error)


# ---- all of it at random moments -----------------------------------------------------------------------------------


@EXCLUSIVE
def test_whoever_is_closed_whenever_all_segments_come_home(environment, buffers_per_channel):
    rng = random.Random(SEED + buffers_per_channel)
    for number in range(ROUNDS // 2):
        here, there = environment(buffers_per_channel), environment(buffers_per_channel)
        ids = [fb.network.ResultPartitionID.random() for _ in range(2)]
        partitions = [there.create_partition(ids[0], 2), here.create_partition(ids[1], 1)]
        gates = [
            here.create_gate([fb.network.RemoteChannel(*there.address, ids[0], 0), fb.network.LocalChannel(ids[1], 0)]),
            here.create_gate([fb.network.RemoteChannel(*there.address, ids[0], 1)]),
        ]
        if rng.random() < 0.3:
            gates = [fb.network.UnionInputGate(gates)]
        tasks = [start(write, partition, endless(), rng.choice([0, 1, 5])) for partition in partitions]
        tasks += [start(read, gate) for gate in gates]
        time.sleep(rng.random() * 0.02)
        targets = rng.sample([here, here, there, there, *gates], rng.randrange(1, 4))
        closing = [start(target.close) for target in targets]
        if rng.random() < 0.3:
            partitions[0].abort("at random", timeout_ms=HANG_S * 1000)
        for task in closing:
            assert task.end().error is None, f"round {number}, seed {SEED}: {task.error!r}"
        close(here)
        close(there)
        for task in tasks:
            error = task.end().error
            assert isinstance(error, (fb.errors.CancelTaskError, fb.errors.RemoteTransportError)), (
                f"round {number}: {error!r}"
            )


def test_a_gate_that_is_collected_while_its_environment_is_closed_lets_go_of_the_network():
    """The collector takes the gate from those who look for it, calls whoever watches it, and frees it then."""
    with nothing_left():
        for _ in range(20):
            env = fb.NetworkEnvironment(config_of(2), num_segments=NUM_SEGMENTS)
            gate = env.create_gate([fb.network.RemoteChannel(*env.address, fb.network.ResultPartitionID.random(), 0)])
            gate.request_partitions()
            watch = weakref.ref(gate, lambda _, env=env: env.close())
            knot = [gate]
            knot.append(knot)
            del gate, knot
            gc.collect()
            assert watch() is None and env.is_closed
