"""Connections as TCP makes them: in order each way, sometimes slow; they break, or hang and tell nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkbuf.runtime.protocol.messages import (
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorEventMessage,
    OperatorEventReport,
    RegisterManager,
    RegistrationAccepted,
    TaskStateReport,
)

if TYPE_CHECKING:
    from simulation.world.managers import SimManager
    from simulation.world.world import World

# Without these nothing goes on, and nobody says them again: a connection that loses one has broken.
EXACTLY_ONCE = (
    RegisterManager,
    RegistrationAccepted,
    OperatorEventMessage,
    OperatorEventReport,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
)


class Connection:
    """Between the job and one manager.

    Attributes
    ----------
    is_open : bool
        Whether the job's end is.
    was_ill : bool
        Whether it ever did less than a connection should.
    """

    def __init__(self, world: World, manager: SimManager) -> None:
        self.world = world
        self.manager = manager
        self.is_open = True
        self.is_broken = False  # what is under way is lost
        self.is_out_of_reach = False  # nothing reaches the machine any more, not even the end of its process
        self.was_ill = False
        self.hangs_until = {"up": 0, "down": 0}
        self._last_ms = {"up": 0, "down": 0}

    # ---- what both ends send

    def send_up(self, message: object) -> None:
        """From the manager to the job."""
        message = self.world.carried(message)
        for _ in range(self._times("up", message)):
            self.world.agenda.at(self._arrival_ms("up"), self._arrive, "up", message)

    def send_down(self, message: object) -> None:
        """From the job to the manager."""
        message = self.world.carried(message)
        for _ in range(self._times("down", message) if self.is_open else 0):
            self.world.agenda.at(self._arrival_ms("down"), self._arrive, "down", message)

    def _times(self, way: str, message: object) -> int:
        """How often it arrives: TCP says once, but a shell may drop a message or send it again."""
        if self.is_broken:
            return 0
        rng, odds = self.world.rng, self.world.odds
        if self.world.is_healed or self.manager.is_program or isinstance(message, EXACTLY_ONCE):
            return 1
        if self.world.takes_checkpoints and isinstance(message, TaskStateReport) and message.state == "RUNNING":
            return 1  # else no checkpoint is ever taken
        if odds.loss and rng.random() < odds.loss:
            self.was_ill = True
            self.world.note("lost", way, self.manager.id, message)
            return 0
        return 2 if odds.doubling and rng.random() < odds.doubling else 1

    def _arrival_ms(self, way: str) -> int:
        """Never before what was sent before."""
        delay = 0 if self.manager.is_program else self.world.between(self.world.odds.latency_ms)
        self._last_ms[way] = max(self._last_ms[way], self.world.now_ms + delay)
        return self._last_ms[way]

    def _arrive(self, way: str, message: object) -> None:
        if self.is_broken:
            return
        if self.hangs_until[way] > self.world.now_ms:
            self._wait(way, message)
        elif way == "up":
            self.world.manager_said(self.manager.id, message)
        elif self.manager.is_alive:
            self.manager.inbox.put(message)

    def _wait(self, way: str, message: object) -> None:
        """It arrives when the connection does something again, if ever."""
        if self.hangs_until[way] < self.world.never_ms:
            self.world.agenda.at(self.hangs_until[way], self._arrive, way, message)

    # ---- what happens to it

    def hang(self, ways: tuple[str, ...], until_ms: int) -> None:
        """Nothing arrives, and neither end is told."""
        self.was_ill = True
        for way in ways:
            self.hangs_until[way] = max(self.hangs_until[way], until_ms)

    def break_off(self, reason: str) -> None:
        """What is under way is lost; both ends are told, each in its time, unless it hangs."""
        if not self.is_broken:
            self.is_broken = self.was_ill = True
            self._tell_job(reason)
            self._tell_manager(reason)

    def end_by_manager(self, reason: str) -> None:
        """The process has gone: what it sent arrives before the end, or the end of the process is seen first."""
        if self.is_out_of_reach:
            return
        if self.world.rng.random() < 0.5 and self.hangs_until["up"] <= self.world.now_ms:
            self.world.agenda.at(self._arrival_ms("up"), self._lost, reason)
        else:
            self._tell_job(reason)

    def close(self, reason: str) -> None:
        """By the job: it sends nothing more; what comes from the manager still lies in its inbox."""
        if self.is_open:
            self.is_open = False
            self._tell_manager(reason)

    def _tell_job(self, reason: str) -> None:
        if self.hangs_until["up"] <= self.world.now_ms or not self.manager.is_alive:
            self.world.agenda.after(self.world.between((0, 50)), self._lost, reason)

    def _lost(self, reason: str) -> None:
        self.is_open = False
        self.world.manager_lost(self.manager.id, reason)

    def _tell_manager(self, reason: str) -> None:
        if self.hangs_until["down"] <= self.world.now_ms:
            self.world.agenda.after(self.world.between((0, 50)), self.manager.link_lost, reason)


def describe(message: Any) -> str:
    """A message in a line of the story."""
    fields = (f"{name}={_short(value)}" for name, value in vars(message).items() if value not in ({}, None, ()))
    return f"{type(message).__name__}({', '.join(fields)})"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
