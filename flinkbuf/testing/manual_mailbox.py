"""A mailbox whose mails a test runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition

_PATIENCE_S = 30  # for a mail of another thread, in a test


class ManualMailbox:
    """Keeps mails until they are run; `submit` may be called from any thread.

    Examples
    --------
    >>> mailbox, seen = ManualMailbox(), []
    >>> mailbox.submit(lambda: seen.append(1))
    >>> mailbox.run_all(), seen
    (1, [1])
    """

    def __init__(self) -> None:
        self._mails: deque[Callable[[], object]] = deque()
        self._arrived = Condition()

    def submit(self, mail: Callable[[], object], description: str = "") -> None:
        """Keep a mail."""
        with self._arrived:
            self._mails.append(mail)
            self._arrived.notify()

    def try_yield(self) -> bool:
        """Run one mail if there is one; returns whether."""
        with self._arrived:
            mail = self._mails.popleft() if self._mails else None
        if mail is None:
            return False
        mail()
        return True

    def yield_(self) -> None:
        """Run one mail, waiting for it."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: self._mails, _PATIENCE_S):
                raise TimeoutError(f"no mail came in {_PATIENCE_S} s: nothing is under way that would send one")
        self.try_yield()

    def run_all(self) -> int:
        """Run the mails that are there, and those that they send; returns how many."""
        count = 0
        while self.try_yield():
            count += 1
        return count
