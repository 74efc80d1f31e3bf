"""CancelTaskError in another thread, and what must not be left of it there."""

from __future__ import annotations

import ctypes
import threading
from contextlib import suppress

from flinkbuf.errors import CancelTaskError


def interrupt_thread(thread: int) -> None:
    """Have CancelTaskError raised in a thread at its next instruction of Python; replaces one that is on its way."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(CancelTaskError))


def take_interrupt() -> None:
    """Have what may be on its way to this thread raised here, and drop it; nobody may send another one now.

    It is not taken back with ``PyThreadState_SetAsyncExc(thread, NULL)``: until Python 3.12 that leaves the whole
    interpreter believing that an exception waits, which slows each loop of it, and never ends in one that is profiled.
    """
    with suppress(CancelTaskError):
        interrupt_thread(threading.get_ident())
        while True:  # at its first turn at the latest
            pass
