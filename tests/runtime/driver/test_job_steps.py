"""The order in which one step of a job is done, by a shell that writes down what it is asked."""

import pytest

from flinkbuf.runtime.driver.job_steps import JobSteps
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.runtime.scheduler.master_actions import (
    CoordinatorsSnapshotted,
    DiscardState,
    EndJob,
    ManagerLost,
    RequestAnswered,
    StatusChanged,
)

DISCARD, ANSWER, END = DiscardState(3, "/chk-3", ()), RequestAnswered(1), EndJob(JobStatus.FINISHED, None)


class Shell:
    job_id = "ab" * 16

    def __init__(self, *actions):
        self.actions = list(actions)
        self.story = []

    def decide(self, stimulus):
        return self.actions

    def result(self, end):
        return end.status.name

    def answer(self, answers):
        self.story += [("answer", each) for each in answers]

    def __getattr__(self, name):
        return lambda argument: self.story.append((name, argument))


class Lease:
    """Noting the end of the job succeeds, finds another holder, or fails."""

    def __init__(self, shell, outcome):
        self.shell, self.outcome = shell, outcome

    def finish(self, result):
        self.shell.story.append(("finish", result))
        if isinstance(self.outcome, OSError):
            raise self.outcome
        return self.outcome


def test_users_are_answered_when_all_else_was_done():
    shell = Shell(ANSWER, DISCARD, StatusChanged(JobStatus.RESTARTING))
    assert JobSteps(shell, None).step(TimePassed()) is None
    assert shell.story == [("perform", DISCARD), ("status_changed", JobStatus.RESTARTING), ("answer", ANSWER)]


def test_a_manager_is_gone_before_anything_is_sent_and_coordinators_speak_behind_all():
    shell = Shell(DISCARD)
    steps = JobSteps(shell, None)
    steps.step(ManagerLost("m", "reset"))
    steps.step(CoordinatorsSnapshotted(7, {}, None))
    assert [name for name, _ in shell.story] == ["manager_gone", "perform", "perform", "coordinators_were_heard"]


def test_the_end_is_noted_before_anything_is_deleted_and_told_by_who_frees_the_job():
    shell = Shell(DISCARD, ANSWER, StatusChanged(JobStatus.FINISHED), END)
    steps = JobSteps(shell, Lease(shell, True))
    assert steps.step(TimePassed()) is END
    assert shell.story == [("finish", "FINISHED"), ("perform", DISCARD)]
    assert steps.last_answers == [ANSWER]


@pytest.mark.parametrize("outcome, status", [(False, JobStatus.SUSPENDED), (OSError("EIO"), JobStatus.FINISHED)])
def test_what_another_program_may_go_on_from_is_kept_and_nobody_hears_of_an_end_that_is_not_noted(outcome, status):
    shell = Shell(DISCARD, ANSWER, END)
    steps = JobSteps(shell, Lease(shell, outcome))
    assert steps.step(TimePassed()).status is status
    assert shell.story == [("finish", "FINISHED")]
    assert steps.last_answers == [] and steps.is_end_noted == (status is JobStatus.SUSPENDED)
