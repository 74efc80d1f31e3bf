"""What any decider is told when its next deadline has come, and nothing else has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TimePassed:
    """A deadline has come."""
