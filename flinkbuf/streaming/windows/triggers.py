"""Triggers that fire by what comes, and triggers around others. Flink: CountTrigger, DeltaTrigger, PurgingTrigger."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flinkbuf.streaming.state.state import ReducingStateDescriptor, ValueStateDescriptor
from flinkbuf.streaming.windows.trigger import Trigger, TriggerResult
from flinkbuf.streaming.windows.window import Window
from flinkbuf.types.duration import Duration, Time, milliseconds_of
from flinkbuf.types.types import Types

T = TypeVar("T", contravariant=True)
V = TypeVar("V")
W = TypeVar("W", bound=Window, contravariant=True)

__all__ = ["CountTrigger", "DeltaTrigger", "NeverTrigger", "ProcessingTimeoutTrigger", "PurgingTrigger"]


class _RecordTrigger(Trigger[object, Window]):
    """One that no timer concerns."""

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Nothing: there is nothing to merge, or `can_merge` is false and it is never called."""

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Nothing: it keeps nothing."""


class CountTrigger(_RecordTrigger):
    """Fires at each n-th record of a window."""

    def __init__(self, window_size: int):
        self.window_size = window_size
        self._count = ReducingStateDescriptor("count", operator.add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Return one that fires at every `window_size` records."""
        return CountTrigger(window_size)

    def on_element(self, element: object, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self.window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()


class NeverTrigger(_RecordTrigger):
    """Never fires: global windows have this one unless another is given."""

    def on_element(self, element: object, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE


class DeltaTrigger(_RecordTrigger, Generic[V]):
    """Fires when a record is further from the one at the last firing than a threshold. Flink's; PyFlink has none."""

    def __init__(self, threshold: float, delta_function: Callable[[V, V], float]):
        self.threshold = threshold
        self.delta_function = delta_function
        self._last = ValueStateDescriptor("last-element", Types.PICKLED_BYTE_ARRAY())

    @staticmethod
    def of(threshold: float, delta_function: Callable[[V, V], float]) -> DeltaTrigger[V]:
        """Return one that fires when ``delta_function(old, new)`` is greater than `threshold`."""
        return DeltaTrigger(threshold, delta_function)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        state = ctx.get_partitioned_state(self._last)
        last = state.value()
        if last is None:
            state.update((element,))  # in a tuple: None would be no value
        elif self.delta_function(last[0], element) > self.threshold:
            state.update((element,))
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._last).clear()


class PurgingTrigger(Trigger[T, W]):
    """Drops a window's contents each time the trigger inside fires."""

    def __init__(self, nested_trigger: Trigger[T, W]):
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[T, W]) -> PurgingTrigger[T, W]:
        """Return `nested_trigger` with contents dropped at each firing."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result is TriggerResult.FIRE else result


class ProcessingTimeoutTrigger(Trigger[T, W]):
    """Fires as the trigger inside does, and at the latest so long after a window's first record.

    Flink's; PyFlink has none.

    Parameters
    ----------
    nested_trigger : Trigger
        What else fires the window.
    timeout_ms : int
        By the clock, in milliseconds.
    reset_timer_on_new_record : bool, default False
        Count from the last record instead of the first.
    should_clear_on_timeout : bool, default True
        Clear the state of the trigger inside at a timeout, such as a count.
    """

    def __init__(
        self,
        nested_trigger: Trigger[T, W],
        timeout_ms: int,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ):
        self.nested_trigger = nested_trigger
        self.timeout_ms = timeout_ms
        self.reset_timer_on_new_record = reset_timer_on_new_record
        self.should_clear_on_timeout = should_clear_on_timeout
        self._due = ValueStateDescriptor("timeout", Types.LONG())

    @staticmethod
    def of(
        nested_trigger: Trigger[T, W],
        timeout: Time | Duration | datetime.timedelta,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger[T, W]:
        """Return `nested_trigger` with a timeout."""
        timeout_ms = milliseconds_of("timeout", timeout)
        return ProcessingTimeoutTrigger(nested_trigger, timeout_ms, reset_timer_on_new_record, should_clear_on_timeout)

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_element(element, timestamp, window, ctx)
        if result.is_fire():
            self.clear(window, ctx)
            return result
        state = ctx.get_partitioned_state(self._due)
        if self.reset_timer_on_new_record:
            self._take_timer_back(ctx)
        if state.value() is None:
            due = ctx.get_current_processing_time() + self.timeout_ms
            state.update(due)
            ctx.register_processing_time_timer(due)
        return result

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_processing_time(time, window, ctx)
        if self.should_clear_on_timeout:
            self.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_purge() else TriggerResult.FIRE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_event_time(time, window, ctx)
        if self.should_clear_on_timeout:
            self.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_purge() else TriggerResult.FIRE

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Nothing: `can_merge` is false, as in Flink."""

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        self._take_timer_back(ctx)
        self.nested_trigger.clear(window, ctx)

    def _take_timer_back(self, ctx: Trigger.TriggerContext) -> None:
        state = ctx.get_partitioned_state(self._due)
        due = state.value()
        if due is not None:
            ctx.delete_processing_time_timer(due)
            state.clear()
