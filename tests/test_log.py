"""The log: what others make happen is told once, and what they call things commands no terminal."""

import json
import logging
import os
import socket
import sys
import threading

import pytest

from flinkbuf.log import JsonFormatter, RepeatedMessage, TextFormatter, logger, printable, printable_line


def test_control_characters_are_shown():
    for code in (*range(32), *range(127, 160), 0x202E, 0x2066):
        sign = chr(code)
        assert printable_line(f"a{sign}b").isprintable()
        assert (printable(sign) == sign) == (sign in "\n\t")
    assert printable("ä→😀\u2028") == "ä→😀\u2028"


def test_names_and_exceptions_command_no_terminal_in_the_log(caplog):
    try:
        raise ValueError("record \x1b[2J\x9b")
    except ValueError as error:
        logger.warning("job %r of %s has failed: %s", "a\x1b", "\x1b]0;owned\x07", error, exc_info=True)
        logger.warning("nothing of %d", 5)
    formatted = "\n".join(logging.Formatter().format(record) for record in caplog.records)
    assert not set("\x1b\x07\x9b") & set(formatted + caplog.text)
    assert formatted.count("ValueError: record \\x1b[2J\\x9b") == 1 and "failed: record \\x1b[2J" in formatted
    assert caplog.records[1].args == (5,), "what has nothing to hide is left as it is"


def test_a_message_that_is_wrong_is_for_the_handler_to_say():
    record = logger.makeRecord("flinkbuf", logging.WARNING, "", 1, "%d", ("x",), None)
    assert logger.filter(record)
    with pytest.raises(TypeError):
        record.getMessage()


def test_of_many_alike_the_first_is_said_and_then_a_count():
    now, said = [0.0], []
    message = RepeatedMessage(lambda text, *arguments: said.append(text % arguments), 60, lambda: now[0])
    threads = [threading.Thread(target=lambda: [message("no %s", "way") for _ in range(100)]) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert said == ["no way"]
    now[0] = 59.9
    message("no %s", "way")
    assert len(said) == 1
    now[0] = 60.0
    message("no %s", "more")
    assert said[1:] == ["no more (and 400 more like it since the last such line)"]
    message.close()
    assert len(said) == 2, "nothing was left out"
    message("again")
    message.close()
    message.close()
    assert said[2:] == ["1 more like the last such line were not told of one by one"]


def record_of(text="late by %d", *arguments, **attributes):
    record = logging.LogRecord("mine", logging.WARNING, "here.py", 3, text, arguments, None)
    record.__dict__.update(attributes)
    return record


def test_a_record_is_one_line_of_json_whatever_it_holds():
    record = record_of("a\nb \x1b[2J\u202e %s", "ä", flinkbuf_job="flights", flinkbuf_subtask=0, flinkbuf_attempt=None)
    record.city, record.of, record.level = "Oslo", {1, 2}, "mine"
    try:
        raise ValueError("no number")
    except ValueError:
        record.exc_info = sys.exc_info()
    text = JsonFormatter().format(record)
    assert text.isascii() and text.isprintable()
    line = json.loads(text)
    assert line["message"] == "a\nb \x1b[2J\u202e ä" and line["job"] == "flights" and line["subtask"] == 0
    assert not {"attempt", "task", "job_id", "flinkbuf_job", "msg", "args"} & line.keys()
    assert (line["city"], line["of"], line["level"]) == ("Oslo", "{1, 2}", "WARNING")
    assert line["exception"].endswith("ValueError: no number") and line["process"] == os.getpid()
    assert line["host"] == socket.gethostname() and line["thread"] == threading.current_thread().name


class Broken:
    def __repr__(self):
        raise RuntimeError("no")


def test_what_a_program_gives_as_extra_loses_no_record():
    ring = []
    ring.append(ring)
    for extra, shown in (
        (float("nan"), "nan"),
        ({"x": float("inf")}, "{'x': inf}"),
        ({("a", 1): 2}, "{('a', 1): 2}"),
        (ring, "[[...]]"),
        (Broken(), "<Broken whose repr() raises RuntimeError>"),
    ):
        text = JsonFormatter().format(record_of("late", what=extra, city="Oslo", count=2))

        def refuse(constant):
            raise AssertionError(f"{constant} is no JSON")

        line = json.loads(text, parse_constant=refuse)
        assert (line["message"], line["what"], line["city"], line["count"]) == ("late", shown, "Oslo", 2)
        assert text.isprintable()


def test_times_are_utc_to_the_millisecond():
    record = record_of("on time", created=1_700_000_000.0625)
    assert json.loads(JsonFormatter().format(record))["time"] == "2023-11-14T22:13:20.062Z"


def test_text_shows_what_is_known_of_the_place():
    formatter = TextFormatter("%(message)s%(flinkbuf_place)s")
    assert formatter.format(record_of("a")) == "a"
    assert formatter.format(record_of("a", flinkbuf_job="flights", flinkbuf_task="")) == "a [flights]"
    assert formatter.format(record_of("a", flinkbuf_job="flights", flinkbuf_task="Map")) == "a [flights, Map]"
