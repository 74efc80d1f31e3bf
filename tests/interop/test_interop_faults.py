"""What goes wrong on one side is told on the other, soon, with its cause, and disturbs nobody else."""

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from flink_peer import FlinkEnvironment, FlinkError, remote_channels
from flink_records import END, TYPES, expected, fail, flush, records, sleep
from our_tasks import read, write

import flinkbuf as fb

SOON_S = 5
IMPATIENT = {"request_backoff_initial_ms": 50, "request_backoff_max_ms": 200, "partition_request_timeout_ms": 200}


def soon(seconds, since):
    assert time.monotonic() - since < seconds, "it took too long"


# ---- partitions that are not there ------------------------------------------------------------------


@pytest.mark.parametrize("knobs", [{}, IMPATIENT], ids=["the server waits", "the client asks again"])
def test_flink_registers_later_than_we_ask(open_ours, open_flink, knobs):
    ours, flink = open_ours(fb.NetworkConfig(**knobs)), open_flink(fb.NetworkConfig(**knobs))
    steps, partition_id = [records(100), *END], fb.network.ResultPartitionID.random()
    with ours.create_gate(remote_channels(flink.address, partition_id, 2)) as gate:
        gate.request_partitions()
        time.sleep(0.4)
        flink.create_partition(partition_id, 2)
        flink.write(partition_id, "long", steps)
        assert read(gate, "long") == expected("long", steps, 2)


@pytest.mark.parametrize("knobs", [{}, IMPATIENT], ids=["the server waits", "the client asks again"])
def test_we_register_later_than_flink_asks(open_ours, open_flink, knobs):
    ours, flink = open_ours(fb.NetworkConfig(**knobs)), open_flink(fb.NetworkConfig(**knobs))
    steps, partition_id = [records(100), *END], fb.network.ResultPartitionID.random()
    reading = flink.read_all("long", ours.address, partition_id, 2)
    time.sleep(0.4)
    partition = ours.create_partition(partition_id, 2)
    write(partition, "long", steps)
    assert reading.result(60) == expected("long", steps, 2)


def test_partition_that_never_comes_to_flink(open_ours, open_flink):
    ours, flink = open_ours(fb.NetworkConfig(**IMPATIENT)), open_flink(fb.NetworkConfig(**IMPATIENT))
    partition_id, since = fb.network.ResultPartitionID.random(), time.monotonic()
    with ours.create_gate(remote_channels(flink.address, partition_id, 1)) as gate:
        with pytest.raises(
            fb.errors.PartitionNotFoundError, match=f"{partition_id.hex()[:8]}.* not found at 127.0.0.1:"
        ):
            read(gate, "long")
    soon(2 * SOON_S, since)


def test_partition_that_never_comes_to_us(open_ours, open_flink):
    ours, flink = open_ours(fb.NetworkConfig(**IMPATIENT)), open_flink(fb.NetworkConfig(**IMPATIENT))
    since = time.monotonic()
    with pytest.raises(FlinkError, match="PartitionNotFoundException"):
        flink.read_all("long", ours.address, fb.network.ResultPartitionID.random(), 1).result(60)
    soon(2 * SOON_S, since)


def test_subpartition_that_flink_does_not_have(open_ours, open_flink):
    ours, flink = open_ours(), open_flink()
    partition_id = fb.network.ResultPartitionID.random()
    flink.create_partition(partition_id, 2)
    with ours.create_gate([fb.network.RemoteChannel(*flink.address, partition_id, 2)]) as gate:
        with pytest.raises((fb.errors.RemoteTransportError, fb.errors.CancelTaskError)):
            read(gate, "long")


def test_subpartition_that_we_do_not_have(open_ours, open_flink):
    """Only the channel fails: another of the same connection goes on."""
    ours, flink = open_ours(), open_flink()
    steps, partition_id = [records(10), *END], fb.network.ResultPartitionID.random()
    partition = ours.create_partition(partition_id, 1)
    other = flink.read_all("long", ours.address, partition_id, 1)
    with pytest.raises(FlinkError, match="subpartition 7|index 7"):
        flink.read("long", [(7, [(ours.address, partition_id)])]).result(60)
    write(partition, "long", steps)
    assert other.result(60) == expected("long", steps, 1)


def test_subpartition_of_ours_that_is_read_already(open_ours, open_flink):
    ours, flink = open_ours(), open_flink()
    partition_id = fb.network.ResultPartitionID.random()
    partition = ours.create_partition(partition_id, 1)
    write(partition, "long", [records(1), flush()])
    first = flink.read_all("long", ours.address, partition_id, 1)
    time.sleep(0.3)
    with pytest.raises(FlinkError, match="(?i)already|is being read|has a reader"):
        flink.read_all("long", ours.address, partition_id, 1).result(60)
    partition.finish()
    assert first.result(60)[0]["records"] == 1


# ---- readers that stop ------------------------------------------------------------------------------


def test_our_reader_stops_early(open_ours, open_flink):
    """The next partition passes over the same connection. Flink's writer waits until somebody cancels it, as it does
    for a reader of Flink: here when its network is closed."""
    ours, flink = open_ours(), open_flink()
    first, second = fb.network.ResultPartitionID.random(), fb.network.ResultPartitionID.random()
    flink.create_partition(first, 1)
    flink.write(first, "bytes", [records(10_000, 10_000), *END])
    with ours.create_gate(remote_channels(flink.address, first, 1)) as gate:
        assert read(gate, "bytes", limit=1000)[0]["records"] == 1000
    steps = [records(1000, 100), *END]
    flink.create_partition(second, 1)
    flink.write(second, "bytes", steps)
    with ours.create_gate(remote_channels(flink.address, second, 1)) as gate:
        assert read(gate, "bytes") == expected("bytes", steps, 1)


def test_flinks_reader_stops_early(open_ours, open_flink):
    """Our writer gets to its end; what it writes for nobody is dropped."""
    ours, flink = open_ours(), open_flink()
    first, second = fb.network.ResultPartitionID.random(), fb.network.ResultPartitionID.random()
    partition = ours.create_partition(first, 1)
    reading = flink.read_all("bytes", ours.address, first, 1, limit=1000)
    write(partition, "bytes", [records(10_000, 10_000), *END])
    assert reading.result(60)[0]["records"] == 1000
    steps = [records(1000, 100), *END]
    partition = ours.create_partition(second, 1)
    reading = flink.read_all("bytes", ours.address, second, 1)
    write(partition, "bytes", steps)
    assert reading.result(60) == expected("bytes", steps, 1)


def test_one_of_our_readers_stops_and_the_others_go_on(open_ours, open_flink):
    ours, flink = open_ours(), open_flink()
    ids = [fb.network.ResultPartitionID.random() for _ in range(4)]
    steps = [records(5000, 3000), *END]
    for partition_id in ids:
        flink.create_partition(partition_id, 1)
        flink.write(partition_id, "bytes", steps)
    with ours.create_gate(
        [fb.network.RemoteChannel(*flink.address, partition_id, 0) for partition_id in ids[1:]]
    ) as gate:
        with ours.create_gate([fb.network.RemoteChannel(*flink.address, ids[0], 0)]) as other:
            read(other, "bytes", limit=10)
        assert read(gate, "bytes") == expected("bytes", steps, 1) * 3


def test_one_of_flinks_readers_stops_and_the_others_go_on(open_ours, open_flink):
    ours, flink = open_ours(), open_flink()
    ids = [fb.network.ResultPartitionID.random() for _ in range(4)]
    steps = [records(5000, 3000), *END]
    partitions = [ours.create_partition(partition_id, 1) for partition_id in ids]
    stops = flink.read_all("bytes", ours.address, ids[0], 1, limit=10)
    reading = flink.read("bytes", [(0, [(ours.address, partition_id) for partition_id in ids[1:]])])
    threads = [threading.Thread(target=write, args=(partition, "bytes", steps)) for partition in partitions]
    for thread in threads:
        thread.start()
    assert stops.result(60)[0]["records"] == 10
    assert reading.result(60) == expected("bytes", steps, 1) * 3
    for thread in threads:
        thread.join(60)


# ---- writers that fail, processes that go ------------------------------------------------------------


def test_our_writer_fails(open_ours, open_flink):
    ours, flink = open_ours(), open_flink()
    bad, good = fb.network.ResultPartitionID.random(), fb.network.ResultPartitionID.random()
    steps = [records(1000, 100), *END]
    partition, other = ours.create_partition(bad, 1), ours.create_partition(good, 1)
    failing = flink.read_all("bytes", ours.address, bad, 1)
    reading = flink.read_all("bytes", ours.address, good, 1)
    write(partition, "bytes", [records(10, 10), flush(), sleep(200), fail("the disk is made of cheese")])
    with pytest.raises(FlinkError, match="RuntimeError: the disk is made of cheese"):
        failing.result(60)
    write(other, "bytes", steps)
    assert reading.result(60) == expected("bytes", steps, 1)


def test_flinks_process_is_killed(open_ours, start_peer):
    ours, peer = open_ours(), start_peer()
    flink, partition_id = FlinkEnvironment(peer, fb.NetworkConfig()), fb.network.ResultPartitionID.random()
    flink.create_partition(partition_id, 1)
    flink.write(partition_id, "long", [records(10), flush(), sleep(60_000)])
    with ours.create_gate(remote_channels(flink.address, partition_id, 1)) as gate:
        reader = fb.RecordReader(gate, TYPES["long"])
        for _ in range(10):
            next(reader)
        since = time.monotonic()
        peer.kill()
        with pytest.raises(fb.errors.RemoteTransportError, match=re.escape("{}:{}".format(*flink.address))):
            next(reader)
        soon(SOON_S, since)


def test_our_process_is_killed(open_flink):
    flink, partition_id = open_flink(), fb.network.ResultPartitionID.random()
    command = [sys.executable, str(Path(__file__).with_name("our_process.py")), partition_id.hex()]
    env = {**os.environ, "PYTHONPATH": str(Path(fb.__file__).parents[1])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        address = ("127.0.0.1", int(process.stdout.readline()))
        assert flink.read_all("long", address, partition_id, 1, limit=1).exception(60) is None
        reading = flink.read_all(
            "long", address, fb.network.ResultPartitionID.random(), 1
        )  # waits for one that never comes
        time.sleep(0.3)
        since = time.monotonic()
        process.kill()
        with pytest.raises(FlinkError, match="RemoteTransportException: Connection unexpectedly closed"):
            reading.result(60)
        soon(SOON_S, since)


def test_we_close_while_flink_reads(open_ours, open_flink):
    ours, flink = fb.NetworkEnvironment(), open_flink()
    partition_id = fb.network.ResultPartitionID.random()
    partition = ours.create_partition(partition_id, 1)
    reading = flink.read_all("long", ours.address, partition_id, 1)
    write(partition, "long", [records(10), flush(), sleep(300)])
    since = time.monotonic()
    ours.close()
    with pytest.raises(FlinkError):
        reading.result(60)
    soon(SOON_S, since)


def test_flink_closes_while_we_read(open_ours, peer):
    ours, flink = open_ours(), FlinkEnvironment(peer, fb.NetworkConfig())
    partition_id = fb.network.ResultPartitionID.random()
    flink.create_partition(partition_id, 1)
    flink.write(partition_id, "long", [records(10), flush(), sleep(60_000)])
    with ours.create_gate(remote_channels(flink.address, partition_id, 1)) as gate:
        reader = fb.RecordReader(gate, TYPES["long"])
        for _ in range(10):
            next(reader)
        since = time.monotonic()
        flink.close()
        with pytest.raises((fb.errors.RemoteTransportError, fb.errors.CancelTaskError)):
            next(reader)
        soon(SOON_S, since)


def test_nobody_listens(open_ours, open_flink):
    ours, flink = open_ours(), open_flink()
    gone = fb.NetworkEnvironment()
    address = gone.address
    gone.close()
    with pytest.raises(FlinkError, match="RemoteTransportException"):
        flink.read_all("long", address, fb.network.ResultPartitionID.random(), 1).result(60)
    with ours.create_gate(remote_channels(address, fb.network.ResultPartitionID.random(), 1)) as gate:
        with pytest.raises(fb.errors.RemoteTransportError, match="refused"):
            read(gate, "long")


# ---- a secret on one side only ------------------------------------------------------------------------


def test_flink_does_not_get_past_a_secret(open_ours, open_flink):
    ours, flink = open_ours(fb.NetworkConfig(auth=bytes(range(32)))), open_flink()
    partition_id, since = fb.network.ResultPartitionID.random(), time.monotonic()
    partition = ours.create_partition(partition_id, 1)
    write(partition, "long", [records(10), *END])
    with pytest.raises(FlinkError, match="RemoteTransportException|LocalTransportException"):
        flink.read_all("long", ours.address, partition_id, 1).result(60)
    soon(2 * SOON_S, since)


def test_we_do_not_give_our_secret_to_flink(open_ours, open_flink):
    ours, flink = open_ours(fb.NetworkConfig(auth=bytes(range(32)))), open_flink()
    partition_id, since = fb.network.ResultPartitionID.random(), time.monotonic()
    flink.create_partition(partition_id, 1)
    with ours.create_gate(remote_channels(flink.address, partition_id, 1)) as gate:
        with pytest.raises(fb.errors.RemoteTransportError):
            read(gate, "long")
    soon(2 * SOON_S, since)
