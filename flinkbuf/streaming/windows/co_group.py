"""Two streams in the windows of one: what tags their records, and what takes the contents of a window apart again.

A tagged record is the pair (1, record) of the first stream or (2, record) of the second. Flink: CoGroupedStreams,
JoinedStreams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from flinkbuf._core.value.own_value import copied, is_fixed_value
from flinkbuf.streaming.chain.functions import (
    CoGroupFunction,
    FlatJoinFunction,
    Function,
    JoinFunction,
    KeySelector,
    Lifecycles,
    as_call,
    has_lifecycle,
)
from flinkbuf.streaming.windows.window_functions import WindowFunction

if TYPE_CHECKING:
    from flinkbuf.streaming.chain.runtime_context import RuntimeContext

FIRST = 1
SECOND = 2


def lifecycle_of(*functions: object) -> Lifecycles:
    """Return what opens and closes those that are functions."""
    return Lifecycles(*(each for each in functions if isinstance(each, Function)))


def tag_first(value: object) -> tuple[int, object]:
    """Make a tagged record of one of the first stream."""
    return FIRST, value


def tag_second(value: object) -> tuple[int, object]:
    """Make a tagged record of one of the second stream."""
    return SECOND, value


def tagged_key_selector(key_selector1: object, key_selector2: object) -> KeySelector | Callable[..., object]:
    """Return what gives the key of a tagged record; it is only opened and closed if one of the two wants it."""
    selector = TaggedKeySelector(key_selector1, key_selector2)
    return selector if has_lifecycle(key_selector1) or has_lifecycle(key_selector2) else selector.get_key


class TaggedKeySelector(KeySelector):
    """Gives the key of a tagged record. Flink: UnionKeySelector."""

    def __init__(self, key_selector1: object, key_selector2: object) -> None:
        self._lifecycle = lifecycle_of(key_selector1, key_selector2)
        self._key1, self._key2 = (
            as_call(selector, KeySelector, "get_key") for selector in (key_selector1, key_selector2)
        )

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the user's key selectors."""
        self._lifecycle.open(runtime_context)

    def close(self) -> None:
        """Close the user's key selectors."""
        self._lifecycle.close()

    def get_key(self, value: tuple[int, object]) -> object:
        """Return the key."""
        return self._key1(value[1]) if value[0] == FIRST else self._key2(value[1])


class CoGroupWindowFunction(WindowFunction[Any, object, object, object]):
    """Gives the records of a window to a function of both streams' records. Flink: CoGroupWindowFunction.

    Parameters
    ----------
    function : CoGroupFunction or callable
        Opened and closed with this one.
    """

    def __init__(self, function: object) -> None:
        self._lifecycle = lifecycle_of(function)
        self._co_group = as_call(function, CoGroupFunction, "co_group")

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the user's function."""
        self._lifecycle.open(runtime_context)

    def close(self) -> None:
        """Close the user's function."""
        self._lifecycle.close()

    def apply(self, key: object, window: object, inputs: Iterable[tuple[int, object]]) -> Iterable[object]:
        """Return what the user's function makes of the records of each stream."""
        first: list[object] = []
        second: list[object] = []
        for tag, value in inputs:
            (first if tag == FIRST else second).append(value)
        results = self._co_group(first, second)
        if results is None:
            return ()
        if not hasattr(results, "__iter__"):
            raise TypeError(
                f"co_group() must return an iterable of results or None, or yield them; it returned "
                f"{type(results).__name__}, {results!r:.80}"
            )
        return results


class JoinCoGroupFunction(CoGroupFunction):
    """Gives each pair of the two streams' records to a function. Flink: JoinCoGroupFunction, FlatJoinCoGroupFunction.

    Parameters
    ----------
    function : JoinFunction, FlatJoinFunction or callable
        A callable gives one result, as a `JoinFunction` does.
    """

    def __init__(self, function: object) -> None:
        self._lifecycle = lifecycle_of(function)
        self._is_flat = isinstance(function, FlatJoinFunction)
        kind: type[Function] = FlatJoinFunction if self._is_flat else JoinFunction
        self._join: Callable[..., Any] = as_call(function, kind, "join")

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the user's function."""
        self._lifecycle.open(runtime_context)

    def close(self) -> None:
        """Close the user's function."""
        self._lifecycle.close()

    def co_group(self, first: list[object], second: list[object]) -> Iterator[object]:
        """Yield the results of each pair; what can change is another object in each."""
        is_fixed = all(map(is_fixed_value, first)) and all(map(is_fixed_value, second))
        for value1 in first:
            for value2 in second:
                pair = (value1, value2) if is_fixed else (copied(value1), copied(value2))
                if self._is_flat:
                    yield from self._join(*pair) or ()
                else:
                    yield self._join(*pair)
