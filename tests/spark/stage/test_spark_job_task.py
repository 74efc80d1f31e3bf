"""A Spark task that gives out what a job makes: it ends well only where the whole job does."""

import pytest

from flinkbuf.errors import PeerFailedError
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import RegistrationRefused, ReleaseManager, TaskStateReport
from flinkbuf.spark.frames.spark_task_io import OutputQueue
from flinkbuf.spark.stage.barrier_task import CODEC, WatchedLink
from flinkbuf.spark.stage.job_task import ManagerThread

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

    def send(self, payload):
        pass

    def receive(self, timeout_s):
        return CODEC.encode(self.messages.pop(0))


def output_of(*messages):
    """Return what Spark is to read when the manager of a task with 2 records has said and heard this, and is gone."""
    output = OutputQueue()

    def run():
        driver = Driver(each for each in messages if not isinstance(each, TaskStateReport))
        link = WatchedLink(driver)
        link.on_failed = lambda failure: output.finish(failure.to_exception())
        output.put(1)
        output.put(2)
        for message in messages:
            if isinstance(message, TaskStateReport):
                link.send(message)
            else:
                assert link.receive(None) == message
        link.check_finished("squares", "that was all")

    thread = ManagerThread(run, output)
    thread.start()
    thread.join()
    return output


def test_the_records_of_a_job_that_has_finished_come_to_their_end():
    assert list(output_of(FINISHED, ALL_IS_WELL)) == [1, 2]


def test_a_failure_is_told_however_late_it_is_asked_for():
    """Spark's thread comes to it only when the manager has gone, too."""
    output = output_of(FAILED, OTHERS_FAILED)
    assert [next(output), next(output)] == [1, 2]
    with pytest.raises(ValueError, match="once"):
        next(output)


@pytest.mark.parametrize(
    "messages",
    [(FINISHED, OTHERS_FAILED), (FINISHED,), (ECHO, OTHERS_FAILED), (OTHERS_FAILED,)],
    ids=["others failed", "the driver is gone", "others took it along", "nothing was deployed"],
)
def test_a_task_of_a_job_that_has_not_finished_fails(messages):
    output = output_of(*messages)
    assert [next(output), next(output)] == [1, 2]
    with pytest.raises(PeerFailedError, match="job 'squares': that was all"):
        next(output)


def test_a_task_that_comes_too_late_fails_at_once():
    with pytest.raises(PeerFailedError):
        list(output_of(RegistrationRefused("the job is over")))
