"""The markers that a source sends among its records, so that operators see how long records take.

Flink: LatencyMarkerEmitter.
"""

from __future__ import annotations

from flinkbuf._core.operators.stream_operator import StreamOperator
from flinkbuf.streaming.time.processing_time import TimerHandle
from flinkbuf.types.values import LatencyMarker


class LatencyMarkerEmitter:
    """Emits one marker at once and one each interval after it, from the timers of a source.

    Threads: the task's only.
    """

    def __init__(self, operator: StreamOperator, interval_ms: int) -> None:
        context = operator.context
        self._output = operator.output
        self._time = context.processing_time
        self._operator_id = bytes.fromhex(context.operator_id)
        self._subtask_index = context.task.subtask_index
        self._interval_ms = interval_ms
        # Not from within open(): operators emit once all of them are open and the task runs.
        self._timer: TimerHandle = self._time.register_timer(self._time.now_ms(), self._emit)

    def _emit(self, timestamp_ms: int) -> None:
        now_ms = self._time.now_ms()
        self._output.emit_latency_marker(LatencyMarker(now_ms, self._operator_id, self._subtask_index))
        # From the planned time, so that a late timer delays no other; but never several at once after a pause.
        self._timer = self._time.register_timer(max(timestamp_ms + self._interval_ms, now_ms), self._emit)

    def close(self) -> None:
        """Emit no more."""
        self._timer.cancel()


def emit_latency_markers(operator: StreamOperator) -> LatencyMarkerEmitter | None:
    """Start the markers of a source if its job wants any; called in open(), closed by the operator."""
    interval_ms = operator.context.settings.latency_tracking_interval_ms
    return LatencyMarkerEmitter(operator, interval_ms) if interval_ms > 0 else None
