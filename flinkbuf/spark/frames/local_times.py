"""Instants as the clock on the wall of this process says them, and back: columns of Arrow, in microseconds.

PySpark gives the timestamps of a DataFrame as naive datetimes in the zone of the Python process. What the C library
says of a quarter of an hour is asked once: that is as long as all offsets hold, but for zones of long ago, whose
quarters are looked at second by second.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow

_QUARTER_S = 900
_MICROS = 1_000_000
_EPOCH = datetime.datetime(1970, 1, 1)


def to_local(column: pyarrow.Array) -> pyarrow.Array:
    """A column of instants as ``timestamp[us]`` without a zone.

    Examples
    --------
    >>> import pyarrow as pa
    >>> instants = pa.array([0, None, 1_700_000_000_123_456], pa.timestamp("us", "UTC"))
    >>> [each and each == datetime.datetime.fromtimestamp(instant.timestamp()) for each, instant in zip(
    ...     to_local(instants).to_pylist(), instants.to_pylist()) if each]
    [True, True]
    """
    return _moved(column, lambda second: time.localtime(second).tm_gmtoff, 1, None)


def from_local(column: pyarrow.Array) -> pyarrow.Array:
    """A column of times without a zone as the instants at which the clock of this process shows them."""
    return _moved(column, _offset_when_shown, -1, "UTC")


def _moved(column: pyarrow.Array, offset: Callable[[int], int], sign: int, zone: str | None) -> pyarrow.Array:
    import numpy as np
    import pyarrow as pa

    given = column.cast(pa.timestamp("us", column.type.tz))
    micros = given.cast(pa.int64()).fill_null(0).to_numpy()
    moved = micros + sign * _MICROS * _offsets(np.floor_divide(micros, _MICROS), offset)
    mask = None if column.null_count == 0 else given.is_null().to_numpy(zero_copy_only=False)
    return pa.array(moved, pa.int64(), mask=mask).cast(pa.timestamp("us", zone))


def _offsets(seconds: np.ndarray, offset: Callable[[int], int]) -> np.ndarray:
    """How many seconds the clock is before UTC, for each."""
    import numpy as np

    quarters, places = np.unique(np.floor_divide(seconds, _QUARTER_S), return_inverse=True)
    firsts = [offset(int(quarter) * _QUARTER_S) for quarter in quarters]
    found = np.array(firsts, np.int64)[places]
    for place, (quarter, first) in enumerate(zip(quarters, firsts, strict=True)):
        if offset(int(quarter) * _QUARTER_S + _QUARTER_S - 1) != first:
            (odd,) = np.nonzero(places == place)
            found[odd] = [offset(int(each)) for each in seconds[odd]]
    return found


def _offset_when_shown(second: int) -> int:
    """`second` is what the clock shows, counted as if it were UTC; as ``datetime.timestamp`` of PySpark has it."""
    shown = _EPOCH + datetime.timedelta(seconds=second)
    return second - int(time.mktime(shown.timetuple()))
