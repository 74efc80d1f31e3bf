"""The base of small values that never change.

Frozen dataclasses would do, but there are some thirty of these classes, and `dataclass` compiles half a dozen
methods for each of them at import: half of the time that importing all of flinkbuf may take.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Immutable:
    """A value made of parts: equal to those of its class with equal parts, hashable, picklable, printed as a call.

    A subclass lists its parts in ``__slots__`` (names with an underscore are none) and calls `_set` in ``__init__``.
    """

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()  # the names of the parts, in order

    def __init_subclass__(cls) -> None:
        own = tuple(name for name in cls.__dict__.get("__slots__", ()) if not name.startswith("_"))
        cls.__match_args__ = cls.__match_args__ + own  # type: ignore[misc]

    def _set(self, *parts: Any) -> None:
        for name, part in zip(self.__match_args__, parts, strict=True):
            object.__setattr__(self, name, part)

    def _parts(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed")

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self is other or self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._parts()))

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={part!r}" for name, part in zip(self.__match_args__, self._parts()))
        return f"{type(self).__name__}({parts})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._parts()


class Ordered(Immutable):
    """An immutable value that those of its class come before or after, part by part."""

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return self._parts() < other._parts() if other.__class__ is self.__class__ else NotImplemented

    def __le__(self, other: Any) -> bool:
        return self._parts() <= other._parts() if other.__class__ is self.__class__ else NotImplemented

    def __gt__(self, other: Any) -> bool:
        return self._parts() > other._parts() if other.__class__ is self.__class__ else NotImplemented

    def __ge__(self, other: Any) -> bool:
        return self._parts() >= other._parts() if other.__class__ is self.__class__ else NotImplemented
