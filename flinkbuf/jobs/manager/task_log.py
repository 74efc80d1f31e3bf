"""Log records of a task's thread say which task it is, whoever's logger they go through.

Attributes ``flinkbuf_job``, ``flinkbuf_task``, ``flinkbuf_subtask`` and ``flinkbuf_attempt`` are on every record that
is made while tasks run in a process; they are empty on other threads. Flink: MdcUtils.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from flinkbuf.streaming.operator_config import TaskInfo

FORMAT = "%(asctime)s %(levelname)s %(name)s%(flinkbuf_place)s %(message)s"

_here: ContextVar[TaskInfo | None] = ContextVar("task", default=None)
_lock = threading.Lock()
_task_count = 0
_former_factory: Any = None


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
    _add_task(1)
    token = _here.set(info)
    try:
        yield
    finally:
        _here.reset(token)
        _add_task(-1)


def _add_task(change: int) -> None:
    """The first task of the process has records made here; the last one leaves all as it was found."""
    global _task_count, _former_factory
    with _lock:
        before, _task_count = _task_count, _task_count + change
        if before == 0:
            _former_factory = logging.getLogRecordFactory()
            logging.setLogRecordFactory(_make_record)
        elif _task_count == 0 and logging.getLogRecordFactory() is _make_record:
            logging.setLogRecordFactory(_former_factory)


def _make_record(*args: Any, **kwargs: Any) -> logging.LogRecord:
    record: logging.LogRecord = (_former_factory or logging.LogRecord)(*args, **kwargs)
    place_record(record)
    return record


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
    """Have a task manager's process write its log to its standard error, unless somebody has set up logging there."""
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TaskFormatter())
    root.addHandler(handler)
    root.setLevel(level)
