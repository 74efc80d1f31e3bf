"""Which checkpoint that was asked for is begun next, and when. Flink: CheckpointRequestDecider.

All requests wait in one line: savepoints first, then forced ones, then a user's, then those of the
interval; among equals the older one.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from typing import Final

from flinkbuf.checkpoints.options import SnapshotKind

QUEUE_LIMIT: Final = 1_000
NEVER_MS: Final = -(1 << 62)


@dataclass(frozen=True)
class CheckpointRequest:
    """A checkpoint that a user or the interval asks for.

    Attributes
    ----------
    number : int
        Requests are counted.
    is_periodic : bool
        The interval asks.
    is_forced : bool
        It waits for no other one.
    user_request : int or None
        The number that its answer carries, if a user waits for one.
    directory : str
        Where a savepoint goes.
    """

    number: int
    timestamp_ms: int
    kind: SnapshotKind = SnapshotKind.CHECKPOINT
    is_periodic: bool = False
    is_forced: bool = False
    user_request: int | None = None
    directory: str = ""

    @property
    def rank(self) -> tuple[bool, bool, bool, int, int]:
        """Return the place in the line: the smallest comes first."""
        return not self.kind.is_savepoint, not self.is_forced, self.is_periodic, self.timestamp_ms, self.number


@dataclass(frozen=True)
class Choice:
    """What to do with the line.

    Attributes
    ----------
    begin : CheckpointRequest or None
        The request to begin.
    too_early : CheckpointRequest or None
        The request that was taken out of the line: the last checkpoint is too young.
    ask_again_in_ms : int
        When the interval may ask again, then.
    """

    begin: CheckpointRequest | None = None
    too_early: CheckpointRequest | None = None
    ask_again_in_ms: int = 0


NOTHING: Final = Choice()


class CheckpointRequests:
    """The line of waiting requests.

    Parameters
    ----------
    max_concurrent : int
    min_pause_ms : int
    limit : int
        How many may wait.

    Examples
    --------
    >>> requests = CheckpointRequests(max_concurrent=1, min_pause_ms=500)
    >>> requests.add(CheckpointRequest(1, 0, is_periodic=True))
    >>> requests.choose(400, pending_count=0, last_completion_ms=100)
    Choice(begin=None, too_early=CheckpointRequest(number=1, ...), ask_again_in_ms=200)
    """

    def __init__(self, max_concurrent: int, min_pause_ms: int, limit: int = QUEUE_LIMIT) -> None:
        self.max_concurrent = max_concurrent
        self.min_pause_ms = min_pause_ms
        self.limit = limit
        self._line: list[CheckpointRequest] = []

    def __len__(self) -> int:
        return len(self._line)

    @property
    def waiting(self) -> list[CheckpointRequest]:
        """Return all waiting requests, the next one first."""
        return list(self._line)

    def add(self, request: CheckpointRequest) -> CheckpointRequest | None:
        """Add a request; return the request that has to go for it, perhaps itself."""
        if request.is_periodic and any(each.is_periodic for each in self._line):
            return request  # a periodic request waits already
        if len(self._line) >= self.limit and not self._line[-1].is_periodic:
            return request
        insort(self._line, request, key=lambda each: each.rank)
        return self._line.pop() if len(self._line) > self.limit else None

    def choose(self, now_ms: int, *, pending_count: int, last_completion_ms: int = NEVER_MS) -> Choice:
        """Take the next request out of the line, if its time has come.

        Parameters
        ----------
        now_ms : int
        pending_count : int
            How many are under way.
        last_completion_ms : int
            When the last one was complete. Those that failed delay nothing.
        """
        if not self._line:
            return NOTHING
        head = self._line[0]
        if pending_count >= self.max_concurrent and not head.is_forced:
            return NOTHING
        remaining_ms = last_completion_ms + self.min_pause_ms - now_ms
        if head.is_periodic and not head.is_forced and remaining_ms > 0:
            return Choice(too_early=self._line.pop(0), ask_again_in_ms=remaining_ms)
        return Choice(begin=self._line.pop(0))

    def drop_checkpoints(self) -> list[CheckpointRequest]:
        """Drop all but savepoints; return the dropped requests that a user waits for."""
        line, self._line = self._line, [each for each in self._line if each.kind.is_savepoint]
        return [each for each in line if not each.kind.is_savepoint and each.user_request is not None]

    def clear(self) -> list[CheckpointRequest]:
        """Empty the line; return the requests that were in it."""
        line, self._line = self._line, []
        return line
