"""What a task asks for the time; a test gives one that it sets."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Milliseconds since 1970, for processing time; nothing in a task asks anybody else."""

    def now_ms(self) -> int:
        """Return the time."""
        ...
