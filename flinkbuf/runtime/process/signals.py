"""Signals of the operating system, handled only where no other code handles them."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

_given: dict[int, Callable[..., object]] = {}  # by signal: our handler of it


def handle(number: int, call: Callable[[], object]) -> bool:
    """Have `call` called on the main thread when a signal comes; return whether it will be.

    It will not where the program, or a library, has a handler of its own, where the signal is ignored, and on other
    threads than the main one, which alone may ask for it. A forked child has the system's default again.

    Examples
    --------
    >>> came = []
    >>> handle(signal.SIGUSR1, lambda: came.append("SIGUSR1"))
    True
    >>> signal.raise_signal(signal.SIGUSR1); came
    ['SIGUSR1']
    >>> give_back(signal.SIGUSR1); signal.getsignal(signal.SIGUSR1).name
    'SIG_DFL'
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(number) != signal.SIG_DFL:
        return False

    def handler(number: int, frame: object) -> None:
        call()

    signal.signal(number, handler)
    _given[number] = handler
    return True


def give_back(number: int) -> None:
    """Restore the system's default, unless another handler is in place of ours; on the main thread."""
    handler = _given.pop(number, None)
    if handler is not None and signal.getsignal(number) is handler:
        signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def handled(number: int, call: Callable[[], object]) -> Iterator[None]:
    """Within it, `call` is called when a signal comes, where `handle` can see to that."""
    is_ours = handle(number, call)
    try:
        yield
    finally:
        if is_ours:
            give_back(number)


def _forget_in_child() -> None:
    for number in list(_given):
        give_back(number)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
