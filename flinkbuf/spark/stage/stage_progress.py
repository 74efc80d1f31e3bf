"""What Spark says of a running stage: how far it is, of which attempt a task is, and how tasks have ended."""

from __future__ import annotations

import contextlib
import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView
    from pyspark import SparkContext

FAILURES_MAX = 8  # of one attempt that are told: each costs a few calls of the JVM
REASON_LIMIT = 1000  # characters
_RAISED = "org.apache.spark.api.python.PythonException"  # how Spark begins to tell an error of code in Python
ATTEMPT_LOOKS = 10
ATTEMPT_LOOK_S = 0.05


@dataclass(frozen=True)
class StageProgress:
    """The tasks of a stage's latest attempt: how many run, have ended well and have failed; and which one it is."""

    active: int
    completed: int
    attempt: int = 0
    failed: int = 0


@dataclass(frozen=True)
class AttemptTasks:
    """One attempt of a stage, and the tasks that Spark has numbered for it: in a row.

    Examples
    --------
    >>> 13 in AttemptTasks(1, 12, 3), 15 in AttemptTasks(1, 12, 3)
    (True, False)
    """

    number: int
    first_task: int
    task_count: int

    def __contains__(self, task: int) -> bool:
        return self.first_task <= task < self.first_task + self.task_count


@dataclass(frozen=True)
class TaskEnd:
    """How a task has ended, as Spark tells it: well, or failed for a reason, in one line, maybe raised in Python."""

    task: int
    is_failed: bool = False
    reason: str = ""
    is_raised: bool = False


class SparkStages:
    """The stages of a SparkContext, by what its status store holds. A context that was stopped or forgotten knows none.

    Each question blocks for some calls of the JVM, a millisecond or a few.

    Parameters
    ----------
    context : SparkContext
        It is not kept alive.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = weakref.ref(context)

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

    def attempt_of(self, stage: int, task: int, task_count: int) -> AttemptTasks | None:
        """Return which attempt of a stage has begun a task; None if that is not known, within half a second.

        A task may be at the driver before Spark has noted its start there.
        """
        for look in range(ATTEMPT_LOOKS):
            time.sleep(ATTEMPT_LOOK_S if look else 0)
            progress = self.progress(stage)
            for number in range(-1 if progress is None else progress.attempt, -1, -1):
                for first in self._tasks(stage, number, 1):  # Spark hears of an attempt's first task first
                    attempt = AttemptTasks(number, int(first.taskId()), task_count)
                    if task in attempt:
                        return attempt
        return None

    def failures(self, stage: int, attempt: int) -> list[TaskEnd]:
        """Return the first tasks of an attempt that have failed."""
        return [end for end in map(_end_of, self._tasks(stage, attempt, FAILURES_MAX, status="FAILED")) if end]

    def end_of(self, stage: int, attempt: AttemptTasks, task: int) -> TaskEnd | None:
        """Return how a task has ended; None if it runs, was killed for what another one did, or is not known."""
        found = self._tasks(stage, attempt.number, 1, task - attempt.first_task)
        return _end_of(found[0]) if found else None

    def give_up(self, stage: int, reason: str) -> None:
        """Have Spark fail the job that needs a stage, with a reason, instead of starting the stage once more."""
        context = self._context()
        if context is not None:
            with contextlib.suppress(Exception):  # the JVM may go at any moment; and then Spark goes on as it does
                context._jsc.sc().cancelStage(stage, reason)

    def _tasks(
        self, stage: int, attempt: int, limit: int, start: int = 0, status: str | None = None
    ) -> list[JavaObject]:
        """Return what the store says of an attempt's tasks, by their numbers; only of those with a status, if given."""
        context = self._context()
        if context is None:
            return []
        try:
            jvm: JVMView = context._jvm
            api = jvm.org.apache.spark.status.api.v1
            wanted = jvm.java.util.ArrayList()
            if status is not None:
                wanted.add(getattr(api.TaskStatus, status))
            store = context._jsc.sc().statusStore()
            tasks = store.taskList(stage, attempt, start, limit, api.TaskSorting.ID, wanted)
            return [tasks.apply(index) for index in range(tasks.size())]
        except Exception:  # the JVM may go at any moment, and none of this is Spark's public API
            return []


class UnknownStages:
    """As `SparkStages`, for a program that cannot ask Spark: a client of Spark Connect."""

    def progress(self, stage: int) -> StageProgress | None:
        """Return None: it is not known."""

    def attempt_of(self, stage: int, task: int, task_count: int) -> AttemptTasks | None:
        """Return None: it is not known, but a task's number tells it mostly."""

    def failures(self, stage: int, attempt: int) -> list[TaskEnd]:
        """Return none that is known."""
        return []

    def end_of(self, stage: int, attempt: AttemptTasks, task: int) -> TaskEnd | None:
        """Return None: it is not known."""

    def give_up(self, stage: int, reason: str) -> None:
        """Do nothing: Spark starts the stage as often as it does."""


def _end_of(task: JavaObject) -> TaskEnd | None:
    """Read one out of the store."""
    try:
        number, status = int(task.taskId()), task.status()
        if status == "FAILED":
            message = task.errorMessage().get()
            return TaskEnd(number, True, reason_of(message), message.startswith(_RAISED))
    except Exception:  # as above
        return None
    return TaskEnd(number) if status == "SUCCESS" else None


def reason_of(message: str) -> str:
    r"""Return the line that says most in what Spark gives as the error of a task.

    Examples
    --------
    >>> reason_of("org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    ...           '  File "job.py", line 3, in take\nKeyError: 7\n SQLSTATE: 38000\n\tat org.apache.spark.api.python')
    'KeyError: 7'
    >>> reason_of("ExecutorLostFailure (executor 1 exited): it was killed")
    'ExecutorLostFailure (executor 1 exited): it was killed'
    """
    lines = [line for line in message.partition("\n\tat ")[0].splitlines() if line and "SQLSTATE:" not in line]
    in_traceback = [index for index, line in enumerate(lines) if line.startswith("  ") or "Traceback (most" in line]
    return " ".join(lines[max(in_traceback, default=-1) + 1 :] or lines)[:REASON_LIMIT]
