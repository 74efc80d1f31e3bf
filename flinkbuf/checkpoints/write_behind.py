"""A file that a thread of its own writes, while its next bytes are still made."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from flinkbuf.checkpoints.files import StateOutput

_ALONE = 1 << 22  # bytes of a file that are sooner written than a thread is there for them
_AHEAD = 1 << 24  # bytes that wait to be written at most


class WriteBehind:
    """Hands bytes to a thread that writes them into one file. Used by one thread at a time.

    An error of the file is raised by the call after it. `finish` and `discard` return only when the thread has
    ended: with a storage that hangs, the caller hangs as if it wrote itself.

    Parameters
    ----------
    output : StateOutput
        The file; no other code uses it from now on, but its `abort` may come from any thread.
    """

    def __init__(self, output: StateOutput) -> None:
        self._output = output
        self._written = 0  # without a thread
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()  # guards what follows
        self._waiting: list[bytes | memoryview] = []
        self._waiting_size = 0
        self._is_over = False
        self._error: BaseException | None = None

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self.write_all((data,))

    def write_all(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append bytes that nobody changes afterwards, one piece behind the other."""
        size = sum(memoryview(piece).nbytes for piece in pieces)
        if self._thread is None and self._written >= _ALONE:
            self._start()
        if self._thread is None:
            self._output.write_all(pieces)
            self._written += size
            return
        with self._changed:
            self._changed.wait_for(lambda: self._waiting_size < _AHEAD or self._error is not None)
            if self._error is not None:
                raise self._error
            self._waiting.extend(pieces)
            self._waiting_size += size
            self._changed.notify_all()

    def finish(self) -> str:
        """Make the file durable, and return its path."""
        self._end()
        if self._error is not None:
            raise self._error
        return self._output.finish()

    def discard(self) -> None:
        """Delete the file, also after `finish`."""
        self._output.discard()  # the thread, if it is inside, sees it and deletes the file
        self._end()

    def _start(self) -> None:
        name = f"{threading.current_thread().name}: file"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread is left
            self._written = 0
        else:
            self._thread = thread

    def _end(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while pieces := self._next():
                self._output.write_all(pieces)
                with self._changed:
                    self._waiting_size -= sum(memoryview(piece).nbytes for piece in pieces)
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _next(self) -> list[bytes | memoryview]:
        """Return all waiting bytes: beside a busy task each write takes long to get the interpreter back."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_over)
            pieces, self._waiting = self._waiting, []
            return pieces
