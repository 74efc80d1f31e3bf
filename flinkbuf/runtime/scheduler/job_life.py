"""A job's status, with its times, and what the job master wants done: the two things all its parts share."""

from __future__ import annotations

from flinkbuf.runtime.protocol.job_status import JobStatus, JobStep, next_status
from flinkbuf.runtime.scheduler.master_actions import SendTo, StatusChanged

Action = object  # one of master_actions.py


class MasterOutbox:
    """Actions in the order in which they are to be performed."""

    def __init__(self) -> None:
        self._actions: list[Action] = []

    def do(self, *actions: Action) -> None:
        """Add one or several actions."""
        self._actions.extend(actions)

    def send(self, manager_id: str, message: object) -> None:
        """Add a message to a task manager."""
        self._actions.append(SendTo(manager_id, message))

    def take(self) -> list[Action]:
        """Return all actions and empty the outbox."""
        actions, self._actions = self._actions, []
        return actions


class JobLife:
    """The status of a job.

    Attributes
    ----------
    status : JobStatus
    timestamps : dict
        When it came into each status it has been in, in milliseconds.

    Examples
    --------
    >>> life = JobLife(MasterOutbox(), now_ms=5)
    >>> life.step(JobStep.START, 7)
    >>> life.status.name, life.timestamps[JobStatus.RUNNING], life.outbox.take()
    ('RUNNING', 7, [StatusChanged(status=<JobStatus.RUNNING: 1>)])
    """

    def __init__(self, outbox: MasterOutbox, now_ms: int) -> None:
        self.outbox = outbox
        self.status = JobStatus.CREATED
        self.timestamps = {JobStatus.CREATED: now_ms}

    def step(self, step: JobStep, now_ms: int) -> None:
        """Change the status by a step; a new status is reported."""
        before, self.status = self.status, next_status(self.status, step)
        if self.status is not before:
            self.timestamps[self.status] = now_ms
            self.outbox.do(StatusChanged(self.status))

    @property
    def is_active(self) -> bool:
        """Return whether the job still tries to get its work done."""
        return self.status in (JobStatus.RUNNING, JobStatus.RESTARTING)
