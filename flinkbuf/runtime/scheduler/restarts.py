"""Subtasks that begin again, as soon as all of them have ended and the time has come.

A newer failure takes over the subtasks that it concerns: the older restart goes on with what is left, and none is
started twice. Flink: ExecutionVertexVersioner, DefaultScheduler.restartTasksWithDelay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flinkbuf.runtime.scheduler.regions import Subtask


@dataclass(eq=False)
class Restart:
    """Subtasks that begin again together.

    Attributes
    ----------
    subtasks : set
        All of them.
    open : set
        Those whose last attempt has not ended yet.
    due_ms : int
        Not before that.
    is_global : bool
        The whole job, its sources' coordinators included.
    needs_new_run : bool
        In other processes than those that are there.
    is_released : bool
        Those processes were told to end.
    """

    subtasks: set[Subtask]
    open: set[Subtask]
    due_ms: int
    is_global: bool = False
    needs_new_run: bool = False
    is_released: bool = False


class Restarts:
    """All restarts that wait; each subtask is in one at most.

    Examples
    --------
    >>> restarts = Restarts()
    >>> first = restarts.begin([(0, 0), (0, 1)], due_ms=10, is_open=lambda subtask: False)
    >>> second = restarts.begin([(0, 1)], due_ms=20, is_open=lambda subtask: True)
    >>> first.subtasks, restarts.ready(30) == [first]
    ({(0, 0)}, True)
    >>> restarts.ended((0, 1))
    >>> restarts.ready(15) == [first], restarts.ready(30) == [first, second]
    (True, True)
    """

    def __init__(self) -> None:
        self.waiting: list[Restart] = []

    def begin(
        self,
        subtasks: Iterable[Subtask],
        due_ms: int,
        is_open: Callable[[Subtask], bool],
        *,
        is_global: bool = False,
        needs_new_run: bool = False,
    ) -> Restart:
        """Begin a restart, which takes over subtasks that wait already; all of them if one is of the whole job."""
        taken = set(subtasks)
        for other in self.waiting:
            if other.is_global or other.needs_new_run:
                taken |= other.subtasks
                is_global, needs_new_run = is_global or other.is_global, needs_new_run or other.needs_new_run
        for other in self.waiting:
            other.subtasks -= taken
            other.open -= taken
        self.waiting = [other for other in self.waiting if other.subtasks]
        restart = Restart(taken, {each for each in taken if is_open(each)}, due_ms, is_global, needs_new_run)
        self.waiting.append(restart)
        return restart

    def ended(self, subtask: Subtask) -> None:
        """Note that the last attempt of a subtask has ended."""
        for restart in self.waiting:
            restart.open.discard(subtask)

    def to_release(self) -> list[Restart]:
        """Return the restarts whose subtasks have all ended, and whose processes were not told to end yet."""
        return [each for each in self.waiting if each.needs_new_run and not each.open and not each.is_released]

    def ready(self, now_ms: int) -> list[Restart]:
        """Return the restarts whose time has come; they still wait until `done`."""
        return [
            each
            for each in self.waiting
            if not each.open and each.due_ms <= now_ms and (each.is_released or not each.needs_new_run)
        ]

    def done(self, restart: Restart) -> None:
        """Drop a restart: its subtasks have begun again."""
        self.waiting.remove(restart)

    def clear(self) -> None:
        """Drop all restarts."""
        self.waiting.clear()
