"""Figures of a network environment: each is made to be what it says, and read."""

import contextlib
import gc
import os
import pickle
import threading
import time

import pytest
from support.waiting import wait_until

import flinkbuf as fb
from flinkbuf._core.flow.record_exchange import RecordExchange
from flinkbuf.network import metrics as network_metrics


@contextlib.contextmanager
def environment(**knobs):
    with fb.NetworkEnvironment(fb.NetworkConfig(segment_size=4096, **knobs), num_segments=64) as env:
        yield env


@pytest.fixture
def linked():
    """A partition in one environment and a gate in another that reads its two subpartitions."""
    with environment() as here, environment() as there:
        partition_id = fb.network.ResultPartitionID.random()
        partition = there.create_partition(partition_id, 2)
        with here.create_gate(
            [fb.network.RemoteChannel(*there.address, partition_id, index) for index in range(2)]
        ) as gate:
            yield here, gate, there, partition
        partition.close()


def test_an_environment_without_anything_shows_its_memory():
    with environment() as env:
        metrics = env.metrics()
        assert (metrics.host, metrics.port) == env.address
        assert metrics.partitions == metrics.gates == ()
        assert metrics.totals["totalMemorySegments"] == metrics.totals["availableMemorySegments"] == 64
        for name in ("usedMemorySegments", "numBytesIn", "numBytesOut", "numBytesInPerSecond"):
            assert metrics.totals[name] == 0


def test_records_bytes_and_buffers_are_counted_on_both_sides(linked):
    here, gate, there, partition = linked
    with fb.RecordWriter(partition, fb.Types.INT(), "rebalance", seed=1) as writer:
        writer.emit_all(range(2000))
        writer.broadcast(7)
    assert len(list(fb.RecordReader(gate, fb.Types.INT()))) == 2002
    (out,) = there.metrics().partitions
    (into,) = here.metrics().gates
    for sent, received in zip(out.subpartitions, into.channels, strict=True):
        assert sent.records == received.records == 1001
        assert sent.buffers == received.buffers == 5  # 8,000 bytes in two, the broadcast one, the events at the end
        assert sent.bytes == received.bytes == 8 * 1001 + 5 + 4
        assert sent.queued == received.queued == sent.oldest_ms == received.oldest_ms == 0
        assert received.is_finished and received.credit is None
    assert out.state == "finished" and into.state == "finished"
    sent, received = there.metrics().totals, here.metrics().totals
    assert sent["numBytesOut"] == received["numBytesIn"] == 2 * (8 * 1001 + 9)
    assert sent["numBuffersOut"] == received["numBuffersIn"] == 10
    assert sent["connectionsIn"] == received["connectionsOut"] == 1
    assert sent["numBytesOutPerSecond"] > 0 and received["numBytesInPerSecond"] > 0


def test_what_waits_is_shown_with_its_age_and_its_credit(linked):
    here, gate, there, partition = linked
    gate.request_partitions()
    for _ in range(8):
        partition.emit(bytes(4096), 0)
    partition.flush_all()
    # Two exclusive buffers and eight floating ones take all of it in.
    wait_until(lambda: here.metrics().gates[0].channels[0].queued == 8)
    time.sleep(0.05)
    (into,) = here.metrics().gates
    waiting, empty = into.channels
    assert waiting.oldest_ms >= 50 and waiting.buffers == 0 and waiting.backlog == 0 and waiting.credit >= 0
    assert empty.queued == empty.oldest_ms == 0 and empty.credit == 2
    assert into.pool.used > 0 and into.pool.size >= into.pool.requested
    (out,) = there.metrics().partitions
    assert out.subpartitions[0].credit is not None and out.subpartitions[1].credit == 2
    assert here.metrics().totals["usedMemorySegments"] >= 8
    gate.close()


def test_back_pressure_and_idleness_are_measured(linked):
    here, gate, there, partition = linked
    gate.request_partitions()
    assert gate.poll(60) is None
    idle_ms = here.metrics().gates[0].idle_ms
    assert idle_ms >= 55
    writer = threading.Thread(target=lambda: [partition.emit(bytes(4096), 0) for _ in range(100)])
    writer.start()
    wait_until(lambda: there.metrics().partitions[0].hard_back_pressured_ms > 30)
    for _ in range(100):
        gate.poll(20_000)[1].release()
        partition.flush_all()
    writer.join()
    (out,) = there.metrics().partitions
    assert out.hard_back_pressured_ms > 30 and out.soft_back_pressured_ms == 0
    assert here.metrics().gates[0].idle_ms < idle_ms + 20_000


def test_a_task_that_writes_and_reads_is_back_pressured_softly_and_idle():
    with environment() as env:
        mine, others = fb.network.ResultPartitionID.random(), fb.network.ResultPartitionID.random()
        out, into = env.create_partition(mine, 1), env.create_partition(others, 1)
        gate = env.create_gate([fb.network.LocalChannel(others, 0)])
        reader = fb.RecordReader(gate, fb.Types.INT())
        exchange = RecordExchange(fb.RecordWriter(out, fb.Types.INT(), "global"), reader, range(20_000))

        def read_late_and_write_later():
            time.sleep(0.1)
            with env.create_gate([fb.network.LocalChannel(mine, 0)]) as other:
                assert len(list(fb.RecordReader(other, fb.Types.INT()))) == 20_000
            time.sleep(0.1)
            with fb.RecordWriter(into, fb.Types.INT()) as writer:
                writer.emit(1)

        thread = threading.Thread(target=read_late_and_write_later)
        thread.start()
        assert list(exchange) == [1]
        thread.join()
        partition = env.metrics().partitions[0]
        assert partition.soft_back_pressured_ms >= 50 and partition.hard_back_pressured_ms == 0
        assert env.metrics().gates[0].idle_ms >= 50


def test_a_local_channel_has_no_credit_and_shows_what_its_partition_holds():
    with environment() as env:
        partition_id = fb.network.ResultPartitionID.random()
        partition = env.create_partition(partition_id, 1)
        with env.create_gate([fb.network.LocalChannel(partition_id, 0)]) as gate:
            gate.request_partitions()
            partition.emit(b"data", 0)
            partition.flush_all()
            gate.poll(20_000)[1].release()
            (channel,) = env.metrics().gates[0].channels
            assert channel.credit is None and channel.bytes == 4 and channel.queued == 1
            assert env.metrics().gates[0].pool is None
            assert env.metrics().partitions[0].subpartitions[0].credit is None
        partition.close()


@pytest.mark.parametrize("batched", [False, True])
def test_columns_are_counted_like_records(linked, batched):
    here, gate, there, partition = linked
    partitioner = "rebalance" if batched else fb.by_key(lambda value: value, key_type="bigint")
    with fb.RecordWriter(partition, fb.Types.LONG(), partitioner) as writer:
        writer.emit_batch(range(3000)) if batched else writer.emit_all(range(3000))
    reader = fb.RecordReader(gate, fb.Types.LONG())
    assert sum(len(reader.read_batch(500)) for _ in range(7)) == 3000
    out, into = there.metrics().partitions[0].subpartitions, here.metrics().gates[0].channels
    assert [each.records for each in out] == [each.records for each in into]
    assert sum(each.records for each in into) == 3000


def test_a_reader_goes_on_where_another_stopped(linked):
    here, gate, _, partition = linked
    with fb.RecordWriter(partition, fb.Types.INT(), "global") as writer:
        writer.emit_all(range(10))
        writer.flush()
        with fb.RecordReader(gate, fb.Types.INT()) as reader:
            assert [next(reader) for _ in range(10)] == list(range(10))
        assert here.metrics().gates[0].channels[0].records == 10
        writer.emit_all(range(5))
    assert list(fb.RecordReader(gate, fb.Types.INT())) == list(range(5))
    assert here.metrics().gates[0].channels[0].records == 15


def test_gates_of_a_union_show_their_own_channels():
    with environment() as env:
        ids = [fb.network.ResultPartitionID.random() for _ in range(2)]
        for number, partition_id in enumerate(ids):
            with fb.RecordWriter(env.create_partition(partition_id, 1), fb.Types.INT()) as writer:
                writer.emit_all(range(10 * (number + 1)))
        gates = [env.create_gate([fb.network.LocalChannel(partition_id, 0)]) for partition_id in ids]
        with fb.network.UnionInputGate(gates) as union:
            assert union.poll(0) is not None
            assert len(list(fb.RecordReader(union, fb.Types.INT()))) in (20, 30)
            union.poll(30)
            assert [gate.channels[0].buffers for gate in env.metrics().gates] == [3, 3]
        assert [gate.state for gate in env.metrics().gates] == ["finished", "finished"]


def test_figures_stay_when_gate_partition_and_environment_are_closed():
    with environment() as env:
        partition_id = fb.network.ResultPartitionID.random()
        partition = env.create_partition(partition_id, 1)
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            writer.emit_all(range(100))
        gate = env.create_gate([fb.network.LocalChannel(partition_id, 0)])
        assert len(list(fb.RecordReader(gate, fb.Types.INT()))) == 100
        before = env.metrics().gates
        gate.close()
        gate.close()
        assert env.metrics().gates == before
        partition.close()
        assert env.metrics().partitions[0].pool is None
        assert env.metrics().partitions[0].state == "finished closed released"
    metrics = env.metrics()
    assert metrics.gates == before and metrics.partitions[0].subpartitions[0].records == 100
    assert metrics is env.metrics()


def test_a_gate_that_was_closed_early_says_so(linked):
    here, gate, _, _ = linked
    gate.close()
    assert here.metrics().gates[0].state == "closed"


def test_gates_that_nobody_holds_are_not_kept():
    with environment() as env:
        env.create_gate([fb.network.LocalChannel(fb.network.ResultPartitionID.random(), 0)])
        kept = env.create_gate([fb.network.LocalChannel(fb.network.ResultPartitionID.random(), 0)])
        gc.collect()
        assert [gate.gate_index for gate in env.metrics().gates] == [1]
        kept.close()


def test_looking_while_others_work_disturbs_nobody(linked):
    here, gate, there, partition = linked
    records = []

    def write():
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            writer.emit_all(range(100_000))

    threads = [threading.Thread(target=write)]
    threads.append(threading.Thread(target=lambda: records.extend(fb.RecordReader(gate, fb.Types.INT()))))
    for thread in threads:
        thread.start()
    counts = []
    while any(thread.is_alive() for thread in threads):
        counts.append(sum(channel.records for channel in here.metrics().gates[0].channels))
        there.metrics()
    for thread in threads:
        thread.join()
    assert sorted(records) == list(range(100_000))
    assert counts == sorted(counts)


def test_metrics_can_be_sent_elsewhere(linked):
    metrics = linked[0].metrics()
    assert pickle.loads(pickle.dumps(metrics)) == metrics


def test_tables_are_readable_and_cut(linked, monkeypatch):
    here, _, there, _ = linked
    text = str(here.metrics())
    assert f"{here.address[0]}:{here.address[1]}" in text
    assert "gate    channel  records" in text and text.count("0 open") == 2
    assert partition_text(there) + "… open" in str(there.metrics())
    assert "at 127.0.0.1" in text and "0" * 20 not in text
    monkeypatch.setattr(network_metrics, "ROWS_MAX", 1)
    assert "and 1 more" in str(here.metrics())


def partition_text(env):
    return env.metrics().partitions[0].partition_id[:8]


def test_rich_shows_the_same(linked):
    with open(os.devnull, "w") as nowhere:
        console = pytest.importorskip("rich.console").Console(width=200, record=True, file=nowhere)
        console.print(linked[0].metrics())
    text = console.export_text()
    assert "totalMemorySegments" in text and "0 open" in text


def test_a_child_is_told_whose_figures_they_are():
    with environment() as env:
        pid = os.fork()
        if pid == 0:
            try:
                env.metrics()
            except RuntimeError as error:
                os._exit(0 if "belongs to process" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
