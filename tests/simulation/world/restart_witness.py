"""A restart strategy that notes what it was asked and what it answered."""

from __future__ import annotations

from typing import Any


class RestartWitness:
    """Around a real strategy."""

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy
        self.new_count = 0  # failures that were no part of the one before
        self.is_refused = False  # the last answer
        self.grants: list[tuple[int, int]] = []  # when it was asked, and when the job may begin again

    @property
    def description(self) -> str:
        return self._strategy.description

    def notify_failure(self, now_ms: int) -> bool:
        is_new = self._strategy.notify_failure(now_ms)
        self.new_count += is_new
        return is_new

    def can_restart(self) -> bool:
        can_restart = self._strategy.can_restart()
        self.is_refused = self.is_refused or not can_restart
        return can_restart

    def backoff_ms(self, now_ms: int) -> int:
        backoff_ms = self._strategy.backoff_ms(now_ms)
        self.grants.append((now_ms, now_ms + backoff_ms))
        return backoff_ms

    def allows(self, since_ms: int, now_ms: int) -> bool:
        """Whether a failure since then gave leave to begin again now."""
        return any(asked_ms >= since_ms and due_ms <= now_ms for asked_ms, due_ms in self.grants)
