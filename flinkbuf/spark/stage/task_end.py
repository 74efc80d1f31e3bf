"""What a Spark task is still to do when the code of its user has come to its end well, before Spark counts it as ended.

PySpark tells nobody of the end of a task but the accumulators: a worker pickles their values in the task's own thread
when its code has ended well, and never when it has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flinkbuf.log import logger

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext, TaskContext


class LastCalls:
    """The value of an accumulator whose updates are calls: made when they are to be sent; the driver gets nothing."""

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[[], object], TaskContext | None]] = []

    def add(self, call: Callable[[], object], task_context: TaskContext | None) -> None:
        """Have something called at the end of the task."""
        self._calls.append((call, task_context))

    def __reduce__(self) -> tuple[object, ...]:
        while self._calls:
            _call(*self._calls.pop())
        return LastCalls, ()


class LastCallsParam:
    """How the accumulator adds: a worker takes calls, the driver gets none."""

    def __reduce__(self) -> tuple[object, ...]:
        return LastCallsParam, ()

    def zero(self, value: LastCalls) -> LastCalls:
        """Return a task with nothing to do."""
        return LastCalls()

    def addInPlace(
        self, value: LastCalls, call: LastCalls | tuple[Callable[[], object], TaskContext | None]
    ) -> LastCalls:
        """Take a call, with the context of its task."""
        if not isinstance(call, LastCalls):
            value.add(*call)
        return value


def last_calls_of(context: SparkContext) -> Accumulator[object]:
    """Return what `call_at_end` needs in the tasks; one does for a SparkContext, which never forgets it."""
    return context.accumulator(LastCalls(), LastCallsParam())  # type: ignore[arg-type]


def call_at_end(last_calls: Accumulator[object], call: Callable[[], object]) -> None:
    """Have something called, in a task, when the code of the user has ended well."""
    from pyspark import TaskContext

    last_calls.add((call, TaskContext.get()))


def _call(call: Callable[[], object], task_context: TaskContext | None) -> None:
    """Call as if the task still ran, which PySpark has forgotten: code of the user may ask for it."""
    from pyspark import BarrierTaskContext, TaskContext

    for kind in (TaskContext, BarrierTaskContext):
        kind._setTaskContext(task_context)
    try:
        call()
    except Exception as error:  # here it could only kill the worker
        logger.warning("at the end of the task: %s", error)
    finally:
        for kind in (TaskContext, BarrierTaskContext):
            kind._setTaskContext(None)
