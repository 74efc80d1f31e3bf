"""What is different for an operator in batch execution: one key at a time, and no event time before its end.

Flink: BatchExecutionKeyedStateBackend, BatchExecutionInternalTimeServiceManager, the operators' property
``emitProgressiveWatermarks``.
"""

from __future__ import annotations

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK
from flinkbuf._core.state.timer_service import BatchTimerService, InternalTimerService
from flinkbuf.streaming.state.state_backend import KeyedStateBackend
from flinkbuf.streaming.state.timers import TimerServices
from flinkbuf.streaming.time.watermark_strategy import WatermarkStrategy


class BatchTimerServices(TimerServices):
    """Timers of the key at hand: they fire when the key ends, or event time does."""

    def _make_service(self, name: str, target: object) -> InternalTimerService:
        return BatchTimerService(name, self._keys, target, self._clock)

    def advance_watermark(self, timestamp: int) -> None:
        """Fire all timers at the last watermark; those before it mean nothing in batch."""
        if timestamp == MAX_WATERMARK:
            self.end_key()

    def end_key(self) -> None:
        """Fire all timers there are."""
        for service in self._services.values():
            service.end_key()  # type: ignore[attr-defined]


class BatchKeyedStateBackend(KeyedStateBackend):
    """State of the key at hand, which is gone when the key ends. In memory, whatever the job's backend is."""

    def end_key(self) -> None:
        """End the key: its timers fire, then its state goes."""
        self._timers.end_key()  # type: ignore[attr-defined]
        for _, _, state in self._states.values():
            state.forget_keys()


def without_watermarks(strategy: WatermarkStrategy) -> WatermarkStrategy:
    """Return a strategy that gives records the same timestamps, and no more."""
    assigner = strategy.create_timestamp_assigner()
    bare = WatermarkStrategy.no_watermarks()
    return bare if assigner is None else bare.with_timestamp_assigner(assigner.extract_timestamp)
