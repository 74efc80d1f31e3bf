"""RecordExchange: one thread writes and reads; nobody locks up, nothing is lost, and both sides get their share."""

import gc
import itertools
import threading
import time

import pytest
from support.later import later

import flinkbuf as fb
from flinkbuf._core.flow.record_exchange import RecordExchange
from flinkbuf._core.ground.wakeup import TaskBell

LONG = fb.Types.LONG()
BYTES = fb.Types.PRIMITIVE_ARRAY(fb.Types.BYTE())


class Task:
    """One of several tasks in this process that all send to each other."""

    def __init__(self, pool, count, type=LONG, partitioner="rebalance", **options):
        self.partition = fb.ResultPartition(pool, count)
        self.writer = fb.RecordWriter(self.partition, type, partitioner, seed=0, **options)
        self.type = type

    def connect(self, tasks, records, check=None):
        index = tasks.index(self)
        self.gate = fb.InputGate([(task.partition, index) for task in tasks])
        self.exchange = RecordExchange(self.writer, fb.RecordReader(self.gate, self.type), records, check)
        return self.exchange


def connect_all(inputs, pool=None, **options):
    pool = pool or fb.NetworkBufferPool(64 * len(inputs), segment_size=4096)
    tasks = [Task(pool, len(inputs), **options) for _ in inputs]
    for task, records in zip(tasks, inputs, strict=True):
        task.connect(tasks, records)
    return tasks


def run_all(tasks, seconds=60):
    """Iterate every exchange in a thread of its own; returns their records."""
    results, errors = [[] for _ in tasks], []

    def run(task, result):
        try:
            result.extend(task.exchange)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in zip(tasks, results, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive(), "locked up"
    if errors:
        raise errors[0]
    return results


def one(records, **options):
    """A task that sends to itself alone."""
    (task,) = connect_all([records], **options)
    return task


def test_a_task_that_sends_to_itself_gets_its_records_in_order():
    assert list(one(range(100_000)).exchange) == list(range(100_000))


def test_without_records_it_ends_at_once():
    assert list(one([]).exchange) == []


@pytest.mark.parametrize("count", [2, 3])
def test_tasks_that_send_to_each_other_lose_nothing_and_keep_each_ones_order(count):
    tasks = connect_all([range(task, 200_000, count) for task in range(count)])
    results = run_all(tasks)
    assert sorted(itertools.chain(*results)) == list(range(200_000))
    for result in results:
        for source in range(count):
            numbers = [number for number in result if number % count == source]
            assert numbers == sorted(numbers)


def test_records_larger_than_all_memory_cross_each_other_without_locking_up():
    pool = fb.NetworkBufferPool(24, segment_size=4096)
    sizes = [0, 1, 300_000, 4091, 4092, 4093, 500_000, 7]
    inputs = [[bytes([side]) * size for size in sizes * 3] for side in (1, 2)]
    tasks = connect_all(inputs, pool, type=BYTES, partitioner=lambda record, count: len(record) % count)
    results = run_all(tasks)
    assert sorted(map(len, itertools.chain(*results))) == sorted(sizes * 6)
    for result in results:
        assert all(len(set(record)) <= 1 for record in result)


def test_broadcast_records_reach_everybody_whole():
    inputs = [[bytes([side]) * size for size in (5, 20_000, 0, 100_000)] for side in (1, 2, 3)]
    pool = fb.NetworkBufferPool(48, segment_size=4096)
    results = run_all(connect_all(inputs, pool, type=BYTES, partitioner="broadcast"))
    for result in results:
        assert sorted(result) == sorted(itertools.chain(*inputs))


def test_the_first_record_comes_before_the_last_is_asked_for():
    given = []
    records = (given.append(number) or number for number in range(1_000_000))
    task = one(records)
    assert next(task.exchange) == 0
    assert len(given) < 100_000
    assert task.exchange.is_writing
    for expected, got in enumerate(task.exchange, 1):
        assert got == expected
    assert not task.exchange.is_writing


def test_a_taker_who_stops_asking_stops_the_source():
    """Memory stays within the partition's buffers, however much could be written."""
    given = []
    task = one(given.append(number) or number for number in itertools.count())
    for _ in range(10):
        next(task.exchange)
    in_memory = len(given)
    assert in_memory < 100 * 4096 / 12
    time.sleep(0.2)
    assert len(given) == in_memory
    task.partition.fail("enough")
    task.gate.close()


def test_what_arrives_does_not_wait_for_a_slow_source():
    """Two tasks: one's source gives a record every 5 ms until all of the other's 100,000 have passed it."""
    taken, given = [], []

    def slow():
        while len(taken) < 100_000 and len(given) < 2000:
            time.sleep(0.005)
            given.append(-len(given))
            yield given[-1]

    tasks = connect_all([slow(), range(1, 100_001)], partitioner="global", buffer_timeout_ms=1)
    other = threading.Thread(target=lambda: list(tasks[1].exchange), daemon=True)
    other.start()
    for record in tasks[0].exchange:
        taken.append(record)
    other.join(10)
    assert not other.is_alive()
    assert sorted(taken) == sorted([*given, *range(1, 100_001)])
    assert len(given) < 1000  # each time it is asked, hundreds have come in between


def test_a_slow_taker_does_not_keep_back_what_is_to_be_sent():
    """Task 0 takes 1 ms for each record that it gets from task 1, which nevertheless soon has all of task 0's."""
    tasks = connect_all(
        [range(20_000), itertools.repeat(-1, 20_000)], partitioner=lambda record, count: int(record >= 0)
    )
    soon = threading.Event()

    def read():
        for got, _ in enumerate(tasks[1].exchange, 1):
            if got == 20_000:
                soon.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    taken = 0
    for _ in tasks[0].exchange:
        taken += 1
        if not soon.is_set():
            time.sleep(0.001)
    thread.join(10)
    assert not thread.is_alive()
    assert taken == 20_000


def test_the_rest_is_written_when_the_taker_has_enough():
    tasks = connect_all([range(50_000), range(50_000, 100_000)])
    others = []
    thread = threading.Thread(target=lambda: others.extend(tasks[1].exchange), daemon=True)
    thread.start()
    first = [next(tasks[0].exchange) for _ in range(5)]
    tasks[0].exchange.write_rest()
    thread.join(20)
    assert not thread.is_alive()
    assert len(first) == 5
    assert len(others) == 50_000
    assert not tasks[0].exchange.is_writing
    assert tasks[0].exchange.figures()["buffers_in"] > 0
    tasks[0].exchange.write_rest()
    assert list(tasks[0].exchange) == []


def test_write_rest_of_a_task_whose_readers_all_left_is_soon_done():
    tasks = connect_all([range(100_000), range(100_000)])
    threads = [threading.Thread(target=task.exchange.write_rest, daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_an_error_of_the_source_comes_out_as_it_is():
    def source():
        yield 1
        raise KeyError("mine")

    task = one(source())
    with pytest.raises(KeyError, match="mine"):
        list(task.exchange)


def test_a_record_that_does_not_fit_is_named_by_its_number_and_the_next_one_is_its_own():
    task = one(iter([1, 2, "three", 4]))
    taken = []
    with pytest.raises(TypeError, match="record 2: "):
        taken.extend(task.exchange)
    assert taken + list(task.exchange) == [1, 2, 4]


def test_a_channel_out_of_range_is_an_error():
    with pytest.raises(ValueError, match="got 7"):
        list(one([1], partitioner=lambda record, count: 7).exchange)


def test_the_check_is_called_while_it_waits_and_its_error_ends_it():
    class PeerIsGone(Exception):
        pass

    calls = []

    def check():
        calls.append(time.monotonic())
        if len(calls) == 4:
            raise PeerIsGone

    pool = fb.NetworkBufferPool(64, segment_size=4096)
    tasks = [Task(pool, 2), Task(pool, 2)]
    exchange = tasks[0].connect(tasks, range(10), check)
    with pytest.raises(PeerIsGone):
        list(exchange)  # the other task never writes
    assert 0.2 < calls[-1] - calls[0] < 2


def test_a_failure_of_the_other_side_comes_out():
    pool = fb.NetworkBufferPool(64, segment_size=4096)
    tasks = [Task(pool, 2), Task(pool, 2)]
    exchange = tasks[0].connect(tasks, range(10))
    with later(0.05, tasks[1].partition.fail, "disk full"), pytest.raises(fb.errors.CancelTaskError, match="disk full"):
        list(exchange)


def test_it_counts_records_bytes_buffers_and_time():
    tasks = connect_all([range(50_000), range(50_000)])
    run_all(tasks)
    figures = [task.exchange.figures() for task in tasks]
    for name in ("records", "bytes"):
        assert sum(one[f"{name}_in"] for one in figures) == sum(one[f"{name}_out"] for one in figures) > 0
    # One that was flushed before it was full is read in pieces.
    assert sum(one["buffers_in"] for one in figures) >= sum(one["buffers_out"] for one in figures) > 0
    assert figures[0]["records_out"] == 50_000
    assert figures[0]["bytes_out"] == 50_000 * 12
    assert 0 < figures[0]["peak_buffers"] <= 64


def test_waiting_for_others_is_idle_and_waiting_for_room_is_back_pressure():
    tasks = connect_all([range(100_000), []], partitioner=lambda record, count: 1)
    thread = threading.Thread(target=lambda: list(tasks[0].exchange), daemon=True)
    thread.start()
    time.sleep(0.3)  # nobody reads, so task 0 has no room
    assert list(tasks[1].exchange) == list(range(100_000))
    thread.join(10)
    figures = tasks[0].exchange.figures()
    assert figures["back_pressured_ms"] >= 150
    assert figures["idle_ms"] < 150
    idle = one(iter([])).exchange
    assert idle.figures()["back_pressured_ms"] == 0


def test_a_gate_that_is_read_already_is_refused():
    pool = fb.NetworkBufferPool(64, segment_size=4096)
    task = Task(pool, 1)
    gate = fb.InputGate([(task.partition, 0)])
    gate.poll()
    with pytest.raises(RuntimeError, match="read already"):
        RecordExchange(task.writer, fb.RecordReader(gate, LONG), [])


def test_all_memory_is_home_afterwards_also_after_an_error():
    pool = fb.NetworkBufferPool(64, segment_size=4096)
    assert list(one(range(10_000), pool=pool).exchange) == list(range(10_000))
    broken = one(iter([*range(5000), "x"]), pool=pool)
    with pytest.raises(TypeError):
        list(broken.exchange)
    broken.partition.fail("x")
    del broken
    gc.collect()
    assert pool.used_segment_count == 0


def test_the_gate_may_outlive_everything_else():
    task = one(range(10))
    gate, reader = task.gate, task.exchange.reader
    next(task.exchange)
    task.partition.fail("gone")
    del task
    gc.collect()
    with pytest.raises(fb.errors.CancelTaskError):
        reader.gate.poll()
    gate.close()


@pytest.mark.parametrize("count", [2, 3])
def test_a_union_of_gates_is_read_as_well(count):
    """Two gates a task, over two partitions of each producer: the exchange writes one, a thread the other."""
    pool = fb.NetworkBufferPool(256, segment_size=4096)
    tasks = [Task(pool, count) for _ in range(count)]
    others = [fb.ResultPartition(pool, count) for _ in range(count)]
    for index, task in enumerate(tasks):
        gates = [
            fb.InputGate([(other.partition, index) for other in tasks]),
            fb.InputGate([(other, index) for other in others]),
        ]
        task.gate = fb.network.UnionInputGate(gates)
        task.exchange = RecordExchange(task.writer, fb.RecordReader(task.gate, LONG), range(index, 50_000, count))

    def write_others():
        for index, partition in enumerate(others):
            with fb.RecordWriter(partition, LONG, "rebalance") as writer:
                writer.emit_all(range(-1 - index, -20_000, -count))
            partition.close()

    thread = threading.Thread(target=write_others, daemon=True)
    thread.start()
    results = run_all(tasks)
    thread.join()
    assert sorted(itertools.chain(*results)) == list(range(-19_999, 50_000))
    figures = [task.exchange.figures() for task in tasks]
    assert sum(f["records_in"] for f in figures) == sum(map(len, results))
    assert all(f["buffers_in"] > 0 and f["bytes_in"] > f["records_in"] for f in figures)
    for task in tasks:
        task.gate.close()
    assert pool.available_segment_count == 256


def test_the_rest_is_written_past_a_union_too():
    pool = fb.NetworkBufferPool(64, segment_size=4096)
    task = Task(pool, 1)
    second = fb.ResultPartition(pool, 1)
    task.gate = fb.network.UnionInputGate([fb.InputGate([(task.partition, 0)]), fb.InputGate([(second, 0)])])
    exchange = RecordExchange(task.writer, fb.RecordReader(task.gate, LONG), range(20_000))
    next(exchange)
    with fb.RecordWriter(second, LONG) as writer:
        writer.emit(1)
    exchange.write_rest()
    assert task.partition.is_closed and task.gate.is_closed
    second.close()
    assert pool.available_segment_count == 64


def test_stream_elements_keep_their_timestamps():
    def elements():
        for n in range(20_000):
            yield fb.types.StreamRecord(n, n * 10 if n % 3 else None)
            if n % 100 == 99:
                yield fb.types.Watermark(n)

    type = fb.Types.STREAM_ELEMENT(LONG)
    tasks = connect_all([elements(), elements()], type=type, partitioner="rebalance")
    got = [[], []]

    def run(task, result):
        reader = task.exchange.reader
        for item in task.exchange:
            result.append((item, reader.timestamp))

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in zip(tasks, got, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "locked up"
    records = [item for result in got for item in result if isinstance(item[0], int)]
    assert sorted(records, key=lambda item: item[0]) == [
        (n, n * 10 if n % 3 else None) for n in range(20_000) for _ in range(2)
    ]
    for result in got:
        watermarks = [item for item, _ in result if isinstance(item, fb.types.Watermark)]
        assert sorted(watermarks) == [fb.types.Watermark(n) for n in range(99, 20_000, 100) for _ in range(2)]


def test_stream_elements_larger_than_all_memory_cross_each_other_without_locking_up():
    """A record or watermark that waits for room is gone on with after reading, and keeps its timestamp."""
    pool = fb.NetworkBufferPool(24, segment_size=4096)
    type = fb.Types.STREAM_ELEMENT(BYTES)
    sent = [e for n in range(40) for e in (fb.types.StreamRecord(bytes([n]) * 50_000, n), fb.types.Watermark(n))]
    tasks = [Task(pool, 2, type, "rebalance") for _ in range(2)]
    got = [[], []]
    for task in tasks:
        task.connect(tasks, iter(sent))

    def run(task, result):
        for item in task.exchange:
            result.append(item if isinstance(item, fb.types.Watermark) else (item[0], task.exchange.reader.timestamp))

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in zip(tasks, got, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "locked up"
    assert sorted(item for result in got for item in result if isinstance(item, tuple)) == [
        (n, n) for n in range(40) for _ in range(2)
    ]
    for result in got:
        assert sorted(item for item in result if isinstance(item, fb.types.Watermark)) == [
            fb.types.Watermark(n) for n in range(40) for _ in range(2)
        ]


def test_a_partition_that_has_a_bell_keeps_it():
    pool = fb.NetworkBufferPool(16, segment_size=4096)
    task, bell = Task(pool, 1), TaskBell()
    task.partition.share_bell(bell)
    assert list(task.connect([task], range(1000))) == list(range(1000))
    assert task.gate.bell is bell and bell.seen() > 0
