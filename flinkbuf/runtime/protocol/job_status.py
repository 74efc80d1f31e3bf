"""The life of a job, as one table. Flink: JobStatus, and the transitions of ExecutionGraph."""

from __future__ import annotations

from enum import Enum
from typing import Final


class JobStatus(Enum):
    """How a job stands.

    Examples
    --------
    >>> JobStatus.RUNNING.is_terminal_state(), JobStatus.FINISHED.is_globally_terminal_state()
    (False, True)
    """

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """Return whether the job is over, in every program."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Return whether the job is over here; another program may go on with a suspended job."""
        return self.is_globally_terminal_state() or self is JobStatus.SUSPENDED


class JobStep(Enum):
    """What happens to a job."""

    START = "start"
    RESTART = "restart"  # a failure after which it goes on
    RESTARTED = "restarted"  # no restart is waited for any more
    FAIL = "fail"
    CANCEL = "cancel"
    SUSPEND = "suspend"  # another program leads the job
    END = "end"  # its last task has ended


NEXT: Final = {
    JobStatus.CREATED: {
        JobStep.START: JobStatus.RUNNING,
        JobStep.CANCEL: JobStatus.CANCELED,
        JobStep.FAIL: JobStatus.FAILED,
        JobStep.SUSPEND: JobStatus.SUSPENDED,
    },
    JobStatus.RUNNING: {
        JobStep.RESTART: JobStatus.RESTARTING,
        JobStep.RESTARTED: JobStatus.RUNNING,
        JobStep.CANCEL: JobStatus.CANCELLING,
        JobStep.FAIL: JobStatus.FAILING,
        JobStep.SUSPEND: JobStatus.SUSPENDED,
        JobStep.END: JobStatus.FINISHED,
    },
    JobStatus.RESTARTING: {
        JobStep.RESTART: JobStatus.RESTARTING,
        JobStep.RESTARTED: JobStatus.RUNNING,
        JobStep.CANCEL: JobStatus.CANCELLING,
        JobStep.FAIL: JobStatus.FAILING,
        JobStep.SUSPEND: JobStatus.SUSPENDED,
    },
    JobStatus.CANCELLING: {
        JobStep.CANCEL: JobStatus.CANCELLING,
        JobStep.FAIL: JobStatus.CANCELLING,
        JobStep.SUSPEND: JobStatus.SUSPENDED,
        JobStep.END: JobStatus.CANCELED,
    },
    JobStatus.FAILING: {
        JobStep.CANCEL: JobStatus.CANCELLING,
        JobStep.FAIL: JobStatus.FAILING,
        JobStep.SUSPEND: JobStatus.SUSPENDED,
        JobStep.END: JobStatus.FAILED,
    },
}


def next_status(status: JobStatus, step: JobStep) -> JobStatus:
    """Return where a step leads; nothing leads away from a terminal status."""
    return NEXT.get(status, {}).get(step, status)
