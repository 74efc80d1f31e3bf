"""The queues of the async operator: in the order of the input, or free between two watermarks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from flinkbuf._core.operators.async_call import AsyncCall
    from flinkbuf.async_io.function import ResultFuture


class RecordElement(NamedTuple):
    """What enters or leaves for one record, and its event time (ms), None where it has none; Flink's StreamRecord."""

    value: object
    timestamp: int | None = None


class WatermarkElement(NamedTuple):
    """A watermark as the queues carry it: whatever object its stream uses."""

    watermark: Any


class Entry:
    """One record in a queue, and what its call knows of itself."""

    # What most entries never set lies in the class: an entry is made for every record.
    is_watermark = False
    is_done = False
    results: list[object]  # once it is done
    segment: Segment | None = None
    key: object = None
    attempt = 0  # calls made so far
    submitted = 0.0  # when the first one was made, of time.monotonic()
    call: AsyncCall | ResultFuture | Future[object] | None = None  # the running attempt

    def __init__(self, record: object, timestamp: int | None = None, number: int = 0) -> None:
        self.record, self.timestamp, self.number = record, timestamp, number

    @property
    def entries(self) -> tuple[Entry]:
        """The records that share the call: only this one."""
        return (self,)

    @property
    def element(self) -> RecordElement:
        """What belongs into a snapshot."""
        return RecordElement(self.record, self.timestamp)


class WatermarkEntry:
    """A watermark in a queue; always done."""

    __slots__ = ("watermark",)

    is_watermark = True
    is_done = True

    def __init__(self, watermark: object) -> None:
        self.watermark = watermark

    @property
    def element(self) -> WatermarkElement:
        """What belongs into a snapshot."""
        return WatermarkElement(self.watermark)


QueueEntry = Entry | WatermarkEntry


class OrderedQueue:
    """Entries leave in the order in which they came.

    References
    ----------
    Flink ``OrderedStreamElementQueue``.
    """

    def __init__(self) -> None:
        self._entries: deque[QueueEntry] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entry: QueueEntry) -> None:
        """Append a record or a watermark."""
        self._entries.append(entry)

    def complete(self, entry: Entry, results: list[object]) -> bool:
        """Give an entry its results; True if something can leave now."""
        entry.results, entry.is_done = results, True
        return self._entries[0].is_done

    @property
    def has_ready(self) -> bool:
        """Whether `take_ready` gives something."""
        return bool(self._entries) and self._entries[0].is_done

    def take_ready(self) -> list[QueueEntry]:
        """Remove the entries that can leave, in the order in which they do."""
        entries, ready = self._entries, list[QueueEntry]()
        while entries and entries[0].is_done:
            ready.append(entries.popleft())
        return ready

    def __iter__(self) -> Iterator[QueueEntry]:
        return iter(self._entries)


class Segment:
    """Records between two watermarks, or one watermark alone."""

    __slots__ = ("incomplete", "completed")

    def __init__(self) -> None:
        self.incomplete: dict[Entry, None] = {}  # by order of arrival
        self.completed: deque[QueueEntry] = deque()  # by order of completion

    @property
    def is_empty(self) -> bool:
        return not self.incomplete and not self.completed


class UnorderedQueue:
    """Entries leave as they are completed, but none passes a watermark, and no watermark passes a record.

    References
    ----------
    Flink ``UnorderedStreamElementQueue``.
    """

    def __init__(self) -> None:
        self._segments: deque[Segment] = deque([Segment()])
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, entry: QueueEntry) -> None:
        """Append a record or a watermark."""
        self._size += 1
        last = self._segments[-1]
        if isinstance(entry, Entry):
            last.incomplete[entry] = None
            entry.segment = last
            return
        if not last.is_empty:
            last = Segment()
            self._segments.append(last)
        last.completed.append(entry)
        self._segments.append(Segment())

    def complete(self, entry: Entry, results: list[object]) -> bool:
        """Give an entry its results; True if something can leave now."""
        entry.results, entry.is_done = results, True
        segment = entry.segment
        assert segment is not None
        del segment.incomplete[entry]
        segment.completed.append(entry)
        return segment is self._segments[0]

    @property
    def has_ready(self) -> bool:
        """Whether `take_ready` gives something."""
        return bool(self._segments[0].completed)

    def take_ready(self) -> list[QueueEntry]:
        """Remove the entries that can leave, in the order in which they do."""
        segments, ready = self._segments, list[QueueEntry]()
        while segments[0].completed:
            ready.extend(segments[0].completed)
            segments[0].completed.clear()
            if segments[0].is_empty and len(segments) > 1:
                segments.popleft()
        self._size -= len(ready)
        return ready

    def __iter__(self) -> Iterator[QueueEntry]:
        for segment in self._segments:
            yield from segment.completed
            yield from segment.incomplete
