"""What a process has logged can be read again, and nobody else's logging is touched for it."""

import io
import json
import logging
import sys
import threading

from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.log import logger
from flinkbuf.runtime.manager.task_log import (
    JSON,
    LogTail,
    job_in_log,
    log_can_be_read,
    log_to_stderr,
    logged,
    logging_to_stderr,
    task_in_log,
)
from flinkbuf.streaming.chain.operator_config import TaskInfo

INFO = TaskInfo("1" * 32, "flights", "2" * 32, "Map", subtask_index=1, parallelism=4)


def test_what_is_logged_meanwhile_is_kept_with_its_task():
    with log_can_be_read():
        logging.getLogger("mine").warning("late by %d", 3)
        with task_in_log(INFO):
            logging.getLogger("mine").warning("later")
        logging.getLogger("mine").debug("nobody wants it")
        text = logged()
    assert [line.partition(" WARNING ")[2] for line in text.splitlines()] == [
        "mine late by 3",
        "mine [flights, Map (2/4)#0] later",
    ]
    assert logged() == ""


def test_python_goes_on_writing_warnings_to_standard_error(monkeypatch):
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with log_can_be_read():
        logging.getLogger("mine").warning("as ever")
        assert "as ever" in logged()
        assert logging.getLogger().handlers == []
    assert said.getvalue() == "as ever\n"


def test_a_traceback_is_kept_and_commands_no_terminal(caplog):
    with log_can_be_read():
        try:
            raise ValueError("no \x1b[2J number")
        except ValueError:
            logger.exception("it failed")
        text = logged()
    assert "it failed" in text and "ValueError: no \\x1b[2J number" in text and "\x1b" not in text
    assert "\x1b" not in caplog.text, "what is kept is a copy: the filter of the logger still sees the record"


def test_a_record_that_cannot_be_written_is_kept_as_it_is(monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)
    with log_can_be_read():
        logging.getLogger("mine").warning("%d numbers", "no")
        assert "WARNING mine '%d numbers'" in logged()


def test_readers_and_tasks_leave_all_as_it_was_found():
    before = logging.getLogRecordFactory()
    with task_in_log(INFO), log_can_be_read(), log_can_be_read():
        pass
    with log_can_be_read(), task_in_log(INFO):
        pass
    assert logging.getLogRecordFactory() is before


@given(st.lists(st.integers(0, 60), max_size=40), st.integers(50, 200))
def test_it_is_never_larger_than_it_may_be(lengths, size):
    tail = LogTail(size)
    for length in lengths:
        tail.note(logging.LogRecord("m", logging.WARNING, "", 0, "x" * length, (), None))
    lines = tail.text().splitlines()
    assert len(tail.text()) <= size + 1
    assert not lengths or lines[-1].endswith("x" * min(lengths[-1], 5))


def test_many_threads_write_at_once():
    def write(number):
        for _ in range(200):
            logging.getLogger("mine").warning("thread %d", number)

    with log_can_be_read():
        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert logged().count("thread") == 800


def test_a_record_that_is_made_of_another_is_not_one_of_this_process():
    with log_can_be_read():
        logging.makeLogRecord({"levelno": logging.INFO, "msg": "from elsewhere"})
        assert logged() == ""


def place_of(record):
    return {name.removeprefix("flinkbuf_"): value for name, value in record.__dict__.items() if "flinkbuf_" in name}


def test_records_carry_job_task_subtask_and_attempt(caplog):
    with job_in_log("flights", "1" * 32):
        logging.getLogger("mine").warning("of the job")
        with task_in_log(INFO):
            logging.getLogger("mine").warning("of a task")
        logging.getLogger("mine").warning("of the job again")
    logging.getLogger("mine").warning("of no job")
    of_job = {"job": "flights", "job_id": "1" * 32, "task": "", "vertex": "", "subtask": None, "attempt": None}
    of_task = {**of_job, "task": "Map (2/4)#0", "vertex": "2" * 32, "subtask": 1, "attempt": 0}
    assert [place_of(record) for record in caplog.records] == [of_job, of_task, of_job, {}]


def test_a_process_logs_to_standard_error_unless_its_logging_was_set_up(monkeypatch):
    said, root = io.StringIO(), logging.getLogger()
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setattr(root, "handlers", [])
    with logging_to_stderr(JSON), task_in_log(INFO):
        assert log_to_stderr() is None, "there is a handler"
        logging.getLogger("mine").warning("late")
    assert root.handlers == []
    line = json.loads(said.getvalue())
    assert (line["message"], line["job"], line["subtask"], line["attempt"]) == ("late", "flights", 1, 0)
    own = logging.NullHandler()
    root.addHandler(own)
    with logging_to_stderr(JSON):
        assert root.handlers == [own]
