"""NetworkEnvironment: what tasks of one process write, tasks of any process read; whole, in order, once."""

import contextlib
import gc
import itertools
import os
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults.collector import collector_runs
from support.faults.fault_job import TYPE, Pair, Task, nothing_left, records_of
from support.faults.fault_proxy import wait_until

import flinkbuf as fb
from flinkbuf.network.events import CheckpointBarrier, EndOfData

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads and files are counted in /proc")

LONG, INT, STRING = fb.Types.LONG(), fb.Types.INT(), fb.Types.STRING()
BYTES = fb.Types.PRIMITIVE_ARRAY(fb.Types.BYTE())
HANG_S = 60  # nothing here takes a tenth of it


@pytest.fixture(autouse=True)
def everything_is_returned():
    with nothing_left():
        yield


def environment(num_segments=64, *, host="127.0.0.1", advertised_host=None, **knobs):
    config = fb.NetworkConfig(**{"segment_size": 4096, "tcp_connection_enable_reuse_across_jobs": False, **knobs})
    return fb.NetworkEnvironment(config, host=host, advertised_host=advertised_host, num_segments=num_segments)


def write(partition, records, type=LONG, partitioner="rebalance", **options):
    with partition, fb.RecordWriter(partition, type, partitioner, seed=0, **options) as writer:
        writer.emit_all(records)


def read(gate, type=LONG):
    with gate, fb.RecordReader(gate, type) as reader:
        return list(reader)


def read_each(gate, type=LONG):
    """The records of each channel."""
    taken = [[] for _ in range(gate.channel_count)]
    with gate, fb.RecordReader(gate, type) as reader:
        for record in reader:
            taken[reader.channel_index].append(record)
    return taken


def run(*tasks):
    """Start each (function, arguments ...), wait for all, give their results or raise the first error."""
    threads = [Task(*task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.end(HANG_S)
        if thread.error is not None:
            raise thread.error
    return [thread.result for thread in threads]


# ---- addresses -----------------------------------------------------------------------------------------------------


def free_ports(count):
    """Ports in a row that nobody listens at."""
    while True:
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket())]
            sockets[0].bind(("127.0.0.1", 0))
            first = sockets[0].getsockname()[1]
            try:
                for port in range(first + 1, first + count):
                    sockets.append(stack.enter_context(socket.socket()))
                    sockets[-1].bind(("127.0.0.1", port))
            except (OSError, OverflowError):
                continue
            return list(range(first, first + count))


def test_it_listens_at_the_first_port_of_the_range_that_is_free():
    first, second = free_ports(2)
    with environment(data_port=f"{first}-{second}") as one, environment(data_port=f"{first}-{second}") as other:
        assert (one.address, other.address) == (("127.0.0.1", first), ("127.0.0.1", second))
        with pytest.raises(OSError):
            environment(data_port=f"{first}-{second}")


def test_a_range_without_a_free_port_is_an_error_with_the_range():
    first, second = free_ports(2)
    with environment(data_port=str(first)), environment(data_port=str(second)):
        with pytest.raises(
            OSError, match=f"none of the 2 ports of data_port='{first},{second}' can be listened at.*in use"
        ):
            environment(data_port=f"{first},{second}")


def test_a_range_that_is_none_is_refused():
    with pytest.raises(ValueError, match="such as \"50100-50200,6121\", got 'http'"):
        environment(data_port="http")


@pytest.mark.parametrize(
    "host, advertised, expected",
    [
        ("127.0.0.1", None, "127.0.0.1"),
        ("127.0.0.1", "worker-1", "worker-1"),
        ("0.0.0.0", None, socket.gethostname()),
        ("localhost", None, "localhost"),
    ],
)
def test_it_says_where_others_find_it(host, advertised, expected):
    with environment(host=host, advertised_host=advertised) as env:
        assert env.address[0] == expected
        assert 0 < env.address[1] < 65536


def test_records_travel_over_ipv6():
    try:
        there = environment(host="::1")
    except OSError:
        pytest.skip("this machine has no ::1")
    with there, environment() as here:
        name = fb.network.ResultPartitionID.random()
        gate = here.create_gate([fb.network.RemoteChannel("::1", there.address[1], name, 0)])
        run((write, there.create_partition(name, 1), range(1000)), (read, gate))


# ---- names ---------------------------------------------------------------------------------------------------------


def test_a_partition_goes_by_its_bytes_their_digits_or_the_name_itself():
    with environment() as here, environment() as there:
        for form in (bytes, fb.network.ResultPartitionID.hex, fb.network.ResultPartitionID):
            name = fb.network.ResultPartitionID.random()
            gate = here.create_gate([fb.network.RemoteChannel(*there.address, form(name), 0)])
            run((write, there.create_partition(form(name), 1), range(10)), (read, gate))


@pytest.mark.parametrize("wrong", [{}, {"retries": 3}, fb.NetworkConfig, 5])
def test_what_is_no_config_is_refused(wrong):
    with pytest.raises(TypeError, match="config must be a NetworkConfig, got"):
        fb.NetworkEnvironment(wrong)


@pytest.mark.parametrize("host", ["no.such.host.invalid", ""])
def test_a_host_that_has_no_address_is_named(host):
    with pytest.raises(OSError, match=f"listening at {host}:0: no such address can be found"):
        environment(host=host)


@pytest.mark.parametrize("name", [60, None, ["a"] * 60])
def test_an_id_is_made_of_bytes(name):
    for make in (fb.network.ResultPartitionID, lambda name: fb.network.LocalChannel(name, 0)):
        with pytest.raises(TypeError, match="is made of bytes, or by from_hex"):
            make(name)
    with pytest.raises(TypeError, match="from_hex"):
        fb.network.ResultPartitionID("00" * 60)


@pytest.mark.parametrize("name", ["beef", b"short", "z" * 120])
@pytest.mark.parametrize(
    "channel", [fb.network.LocalChannel, lambda name, index: fb.network.RemoteChannel("h", 1, name, index)]
)
def test_what_is_no_name_is_refused(name, channel):
    with pytest.raises(ValueError):
        channel(name, 0)


def test_channels_are_checked_when_they_are_named():
    name = fb.network.ResultPartitionID.random()
    for port in (0, 65536, -1):
        with pytest.raises(ValueError, match="port must be from 1 to 65535"):
            fb.network.RemoteChannel("h", port, name, 0)
    for index in (-1, 2**31):
        with pytest.raises(ValueError, match="subpartition_index must be from 0 to 2147483647"):
            fb.network.LocalChannel(name, index)
    for arguments, what in (
        ((None, 1, name, 0), "host"),
        (("h", "6121", name, 0), "port"),
        (("h", 1, name, 1.0), "subpart"),
    ):
        with pytest.raises(TypeError, match=f"{what}.* must be .*, got"):
            fb.network.RemoteChannel(*arguments)


def test_a_name_is_used_once():
    with environment() as env:
        name = fb.network.ResultPartitionID.random()
        partition = env.create_partition(name, 1)
        with pytest.raises(RuntimeError):
            env.create_partition(name.hex(), 1)
        partition.close()
        assert env.pool.available_segment_count == 64


# ---- what arrives --------------------------------------------------------------------------------------------------

JOBS = st.fixed_dictionaries(
    {
        "producers": st.integers(1, 3),
        "consumers": st.integers(1, 3),
        "exclusive": st.integers(0, 3),
        "floating": st.integers(1, 9),
        "segment_size": st.sampled_from([4096, 8192]),
        "flush_ms": st.sampled_from([-1, 0, 1]),
        "sizes": st.lists(
            st.one_of(st.integers(0, 40), st.sampled_from([4090, 4091, 4092, 8187, 20_000])), max_size=60
        ),
        "partitioner": st.sampled_from(["rebalance", "shuffle", "global", "broadcast", "forward"]),
    }
)


def records_for(job, producer):
    return [bytes([producer, index % 256]) + bytes(size) for index, size in enumerate(job["sizes"])]


@settings(max_examples=40)
@given(job=JOBS)
def test_every_record_arrives_once_and_in_its_channels_order(job):
    """Each producer in an environment of its own, all consumers in another, one of them beside a producer."""
    count = job["producers"]
    if job["partitioner"] == "forward":
        job = {**job, "consumers": 1}
    knobs = {"buffers_per_channel": job["exclusive"], "floating_buffers_per_gate": job["floating"]}
    with contextlib.ExitStack() as stack:
        sides = [
            stack.enter_context(environment(96, segment_size=job["segment_size"], **knobs)) for _ in range(count + 1)
        ]
        names = [fb.network.ResultPartitionID.random() for _ in range(count)]
        tasks = []
        for producer in range(count):
            partition = sides[producer].create_partition(names[producer], job["consumers"])
            records = records_for(job, producer)
            options = {"buffer_timeout_ms": job["flush_ms"]}
            tasks.append((lambda p=partition, r=records, o=options: write(p, r, BYTES, job["partitioner"], **o),))
        for consumer in range(job["consumers"]):
            home = sides[0] if consumer == 1 else sides[-1]
            gate = home.create_gate(
                fb.network.LocalChannel(name, consumer)
                if side is home
                else fb.network.RemoteChannel(*side.address, name, consumer)
                for side, name in zip(sides, names, strict=False)
            )
            tasks.append((read_each, gate, BYTES))
        taken = run(*tasks)[count:]
        for side in sides:
            assert wait_until(lambda side=side: side.pool.used_segment_count == 0)
    for producer in range(count):
        sent = records_for(job, producer)
        got = [channels[producer] for channels in taken]
        if job["partitioner"] == "broadcast":
            assert got == [sent] * job["consumers"]
        else:
            assert sorted(itertools.chain(*got)) == sorted(sent)
            for records in got:
                remaining = iter(sent)
                assert all(record in remaining for record in records)  # in the order in which they were sent


@pytest.mark.parametrize("exclusive", [0, 2])
@pytest.mark.parametrize("segment_size", [4096, 32768])
def test_records_of_any_size_cross_few_buffers(segment_size, exclusive):
    sizes = [0, 1, segment_size - 5, segment_size - 4, segment_size - 3, 3 * segment_size, 10_000_000, 2]
    with (
        environment(24, segment_size=segment_size, buffers_per_channel=exclusive) as there,
        environment(24, segment_size=segment_size, buffers_per_channel=exclusive) as here,
    ):
        name = fb.network.ResultPartitionID.random()
        gate = here.create_gate([fb.network.RemoteChannel(*there.address, name, 0)])
        records = [bytes([index]) * size for index, size in enumerate(sizes)]
        _, taken = run((write, there.create_partition(name, 1), records, BYTES), (read, gate, BYTES))
        assert taken == records


def test_columns_travel_as_columns():
    values = np.arange(200_000, dtype=np.int64)

    def write_column(partition):
        with partition, fb.RecordWriter(partition, LONG) as writer:
            writer.emit_batch(values)

    def read_column(gate):
        with gate, fb.RecordReader(gate, LONG) as reader:
            batches = iter(lambda: reader.read_batch(10_000).tolist(), [])
            return list(itertools.chain(*batches))

    with environment() as there, environment() as here:
        name = fb.network.ResultPartitionID.random()
        gate = here.create_gate([fb.network.RemoteChannel(*there.address, name, 0)])
        _, taken = run((write_column, there.create_partition(name, 1)), (read_column, gate))
        assert taken == values.tolist()


def test_two_environments_write_and_read_both_ways_at_once_over_one_connection_each():
    with environment() as one, environment() as other:
        ways = []
        for here, there in ((one, other), (other, one)):
            names = [fb.network.ResultPartitionID.random() for _ in range(3)]
            gate = here.create_gate([fb.network.RemoteChannel(*there.address, name, 0) for name in names])
            partitions = [there.create_partition(name, 1) for name in names]
            ways.append((gate, partitions))
        tasks = [(read_each, gate) for gate, _ in ways]
        tasks += [(write, partition, range(20_000)) for _, partitions in ways for partition in partitions]
        results = run(*tasks)
        assert results[0] == results[1] == [list(range(20_000))] * 3
        for env in (one, other):
            totals = env.metrics().totals
            assert totals["connectionsIn"] <= 1 and totals["connectionsOut"] <= 1


def test_many_jobs_at_once_do_not_mix():
    def job(here, there, number):
        name = fb.network.ResultPartitionID.random()
        gate = here.create_gate([fb.network.RemoteChannel(*there.address, name, index) for index in range(2)])
        partition = there.create_partition(name, 2)
        producer = Task(write, partition, range(number, 30_000, 8))
        producer.start()
        taken = sorted(read(gate))
        producer.end(HANG_S)
        return taken == list(range(number, 30_000, 8))

    with environment(400) as here, environment(400) as there:
        assert run(*[(job, here, there, number) for number in range(8)]) == [True] * 8


def test_events_come_in_their_place_among_records():
    """A channel stands still behind a barrier until the reader says that it may go on."""

    def produce(partition):
        with partition, fb.RecordWriter(partition, INT) as writer:
            for checkpoint in range(3):
                writer.emit_all(range(checkpoint * 100, checkpoint * 100 + 100))
                partition.broadcast_event(CheckpointBarrier(checkpoint, 1000))

    with environment() as there, environment() as here:
        name = fb.network.ResultPartitionID.random()
        gate = here.create_gate([fb.network.RemoteChannel(*there.address, name, 0)])
        producer = Task(produce, there.create_partition(name, 1))
        producer.start()
        taken, barriers = [], []
        with gate, fb.RecordReader(gate, INT, events=True) as reader:
            for item in reader:
                if isinstance(item, CheckpointBarrier):
                    barriers.append((item.checkpoint_id, len(taken)))
                    gate.resume_consumption(reader.channel_index)
                elif isinstance(item, int):
                    taken.append(item)
                elif isinstance(item, EndOfData):
                    gate.acknowledge_all_records_processed(reader.channel_index)
        assert producer.end(HANG_S).error is None
        assert taken == list(range(300))
        assert barriers == [(0, 100), (1, 200), (2, 300)]


# ---- back-pressure -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_local", [False, True])
def test_a_reader_that_stops_stops_its_writer_and_memory_stays_within_the_buffers(is_local):
    given = []
    with environment(40) as there, environment(40) as other:
        here = there if is_local else other
        name = fb.network.ResultPartitionID.random()
        channel = fb.network.LocalChannel(name, 0) if is_local else fb.network.RemoteChannel(*there.address, name, 0)
        gate = here.create_gate([channel])
        producer = Task(write, there.create_partition(name, 1), (given.append(i) or i for i in range(1_000_000)))
        producer.start()
        with gate, fb.RecordReader(gate, LONG) as reader:
            assert next(reader) == 0
            seen = -1
            while seen != len(given):
                seen = len(given)
                time.sleep(0.3)
            assert seen < 80 * 4096 / 12  # no more than all buffers of both sides hold
            assert sum(1 for _ in reader) == 999_999
        producer.end(HANG_S)
        assert producer.error is None


def test_a_slow_channel_stops_no_other_on_the_same_connection():
    with environment(96) as there, environment(96) as here:
        names = [fb.network.ResultPartitionID.random() for _ in range(2)]
        slow, fast = (here.create_gate([fb.network.RemoteChannel(*there.address, name, 0)]) for name in names)
        producers = [Task(write, there.create_partition(name, 1), range(100_000)) for name in names]
        for producer in producers:
            producer.start()
        with slow, fb.RecordReader(slow, LONG) as reader:
            assert next(reader) == 0
            assert read(fast) == list(range(100_000))
            assert producers[0].is_alive()
            assert list(reader) == list(range(1, 100_000))
        for producer in producers:
            assert producer.end(HANG_S).error is None


# ---- who comes first, and who does not come ------------------------------------------------------------------------


@pytest.mark.parametrize("is_local", [False, True])
def test_a_partition_that_comes_later_is_waited_for(is_local):
    with environment() as there, environment() as other:
        here = there if is_local else other
        name = fb.network.ResultPartitionID.random()
        gate = here.create_gate(
            [fb.network.LocalChannel(name, 0) if is_local else fb.network.RemoteChannel(*there.address, name, 0)]
        )
        reader = Task(read, gate)
        reader.start()
        time.sleep(0.2)
        assert reader.is_alive()
        write(there.create_partition(name, 1), range(1000))
        assert reader.end(HANG_S).result == list(range(1000))


@pytest.mark.parametrize("is_local", [False, True])
def test_a_partition_that_never_comes_is_named(is_local):
    patience = {"partition_request_timeout_ms": 20, "request_backoff_initial_ms": 1, "request_backoff_max_ms": 2}
    with environment(**patience) as there, environment(**patience) as other:
        here = there if is_local else other
        name = fb.network.ResultPartitionID.random()
        gate = here.create_gate(
            [fb.network.LocalChannel(name, 0) if is_local else fb.network.RemoteChannel(*there.address, name, 0)]
        )
        with pytest.raises(fb.errors.PartitionNotFoundError, match=name.hex()):
            read(gate)


def test_a_subpartition_that_the_partition_does_not_have_is_an_error():
    with environment() as there, environment() as here:
        name = fb.network.ResultPartitionID.random()
        partition = there.create_partition(name, 2)
        gate = here.create_gate([fb.network.RemoteChannel(*there.address, name, 2)])
        with pytest.raises(fb.errors.CancelTaskError, match="subpartition 2 of .*: there is no such subpartition"):
            read(gate)
        partition.close()


@pytest.mark.parametrize("is_local", [True, False])
def test_the_second_reader_of_a_subpartition_is_refused_and_the_first_goes_on(is_local):
    with environment() as there, environment() as here:
        name = fb.network.ResultPartitionID.random()
        producer = Task(write, there.create_partition(name, 1), range(200_000))
        producer.start()
        channel = fb.network.LocalChannel(name, 0) if is_local else fb.network.RemoteChannel(*there.address, name, 0)
        first, second = ((there if is_local else here).create_gate([channel]) for _ in range(2))
        with first, fb.RecordReader(first, LONG) as reader:
            assert next(reader) == 0
            with pytest.raises(
                RuntimeError if is_local else fb.errors.CancelTaskError,
                match="is read already, and can be read only once",
            ):
                read(second)
            assert list(reader) == list(range(1, 200_000))
        assert producer.end(HANG_S).error is None


def test_who_fails_tells_its_readers_why():
    with environment() as there, environment() as here:
        name = fb.network.ResultPartitionID.random()
        partition = there.create_partition(name, 1)
        gate = here.create_gate([fb.network.RemoteChannel(*there.address, name, 0)])
        reader = Task(read, gate)
        reader.start()
        with pytest.raises(KeyError), partition, fb.RecordWriter(partition, LONG) as writer:
            writer.emit(1)
            raise KeyError("carrier")
        error = reader.end(HANG_S).error
        assert isinstance(error, fb.errors.CancelTaskError) and "KeyError: 'carrier'" in str(error)


# ---- the end -------------------------------------------------------------------------------------------------------


def test_leaving_the_block_waits_for_readers_of_what_was_finished():
    def produce(there, name):
        with there:
            write(there.create_partition(name, 1), range(5000))
        return True

    with environment() as here:
        there, name = environment(), fb.network.ResultPartitionID.random()
        gate = here.create_gate([fb.network.RemoteChannel(*there.address, name, 0)])
        producer = Task(produce, there, name)
        producer.start()
        time.sleep(0.2)
        assert producer.is_alive()
        assert read(gate) == list(range(5000))
        assert producer.end(HANG_S).result


def test_leaving_the_block_by_an_error_waits_for_nobody_and_fails_what_is_read():
    with environment() as here:
        there, name = environment(), fb.network.ResultPartitionID.random()
        gate = here.create_gate([fb.network.RemoteChannel(*there.address, name, 0)])
        with pytest.raises(KeyError), there:
            write(there.create_partition(name, 1), range(5000))
            gate.request_partitions()
            raise KeyError
        assert there.is_closed
        with pytest.raises((fb.errors.RemoteTransportError, fb.errors.CancelTaskError)):
            read(gate)


def test_waiting_until_all_is_consumed_ends_with_the_last_reader_or_the_time():
    with environment() as there, environment() as here:
        name = fb.network.ResultPartitionID.random()
        write(there.create_partition(name, 2), range(100))
        gates = [here.create_gate([fb.network.RemoteChannel(*there.address, name, index)]) for index in range(2)]
        assert not there.wait_until_consumed(10)
        assert len(read(gates[0])) == 50
        assert not there.wait_until_consumed(50)
        assert len(read(gates[1])) == 50
        assert there.wait_until_consumed(60_000)


def test_closing_closes_gates_and_partitions_and_may_be_said_twice():
    here, there = environment(), environment()
    name = fb.network.ResultPartitionID.random()
    partition = there.create_partition(name, 1)
    gate = here.create_gate([fb.network.RemoteChannel(*there.address, name, 0)])
    gate.request_partitions()
    for env in (here, there, here, there):
        env.close()
        assert env.is_closed and repr(env) == "<NetworkEnvironment closed>"
    assert gate.is_closed
    with pytest.raises(fb.errors.CancelTaskError, match="its network environment was closed"):
        write(partition, [1])
    for use in (
        lambda: here.create_gate([fb.network.LocalChannel(name, 0)]),
        lambda: here.create_partition(name, 1),
        here.__enter__,
    ):
        with pytest.raises(RuntimeError, match="is closed"):
            use()


def test_too_few_buffers_are_an_error_and_take_none():
    with environment(8) as env:
        name = fb.network.ResultPartitionID.random()
        with pytest.raises(fb.errors.InsufficientBuffersError):
            env.create_partition(name, 8)
        with pytest.raises(fb.errors.InsufficientBuffersError):
            env.create_gate([fb.network.RemoteChannel("127.0.0.1", 1, name, index) for index in range(8)])
        with pytest.raises(ValueError, match="at least one channel"):
            env.create_gate([])
        assert env.pool.available_segment_count == 8
        env.create_partition(name, 1).close()  # the name was not taken by the one that failed


@pytest.mark.parametrize("is_local", [False, True])
def test_partitions_one_after_the_other_need_the_buffers_of_one(is_local):
    with environment(24) as there, environment(24) as here:
        for _ in range(30):
            name = fb.network.ResultPartitionID.random()
            write(there.create_partition(name, 2), range(100))
            to = (
                (lambda index, name=name: fb.network.LocalChannel(name, index))
                if is_local
                else (lambda index, name=name: fb.network.RemoteChannel(*there.address, name, index))
            )
            gate = (there if is_local else here).create_gate([to(0), to(1)])
            assert sorted(read(gate)) == list(range(100))
            assert there.wait_until_consumed(HANG_S * 1000)
            assert len(there.metrics().partitions) == 1


def test_partitions_that_failed_are_forgotten():
    with environment(24) as env:
        for _ in range(30):
            with pytest.raises(LookupError), env.create_partition(fb.network.ResultPartitionID.random(), 2):
                raise LookupError("mine")
            assert len(env.metrics().partitions) == 1


def test_a_partition_that_is_still_read_is_not_forgotten():
    with environment(64) as env:
        names = [fb.network.ResultPartitionID.random() for _ in range(3)]
        for name in names:
            write(env.create_partition(name, 1), range(1000))
        assert read(env.create_gate([fb.network.LocalChannel(names[1], 0)])) == list(range(1000))
        env.create_partition(fb.network.ResultPartitionID.random(), 1).release()
        assert [partition.partition_id for partition in env.metrics().partitions][:2] == [
            names[0].hex(),
            names[2].hex(),
        ]
        for name in (names[2], names[0]):
            assert read(env.create_gate([fb.network.LocalChannel(name, 0)])) == list(range(1000))


def test_a_gate_that_nobody_holds_is_closed():
    with Pair(2) as pair:
        name = fb.network.ResultPartitionID.random()
        partition = pair.there.create_partition(name, 1)
        producer = Task(pair.write, partition, records_of(50_000))
        producer.start()
        gate = pair.here.create_gate([fb.network.RemoteChannel(*pair.there.address, name, 0)])
        reader = fb.RecordReader(gate, TYPE)
        assert next(reader) == records_of(1)[0]
        del gate, reader
        gc.collect()
        assert producer.end(HANG_S).error is None  # a reader that takes leave


# ---- processes -----------------------------------------------------------------------------------------------------

PRODUCER = """
import sys
import flinkbuf as fb

secret = bytes.fromhex(sys.argv[1])
with fb.NetworkEnvironment(fb.NetworkConfig(auth=secret), num_segments=32) as env:
    name = fb.network.ResultPartitionID.random()
    partition = env.create_partition(name, 2)
    print(*env.address, name.hex(), flush=True)
    with fb.RecordWriter(partition, fb.Types.STRING(), "rebalance", seed=0) as writer:
        writer.emit_all(f"record {number}" for number in range(100_000))
    partition.close()
print("done", flush=True)
"""


def test_two_processes_exchange_a_partition_under_a_secret():
    secret = os.urandom(32)
    producer = subprocess.Popen([sys.executable, "-c", PRODUCER, secret.hex()], stdout=subprocess.PIPE, text=True)
    try:
        host, port, name = producer.stdout.readline().split()
        with fb.NetworkEnvironment(fb.NetworkConfig(auth=secret), num_segments=32) as env:
            gate = env.create_gate([fb.network.RemoteChannel(host, int(port), name, index) for index in range(2)])
            even, odd = sorted(read_each(gate, STRING))
        assert sorted([even[0], odd[0]]) == ["record 0", "record 1"]
        assert sorted(even + odd) == sorted(f"record {number}" for number in range(100_000))
        assert producer.stdout.read() == "done\n"
        assert producer.wait(HANG_S) == 0
    finally:
        producer.kill()
        producer.communicate()


def in_child(function):
    """Run the function in a fork; True if it returned without an error."""
    child = os.fork()
    if child == 0:
        try:
            function()
            os._exit(0)
        except BaseException:
            os._exit(1)
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status == 0
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_refused_and_leaves_its_parent_alone():
    with environment() as there, environment() as here:
        name = fb.network.ResultPartitionID.random()
        partition = there.create_partition(name, 1)
        gate = here.create_gate([fb.network.RemoteChannel(*there.address, name, 0)])
        gate.request_partitions()

        def use_and_close():
            for use in (lambda: there.create_partition(fb.network.ResultPartitionID.random(), 1), there.metrics):
                with pytest.raises(RuntimeError, match=f"belongs to process {os.getppid()}"):
                    use()
            here.close()
            there.close()

        assert in_child(use_and_close)
        run((write, partition, range(10_000)), (read, gate))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_may_have_an_environment_of_its_own():
    def exchange():
        with environment() as there, environment() as here:
            name = fb.network.ResultPartitionID.random()
            gate = here.create_gate([fb.network.RemoteChannel(*there.address, name, 0)])
            _, taken = run((write, there.create_partition(name, 1), range(10_000)), (read, gate))
            assert taken == list(range(10_000))

    with environment():
        exchange()
        assert in_child(exchange)
        exchange()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_what_is_closed_is_closed_for_others_though_a_forked_child_lives_on():
    wakes, sleeps = os.pipe()
    with environment() as env, socket.create_connection(env.address) as connection:
        while not env.metrics().totals["connectionsIn"]:
            time.sleep(0.01)
        child = os.fork()
        if child == 0:
            os.close(sleeps)
            os.read(wakes, 1)  # until the parent closes its end
            os._exit(0)
        try:
            env.close()
            connection.settimeout(HANG_S)
            assert connection.recv(1) == b""
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(env.address)
        finally:
            os.close(sleeps)
            os.waitpid(child, 0)
            os.close(wakes)


def test_threads_that_close_and_look_at_once_disturb_nobody():
    for _ in range(10):
        here, there = environment(), environment()
        name = fb.network.ResultPartitionID.random()
        gate = here.create_gate([fb.network.RemoteChannel(*there.address, name, 0)])
        there.create_partition(name, 1)
        gate.request_partitions()
        stop = threading.Event()
        lookers = [Task(look, env, stop) for env in (here, there)]
        for looker in lookers:
            looker.start()
        here.close()
        there.close()
        stop.set()
        for looker in lookers:
            assert looker.end(HANG_S).error is None


def look(env, stop):
    while not stop.is_set():
        with contextlib.suppress(RuntimeError):  # it is being closed
            str(env.metrics())


def test_partitions_come_while_the_others_are_looked_through():
    with environment(2000) as env:

        def create():
            env.create_partition(fb.network.ResultPartitionID.random(), 1, owner=object())

        for _ in range(10):
            create()
        for look in (env.metrics, env._unread_count, env._forget_consumed):
            with collector_runs(create):
                look()
