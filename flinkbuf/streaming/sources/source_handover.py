"""Between the thread of a source's ``run(context)`` and its task: a bounded list of what was emitted, and a lock.

Flink: SourceContext, LegacySourceFunctionThread, StreamTask's checkpoint lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from flinkbuf._core.value.own_value import copied
from flinkbuf.errors import CancelTaskError
from flinkbuf.types.values import StreamRecord, Watermark, WatermarkStatus

CAPACITY = 1_000  # elements; the source waits when so many were not yet taken


class SourceHandover:
    """Elements of the source's thread on their way to the task's.

    Parameters
    ----------
    wake : callable
        Tells the task, from any thread, that there is something.
    capacity : int
        Elements that wait at most, but for those of a source that holds the lock.
    """

    def __init__(self, wake: Callable[[], None], capacity: int = CAPACITY) -> None:
        self._wake = wake
        self._capacity = capacity
        self._lock = threading.RLock()
        self._has_room = threading.Condition(self._lock)
        self._elements: list[StreamRecord | Watermark | WatermarkStatus] = []
        self._depth = 0  # how often the source's thread has entered its lock
        self._is_closed = False
        self._error: BaseException | None = None
        self._has_ended = False

    # The source's thread

    def put(self, element: StreamRecord | Watermark | WatermarkStatus) -> None:
        """Hand over one element, waiting while there is no room."""
        with self._lock:
            # A thread that holds the lock must not be interrupted between an element and the state of it.
            if not self._depth:
                self._wait_for_room()
            self._check_open()
            was_empty = not self._elements
            self._elements.append(element)
        if was_empty:
            self._wake()

    def enter(self) -> None:
        """Begin a section that no checkpoint comes between."""
        self._lock.acquire()
        if not self._depth:
            try:
                self._wait_for_room()
                self._check_open()
            except BaseException:
                self._lock.release()
                raise
        self._depth += 1

    def leave(self) -> None:
        """End the section."""
        self._depth -= 1
        self._lock.release()

    def end(self, error: BaseException | None) -> None:
        """Note that run(context) has returned, or raised."""
        with self._lock:
            self._has_ended = True
            self._error = error
        self._wake()

    @property
    def is_closed(self) -> bool:
        """Return whether the task takes no elements any more."""
        return self._is_closed

    @property
    def has_failed(self) -> bool:
        """Return whether run(context) has raised what `take` is still to raise."""
        return self._error is not None

    def _wait_for_room(self) -> None:
        while len(self._elements) >= self._capacity and not self._is_closed:
            self._has_room.wait()

    def _check_open(self) -> None:
        if self._is_closed:
            raise CancelTaskError("the task of this source has ended; return from run()")

    # The task's thread

    def take(self) -> tuple[list[StreamRecord | Watermark | WatermarkStatus], bool]:
        """Take all there is; the second says whether nothing follows. Raises what run(context) raised, after all."""
        with self._lock:
            elements, self._elements = self._elements, []
            self._has_room.notify_all()
            if not elements and self._error is not None:
                error, self._error = self._error, None
                raise error
            return elements, self._has_ended and self._error is None

    def hold(self) -> AbstractContextManager[object]:
        """Return what keeps the source's thread, in a with block, from emitting and from entering its lock."""
        return self._lock

    def close(self) -> None:
        """Let the source's thread go; from any thread."""
        with self._lock:
            self._is_closed = True
            self._has_room.notify_all()


class CheckpointLock:
    """``with context.get_checkpoint_lock():`` what is emitted and what changes in between is in one checkpoint."""

    def __init__(self, handover: SourceHandover) -> None:
        self._handover = handover

    def __enter__(self) -> CheckpointLock:
        self._handover.enter()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._handover.leave()


class SourceContext:
    """What ``run(context)`` of a source emits into, from its own thread. Flink: SourceFunction.SourceContext."""

    def __init__(self, handover: SourceHandover) -> None:
        self._handover = handover
        self._lock = CheckpointLock(handover)

    def collect(self, value: object) -> None:
        """Emit a record without a timestamp of its own."""
        self._handover.put(StreamRecord(copied(value)))

    def collect_with_timestamp(self, value: object, timestamp: int) -> None:
        """Emit a record; `timestamp` in milliseconds since 1970."""
        self._handover.put(StreamRecord(copied(value), timestamp))

    def emit_watermark(self, timestamp: int) -> None:
        """No record with a timestamp up to this one follows."""
        self._handover.put(timestamp if isinstance(timestamp, Watermark) else Watermark(timestamp))

    def mark_as_temporarily_idle(self) -> None:
        """Let others not wait for this source until it emits again."""
        self._handover.put(WatermarkStatus.IDLE)

    def get_checkpoint_lock(self) -> CheckpointLock:
        """Return the lock under which the source changes its state."""
        return self._lock

    @property
    def is_canceled(self) -> bool:
        """Return whether run() had better return."""
        return self._handover.is_closed
