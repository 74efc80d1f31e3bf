"""Dates and times as Java has them: nanoseconds, years far from ours, and no silent loss on the way to Python's.

All classes are immutable, ordered and hashable. ``from_…`` and ``to_…`` convert from and to Python's own values and
raise where those would lose something; ``str`` and ``parse`` speak ISO-8601 as Java prints it, but for `Instant`, whose
``str`` is PyFlink's and whose `Instant.isoformat` speaks it.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
_DAY_MILLIS = 86_400_000
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()


def check_range(what: str, value: object, low: int, high: int) -> None:
    """Raise unless `value` is an int (no bool) within `low` … `high`; both ends are included."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what} must be an int, got {type(value).__name__} {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{what} must be within {low}..{high}, got {value}")


_DATE = r"(?P<year>[+-]?\d{4,10})-(?P<month>\d\d)-(?P<day>\d\d)"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?"
_ZONE = r"(?P<zone>Z|[+-]\d\d:?\d\d)"


def _parse(what: str, pattern: str, text: str) -> tuple[dict[str, int], str]:
    """The numbers, and the zone, if the pattern has one."""
    match = re.fullmatch(pattern, text, re.ASCII)
    if match is None:
        raise ValueError(f"{text!r} is not an ISO-8601 {what}")
    found = match.groupdict(default="")
    zone = found.pop("zone", "")
    if "fraction" in found:
        found["nano"] = found.pop("fraction").ljust(9, "0")
    return {name: int(part or 0) for name, part in found.items()}, zone


def _fraction(nano: int) -> str:
    """The fraction as Java prints it: none, 3, 6 or 9 digits."""
    if nano == 0:
        return ""
    digits = f"{nano:09d}"
    return "." + (digits[:3] if digits.endswith("000000") else digits[:6] if digits.endswith("000") else digits)


def _date_text(year: int, month: int, day: int) -> str:
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _microsecond(value: object, nano: int) -> int:
    microsecond, lost = divmod(nano, 1000)
    if lost:
        raise ValueError(f"{value} has nanoseconds that Python's datetime cannot hold")
    return microsecond


def _days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar, for any year.

    The calendar repeats every 400 years (146,097 days), so any year is a known one that many cycles away.
    """
    cycles, year_in_cycle = divmod(year, 400)
    ordinal = datetime.date(year_in_cycle + 400, month, day).toordinal()
    return ordinal - _EPOCH_ORDINAL + (cycles - 1) * 146_097


def _civil_from_days(days: int) -> tuple[int, int, int]:
    cycles, rest = divmod(days, 146_097)
    date = datetime.date.fromordinal(_EPOCH_ORDINAL + rest)
    return date.year + cycles * 400, date.month, date.day


@dataclass(frozen=True, slots=True, order=True)
class LocalDate:
    """A date without a time zone, in any year Java knows. ``java.time.LocalDate``.

    Parameters
    ----------
    year : int
        −999,999,999 … 999,999,999; year 0 is 1 BC.
    month, day : int
        From 1.

    Examples
    --------
    >>> LocalDate(2024, 2, 29).to_date(), str(LocalDate(-44, 3, 15)), LocalDate.parse("+12024-01-31").year
    (datetime.date(2024, 2, 29), '-0044-03-15', 12024)
    """

    year: int
    month: int
    day: int

    def __post_init__(self) -> None:
        check_range("year", self.year, -999_999_999, 999_999_999)
        check_range("month", self.month, 1, 12)
        leap = self.year % 4 == 0 and (self.year % 100 != 0 or self.year % 400 == 0)
        days = 28 + leap if self.month == 2 else 30 if self.month in (4, 6, 9, 11) else 31
        check_range("day", self.day, 1, days)

    @classmethod
    def from_date(cls, date: datetime.date) -> LocalDate:
        """From a date; a `datetime.datetime` is refused, as its time would be lost."""
        if isinstance(date, datetime.datetime) or not isinstance(date, datetime.date):
            raise TypeError(f"a datetime.date is needed, got {type(date).__name__} {date!r}")
        return cls(date.year, date.month, date.day)

    @classmethod
    def parse(cls, text: str) -> LocalDate:
        """From ISO-8601 text, as ``str`` gives it."""
        return cls(**_parse("date", _DATE, text)[0])

    def to_date(self) -> datetime.date:
        """Python's date; ValueError outside the years 1 … 9999."""
        if not 1 <= self.year <= 9999:
            raise ValueError(f"{self} is outside the years 1..9999 that Python's datetime can hold")
        return datetime.date(self.year, self.month, self.day)

    def __str__(self) -> str:
        return _date_text(self.year, self.month, self.day)


@dataclass(frozen=True, slots=True, order=True)
class LocalTime:
    """A time of day without a time zone, to the nanosecond. ``java.time.LocalTime``.

    Parameters
    ----------
    hour, minute, second : int
        0 … 23, 0 … 59, 0 … 59.
    nano : int, default 0
        The fraction of the second in nanoseconds, 0 … 999,999,999.

    Examples
    --------
    >>> str(LocalTime(23, 59, 59, 1_000)), LocalTime(12, 30).to_time(), LocalTime.parse("05:06:07.5").nano
    ('23:59:59.000001', datetime.time(12, 30), 500000000)
    """

    hour: int
    minute: int
    second: int = 0
    nano: int = 0

    def __post_init__(self) -> None:
        check_range("hour", self.hour, 0, 23)
        check_range("minute", self.minute, 0, 59)
        check_range("second", self.second, 0, 59)
        check_range("nano", self.nano, 0, 999_999_999)

    @classmethod
    def from_time(cls, time: datetime.time) -> LocalTime:
        """From a time without a time zone; one with a zone raises ValueError, as the zone would be lost."""
        if time.tzinfo is not None:
            raise ValueError(f"{time!r} has a time zone, which a LocalTime cannot hold; use .replace(tzinfo=None)")
        return cls(time.hour, time.minute, time.second, time.microsecond * 1000)

    @classmethod
    def parse(cls, text: str) -> LocalTime:
        """From ISO-8601 text, as ``str`` gives it."""
        return cls(**_parse("time", _TIME, text)[0])

    def to_time(self) -> datetime.time:
        """Python's time; ValueError where nanoseconds would be lost."""
        return datetime.time(self.hour, self.minute, self.second, _microsecond(self, self.nano))

    def __str__(self) -> str:
        seconds = f":{self.second:02d}{_fraction(self.nano)}" if self.second or self.nano else ""
        return f"{self.hour:02d}:{self.minute:02d}{seconds}"


@dataclass(frozen=True, slots=True, order=True)
class LocalDateTime:
    """A date and time of day without a time zone. ``java.time.LocalDateTime``.

    Parameters
    ----------
    year, month, day : int
        As for `LocalDate`.
    hour, minute, second, nano : int, default 0
        As for `LocalTime`.

    Examples
    --------
    >>> moment = LocalDateTime(1999, 12, 31, 23, 59, 59, 999_999_999)
    >>> str(moment), moment.date, moment == LocalDateTime.parse(str(moment))
    ('1999-12-31T23:59:59.999999999', LocalDate(year=1999, month=12, day=31), True)
    >>> moment.to_datetime()
    Traceback (most recent call last):
    ValueError: 1999-12-31T23:59:59.999999999 has nanoseconds that Python's datetime cannot hold
    """

    year: int
    month: int
    day: int
    hour: int = 0
    minute: int = 0
    second: int = 0
    nano: int = 0

    def __post_init__(self) -> None:
        _ = self.date, self.time  # both check their parts

    @property
    def date(self) -> LocalDate:
        """The date alone."""
        return LocalDate(self.year, self.month, self.day)

    @property
    def time(self) -> LocalTime:
        """The time of day alone."""
        return LocalTime(self.hour, self.minute, self.second, self.nano)

    @classmethod
    def from_datetime(cls, value: datetime.datetime) -> LocalDateTime:
        """From a naive datetime; one with a time zone raises ValueError, as the zone would be lost."""
        if value.tzinfo is not None:
            raise ValueError(f"{value!r} has a time zone, which a LocalDateTime cannot hold; use Instant.from_datetime")
        return cls(*value.timetuple()[:6], value.microsecond * 1000)

    @classmethod
    def parse(cls, text: str) -> LocalDateTime:
        """From ISO-8601 text, as ``str`` gives it."""
        return cls(**_parse("date and time", f"{_DATE}T{_TIME}", text)[0])

    def to_datetime(self) -> datetime.datetime:
        """A naive datetime; ValueError where nanoseconds or the year would be lost."""
        date = self.date.to_date()
        return datetime.datetime(
            date.year, date.month, date.day, self.hour, self.minute, self.second, _microsecond(self, self.nano)
        )

    def __str__(self) -> str:
        return f"{self.date}T{self.time}"


@dataclass(frozen=True, slots=True, order=True, repr=False)
class Instant:
    """A point on the time line, to the nanosecond. PyFlink's ``Instant``, ``java.time.Instant``.

    It cannot be changed, and can be a key; ``repr`` and ``str`` are PyFlink's.

    Parameters
    ----------
    seconds : int
        Seconds since 1970-01-01T00:00:00Z; −31,557,014,167,219,200 … 31,556,889,864,403,199.
    nanos : int, default 0
        Nanoseconds after that second, 0 … 999,999,999; also before 1970.

    Examples
    --------
    >>> Instant.parse("2024-03-01T01:00:00+01:00"), Instant(1_709_251_199, 123_456_789).isoformat()
    (Instant<1709251200, 0>, '2024-02-29T23:59:59.123456789Z')
    >>> Instant(-1, 500_000_000).to_datetime()
    datetime.datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=datetime.timezone.utc)
    """

    seconds: int
    nanos: int = 0

    def __post_init__(self) -> None:
        check_range("seconds", self.seconds, -31_557_014_167_219_200, 31_556_889_864_403_199)
        check_range("nanos", self.nanos, 0, 999_999_999)

    @classmethod
    def of_epoch_milli(cls, epoch_milli: int) -> Instant:
        """From milliseconds since 1970-01-01T00:00:00Z."""
        second, millisecond = divmod(epoch_milli, 1000)
        return cls(second, millisecond * 1_000_000)

    def to_epoch_milli(self) -> int:
        """Milliseconds since 1970-01-01T00:00:00Z, rounded down.

        Examples
        --------
        >>> Instant.of_epoch_milli(-1).to_epoch_milli()
        -1
        """
        return self.seconds * 1000 + self.nanos // 1_000_000

    @classmethod
    def from_datetime(cls, value: datetime.datetime) -> Instant:
        """From an aware datetime; a naive one raises ValueError, as it names no point on the time line."""
        if value.utcoffset() is None:
            raise ValueError(f"{value!r} has no time zone; give it one with .replace(tzinfo=…) or .astimezone()")
        since = value - _EPOCH
        return cls(since.days * 86_400 + since.seconds, since.microseconds * 1000)

    @classmethod
    def parse(cls, text: str) -> Instant:
        """From ISO-8601 text with ``Z`` or an offset."""
        parts, zone = _parse("instant with Z or an offset", f"{_DATE}T{_TIME}{_ZONE}", text)
        year = parts.pop("year")
        # The calendar repeats every 400 years; the first and the last instants lie in years LocalDate does not have.
        local = LocalDateTime(year % 400, **parts)
        days = _days_from_civil(year, local.month, local.day)
        offset = 0
        if zone != "Z":
            if int(zone[1:3]) > 18 or int(zone[-2:]) > 59:
                raise ValueError(f"{text!r} has an offset beyond ±18:00")
            offset = int(zone[0] + "1") * (int(zone[1:3]) * 3600 + int(zone[-2:]) * 60)
        return cls(days * 86_400 + local.hour * 3600 + local.minute * 60 + local.second - offset, local.nano)

    def to_datetime(self) -> datetime.datetime:
        """An aware datetime in UTC; ValueError where nanoseconds or the year would be lost."""
        microseconds = _microsecond(self.isoformat(), self.nanos)
        try:
            return _EPOCH + datetime.timedelta(seconds=self.seconds, microseconds=microseconds)
        except OverflowError:
            raise ValueError(
                f"{self.isoformat()} is outside the years 1..9999 that Python's datetime can hold"
            ) from None

    def isoformat(self) -> str:
        """ISO-8601 text in UTC, as Java prints an Instant; `parse` reads it."""
        days, second = divmod(self.seconds, 86_400)
        date = _date_text(*_civil_from_days(days))
        return f"{date}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}{_fraction(self.nanos)}Z"

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


@dataclass(frozen=True, slots=True, order=True)
class _Millis:
    """Milliseconds since 1970-01-01T00:00:00Z, any 64-bit number."""

    millis: int

    def __post_init__(self) -> None:
        check_range("millis", self.millis, LONG_MIN, LONG_MAX)


class JavaDate(_Millis):
    """A ``java.util.Date`` that is no Python datetime: outside the years 1 … 9999.

    Parameters
    ----------
    millis : int
        Milliseconds since 1970-01-01T00:00:00Z.

    Examples
    --------
    >>> JavaDate(1_700_000_000_123).to_datetime().isoformat()
    '2023-11-14T22:13:20.123000+00:00'
    """

    __slots__ = ()

    @classmethod
    def from_datetime(cls, value: datetime.datetime) -> JavaDate:
        """From an aware datetime; ValueError for a naive one or where microseconds would be lost."""
        instant = Instant.from_datetime(value)
        if instant.nanos % 1_000_000:
            raise ValueError(f"{value!r} has microseconds, a java.util.Date only milliseconds")
        return cls(instant.seconds * 1000 + instant.nanos // 1_000_000)

    def to_datetime(self) -> datetime.datetime:
        """An aware datetime in UTC; ValueError outside the years 1 … 9999."""
        second, milli = divmod(self.millis, 1000)
        try:
            return _EPOCH + datetime.timedelta(seconds=second, milliseconds=milli)
        except OverflowError:
            raise ValueError(f"{self!r} is outside the years 1..9999 that Python's datetime can hold") from None


class SqlDate(_Millis):
    """A ``java.sql.Date`` that is no Python date: not at midnight UTC, or outside the years 1 … 9999.

    Parameters
    ----------
    millis : int
        Milliseconds since 1970-01-01T00:00:00Z.

    Examples
    --------
    >>> SqlDate(-86_400_000).to_date(), SqlDate.from_date(datetime.date(1970, 1, 2))
    (datetime.date(1969, 12, 31), SqlDate(millis=86400000))
    """

    __slots__ = ()

    @classmethod
    def from_date(cls, date: datetime.date) -> SqlDate:
        """Midnight UTC of `date`."""
        local = LocalDate.from_date(date)
        return cls(_days_from_civil(local.year, local.month, local.day) * _DAY_MILLIS)

    def to_date(self) -> datetime.date:
        """Python's date; ValueError if this is not at midnight UTC or the year is outside 1 … 9999."""
        days, rest = divmod(self.millis, _DAY_MILLIS)
        if rest:
            raise ValueError(f"{self!r} is not at midnight UTC: a datetime.date would lose {rest} ms")
        return LocalDate(*_civil_from_days(days)).to_date()


class SqlTime(_Millis):
    """A ``java.sql.Time`` that is no Python time: outside 1970-01-01.

    Parameters
    ----------
    millis : int
        Milliseconds since 1970-01-01T00:00:00Z.

    Examples
    --------
    >>> SqlTime(86_399_999).to_time()
    datetime.time(23, 59, 59, 999000)
    """

    __slots__ = ()

    @classmethod
    def from_time(cls, time: datetime.time) -> SqlTime:
        """From a time without a zone; ValueError for one with a zone or where microseconds would be lost."""
        local = LocalTime.from_time(time)
        if local.nano % 1_000_000:
            raise ValueError(f"{time!r} has microseconds, a java.sql.Time only milliseconds")
        return cls(((local.hour * 60 + local.minute) * 60 + local.second) * 1000 + local.nano // 1_000_000)

    def to_time(self) -> datetime.time:
        """Python's time; ValueError outside the first day of 1970."""
        if not 0 <= self.millis < _DAY_MILLIS:
            raise ValueError(f"{self!r} is not a time of day: 0..86399999 ms can be a datetime.time")
        second, milli = divmod(self.millis, 1000)
        return datetime.time(second // 3600, second // 60 % 60, second % 60, milli * 1000)


@dataclass(frozen=True, slots=True, order=True)
class SqlTimestamp:
    """A ``java.sql.Timestamp`` that is no Python datetime: with nanoseconds, or outside the years 1 … 9999.

    Parameters
    ----------
    millis : int
        Milliseconds since 1970-01-01T00:00:00Z, as ``Timestamp.getTime`` gives them.
    nanos : int
        The whole fraction of the second, 0 … 999,999,999, as ``Timestamp.getNanos`` gives it; its first three
        digits are those of `millis`.

    Examples
    --------
    >>> SqlTimestamp(1_700_000_000_123, 123_456_000).to_datetime()
    datetime.datetime(2023, 11, 14, 22, 13, 20, 123456)
    """

    millis: int
    nanos: int

    def __post_init__(self) -> None:
        check_range("millis", self.millis, LONG_MIN, LONG_MAX)
        check_range("nanos", self.nanos, 0, 999_999_999)
        if self.millis % 1000 != self.nanos // 1_000_000:
            raise ValueError(f"millis {self.millis} and nanos {self.nanos} name different milliseconds of the second")

    @classmethod
    def from_datetime(cls, value: datetime.datetime) -> SqlTimestamp:
        """From a naive datetime, read as UTC as PyFlink does; ValueError for one with a time zone."""
        if value.tzinfo is not None:
            raise ValueError(f"{value!r} has a time zone, which a SQL timestamp cannot hold; use Types.TIMESTAMP_LTZ()")
        instant = Instant.from_datetime(value.replace(tzinfo=datetime.timezone.utc))
        return cls(instant.seconds * 1000 + instant.nanos // 1_000_000, instant.nanos)

    def to_datetime(self) -> datetime.datetime:
        """A naive datetime in UTC; ValueError where nanoseconds or the year would be lost."""
        microsecond = _microsecond(self, self.nanos)
        second = self.millis // 1000
        try:
            return _EPOCH.replace(tzinfo=None) + datetime.timedelta(seconds=second, microseconds=microsecond)
        except OverflowError:
            raise ValueError(f"{self} is outside the years 1..9999 that Python's datetime can hold") from None
