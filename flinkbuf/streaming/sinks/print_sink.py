"""Prints each record to the program's standard output. Flink: PrintSinkFunction, PrintSinkOutputWriter."""

from __future__ import annotations

import sys
import threading
from typing import TextIO

from flinkbuf.streaming.sinks.value_text import TextOf
from flinkbuf.streaming.time.processing_time import ProcessingTimeService

FLUSH_INTERVAL_MS = 100

_lock = threading.Lock()  # subtasks are threads of one process: a line is never torn


def line_prefix(sink_identifier: str | None, subtask_index: int, parallelism: int) -> str:
    """Return the text before each record: the identifier if there is one, the subtask if there are several.

    Examples
    --------
    >>> [line_prefix(*each) for each in ((None, 0, 1), (None, 1, 2), ("out", 0, 1), ("out", 1, 2))]
    ['', '2> ', 'out> ', 'out:2> ']
    """
    number = str(subtask_index + 1) if parallelism > 1 else ""
    prefix = f"{sink_identifier}:{number}" if sink_identifier and number else sink_identifier or number
    return f"{prefix}> " if prefix else ""


class PrintLines:
    """The lines of one subtask; a line is flushed 100 ms after it was written at the latest.

    Parameters
    ----------
    prefix : str
        What stands before each value.
    text_of_value : callable
        The text of a value.
    processing_time : ProcessingTimeService
        Whose timers flush.
    stream : file, optional
        Where to; None: what `sys.stdout` is when a line is written, as for Python's own print.
    """

    def __init__(
        self, prefix: str, text_of_value: TextOf, processing_time: ProcessingTimeService, stream: TextIO | None = None
    ) -> None:
        self._prefix = prefix
        self._text_of = text_of_value
        self._time = processing_time
        self._stream = stream
        self._is_flush_planned = False

    def write(self, value: object) -> None:
        """Print one record."""
        line = f"{self._prefix}{self._text_of(value)}\n"
        stream = self._stream or sys.stdout
        with _lock:
            stream.write(line)
        if not self._is_flush_planned:
            self._is_flush_planned = True
            self._time.register_timer(self._time.now_ms() + FLUSH_INTERVAL_MS, self._flush_planned)

    def _flush_planned(self, timestamp_ms: int) -> None:
        self._is_flush_planned = False
        self.flush()

    def flush(self) -> None:
        """Flush all lines."""
        with _lock:
            (self._stream or sys.stdout).flush()
