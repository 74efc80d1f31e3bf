"""One step of a job after the other: its job master decides, and what it wants is done in its order.

A job that another program could take over is over only once its end is noted: before any file is deleted and before
the user hears of it. A request is answered when all its actions were done; a request to stop the job with
a savepoint, when the job has stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from flinkbuf.log import logger
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.scheduler.master_actions import (
    CheckpointEnded,
    CheckpointRecord,
    CoordinatorsSnapshotted,
    DiscardState,
    EndJob,
    ManagerLost,
    RequestAnswered,
    StatusChanged,
)

if TYPE_CHECKING:
    from flinkbuf.runtime.driver.leadership import Leadership


class JobShell(Protocol):
    """The interface that performs the steps of one job: `RunningJob`."""

    job_id: str

    def decide(self, stimulus: object) -> list[object]:
        """Have the job master decide; return the actions that it wants."""

    def perform(self, action: object) -> None:
        """Perform one action."""

    def manager_gone(self, manager_id: str) -> None:
        """Note that a task manager can no longer be reached."""

    def coordinators_were_heard(self, checkpoint_id: int) -> None:
        """Let coordinators send events again: the job master has acted on their state."""

    def checkpoint_ended(self, record: CheckpointRecord) -> None:
        """Note that a checkpoint is complete, or has failed."""

    def status_changed(self, status: JobStatus) -> None:
        """Note the job's new state; not called for the last one."""

    def answer(self, answers: Iterable[RequestAnswered]) -> None:
        """Answer the users' requests."""

    def result(self, end: EndJob) -> str:
        """Return the result for a program that starts the job again after its end."""


class JobSteps:
    """The steps of one job.

    Parameters
    ----------
    shell : JobShell
    leadership : Leadership or None
        None: no other program could take the job over.

    Attributes
    ----------
    last_answers : list of RequestAnswered
        To be given when the job has ended and all is free.
    is_end_noted : bool
        False: the job has ended here, but another program may run it already, or go on with it.
    """

    def __init__(self, shell: JobShell, leadership: Leadership | None) -> None:
        self.last_answers: list[RequestAnswered] = []
        self.is_end_noted = True
        self._shell = shell
        self._leadership = leadership

    def step(self, stimulus: object) -> EndJob | None:
        """Decide, then perform all actions, in that order. Return the end of the job, if this was it."""
        shell = self._shell
        actions = shell.decide(stimulus)
        if isinstance(stimulus, ManagerLost):
            shell.manager_gone(stimulus.manager_id)
        end, answers = None, []
        for action in self._claimed(actions):
            if isinstance(action, EndJob):
                end = action
            elif isinstance(action, CheckpointEnded):
                shell.checkpoint_ended(action.record)
            elif isinstance(action, RequestAnswered):
                answers.append(action)
            elif not isinstance(action, StatusChanged):
                shell.perform(action)
            elif not action.status.is_terminal_state():  # that comes when all is gone
                shell.status_changed(action.status)
        if isinstance(stimulus, CoordinatorsSnapshotted):
            shell.coordinators_were_heard(stimulus.checkpoint_id)
        if end is None:
            shell.answer(answers)
        else:
            self.last_answers = answers
        return end

    def _claimed(self, actions: list[object]) -> list[object]:
        """Note the end of the job first; of a job that is not over for this program, leave out what ends it."""
        end = next((each for each in actions if isinstance(each, EndJob)), None)
        if self._leadership is None or end is None or end.status is JobStatus.SUSPENDED:
            return actions
        try:
            if self._leadership.finish(self._shell.result(end)):
                return actions
            end = EndJob(JobStatus.SUSPENDED, None)
        except OSError as error:
            self.is_end_noted = False
            job_id = self._shell.job_id
            logger.error("that job %s has ended cannot be noted, so its checkpoints are kept: %s", job_id, error)
        kept = [each for each in actions if not isinstance(each, (DiscardState, RequestAnswered, EndJob))]
        return [*kept, end]
