"""Which clock a timer goes by."""

from __future__ import annotations

from enum import Enum


class TimeDomain(Enum):
    """Whether a timer belongs to event time or to processing time. PyFlink's ``TimeDomain``.

    Examples
    --------
    >>> TimeDomain.EVENT_TIME
    <TimeDomain.EVENT_TIME: 0>
    """

    EVENT_TIME = 0
    PROCESSING_TIME = 1
