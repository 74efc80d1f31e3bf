"""How an exception is shown to the program's author: the user's own frames, and none of flinkbuf's.

`report` prints an exception; after `show_errors` Python prints uncaught exceptions that way, too.
"""

from __future__ import annotations

import os
import pkgutil
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, TextIO

from flinkbuf.log import printable
from flinkbuf.runtime.protocol.failure import InternalJobError, JobFailedError

_PACKAGE: Final = str(Path(__file__).parents[2]) + os.sep
_COMPILED: Final = "flinkbuf/_core/"  # frames of Cython's know no more of their path
_LIBRARIES: Final = tuple(
    {os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
# A program may lie in a folder that is called flinkbuf, too: what is ours is what the package has.
_OURS: Final = "|".join(
    [
        "__init__[.]py",
        *(f"{each.name}/.*" if each.ispkg else f"{each.name}[.]py" for each in pkgutil.iter_modules([_PACKAGE])),
    ]
)
_FRAME_OF_OURS: Final = re.compile(rf'  File "(?:[^"\n]*/)?flinkbuf/(?:{_OURS})", line .*\n(?:    .*\n)*')


def report(error: BaseException, stream: TextIO) -> None:
    """Print an exception: first the user's function that raised it, then its operator, then where the job was started.

    Frames of flinkbuf's own are left out where there is one of the user's to show. What an exception's text, which may
    hold a record, would command the terminal is shown instead.
    """
    stream.write(printable("".join(_report_of(error))))


def show_errors() -> None:
    """Have Python report uncaught exceptions, if frames of flinkbuf are in their traceback; again: nothing.

    A program's own hook is kept, and ``python -X dev`` shows everything.
    """
    if sys.excepthook is sys.__excepthook__ and not sys.flags.dev_mode:
        sys.excepthook = _excepthook


def _excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    is_shorter = isinstance(error, Exception) and not isinstance(error, InternalJobError)
    if is_shorter and sys.stderr is not None and any(map(_is_ours, _frames(trace))):
        sys.stdout.flush()
        report(error, sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def _report_of(error: BaseException) -> Iterator[str]:
    frames = list(_frames(error.__traceback__))
    script = frames[_first_of_program(frames) :]
    call = next((place for place, frame in enumerate(script) if _is_ours(frame)), len(script))
    started, inside = script[:call], _of_user(script[call:])
    if isinstance(error, JobFailedError):
        yield _FRAME_OF_OURS.sub("", error.failure.text + "\n")
    elif inside and getattr(error, "operator_name", None) is not None:
        yield from _formatted(error, inside)
        if not getattr(error, "__notes__", None):  # Python before 3.11
            yield f"in operator {error.operator_name!r} of task {error.task_name}\n"  # type: ignore[attr-defined]
    else:
        yield from _formatted(error, started + inside or script)
        return
    if started:
        yield "\nThe job was started here:\n"
        yield from traceback.format_tb(_chained(started))


def _formatted(error: BaseException, frames: list[TracebackType]) -> Iterator[str]:
    """Format an exception as Python does, with these frames; causes without a frame of the user's are left out."""
    first = traceback.TracebackException(type(error), error, _chained(frames))
    told: traceback.TracebackException | None = first
    while told is not None:
        for name in ("__cause__", "__context__"):
            inner = getattr(told, name)
            if inner is not None and all(_is_internal(frame.filename) for frame in inner.stack):
                setattr(told, name, None)  # our messages say what they were made of
        told = told.__cause__ or told.__context__
    yield _FRAME_OF_OURS.sub("", "".join(first.format()))


def _of_user(frames: list[TracebackType]) -> list[TracebackType]:
    """Return the frames of the user: functions called from flinkbuf, and what these call."""
    theirs: list[TracebackType] = []
    for frame in frames:
        if not (_is_ours(frame) or (not theirs and _is_internal(frame.tb_frame.f_code.co_filename))):
            theirs.append(frame)
    return theirs


def _frames(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_ours(trace: TracebackType) -> bool:
    frame = trace.tb_frame
    if frame.f_code.co_filename == "<string>":  # as `python -c` has it, and what dataclasses of ours were given
        return str(frame.f_globals.get("__name__", "")).startswith("flinkbuf.")
    return frame.f_code.co_filename.startswith((_PACKAGE, _COMPILED))


def _is_internal(filename: str) -> bool:
    """Say whether a frame is of flinkbuf, or of a library."""
    return filename.startswith((_PACKAGE, _COMPILED, *_LIBRARIES, "<frozen "))


def _first_of_program(frames: list[TracebackType]) -> int:
    """Return the first frame after those of the command that runs the script."""
    ours = os.path.join(_PACKAGE, "commands", "run.py")
    own = [place for place, frame in enumerate(frames) if frame.tb_frame.f_code.co_filename == ours]
    return own[0] + 1 if own else 0


def _chained(frames: list[TracebackType]) -> TracebackType | None:
    """Return the same frames as one traceback, without those between them."""
    chained: TracebackType | None = None
    for frame in reversed(frames):
        chained = TracebackType(chained, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return chained
