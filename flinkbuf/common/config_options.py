"""Options that a program defines: a key, what it holds, what holds without it. Flink: ConfigOption, ConfigOptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """One option. Flink's ``ConfigOption``."""

    key: str
    kind: type
    default_value: T | None = None

    def __str__(self) -> str:
        return f"Key: '{self.key}' , default: {self.default_value} (fallback keys: [])"


class ConfigOptions:
    """Makes options. Flink's ``ConfigOptions``.

    Examples
    --------
    >>> ConfigOptions.key("flights.airports").int_type().default_value(3).default_value
    3
    """

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Begin an option."""
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        """An option whose type is still to be said."""

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            """It holds true or false."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, bool)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """It holds a whole number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, int)

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """It holds a whole number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, int)

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """It holds a number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, float)

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """It holds a number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, float)

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """It holds a text."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, str)

    class TypedConfigOptionBuilder(Generic[T]):
        """An option whose default is still to be said."""

        def __init__(self, key: str, kind: type) -> None:
            self._key = key
            self._kind = kind

        def default_value(self, value: T) -> ConfigOption[T]:
            """Say what holds when nobody sets it."""
            return ConfigOption(self._key, self._kind, value)

        def no_default_value(self) -> ConfigOption[object]:
            """Nothing holds when nobody sets it."""
            return ConfigOption(self._key, self._kind)
