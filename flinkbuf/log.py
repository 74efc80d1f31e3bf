"""The logger of flinkbuf: everything that it tells apart from results and exceptions, under one name.

What it says goes to terminals and into files that people read: control characters, such as the escapes by which a name
or an exception's text would move the cursor or forge a line, are shown as what they are. What others can make happen as
often as they like is said once a minute, with a count.
"""

from __future__ import annotations

import json
import logging
import socket
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


TEXT_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s%(flinkbuf_place)s %(message)s"
PLACE_FIELDS: Final = {  # of records, and what they are called in JSON
    "flinkbuf_job": "job",
    "flinkbuf_job_id": "job_id",
    "flinkbuf_task": "task",
    "flinkbuf_vertex": "vertex",
    "flinkbuf_subtask": "subtask",
    "flinkbuf_attempt": "attempt",
}
_HOST: Final = socket.gethostname()
_STANDARD: Final = {*logging.makeLogRecord({}).__dict__, *PLACE_FIELDS, "message", "asctime", "flinkbuf_place"}


class TextFormatter(logging.Formatter):
    """Shows job and task before the message, where a record has them: ``%(flinkbuf_place)s`` in a format.

    Examples
    --------
    >>> record = logging.LogRecord("mine", logging.WARNING, "", 0, "late", (), None)
    >>> record.flinkbuf_job, record.flinkbuf_task = "flights", "Map (2/4)#0"
    >>> TextFormatter("%(levelname)s %(name)s%(flinkbuf_place)s %(message)s").format(record)
    'WARNING mine [flights, Map (2/4)#0] late'
    """

    def __init__(self, fmt: str = TEXT_FORMAT, datefmt: str | None = None) -> None:
        super().__init__(fmt, datefmt)

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one text."""
        parts = (getattr(record, "flinkbuf_job", ""), getattr(record, "flinkbuf_task", ""))
        place = ", ".join(part for part in parts if part)
        record.flinkbuf_place = f" [{place}]" if place else ""
        return super().format(record)


class JsonFormatter(logging.Formatter):
    """Writes a record as a line of JSON, for what gathers logs.

    Always there: ``time`` (UTC), ``level``, ``logger``, ``message``, ``host``, ``process`` and ``thread``; of a job
    ``job`` and ``job_id``; of a task also ``task``, ``vertex``, ``subtask`` and ``attempt``; where there is one
    ``exception``, a traceback; and what a program has given as ``extra``.

    Examples
    --------
    >>> record = logging.LogRecord("mine", logging.WARNING, "", 0, "late by %d", (3,), None)
    >>> record.flinkbuf_job, record.flinkbuf_subtask, record.city = "flights", 1, "Oslo"
    >>> line = json.loads(JsonFormatter().format(record))
    >>> [line[name] for name in ("level", "logger", "message", "job", "subtask", "city")]
    ['WARNING', 'mine', 'late by 3', 'flights', 1, 'Oslo']
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        seconds, milliseconds = divmod(int(record.created * 1000), 1000)
        line: dict[str, object] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{milliseconds:03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for attribute, name in PLACE_FIELDS.items():
            value = getattr(record, attribute, None)
            if value not in ("", None):
                line[name] = value
        line |= {"host": _HOST, "process": record.process, "thread": record.threadName}
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["exception"] = record.exc_text
        if record.stack_info:
            line["stack"] = record.stack_info
        line |= {name: value for name, value in record.__dict__.items() if name not in _STANDARD and name not in line}
        try:
            return json.dumps(line, default=repr, allow_nan=False)  # what commands a terminal is escaped
        except Exception:  # NaN, keys that are no text, what contains itself, a __repr__ that raises
            return json.dumps({name: _json_value(value) for name, value in line.items()})


def _json_value(value: object) -> object:
    if value is None or isinstance(value, (str, int)):
        return value
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(value).__name__} whose repr() raises {type(error).__name__}>"


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
