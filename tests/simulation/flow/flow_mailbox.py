"""The mailbox of a task: what others want of its thread, in order, while that is at work on something else."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulation.flow.flow_task import FlowTask


class FlowMailbox:
    """What a task's thread does between two pieces of its work: a `MailboxExecutor`."""

    def __init__(self, task: FlowTask) -> None:
        self._task = task
        self._mails: deque[Callable[[], Any]] = deque()
        self._is_planned = False

    def submit(self, mail: Callable[[], Any], description: str = "") -> None:
        """Do it behind all others, when the thread has done what it is at work on."""
        self._mails.append(mail)
        if not self._is_planned:
            self._plan(0 if self._task.world.is_healed else self._task.world.between(self._task.flow.process_ms))

    def _plan(self, delay_ms: int) -> None:
        self._is_planned = True
        self._task.world.agenda.after(delay_ms, self._run_next)

    def _run_next(self) -> None:
        """One at a time: others may come meanwhile, from the task's other threads and from this one."""
        self._is_planned = False
        if self._task.is_working():
            self._task.guarded(self._mails.popleft())
            if self._mails and not self._is_planned:
                self._plan(0)
