"""The one event loop of a process that all operators of its stream tasks make their calls on.

It starts with the first operator that is opened and ends with the last that is closed. A thread an operator would cost
a job of a hundred tasks a hundred threads that all want the interpreter.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from flinkbuf.async_io.loop import BlockedWatch, LoopThread
from flinkbuf.log import logger

_CLOSE_SECONDS = 5.0  # what operators left behind on the loop may take to end when it closes
_mutex = threading.Lock()
_thread: LoopThread | None = None
_watch: BlockedWatch | None = None
_listeners: list[Callable[[BaseException], None]] = []


def acquire_loop(on_interrupt: Callable[[BaseException], None]) -> LoopThread:
    """Return the process's event loop; `release_loop` gives it up again.

    Parameters
    ----------
    on_interrupt : callable
        Told of a KeyboardInterrupt or SystemExit that came out of the loop, which goes on.
    """
    global _thread, _watch
    with _mutex:
        if _thread is None:
            _thread = LoopThread("auto", _interrupted)
            _watch = BlockedWatch(_thread, instead="hand it to a thread: await asyncio.to_thread(...)")
        _listeners.append(on_interrupt)
        return _thread


def release_loop(on_interrupt: Callable[[BaseException], None]) -> None:
    """Give the loop up; the last one ends it and waits for its thread."""
    global _thread, _watch
    with _mutex:
        _listeners.remove(on_interrupt)
        if _listeners or _thread is None:
            return
        thread, _thread, _watch = _thread, None, None
    if not thread.close(_CLOSE_SECONDS):
        logger.warning("async: the event loop of the process is blocked at %s and was left", thread.where())
    if thread.left_count:
        logger.warning("async: %d tasks did not end when they were cancelled", thread.left_count)


def look_at_loop() -> bool:
    """Look whether a coroutine blocks the loop, and say so, once; returns whether there is more to be found out."""
    with _mutex:
        if _watch is None or _watch.is_over:
            return False
        _watch.look()
        return not _watch.is_over


def _interrupted(error: BaseException) -> None:
    with _mutex:
        listeners = list(_listeners)
    for tell in listeners:
        tell(error)


def _forget() -> None:
    """In a forked child: the loop's thread is not there, and its operators are the parent's."""
    global _mutex, _thread, _watch
    _mutex, _thread, _watch = threading.Lock(), None, None
    _listeners.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
