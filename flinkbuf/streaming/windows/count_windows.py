"""Windows that no time ends: so many records, or all of them. PyFlink: CountTumblingWindowAssigner, GlobalWindows."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from flinkbuf.streaming.state.state import ValueStateDescriptor
from flinkbuf.streaming.windows.assigner import WindowAssigner
from flinkbuf.streaming.windows.trigger import Trigger
from flinkbuf.streaming.windows.triggers import CountTrigger, NeverTrigger
from flinkbuf.streaming.windows.window import CountWindow, GlobalWindow
from flinkbuf.streaming.windows.window_serializer import (
    CountWindowSerializer,
    GlobalWindowSerializer,
    TypeSerializer,
)
from flinkbuf.types.types import Types

if TYPE_CHECKING:
    from flinkbuf.streaming.windows.window import Window

__all__ = ["CountSlidingWindowAssigner", "CountTumblingWindowAssigner", "GlobalWindows"]


class _CountWindows(WindowAssigner[object, CountWindow]):
    """Windows of so many records of a key; how many there were is kept as state of the key."""

    def __init__(self, window_size: int, state_name: str):
        if window_size < 1:
            raise ValueError(f"a count window holds at least one record, got {window_size}")
        self.window_size = window_size
        self._count = ValueStateDescriptor(state_name, Types.LONG())
        self._context: object = None  # of the operator that asked last
        self._state: Any = None  # its count, looked up once

    def _next_number(self, context: WindowAssigner.WindowAssignerContext) -> int:
        if self._context is not context:
            self._context, self._state = context, context.get_runtime_context().get_state(self._count)
        number: int = self._state.value() or 0
        self._state.update(number + 1)
        return number

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_context": None, "_state": None}

    def get_default_trigger(self, env: object) -> Trigger[object, Window]:
        return CountTrigger(self.window_size)

    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(_CountWindows):
    """So many records after so many others."""

    def __init__(self, window_size: int):
        super().__init__(window_size, "tumble-count-assigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Windows of `window_size` records each."""
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(
        self, element: object, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        return [CountWindow(self._next_number(context) // self.window_size)]

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self.window_size})"


class CountSlidingWindowAssigner(_CountWindows):
    """So many records from every n-th on; where windows overlap a record is in several."""

    def __init__(self, window_size: int, window_slide: int):
        super().__init__(window_size, "slide-count-assigner")
        if window_slide < 1:
            raise ValueError(f"a count window slides by at least one record, got {window_slide}")
        self.window_slide = window_slide

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Windows of `window_size` records, one of which begins at every `window_slide`."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(
        self, element: object, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        number = self._next_number(context)
        last = number // self.window_slide
        first = max(0, -((self.window_size - 1 - number) // self.window_slide))
        return [CountWindow(id) for id in range(last, first - 1, -1)]

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self.window_size}, {self.window_slide})"


class GlobalWindows(WindowAssigner[object, GlobalWindow]):
    """One window of all records; it needs a trigger, or it is never evaluated."""

    @staticmethod
    def create() -> GlobalWindows:
        """Return it."""
        return GlobalWindows()

    def assign_windows(
        self, element: object, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: object) -> Trigger[object, Window]:
        return NeverTrigger()

    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"
