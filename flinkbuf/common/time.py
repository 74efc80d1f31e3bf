"""Lengths of time and points in it. PyFlink: common/time.py."""

from flinkbuf.types.duration import Duration, Time
from flinkbuf.types.values import Instant

__all__ = ["Duration", "Instant", "Time"]
