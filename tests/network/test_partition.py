"""ResultPartition: the buffers that Flink's partition gives for the same calls, its life, and its back-pressure."""

import hashlib
import json
import signal
import struct
import threading
import time
from pathlib import Path

import pytest
from support.later import later

import flinkbuf.network.events as ev
from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool
from flinkbuf.errors import CancelTaskError, InsufficientBuffersError
from flinkbuf.network.buffer import DataType
from flinkbuf.network.partition import ResultPartition, buffer_limits

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/spanning/spanning.json").read_text())


@pytest.fixture
def network():
    """A pool whose segments must all be home at the end of the test."""
    pool = NetworkBufferPool(64, segment_size=64)
    yield pool
    assert pool.available_segment_count == pool.total_segment_count


def framed(payload):
    return struct.pack(">i", len(payload)) + payload


def lin31(size, seed):
    return bytes((i * 31 + seed) % 256 for i in range(size))


def available(view):
    """What a reader takes that polls only while something is available."""
    taken = []
    while view.is_available:
        buffer, backlog, following, sequence_number = view.poll()
        with buffer:
            taken.append(
                {
                    "data_type": DataType(buffer.data_type).name,
                    "next": DataType(following).name,
                    "seq": sequence_number,
                    "backlog": backlog,
                    "hex": bytes(buffer).hex(),
                }
            )
    return taken


# ---- golden --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: f"{case['segment_size']}-{len(case['records'])}")
def test_records_are_cut_into_flinks_buffers(case):
    pool = NetworkBufferPool(512, segment_size=case["segment_size"])
    with ResultPartition(pool, 1, type="PIPELINED") as partition:
        view = partition.create_view(0)
        for record in case["records"]:
            partition.emit(framed(bytes.fromhex(record["hex"])), 0)
        partition.finish()
        assert available(view) == case["buffers"]
    view.release()
    assert pool.available_segment_count == 512


@pytest.mark.parametrize("case", GOLDEN["big_cases"], ids=lambda case: str(case["segment_size"]))
def test_big_records_are_cut_into_flinks_buffers(case):
    pool = NetworkBufferPool(256, segment_size=case["segment_size"])
    with ResultPartition(pool, 1, type="PIPELINED") as partition, partition.create_view(0) as view:
        for record in case["records"]:
            partition.emit(framed(lin31(record["size"], record["seed"])), 0)
        partition.finish()
        for buffer, expected in zip(available(view), case["buffers"], strict=True):
            data = bytes.fromhex(buffer.pop("hex"))
            assert (len(data), hashlib.sha256(data).hexdigest()) == (expected["size"], expected["sha256"])
            assert buffer == {name: expected[name] for name in buffer}


def run_step(partition, views, step):
    if step["op"] == "emit":
        partition.emit(framed(bytes.fromhex(step["record"])), step["subpartition"])
    elif step["op"] == "broadcast":
        partition.broadcast(framed(bytes.fromhex(step["record"])))
    elif step["op"] == "event":
        partition.broadcast_event(ev.event_from_bytes(bytes.fromhex(step["event"])), step["priority"])
    elif step["op"] == "flush":
        partition.flush_all()
    elif step["op"] == "end_of_data":
        partition.broadcast_event(ev.EndOfData(ev.StopMode.DRAIN))
    elif step["op"] == "finish":
        partition.finish()
    else:
        assert step["op"] == "poll"
        assert available(views[step["subpartition"]]) == step["buffers"]


@pytest.mark.parametrize("number", range(len(GOLDEN["scenarios"])))
def test_scenarios_give_flinks_buffers_at_every_step(number):
    scenario = GOLDEN["scenarios"][number]
    pool = NetworkBufferPool(64, segment_size=scenario["segment_size"])
    with ResultPartition(pool, scenario["subpartitions"], type="PIPELINED") as partition:
        views = [partition.create_view(i) for i in range(scenario["subpartitions"])]
        for step in scenario["steps"]:
            run_step(partition, views, step)
    for view in views:
        view.release()
    assert partition.is_released and pool.available_segment_count == 64


# ---- the pool's size ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type", "subpartitions", "buffers_per_channel", "floating_buffers", "limits"),
    [
        ("PIPELINED", 4, 2, 8, (5, None)),
        ("PIPELINED_BOUNDED", 4, 2, 8, (5, 16)),
        ("PIPELINED_APPROXIMATE", 4, 2, 8, (5, 16)),
        ("PIPELINED_BOUNDED", 4, 0, 8, (5, 12)),  # a sender counts at least one buffer a channel
        ("PIPELINED_BOUNDED", 4, 1, 0, (5, 5)),
        ("PIPELINED_BOUNDED", 1, 2, 8, (2, 10)),
    ],
)
def test_pool_has_flinks_limits(type, subpartitions, buffers_per_channel, floating_buffers, limits):
    assert buffer_limits(type, subpartitions, buffers_per_channel, floating_buffers) == limits


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"type": "HYBRID_FULL"}, "type must be one of PIPELINED.*got 'HYBRID_FULL'"),
        ({"subpartition_count": 0}, "subpartition_count must be at least 1, got 0"),
        ({"floating_buffers": -1}, "floating_buffers must not be negative, got -1"),
        ({"max_overdraft": -2}, "max_overdraft must not be negative, got -2"),
        ({"max_buffers_per_channel": 0}, "max_buffers_per_channel must be above 0, got 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(network, arguments, message):
    with pytest.raises(ValueError, match=message):
        ResultPartition(network, **{"subpartition_count": 2, **arguments})


def test_too_few_buffers_are_an_error_that_says_how_many(network):
    with pytest.raises(InsufficientBuffersError, match="needs 65 segments"):
        ResultPartition(network, 64)
    assert network.buffer_pool_count == 0


def test_overdraft_is_for_bounded_types_only():
    for type, extra in (("PIPELINED_BOUNDED", 5), ("PIPELINED_APPROXIMATE", 0)):
        pool = NetworkBufferPool(64, segment_size=64)
        with ResultPartition(pool, 1, type, floating_buffers=0) as partition:
            with later(0.3, partition.release):
                partition.emit(bytes(64 * 64), 0)
            assert partition.buffer_pool_usage()["peak"] == 2 + extra


# ---- life -------------------------------------------------------------------------------------------------------


def test_closed_or_finished_partition_takes_nothing_more(network):
    partition = ResultPartition(network, 1)
    partition.finish()
    for write in (
        lambda: partition.emit(b"x", 0),
        lambda: partition.broadcast(b"x"),
        partition.finish,
        lambda: partition.broadcast_event(ev.EndOfData()),
    ):
        with pytest.raises(RuntimeError, match="nothing can be written after finish"):
            write()
    partition.close()
    partition.close()
    with pytest.raises(RuntimeError, match="closed"):
        partition.emit(b"x", 0)
    assert repr(partition) == "<ResultPartition PIPELINED_BOUNDED, 1 subpartitions finished, closed>"


def test_block_that_raises_fails_the_partition_with_its_cause(network):
    with pytest.raises(ZeroDivisionError), ResultPartition(network, 1) as partition:
        view = partition.create_view(0)
        partition.emit(b"x", 0)
        1 / 0
    assert partition.is_released and partition.is_closed
    with pytest.raises(CancelTaskError, match=r"subpartition 0.*ZeroDivisionError: division by zero"):
        view.poll()
    assert view.is_released
    view.release()


def test_first_cause_of_failure_stays(network):
    with ResultPartition(network, 1) as partition:
        assert partition.failure_cause is None
        partition.fail("disk full: \u20ac\0")
        partition.fail(ValueError("later"))
        assert partition.failure_cause == "disk full: \u20ac\\x00"


def test_data_of_a_released_partition_is_dropped_without_waiting(network):
    with ResultPartition(network, 2) as partition:
        partition.emit(bytes(100), 1)
        partition.release()
        for _ in range(100):
            partition.emit(bytes(100), 1)
            partition.broadcast(bytes(100))
        partition.broadcast_event(ev.EndOfData())
        partition.flush_all()
        usage = partition.buffer_pool_usage()
        assert partition.queued_buffer_count == 0 and usage["requested"] == usage["stock"]
        with pytest.raises(CancelTaskError, match="released"):
            partition.create_view(0)


def test_dropped_partition_gives_its_memory_back(network):
    partition = ResultPartition(network, 3)
    partition.emit(bytes(200), 0)
    view = partition.create_view(0)
    buffer = view.poll()[0]
    del partition, view
    assert network.available_segment_count == 63  # the buffer is still held
    assert len(bytes(buffer)) == 64


def test_index_out_of_range_is_an_error(network):
    with ResultPartition(network, 2) as partition:
        for call in (
            lambda: partition.emit(b"x", 2),
            lambda: partition.flush(2),
            lambda: partition.create_view(2),
            lambda: partition.emit_event(ev.EndOfData(), 2),
        ):
            with pytest.raises(IndexError, match="subpartition 2 of a partition with 2"):
                call()


def test_event_bytes_need_an_events_data_type(network):
    with ResultPartition(network, 1) as partition:
        with pytest.raises(ValueError, match="data type 1 is not that of an event"):
            partition.broadcast_event_bytes(b"1234", DataType.DATA_BUFFER)
        with pytest.raises(TypeError):
            partition.emit("text", 0)


def test_event_to_one_subpartition_leaves_the_others_alone(network):
    with ResultPartition(network, 2) as partition:
        partition.emit(b"a", 0)
        partition.emit(b"b", 1)
        partition.emit_event(ev.EndOfData(), 1)
        with partition.create_view(0) as first, partition.create_view(1) as second:
            assert available(first) == []
            assert [item["data_type"] for item in available(second)] == ["DATA_BUFFER", "END_OF_DATA"]


# ---- back-pressure -----------------------------------------------------------------------------------------------


def small(network):
    return ResultPartition(network, 1, buffers_per_channel=1, floating_buffers=0, max_overdraft=0)


def test_emit_waits_without_the_gil_until_the_reader_gives_buffers_back(network):
    partition, taken = small(network), []

    def read():
        with partition.create_view(0) as view:
            while not taken or taken[-1] != 10:
                item = view.poll()
                if item is None:
                    view.listener.wait(10)
                    continue
                time.sleep(0.01)
                taken.append(item[0].data_type)
                item[0].release()

    reader = threading.Thread(target=read)
    reader.start()
    partition.emit(bytes(64 * 30), 0)
    assert partition.hard_back_pressured_ms > 0
    partition.finish()
    reader.join()
    assert taken == [1] * 30 + [10]
    partition.close()


def test_release_wakes_a_waiting_emit(network):
    partition = small(network)
    started = time.monotonic()
    with later(0.05, partition.release):
        partition.emit(bytes(64 * 30), 0)
    assert time.monotonic() - started < 20
    partition.close()


def test_signal_interrupts_a_waiting_emit_and_nothing_can_follow_the_half_record(network):
    def handler(*_):
        raise InterruptedError("enough")

    partition, before = small(network), signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(InterruptedError, match="enough"):
            partition.emit(bytes(64 * 30), 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(RuntimeError, match="interrupted in the middle of a record"):
        partition.emit(b"next", 0)
    with pytest.raises(RuntimeError, match="present state"):
        partition.finish()
    partition.release()
    partition.close()


def test_closed_network_pool_cancels_a_waiting_emit():
    pool = NetworkBufferPool(8, segment_size=64)
    partition = small(pool)
    with later(0.05, pool.close), pytest.raises(CancelTaskError, match="destroyed"):
        partition.emit(bytes(64 * 30), 0)
    partition.close()


def test_figures_count_bytes_and_buffers(network):
    with ResultPartition(network, 2) as partition:
        partition.emit(bytes(70), 0)
        assert (partition.total_buffer_count, partition.total_written_bytes) == (1, 64)
        partition.broadcast(bytes(10))
        partition.finish()
        assert (partition.total_buffer_count, partition.total_written_bytes) == (4, 70 + 2 * 10)
        assert partition.queued_buffer_count == 6 and partition.total_read_bytes == 0
        assert partition.subpartition_count == 2 and partition.partition_type == "PIPELINED_BOUNDED"
        with partition.create_view(0) as view:
            assert [item["hex"] for item in available(view)][-1] == "00000000"
            assert partition.total_read_bytes == 70 + 10 + 4


# ---- acknowledgements ----------------------------------------------------------------------------------------


def test_waiting_for_readers_ends_at_the_timeout(network):
    with ResultPartition(network, 2) as partition:
        started = time.monotonic()
        assert not partition.wait_for_all_data_processed(150)
        assert 0.14 < time.monotonic() - started < 20
        assert not partition.wait_for_all_data_processed(0)
        assert not partition.is_all_data_processed


def test_waiting_for_readers_ends_when_one_leaves_without_a_word(network):
    with ResultPartition(network, 2) as partition:
        views = [partition.create_view(i) for i in range(2)]
        with later(0.05, views[1].release):
            assert partition.wait_for_all_data_processed() is False
        views[0].release()


def test_waiting_for_readers_of_a_failed_partition_tells_its_cause(network):
    with ResultPartition(network, 1) as partition:
        partition.fail(ZeroDivisionError("by zero"))
        with pytest.raises(CancelTaskError, match="ZeroDivisionError: by zero"):
            partition.wait_for_all_data_processed()


def test_waiting_for_readers_sees_signals(network):
    with ResultPartition(network, 1) as partition:
        with later(0.05, signal.raise_signal, signal.SIGINT), pytest.raises(KeyboardInterrupt):
            partition.wait_for_all_data_processed(20_000)
