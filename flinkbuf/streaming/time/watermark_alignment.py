"""Sources of one group wait for the slowest of them: how far each is, and how far each may go.

Decides only. Flink: FLIP-182, FLIP-217; SourceCoordinator.WatermarkAggregator, SourceOperator.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK


class AlignmentGroup:
    """How far each member of a group is. A member that has not reported yet holds no other back.

    Examples
    --------
    >>> group = AlignmentGroup(max_drift_ms=10)
    >>> group.report("a", 100), group.report("b", 50), group.report("a", 120)
    (110, 60, None)
    """

    def __init__(self, max_drift_ms: int) -> None:
        self.max_drift_ms = max_drift_ms
        self._watermarks: dict[Hashable, int] = {}
        self._announced: int | None = None

    def report(self, member: Hashable, watermark: int) -> int | None:
        """Note that a member has come to `watermark`; return how far all may go now, None: as far as before."""
        self._watermarks[member] = watermark
        return self._changed_limit()

    def leave(self, member: Hashable) -> int | None:
        """Drop a member that has ended; return as report()."""
        self._watermarks.pop(member, None)
        return self._changed_limit()

    @property
    def limit(self) -> int:
        """Return how far all may go."""
        lowest = min(self._watermarks.values(), default=MAX_WATERMARK)
        return min(lowest + self.max_drift_ms, MAX_WATERMARK)

    def _changed_limit(self) -> int | None:
        limit = self.limit
        if limit == self._announced:
            return None
        self._announced = limit
        return limit


class ReaderAlignment:
    """Whether one source operator, or one of its splits, is too far ahead.

    Examples
    --------
    >>> alignment = ReaderAlignment()
    >>> alignment.limit = 60
    >>> alignment.is_ahead(61), alignment.is_ahead(60), alignment.changes({"s": 70, "t": 10})
    (True, False, (['s'], []))
    >>> alignment.limit = 80
    >>> alignment.changes({"s": 70, "t": 10})
    ([], ['s'])
    """

    def __init__(self) -> None:
        self.limit = MAX_WATERMARK
        self._paused: set[str] = set()

    def is_ahead(self, watermark: int) -> bool:
        """Return whether a reader that has come to `watermark` is to wait."""
        return watermark > self.limit

    def changes(self, split_watermarks: dict[str, int]) -> tuple[list[str], list[str]]:
        """Return the splits to pause and those to resume."""
        # The only split is the operator itself, which waits as a whole.
        ahead = {split for split, watermark in split_watermarks.items() if self.is_ahead(watermark)}
        if len(split_watermarks) == 1:
            ahead = set()
        to_pause, to_resume = sorted(ahead - self._paused), self._known(self._paused - ahead, split_watermarks)
        self._paused = ahead
        return to_pause, to_resume

    @staticmethod
    def _known(splits: Iterable[str], split_watermarks: dict[str, int]) -> list[str]:
        return sorted(split for split in splits if split in split_watermarks)
