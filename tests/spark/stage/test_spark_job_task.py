"""A Spark task that gives out what a job makes: it ends well only where the whole job does."""

from types import SimpleNamespace

import pytest

from flinkbuf.errors import PeerFailedError
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import RegistrationRefused, ReleaseManager, TaskStateReport
from flinkbuf.spark.frames.spark_task_io import OutputQueue
from flinkbuf.spark.stage import job_task
from flinkbuf.spark.stage.job_task import ManagerThread, WatchedLink

SESSION = "5e" * 16
A = AttemptId("a" * 32, 0, 0)
FINISHED = TaskStateReport(SESSION, A, "FINISHED")
FAILED = TaskStateReport(SESSION, A, "FAILED", Failure("builtins.ValueError", "once"))
ECHO = TaskStateReport(SESSION, A, "FAILED", Failure("builtins.ConnectionError", "it is gone", is_echo=True))
ALL_IS_WELL = ReleaseManager(SESSION, "the job is FINISHED", True)
OTHERS_FAILED = ReleaseManager(SESSION, "the job is FAILED: once")


class Driver:
    """The other side of a link: says what the test gives, and hears nothing."""

    def __init__(self, messages):
        self.messages = list(messages)

    def send(self, message):
        pass

    def receive(self, timeout_s):
        return self.messages.pop(0)


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """How long tasks would have waited for others to fail first."""
    found = []
    monkeypatch.setattr(job_task, "time", SimpleNamespace(sleep=found.append))  # other threads may sleep meanwhile
    return found


def output_of(*messages):
    """Return what Spark is to read when the manager of a task with 2 records has said and heard this, and is gone."""
    output = OutputQueue()

    def run():
        link = WatchedLink(Driver(each for each in messages if not isinstance(each, TaskStateReport)), output)
        output.put(1)
        output.put(2)
        for message in messages:
            if isinstance(message, TaskStateReport):
                link.send(message)
            else:
                assert link.receive(None) is message
        link.check_finished("squares", "that was all")

    thread = ManagerThread(run, output)
    thread.start()
    thread.join()
    return output


def test_the_records_of_a_job_that_has_finished_come_to_their_end(waits):
    assert list(output_of(FINISHED, ALL_IS_WELL)) == [1, 2]
    assert not waits


def test_a_failure_is_told_however_late_it_is_asked_for(waits):
    """Spark's thread comes to it only when the manager has gone, too."""
    output = output_of(FAILED, OTHERS_FAILED)
    assert [next(output), next(output)] == [1, 2]
    with pytest.raises(ValueError, match="once"):
        next(output)
    assert not waits  # nobody else knows it


@pytest.mark.parametrize(
    "messages",
    [(FINISHED, OTHERS_FAILED), (FINISHED,), (ECHO, OTHERS_FAILED), (OTHERS_FAILED,)],
    ids=["others failed", "the driver is gone", "others took it along", "nothing was deployed"],
)
def test_a_task_of_a_job_that_has_not_finished_fails_after_the_others(waits, messages):
    output = output_of(*messages)
    assert [next(output), next(output)] == [1, 2]
    with pytest.raises(PeerFailedError, match="job 'squares': that was all"):
        next(output)
    assert waits == [job_task.CAUSE_FIRST_S]


def test_a_task_that_comes_too_late_fails_at_once(waits):
    with pytest.raises(PeerFailedError):
        list(output_of(RegistrationRefused("the job is over")))
    assert not waits
