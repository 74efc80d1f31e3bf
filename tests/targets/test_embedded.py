"""Jobs on threads of this process: results, failures, cancellation, and nothing left behind."""

import functools
import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from flinkbuf._core.operators.function_operator import MapOperator
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.errors import CancelTaskError, PartitionNotFoundError
from flinkbuf.runtime.driver.running_job import RunningJob
from flinkbuf.runtime.graph.job_graph import build_job_graph
from flinkbuf.runtime.graph.stream_graph import GraphSettings, build_stream_graph
from flinkbuf.runtime.graph.transformation import KeyedExchange, OperatorTransformation, PartitionTransformation
from flinkbuf.runtime.manager.shuffle import segments_needed
from flinkbuf.runtime.protocol.failure import JobCanceledError
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.sinks.sink_factories import CallableSinkFactory
from flinkbuf.streaming.sources.source_factories import (
    CollectionSourceFactory,
    IterableSourceFactory,
    SourceOperatorFactory,
    source_factory_of,
)


def job_of(elements, function, collect, parallelism=1, **options):
    """elements -> map(function) -> by key -> map(+ 1) -> collect."""
    factory = elements if callable(elements) else CollectionSourceFactory(elements)
    source = OperatorTransformation("numbers", None, [], factory=factory, is_source=True, parallelism=1)
    first = OperatorTransformation("first", None, [source], factory=functools.partial(MapOperator, function))
    keyed = PartitionTransformation(
        "key", None, [first], partitioner=KeyedExchange(lambda value: value % 7), ship_strategy="HASH"
    )
    second = OperatorTransformation("second", None, [keyed], factory=functools.partial(MapOperator, add_one))
    sink = OperatorTransformation(
        "sink", None, [second], factory=CallableSinkFactory(collect), is_sink=True, parallelism=1
    )
    graph = build_job_graph(build_stream_graph([sink], GraphSettings("numbers", parallelism=parallelism)))
    return RunningJob(graph, **options)


def add_one(value):
    return value + 1


def run(job):
    job.start()
    job.wait(60)


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_every_record_comes_out_once(parallelism):
    out = []
    job = job_of(range(5000), lambda value: value * 2, out.append, parallelism)
    run(job)
    assert sorted(out) == [2 * value + 1 for value in range(5000)]
    assert job.status is JobStatus.FINISHED
    assert job.has_ended


def test_subtasks_have_copies_of_the_function():
    seen = []

    def remember(value):
        seen.append(value)
        return len(seen)

    out = []
    run(job_of(range(10), remember, out.append, 2))
    assert sorted(out) == sorted([2, 3, 4, 5, 6] * 2)
    assert seen == []


def test_the_error_of_a_function_comes_back_as_it_is_and_says_where():
    def refuse(value):
        if value == 30:
            raise KeyError("thirty")
        return value

    job = job_of(range(100), refuse, print_nothing, parallelism=2)
    with pytest.raises(KeyError, match="thirty") as caught:
        run(job)
    error = caught.value
    assert (error.operator_name, error.record) == ("first", 30)
    assert error.task_name.startswith("first (")
    assert job.status is JobStatus.FAILED
    assert job.exception is error


def print_nothing(value):
    """A sink that drops all."""


def test_the_first_error_is_the_job_s_not_its_echo():
    def refuse(value):
        raise OSError("the disk")

    for _ in range(20):
        with pytest.raises(OSError, match="the disk"):
            run(job_of(range(1000), refuse, print_nothing, parallelism=3))


def endless():
    number = 0
    while True:
        yield number
        number += 1


def test_cancel_ends_an_endless_job():
    arrived = threading.Event()
    job = job_of(IterableSourceFactory(endless), add_one, lambda value: arrived.set(), parallelism=2)
    job.start()
    assert arrived.wait(30)
    assert job.status is JobStatus.RUNNING
    job.cancel()
    job.cancel()
    with pytest.raises(JobCanceledError, match="'numbers' was canceled"):
        job.wait(30)
    assert job.status is JobStatus.CANCELED


class SlowToCancel:
    """A source that ends when it is told to, but whose cancel() returns only when the test lets it."""

    def run(self, ctx):
        while not threading.test_is_stopping.wait(0.01):
            ctx.collect(1)

    def cancel(self):
        threading.test_is_stopping.set()
        threading.test_may_return.wait(30)


def test_a_cancel_of_the_user_s_that_does_not_return_keeps_nobody_waiting(monkeypatch):
    from flinkbuf.runtime.manager import task_manager
    from flinkbuf.streaming.sources.source_factories import SourceFunctionFactory

    monkeypatch.setattr(task_manager, "CANCEL_WAIT_S", 0.01)
    threading.test_is_stopping, threading.test_may_return = threading.Event(), threading.Event()
    arrived = threading.Event()
    job = job_of(SourceFunctionFactory(SlowToCancel()), add_one, lambda value: arrived.set(), parallelism=2)
    job.start()
    assert arrived.wait(30)
    job.cancel()
    with pytest.raises(JobCanceledError):
        job.wait(20)
    threading.test_may_return.set()
    for thread in threading.enumerate():
        if thread.name.startswith("cancel "):
            thread.join(10)


def test_cancel_after_the_end_changes_nothing():
    job = job_of([1], add_one, print_nothing)
    run(job)
    job.cancel()
    job.wait(1)
    assert job.status is JobStatus.FINISHED


def test_cancel_at_once_ends_the_job():
    for _ in range(50):
        job = job_of(IterableSourceFactory(endless), add_one, print_nothing, parallelism=2)
        job.start()
        job.cancel()
        with pytest.raises(JobCanceledError):
            job.wait(30)


def test_wait_gives_up_after_its_time_and_the_job_goes_on():
    job = job_of(IterableSourceFactory(endless), add_one, print_nothing)
    job.start()
    with pytest.raises(TimeoutError, match="has not ended after 0"):
        job.wait(0.01)
    assert not job.has_ended
    job.cancel()
    with pytest.raises(JobCanceledError):
        job.wait(30)


def test_a_function_that_loops_is_interrupted_at_once():
    """With the default of task.cancellation.interval, which is longer than this waits."""
    begun = threading.Event()

    def spin(value):
        begun_by_reference()
        while True:
            pass

    threading.test_begun = begun  # functions are copied, modules are not
    job = job_of([1], spin, print_nothing)
    job.start()
    assert begun.wait(30)
    job.cancel()
    with pytest.raises(JobCanceledError):
        job.wait(20)


@pytest.fixture
def sleeper():
    """A function that waits in a system call until the test ends, and what says that it does."""
    begun, may_return = threading.Event(), threading.Event()
    threading.test_begun, threading.test_may_return = begun, may_return
    yield begun
    may_return.set()
    for thread in threading.enumerate():
        if "Map" in thread.name or "a job" in thread.name:
            thread.join(20)


def sleeps(value):
    begun_by_reference()
    threading.test_may_return.wait(60)


def test_a_function_that_sleeps_is_left_behind_when_the_time_for_cancelling_is_over(sleeper, caplog):
    settings = ExecutionSettings(task_cancellation_timeout_ms=300)
    job = job_of([1], sleeps, print_nothing, settings=settings)
    job.start()
    assert sleeper.wait(30)
    job.cancel()
    with pytest.raises(JobCanceledError):
        job.wait(20)
    assert "is left behind in sleeps (" in caplog.text and __file__ in caplog.text
    assert "(task.cancellation.timeout): a function does not return" in caplog.text


def test_ctrl_c_does_not_wait_for_a_function_that_sleeps(sleeper, monkeypatch, caplog):
    monkeypatch.setattr("flinkbuf.runtime.driver.running_job.LEAVE_S", 0.1)
    job = job_of([1], sleeps, print_nothing)
    job.start()
    assert sleeper.wait(30)

    class CtrlC(threading.Event):
        is_first = True

        def wait(self, timeout=None):
            if self.is_first:
                self.is_first = False
                raise KeyboardInterrupt
            return super().wait(timeout)

    job._ended = CtrlC()
    with pytest.raises(KeyboardInterrupt):
        job.wait()
    assert not job.has_ended
    assert "is left behind after Ctrl-C" in caplog.text
    threading.test_may_return.set()
    assert job._ended.wait(20)


def begun_by_reference():
    threading.test_begun.set()


def test_a_function_that_cannot_be_copied_is_named():
    lock = threading.Lock()
    job = job_of([1], lambda value: lock, print_nothing)
    with pytest.raises(
        TypeError, match="operator 'first': closure variable 'lock' of function <lambda> cannot be pickled"
    ):
        job.start()
    assert job.status is JobStatus.FAILED


def test_those_who_asked_are_told_of_the_end():
    ends = []
    job = job_of([1], lambda value: 1 // 0, print_nothing, on_end=[ends.append])
    with pytest.raises(ZeroDivisionError):
        run(job)
    assert ends == [job.exception]
    job = job_of([1], add_one, print_nothing, on_end=[ends.append])
    run(job)
    assert ends[1:] == [None]


def test_who_asked_and_fails_keeps_nobody_waiting(caplog):
    ends = []

    def refuse(error):
        raise ValueError("not now")

    run(job_of([1], add_one, print_nothing, on_end=[refuse, ends.append]))
    assert ends == [None]
    assert "telling" in caplog.text


class ExitsInTheEnd(NumberSequenceSource):
    def create_enumerator(self, context):
        enumerator = super().create_enumerator(context)
        enumerator.close = sys.exit
        return enumerator


def test_an_enumerator_that_exits_when_it_is_closed_keeps_nobody_waiting(caplog):
    out = []
    run(job_of(SourceOperatorFactory(ExitsInTheEnd(1, 10), None), add_one, out.append))
    assert sorted(out) == [value + 2 for value in range(1, 11)]
    assert "closing the coordinator of a source failed" in caplog.text


def test_a_task_that_gives_up_uncalled_fails_the_job():
    def give_up(value):
        if value == 30:
            raise CancelTaskError("enough")
        return value

    out = []
    job = job_of(range(100), give_up, out.append)
    with pytest.raises((CancelTaskError, PartitionNotFoundError)):  # its own, or that of who was to read from it
        run(job)
    assert job.status is JobStatus.FAILED


class FailsLater:
    """A source whose thread ends with an error, and whose cancel() raises."""

    def __init__(self, cancel_error=None):
        self.cancel_error = cancel_error

    def run(self, context):
        context.collect(1)
        if self.cancel_error is None:
            raise OSError("the line is dead")
        while not context.is_canceled:
            time.sleep(0.001)

    def cancel(self):
        if self.cancel_error is not None:
            raise self.cancel_error


def test_the_error_of_a_source_says_where():
    for factory in (source_factory_of(FailsLater()), IterableSourceFactory(broken)):
        for _ in range(10):
            with pytest.raises(OSError, match="the line is dead") as caught:
                run(job_of(factory, add_one, print_nothing))
            assert caught.value.operator_name == "Source: numbers"
            assert caught.value.subtask_index == 0


def unreadable(value):
    return Unreadable()


class Unreadable:
    def __mod__(self, divisor):  # what it is keyed by
        return 0

    def __reduce__(self):
        return int, ("x",)


def test_a_record_that_cannot_be_read_says_who_reads_it():
    with pytest.raises(ValueError, match="invalid literal") as caught:
        run(job_of([1], unreadable, print_nothing))
    assert caught.value.operator_name == "second"


def broken():
    yield 1
    raise OSError("the line is dead")


@pytest.mark.parametrize("error", [ValueError("cancel"), SystemExit(3), KeyboardInterrupt()])
def test_a_source_whose_cancel_raises_ends_with_its_job(error):
    for _ in range(5):
        job = job_of(source_factory_of(FailsLater(error)), add_one, print_nothing, parallelism=2)
        job.start()
        time.sleep(0.02)
        job.cancel()
        with pytest.raises(JobCanceledError):
            job.wait(30)


def test_a_job_that_gets_no_thread_has_ended(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    ends = []
    job = job_of([1], add_one, print_nothing, on_end=[ends.append])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            job.start()
    assert job.has_ended
    assert job.status is JobStatus.FAILED
    assert ends == [job.exception]


def test_ctrl_c_while_a_job_starts_cancels_it(monkeypatch):
    job = job_of(IterableSourceFactory(endless), add_one, print_nothing, parallelism=2)
    start = threading.Thread.start

    def interrupted(thread):
        start(thread)
        if thread.name.startswith("job "):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            job.run()
    with pytest.raises(JobCanceledError):
        job.wait(30)


def test_ctrl_c_between_start_and_wait_cancels_a_job(monkeypatch):
    job = job_of(IterableSourceFactory(endless), add_one, print_nothing, parallelism=2)

    def interrupted():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(job, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            job.run()
    with pytest.raises(JobCanceledError):
        job.wait(30)


def open_files():
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


@pytest.mark.long
def test_three_hundred_jobs_leave_nothing():
    out = []

    def round_trip():
        out.clear()
        run(job_of(range(20), add_one, out.append, parallelism=2))
        assert len(out) == 20

    round_trip()
    gc.collect()
    threads, files, objects = threading.active_count(), open_files(), len(gc.get_objects())
    for _ in range(300):
        round_trip()
    gc.collect()
    assert threading.active_count() == threads
    assert open_files() <= files
    assert len(gc.get_objects()) < objects + 600


def test_the_program_may_end_while_a_job_runs():
    code = (
        "import test_embedded as t; from flinkbuf.streaming.sources.source_factories import IterableSourceFactory as S;"
        "j = t.job_of(S(t.endless), t.add_one, t.print_nothing, parallelism=2); j.start(); print('over')"
    )
    here = Path(__file__).parent
    ended = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "over\n", "")


def test_buffers_of_a_wide_job_are_bounded():
    job = job_of([1], add_one, print_nothing, parallelism=60)
    assert segments_needed(job.plan) <= 8192 * 51 // 50 + 1
