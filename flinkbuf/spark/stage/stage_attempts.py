"""The attempts of Spark's to run one barrier stage, told apart by the tasks of it that come to the driver.

In a stage that Spark runs again nothing that a task knows tells the attempts apart but its number, which Spark gives
out in a row; the driver can ask Spark. Nothing here asks, waits or reads a clock.
"""

from __future__ import annotations

from enum import Enum

from flinkbuf.spark.stage.stage_progress import AttemptTasks, StageProgress

ENDED_LOOKS = 3  # so many times in a row tasks were found to have ended without a word


class TaskAdmission(Enum):
    """What a task that comes is for the attempt that is current."""

    SAME = "it belongs to it"
    NEW = "it is of a later one, or of the first: that one is current now"
    OLD = "it is of an earlier one, and has no part in anything any more"


class StageAttempts:
    """Which attempt of one stage is current, and whether tasks of it ended without a word.

    Parameters
    ----------
    task_count : int
        How many tasks the stage has.

    Attributes
    ----------
    current : AttemptTasks or None
        The attempt, where Spark could tell it.
    tasks : dict of int to int
        The numbers of its tasks that have come, by partition.

    Examples
    --------
    >>> attempts = StageAttempts(2)
    >>> attempts.admit(0, 10, AttemptTasks(0, 10, 2)), attempts.admit(1, 13, AttemptTasks(1, 12, 2))
    (<TaskAdmission.NEW: 'it is of a later one, or of the first: that one is current now'>, \
<TaskAdmission.NEW: 'it is of a later one, or of the first: that one is current now'>)
    >>> attempts.admit(1, 11, AttemptTasks(0, 10, 2)), attempts.tasks
    (<TaskAdmission.OLD: 'it is of an earlier one, and has no part in anything any more'>, {1: 13})
    """

    def __init__(self, task_count: int) -> None:
        self.task_count = task_count
        self.current: AttemptTasks | None = None
        self.tasks: dict[int, int] = {}
        self._ended_looks = 0

    def knows(self, task: int) -> bool:
        """Whether Spark need not be asked of which attempt a task is."""
        return self.current is not None and task in self.current

    def admit(self, index: int, task: int, attempt: AttemptTasks | None) -> TaskAdmission:
        """Take in a task that has come, if it is of the current attempt or of a later one.

        Parameters
        ----------
        index, task : int
            Its partition, and Spark's number of it (``taskAttemptId``).
        attempt : AttemptTasks or None
            Which one it is of, if Spark can tell; else its number has to.
        """
        attempt = self.current if self.knows(task) else attempt
        if self._is_old(index, task, attempt):
            return TaskAdmission.OLD
        is_same = self._is_same(index, task, attempt)
        if not is_same:
            self.current, self.tasks, self._ended_looks = None, {}, 0
        self.current = self.current or attempt
        self.tasks[index] = task
        return TaskAdmission.SAME if is_same else TaskAdmission.NEW

    def _is_same(self, index: int, task: int, attempt: AttemptTasks | None) -> bool:
        if self.current is not None and attempt is not None:
            return attempt == self.current
        numbers = (task, *self.tasks.values())
        return bool(self.tasks) and index not in self.tasks and max(numbers) - min(numbers) < self.task_count

    def _is_old(self, index: int, task: int, attempt: AttemptTasks | None) -> bool:
        if self.current is not None and attempt is not None:
            return attempt.number < self.current.number
        return not self._is_same(index, task, attempt) and any(other > task for other in self.tasks.values())

    def is_superseded(self, progress: StageProgress) -> bool:
        """Whether Spark has begun a later attempt."""
        return self.current is not None and progress.attempt > self.current.number

    def has_failed(self, progress: StageProgress) -> bool:
        """Whether Spark knows of a task of this attempt that failed."""
        return self.current is not None and progress.attempt == self.current.number and progress.failed > 0

    def ended_without_a_word(self, progress: StageProgress | None, known_count: int, waiting_count: int) -> int:
        """Return how many tasks Spark counts as ended well that never said so; 0 while that is not certain.

        It is certain when `ENDED_LOOKS` looks in a row agree: some tasks have ended that did not say so, and all that
        wait for them still run. That is how it cannot be mistaken for the figures of an earlier attempt, which Spark
        may still show: they have no active tasks.

        Parameters
        ----------
        progress : StageProgress or None
            What Spark says; call this once for each look.
        known_count : int
            How many tasks have said that they are done, or that they read no more.
        waiting_count : int
            How many wait for those that never came, where not all have; -1: all that are not known to have ended.
        """
        ended = active = 0
        if progress is not None and progress.attempt >= (self.current.number if self.current is not None else 0):
            ended, active = progress.completed - known_count, progress.active
        waiting = self.task_count - known_count - ended if waiting_count < 0 else waiting_count
        self._ended_looks = self._ended_looks + 1 if ended > 0 and active >= waiting > 0 else 0
        return ended if self._ended_looks >= ENDED_LOOKS else 0
