"""Tasks of a pipelined exchange of batches, as threads of this process: no Spark, no sockets, little memory."""

import threading

import pyarrow as pa
import pytest
from support.waiting import wait_until

import flinkbuf as fb
from flinkbuf.spark.exchange.batch_exchange import BatchExchange
from flinkbuf.spark.exchange.frame_schema import type_between_tasks
from flinkbuf.spark.exchange.frame_tasks import BatchLimits, Columns

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string())])
COLUMNS = Columns(SCHEMA, type_between_tasks(SCHEMA), BatchLimits(1000, 1 << 20))


def batch_of(numbers):
    numbers = list(numbers)
    return pa.record_batch([pa.array(numbers, pa.int64()), pa.array(["x" * 50] * len(numbers))], schema=SCHEMA)


def nothing():
    """What a task looks at meanwhile, where there is nothing to see."""


class Tasks:
    """So many tasks that send to each other; each may have few buffers."""

    def __init__(self, inputs, partitioner="rebalance", check=nothing, buffers=2):
        count = len(inputs)
        partitions = [
            fb.ResultPartition(fb.NetworkBufferPool(count * buffers + 4, segment_size=4096), count) for _ in inputs
        ]
        self.partitions, self.exchanges = partitions, []
        for index, batches in enumerate(inputs):
            writer = fb.RecordWriter(partitions[index], COLUMNS.type, partitioner, 100, subtask_index=index)
            gate = fb.InputGate([(partition, index) for partition in partitions])
            self.exchanges.append(
                BatchExchange(writer, partitions[index], gate, COLUMNS.builder(), iter(batches), check)
            )
        self.results = [[] for _ in inputs]
        self.errors = [None for _ in inputs]

    def _run(self, index, take):
        exchange = self.exchanges[index]
        try:
            for batch in exchange:
                self.results[index] += batch.column(0).to_pylist()
                if take is not None and len(self.results[index]) >= take:
                    break
            exchange.write_rest()
        except Exception as error:
            self.errors[index] = error
            exchange.give_up(f"{type(error).__name__}: {error}")

    def run(self, takes=None):
        threads = [
            threading.Thread(target=self._run, args=(index, (takes or {}).get(index)))
            for index in range(len(self.exchanges))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive(), "two tasks wait for each other"
        return self.results


def inputs_of(count, batches=20, rows=1000):
    return [
        [
            batch_of(range((task * batches + number) * rows, (task * batches + number + 1) * rows))
            for number in range(batches)
        ]
        for task in range(count)
    ]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_all_rows_arrive_however_little_room_there_is(count):
    tasks = Tasks(inputs_of(count), fb.by_key("id"))
    got = tasks.run()
    assert tasks.errors == [None] * count
    assert sorted(number for part in got for number in part) == list(range(count * 20_000))
    selector = fb.by_key("id").selector(COLUMNS.type, count)
    for index, part in enumerate(got):
        assert {selector.select_channel((number, "")) for number in part} <= {index}
        for task in range(count):
            mine = [number for number in part if number // 20_000 == task]
            assert mine == sorted(mine)


def test_what_is_counted_is_what_was_sent():
    tasks = Tasks(inputs_of(2))
    tasks.run()
    figures = [exchange.figures() for exchange in tasks.exchanges]
    assert [figure["records_out"] for figure in figures] == [20_000, 20_000]
    assert sum(figure["records_in"] for figure in figures) == 40_000
    assert figures[0]["bytes_out"] > 20_000 * 50
    assert figures[0]["peak_buffers"] > 0


def test_a_task_that_stops_early_keeps_nobody_waiting_and_sends_its_own():
    tasks = Tasks(inputs_of(3))
    got = tasks.run(takes={1: 1000})
    assert tasks.errors == [None] * 3
    assert len(got[1]) < 2500
    assert sum(len(part) for part in (got[0], got[2])) == pytest.approx(40_000, abs=60)


def test_an_empty_task_gets_its_share():
    tasks = Tasks([[], *inputs_of(1)])
    assert [len(part) for part in tasks.run()] == [10_000, 10_000]


def test_what_the_batches_raise_comes_out_of_their_task_and_ends_the_others():
    def broken():
        yield batch_of(range(5000))
        raise KeyError("no such file")

    tasks = Tasks([broken(), *inputs_of(2)])
    tasks.run()
    assert isinstance(tasks.errors[0], KeyError)
    assert all("no such file" in str(error) for error in tasks.errors[1:])
    assert all(partition.is_released for partition in tasks.partitions)


def test_a_row_that_is_refused_is_known_as_the_tasks_own():
    bad = pa.record_batch([pa.array([1, None]), pa.array(["a", "b"])], schema=SCHEMA)
    tasks = Tasks([[bad], [batch_of(range(10))]], fb.by_key("id"))
    tasks.run()
    assert "row 1" in str(tasks.errors[0])
    assert tasks.exchanges[0].has_record_in_hand
    assert not tasks.exchanges[1].has_record_in_hand


def test_what_the_check_raises_ends_a_task_that_waits():
    failing = threading.Event()
    never = threading.Event()

    def check():
        if failing.is_set():
            raise fb.errors.PeerFailedError("task 1 is gone")

    def slow():
        yield batch_of(range(10))
        failing.set()
        never.wait(20)

    tasks = Tasks([slow(), [batch_of(range(10))]], check=check)
    tasks.run()
    never.set()
    assert "task 1 is gone" in str(tasks.errors[0])
    assert any(isinstance(error, fb.errors.PeerFailedError) for error in tasks.errors)


def test_first_rows_come_before_the_last_are_there():
    seen = threading.Event()

    def in_two_parts():
        yield batch_of(range(10))
        assert seen.wait(20), "the first rows wait for more"
        yield batch_of(range(10, 20))

    tasks = Tasks([in_two_parts()])
    exchange = tasks.exchanges[0]
    assert next(exchange).column(0).to_pylist() == list(range(10))
    seen.set()
    assert [number for batch in exchange for number in batch.column(0).to_pylist()] == list(range(10, 20))


def test_no_thread_is_left(nothing_is_left):
    before = threading.active_count()
    Tasks(inputs_of(2, 2)).run()
    wait_until(lambda: threading.active_count() == before)
