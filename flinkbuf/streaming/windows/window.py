"""The parts that a stream is cut into. Flink: Window and its kinds; PyFlink: pyflink.datastream.window."""

from __future__ import annotations

from abc import ABC, abstractmethod

from flinkbuf._core.operators.time_window import TimeWindow
from flinkbuf._core.value.own_value import declare_fixed
from flinkbuf.types.date_time import LONG_MAX

__all__ = ["CountWindow", "GlobalWindow", "TimeWindow", "Window"]


class Window(ABC):
    """A finite part of a stream; its state is kept under it, so it must be hashable, comparable and picklable.

    Windows that are equal are pickled from equal parts: RocksDB finds their state by those, and refuses others.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, order=True)
    ... class Day(Window):
    ...     number: int
    ...     def max_timestamp(self):
    ...         return (self.number + 1) * 86_400_000 - 1
    >>> Day(0).max_timestamp()
    86399999
    """

    @abstractmethod
    def max_timestamp(self) -> int:
        """Return the last millisecond that may belong to it; results are stamped with this."""


Window.register(TimeWindow)


class CountWindow(Window):
    """A part of so many records, known by its number. PyFlink: CountWindow.

    Examples
    --------
    >>> CountWindow(3), CountWindow(3) == CountWindow(3)
    (CountWindow(id=3), True)
    """

    __slots__ = ("id",)

    def __init__(self, id: int):
        self.id = id

    def max_timestamp(self) -> int:
        return LONG_MAX

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self.id == other.id)

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The whole stream. Flink: GlobalWindow.

    Examples
    --------
    >>> GlobalWindow.get() == GlobalWindow()
    True
    """

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """Return it.

        Examples
        --------
        >>> GlobalWindow.get().max_timestamp() == 2**63 - 1  # no watermark passes it but the last
        True
        """
        return GlobalWindow()

    def max_timestamp(self) -> int:
        return LONG_MAX

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return self.__class__ == other.__class__

    def __repr__(self) -> str:
        return "GlobalWindow"


declare_fixed(TimeWindow, CountWindow, GlobalWindow)
