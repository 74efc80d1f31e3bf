"""Threads and waiting, for what a job's shell does beside its own thread: the real ones, unless a test has others."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Threads:
    """Where work runs that may wait, and how it waits."""

    def begin(self, work: Callable[[], None], name: str) -> threading.Thread:
        """Call a function on a thread of its own; RuntimeError: the system has no thread left."""
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    def queue(self) -> queue.SimpleQueue[T]:
        """Return a queue between threads."""
        return queue.SimpleQueue()

    def event(self) -> threading.Event:
        """Return an event that one thread sets and others wait for."""
        return threading.Event()

    def monotonic(self) -> float:
        """Return the seconds of a clock that never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
