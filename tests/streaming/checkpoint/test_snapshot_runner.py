"""State is written beside the task. Flink: AsyncCheckpointRunnableTest, AsyncCheckpointRunnable's states."""

import threading

import pytest

from flinkbuf.checkpoints.handles import SubtaskState
from flinkbuf.streaming.checkpoint import snapshot_runner
from flinkbuf.streaming.checkpoint.snapshot_runner import MAX_THREADS, SnapshotJob, SnapshotRunner

STATE = SubtaskState(is_finished=True)


class Story:
    """What becomes of jobs; each writes when it is let."""

    def __init__(self):
        self.told, self.runner = [], SnapshotRunner("test snapshots")
        self.begun, self.go = threading.Semaphore(0), threading.Event()

    def job(self, number, write=None):
        def wait(is_cancelled):
            self.begun.release()
            assert self.go.wait(20)
            return STATE

        def tell(what):
            return lambda *arguments: self.told.append((number, what))

        return SnapshotJob(number, write or wait, tell("done"), tell("failed"), tell("dropped"), tell("discarded"))

    def submit(self, *numbers):
        for number in numbers:
            self.runner.submit(self.job(number))

    def threads(self):
        return [thread for thread in threading.enumerate() if thread.name == "test snapshots"]


@pytest.fixture
def story():
    story = Story()
    yield story
    story.go.set()
    story.runner.close()
    assert not story.threads()


def test_no_thread_is_made_before_the_first_job(story):
    assert story.runner.is_idle and not story.threads()
    story.runner.wait_until_idle()


def test_jobs_are_written_in_their_order_by_one_thread(story):
    story.submit(1, 2, 3)
    assert len(story.threads()) == 1
    story.go.set()
    story.runner.wait_until_idle()
    assert story.told == [(1, "done"), (2, "done"), (3, "done")] and len(story.threads()) == 1


def test_a_failing_job_says_so_and_the_next_is_written(story):
    def fail(is_cancelled):
        raise OSError("full")

    story.runner.submit(story.job(1, fail))
    story.go.set()
    story.submit(2)
    story.runner.wait_until_idle()
    assert story.told == [(1, "failed"), (2, "done")]


def test_what_waits_is_dropped_and_what_was_written_for_nothing_is_deleted(story):
    story.submit(1, 2)
    assert story.begun.acquire(timeout=10)
    story.runner.cancel(2)
    assert story.told == [(2, "dropped")]
    story.runner.cancel(1)
    assert story.runner.is_idle
    story.go.set()
    story.runner.close()
    assert story.told == [(2, "dropped"), (1, "discarded")]


def test_a_job_hears_that_it_was_cancelled(story):
    heard = threading.Event()

    def write(is_cancelled):
        story.begun.release()
        while not is_cancelled():
            pass
        heard.set()
        raise InterruptedError("cancelled")

    story.runner.submit(story.job(1, write))
    assert story.begun.acquire(timeout=10)
    story.runner.cancel_all()
    assert heard.wait(10)
    story.runner.close()
    assert story.told == [], "neither done nor failed"


def test_one_that_hangs_holds_up_no_later_one(story):
    story.submit(1)
    assert story.begun.acquire(timeout=10)
    story.runner.cancel(1)
    done = threading.Event()

    def write(is_cancelled):
        done.set()
        return STATE

    story.runner.submit(story.job(2, write))
    assert done.wait(10)
    story.runner.wait_until_idle()
    assert story.told == [(2, "done")]
    story.go.set()
    story.runner.close()
    assert story.told == [(2, "done"), (1, "discarded")]


def test_a_job_that_waits_behind_one_that_is_given_up_is_written(story):
    story.submit(1, 2)
    assert story.begun.acquire(timeout=10)
    story.runner.cancel(1)
    assert story.begun.acquire(timeout=10), "by another thread"


def test_so_many_that_hang_are_an_error(story):
    for number in range(MAX_THREADS):
        story.submit(number)
        assert story.begun.acquire(timeout=10)
        story.runner.cancel(number)
    story.submit(99)
    assert story.told == [(99, "dropped"), (99, "failed")]


def test_those_that_wait_behind_so_many_that_hang_fail_too(story):
    for number in range(MAX_THREADS):
        story.submit(number, number + 1)
        assert story.begun.acquire(timeout=10)
        story.runner.cancel(number + 1)
        if number < MAX_THREADS - 1:
            story.runner.cancel(number)
    story.told.clear()
    story.submit(98, 99)
    story.runner.cancel(MAX_THREADS - 1)
    assert story.told == [(98, "dropped"), (99, "dropped"), (98, "failed"), (99, "failed")]
    assert story.runner.is_idle and len(story.threads()) == MAX_THREADS


def test_where_no_thread_is_left_for_those_that_wait_it_is_their_failure(story, monkeypatch):
    story.submit(1, 2)
    assert story.begun.acquire(timeout=10)

    def start(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(snapshot_runner.threading.Thread, "start", start)
        story.runner.cancel(1)
    assert story.told == [(2, "dropped"), (2, "failed")] and story.runner.is_idle


def test_after_the_end_nothing_is_taken_and_nobody_told(story):
    story.runner.close()
    story.submit(1)
    assert story.told == [(1, "dropped")]


def test_where_no_thread_is_left_it_is_the_jobs_failure(story, monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(snapshot_runner.threading.Thread, "start", start)
    story.submit(1)
    assert story.told == [(1, "dropped"), (1, "failed")] and story.runner.is_idle


def test_what_cannot_be_deleted_is_told(story, caplog):
    def refuse(state):
        raise OSError("read-only")

    job = story.job(1)
    job.discard = refuse
    story.runner.submit(job)
    assert story.begun.acquire(timeout=10)
    story.runner.cancel_all()
    story.go.set()
    story.runner.close()
    assert "could not be deleted: read-only" in caplog.text


def test_a_report_that_raises_ends_no_thread(story, caplog):
    def fail(state):
        raise LookupError("a report")

    job = story.job(1)
    job.done = fail
    story.go.set()
    story.runner.submit(job)
    story.submit(2)
    story.runner.wait_until_idle()
    assert story.told == [(2, "done")] and "reporting checkpoint 1" in caplog.text
