"""Windows that last as long as records come. Flink: EventTimeSessionWindows, ProcessingTimeSessionWindows, Dynamic…"""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Collection, Iterable
from operator import index

from flinkbuf.streaming.windows.assigner import (
    MergingWindowAssigner,
    SessionWindowTimeGapExtractor,
    WindowAssigner,
)
from flinkbuf.streaming.windows.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from flinkbuf.streaming.windows.trigger import Trigger
from flinkbuf.streaming.windows.window import TimeWindow
from flinkbuf.streaming.windows.window_serializer import TimeWindowSerializer, TypeSerializer
from flinkbuf.types.duration import Duration, Time, milliseconds_of

__all__ = [
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "ProcessingTimeSessionWindows",
]

Length = Time | Duration | datetime.timedelta


class _SessionWindows(MergingWindowAssigner[object, TimeWindow]):
    """From a record to its gap later; those that overlap or touch are one session."""

    _is_event_time: bool

    @abstractmethod
    def _gap_after(self, element: object) -> int:
        """Return how long after this record another one still belongs to its session."""

    def assign_windows(
        self, element: object, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        time = timestamp if self._is_event_time else context.get_current_processing_time()
        return [TimeWindow(time, time + self._gap_after(element))]

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        TimeWindow.merge_windows(windows, callback)

    def get_default_trigger(self, env: object) -> Trigger[object, TimeWindow]:
        return EventTimeTrigger() if self._is_event_time else ProcessingTimeTrigger()

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return self._is_event_time


class _FixedGap(_SessionWindows):
    def __init__(self, session_gap: int):
        if session_gap <= 0:
            raise ValueError(f"{type(self).__name__} parameters must satisfy 0 < size, got {session_gap} ms")
        self.session_gap_ms = session_gap

    def _gap_after(self, element: object) -> int:
        return self.session_gap_ms

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_gap_ms})"


class _DynamicGap(_SessionWindows):
    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor):
        extractor = session_window_time_gap_extractor
        if not hasattr(extractor, "extract"):
            raise TypeError(f"a gap extractor has a method extract(element), got {extractor!r}")
        self._extractor = extractor

    def _gap_after(self, element: object) -> int:
        gap = self._extractor.extract(element)
        try:
            gap_ms = index(gap)
        except TypeError:
            raise TypeError(
                f"a session gap is an int, in milliseconds; {type(self._extractor).__name__}.extract gave "
                f"{type(gap).__name__} {gap!r}"
            ) from None
        if gap_ms <= 0:
            raise ValueError(f"Dynamic session time gap must satisfy 0 < gap, got {gap_ms} ms")
        return gap_ms

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self._extractor).__name__})"


class EventTimeSessionWindows(_FixedGap):
    """Sessions by the records' timestamps.

    Parameters
    ----------
    session_gap : int
        So many milliseconds without a record end a session. Usually made by `with_gap`.

    Examples
    --------
    >>> EventTimeSessionWindows.with_gap(Time.seconds(10)).assign_windows("record", 2500, None)
    [TimeWindow(start=2500, end=12500)]
    """

    _is_event_time = True

    @staticmethod
    def with_gap(size: Length) -> EventTimeSessionWindows:
        """Sessions that end after so long without a record."""
        return EventTimeSessionWindows(milliseconds_of("size", size))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Sessions whose gap each record says itself."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_FixedGap):
    """Sessions by the clock at which records come.

    Parameters
    ----------
    session_gap : int
        So many milliseconds without a record end a session. Usually made by `with_gap`.
    """

    _is_event_time = False

    @staticmethod
    def with_gap(size: Length) -> ProcessingTimeSessionWindows:
        """Sessions that end after so long without a record."""
        return ProcessingTimeSessionWindows(milliseconds_of("size", size))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Sessions whose gap each record says itself."""
        return DynamicProcessingTimeSessionWindows(extractor)


class DynamicEventTimeSessionWindows(_DynamicGap):
    """Sessions by the records' timestamps, after each of which an extractor says how long to wait."""

    _is_event_time = True

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Sessions whose gap each record says itself."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_DynamicGap):
    """Sessions by the clock, after each of whose records an extractor says how long to wait."""

    _is_event_time = False

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Sessions whose gap each record says itself."""
        return DynamicProcessingTimeSessionWindows(extractor)
