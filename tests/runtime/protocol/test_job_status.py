"""The life of a job."""

import pytest

from flinkbuf.runtime.protocol.job_status import NEXT, JobStatus, JobStep, next_status


@pytest.mark.parametrize("status", JobStatus)
@pytest.mark.parametrize("step", JobStep)
def test_every_step_from_every_status(status, step):
    after = next_status(status, step)
    if status.is_terminal_state():
        assert after is status
    if step is JobStep.END and status in NEXT and status not in (JobStatus.CREATED, JobStatus.RESTARTING):
        assert after.is_globally_terminal_state()
    if status is JobStatus.CANCELLING:
        assert after in (JobStatus.CANCELLING, JobStatus.CANCELED, JobStatus.SUSPENDED)


def test_a_failure_while_canceling_does_not_fail_the_job_and_a_cancel_while_failing_cancels_it():
    assert next_status(JobStatus.CANCELLING, JobStep.FAIL) is JobStatus.CANCELLING
    assert next_status(JobStatus.FAILING, JobStep.CANCEL) is JobStatus.CANCELLING
