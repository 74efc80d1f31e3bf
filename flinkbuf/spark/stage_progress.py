"""What Spark says of a running stage, asked from the driver's rendezvous: how many of its tasks have ended."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True)
class StageProgress:
    """The tasks of a stage's latest attempt.

    Attributes
    ----------
    active, completed : int
        How many run, and how many have ended well.
    attempt : int
        Which attempt it is, from 0 on.
    """

    active: int
    completed: int
    attempt: int = 0


class Stages(Protocol):
    """Who knows the stages of a driver."""

    def progress(self, stage: int) -> StageProgress | None:
        """Return how far a stage is; None if that is not known."""

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

    def progress(self, stage: int) -> StageProgress | None:
        """Return how far a stage is; None if that is not known."""
        context = self._context()
        try:
            info = None if context is None else context.statusTracker().getStageInfo(stage)
        except Exception:  # the JVM may go at any moment
            return None
        if info is None:
            return None
        return StageProgress(info.numActiveTasks, info.numCompletedTasks, info.currentAttemptId)

    def cancel(self, stage: int, reason: str) -> None:
        """End a stage, and the jobs that need it; Spark shows the reason."""
        context = self._context()
        if context is not None and context._jsc is not None:
            context._jsc.sc().cancelStage(stage, reason)
