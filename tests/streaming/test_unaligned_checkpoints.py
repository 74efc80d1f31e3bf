"""Barriers that overtake records, through real tasks. Flink: UnalignedCheckpointITCase, AlternatingCheckpointsTest,
UnalignedCheckpointsTest, CheckpointedInputGateTest."""

import random
import threading
import time
from dataclasses import replace

import pytest
from support.worlds.checkpointed_tasks import CHECKPOINTING, CountingSink, EndlessSource, Group
from support.worlds.stream_tasks import InputConfig, chain_of, edge, operator

import flinkbuf as fb
from flinkbuf._core.operators.stream_operator import StreamOperator
from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.task.task_events import CheckpointAcknowledged, CheckpointDeclined
from flinkbuf.streaming.time.clock import SystemClock

LONG = fb.Types.LONG()
INPUT = (InputConfig(LONG, (0,)),)
SETTINGS = replace(CHECKPOINTING, unaligned_checkpoints_enabled=True)
AT_ONCE = CheckpointOptions(is_unaligned=True, aligned_timeout_ms=0)
PARALLELISM = 2


class Gate:
    """Holds a sink's records back until it is opened."""

    def __init__(self, is_open=False):
        self.opened = threading.Event()
        if is_open:
            self.opened.set()


class HeldSink(CountingSink):
    """Takes records one by one while it is let; between them it looks after its task."""

    def __init__(self, items, gate, pause_s=0.001):
        super().__init__(items, pause_s)
        self.gate = gate

    def process_element(self, value, timestamp):
        if not self.gate.opened.is_set():
            time.sleep(0.01)  # so slow that all buffers before it are full
        else:
            self.pause_s = 0.0
        super().process_element(value, timestamp)


class Passing(StreamOperator):
    def process_element(self, value, timestamp):
        self.output.collect(value, timestamp)


def job(taken, gate, limit, settings=SETTINGS, restore=None, partitioner="rebalance", segment_size=256):
    """Two sources to two middle tasks to two sinks, all to all."""
    pool, restore, group = fb.NetworkBufferPool(512, segment_size=segment_size), restore or {}, Group()
    first = [fb.ResultPartition(pool, PARALLELISM) for _ in range(PARALLELISM)]
    second = [fb.ResultPartition(pool, PARALLELISM) for _ in range(PARALLELISM)]
    options = {"settings": settings, "clock": SystemClock()}
    for index in range(PARALLELISM):
        name = f"source {index}"
        group.add_source(
            first[index],
            lambda: EndlessSource(limit),
            name,
            partitioner,
            restore=restore.get(name),
            **options,
        )
    for index in range(PARALLELISM):
        name = f"middle {index}"
        config = chain_of(
            operator("middle", Passing, network_edges=(edge(partitioner=partitioner),)), inputs=INPUT, partition_count=1
        )
        gates = [fb.InputGate([(partition, index) for partition in first])]
        group.add(config, gates, [second[index]], name, restore=restore.get(name), **options)
    for index in range(PARALLELISM):
        name = f"sink {index}"
        config = chain_of(operator("sink", lambda items=taken[index]: HeldSink(items, gate)), inputs=INPUT)
        gates = [fb.InputGate([(partition, index) for partition in second])]
        group.add(config, gates, [], name, restore=restore.get(name), **options)
    return group


def nothing_yet():
    """What each sink will have taken."""
    return [[] for _ in range(PARALLELISM)]


def values_of(items):
    return [item.value for item in items if isinstance(item, fb.types.StreamRecord)]


def before(taken, group, checkpoint_id):
    """What the sinks had taken when they took their part of a checkpoint."""
    counts = [group.state_of(f"sink {index}", checkpoint_id) for index in range(PARALLELISM)]
    return [value for items, count in zip(taken, counts, strict=True) for value in values_of(items)[:count]]


def wait_for_back_pressure(group):
    """Until the sources wait for room, all with something in every queue."""
    sources = group.sources
    deadline = time.monotonic() + 10
    last = None
    while time.monotonic() < deadline:
        now = [task.metrics.records_out for task in sources]
        if now == last and min(now) > 0:
            return
        last = now
        time.sleep(0.05)
    raise AssertionError("there is no back-pressure")


def take(group, checkpoint_id, options):
    start = time.monotonic()
    group.trigger(checkpoint_id, options, timestamp_ms=int(time.time() * 1000))
    group.wait_for_all(checkpoint_id)
    return time.monotonic() - start


def restore_of(group, checkpoint_id):
    return {name: kept.snapshots[checkpoint_id] for name, kept in group.snapshots.items()}


def in_flight(group, checkpoint_id):
    snapshots = [kept.snapshots[checkpoint_id] for kept in group.snapshots.values()]
    return sum(len(data) for each in snapshots for *_, data in (*each.input_channels, *each.output_channels))


def run_to_the_end(limit, restore):
    taken = nothing_yet()
    again = job(taken, Gate(is_open=True), limit, ExecutionSettings(), restore).start()
    again.join()
    assert {task.error for task in again.tasks} == {None}
    return [value for items in taken for value in values_of(items)]


def all_of(limit):
    return sorted([*range(1, limit + 1)] * PARALLELISM)


@pytest.mark.parametrize(
    "options", [AT_ONCE, CheckpointOptions(aligned_timeout_ms=30)], ids=["at once", "after a timeout"]
)
def test_under_back_pressure_a_checkpoint_is_complete_at_once_and_nothing_is_lost(options):
    taken, limit = nothing_yet(), 1500
    group = job(taken, Gate(), limit)
    with group:
        wait_for_back_pressure(group)
        took = take(group, 1, options)
        queued = in_flight(group, 1)
    events = group.told(CheckpointAcknowledged, 1)
    assert any(event.metrics.is_unaligned for event in events)
    assert sum(event.metrics.bytes_persisted_during_alignment for event in events) == queued > 0
    assert took < 20  # aligned, it would wait for the gate for ever
    # What the sinks had counted came out of the first run: the rest, and nothing else, comes out of the second.
    rest = run_to_the_end(limit, restore_of(group, 1))
    assert sorted(before(taken, group, 1) + rest) == all_of(limit)


def test_an_aligned_checkpoint_waits_where_an_unaligned_one_does_not():
    group = job(nothing_yet(), Gate(), None)
    with group:
        wait_for_back_pressure(group)
        fast = take(group, 1, AT_ONCE)
        group.complete(1)
        begun = time.monotonic()
        for task in group.sources:
            task.trigger_checkpoint(2, int(time.time() * 1000), CheckpointOptions())
        time.sleep(max(4 * fast, 0.2))
        is_waiting = len(group.told(CheckpointAcknowledged, 2)) < len(group.tasks)
        slow = time.monotonic() - begun
    assert is_waiting and slow > fast


def test_savepoints_between_unaligned_checkpoints_are_aligned_and_hold_nothing_under_way():
    group = job(nothing_yet(), Gate(is_open=True), None)
    with group:
        for number in range(1, 13):
            kind = "SAVEPOINT" if number % 3 == 0 else "CHECKPOINT"
            take(group, number, replace(AT_ONCE, kind=kind))
            group.complete(number)
            if kind == "SAVEPOINT":
                assert in_flight(group, number) == 0
    assert not group.told(CheckpointDeclined)


def test_without_back_pressure_a_timeout_never_comes():
    group = job(nothing_yet(), Gate(is_open=True), None)
    with group:
        for number in range(1, 9):
            take(group, number, CheckpointOptions(aligned_timeout_ms=20_000))
            group.complete(number)
            assert in_flight(group, number) == 0
    assert not any(event.metrics.is_unaligned for event in group.told(CheckpointAcknowledged))


@pytest.mark.parametrize("partitioner", ["broadcast", "rescale"])
def test_edges_where_no_barrier_may_overtake_wait_and_the_cut_is_one_all_the_same(partitioner):
    group = job(nothing_yet(), Gate(is_open=True), 400, partitioner=partitioner)
    with group:
        take(group, 1, AT_ONCE)
        assert in_flight(group, 1) == 0
        counts = [group.state_of(f"sink {index}", 1) for index in range(PARALLELISM)]
        emitted = [group.state_of(f"source {index}", 1) for index in range(PARALLELISM)]
    copies = PARALLELISM**2 if partitioner == "broadcast" else 1
    assert sum(counts) == sum(emitted) * copies


@pytest.mark.parametrize("partitioner", ["broadcast", "rescale"])
def test_a_timeout_does_not_make_them_overtake_there_either(partitioner):
    group = job(nothing_yet(), Gate(), None, partitioner=partitioner)
    with group:
        wait_for_back_pressure(group)
        group.trigger(1, CheckpointOptions(aligned_timeout_ms=1), timestamp_ms=int(time.time() * 1000))
        group.wait_for_all(1, PARALLELISM)  # of the sources: nothing of theirs can be converted
        outputs = [group.snapshots[f"source {index}"].snapshots[1].output_channels for index in range(PARALLELISM)]
        assert outputs == [()] * PARALLELISM


@pytest.mark.parametrize("seed", range(6))
def test_checkpoints_that_are_aborted_on_the_way_leave_nothing(seed):
    chance, taken, limit = random.Random(seed), nothing_yet(), 700
    group = job(taken, Gate(), limit)
    with group:
        wait_for_back_pressure(group)
        for number in range(1, 15):
            options = chance.choice([AT_ONCE, CheckpointOptions(aligned_timeout_ms=5)])
            for task in group.sources:
                if chance.random() < 0.8:
                    task.trigger_checkpoint(number, int(time.time() * 1000), options)
            time.sleep(chance.choice([0, 0, 0.01]))
            if chance.random() < 0.6:
                group.abort(number)
        take(group, 50, AT_ONCE)
    rest = run_to_the_end(limit, restore_of(group, 50))
    assert sorted(before(taken, group, 50) + rest) == all_of(limit)


def test_a_job_restored_again_and_again_loses_nothing():
    """Restored data is under way once more, and belongs to the next checkpoint until it is read."""
    limit, restore, done, counted = 500, None, [], [0] * PARALLELISM
    for number in range(1, 4):
        taken = nothing_yet()
        group = job(taken, Gate(), limit, restore=restore)
        with group:
            if number == 1:
                wait_for_back_pressure(group)
            take(group, number, AT_ONCE)
        restore = restore_of(group, number)
        for index, items in enumerate(taken):
            count = group.state_of(f"sink {index}", number)
            done += values_of(items)[: count - counted[index]]
            counted[index] = count
    assert sorted(done + run_to_the_end(limit, restore)) == all_of(limit)
