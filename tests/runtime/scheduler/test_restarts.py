"""Jobs that begin again on threads of this process: when, what of them, and when not."""

import threading
import time

import pytest
from support.programs import restarts
from support.programs.restarts import InPipeline, add_one, fail_at_30, job_of, pipelines_of, run
from support.waiting import wait_until

from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.runtime.master.restart_strategy import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    NoRestart,
)
from flinkbuf.runtime.protocol.failure import JobCanceledError
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.streaming.sinks.collect import Collector
from flinkbuf.streaming.sinks.sink_factories import CollectSinkFactory
from flinkbuf.streaming.sources.source_factories import (
    CollectionSourceFactory,
    IterableSourceFactory,
    SourceOperatorFactory,
)

AT_ONCE = FixedDelayRestart(attempts=3, delay_ms=0)
ALL = set(range(100))


def numbers():
    return CollectionSourceFactory(range(100))


def sequence(last=99):
    return SourceOperatorFactory(NumberSequenceSource(0, last), None)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_job_whose_function_fails_begins_again_and_gives_everything(parallelism):
    restarts.reset(function=2)
    out = []
    job = job_of(numbers(), fail_at_30, out.append, parallelism, restart_strategy=AT_ONCE)
    run(job)
    assert job.status is JobStatus.FINISHED and job.exception is None
    assert set(out) == ALL
    assert len(out) < 3 * len(ALL)  # without checkpoints some come several times
    assert restarts.left["function"] == 0


STRATEGIES = [
    (NoRestart(), 0),
    (None, 0),
    (FixedDelayRestart(attempts=2, delay_ms=1), 2),
    (FailureRateRestart(max_failures=3, failure_interval_ms=60_000, delay_ms=1), 3),
    (ExponentialDelayRestart(1, 4, 2.0, attempts_before_reset=4), 4),
]


@pytest.mark.parametrize(("strategy", "restart_count"), STRATEGIES)
def test_a_strategy_gives_up_and_the_last_error_is_the_job_s(strategy, restart_count):
    for failures in (restart_count, restart_count + 1):
        restarts.reset(function=failures)
        job = job_of(numbers(), fail_at_30, [].append, 2, restart_strategy=strategy)
        if failures == restart_count:
            run(job)
            assert job.status is JobStatus.FINISHED
            continue
        with pytest.raises(ValueError, match="thirty") as caught:
            run(job)
        assert job.status is JobStatus.FAILED
        assert (caught.value.operator_name, caught.value.record) == ("first", 30)
        assert caught.value.task_name.endswith(f"#{restart_count}")


def test_the_delay_of_a_strategy_is_waited_for():
    restarts.reset(function=1)
    job = job_of(numbers(), fail_at_30, [].append, restart_strategy=FixedDelayRestart(1, 200))
    started = time.monotonic()
    run(job)
    assert time.monotonic() - started >= 0.2


def test_only_the_pipeline_of_the_subtask_that_failed_begins_again():
    restarts.reset(pipeline=1)
    out = []
    run(pipelines_of(InPipeline(), out.append, 3, count=30, restart_strategy=AT_ONCE))
    assert set(out) == set(range(1, 31))
    assert {index: restarts.calls[f"open {index}"] for index in range(3)} == {0: 1, 1: 2, 2: 1}
    seen = [(index, value) for index, value in filter(lambda call: isinstance(call, tuple), restarts.calls.elements())]
    for index in (0, 2):  # the others have read each of their records once
        values = [value for each, value in seen if each == index]
        assert len(values) == len(set(values))
    assert restarts.left["pipeline"] == 0


def test_a_job_can_be_canceled_while_it_waits_to_begin_again():
    restarts.reset(function=1)
    job = job_of(numbers(), fail_at_30, [].append, 2, restart_strategy=FixedDelayRestart(1, 3_600_000))
    job.start()
    wait_until(lambda: job.status is JobStatus.RESTARTING)
    started = time.monotonic()
    job.cancel()
    with pytest.raises(JobCanceledError):
        job.wait(30)
    assert time.monotonic() - started < 10
    assert job.status is JobStatus.CANCELED and job.exception is None


@pytest.mark.parametrize("source_parallelism", [1, 2])
def test_splits_are_given_out_anew(source_parallelism):
    for _ in range(10):
        restarts.reset(function=2)
        out = []
        job = job_of(sequence(), fail_at_30, out.append, 2, source_parallelism, restart_strategy=AT_ONCE)
        run(job)
        assert set(out) == ALL


class FailingSource(NumberSequenceSource):
    """Its enumerator fails at the first request, as often as it may."""

    def create_enumerator(self, context):
        enumerator = super().create_enumerator(context)
        restarts.note("enumerator")
        answer = enumerator.handle_split_request

        def handle(subtask, host):
            restarts.fail("enumerator", "no split to give")
            answer(subtask, host)

        enumerator.handle_split_request = handle
        return enumerator


def test_an_enumerator_that_fails_is_made_anew_with_the_whole_job():
    restarts.reset(enumerator=2)
    out = []
    source = SourceOperatorFactory(FailingSource(0, 99), None)
    run(job_of(source, add_one, out.append, 2, 2, restart_strategy=AT_ONCE))
    assert set(out) == {value + 1 for value in ALL}
    assert restarts.calls["enumerator"] == 3


def test_an_enumerator_that_fails_without_a_restart_says_where():
    restarts.reset(enumerator=1)
    with pytest.raises(ValueError, match="no split to give") as caught:
        run(job_of(SourceOperatorFactory(FailingSource(0, 99), None), add_one, [].append))
    assert caught.value.operator_name == "Source: numbers"


# What exists only once


def notes_of(error):
    return " ".join(getattr(error, "__notes__", ["no notes before Python 3.11: the job was not restarted"]))


def test_a_job_that_reads_an_iterator_of_the_program_does_not_begin_again(caplog):
    restarts.reset(function=1)
    out = []
    source = IterableSourceFactory(number for number in range(100))
    job = job_of(source, fail_at_30, out.append, restart_strategy=FixedDelayRestart(3, 3_600_000))
    with pytest.raises(ValueError, match="thirty") as caught:
        run(job)
    assert "the job was not restarted" in notes_of(caught.value)
    assert "reads an iterator, which cannot be read a second time" in caplog.text
    assert len(out) == len(set(out)) <= 30


def test_a_job_that_has_given_records_to_the_program_does_not_begin_again(caplog):
    restarts.reset(function=1)
    collector = Collector()
    job = job_of(
        numbers(), wait_for_records, CollectSinkFactory(collector), restart_strategy=AT_ONCE, on_end=[collector.finish]
    )
    job.start()
    first = next(collector)
    restarts.may_go_on.set()
    with pytest.raises(ValueError, match="thirty") as caught:
        list(collector)
    assert first in ALL
    assert "the job was not restarted" in notes_of(caught.value)
    assert "would get them a second time" in caplog.text


def wait_for_records(value):
    if value == 30:
        assert restarts.may_go_on.wait(30)
    return fail_at_30(value)


@pytest.mark.parametrize("source", [list(range(100)), lambda: iter(range(100))])
def test_what_can_be_read_again_is(source):
    restarts.reset(function=1)
    out = []
    run(job_of(IterableSourceFactory(source), fail_at_30, out.append, restart_strategy=AT_ONCE))
    assert set(out) == ALL


def test_an_error_that_forbids_a_restart_fails_the_job():
    def refuse(value):
        error = ValueError("never again")
        error.can_restart = False
        raise error

    job = job_of(numbers(), refuse, [].append, restart_strategy=FixedDelayRestart(3, 3_600_000))
    with pytest.raises(ValueError, match="never again"):
        run(job)


# Many


def test_jobs_that_run_at_the_same_time_do_not_meet():
    restarts.reset(function=5)
    outs = [[] for _ in range(10)]
    jobs = [job_of(numbers(), fail_at_30, out.append, 2, restart_strategy=FixedDelayRestart(9, 1)) for out in outs]
    for job in jobs:
        job.start()
    for job, out in zip(jobs, outs, strict=True):
        job.wait(60)
        assert set(out) == ALL
    assert len({job.job_id for job in jobs}) == 10


@pytest.mark.long
def test_two_hundred_jobs_that_fail_and_begin_again_leave_nothing():
    import gc

    def round_trip():
        restarts.reset(function=1)
        out = []
        run(job_of(sequence(), fail_at_30, out.append, 2, restart_strategy=AT_ONCE))
        assert set(out) == ALL

    round_trip()
    gc.collect()
    threads, objects = threading.active_count(), len(gc.get_objects())
    for _ in range(200):
        round_trip()
    gc.collect()
    assert threading.active_count() == threads
    assert len(gc.get_objects()) < objects + 2000
