"""The logger of flinkbuf: everything that it tells apart from results and exceptions, under one name.

What it says goes to terminals and into files that people read: control characters, such as the escapes by which a name
or an exception's text would move the cursor or forge a line, are shown as what they are. What others can make happen as
often as they like is said once a minute, with a count.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final

# C0, DEL, C1, and what turns the direction of writing. A text of several lines keeps its line breaks and tabs.
_CONTROL: Final = {
    code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    for code in (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
_IN_TEXT: Final = {code: shown for code, shown in _CONTROL.items() if chr(code) not in "\n\t"}
EVERY_S: Final = 60.0  # between two lines about the same


def printable(text: str) -> str:
    """Return a text of one or several lines as it may be shown in a terminal.

    Examples
    --------
    >>> printable("\\x1b[2Jgone\\n")
    '\\\\x1b[2Jgone\\n'
    """
    return text.translate(_IN_TEXT)


def printable_line(text: str) -> str:
    """Return a text as it may stand in one line, such as a name.

    Examples
    --------
    >>> printable_line("a name\\r\\nERROR no such thing")
    'a name\\\\x0d\\\\x0aERROR no such thing'
    """
    return text.translate(_CONTROL)


class _Printable(logging.Filter):
    """Changes only records that have something to hide."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            said = record.getMessage()
        except Exception:  # the handlers say what is wrong with it
            return True
        shown = printable(said)
        if shown != said:
            record.msg, record.args = shown, ()
        if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
            trace = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            if printable(trace) != trace:
                record.exc_text = printable(trace)
        return True


logger = logging.getLogger("flinkbuf")
logger.addFilter(_Printable())


class RepeatedMessage:
    """Says the first of many that are alike at once, then one a minute, with how many there were meanwhile.

    Parameters
    ----------
    say : callable
        A method of the logger.
    every_s : float, default 60
    clock : callable, optional
        Seconds that only go on.

    Notes
    -----
    Threads: any.

    Examples
    --------
    >>> now, said = [0.0], []
    >>> refused = RepeatedMessage(lambda text, *arguments: said.append(text % arguments), clock=lambda: now[0])
    >>> for number in range(1000):
    ...     refused("caller %d is refused", number)
    >>> now[0] = 60.0
    >>> refused("caller %d is refused", 1000)
    >>> said
    ['caller 0 is refused', 'caller 1000 is refused (and 999 more like it since the last such line)']
    """

    def __init__(
        self, say: Callable[..., object], every_s: float = EVERY_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._every_s = every_s
        self._clock = clock
        self._said_at: float | None = None
        self._count = 0  # since then
        self._lock = threading.Lock()

    def __call__(self, text: str, *arguments: object, **more: object) -> None:
        """Say it, or count it."""
        with self._lock:
            now = self._clock()
            if self._said_at is not None and now - self._said_at < self._every_s:
                self._count += 1
                return
            self._said_at, count, self._count = now, self._count, 0
        if count:
            text, arguments = text + " (and %d more like it since the last such line)", (*arguments, count)
        self._say(text, *arguments, **more)

    def close(self) -> None:
        """Say how many there were of which nothing was said."""
        with self._lock:
            count, self._count = self._count, 0
        if count:
            self._say("%d more like the last such line were not told of one by one", count)
