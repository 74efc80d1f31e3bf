"""What is told of a program at its own line: warnings, and, when Python ends, that it was never executed."""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import warnings
from types import FrameType

_numbers = itertools.count()
_sinks: dict[int, str] = {}  # of each program whose script has made a sink and not executed it: where it did
_pid = 0  # of the process that says so


def next_program() -> int:
    """Return what tells a program from others of this process."""
    return next(_numbers)


def note_sink(program: int) -> None:
    """A sink was made. It counts where the script itself did it: what a module makes, another one may execute."""
    global _pid
    frame, _ = _line_of_program()
    if frame.f_globals.get("__name__") != "__main__":
        return
    if not _pid:
        _pid = os.getpid()
        atexit.register(_say)
    _sinks[program] = f"{frame.f_code.co_filename}, line {frame.f_lineno}"


def warn(message: str) -> None:
    """Warn at the line of the program that called into flinkbuf, however deep that was noticed."""
    warnings.warn(message, UserWarning, stacklevel=_line_of_program()[1])


def _line_of_program() -> tuple[FrameType, int]:
    """Return the frame that called into flinkbuf, and how far it is above the caller of this one, which is 1."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("flinkbuf."):
        frame, level = frame.f_back, level + 1
    return frame, level


def was_used(program: int) -> None:
    """It was executed, explained, or given to Spark."""
    _sinks.pop(program, None)


def forget_all() -> None:
    """The script has failed before it could execute anything."""
    _sinks.clear()


def _say() -> None:
    if (
        os.getpid() == _pid and not hasattr(sys, "last_value") and sys.stderr is not None
    ):  # which an uncaught error sets
        for place in _sinks.values():
            print(f"{place}: nothing ran this stream program: call env.execute() behind its last line", file=sys.stderr)
