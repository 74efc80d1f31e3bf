"""When a lease that is not renewed has run out. It only decides: the caller has the clock, and renews."""

from __future__ import annotations

from typing import Final

RENEWALS_PER_TIMEOUT: Final = 3


class LeaseTerm:
    """Says whether another program may have taken a lease over, since ours was not renewed in time.

    A program that stood still has not tried to renew its lease meanwhile. So it may try once more before its lease
    counts as over: mostly no other program wanted the job.

    Parameters
    ----------
    timeout_ms : int
        After which others take over a lease that was not renewed.
    now_ms : int
        By the clock that all times here are of; it goes on while the machine sleeps.

    Attributes
    ----------
    pause_ms : int
        Between two renewals.

    Examples
    --------
    >>> term = LeaseTerm(timeout_ms=9_000, now_ms=0)
    >>> term.is_over(renewed_ms=0, now_ms=3_000), term.next_look_ms(renewed_ms=0)
    (False, 6000)
    >>> term.is_over(renewed_ms=0, now_ms=6_000), term.is_over(renewed_ms=0, now_ms=9_000)
    (False, True)
    """

    def __init__(self, timeout_ms: int, now_ms: int) -> None:
        self.pause_ms = max(1, timeout_ms // RENEWALS_PER_TIMEOUT)
        self._timeout_ms = timeout_ms
        self._looked_ms = now_ms
        self._spared_until_ms = now_ms

    def is_over(self, renewed_ms: int, now_ms: int) -> bool:
        """Return whether the lease is over; `renewed_ms` is when the last successful renewal was begun."""
        if now_ms - self._looked_ms >= 2 * self.pause_ms:  # the program stood still
            self._spared_until_ms = now_ms + self.pause_ms
        self._looked_ms = now_ms
        return now_ms >= self._end_ms(renewed_ms)

    def next_look_ms(self, renewed_ms: int) -> int:
        """Return when to call `is_over` again at the latest."""
        return min(self._looked_ms + self.pause_ms, self._end_ms(renewed_ms))

    def _end_ms(self, renewed_ms: int) -> int:
        return max(renewed_ms + self._timeout_ms, self._spared_until_ms)
