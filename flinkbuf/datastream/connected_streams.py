"""Two streams in one operator, and streams that every subtask sees. Flink: ConnectedStreams, BroadcastStream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from flinkbuf.datastream.arguments import declared
from flinkbuf.datastream.operator_factories import (
    BroadcastProcessFactory,
    CoFunctionFactory,
    CoProcessFactory,
    KeyedBroadcastProcessFactory,
    KeyedCoProcessFactory,
)
from flinkbuf.streaming.functions import CoFlatMapFunction, CoMapFunction, KeySelector
from flinkbuf.streaming.process_functions import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from flinkbuf.streaming.state import MapStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flinkbuf.types.type_information import TypeInformation


class ConnectedStreams:
    """Two streams, of any types, that one operator reads; made by ``connect``. Flink's ``ConnectedStreams``."""

    def __init__(self, stream1: Any, stream2: Any) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self,
        key_selector1: Callable[[Any], Any] | KeySelector,
        key_selector2: Callable[[Any], Any] | KeySelector,
        key_type: Any = None,
    ) -> ConnectedStreams:
        """Bring records of the same key, from either stream, to the same subtask."""
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(self, func: CoMapFunction, output_type: Any = None) -> Any:
        """Give ``map1``'s and ``map2``'s result for each record; None is none."""
        if not isinstance(func, CoMapFunction):
            raise TypeError(f"The input function must be a CoMapFunction!, got {type(func).__name__} {func!r}")
        return self._call("Co-Map", "map", func, declared(output_type))

    def flat_map(self, func: CoFlatMapFunction, output_type: Any = None) -> Any:
        """Give all that ``flat_map1`` and ``flat_map2`` yield for each record."""
        if not isinstance(func, CoFlatMapFunction):
            raise TypeError(f"The input must be a CoFlatMapFunction!, got {type(func).__name__} {func!r}")
        return self._call("Co-Flat Map", "flat_map", func, declared(output_type))

    def process(self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: Any = None) -> Any:
        """Give all that the function yields; on keyed streams it has state and timers for each key."""
        if isinstance(func, BaseBroadcastProcessFunction):
            raise TypeError(
                f"a {type(func).__mro__[1].__name__} needs a stream that is broadcast with its state: "
                "stream.connect(other.broadcast(MapStateDescriptor(...)))"
            )
        if not isinstance(func, (CoProcessFunction, KeyedCoProcessFunction)):
            raise TypeError(
                f"The input must be a CoProcessFunction or KeyedCoProcessFunction!, got {type(func).__name__} {func!r}"
            )
        type_info = declared(output_type)
        selectors = self._key_selectors
        if selectors is not None:
            return self._join("Keyed Co-Process", type_info, KeyedCoProcessFactory(type_info, func, selectors))
        if isinstance(func, KeyedCoProcessFunction):
            raise TypeError("a KeyedCoProcessFunction needs both streams keyed: call key_by on the connected streams")
        return self._join("Co-Process", type_info, CoProcessFactory(type_info, func))

    @property
    def _key_selectors(self) -> tuple[Any, Any] | None:
        """Of both streams; None unless both are keyed."""
        selectors = (self.stream1._key_selector, self.stream2._key_selector)
        return None if None in selectors else selectors

    def _call(self, name: str, kind: str, function: Any, type_info: TypeInformation | None) -> Any:
        return self._join(name, type_info, CoFunctionFactory(type_info, kind, function, self._key_selectors))

    def _join(self, name: str, type_info: TypeInformation | None, factory: Any) -> Any:
        options = keyed_options(self.stream1) if self._key_selectors is not None else {}
        return self.stream1._join([self.stream1, self.stream2], name, type_info, factory, **options)


class BroadcastStream:
    """A stream of which every subtask sees every record; made by ``broadcast`` with descriptors of state."""

    def __init__(self, input_stream: Any, broadcast_state_descriptors: Sequence[MapStateDescriptor]) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)


class BroadcastConnectedStream:
    """A stream and what is broadcast to it. Flink's ``BroadcastConnectedStream``."""

    def __init__(
        self,
        non_broadcast_stream: Any,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    @overload
    def process(self, func: BroadcastProcessFunction, output_type: Any = None) -> Any: ...

    @overload
    def process(self, func: KeyedBroadcastProcessFunction, output_type: Any = None) -> Any: ...

    def process(self, func: BroadcastProcessFunction | KeyedBroadcastProcessFunction, output_type: Any = None) -> Any:
        """Give all that the function yields for records of either stream; only the broadcast one changes its state."""
        stream = self.non_broadcast_stream
        is_keyed = stream._key_selector is not None
        if isinstance(func, BroadcastProcessFunction) and is_keyed:
            raise TypeError("BroadcastProcessFunction should be applied to non-keyed DataStream")
        if isinstance(func, KeyedBroadcastProcessFunction) and not is_keyed:
            raise TypeError("KeyedBroadcastProcessFunction should be applied to keyed DataStream")
        if not isinstance(func, (BroadcastProcessFunction, KeyedBroadcastProcessFunction)):
            raise TypeError(
                "The input must be a BroadcastProcessFunction or KeyedBroadcastProcessFunction, got "
                f"{type(func).__name__} {func!r}"
            )
        type_info = declared(output_type)
        descriptors = tuple(self.broadcast_state_descriptors)
        streams = [stream, self.broadcast_stream.input_stream]
        if not is_keyed:
            factory: Any = BroadcastProcessFactory(type_info, func, descriptors)
            return stream._join(streams, "Co-Process-Broadcast", type_info, factory)
        factory = KeyedBroadcastProcessFactory(type_info, func, descriptors, stream._key_selector)
        return stream._join(streams, "Keyed-Co-Process-Broadcast", type_info, factory, **keyed_options(stream))


def keyed_options(stream: Any) -> dict[str, Any]:
    """Return what an operator of a keyed stream is told about its key."""
    return {"is_keyed": True, "key_type": stream._key_type}
