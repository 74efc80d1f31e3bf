"""The shell around a job master: what it performs, what it tells, and what becomes of its own mistakes."""

import copy
import errno
import random
import threading
import time

import pytest
from support.programs import restarts
from support.programs.restarts import add_one, fail_at_30, job_of, run
from support.waiting import wait_until
from support.worlds.loopback import LoopbackTarget

from flinkbuf.checkpoints.ha_store import HaStore
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.runtime.checkpoint.checkpoint_config import CheckpointCoordinatorConfig
from flinkbuf.runtime.driver import checkpoint_io
from flinkbuf.runtime.driver.leadership import Leadership
from flinkbuf.runtime.driver.running_job import RunningJob
from flinkbuf.runtime.driver.story import Story
from flinkbuf.runtime.driver.target import TARGETS, target_named
from flinkbuf.runtime.master.job_master import JobMaster
from flinkbuf.runtime.master.restart_strategy import FixedDelayRestart
from flinkbuf.runtime.protocol.failure import Failure, InternalJobError, JobCanceledError
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.scheduler.job_master_config import JobMasterConfig
from flinkbuf.runtime.scheduler.master_actions import EndJob, StartJob
from flinkbuf.streaming.sources.source_factories import (
    CollectionSourceFactory,
    IterableSourceFactory,
    SourceOperatorFactory,
)

AT_ONCE = FixedDelayRestart(attempts=3, delay_ms=0)


def numbers(count=100):
    return CollectionSourceFactory(range(count))


def endless():
    number = 0
    while True:
        yield number
        number += 1
        time.sleep(0.001)


# Its story


def test_a_story_replays_through_a_fresh_job_master():
    restarts.reset(function=1)
    job = job_of(numbers(), fail_at_30, [].append, 2, restart_strategy=FixedDelayRestart(3, 0))
    run(job)
    story = job.story()
    assert isinstance(story[0][1], StartJob) and isinstance(story[-1][2][-1], EndJob)
    master = JobMaster(
        job.plan,
        job.config,
        session_id=job.session_id,
        restart_strategy=FixedDelayRestart(3, 0).create(random.Random(1)),
        now_ms=story[0][0],
    )
    replayed = Story()
    for now_ms, stimulus, _ in story:
        replayed.note(now_ms, stimulus, master.handle(stimulus, now_ms))
    assert replayed.entries() == story


def test_a_story_keeps_the_last_entries_and_no_exception_of_the_user():
    restarts.reset(function=1)
    job = job_of(numbers(), fail_at_30, [].append)
    with pytest.raises(ValueError, match="thirty"):
        run(job)
    failures = [each.message.failure for _, each, _ in job.story() if hasattr(each, "message") and failure_in(each)]
    assert failures and all(failure.exception is None for failure in failures)
    short = Story(limit=3)
    for number in range(10):
        short.note(number, StartJob(), [])
    assert [now_ms for now_ms, _, _ in short.entries()] == [7, 8, 9]


def failure_in(stimulus):
    return getattr(stimulus.message, "failure", None) is not None


@pytest.mark.parametrize("when", [1, 5])
def test_a_mistake_of_the_job_master_ends_the_job_and_comes_with_its_story(monkeypatch, when):
    handle, calls = JobMaster.handle, []

    def mistaken(self, stimulus, now_ms):
        calls.append(stimulus)
        if len(calls) == when:
            raise KeyError("a slot that nobody has")
        return handle(self, stimulus, now_ms)

    ends, before = [], threading.active_count()
    job = job_of(IterableSourceFactory(endless), add_one, [].append, 2, on_end=[ends.append])
    with monkeypatch.context() as patch:
        patch.setattr(JobMaster, "handle", mistaken)
        job.start()
        with pytest.raises(
            InternalJobError, match="KeyError: 'a slot that nobody has'; this is a mistake in flinkbuf"
        ) as caught:
            job.wait(30)
    assert len(caught.value.story) == when and caught.value.story[-1][1] is calls[when - 1]
    assert isinstance(caught.value.__cause__, KeyError)
    assert job.status is JobStatus.FAILED and ends == [caught.value]
    assert threading.active_count() == before


# Its picture


def test_the_picture_of_a_job_is_there_while_it_runs_and_after_it():
    arrived = threading.Event()
    job = job_of(IterableSourceFactory(endless), add_one, lambda value: arrived.set(), 2)
    assert job.details()["state"] == "CREATED"
    job.start()
    assert arrived.wait(30)
    picture = job.details()
    assert (picture["jid"], picture["name"], picture["state"]) == (job.job_id, "restarts", "RUNNING")
    assert job.accumulators() == {}
    job.cancel()
    with pytest.raises(JobCanceledError):
        job.wait(30)
    assert job.details()["state"] == "CANCELED"
    assert job.accumulators() == {}


def test_whoever_asks_while_a_job_ends_is_answered():
    for _ in range(20):
        job = job_of(numbers(5), add_one, [].append)
        job.start()
        while not job.has_ended:
            assert job.details()["jid"] == job.job_id
        job.wait(1)


# Targets


def test_a_target_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match="must be one of 'embedded', 'local', 'spark', got 'yarn'"):
        target_named("yarn")
    assert target_named("embedded").is_in_process and "embedded" in TARGETS


class Refusing(LoopbackTarget):
    def check(self, graph, settings):
        raise ValueError("two slots are too few")


class Unstartable(LoopbackTarget):
    def make_provider(self, job):
        provider = super().make_provider(job)

        def start(run, indexes):
            raise OSError("no process left")

        provider.start = start
        return provider


def test_what_a_target_refuses_is_raised_before_anything_starts():
    ends, target = [], Refusing()
    job = job_of(numbers(), add_one, [].append, target=target, on_end=[ends.append])
    with pytest.raises(ValueError, match="too few"):
        job.start()
    assert job.status is JobStatus.FAILED and ends == [job.exception] and target.providers == []


def test_task_managers_that_cannot_be_started_fail_the_job():
    with pytest.raises(OSError, match="no process left"):
        run(job_of(numbers(), add_one, [].append, target=Unstartable()))


def test_task_managers_that_do_not_come_fail_the_job_when_its_strategy_gives_up():
    job = job_of(numbers(), add_one, [].append, target=Unstartable(), restart_strategy=FixedDelayRestart(2, 1))
    with pytest.raises(OSError, match="no process left"):
        run(job)
    assert sum(type(stimulus).__name__ == "RunFailed" for _, stimulus, _ in job.story()) == 3


def loopback(source, function, sink, parallelism=2, **options):
    target = LoopbackTarget()
    return job_of(source, function, sink, parallelism, target=target, **options), target


def test_functions_of_the_program_run_beside_task_managers_elsewhere():
    out = []
    job, target = loopback(IterableSourceFactory(list(range(1000))), add_one, out.append)
    run(job)
    assert sorted(out) == list(range(1, 1001))
    assert {vertex.name: vertex.is_in_program for vertex in job.plan.vertices} == {
        "Source: numbers": True,
        "first": False,
        "Sink: sink": True,
    }
    assert len(target.providers[0].managers) == 2


def test_splits_cross_to_task_managers_elsewhere():
    out = []
    source = SourceOperatorFactory(NumberSequenceSource(0, 999), None)
    target = LoopbackTarget()
    run(job_of(source, add_one, out.append, 2, 2, target=target))
    assert sorted(out) == list(range(1, 1001))


def test_a_function_that_fails_begins_again_over_the_network():
    restarts.reset(function=2)
    out = []
    job, _ = loopback(numbers(), fail_at_30, out.append, restart_strategy=AT_ONCE)
    run(job)
    assert set(out) == set(range(100))


def test_a_task_manager_that_dies_is_replaced_by_another():
    arrived = threading.Event()
    out = []

    def keep(value):
        out.append(value)
        arrived.set()

    job, target = loopback(IterableSourceFactory(endless), add_one, keep, restart_strategy=AT_ONCE)
    job.start()
    assert arrived.wait(30)
    provider = target.providers[0]
    first, second = provider.managers
    provider.kill(first)
    wait_until(lambda: len(provider.managers) >= 3)
    arrived.clear()
    assert arrived.wait(30)
    assert [manager_id for manager_id in provider.managers if manager_id not in (first, second)]
    job.cancel()
    with pytest.raises(JobCanceledError):
        job.wait(30)


def test_a_task_manager_that_dies_fails_a_job_without_a_restart():
    arrived = threading.Event()
    job, target = loopback(IterableSourceFactory(endless), add_one, lambda value: arrived.set())
    job.start()
    assert arrived.wait(30)
    first, _ = target.providers[0].managers
    target.providers[0].kill(first)
    with pytest.raises(ConnectionError, match=f"task manager {first} is gone: its process was killed"):
        job.wait(30)


def test_an_iterator_of_the_program_is_not_read_again_when_a_task_manager_dies():
    arrived = threading.Event()
    source = IterableSourceFactory(endless())
    job, target = loopback(source, add_one, lambda value: arrived.set(), restart_strategy=AT_ONCE)
    job.start()
    assert arrived.wait(30)
    target.providers[0].kill(next(iter(target.providers[0].managers)))
    with pytest.raises(RuntimeError, match="the job was restarted, but cannot be: its source reads an iterator"):
        job.wait(30)


def test_a_run_that_failed_says_why():
    job, _ = loopback(IterableSourceFactory(endless), add_one, [].append)
    job.start()
    job.run_failed(1, Failure("builtins.TimeoutError", "the stage was killed"))
    with pytest.raises(TimeoutError, match="the stage was killed"):
        job.wait(30)
    assert job.exception.failure.type_name == "builtins.TimeoutError"


# Ends


@pytest.mark.parametrize("make_target", [lambda: target_named("embedded"), LoopbackTarget])
def test_a_job_can_be_canceled_at_any_moment(make_target):
    for moment_s in (0, 0.0005, 0.002, 0.005, 0.02):
        job = job_of(IterableSourceFactory(endless), add_one, [].append, 2, target=make_target())
        job.start()
        time.sleep(moment_s)
        job.cancel()
        with pytest.raises(JobCanceledError):
            job.wait(30)
        assert job.status is JobStatus.CANCELED


class StopsOnClose(LoopbackTarget):
    def make_provider(self, job):
        provider = super().make_provider(job)
        close = provider.close

        def refuse():
            close()
            raise SystemExit(3)

        provider.close = refuse
        return provider


def test_a_provider_that_fails_when_it_is_closed_keeps_nobody_waiting(caplog):
    run(job_of(numbers(), add_one, [].append, target=StopsOnClose()))
    assert "ending the task managers of job" in caplog.text


def test_a_clock_that_stands_still_stops_no_restart():
    class Still:
        def now_ms(self):
            return 0

    restarts.reset(function=1)
    job = job_of(numbers(), fail_at_30, [].append, clock=Still(), restart_strategy=FixedDelayRestart(1, 1))
    run(job)
    assert job.status is JobStatus.FINISHED


def test_threads_that_stand_still_for_long_are_not_taken_for_dead(monkeypatch):
    from flinkbuf.runtime.manager.manager_link import QueueLink

    receive = QueueLink.receive

    def late(link, timeout_s):
        time.sleep(0.1)  # as long as a debugger likes
        return receive(link, timeout_s)

    monkeypatch.setattr(QueueLink, "receive", late)
    out = []
    config = JobMasterConfig(heartbeat_interval_ms=10, heartbeat_timeout_ms=30)
    run(job_of(numbers(), add_one, out.append, config=config))
    assert len(out) == 100


def test_the_same_graph_runs_as_several_jobs():
    out = []
    first = job_of(numbers(), add_one, out.append)
    second = RunningJob(copy.copy(first.graph))
    run(first)
    run(second)
    assert sorted(out) == sorted(2 * list(range(1, 101)))


# Its end, where other programs could take it over


@pytest.mark.parametrize("is_noted", [True, False])
def test_files_of_a_job_whose_end_is_not_noted_are_left_to_who_may_run_it(is_noted, tmp_path, monkeypatch):
    lease = HaStore(str(tmp_path / "ha"), "default", "a job").try_acquire(10_000)
    leadership = Leadership(lease, 10_000)
    if not is_noted:
        monkeypatch.setattr(lease, "finish", fails_with_an_io_error)
    config = CheckpointCoordinatorConfig(directory=str(tmp_path / "checkpoints"))
    job = job_of(numbers(), add_one, [].append, job_id="ab" * 16, checkpointing=config, leadership=leadership)
    of_another = tmp_path / "checkpoints" / job.job_id / "chk-1-2"  # no checkpoint yet: a task writes its state
    of_another.mkdir(parents=True)
    run(job)
    assert job.status is JobStatus.FINISHED and of_another.exists() is not is_noted


def test_files_that_are_deleted_late_are_not_those_of_a_later_run(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_io, "CLOSE_WAIT_S", 0.05)
    config, may_go_on = CheckpointCoordinatorConfig(directory=str(tmp_path)), threading.Event()
    job = job_of(numbers(), add_one, [].append, job_id="ab" * 16, checkpointing=config)
    job._checkpoints.do_later(lambda: may_go_on.wait(30))  # a storage that takes its time
    run(job)
    later = tmp_path / job.job_id / "chk-2"  # no checkpoint yet: a task writes its state
    later.mkdir(parents=True)
    may_go_on.set()
    job._checkpoints._discarder.join(30)
    assert later.exists()


def test_a_job_that_was_never_begun_is_given_back_with_its_files(tmp_path):
    store = HaStore(str(tmp_path / "ha"), "default", "a job")
    leadership = Leadership(store.try_acquire(10_000), 10_000)
    config = CheckpointCoordinatorConfig(directory=str(tmp_path / "checkpoints"))
    fields = {"job_id": "ab" * 16, "checkpointing": config, "leadership": leadership, "target": Refusing()}
    job = job_of(numbers(), add_one, [].append, **fields)
    of_another = tmp_path / "checkpoints" / job.job_id / "chk-1-2"
    of_another.mkdir(parents=True)
    with pytest.raises(ValueError, match="two slots are too few"):
        run(job)
    assert job.status is JobStatus.FAILED and of_another.exists()
    assert store.try_acquire(10_000) is not None  # without waiting for a timeout


def fails_with_an_io_error(*arguments):
    raise OSError(errno.EIO, "the disk failed")
