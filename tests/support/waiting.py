"""What a test waits for and cannot be told of: it looks again and again."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def wait_until(condition: Callable[[], Found], seconds: float = 60, pause_s: float = 0.005) -> Found:
    """Return what the condition gives once that is true; an error if it never is in so many seconds."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"it did not come to it in {seconds} s"
        time.sleep(pause_s)
    return found
