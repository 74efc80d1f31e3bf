"""Sources that are Python iterables, pulled on the task's own thread."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flinkbuf._core.source_operator import IteratorSourceOperator
from flinkbuf.streaming.by_reference import CannotBeginAgainError
from flinkbuf.streaming.latency_markers import LatencyMarkerEmitter, emit_latency_markers
from flinkbuf.streaming.operator_context import OperatorContext
from flinkbuf.streaming.state import ListStateDescriptor
from flinkbuf.types.values import StreamRecord, Watermark

POSITION_STATE = "position"


class CollectionSourceOperator(IteratorSourceOperator):
    """Emits the elements of a collection, whatever they are, without timestamps."""

    def __init__(self, elements: Iterable[Any]) -> None:
        super().__init__(lambda context: elements)
        self._markers: LatencyMarkerEmitter | None = None

    def initialize_state(self, snapshot: Any) -> None:
        """Get how many elements were emitted before."""
        super().initialize_state(snapshot)
        self._position = self.context.operator_state.get_list_state(ListStateDescriptor(POSITION_STATE, None))

    def open(self) -> None:
        """Begin behind what was emitted before a restore, with latency markers if the job wants any."""
        super().open()
        self.skip(sum(self._position.get()))
        self._markers = emit_latency_markers(self)

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """Keep how many elements were emitted."""
        self._position.update([self.position])
        return super().snapshot_state(checkpoint_id)

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


class ProgramIterable:
    """An iterable that is the program's own; an iterator is read once, and then it says why not again.

    Examples
    --------
    >>> numbers = ProgramIterable(iter([1, 2]))
    >>> numbers.why_not_again(), list(numbers)
    (None, [1, 2])
    >>> numbers.why_not_again()[:62]
    'its source reads an iterator, which cannot be read a second ti'
    """

    def __init__(self, iterable: Iterable[Any]) -> None:
        self._iterable = iterable
        self._has_begun = False

    def __iter__(self) -> Iterator[Any]:
        reason = self.why_not_again()
        if reason is not None:
            raise CannotBeginAgainError(f"the job was restarted, but cannot be: {reason}")
        self._has_begun = True
        return iter(self._iterable)

    def why_not_again(self) -> str | None:
        """Return why it cannot be read from its beginning; None: it can."""
        if not self._has_begun or not isinstance(self._iterable, Iterator):
            return None
        return (
            "its source reads an iterator, which cannot be read a second time: "
            f"{reprlib.repr(self._iterable)}; give add_source a list, or a function that returns an iterator"
        )
