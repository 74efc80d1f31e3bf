"""One bell for a task: whatever it waits for rings it, in whichever order things go away."""

import gc
import threading
import time

import pytest
from support.later import later

import flinkbuf as fb
from flinkbuf._core.ground.wakeup import TaskBell


@pytest.fixture
def pool():
    with fb.NetworkBufferPool(64, segment_size=4096) as pool:
        yield pool
        gc.collect()
        assert pool.available_segment_count == 64, "a segment did not come home"


def rung(bell, action):
    """Whether `action` rings the bell."""
    seen = bell.seen()
    action()
    return bell.wait(seen, 0)


def test_a_ring_is_never_lost_between_looking_and_sleeping():
    bell = TaskBell()
    seen = bell.seen()
    bell.ring()
    assert bell.wait(seen, 20_000)
    assert not bell.wait(bell.seen(), 0)
    with pytest.raises(ValueError, match="timeout_ms"):
        bell.wait(0, -1)


def test_it_sleeps_without_the_interpreter_until_another_thread_rings():
    bell = TaskBell()
    seen = bell.seen()
    since = time.monotonic()
    with later(0.05, bell.ring):
        assert bell.wait(seen, 20_000)
    assert time.monotonic() - since < 10


def test_outputs_and_inputs_ring_one_bell(pool):
    bell = TaskBell()
    outputs = [fb.ResultPartition(pool, 1, floating_buffers=0) for _ in range(2)]
    source = fb.ResultPartition(pool, 1)
    gate = fb.InputGate([(source, 0)])
    for side in (*outputs, gate):
        side.share_bell(bell)
        side.share_bell(bell)  # once more is nothing new
    assert gate.poll() is None
    assert rung(bell, lambda: (source.emit(b"\0\0\0\1a", 0), source.flush_all()))
    for output in outputs:
        with output.create_view(0) as view:
            while output.is_available:
                output.emit(b"\0\0\x0f\xfc" + bytes(4092), 0)
            assert rung(bell, lambda view=view: view.poll()[0].release()), "there is room again"
        assert output.is_answered, "its reader has gone without a word"
    assert rung(bell, outputs[0].release)
    for side in (*outputs, gate, source):
        side.close()


def test_the_last_acknowledgement_rings(pool):
    bell = TaskBell()
    with fb.ResultPartition(pool, 2) as partition:
        partition.share_bell(bell)
        with fb.RecordWriter(partition, "int") as writer:
            writer.emit_all(range(10))
        for channel in range(2):
            assert not partition.is_answered
            with fb.InputGate([(partition, channel)]) as gate:
                assert rung(bell, lambda gate=gate: list(fb.RecordReader(gate, "int")))
        assert partition.is_answered and partition.is_all_data_processed


def test_a_union_rings_it_for_all_of_its_gates(pool):
    bell = TaskBell()
    sources = [fb.ResultPartition(pool, 1) for _ in range(3)]
    gates = [fb.InputGate([(source, 0)]) for source in sources]
    with fb.network.UnionInputGate(gates) as union:
        with pytest.raises(RuntimeError, match="union"):
            gates[0].share_bell(bell)
        union.share_bell(bell)
        assert union.bell is bell and gates[2].bell is bell
        union.request_partitions()
        for source in sources:
            assert union.poll() is None
            assert rung(bell, lambda source=source: (source.emit(b"\0\0\0\1a", 0), source.flush_all()))
            _, buffer = union.poll()
            buffer.release()
    for source in sources:
        source.close()


def test_who_rings_another_bell_or_is_read_already_refuses_it(pool):
    partition = fb.ResultPartition(pool, 1)
    partition.share_bell(TaskBell())
    with pytest.raises(RuntimeError, match="another"):
        partition.share_bell(TaskBell())
    gate = fb.InputGate([(partition, 0)])
    gate.share_bell(TaskBell())
    with pytest.raises(RuntimeError, match="another"):
        gate.share_bell(TaskBell())
    gate.close()
    with pytest.raises(RuntimeError, match="closed"):
        fb.InputGate([(partition, 0)]).share_bell(TaskBell()) or gate.share_bell(TaskBell())
    partition.close()
    with pytest.raises(RuntimeError, match="closed"):
        partition.share_bell(TaskBell())
    other = fb.ResultPartition(pool, 1)
    with fb.InputGate([(other, 0)]) as gate:
        gate.poll()
        with pytest.raises(RuntimeError, match="read already"):
            gate.share_bell(TaskBell())
    other.close()


@pytest.mark.parametrize("first", ["bell", "partition", "gate"])
def test_whoever_may_still_ring_keeps_the_bell(pool, first):
    things = {"bell": TaskBell(), "partition": fb.ResultPartition(pool, 1)}
    things["partition"].share_bell(things["bell"])
    with fb.RecordWriter(things["partition"], "int") as writer:
        writer.emit_all(range(100))
    del writer
    things["partition"].close()
    things["gate"] = fb.InputGate([(things["partition"], 0)])
    reader = fb.RecordReader(things["gate"], "int")
    del things[first]
    gc.collect()
    assert list(reader) == list(range(100))  # its end rings the producer's bell
    del reader
    things.clear()
    gc.collect()


def test_many_threads_ring_while_it_is_shared_and_dropped(pool):
    """Readers in other threads release, and so ring, while the producers come and go."""
    stop = threading.Event()

    def consume(queue):
        while not stop.is_set() or queue:
            if queue:
                with fb.InputGate([(queue.pop(), 0)]) as gate:
                    assert list(fb.RecordReader(gate, "int")) == [1, 2, 3]
            else:
                time.sleep(0.0001)

    queues = [[], []]
    threads = [threading.Thread(target=consume, args=(queue,)) for queue in queues]
    for thread in threads:
        thread.start()
    try:
        for turn in range(300):
            bell = TaskBell()
            partition = fb.ResultPartition(pool, 1, floating_buffers=0)
            queues[turn % 2].append(partition)
            partition.share_bell(bell)
            with fb.RecordWriter(partition, "int", buffer_timeout_ms=-1) as writer:
                writer.emit_all([1, 2, 3])
            partition.close()
            seen = bell.seen()
            while turn % 3 == 0 and not partition.is_released:
                bell.wait(seen, 1000)
                seen = bell.seen()
            while len(queues[turn % 2]) > 8:
                time.sleep(0.0001)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
