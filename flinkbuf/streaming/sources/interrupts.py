"""CancelTaskError in another thread: where it may be raised, and what must not be left of it there.

It is raised in functions of the program only. A caller of such a function expects that it raises, so nothing of
flinkbuf's own is left half done; a thread that is in flinkbuf's own code, or in the client of a system that a connector
has called, comes out by itself.
"""

from __future__ import annotations

import ctypes
import os
import sysconfig
import threading
from contextlib import suppress
from pathlib import Path

from flinkbuf._core.task.thread_frames import innermost_frame, raise_in_function
from flinkbuf.errors import CancelTaskError

_ROOT = Path(__file__).parents[2]
_OWN = (str(_ROOT) + os.sep,)
# A client of a catalog or a broker that is interrupted half-way, in its set-up for example, may stay broken for ever.
_CONNECTORS = tuple(
    str(_ROOT / room) + os.sep
    for room in (
        "checkpoints",
        "datastream/connectors",
        "datastream/formats",
        "streaming/checkpoint",
        "streaming/lakes",
        "streaming/sinks",
        "streaming/sources",
    )
)
_LIBRARIES = (*(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")), "<frozen ")


def interrupt_function(thread: int) -> bool:
    """Have CancelTaskError raised in a thread if it is in a function of the program, at its next instruction there.

    One that waits in a system call is reached when that returns. One without Python code is never reached.

    Returns
    -------
    bool
        Whether it is in a function of the program.
    """
    return raise_in_function(thread, CancelTaskError, _OWN, _LIBRARIES, _CONNECTORS)


def function_of(thread: int) -> str | None:
    """Return which function of the program a thread is in, with its line; None: it is in none that has Python code.

    Examples
    --------
    >>> print(function_of(threading.get_ident() + 1))
    None
    """
    frame = innermost_frame(thread, _OWN, _LIBRARIES, _CONNECTORS)
    if frame is None:
        return None
    return f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})"


def take_interrupt() -> None:
    """Raise an interrupt on its way to this thread here, and drop it; no thread may send another one now.

    It is not taken back with ``PyThreadState_SetAsyncExc(thread, NULL)``: until Python 3.12 that leaves the whole
    interpreter believing that an exception waits, which slows each loop of it, and never ends in one that is profiled.
    """
    with suppress(CancelTaskError):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(threading.get_ident()), ctypes.py_object(CancelTaskError)
        )
        while True:  # at its first turn at the latest
            pass
