"""Triggers that fire when time has come. Flink: EventTimeTrigger, ProcessingTimeTrigger and the continuous ones."""

from __future__ import annotations

import datetime

from flinkbuf.streaming.chain.functions import ReduceFunction
from flinkbuf.streaming.state.state import ReducingStateDescriptor
from flinkbuf.streaming.windows.trigger import Trigger, TriggerResult
from flinkbuf.streaming.windows.window import TimeWindow
from flinkbuf.types.duration import Duration, Time, milliseconds_of
from flinkbuf.types.types import Types

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "EventTimeTrigger",
    "Min",
    "ProcessingTimeTrigger",
]

END_OF_EVENT_TIME = 2**63 - 1  # the last watermark of a bounded input


class EventTimeTrigger(Trigger[object, TimeWindow]):
    """Fires when the watermark passes the end of the window, and at each late record after that."""

    @staticmethod
    def create() -> EventTimeTrigger:
        """Return one."""
        return EventTimeTrigger()

    def on_element(
        self, element: object, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger[object, TimeWindow]):
    """Fires when the clock passes the end of the window.

    Parameters
    ----------
    fires_at_end : bool, default False
        Whether windows that are open when a bounded input ends fire then, with the last watermark. Flink drops them,
        and so does this by default.

    Examples
    --------
    >>> ProcessingTimeTrigger.create(fires_at_end=True).fires_at_end
    True
    """

    def __init__(self, fires_at_end: bool = False):
        self.fires_at_end = fires_at_end

    @staticmethod
    def create(fires_at_end: bool = False) -> ProcessingTimeTrigger:
        """Return one."""
        return ProcessingTimeTrigger(fires_at_end)

    def on_element(
        self, element: object, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        self._register(window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        is_end = self.fires_at_end and time == END_OF_EVENT_TIME
        return TriggerResult.FIRE_AND_PURGE if is_end else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_processing_time():
            self._register(window, ctx)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())
        if self.fires_at_end:
            ctx.delete_event_time_timer(END_OF_EVENT_TIME)

    def _register(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.register_processing_time_timer(window.max_timestamp())
        if self.fires_at_end:
            ctx.register_event_time_timer(END_OF_EVENT_TIME)


class Min(ReduceFunction):
    """The lower of two values."""

    def reduce(self, value1: int, value2: int) -> int:
        return min(value1, value2)


class _ContinuousTrigger(Trigger[object, TimeWindow]):
    """What both kinds of time have in common: the next time to fire is kept as state of the window."""

    def __init__(self, interval: int):
        if interval <= 0:
            raise ValueError(f"the interval between two firings is longer than 0 ms, got {interval}")
        self.interval = interval
        self.state_desc = ReducingStateDescriptor("fire-time", Min(), Types.LONG())

    def can_merge(self) -> bool:
        return True

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        raise NotImplementedError

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        raise NotImplementedError

    def _register_first_fire(self, now: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        if ctx.get_partitioned_state(self.state_desc).get() is None:
            self._register_next_fire(now - now % self.interval, window, ctx)

    def _fire_if_due(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        state = ctx.get_partitioned_state(self.state_desc)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        self._register_next_fire(time, window, ctx)
        return TriggerResult.FIRE

    def _register_next_fire(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        # Never past the end of the window, where its state ends, too.
        next_fire = min(time + self.interval, window.max_timestamp())
        ctx.get_partitioned_state(self.state_desc).add(next_fire)
        self._register(next_fire, ctx)

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        next_fire = ctx.get_partitioned_state(self.state_desc).get()
        if next_fire is not None:
            self._register(next_fire, ctx)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        state = ctx.get_partitioned_state(self.state_desc)
        next_fire = state.get()
        if next_fire is not None:
            self._delete(next_fire, ctx)
            state.clear()


class ContinuousEventTimeTrigger(_ContinuousTrigger):
    """Fires at each multiple of an interval that the watermark passes, and at the end of the window."""

    @staticmethod
    def of(interval: Time | Duration | datetime.timedelta) -> ContinuousEventTimeTrigger:
        """Return one that fires so often."""
        return ContinuousEventTimeTrigger(milliseconds_of("interval", interval))

    def on_element(
        self, element: object, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        self._register_first_fire(timestamp, window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else self._fire_if_due(time, window, ctx)

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger):
    """Fires at each multiple of an interval that the clock passes, and at the end of the window."""

    @staticmethod
    def of(interval: Time | Duration | datetime.timedelta) -> ContinuousProcessingTimeTrigger:
        """Return one that fires so often."""
        return ContinuousProcessingTimeTrigger(milliseconds_of("interval", interval))

    def on_element(
        self, element: object, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        self._register_first_fire(ctx.get_current_processing_time(), window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._fire_if_due(time, window, ctx)

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)
