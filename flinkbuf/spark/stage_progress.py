"""What Spark says of a running stage: how many of its tasks have ended, and of which attempt one is.

Whoever keeps a barrier stage together asks: the exchange's rendezvous, and the driver's end of a job.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark import SparkContext

FIRST_TASKS_KEPT = 1000


@dataclass(frozen=True)
class StageProgress:
    """The tasks of a stage's latest attempt.

    Attributes
    ----------
    active, completed, failed : int
        How many run, have ended well, and have failed.
    attempt : int
        Which attempt it is, from 0 on.
    """

    active: int
    completed: int
    attempt: int = 0
    failed: int = 0


class Stages(Protocol):
    """Who knows the stages of a driver."""

    def progress(self, stage: int) -> StageProgress | None:
        """Return how far a stage is; None if that is not known."""

    def attempt_of(self, stage: int, task: int, task_count: int) -> int | None:
        """Return which attempt of a stage, from 0 on, has begun a task; None if that is not known, or not yet."""

    def cancel(self, stage: int, reason: str) -> None:
        """End a stage, and the jobs that need it."""


class SparkStages:
    """The stages of a SparkContext. A context that was stopped or forgotten knows none.

    Parameters
    ----------
    context : SparkContext
        It is not kept alive.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = weakref.ref(context)
        self._first_tasks: dict[tuple[int, int], int] = {}  # by stage and attempt; the latest of them

    def progress(self, stage: int) -> StageProgress | None:
        """Return how far a stage is; None if that is not known."""
        context = self._context()
        try:
            info = None if context is None else context.statusTracker().getStageInfo(stage)
        except Exception:  # the JVM may go at any moment
            return None
        if info is None:
            return None
        return StageProgress(info.numActiveTasks, info.numCompletedTasks, info.currentAttemptId, info.numFailedTasks)

    def attempt_of(self, stage: int, task: int, task_count: int) -> int | None:
        """Return which attempt of a stage, from 0 on, has begun a task; None if that is not known, or not yet.

        Spark numbers the tasks of an attempt in a row, and hears of the first one first.
        """
        progress = self.progress(stage)
        if progress is None:
            return None
        for attempt in range(progress.attempt, -1, -1):
            first = self._first_task(stage, attempt)
            if first is not None and first <= task < first + task_count:
                return attempt
        return None

    def _first_task(self, stage: int, attempt: int) -> int | None:
        """Return the number of an attempt's first task; None if that is not known, or not yet."""
        known = self._first_tasks.get((stage, attempt))
        context = self._context()
        if known is not None or context is None:
            return known
        try:
            jvm: Any = context._jvm
            store = context._jsc.sc().statusStore()
            by_number = jvm.org.apache.spark.status.api.v1.TaskSorting.ID
            tasks = store.taskList(stage, attempt, 0, 1, by_number, jvm.java.util.ArrayList())
            if tasks.size() == 0:
                return None
            first = int(tasks.apply(0).taskId())
        except Exception:  # as above, and none of this is Spark's public API
            return None
        self._first_tasks[stage, attempt] = first
        if len(self._first_tasks) > FIRST_TASKS_KEPT:
            del self._first_tasks[next(iter(self._first_tasks))]  # Spark can be asked again
        return first

    def cancel(self, stage: int, reason: str) -> None:
        """End a stage, and the jobs that need it; Spark shows the reason."""
        context = self._context()
        if context is not None and context._jsc is not None:
            context._jsc.sc().cancelStage(stage, reason)
