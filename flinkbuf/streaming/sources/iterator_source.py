"""Sources that are Python iterables: what lies in memory is read on the task's thread, the rest on one of its own."""

from __future__ import annotations

import reprlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from flinkbuf._core.operators.iterator_handover import IteratorHandover
from flinkbuf._core.operators.source_operator import HandoverSourceOperator, IteratorSourceOperator
from flinkbuf._core.operators.stream_operator import Output
from flinkbuf.streaming.chain.by_reference import CannotBeginAgainError
from flinkbuf.streaming.chain.latency_markers import LatencyMarkerEmitter, emit_latency_markers
from flinkbuf.streaming.chain.operator_context import OperatorContext
from flinkbuf.streaming.sources.source_thread import SourceThread
from flinkbuf.streaming.state.state import ListStateDescriptor
from flinkbuf.types.values import StreamRecord, Watermark

if TYPE_CHECKING:
    from flinkbuf.streaming.state.snapshot import OperatorSnapshot

POSITION_STATE = "position"
IN_MEMORY = (list, tuple, range, dict, set, frozenset, str, bytes, bytearray, deque)  # no element is waited for


class CollectionSourceOperator(IteratorSourceOperator):
    """Emits the elements of a collection, whatever they are, without timestamps."""

    def __init__(self, elements: Iterable[object]) -> None:
        super().__init__(lambda context: elements)
        self._markers: LatencyMarkerEmitter | None = None

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Get how many elements were emitted before."""
        super().initialize_state(snapshot)
        self._position = self.context.operator_state.get_list_state(ListStateDescriptor(POSITION_STATE, None))

    def open(self) -> None:
        """Begin behind what was emitted before a restore, with latency markers if the job wants any."""
        super().open()
        self.skip(sum(self._position.get()))
        self._markers = emit_latency_markers(self)

    def snapshot_state(self, checkpoint_id: int) -> OperatorSnapshot:
        """Keep how many elements were emitted."""
        self._position.update([self.position])
        return super().snapshot_state(checkpoint_id)

    def close(self) -> None:
        """End the markers, and a generator that is not used up."""
        if self._markers is not None:
            self._markers.close()
        super().close()


class IterableSourceOperator(CollectionSourceOperator):
    """Emits what an iterable holds: `StreamRecord` with its timestamp, `Watermark` as one, the rest as values.

    The iterable lies in memory, so that none of its elements is waited for.
    """

    def __init__(self, make_iterable: Callable[[OperatorContext], Iterable[object]]) -> None:
        IteratorSourceOperator.__init__(self, make_iterable, StreamRecord, Watermark)
        self.copies = True  # what functions change is still as it was when it is read again
        self._markers = None


class GeneratorSourceOperator(HandoverSourceOperator):
    """Emits the same of an iterable that may wait, such as a generator, which is read on a thread of its own.

    While it waits the task goes on with its timers, watermarks and checkpoints, and can be cancelled. At the end a
    generator is closed on its thread: at once if it waits at a ``yield``, else when it comes to one. The task does not
    wait for that longer than `patience_s` before and after it has interrupted it.
    """

    patience_s = 0.1
    closing_s = 30.0  # for what a generator does in its `finally`

    def __init__(self, make_iterable: Callable[[OperatorContext], Iterable[object]]) -> None:
        super().__init__(make_iterable, StreamRecord, Watermark)
        self._make_iterable = make_iterable
        self._thread: SourceThread | None = None
        self._begun_at = 0  # the position it begins at
        self._closing_error: BaseException | None = None
        self._markers: LatencyMarkerEmitter | None = None

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Get how many elements were emitted before."""
        super().initialize_state(snapshot)
        self._position = self.context.operator_state.get_list_state(ListStateDescriptor(POSITION_STATE, None))

    def open(self) -> None:
        """Get ready; the iterable is asked from the first turn on, when all operators are open."""
        self._begun_at = sum(self._position.get())
        self.resume_at(self._begun_at)
        self.handover = IteratorHandover(self.context.wake, record_class=StreamRecord)
        self._markers = emit_latency_markers(self)

    def emit_next(self, output: Output, max_records: int) -> int:
        """Emit what was handed over."""
        if self._thread is None and not self.handover.is_closed:
            self._thread = SourceThread(self._read, self.context.task.task_name_with_subtask)
            self._thread.start()
        return super().emit_next(output, max_records)

    def snapshot_state(self, checkpoint_id: int) -> OperatorSnapshot:
        """Keep how many elements were emitted; those that were only handed over are given again after a restore."""
        self._position.update([self.position])
        return super().snapshot_state(checkpoint_id)

    def cancel(self) -> None:
        """Have no more elements handed over; from any thread."""
        if self.handover is not None:
            self.handover.close()

    def close(self) -> None:
        """End the markers, and the thread."""
        if self._markers is not None:
            self._markers.close()
        if self._thread is None:
            return
        is_running = self.handover.close()
        if is_running or not self._thread.join(self.closing_s):
            self._thread.end(f"the iterable of {self.context.operator_name!r}", self.patience_s)
        error, self._closing_error = self._closing_error, None
        if error is not None:
            raise error

    # ---- its own thread ---------------------------------------------------------------------------------

    def _read(self) -> None:
        handover = self.handover
        iterator: Iterator[object] | None = None
        error: BaseException | None = None
        try:
            iterator = iter(self._make_iterable(self.context))
            handover.fill(iterator, self._begun_at)
        except BaseException as raised:
            error = raised
        if not handover.is_closed:
            handover.end(error)
        elif iterator is not None:
            self._close_iterator(iterator)

    def _close_iterator(self, iterator: Iterator[object]) -> None:
        """A generator that is not used up runs its `finally` now."""
        close = getattr(iterator, "close", None)
        if close is None or not hasattr(iterator, "gi_frame"):
            return
        try:
            close()
        except BaseException as raised:
            self._closing_error = raised


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

    def __init__(self, iterable: Iterable[object]) -> None:
        self._iterable = iterable
        self._has_begun = False

    def __iter__(self) -> Iterator[object]:
        reason = self.why_not_again()
        if reason is not None:
            raise CannotBeginAgainError(f"the job was restarted, but cannot be: {reason}")
        self._has_begun = True
        return iter(self._iterable)

    @property
    def is_in_memory(self) -> bool:
        """Return whether no element of the iterable has to be waited for."""
        return type(self._iterable) in IN_MEMORY

    def why_not_again(self) -> str | None:
        """Return why it cannot be read from its beginning; None: it can."""
        if not self._has_begun or not isinstance(self._iterable, Iterator):
            return None
        return (
            "its source reads an iterator, which cannot be read a second time: "
            f"{reprlib.repr(self._iterable)}; give add_source a list, or a function that returns an iterator"
        )
