"""Numbers as people read them: for answers that a page and a terminal show."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final

END_OF_TIME: Final = 2**62  # the watermark of a task that has seen all; below -2^62: of one that has seen none
NOTHING: Final = "–"
_SPANS: Final = (("year", 31_557_600_000), ("day", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def duration_text(ms: float) -> str:
    """Return a duration in one or two units.

    Examples
    --------
    >>> [duration_text(ms) for ms in (38, 4_240, 12_400, 60_000, 305_000, 725_000, 12_000_000, 4e11)]
    ['38 ms', '4.2 s', '12 s', '1 min', '5 min 5 s', '12 min', '3 h 20 min', '12.7 years']
    """
    if ms < 0:
        return f"-{duration_text(-ms)}"
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 9_950:
        return f"{ms / 1000:.1f} s"
    if ms < 59_500:
        return f"{ms / 1000:.0f} s"
    if ms >= _SPANS[0][1]:
        return f"{ms / _SPANS[0][1]:.1f} years"
    place = next((place for place in (1, 2) if ms >= _SPANS[place][1]), 3)
    (unit, span), (lower, lower_span) = _SPANS[place], _SPANS[place + 1]
    whole, rest = max(1, int(ms // span)), int(ms % span // lower_span)
    first = plural(whole, "day") if unit == "day" else f"{whole} {unit}"
    return f"{first} {rest} {lower}" if rest and whole < 10 and ms >= span else first


def lasting_text(ms: float) -> str:
    """Return whole seconds, for a time that grows while one looks at it."""
    return f"{max(0, int(ms)) // 1000} s" if ms < 60_000 else duration_text(ms)


def age_text(ms: float) -> str:
    """Return how long ago something was.

    Examples
    --------
    >>> age_text(400), age_text(1_900), age_text(61_000)
    ('just now', '2 s ago', '1 min 1 s ago')
    """
    seconds = round(ms / 1000)
    if ms < 950:
        return "just now"
    return f"{seconds} s ago" if seconds < 60 else f"{duration_text(seconds * 1000)} ago"


def event_time_text(ms: int | None) -> str:
    """Return a watermark in UTC: it means the same to all who look.

    Examples
    --------
    >>> event_time_text(1_373_791_200_000), event_time_text(2**63 - 1), event_time_text(None)
    ('2013-07-14 08:40:00', 'end', '–')
    """
    if ms is None or ms <= -END_OF_TIME:
        return NOTHING
    if ms >= END_OF_TIME:
        return "end"
    try:
        return datetime.fromtimestamp(ms // 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # a program may count event time in its own way
        return str(ms)


def size_text(size: float | None) -> str:
    """Return bytes in three digits, as the page does; nothing for None.

    Examples
    --------
    >>> size_text(999), size_text(75_000), size_text(123_456), size_text(1 << 30), size_text(None)
    ('999 B', '73.2 KiB', '121 KiB', '1.0 GiB', '')
    """
    if size is None:
        return ""
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    place = 0
    while size >= 1000 and place < len(units) - 1:
        size /= 1024
        place += 1
    return f"{size:.1f} {units[place]}" if place and size < 99.95 else f"{size:.0f} {units[place]}"


def count_text(value: float | None) -> str:
    """Return three digits and a letter.

    Examples
    --------
    >>> [count_text(value) for value in (None, 7, 2.5, 999, 34_567, 1e7)]
    ['–', '7', '2.5', '999', '34.6 k', '10.0 M']
    """
    if value is None:
        return NOTHING
    if value < 10 and value != round(value):
        return f"{value:.1f}"
    units = ("", " k", " M", " G", " T")
    place = 0
    while abs(value) >= 999.5 and place < len(units) - 1:
        value /= 1000
        place += 1
    return f"{value:.1f}{units[place]}" if place and value < 99.95 else f"{value:.0f}{units[place]}"


def plural(number: int, one: str) -> str:
    """Return a number of things."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def percent(ratio: float) -> str:
    """Return a share."""
    return f"{ratio * 100:.0f} %"


def short_name(name: str) -> str:
    """Return the first operator of a chain: it stands for all of it."""
    return name.split(" -> ")[0]
