"""Which windows a record belongs to. Flink: WindowAssigner, MergingWindowAssigner; PyFlink: datastream/window.py.

An assigner keeps nothing of the records: one object serves all keys of a subtask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flinkbuf.streaming.windows.trigger import Trigger
from flinkbuf.streaming.windows.window_serializer import TypeSerializer

if TYPE_CHECKING:
    from flinkbuf.streaming.chain.runtime_context import RuntimeContext

__all__ = ["MergingWindowAssigner", "SessionWindowTimeGapExtractor", "WindowAssigner"]

T = TypeVar("T", contravariant=True)
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowAssigner(ABC, Generic[T, W]):
    """Gives each record its windows: one, several or none; to derive from.

    Examples
    --------
    >>> from flinkbuf.streaming.windows.time_windows import TumblingEventTimeWindows
    >>> class OnlyEven(TumblingEventTimeWindows):
    ...     def assign_windows(self, element, timestamp, context):
    ...         return super().assign_windows(element, timestamp, context) if element % 2 == 0 else []
    >>> isinstance(OnlyEven(1000, 0), WindowAssigner), OnlyEven(1000, 0).assign_windows(3, 1500, None)
    (True, [])
    """

    class WindowAssignerContext(ABC):
        """What an assigner may ask. Implemented by the window operator."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the time of the task's clock."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Return the subtask's context, through which state of the record's key is reached."""

    @abstractmethod
    def assign_windows(self, element: T, timestamp: int, context: WindowAssignerContext) -> Collection[W]:
        """Return the windows of a record; `timestamp` is −2⁶³ if it has none."""

    @abstractmethod
    def get_default_trigger(self, env: object) -> Trigger[T, W]:
        """Return the trigger that windows of this kind have unless the program gives another."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """Return what writes windows of this kind; state here keeps them as objects and does not ask."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows end by the watermark and not by the clock."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """Gives each record a window of its own, and says which windows of a key become one.

    Examples
    --------
    >>> from flinkbuf.common import WatermarkStrategy
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> from flinkbuf.datastream.window import EventTimeTrigger, TimeWindow, TimeWindowSerializer
    >>> class Visits(MergingWindowAssigner):  # a page is read for 100 ms, a video watched for 1,000
    ...     def assign_windows(self, element, timestamp, context):
    ...         return [TimeWindow(timestamp, timestamp + (1000 if element[0] == "video" else 100))]
    ...     def merge_windows(self, windows, callback): TimeWindow.merge_windows(windows, callback)
    ...     def get_default_trigger(self, env): return EventTimeTrigger()
    ...     def get_window_serializer(self): return TimeWindowSerializer()
    ...     def is_event_time(self): return True
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
    >>> views = env.from_collection([("page", 0), ("video", 50), ("page", 900), ("page", 1200)])
    >>> visits = views.assign_timestamps_and_watermarks(times).key_by(lambda _: "ann").window(Visits())
    >>> list(visits.reduce(lambda a, b: (a[0] + " " + b[0], a[1])).execute_and_collect())
    [('page video page', 0), ('page', 1200)]
    """

    class MergeCallback(ABC, Generic[W2]):
        """Takes what `merge_windows` finds."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """`to_be_merged` become `merge_result`."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergeCallback[W]) -> None:
        """Call ``callback.merge`` for each group of windows that become one."""


class SessionWindowTimeGapExtractor(ABC):
    """Says after how long without records a session is over. Flink: SessionWindowTimeGapExtractor."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Return the gap after this record in milliseconds, more than 0."""
