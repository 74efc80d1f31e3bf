"""Sources that are Python iterables, pulled on the task's own thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flinkbuf._core.source_operator import IteratorSourceOperator
from flinkbuf.streaming.latency_markers import LatencyMarkerEmitter, emit_latency_markers
from flinkbuf.streaming.operator_context import OperatorContext
from flinkbuf.types.values import StreamRecord, Watermark


class CollectionSourceOperator(IteratorSourceOperator):
    """Emits the elements of a collection, whatever they are, without timestamps."""

    def __init__(self, elements: Iterable[Any]) -> None:
        super().__init__(lambda context: elements)
        self._markers: LatencyMarkerEmitter | None = None

    def open(self) -> None:
        """Begin to emit latency markers, too, if the job wants any."""
        super().open()
        self._markers = emit_latency_markers(self)

    def close(self) -> None:
        """End the markers, and a generator that is not used up."""
        if self._markers is not None:
            self._markers.close()
        super().close()


class IterableSourceOperator(CollectionSourceOperator):
    """Emits what an iterable gives: `StreamRecord` with its timestamp, `Watermark` as one, the rest as values.

    While the iterable waits for something, the task waits with it: its timers and checkpoints come late. A source that
    waits is better a function with run(context), which has a thread of its own.
    """

    def __init__(self, make_iterable: Callable[[OperatorContext], Iterable[Any]]) -> None:
        IteratorSourceOperator.__init__(self, make_iterable, StreamRecord, Watermark)
        self._markers = None
