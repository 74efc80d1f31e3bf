"""What a Python worker has written to Spark and still keeps in a buffer."""

from __future__ import annotations

import sys
from types import FrameType


def flush_results() -> None:
    """Let Spark have the batches that the function of this worker has given so far; nothing happens outside of Spark.

    Called by the function between two batches. PySpark writes each batch to a buffered stream of 64 KiB and flushes it
    at the end only: a batch of a few rows stays there as long as the function takes for the rest. No interface of
    PySpark leads to that stream, so it is taken from where it is: the ``dump_stream`` that reads from the function.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "dump_stream" and "stream" in frame.f_locals:
            flush = getattr(frame.f_locals["stream"], "flush", None)
            if flush is not None:
                flush()
            return
        frame = frame.f_back
