"""Log records of a job's threads name the job, those of a task the task, in every logger; the last records are kept.

The attributes that `flinkbuf.log` lists are on every record that is made while a job runs in a process; they are empty
on other threads. Flink: MdcUtils.

Both is done where records are made. A handler of ours at the root would keep Python from writing warnings to standard
error by itself, and a program from setting up its logging later.
"""

from __future__ import annotations

import copy
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from flinkbuf.log import PLACE_FIELDS, JsonFormatter, TextFormatter, printable
from flinkbuf.streaming.chain.operator_config import TaskInfo

_NOWHERE: Final[dict[str, object]] = {
    **dict.fromkeys(PLACE_FIELDS, ""),
    "flinkbuf_subtask": None,
    "flinkbuf_attempt": None,
}
_here: ContextVar[dict[str, object]] = ContextVar("place", default=_NOWHERE)
TAIL_SIZE: Final = 1 << 20  # characters that are kept

_lock = threading.Lock()
_user_count = 0  # tasks, and readers of the log
_former_factory: Callable[..., logging.LogRecord] = logging.LogRecord
_reader_count = 0
_tail: LogTail | None = None


@contextmanager
def task_in_log(info: TaskInfo) -> Iterator[None]:
    """Within it, log records of this thread carry the task; so do those of threads that are given its context.

    Examples
    --------
    >>> with task_in_log(TaskInfo("1" * 32, "flights", "2" * 32, "Map", subtask_index=1, parallelism=4)):
    ...     record = logging.getLogger("mine").makeRecord("mine", logging.INFO, "", 0, "hello", (), None)
    >>> record.flinkbuf_job, record.flinkbuf_task, record.flinkbuf_subtask
    ('flights', 'Map (2/4)#0', 1)
    """
    with _placed(
        {
            "flinkbuf_job": info.job_name,
            "flinkbuf_job_id": info.job_id,
            "flinkbuf_task": info.task_name_with_subtask,
            "flinkbuf_vertex": info.vertex_id,
            "flinkbuf_subtask": info.subtask_index,
            "flinkbuf_attempt": info.attempt_number,
        }
    ):
        yield


@contextmanager
def job_in_log(name: str, job_id: str) -> Iterator[None]:
    """Within it, log records of this thread carry the job."""
    with _placed({**_NOWHERE, "flinkbuf_job": name, "flinkbuf_job_id": job_id}):
        yield


@contextmanager
def _placed(place: dict[str, object]) -> Iterator[None]:
    _add_user(1)
    token = _here.set(place)
    try:
        yield
    finally:
        _here.reset(token)
        _add_user(-1)


def _add_user(change: int) -> None:
    """Count a task or a reader (1), or one less (-1): the first has records made here, the last restores all."""
    global _user_count, _former_factory
    with _lock:
        before, _user_count = _user_count, _user_count + change
        if before == 0:
            _former_factory = logging.getLogRecordFactory()
            logging.setLogRecordFactory(_make_record)
        elif _user_count == 0 and logging.getLogRecordFactory() is _make_record:
            logging.setLogRecordFactory(_former_factory)


def _make_record(*args: object, **kwargs: object) -> logging.LogRecord:
    record: logging.LogRecord = _former_factory(*args, **kwargs)
    place_record(record)
    tail = _tail
    if tail is not None and record.name is not None:  # those of makeLogRecord() were made elsewhere
        tail.note(record)
    return record


@contextmanager
def log_can_be_read() -> Iterator[None]:
    """Within it, the last MiB of what this process logs is kept for `logged`."""
    keep_log(1)
    try:
        yield
    finally:
        keep_log(-1)


def keep_log(change: int) -> None:
    """Count one more reader of the log (1), or one less (-1)."""
    global _reader_count, _tail
    with _lock:
        _reader_count += change
        _tail = None if _reader_count == 0 else _tail or LogTail()
    _add_user(change)


def logged() -> str:
    """Return the last MiB that was logged here, a record a line; empty while no reader is counted."""
    tail = _tail
    return "" if tail is None else tail.text()


class LogTail:
    """The last records as text, one after the other, in so many characters; from any thread.

    Examples
    --------
    >>> tail = LogTail(180)
    >>> for number in range(9):
    ...     tail.note(logging.LogRecord("mine", logging.WARNING, "", 0, "late by %d\\x1b", (number,), None))
    >>> [line[24:] for line in tail.text().splitlines()]
    ['WARNING mine late by 6\\\\x1b', 'WARNING mine late by 7\\\\x1b', 'WARNING mine late by 8\\\\x1b']
    """

    def __init__(self, size: int = TAIL_SIZE) -> None:
        self._most = size
        self._size = 0
        self._lines: deque[str] = deque()
        self._lock = threading.Lock()
        self._formatter = TextFormatter()

    def note(self, record: logging.LogRecord) -> None:
        """Add a record; the oldest records make room."""
        try:
            line = self._formatter.format(copy.copy(record))  # a formatter leaves what it has made on a record
        except Exception:  # the log handlers report what is wrong with the record
            line = f"{record.levelname} {record.name} {record.msg!r:.1000}"
        line = printable(line)[-self._most :] + "\n"
        with self._lock:
            self._lines.append(line)
            self._size += len(line)
            while self._size > self._most and len(self._lines) > 1:
                self._size -= len(self._lines.popleft())

    def text(self) -> str:
        """Return the records that are kept."""
        with self._lock:
            return "".join(self._lines)


def place_record(record: logging.LogRecord) -> None:
    """Put job and task of the calling thread on a record."""
    record.__dict__.update(_here.get())


TEXT, JSON = "TEXT", "JSON"  # of `log.format`


def log_to_stderr(form: str = TEXT, level: int | None = None) -> logging.Handler | None:
    """Have this process log to its standard error, unless its logging was set up already; return what does it.

    A level is set for all loggers that have none of their own, if one is given.
    """
    root = logging.getLogger()
    if root.handlers:
        return None
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == JSON else TextFormatter())
    root.addHandler(handler)
    if level is not None:
        root.setLevel(level)
    return handler


@contextmanager
def logging_to_stderr(form: str = TEXT) -> Iterator[None]:
    """Within it, `log_to_stderr` holds: for a process that others use as well."""
    handler = log_to_stderr(form)
    try:
        yield
    finally:
        if handler is not None:
            logging.getLogger().removeHandler(handler)
