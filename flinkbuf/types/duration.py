"""Lengths of time, as programs for Flink write them.

`Duration` is Java's, to the nanosecond; `Time` is PyFlink's, in milliseconds. Where a length of time is asked for, both
and Python's `datetime.timedelta` will do.
"""

from __future__ import annotations

import datetime
import numbers
from dataclasses import dataclass

from flinkbuf.types.date_time import LONG_MAX, LONG_MIN, check_range

__all__ = ["Duration", "Time", "milliseconds_of"]

_NANOS_PER_SECOND = 1_000_000_000
_UNITS = (("H", 3600), ("M", 60), ("S", 1))


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time, to the nanosecond; it may be negative. ``java.time.Duration``.

    Parameters
    ----------
    nanos : int
        Nanoseconds; usually given through one of the methods ``of_…``.

    Examples
    --------
    >>> Duration.of_seconds(90), str(Duration.of_seconds(90)), Duration.of_minutes(5).to_millis()
    (Duration(nanos=90000000000), 'PT1M30S', 300000)
    >>> Duration.of_seconds(1) == Duration.of_millis(1000)
    True
    """

    nanos: int

    def __post_init__(self) -> None:
        check_range("nanos", self.nanos, LONG_MIN * _NANOS_PER_SECOND, LONG_MAX * _NANOS_PER_SECOND)

    @staticmethod
    def of_days(days: int) -> Duration:
        """From days of 24 hours."""
        return _of("days", days, 86_400 * _NANOS_PER_SECOND)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """From hours."""
        return _of("hours", hours, 3600 * _NANOS_PER_SECOND)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """From minutes."""
        return _of("minutes", minutes, 60 * _NANOS_PER_SECOND)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """From seconds."""
        return _of("seconds", seconds, _NANOS_PER_SECOND)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """From milliseconds."""
        return _of("millis", millis, 1_000_000)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """From nanoseconds."""
        return _of("nanos", nanos, 1)

    def to_millis(self) -> int:
        """Whole milliseconds; what is left over falls off downwards, as in Java."""
        return self.nanos // 1_000_000

    def to_nanos(self) -> int:
        """Nanoseconds."""
        return self.nanos

    def __str__(self) -> str:
        """As Java prints it: PT1M30S."""
        seconds, nanos = divmod(abs(self.nanos), _NANOS_PER_SECOND)
        sign, text = "-" if self.nanos < 0 else "", "PT"
        for letter, length in _UNITS:
            count, seconds = divmod(seconds, length)
            fraction = f".{nanos:09d}".rstrip("0") if letter == "S" and nanos else ""
            if count or fraction:
                text += f"{sign}{count}{fraction}{letter}"
        return text if len(text) > 2 else "PT0S"


def _of(what: str, count: int, nanos: int) -> Duration:
    check_range(what, count, LONG_MIN, LONG_MAX)
    return Duration(count * nanos)


def _number_of(unit: str, number: int) -> int:
    """The number as it is: a text times 1,000 would be a text."""
    if not isinstance(number, numbers.Real):
        raise TypeError(f"{unit} must be a number, got {type(number).__name__} {number!r}")
    return number


class Time:
    """A length of time in milliseconds, as PyFlink's windows and states take it. Flink's ``Time``.

    Examples
    --------
    >>> Time.minutes(2).to_milliseconds(), str(Time.seconds(1)), Time.seconds(1) == Time.milliseconds(1000)
    (120000, '1000 ms', True)
    """

    __slots__ = ("_milliseconds",)

    def __init__(self, milliseconds: int):
        self._milliseconds = _number_of("milliseconds", milliseconds)

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """From milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """From seconds."""
        return Time(_number_of("seconds", seconds) * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """From minutes."""
        return Time.seconds(_number_of("minutes", minutes) * 60)

    @staticmethod
    def hours(hours: int) -> Time:
        """From hours."""
        return Time.minutes(_number_of("hours", hours) * 60)

    @staticmethod
    def days(days: int) -> Time:
        """From days of 24 hours."""
        return Time.hours(_number_of("days", days) * 24)

    def to_milliseconds(self) -> int:
        """Milliseconds, as they were given."""
        return self._milliseconds

    def __eq__(self, other: object) -> bool:
        return self.__class__ == other.__class__ and self._milliseconds == other._milliseconds

    def __hash__(self) -> int:
        return hash(self._milliseconds)

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"

    def __repr__(self) -> str:
        return f"Time.milliseconds({self._milliseconds!r})"


def milliseconds_of(what: str, length: Time | Duration | datetime.timedelta) -> int:
    """A length of time in whole milliseconds.

    Parameters
    ----------
    what : str
        What it is the length of; stands in the error.
    length : Time, Duration or datetime.timedelta
        The length.

    Raises
    ------
    TypeError
        If it is none of these; a bare number does not say its unit.
    ValueError
        If it is not a whole number of milliseconds.

    Examples
    --------
    >>> milliseconds_of("size", Time.seconds(0.5)), milliseconds_of("size", Duration.of_minutes(1))
    (500, 60000)
    """
    if isinstance(length, Duration):
        milliseconds, rest = divmod(length.nanos, 1_000_000)
    elif isinstance(length, datetime.timedelta):
        milliseconds, rest = divmod(length // datetime.timedelta(microseconds=1), 1000)
    elif isinstance(length, Time):
        milliseconds, rest = divmod(length.to_milliseconds(), 1)
    else:
        raise TypeError(
            f"{what} must be a Time, a Duration or a timedelta, such as Time.seconds(5), "
            f"got {type(length).__name__} {length!r}"
        )
    if rest:
        raise ValueError(f"{what} must be a whole number of milliseconds, got {length}")
    return int(milliseconds)


def positive_milliseconds_of(what: str, length: Time | Duration | datetime.timedelta) -> int:
    """A length of time in whole milliseconds, of which there is one or more.

    Raises
    ------
    TypeError, ValueError
        As of `milliseconds_of`, and if it is not greater than zero.

    Examples
    --------
    >>> positive_milliseconds_of("interval", Duration.of_millis(0))
    Traceback (most recent call last):
        ...
    ValueError: interval must be greater than zero, got PT0S
    """
    length_ms = milliseconds_of(what, length)
    if length_ms <= 0:
        raise ValueError(f"{what} must be greater than zero, got {length}")
    return length_ms
