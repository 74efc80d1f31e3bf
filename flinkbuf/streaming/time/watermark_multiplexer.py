"""One watermark out of those of a source's splits: the lowest of all that are not idle.

Decides only; what it decides goes to the operator's output. Flink: WatermarkOutputMultiplexer, IdlenessManager,
WatermarkToDataOutput.
"""

from __future__ import annotations

from collections.abc import Callable

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP, Output
from flinkbuf._core.operators.watermark_generator import WatermarkOutput


class SourceWatermarks:
    """The watermarks and statuses that a source emits: each at most once, and an idle source is active before one.

    Parameters
    ----------
    output : Output
        Where they go.
    on_change : callable, optional
        Called after each.
    """

    def __init__(self, output: Output, on_change: Callable[[], None] = bool) -> None:  # type: ignore[assignment]
        self._output = output
        self._on_change = on_change
        self.watermark = NO_TIMESTAMP
        self.is_idle = False

    def emit_watermark(self, timestamp: int) -> None:
        """Event time has come to `timestamp`."""
        if timestamp <= self.watermark:
            return
        self.watermark = timestamp
        self._make_active()
        self._output.emit_watermark(timestamp)
        self._on_change()

    def mark_idle(self) -> None:
        """Mark the source idle: no operator needs to wait for it."""
        if not self.is_idle:
            self.is_idle = True
            self._output.emit_watermark_status(True)
            self._on_change()

    def mark_active(self) -> None:
        """Mark the source active: operators wait for its watermarks again."""
        if self.is_idle:
            self._make_active()
            self._on_change()

    def _make_active(self) -> None:
        if self.is_idle:
            self.is_idle = False
            self._output.emit_watermark_status(False)


class SplitWatermarks(WatermarkOutput):
    """The event time of one split; handed to its watermark generator as its output."""

    def __init__(self, multiplexer: WatermarkMultiplexer) -> None:
        self._multiplexer = multiplexer
        self.watermark = NO_TIMESTAMP
        self.is_idle = False

    def emit_watermark(self, timestamp: int) -> None:
        """Event time of the split has come to `timestamp`; an earlier one says only that it is active."""
        was_idle, self.is_idle = self.is_idle, False
        if timestamp > self.watermark:
            self.watermark = timestamp
            self._multiplexer.update()
        elif was_idle:
            self._multiplexer.update()

    def mark_idle(self) -> None:
        """Mark the split idle: the other splits need not wait for it."""
        if not self.is_idle:
            self.is_idle = True
            self._multiplexer.update()

    def mark_active(self) -> None:
        """Mark the split active: the others wait for it again."""
        if self.is_idle:
            self.is_idle = False
            self._multiplexer.update()


class WatermarkMultiplexer:
    """Combines the splits of one reader. A reader without any split at present says nothing of event time."""

    def __init__(self, output: SourceWatermarks) -> None:
        self._output = output
        self._splits: dict[str, SplitWatermarks] = {}
        self._is_collecting = False

    def register(self, split_id: str) -> SplitWatermarks:
        """Add a split; event time stands still until it has a watermark."""
        if split_id in self._splits:
            raise ValueError(f"split {split_id!r} has an output already; release it first")
        split = self._splits[split_id] = SplitWatermarks(self)
        return split

    def unregister(self, split_id: str) -> None:
        """Remove a split that has ended: it holds no other back any more."""
        if self._splits.pop(split_id, None) is not None:
            self.update()

    @property
    def split_watermarks(self) -> dict[str, int]:
        """Return the watermark of each split."""
        return {split_id: split.watermark for split_id, split in self._splits.items()}

    def update_together(self, work: Callable[[], None]) -> None:
        """Let `work` update several splits, and emit at most one watermark for all of them."""
        self._is_collecting = True
        try:
            work()
        finally:
            self._is_collecting = False
        self.update()

    def update(self) -> None:
        """Emit the watermark and status that follow from the splits as they are."""
        if self._is_collecting or not self._splits:
            return
        active = [split.watermark for split in self._splits.values() if not split.is_idle]
        if not active:
            self._output.mark_idle()
            return
        self._output.mark_active()
        self._output.emit_watermark(min(active))
