"""When a window's contents are given to its function. Flink: Trigger; PyFlink: pyflink.datastream.window.

A trigger is asked at each record of a window and at each timer that it set. It keeps what it remembers in the state of
its context, never in itself: one object serves all keys and windows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flinkbuf._core.operators.window_context import WindowTriggerContext

if TYPE_CHECKING:
    from flinkbuf.streaming.state.state import StateDescriptor

__all__ = ["Trigger", "TriggerResult"]

T = TypeVar("T", contravariant=True)
W = TypeVar("W", contravariant=True)


class TriggerResult(Enum):
    """What is done with a window: ``(its function is called, its contents are dropped afterwards)``.

    Examples
    --------
    >>> TriggerResult.FIRE.is_fire(), TriggerResult.FIRE.is_purge()
    (True, False)
    """

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Whether the window's function is called, if the window has contents."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether the window's contents are dropped."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides when a window of one key is evaluated; to derive from.

    Examples
    --------
    >>> class AtOnce(Trigger):
    ...     def on_element(self, element, timestamp, window, ctx):
    ...         return TriggerResult.FIRE
    ...     def on_processing_time(self, time, window, ctx):
    ...         return TriggerResult.CONTINUE
    ...     def on_event_time(self, time, window, ctx):
    ...         return TriggerResult.CONTINUE
    ...     def can_merge(self): return True
    ...     def on_merge(self, window, ctx): ...
    ...     def clear(self, window, ctx): ...
    >>> AtOnce().on_element(1, 0, None, None).name
    'FIRE'
    """

    class TriggerContext(ABC):
        """The time, timers and state of the window and key at hand. Implemented by the window operator."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the time of the task's clock."""

        @abstractmethod
        def get_metric_group(self) -> object:
            """Return the operator's metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return how far event time has come."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Have `on_processing_time` called once the clock has passed `time`."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Have `on_event_time` called once the watermark has come to `time`."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Take back such a timer."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Take back such a timer."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
            """Return the state of that name of this window and key."""

    class OnMergeContext(TriggerContext):
        """The context of `on_merge`."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge the state of that name of the windows that became one; it must be mergeable."""

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Say what to do after a record was put into `window`."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Say what to do at a processing-time timer that was set through the context."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Say what to do at an event-time timer that was set through the context."""

    def can_merge(self) -> bool:
        """Whether `on_merge` is written, so that it can be used where windows merge."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: OnMergeContext) -> None:
        """Several windows became `window`: merge their state and set its timers."""

    @abstractmethod
    def clear(self, window: W, ctx: TriggerContext) -> None:
        """`window` is over: clear its state and take its timers back."""


Trigger.OnMergeContext.register(WindowTriggerContext)
