"""Heartbeats: which task managers have been silent for too long.

Flink: HeartbeatManagerSenderImpl, HeartbeatMonitorImpl. One monitor asks all at the same time, so that a report can be
compared with what was sent before it.
"""

from __future__ import annotations


class HeartbeatMonitor:
    """Asks all task managers every interval, and reports those not heard within the timeout.

    Parameters
    ----------
    interval_ms, timeout_ms : int

    Attributes
    ----------
    sequence : int
        Of the last question; an answer names it.

    Examples
    --------
    >>> monitor = HeartbeatMonitor(interval_ms=10, timeout_ms=25)
    >>> monitor.watch("a", 0)
    >>> monitor.watch("b", 0)
    >>> monitor.ask(10), monitor.sequence, monitor.next_deadline_ms
    (['a', 'b'], 1, 20)
    >>> monitor.heard("b", 12)
    >>> monitor.ask(20), monitor.silent(25)
    (['a', 'b'], ['a'])
    """

    def __init__(self, interval_ms: int, timeout_ms: int) -> None:
        self.interval_ms = interval_ms
        self.timeout_ms = timeout_ms
        self.sequence = 0
        self._heard_ms: dict[str, int] = {}  # oldest first
        self._trusted: dict[str, None] = {}  # managers that are asked, but may be silent
        self._next_ask_ms: int | None = None

    def watch(self, target: str, now_ms: int, *, may_be_silent: bool = False) -> None:
        """Ask this manager, too, from now on."""
        if self._next_ask_ms is None:
            self._next_ask_ms = now_ms + self.interval_ms
        if may_be_silent:
            self._trusted[target] = None
        else:
            self._heard_ms[target] = now_ms

    def forget(self, target: str) -> None:
        """Do not ask this manager any more."""
        self._heard_ms.pop(target, None)
        self._trusted.pop(target, None)
        if not self._heard_ms and not self._trusted:
            self._next_ask_ms = None

    def heard(self, target: str, now_ms: int) -> None:
        """Note that a message of this manager came."""
        if target in self._heard_ms:
            del self._heard_ms[target]  # the others move to the front
            self._heard_ms[target] = now_ms

    @property
    def next_deadline_ms(self) -> int | None:
        """Return when to call `ask` next."""
        if self._next_ask_ms is None or not self._heard_ms:
            return self._next_ask_ms
        return min(self._next_ask_ms, next(iter(self._heard_ms.values())) + self.timeout_ms)

    def ask(self, now_ms: int) -> list[str]:
        """Return the managers to ask now, with `sequence`; mostly none.

        After a late call, because the whole process stood still, messages of that time are not read yet: it counts
        against no manager.
        """
        if self._next_ask_ms is None or now_ms < self._next_ask_ms:
            return []
        late_ms = now_ms - self._next_ask_ms
        if late_ms > self.interval_ms:
            self._heard_ms = {target: min(now_ms, ms + late_ms) for target, ms in self._heard_ms.items()}
        self._next_ask_ms = now_ms + self.interval_ms
        self.sequence += 1
        return [*self._heard_ms, *self._trusted]

    def silent(self, now_ms: int) -> list[str]:
        """Return the managers not heard within the timeout; call `ask` first."""
        found = []
        for target, heard_ms in self._heard_ms.items():
            if now_ms - heard_ms < self.timeout_ms:
                break
            found.append(target)
        return found
