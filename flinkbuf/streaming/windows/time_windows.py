"""Windows of fixed lengths of time. Flink: Tumbling-, SlidingEventTimeWindows, those of processing time; CUMULATE."""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Collection

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf.streaming.windows.assigner import WindowAssigner
from flinkbuf.streaming.windows.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from flinkbuf.streaming.windows.trigger import Trigger
from flinkbuf.streaming.windows.window import TimeWindow
from flinkbuf.streaming.windows.window_serializer import TimeWindowSerializer, TypeSerializer
from flinkbuf.types.duration import Duration, Time, milliseconds_of

__all__ = [
    "CumulatingEventTimeWindows",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
]

Length = Time | Duration | datetime.timedelta


class _TimeWindows(WindowAssigner[object, TimeWindow]):
    """Windows of one length, one of which begins at every `slide_ms`, shifted by an offset."""

    def __init__(self, size_ms: int, slide_ms: int, offset_ms: int):
        self.size_ms = size_ms
        self.slide_ms = slide_ms
        self.offset_ms = offset_ms

    @abstractmethod
    def _time_of(self, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> int:
        """Return the time that decides."""

    def assign_windows(
        self, element: object, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        time = self._time_of(timestamp, context)
        last = TimeWindow.get_window_start_with_offset(time, self.offset_ms, self.slide_ms)
        return [TimeWindow(start, start + self.size_ms) for start in range(last, time - self.size_ms, -self.slide_ms)]

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()


class _EventTimeWindows(_TimeWindows):
    """Windows of records by their timestamps."""

    def _time_of(self, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> int:
        if timestamp == NO_TIMESTAMP:
            raise ValueError(
                "this record has no timestamp (Java's Long.MIN_VALUE), so it belongs to no window of event time: call "
                "assign_timestamps_and_watermarks(...) on the stream before window(...), or use windows of "
                "processing time"
            )
        return timestamp

    def get_default_trigger(self, env: object) -> Trigger[object, TimeWindow]:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class _ProcessingTimeWindows(_TimeWindows):
    """Windows of records by the clock at which they come."""

    def _time_of(self, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> int:
        return context.get_current_processing_time()

    def get_default_trigger(self, env: object) -> Trigger[object, TimeWindow]:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False


def _check_tumbling(windows: object, size: int, offset: int) -> None:
    if abs(offset) >= size:
        raise ValueError(
            f"{type(windows).__name__} parameters must satisfy abs(offset) < size, got {size} ms and {offset} ms"
        )


def _check_sliding(windows: object, size: int, slide: int, offset: int) -> None:
    if abs(offset) >= slide or size <= 0:
        raise ValueError(
            f"{type(windows).__name__} parameters must satisfy abs(offset) < slide and size > 0, "
            f"got {size} ms, {slide} ms and {offset} ms"
        )


class TumblingEventTimeWindows(_EventTimeWindows):
    """One window after the other, by the records' timestamps.

    Parameters
    ----------
    size, offset : int
        Milliseconds. Usually made by `of`.

    Examples
    --------
    >>> windows = TumblingEventTimeWindows.of(Time.hours(1), Time.minutes(15))
    >>> windows, windows.assign_windows("record", 1_000_000, None)
    (TumblingEventTimeWindows(3600000, 900000), [TimeWindow(start=900000, end=4500000)])
    """

    def __init__(self, size: int, offset: int):
        _check_tumbling(self, size, offset)
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingEventTimeWindows:
        """Windows of `size` that begin at its multiples, shifted by `offset` (such as the hours to UTC, negative)."""
        return TumblingEventTimeWindows(milliseconds_of("size", size), _offset(offset))

    def __repr__(self) -> str:
        return f"TumblingEventTimeWindows({self.size_ms}, {self.offset_ms})"


class TumblingProcessingTimeWindows(_ProcessingTimeWindows):
    """One window after the other, by the clock.

    Parameters
    ----------
    size, offset : int
        Milliseconds. Usually made by `of`.
    """

    def __init__(self, size: int, offset: int):
        _check_tumbling(self, size, offset)
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingProcessingTimeWindows:
        """Windows of `size` that begin at its multiples, shifted by `offset`."""
        return TumblingProcessingTimeWindows(milliseconds_of("size", size), _offset(offset))

    def __repr__(self) -> str:
        return f"TumblingProcessingTimeWindows({self.size_ms}, {self.offset_ms})"


class SlidingEventTimeWindows(_EventTimeWindows):
    """A window of one length at every slide, by the records' timestamps; where they overlap a record is in several.

    Parameters
    ----------
    size, slide, offset : int
        Milliseconds. Usually made by `of`.

    Examples
    --------
    >>> SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1)).assign_windows("record", 2500, None)
    [TimeWindow(start=2000, end=4000), TimeWindow(start=1000, end=3000)]
    """

    def __init__(self, size: int, slide: int, offset: int):
        _check_sliding(self, size, slide, offset)
        super().__init__(size, slide, offset)

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingEventTimeWindows:
        """Windows of `size` that begin at the multiples of `slide`, shifted by `offset`."""
        return SlidingEventTimeWindows(milliseconds_of("size", size), milliseconds_of("slide", slide), _offset(offset))

    def __repr__(self) -> str:
        return f"SlidingEventTimeWindows({self.size_ms}, {self.slide_ms}, {self.offset_ms})"


class CumulatingEventTimeWindows(_EventTimeWindows):
    """Windows that begin together and end one step after the other, by the records' timestamps: what came so far today.

    One begins at every multiple of `max_size`, and ends at each `step` of it, up to the whole. A record is in all that
    end after it. PyFlink's streams have none; Flink's SQL has CUMULATE.

    Parameters
    ----------
    max_size, step, offset : int
        Milliseconds; `max_size` is a multiple of `step`. Usually made by `of`.

    Examples
    --------
    >>> CumulatingEventTimeWindows.of(Time.seconds(3), Time.seconds(1)).assign_windows("record", 4500, None)
    [TimeWindow(start=3000, end=5000), TimeWindow(start=3000, end=6000)]
    """

    def __init__(self, max_size: int, step: int, offset: int):
        if step <= 0 or max_size < step or max_size % step:
            raise ValueError(
                f"{type(self).__name__} parameters must satisfy step > 0 and max_size a multiple of step, got "
                f"{max_size} ms and {step} ms"
            )
        if abs(offset) >= max_size:
            raise ValueError(
                f"{type(self).__name__} parameters must satisfy abs(offset) < max_size, got {max_size} ms and "
                f"{offset} ms"
            )
        super().__init__(max_size, max_size, offset)
        self.step_ms = step

    @staticmethod
    def of(max_size: Length, step: Length, offset: Length | None = None) -> CumulatingEventTimeWindows:
        """Windows that begin at multiples of `max_size`, shifted by `offset`, and end at each `step` up to it."""
        return CumulatingEventTimeWindows(
            milliseconds_of("max_size", max_size), milliseconds_of("step", step), _offset(offset)
        )

    def assign_windows(
        self, element: object, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        (whole,) = super().assign_windows(element, timestamp, context)
        first = whole.start + ((timestamp - whole.start) // self.step_ms + 1) * self.step_ms
        return [TimeWindow(whole.start, end) for end in range(first, whole.end + 1, self.step_ms)]

    def __repr__(self) -> str:
        return f"CumulatingEventTimeWindows({self.size_ms}, {self.step_ms}, {self.offset_ms})"


class SlidingProcessingTimeWindows(_ProcessingTimeWindows):
    """A window of one length at every slide, by the clock.

    Parameters
    ----------
    size, slide, offset : int
        Milliseconds. Usually made by `of`.
    """

    def __init__(self, size: int, slide: int, offset: int):
        _check_sliding(self, size, slide, offset)
        super().__init__(size, slide, offset)

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingProcessingTimeWindows:
        """Windows of `size` that begin at the multiples of `slide`, shifted by `offset`."""
        return SlidingProcessingTimeWindows(
            milliseconds_of("size", size), milliseconds_of("slide", slide), _offset(offset)
        )

    def __repr__(self) -> str:
        return f"SlidingProcessingTimeWindows({self.size_ms}, {self.slide_ms}, {self.offset_ms})"


def _offset(offset: Length | None) -> int:
    return 0 if offset is None else milliseconds_of("offset", offset)
