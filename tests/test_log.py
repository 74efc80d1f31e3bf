"""The log: what others make happen is told once, and what they call things commands no terminal."""

import logging
import threading

import pytest

from flinkbuf.log import RepeatedMessage, logger, printable, printable_line


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
