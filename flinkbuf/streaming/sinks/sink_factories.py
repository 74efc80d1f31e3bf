"""What a program puts into its graph for a sink: small objects that make the operator of each subtask."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkbuf._core.operators.sink_operator import SinkFunctionOperator
from flinkbuf._core.value.conversion import convert
from flinkbuf.streaming.chain.by_reference import ByReference
from flinkbuf.streaming.sinks.collect import Collector
from flinkbuf.streaming.sinks.sink import Sink
from flinkbuf.streaming.sinks.sink_operator import (
    BatchWriterOperator,
    CheckpointedSinkOperator,
    CollectBatchesOperator,
    CollectSinkOperator,
    CommitterOperator,
    GlobalCommitterOperator,
    PrintSinkOperator,
    SinkWriterOperator,
)
from flinkbuf.streaming.sinks.two_phase_commit import TwoPhaseCommitSinkFunction, TwoPhaseCommitSinkOperator
from flinkbuf.streaming.sinks.value_text import text_of
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    from flinkbuf.streaming.chain.runtime_context import RuntimeContext

PRINT_SINK_NAME = "Print to Std. Out"


@dataclass(frozen=True)
class PrintSinkFactory:
    """``stream.print(sink_identifier)``."""

    type_info: TypeInformation | None = None  # None: not declared
    sink_identifier: str | None = None

    def __call__(self) -> PrintSinkOperator:
        """Make the operator of one subtask."""
        return PrintSinkOperator(text_of(self.type_info), self.sink_identifier)


class CallableSinkFactory:
    """``stream.add_sink(function)``: calls the program's own function, not a copy, with each record.

    So ``results.append`` appends to the program's list. With a parallelism above 1 it is called from several threads.
    On every target it runs in the program's process. Each record comes at least once: a job that goes on from a
    checkpoint gives those since then again, as they cannot be taken back from the program.
    """

    is_in_program = True

    def __init__(self, function: Callable[..., object]) -> None:
        if not callable(function):
            raise TypeError(f"a sink function must be callable, got {type(function).__name__} {function!r}")
        self.function = ByReference(function, f"the sink function {function!r}")

    def __call__(self) -> SinkFunctionOperator:
        """Make the operator of one subtask."""
        return SinkFunctionOperator(self.function.value)


@dataclass(frozen=True)
class SinkFunctionFactory:
    """``stream.add_sink(object)`` with a method ``invoke(value)`` or ``invoke(value, context)``.

    Each subtask has its own copy. ``open(runtime_context)`` and ``close()`` are called if it has them, and the methods
    of `CheckpointedFunction` and `CheckpointListener`. Flink: SinkFunction.
    """

    sink_function: Any

    def __call__(self) -> SinkFunctionOperator:
        """Make the operator of one subtask."""
        function = self.sink_function
        if isinstance(function, TwoPhaseCommitSinkFunction):
            return TwoPhaseCommitSinkOperator(function, takes_context(function.invoke, before=2))
        return CheckpointedSinkOperator(function, Lifecycle(function), takes_context(function.invoke))


@dataclass(frozen=True)
class SinkWriterFactory:
    """``stream.sink_to(sink)``; of a column stream, whose writer may take batches."""

    sink: Sink
    takes_batches: bool = False
    is_committed_behind: bool = False  # by another operator

    def __post_init__(self) -> None:
        if not callable(getattr(self.sink, "create_writer", None)):
            raise TypeError(
                f"sink_to takes a flinkbuf.datastream.connectors.base.Sink, got {type(self.sink).__name__}; "
                "a function, or an object with invoke(value), goes to add_sink"
            )

    def __call__(self) -> SinkWriterOperator:
        """Make the operator of one subtask."""
        kind = BatchWriterOperator if self.takes_batches else SinkWriterOperator
        return kind(self.sink, self.is_committed_behind)


@dataclass(frozen=True)
class CommitterFactory:
    """The operator behind the writers of a sink in batch."""

    sink: Sink

    def __call__(self) -> CommitterOperator:
        """Make the operator of one subtask."""
        return CommitterOperator(self.sink)


@dataclass(frozen=True)
class GlobalCommitterFactory:
    """The operator behind the writers of a sink that commits globally."""

    sink: Sink

    def __call__(self) -> GlobalCommitterOperator:
        """Make the only operator."""
        return GlobalCommitterOperator(self.sink)


class CollectSinkFactory:
    """``stream.execute_and_collect()``: hands each record, as its declared type gives it, to the program."""

    is_in_program = True

    def __init__(self, collector: Collector, type_info: TypeInformation | None = None) -> None:
        self.collector = ByReference(collector, "the collector of execute_and_collect")
        self.type_info = type_info

    def __call__(self) -> CollectSinkOperator:
        """Make the operator of one subtask."""
        to_type = functools.partial(convert, self.type_info.codec) if self.type_info is not None else None
        return CollectSinkOperator(self.collector.value, to_type)

    def why_not_again(self) -> str | None:
        """Return why a job that has given records to the program cannot begin anew; None: it can."""
        ask = getattr(self.collector.value, "why_not_again", None)
        reason: str | None = None if ask is None else ask()
        return reason


class CollectBatchesFactory(CollectSinkFactory):
    """``stream.execute_and_collect_batches()``: hands each batch of a column stream to the program."""

    def __call__(self) -> CollectSinkOperator:
        """Make the operator of one subtask."""
        return CollectBatchesOperator(self.collector.value)


class Lifecycle:
    """``open(runtime_context)`` and ``close()`` of an object that may have neither."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open it, if it can be."""
        if callable(getattr(self._function, "open", None)):
            self._function.open(runtime_context)

    def close(self) -> None:
        """Close it, if it can be."""
        if callable(getattr(self._function, "close", None)):
            self._function.close()


def takes_context(function: Callable[..., object], before: int = 1) -> bool:
    """Return whether a method takes one argument more than those `before` it, or any number."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # builtin functions do not tell
        return False
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return len(positional) > before or any(each.kind is each.VAR_POSITIONAL for each in parameters)


def sink_factory_of(sink: object) -> Callable[[], SinkFunctionOperator]:
    """Return what ``stream.add_sink(sink)`` puts into the graph.

    Raises
    ------
    TypeError
        If it is neither callable nor has a method ``invoke``.
    """
    if callable(getattr(sink, "invoke", None)):
        return SinkFunctionFactory(sink)
    if callable(sink):
        return CallableSinkFactory(sink)
    raise TypeError(
        f"add_sink takes a function of one record or an object with invoke(value), got {type(sink).__name__} {sink!r}"
    )
