"""Log records of a task's thread name the task, in every logger; the last records are kept.

Attributes ``flinkbuf_job``, ``flinkbuf_task``, ``flinkbuf_subtask`` and ``flinkbuf_attempt`` are on every record that
is made while tasks run in a process; they are empty on other threads. Flink: MdcUtils.

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

from flinkbuf.log import printable
from flinkbuf.streaming.chain.operator_config import TaskInfo

FORMAT = "%(asctime)s %(levelname)s %(name)s%(flinkbuf_place)s %(message)s"

_here: ContextVar[TaskInfo | None] = ContextVar("task", default=None)
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
    _add_user(1)
    token = _here.set(info)
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
        self._formatter = TaskFormatter()

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
    """Put the task of the calling thread on a record."""
    info = _here.get()
    record.flinkbuf_job = "" if info is None else info.job_name
    record.flinkbuf_task = "" if info is None else info.task_name_with_subtask
    record.flinkbuf_subtask = None if info is None else info.subtask_index
    record.flinkbuf_attempt = None if info is None else info.attempt_number


class TaskFormatter(logging.Formatter):
    """Shows job and task before the message, where a record has them.

    Examples
    --------
    >>> record = logging.LogRecord("mine", logging.WARNING, "", 0, "late", (), None)
    >>> record.flinkbuf_job, record.flinkbuf_task = "flights", "Map (2/4)#0"
    >>> TaskFormatter("%(levelname)s %(name)s%(flinkbuf_place)s %(message)s").format(record)
    'WARNING mine [flights, Map (2/4)#0] late'
    """

    def __init__(self, format: str = FORMAT) -> None:
        super().__init__(format)

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one text."""
        job, task = getattr(record, "flinkbuf_job", ""), getattr(record, "flinkbuf_task", "")
        record.flinkbuf_place = f" [{job}, {task}]" if task else ""
        return super().format(record)


def log_to_stderr(level: int = logging.WARNING) -> None:
    """Have a task manager's process log to its standard error, unless its logging was set up already."""
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TaskFormatter())
    root.addHandler(handler)
    root.setLevel(level)
