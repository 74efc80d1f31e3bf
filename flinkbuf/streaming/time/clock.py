"""What a task asks for the time; a test gives one that it sets."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Milliseconds since 1970, for processing time; nothing in a task asks anybody else."""

    def now_ms(self) -> int:
        """Return the time."""
        ...


class SystemClock:
    """The machine's."""

    def now_ms(self) -> int:
        """Return the time."""
        return time.time_ns() // 1_000_000
