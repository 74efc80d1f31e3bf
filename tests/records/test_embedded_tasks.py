"""Tasks as threads of one process: local channels, one network pool, one bell a task, and nothing left behind."""

import gc
import os
import random
import threading
import time

import pytest

import flinkbuf as fb
from flinkbuf._core.ground.wakeup import TaskBell
from flinkbuf._core.partition.output_flusher import flushed_partition_count
from flinkbuf.network.partition import buffer_limits

LONG_MAX = 2**63 - 1
ELEMENT = fb.Types.STREAM_ELEMENT(fb.Types.TUPLE([fb.Types.LONG(), fb.Types.LONG()]))


class Task:
    """The loop of a stream task: it asks whether it can move before it moves, and sleeps on one bell otherwise."""

    def __init__(self, pool, output_count, partitioner, records=()):
        self.bell = TaskBell()
        self.partition = fb.ResultPartition(pool, output_count) if output_count else None
        self.writer = None
        if self.partition is not None:
            self.partition.share_bell(self.bell)
            self.writer = fb.RecordWriter(self.partition, ELEMENT, partitioner, buffer_timeout_ms=5, seed=0)
        self.records = iter(records)
        self.reader = None
        self.received, self.watermarks = [], []
        self.error, self.job = None, ()
        self.longest_sleep = 0.0

    def read_from(self, *groups, index=0):
        """One gate for each group of upstream tasks."""
        gates = [fb.InputGate([(task.partition, index) for task in group]) for group in groups]
        gate = gates[0] if len(gates) == 1 else fb.network.UnionInputGate(gates)
        gate.share_bell(self.bell)
        self.reader = fb.RecordReader(gate, ELEMENT)

    def run(self):
        try:
            while self.step():
                pass
        except BaseException as error:
            self.error = error
            for task in self.job:  # also those whose output this one has never asked for
                if task.partition is not None:
                    task.partition.fail(error)
        finally:
            self.close()

    def step(self):
        """A turn; whether another one is to follow."""
        seen = self.bell.seen()
        for _ in range(50):
            if self.writer is not None and not self.writer.is_available:
                break
            state = self.move() if self.reader is not None else self.produce()
            if state == "FINISHED":
                return self.finish()
            if state == "NOTHING":
                break
        else:
            return True
        since = time.monotonic()
        self.bell.wait(seen, 100)
        self.longest_sleep = max(self.longest_sleep, time.monotonic() - since)
        return True

    def produce(self):
        item = next(self.records, None)
        if item is None:
            self.writer.write_watermark(LONG_MAX)
            return "FINISHED"
        self.writer.write_element(item, item[1])
        return "RECORD"

    def move(self):
        kind, value, timestamp, channel = self.reader.poll()
        if kind == "RECORD":
            self.process(value, timestamp)
        elif kind == "WATERMARK":
            self.watermarks.append((channel, timestamp))
            if self.writer is not None:
                self.writer.write_watermark(timestamp)
        return kind

    def process(self, value, timestamp):
        assert value[1] == timestamp
        if self.writer is None:
            self.received.append(value)
        else:
            self.writer.write_element((value[0], value[1] + 1), timestamp + 1)

    def finish(self):
        """Say the end, and wait until all of it was processed: no thread sleeps in the core meanwhile."""
        if self.writer is None:
            return False
        self.writer.close()
        while not self.partition.is_answered:
            seen = self.bell.seen()
            if not self.partition.is_answered:
                self.bell.wait(seen, 100)
        return False

    def close(self):
        if self.reader is not None:
            self.reader.close()
            self.reader.gate.close()
        if self.partition is not None:
            self.writer.stop()
            self.partition.close()


class FailingTask(Task):
    def process(self, value, timestamp):
        if value[0] == 7:
            raise ZeroDivisionError("in the user's function")
        super().process(value, timestamp)


def run_job(record_count=40, parallelism=2, middle=Task):
    """sources -> (by key) middle -> (rebalance) one sink, which also reads a side output of nobody but the sources."""
    widths = [parallelism] * parallelism + [1] * (parallelism + 1)
    size = 1 + sum(buffer_limits("PIPELINED_BOUNDED", width, 2, 8)[1] for width in widths)
    pool = fb.NetworkBufferPool(size, 4096)
    with pool:
        pairs = [(n, n * 10) for n in range(record_count)]
        sources = [Task(pool, parallelism, fb.by_key(0), pairs[i::parallelism]) for i in range(parallelism)]
        middles = [middle(pool, 1, "rebalance") for _ in range(parallelism)]
        side = Task(pool, 1, "global", [(-1, 5)])
        sink = Task(pool, 0, None)
        for index, task in enumerate(middles):
            task.read_from(sources, index=index)
        sink.read_from(middles, [side])
        tasks = [*sources, *middles, side, sink]
        for task in tasks:
            task.job = tasks
        threads = [threading.Thread(target=task.run, daemon=True) for task in tasks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "locked up"
        gc.collect() if middle is FailingTask else None
        assert pool.available_segment_count == pool.total_segment_count, "a segment did not come home"
    return tasks


def test_records_and_watermarks_arrive_through_a_union_of_local_gates():
    tasks = run_job(20_000)
    assert [task.error for task in tasks] == [None] * len(tasks)
    sink = tasks[-1]
    assert sorted(sink.received) == [(-1, 5), *((n, n * 10 + 1) for n in range(20_000))]
    assert sorted(sink.watermarks) == [(0, LONG_MAX)] * 2 + [(1, LONG_MAX)] * 2 + [(2, LONG_MAX)]
    assert max(task.longest_sleep for task in tasks) < 10, "nobody sleeps for longer than a slice"


def test_a_task_that_fails_ends_all_others_with_its_reason():
    tasks = run_job(20_000, middle=FailingTask)
    errors = [task.error for task in tasks if task.error is not None]
    assert any(isinstance(error, ZeroDivisionError) for error in errors)
    told = [error for error in errors if not isinstance(error, ZeroDivisionError)]
    assert isinstance(tasks[-1].error, fb.errors.CancelTaskError) and "in the user's function" in str(tasks[-1].error)
    assert all(isinstance(error, fb.errors.CancelTaskError) for error in told)


def left_behind():
    """What a job may not leave: threads (the core's, too), descriptors, partitions that somebody flushes."""
    counts = [len(os.listdir(path)) for path in ("/proc/self/task", "/proc/self/fd") if os.path.isdir(path)]
    return threading.active_count(), flushed_partition_count(), *counts


@pytest.mark.long
def test_three_hundred_jobs_leave_nothing_behind():
    run_job()
    gc.collect()
    before = left_behind()
    for turn in range(300):
        tasks = run_job(10, middle=FailingTask if turn % 10 == 0 else Task)
        assert turn % 10 == 0 or sorted(tasks[-1].received)[0] == (-1, 5)
    del tasks
    gc.collect()
    # What other tests have left may go meanwhile.
    assert all(now <= then for now, then in zip(left_behind(), before, strict=True)), (left_behind(), before)


@pytest.mark.parametrize("seed", range(10))
def test_a_thousand_partitions_and_gates_over_one_pool_give_every_segment_back(seed):
    """Opened, used, left half read, released and closed in any order."""
    chance = random.Random(seed)
    with fb.NetworkBufferPool(256, segment_size=256) as pool:
        for _ in range(100):
            width = chance.randint(1, 4)
            partitions = [fb.ResultPartition(pool, width) for _ in range(chance.randint(1, 4))]
            writers = [fb.RecordWriter(p, "bigint", "rebalance", chance.choice([-1, 0, 1, 100])) for p in partitions]
            gates = [fb.InputGate([(p, channel) for p in partitions]) for channel in range(width)]
            for writer in writers:
                writer.emit_all(range(chance.randint(0, 60)))
                if chance.random() < 0.8:
                    writer.close()
            for gate in gates:
                reader = fb.RecordReader(gate, "bigint")
                for _ in range(chance.randint(0, 40)):
                    if reader.poll()[0] not in ("RECORD", "WATERMARK"):
                        break
            things = [*partitions, *gates]
            chance.shuffle(things)
            for thing in things:
                thing.close()
        del writer, reader
        writers.clear()
        gc.collect()
        assert pool.available_segment_count == 256
