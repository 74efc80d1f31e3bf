"""Elements of few rows, which wait for each other and go to another task as one.

What a filter leaves of a batch may be a few rows, and an element costs what it costs, however few they are: its page is
made, sent, read, looked up in a join. So the rows of small elements go on together, where they go to an operator that
gives the same rows whatever elements they come in. They wait as long as records may wait in a buffer, and only where
another element came shortly before: if elements are rare, nothing would come that one could go on with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf._core.value.own_value import copied
from flinkbuf.records.column_batch import ColumnBatch, FilteredBatch, without_dictionaries
from flinkbuf.records.column_exchange import ColumnKeyPartitioner

if TYPE_CHECKING:
    import numpy as np

_ROWS_A_CHANNEL: Final = 1 << 11  # so many are no small element
_MOST_ROWS: Final = 1 << 14
_MOST_BYTES: Final = 1 << 20
_MOST_ELEMENTS: Final = 64


class SmallElements:
    """Small elements that wait at one edge; used by the task's thread.

    Parameters
    ----------
    channel_count : int
        To so many the rows go.
    max_delay_ms : int
        How long they may wait; -1: until there are enough of them.

    Attributes
    ----------
    count : int
        How many elements wait.
    began_ms : int
        Since when.

    Examples
    --------
    >>> import pyarrow as pa
    >>> small = SmallElements(channel_count=1, max_delay_ms=100)
    >>> one, two, three = (ColumnBatch(pa.record_batch({"a": [n]})) for n in (1, 2, 3))
    >>> [len(each) for each in small.add(one, now_ms=500)]  # nothing came before
    [1]
    >>> list(small.add(two, now_ms=520)), list(small.add(three, now_ms=560)), small.began_ms
    ([], [], 520)
    >>> [each.batch.to_pydict() for each in small.take()]
    [{'a': [2, 3]}]
    """

    def __init__(self, channel_count: int, max_delay_ms: int) -> None:
        self._wanted = min(_ROWS_A_CHANNEL * channel_count, _MOST_ROWS)
        self._max_delay_ms = max_delay_ms
        self._waiting: list[ColumnBatch] = []
        self._rows = self._bytes = 0
        self._came_ms: int | None = None  # the element before
        self.began_ms = 0

    @property
    def count(self) -> int:
        """Return how many elements wait."""
        return len(self._waiting)

    def add(self, element: ColumnBatch, now_ms: int) -> Iterator[ColumnBatch]:
        """Take an element; give what goes on now, in order."""
        came_ms, self._came_ms = self._came_ms, now_ms
        if len(element) >= self._wanted or (not self._waiting and not self._is_soon(came_ms, now_ms)):
            yield from self.take()
            yield element
            return
        element = _own(element)
        if self._waiting and not element.batch.schema.equals(self._waiting[0].batch.schema, check_metadata=True):
            yield from self.take()
        if not self._waiting:
            self.began_ms = now_ms
        self._waiting.append(element)
        self._rows += len(element)
        self._bytes += element.batch.nbytes
        if self._rows >= self._wanted or self._bytes >= _MOST_BYTES or len(self._waiting) >= _MOST_ELEMENTS:
            yield from self.take()

    def _is_soon(self, came_ms: int | None, now_ms: int) -> bool:
        """Return whether another element may be awaited."""
        return self._max_delay_ms < 0 or (came_ms is not None and 2 * (now_ms - came_ms) <= self._max_delay_ms)

    def take(self) -> list[ColumnBatch]:
        """Return the rows that wait: as one element, where Arrow can put their columns together."""
        import pyarrow as pa

        waiting, self._waiting = self._waiting, []
        self._rows = self._bytes = 0
        if len(waiting) < 2:
            return waiting
        try:
            batch = pa.concat_batches([each.batch for each in waiting])
        except pa.ArrowException:
            return waiting
        return [ColumnBatch(batch, _all_timestamps(waiting))]


def _own(element: ColumnBatch) -> ColumnBatch:
    """Return the rows over memory of their own: a function may go on changing the arrays of numpy that it gave."""
    batch, times = element.batch, element.timestamps
    if isinstance(element, FilteredBatch):  # whose rows were copied when somebody looked at them
        return ColumnBatch(without_dictionaries(batch), times)
    return ColumnBatch(copied(without_dictionaries(batch)), None if times is None else times.copy())


def _all_timestamps(elements: list[ColumnBatch]) -> np.ndarray | None:
    import numpy as np

    if all(each.timestamps is None for each in elements):
        return None
    none = (np.full(len(each), NO_TIMESTAMP) if each.timestamps is None else each.timestamps for each in elements)
    return np.concatenate(list(none))


def small_elements_for(partitioner: object, channel_count: int, buffer_timeout_ms: int) -> SmallElements | None:
    """Return where small elements wait at an edge; None: they do not."""
    if isinstance(partitioner, ColumnKeyPartitioner) and partitioner.gathers and buffer_timeout_ms != 0:
        return SmallElements(channel_count, buffer_timeout_ms)
    return None
