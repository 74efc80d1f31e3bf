"""Windows, what puts records into them, and what says when they are complete. PyFlink: datastream/window.py."""

from flinkbuf._core.operators.time_window import TimeWindow
from flinkbuf.streaming.windows.assigner import MergingWindowAssigner, SessionWindowTimeGapExtractor, WindowAssigner
from flinkbuf.streaming.windows.count_windows import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    GlobalWindows,
)
from flinkbuf.streaming.windows.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from flinkbuf.streaming.windows.session_windows import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)
from flinkbuf.streaming.windows.time_triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EventTimeTrigger,
    Min,
    ProcessingTimeTrigger,
)
from flinkbuf.streaming.windows.time_windows import (
    CumulatingEventTimeWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flinkbuf.streaming.windows.trigger import Trigger, TriggerResult
from flinkbuf.streaming.windows.triggers import CountTrigger, DeltaTrigger, NeverTrigger, PurgingTrigger
from flinkbuf.streaming.windows.window import CountWindow, GlobalWindow, Window
from flinkbuf.streaming.windows.window_serializer import (
    CountWindowSerializer,
    GlobalWindowSerializer,
    TimeWindowSerializer,
)

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "CumulatingEventTimeWindows",
    "DeltaEvictor",
    "DeltaTrigger",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "Min",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
]
