"""What is made of a window's contents. Flink: WindowFunction, ProcessWindowFunction and those of all windows.

PyFlink: pyflink.datastream.functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from flinkbuf._core.operators.window_context import WindowContext
from flinkbuf.streaming.chain.functions import Function

__all__ = ["AllWindowFunction", "ProcessAllWindowFunction", "ProcessWindowFunction", "WindowFunction"]

# What takes any tuple takes pairs, too, and what gives pairs gives tuples.
IN = TypeVar("IN", contravariant=True)
OUT = TypeVar("OUT", covariant=True)
KEY = TypeVar("KEY", contravariant=True)
W = TypeVar("W", contravariant=True)
W2 = TypeVar("W2", covariant=True)


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Called with the contents of a window of one key.

    Examples
    --------
    >>> class Total(WindowFunction):
    ...     def apply(self, key, window, inputs):
    ...         yield key, sum(inputs)
    >>> list(Total().apply("JFK", None, [2, 3]))
    [('JFK', 5)]
    """

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Return or yield results; of a window that was reduced or aggregated, `inputs` is that one value."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Called with the contents of a window of a stream without keys."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Return or yield results; of a window that was reduced or aggregated, `inputs` is that one value."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Called with the contents of a window of one key, and with what there is to know and keep beside.

    Examples
    --------
    >>> from flinkbuf.common import Time, Types
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> from flinkbuf.datastream.state import ValueStateDescriptor
    >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
    >>> from flinkbuf.testing import OperatorHarness
    >>> fired = ValueStateDescriptor("fired", Types.INT())
    >>> class Totals(ProcessWindowFunction):
    ...     def process(self, key, context, elements):
    ...         times = context.window_state().get_state(fired)
    ...         times.update((times.value() or 0) + 1)
    ...         yield key, context.window().end, sum(n for _, n in elements), f"result {times.value()}"
    ...     def clear(self, context):
    ...         context.window_state().get_state(fired).clear()
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> pairs = env.from_collection([]).key_by(lambda pair: pair[0])
    >>> seconds = pairs.window(TumblingEventTimeWindows.of(Time.seconds(1))).allowed_lateness(500)
    >>> with OperatorHarness.of(seconds.process(Totals())) as harness:
    ...     harness.process_element(("a", 2), timestamp=100)
    ...     harness.process_element(("a", 3), timestamp=900)
    ...     harness.process_watermark(1_000)
    ...     harness.process_element(("a", 4), timestamp=500)
    ...     harness.output_values
    [('a', 1000, 5, 'result 1'), ('a', 1000, 9, 'result 2')]
    """

    class Context(ABC, Generic[W2]):
        """The window, the time, and state. Implemented by the window operator."""

        @abstractmethod
        def window(self) -> W2:
            """Return the window."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the time of the task's clock."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return how far event time has come."""

        @abstractmethod
        def window_state(self) -> object:
            """Return the state of this key and this window; what is put there is to be cleared in `clear`."""

        @abstractmethod
        def global_state(self) -> object:
            """Return the state of this key."""

    @abstractmethod
    def process(self, key: KEY, context: Context[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """Return or yield results; of a window that was reduced or aggregated, `elements` is that one value."""

    def clear(self, context: Context[W]) -> None:
        """Clear the window's state: the watermark has passed its end and the allowed lateness."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Called with the contents of a window of a stream without keys, and with what there is to keep beside."""

    class Context(ABC, Generic[W2]):
        """The window, and state. Implemented by the window operator."""

        @abstractmethod
        def window(self) -> W2:
            """Return the window."""

        @abstractmethod
        def window_state(self) -> object:
            """Return the state of this window; what is put there is to be cleared in `clear`."""

        @abstractmethod
        def global_state(self) -> object:
            """Return the state of all windows."""

    @abstractmethod
    def process(self, context: Context[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """Return or yield results; of a window that was reduced or aggregated, `elements` is that one value."""

    def clear(self, context: Context[W]) -> None:
        """Clear the window's state: the watermark has passed its end and the allowed lateness."""


ProcessWindowFunction.Context.register(WindowContext)
ProcessAllWindowFunction.Context.register(WindowContext)
