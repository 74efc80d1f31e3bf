"""The stimulus of any decider whose deadline has come without another event."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TimePassed:
    """A deadline has come."""
