"""What each method of a stream puts into the graph: picklable objects that make an operator when a task starts.

A factory is unpickled in each subtask, so that each has its own copy of the user's function. What the operators stand
on is imported there, too: building a program loads no runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkbuf._core.record.plain_function import quickened
from flinkbuf.streaming.chain.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    Lifecycles,
    MapFunction,
    SelectorCall,
    as_call,
    as_selector,
    has_lifecycle,
)
from flinkbuf.streaming.time.time_domain import TimeDomain
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    from flinkbuf._core.operators.stream_operator import StreamOperator

_TIME_DOMAINS = (TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME)

# By name: the class of the user's function, its method, and the operator.
_FUNCTIONS: dict[str, tuple[type[Function], str, str]] = {
    "map": (MapFunction, "map", "MapOperator"),
    "flat_map": (FlatMapFunction, "flat_map", "FlatMapOperator"),
    "filter": (FilterFunction, "filter", "FilterOperator"),
}
_CO_FUNCTIONS: dict[str, tuple[tuple[str, str], str]] = {
    "map": (("map1", "map2"), "CoMapOperator"),
    "flat_map": (("flat_map1", "flat_map2"), "CoFlatMapOperator"),
}


@dataclass(frozen=True)
class OperatorFactory:
    """Makes one operator for one subtask.

    `output_type` is the declared type of its records, to which they are converted; None: they stay as they are.
    """

    output_type: TypeInformation | None

    def create(self) -> StreamOperator:
        """Make the operator."""
        raise NotImplementedError

    def __call__(self) -> StreamOperator:
        """Make the operator and tell it the type of its records."""
        operator = self.create()
        if self.output_type is not None:
            operator.declare_output(self.output_type.codec)
        return operator


@dataclass(frozen=True)
class MadeBy(OperatorFactory):
    """Of what has a factory of its own."""

    factory: Callable[[], StreamOperator]

    def create(self) -> StreamOperator:
        """Make the operator."""
        return self.factory()


@dataclass(frozen=True)
class FunctionFactory(OperatorFactory):
    """Of map, flat_map and filter; `key_selector` is given where the function may use keyed state."""

    kind: str
    function: object
    key_selector: object = None

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf._core.operators import function_operator

        base, method, operator = _FUNCTIONS[self.kind]
        selector = None if self.key_selector is None else quickened(as_selector(self.key_selector))
        call = quickened(as_call(self.function, base, method))
        lifecycle = combined_lifecycle(self.function, selector)
        return getattr(function_operator, operator)(call, lifecycle, selector)


@dataclass(frozen=True)
class SideOutputFactory(FunctionFactory):
    """Of what gives the records of a side output their type; errors name the side output, not this operator."""

    shown_as: str = ""


@dataclass(frozen=True)
class MapBatchesFactory(OperatorFactory):
    """Of map_batches; its records have their type already, so nothing converts them."""

    options: dict[str, Any]  # of MapBatchesOperatorFactory

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf.streaming.chain.map_batches import MapBatchesOperatorFactory

        return MapBatchesOperatorFactory(**self.options)()

    def check(self) -> None:
        """Refuse what no operator can be made of."""
        from flinkbuf.streaming.chain.map_batches import MapBatchesOperatorFactory

        MapBatchesOperatorFactory(**self.options).check()


@dataclass(frozen=True)
class CoFunctionFactory(OperatorFactory):
    """Of map and flat_map on two connected streams; `key_selectors` are given if both are keyed."""

    kind: str
    function: CoMapFunction | CoFlatMapFunction
    key_selectors: tuple[object, object] | None = None

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf._core.operators import function_operator
        from flinkbuf.streaming.time.combined_watermark import CombinedWatermark

        methods, operator = _CO_FUNCTIONS[self.kind]
        functions = [getattr(self.function, method) for method in methods]
        selectors = (
            None if self.key_selectors is None else [quickened(as_selector(each)) for each in self.key_selectors]
        )
        lifecycle = combined_lifecycle(self.function, *(selectors or ()))
        return getattr(function_operator, operator)(functions, CombinedWatermark(len(functions)), lifecycle, selectors)


@dataclass(frozen=True)
class ProcessFactory(OperatorFactory):
    """Of process on a stream without keys."""

    function: object

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf._core.operators.process_operator import ProcessOperator

        return ProcessOperator(self.function)


@dataclass(frozen=True)
class KeyedProcessFactory(OperatorFactory):
    """Of process on a keyed stream."""

    function: object
    key_selector: object

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf._core.operators.process_operator import KeyedProcessOperator

        selector = quickened(as_selector(self.key_selector))
        return KeyedProcessOperator(opening(self.function, selector), selector, *_TIME_DOMAINS)


@dataclass(frozen=True)
class CoProcessFactory(OperatorFactory):
    """Of process on two connected streams."""

    function: object

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf._core.operators.process_operator import CoProcessOperator
        from flinkbuf.streaming.time.combined_watermark import CombinedWatermark

        return CoProcessOperator(self.function, CombinedWatermark(2))


@dataclass(frozen=True)
class KeyedCoProcessFactory(OperatorFactory):
    """Of process on two connected keyed streams."""

    function: object
    key_selectors: tuple[object, object]

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf._core.operators.process_operator import KeyedCoProcessOperator
        from flinkbuf.streaming.time.combined_watermark import CombinedWatermark

        selector1, selector2 = (quickened(as_selector(selector)) for selector in self.key_selectors)
        function = opening(self.function, selector1, selector2)
        return KeyedCoProcessOperator(function, CombinedWatermark(2), selector1, selector2, *_TIME_DOMAINS)


@dataclass(frozen=True)
class IntervalJoinFactory(OperatorFactory):
    """Of process on an interval join; what goes with each side is a pair, the left one's first."""

    function: object
    key_selectors: tuple[object, object]
    bounds_ms: tuple[int, int]
    late_tags: tuple[str | None, str | None]
    record_types: tuple[TypeInformation | None, TypeInformation | None]

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf._core.operators.interval_join_operator import IntervalJoinOperator
        from flinkbuf.streaming.state.state import MapStateDescriptor
        from flinkbuf.streaming.time.combined_watermark import CombinedWatermark
        from flinkbuf.types.types import Types

        selector1, selector2 = (quickened(as_selector(selector)) for selector in self.key_selectors)
        lists = [None if each is None else Types.LIST(each) for each in self.record_types]
        left, right = (
            MapStateDescriptor(name, Types.LONG(), each)
            for name, each in zip(("LEFT_BUFFER", "RIGHT_BUFFER"), lists, strict=True)
        )
        function = opening(self.function, selector1, selector2)
        return IntervalJoinOperator(
            function, CombinedWatermark(2), (selector1, selector2), self.bounds_ms, self.late_tags, (left, right)
        )


@dataclass(frozen=True)
class BroadcastProcessFactory(OperatorFactory):
    """Of process on a stream and a broadcast one."""

    function: object
    descriptors: tuple[object, ...]

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf._core.operators.broadcast_operator import BroadcastProcessOperator
        from flinkbuf.streaming.time.combined_watermark import CombinedWatermark

        return BroadcastProcessOperator(self.function, CombinedWatermark(2), self.descriptors)


@dataclass(frozen=True)
class KeyedBroadcastProcessFactory(OperatorFactory):
    """Of process on a keyed stream and a broadcast one."""

    function: object
    descriptors: tuple[object, ...]
    key_selector: object

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf._core.operators.broadcast_operator import KeyedBroadcastProcessOperator
        from flinkbuf.streaming.time.combined_watermark import CombinedWatermark

        selector = quickened(as_selector(self.key_selector))
        function = opening(self.function, selector)
        return KeyedBroadcastProcessOperator(function, CombinedWatermark(2), self.descriptors, selector, *_TIME_DOMAINS)


@dataclass(frozen=True)
class TimestampsFactory(OperatorFactory):
    """Of assign_timestamps_and_watermarks."""

    strategy: object

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf._core.operators.timestamps_operator import TimestampsAndWatermarksOperator

        return TimestampsAndWatermarksOperator(self.strategy)


class _Opening:
    """A user's function whose key selectors are opened before it and closed after it."""

    def __init__(self, function: object, lifecycle: Lifecycles) -> None:
        self._function = function
        self.open = lifecycle.open
        self.close = lifecycle.close

    def __getattr__(self, name: str) -> object:
        return getattr(self._function, name)


def opening(function: object, *selectors: object) -> object:
    """Return the function, or one that opens and closes those key selectors that want it together with itself."""
    members = [each for each in selectors if isinstance(each, SelectorCall)]
    return _Opening(function, Lifecycles(*members, function)) if members else function


def combined_lifecycle(function: object, *selectors: object) -> object:
    """Return what opens key selectors before the function and closes them after it; None: nothing needs it."""
    members: list[object] = [each for each in selectors if isinstance(each, SelectorCall)]
    if isinstance(function, Function) and has_lifecycle(function):
        members.append(function)
    return None if not members else members[0] if len(members) == 1 else Lifecycles(*members)
