"""Tasks of a pipelined exchange as threads of this process, with a real driver and network: no Spark."""

import contextlib
import threading

import pytest
from support.waiting import wait_until

import flinkbuf as fb
from flinkbuf.control import control_server
from flinkbuf.errors import PeerFailedError
from flinkbuf.records.partitioner import as_partitioner
from flinkbuf.spark.exchange import exchange_task, pipelined
from flinkbuf.spark.exchange.blocking import WriteTask
from flinkbuf.spark.exchange.exchange_job import Exchanges
from flinkbuf.spark.exchange.pipelined import PipelinedTask
from flinkbuf.spark.stage import stage_runs
from flinkbuf.spark.stage.barrier_task import StageTask
from flinkbuf.spark.stage.driver_address import listen_for_tasks
from flinkbuf.spark.stage.meeting import Meeting
from flinkbuf.spark.stage.stage_progress import UnknownStages

WHERE = "exchange 00000000000000ab, task"


@pytest.fixture
def exchanges(monkeypatch):
    """Exchanges of a driver of their own, whose tasks are told by their thread which ones of Spark's they are."""
    monkeypatch.setattr(control_server, "_shared", {})
    monkeypatch.setattr(exchange_task, "this_task", lambda: threading.current_thread().stage_task)
    monkeypatch.setattr(pipelined, "check_all_run", lambda *which: None)
    opened = Meeting(lambda tls: listen_for_tasks({"spark.driver.host": "127.0.0.1"}, tls), UnknownStages())
    with contextlib.closing(opened):
        yield Exchanges(opened)


class SparkTask(threading.Thread):
    """Spark's thread of a task: takes the records, all of them if nothing else is said."""

    def __init__(self, exchanges, write, index, source, take=list, number=None):
        super().__init__(daemon=True)
        self.index, self.source, self.take = index, source, take
        self.task = PipelinedTask(write, exchanges.address_of(write), None)
        self.stage_task = StageTask(7, index if number is None else number)
        self.result = self.error = None
        self.start()

    def run(self):
        try:
            self.result = self.take(self.task(self.index, self.source))
        except Exception as error:
            self.error = error

    def end(self):
        self.join(20)
        assert not self.is_alive(), f"task {self.index} does not end"
        return self.result if self.error is None else self.error


def write(partitioner="rebalance", count=3):
    return WriteTask(0xAB, fb.Types.LONG(), as_partitioner(partitioner), count, count)


def run(exchanges, sources, partitioner="rebalance", takes=None):
    """What each task has got, or failed with."""
    takes, task = takes or {}, write(partitioner, len(sources))
    tasks = [SparkTask(exchanges, task, index, source, takes.get(index, list)) for index, source in enumerate(sources)]
    return [each.end() for each in tasks]


def our_threads():
    """Threads of a job; the reader of the process that starts local workers stays, if a test before this one had it."""
    return sorted(thread.name for thread in threading.enumerate() if is_of_a_job(thread.name))


def is_of_a_job(name):
    return name.startswith(("flinkbuf", "job ")) and name != "flinkbuf-launcher"


@pytest.mark.parametrize("partitioner", ["rebalance", "broadcast", "global", "forward", "rescale"])
def test_all_records_arrive_and_are_counted(exchanges, partitioner):
    got = run(exchanges, [range(index, 3000, 3) for index in range(3)], partitioner)
    copies = 3 if partitioner == "broadcast" else 1
    assert sorted(number for part in got for number in part) == sorted([*range(3000)] * copies)
    if partitioner in ("forward", "rescale"):
        assert got == [[*range(index, 3000, 3)] for index in range(3)]
    (summary,) = exchanges.summaries
    assert [task.records_in for task in summary.tasks] == [len(part) for part in got]
    assert summary.total("records_out") == 3000
    assert all(task.total_ms >= 0 and task.peak_buffers > 0 for task in summary.tasks)
    wait_until(lambda: our_threads() == ["flinkbuf-control", "flinkbuf-stages"])


def test_a_task_that_is_done_ends_though_others_work_on(exchanges):
    first, gate = SparkTask(exchanges, write("forward", 2), 0, range(5)), threading.Event()

    def slow():
        yield 1
        gate.wait(20)

    second = SparkTask(exchanges, write("forward", 2), 1, slow())
    assert first.end() == [0, 1, 2, 3, 4]
    assert second.is_alive() and not exchanges.summaries
    gate.set()
    assert second.end() == [1]
    assert len(exchanges.summaries) == 1


def test_the_others_are_told_which_task_failed_and_with_what(exchanges):
    got = run(exchanges, [range(10**7), iter([1, "two"]), range(10**7)])
    assert isinstance(got[1], TypeError) and str(got[1]).startswith("producer 1, record 1: ")
    for index in (0, 2):
        assert isinstance(got[index], PeerFailedError)
        assert str(got[index]).startswith(f"{WHERE} {index}: task 1 (process ")
        assert "failed with TypeError: producer 1, record 1: " in str(got[index])
    assert not exchanges.summaries
    wait_until(lambda: our_threads() == ["flinkbuf-control", "flinkbuf-stages"])


def test_the_others_are_told_of_code_that_failed_over_the_records(exchanges):
    def take(records):
        try:
            next(records)
            raise KeyError("mine")
        finally:
            records.close()

    got = run(exchanges, [range(10**7)] * 2, takes={0: take})
    assert isinstance(got[0], KeyError)
    assert "the code that reads its records failed with KeyError: 'mine'" in str(got[1])


def test_an_error_of_the_source_comes_through_unchanged(exchanges):
    def source():
        yield 1
        raise OSError("no input")

    got = run(exchanges, [range(10**7), source()])
    assert isinstance(got[1], OSError) and str(got[1]) == "no input"
    assert "failed with OSError: no input" in str(got[0])


def test_who_stops_early_still_sends_the_others_theirs(exchanges):
    def take_one(records):
        first = next(records)
        records.close()
        return [first]

    got = run(exchanges, [range(3000)] * 2, "broadcast", takes={0: take_one})
    assert len(got[0]) == 1
    assert len(got[1]) == 6000
    assert exchanges.summaries[-1].tasks[0].records_in == 1


def test_the_end_of_the_driver_ends_the_tasks(exchanges):
    begun = threading.Event()

    def endless():
        while True:
            begun.set()
            yield 1

    tasks = [SparkTask(exchanges, write(count=2), index, endless(), take=sum) for index in (0, 1)]
    assert begun.wait(20)
    exchanges.meeting.close()
    for task in tasks:
        assert "the driver ended its connection to this task; it has stopped" in str(task.end())
    wait_until(lambda: our_threads() == [])


def test_a_new_attempt_ends_the_old_one_and_one_that_is_late_is_sent_away(exchanges):
    def endless():
        while True:
            yield 1

    old = SparkTask(exchanges, write(count=1), 0, endless(), take=sum, number=10)
    wait_until(lambda: exchanges.meeting.runs._members)
    assert SparkTask(exchanges, write(count=1), 0, range(3), number=20).end() == [0, 1, 2]
    assert str(old.end()) == f"{WHERE} 0: Spark has started stage 7 again"
    late = SparkTask(exchanges, write(count=1), 0, range(3), number=11).end()
    assert str(late) == f"{WHERE} 0: Spark has started a later attempt of stage 7 than this task's"


@pytest.mark.parametrize("task_count", [2, 3])
def test_the_others_are_told_of_a_task_that_goes_before_it_has_begun(exchanges, task_count):
    """With two all have come, and it is deployed nevertheless."""
    others = write(count=task_count)
    waiting = SparkTask(exchanges, others, 0, range(3))
    wait_until(lambda: exchanges.meeting.runs._members)

    def come_and_go():
        manager = PipelinedTask(others, exchanges.address_of(others), None)._join(1)
        wait_until(lambda: len(exchanges.meeting.runs._members) == 2)
        manager.abandon(KeyboardInterrupt())

    thread = threading.Thread(target=come_and_go)
    thread.stage_task = StageTask(7, 1)
    thread.start()
    assert f"{WHERE} 0: task 1 (process " in str(waiting.end())
    thread.join()
    wait_until(lambda: our_threads() == ["flinkbuf-control", "flinkbuf-stages"])


def test_a_driver_that_is_out_of_reach_is_an_error_that_says_what_to_open(exchanges):
    address = exchanges.address_of(write(count=1))
    exchanges.meeting.close()
    task = PipelinedTask(write(count=1), address, None)
    with pytest.raises(fb.errors.RemoteTransportError, match=f"{WHERE} 0: .*cannot reach the driver at 127.0.0.1:"):
        task(0, range(3))


def test_the_failure_of_a_task_waits_no_longer_than_spark_has_time_to_hear_of_it():
    assert stage_runs.FAILURE_WAIT_MS < 1000 * pipelined.NOTICE_PATIENCE_S
