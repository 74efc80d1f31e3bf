"""The one event loop of a process that all operators of its stream tasks make their calls on.

It starts with the first operator that is opened and ends with the last that is closed. A thread an operator would cost
a job of a hundred tasks a hundred threads that all want the interpreter.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from flinkbuf.async_io.loop import LoopThread
from flinkbuf.log import logger

_CLOSE_SECONDS = 5.0  # what operators left behind on the loop may take to end when it closes
_mutex = threading.Lock()
_thread: LoopThread | None = None
_listeners: list[Callable[[BaseException], None]] = []


def acquire_loop(on_interrupt: Callable[[BaseException], None]) -> LoopThread:
    """Return the process's event loop; `release_loop` gives it up again.

    Parameters
    ----------
    on_interrupt : callable
        Told of a KeyboardInterrupt or SystemExit that came out of the loop, which goes on.
    """
    global _thread
    with _mutex:
        if _thread is None:
            _thread = LoopThread("auto", _interrupted)
        _listeners.append(on_interrupt)
        return _thread


def release_loop(on_interrupt: Callable[[BaseException], None]) -> None:
    """Give the loop up; the last one ends it and waits for its thread."""
    global _thread
    with _mutex:
        _listeners.remove(on_interrupt)
        if _listeners or _thread is None:
            return
        thread, _thread = _thread, None
    if not thread.close(_CLOSE_SECONDS):
        logger.warning("async: the event loop of the process is blocked at %s and was left", thread.where())
    if thread.left_count:
        logger.warning("async: %d tasks did not end when they were cancelled", thread.left_count)


def _interrupted(error: BaseException) -> None:
    with _mutex:
        listeners = list(_listeners)
    for tell in listeners:
        tell(error)


def _forget() -> None:
    """In a forked child: the loop's thread is not there, and its operators are the parent's."""
    global _mutex, _thread
    _mutex, _thread = threading.Lock(), None
    _listeners.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
