"""What SIGTERM does to a program in each phase; whole programs are in tests/runtime/test_told_to_end.py."""

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from support.waiting import wait_until

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.common import Configuration
from flinkbuf.common.job_options import termination_of
from flinkbuf.runtime.process.termination import (
    CANCEL,
    EXIT_CODE,
    NONE,
    SAVEPOINT,
    SUSPEND,
    ProgramTerminated,
    Termination,
    TerminationSettings,
)
from flinkbuf.runtime.protocol.job_status import JobStatus


class Ended(BaseException):
    """The process would have ended."""


class Patient(Termination):
    """Ends no process of tests when the grace period is over."""

    def _end_late(self, grace_s):
        pass


class Job:
    """A job that does what it is told, when the test says so."""

    def __init__(self, status=JobStatus.RUNNING, is_started=True):
        self.graph = SimpleNamespace(settings=SimpleNamespace(job_name="counts"))
        self.status, self.is_started, self.stopping_savepoint = status, is_started, ""
        self.told = []
        self.savepoint = Future()

    def cancel(self):
        self.told.append("cancel")

    def suspend(self, reason):
        self.told.append("suspend")

    def trigger_savepoint(self, directory, kind):
        self.told.append(kind)
        return self.savepoint


@pytest.fixture
def termination():
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    exits = []

    def end(code):
        exits.append(code)
        raise Ended

    made = Patient(end)
    made.exits = exits
    yield made
    signal.signal(signal.SIGTERM, before)


def watched(termination, job, mode=SUSPEND, drains=False, grace_ms=5_000):
    made = termination.watch(TerminationSettings(mode, drains, grace_ms))
    made.is_of(job)
    return made


def end(job, made, status):
    job.status = status
    made.ending(None)
    made.ended(None)


def come():
    signal.raise_signal(signal.SIGTERM)


def main_thread_leaves():
    with pytest.raises(ProgramTerminated) as raised:
        while True:
            time.sleep(0.01)
    return raised.value.code


@pytest.mark.parametrize(("mode", "told"), [(SUSPEND, "suspend"), (CANCEL, "cancel")])
def test_a_job_is_stopped_and_the_main_thread_leaves_when_it_has_ended(termination, mode, told):
    job = Job()
    made = watched(termination, job, mode)
    come()
    wait_until(lambda: job.told)
    assert set(job.told) == {told} and termination.is_begun
    threading.Timer(0.1, end, (job, made, JobStatus.SUSPENDED)).start()
    assert main_thread_leaves() == EXIT_CODE


@pytest.mark.parametrize(
    ("drains", "kind", "code"),
    [(False, SnapshotKind.SAVEPOINT_SUSPEND, 143), (True, SnapshotKind.SAVEPOINT_TERMINATE, 0)],
)
def test_a_savepoint_ends_the_program_drained_or_not(termination, drains, kind, code):
    job = Job()
    made = watched(termination, job, SAVEPOINT, drains)
    come()
    wait_until(lambda: job.told == [kind])

    def finish():
        end(job, made, JobStatus.FINISHED)
        job.savepoint.set_result("/savepoints/1")

    threading.Timer(0.1, finish).start()
    assert main_thread_leaves() == code
    assert job.told == [kind]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_job_without_a_savepoint_is_suspended(termination, is_late):
    job = Job()
    made = watched(termination, job, SAVEPOINT, drains=True, grace_ms=600)
    come()
    wait_until(lambda: job.told)
    if not is_late:
        job.savepoint.set_exception(RuntimeError("its tasks do not run yet"))
    wait_until(lambda: "suspend" in job.told)
    threading.Timer(0.1, end, (job, made, JobStatus.SUSPENDED)).start()
    assert main_thread_leaves() == EXIT_CODE


def test_a_job_that_is_cancelled_already_is_not_suspended(termination):
    job = Job(JobStatus.CANCELLING)
    made = watched(termination, job)
    come()
    threading.Timer(0.2, end, (job, made, JobStatus.CANCELED)).start()
    assert main_thread_leaves() == EXIT_CODE
    assert job.told == []


def test_before_the_job_has_begun_the_program_leaves_at_once(termination):
    watched(termination, Job(is_started=False))
    with pytest.raises(ProgramTerminated):
        come()


def test_other_jobs_are_stopped_all_the_same(termination):
    job = Job()
    watched(termination, job)
    termination.watch(TerminationSettings())  # one is being made
    with pytest.raises(ProgramTerminated):
        come()
    wait_until(lambda: job.told)


def test_the_last_of_several_jobs_ends_the_program(termination):
    jobs = [Job(), Job()]
    made = [watched(termination, jobs[0], SUSPEND), watched(termination, jobs[1], CANCEL)]
    come()
    wait_until(lambda: all(job.told for job in jobs))
    end(jobs[0], made[0], JobStatus.SUSPENDED)
    time.sleep(0.05)
    threading.Timer(0.1, end, (jobs[1], made[1], JobStatus.CANCELED)).start()
    assert main_thread_leaves() == EXIT_CODE


def test_a_second_signal_ends_the_process_before_and_after_the_main_thread_leaves(termination):
    job = Job()
    made = watched(termination, job)
    come()
    with pytest.raises(Ended):
        come()
    threading.Timer(0.1, end, (job, made, JobStatus.SUSPENDED)).start()
    main_thread_leaves()
    with pytest.raises(Ended):
        come()
    assert termination.exits == [EXIT_CODE] * 2


def test_no_job_begins_when_the_program_was_told_to_end(termination):
    watched(termination, Job())
    come()
    with pytest.raises(ProgramTerminated):
        termination.watch(TerminationSettings())


def test_a_job_with_mode_none_leaves_the_signal_alone(termination):
    watched(termination, Job(), NONE)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_the_handler_is_given_back_when_no_job_runs(termination):
    job = Job()
    made = watched(termination, job)
    termination.give_back()
    assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    end(job, made, JobStatus.FINISHED)
    termination.give_back()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_notebook_is_left_alone(termination, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    watched(termination, Job())
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_without_thread_the_exit_stops_the_jobs(termination, monkeypatch):
    watched(termination, Job())

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(ProgramTerminated):
        come()


def test_a_program_whose_jobs_have_ended_dies_as_any_other():
    code = (
        "import os, signal\n"
        "from flinkbuf.runtime.process.termination import *\n"
        "watched = the_termination.watch(TerminationSettings())\n"
        "the_termination.forget(watched)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGTERM


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ({"mode": "LATER"}, "execution.termination.mode"),
        ({"mode": "SAVEPOINT"}, "needs execution.checkpointing.savepoint-dir"),
        ({"drain": "true"}, "is for execution.termination.mode SAVEPOINT"),
        ({"grace-period": "0 s"}, "more than 0 ms"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(pairs, says):
    configuration = Configuration.from_dict({f"execution.termination.{key}": text for key, text in pairs.items()})
    with pytest.raises(ValueError, match=says):
        termination_of(configuration)


def test_a_job_that_others_take_over_is_not_ended_for_good():
    options = {
        "execution.termination.mode": "SAVEPOINT",
        "execution.checkpointing.savepoint-dir": "/savepoints",
        "high-availability.storageDir": "/ha",
    }
    with pytest.raises(ValueError, match="ends a job for good"):
        termination_of(Configuration.from_dict(options))
    drained = termination_of(Configuration.from_dict({**options, "execution.termination.drain": "true"}))
    assert drained == TerminationSettings(SAVEPOINT, True)


def test_a_main_thread_at_its_end_gives_the_exit_code(termination, monkeypatch):
    job = Job()
    made = watched(termination, job)
    termination.exit_as_told()
    assert termination.exits == [], "nobody has told it to end"
    come()
    monkeypatch.setattr(threading, "main_thread", lambda: threading.Thread())  # has ended
    monkeypatch.setattr(termination, "_flush", lambda: None)
    end(job, made, JobStatus.SUSPENDED)
    with pytest.raises(Ended):
        termination.exit_as_told()
    assert termination.exits == [EXIT_CODE]
