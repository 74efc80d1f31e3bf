"""Exceptions between processes: what arrives, and that it is caught as the original would be."""

import pickle
from traceback import format_exception

import pytest

from flinkbuf.errors import AsyncTimeoutError, CancelTaskError, RemoteTransportError
from flinkbuf.runtime.protocol.failure import MESSAGE_LIMIT, Failure, JobFailedError, add_note
from flinkbuf.streaming.chain.error_location import locate_error
from flinkbuf.streaming.chain.operator_config import OperatorConfig, TaskInfo


def sent(error):
    """What arrives elsewhere of an exception that was raised."""
    try:
        raise error
    except BaseException as raised:
        return pickle.loads(pickle.dumps(Failure.of(raised)))


class DiskError(OSError):
    """A class of the user's, which another process may not have."""


CAUGHT_AS = [
    (ValueError("bad"), ValueError),
    (KeyError("thirty"), LookupError),
    (FileNotFoundError(2, "no such file", "a.txt"), FileNotFoundError),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), UnicodeDecodeError),
    (ZeroDivisionError("division by zero"), ArithmeticError),
    (ModuleNotFoundError("No module named 'x'", name="x"), ImportError),
    (SyntaxError("invalid syntax"), SyntaxError),
    (DiskError(5, "the disk"), OSError),
    (AsyncTimeoutError("too slow"), TimeoutError),
]


@pytest.mark.parametrize(("error", "caught_as"), CAUGHT_AS)
def test_an_exception_from_elsewhere_is_caught_by_the_class_it_had(error, caught_as):
    with pytest.raises(caught_as) as caught:
        raise sent(error).to_exception()
    assert isinstance(caught.value, JobFailedError)
    assert str(caught.value) == str(error)
    assert type(error).__name__ in "".join(format_exception(caught.value))
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value)
    assert (str(again), again.failure) == (str(caught.value), caught.value.failure)


@pytest.mark.parametrize("error", [StopIteration(3), StopAsyncIteration(), SystemExit(3), KeyboardInterrupt()])
def test_what_would_end_a_loop_or_the_program_is_only_told(error):
    made = sent(error).to_exception()
    assert type(made) is JobFailedError
    assert type(error).__name__ in "".join(format_exception(made))


def test_its_cause_is_the_traceback_there_and_a_note_names_operator_subtask_and_record():
    info = TaskInfo("ab" * 16, "flights", "cd" * 16, "first -> second", 1, 4, 128, 2)
    config = OperatorConfig("ef" * 16, "second", factory=None)
    error = KeyError("thirty")
    locate_error(error, info, config, record={"airport": "JFK"})
    made = sent(error).to_exception()
    lines = str(made.__cause__).strip().splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "KeyError: 'thirty'" in lines[-2:]
    place = "in operator 'second' of task first -> second (2/4)#2, with the record {'airport': 'JFK'}"
    assert getattr(made, "__notes__", [place]) == [place]
    assert made.failure.text.splitlines()[-1] == place
    assert (made.operator_name, made.subtask_index, made.record) == ("second", 1, "{'airport': 'JFK'}")
    assert (made.operator_id, made.task_name) == ("ef" * 16, "first -> second (2/4)#2")


def test_in_the_process_that_raised_it_the_object_itself_is_the_exception():
    error = ValueError("bad")
    failure = Failure.of(error)
    assert failure.to_exception() is error
    assert pickle.loads(pickle.dumps(failure)).exception is None


@pytest.mark.parametrize(
    ("error", "is_echo"), [(CancelTaskError("x"), True), (RemoteTransportError("x"), True), (OSError("x"), False)]
)
def test_what_only_says_that_another_has_gone_is_an_echo(error, is_echo):
    assert Failure.of(error).is_echo is is_echo
    assert Failure.of(error, is_echo=not is_echo).is_echo is not is_echo


def test_an_exception_may_say_that_a_restart_is_no_use():
    error = ValueError("bad")
    assert Failure.of(error).can_restart
    error.can_restart = False
    assert not Failure.of(error).can_restart


class Rude(Exception):
    def __str__(self):
        raise SystemExit(3)


def test_an_exception_that_cannot_be_shown_is_described_anyway():
    failure = sent(Rude())
    assert failure.message == "<Rude, whose str raises SystemExit>"
    assert "Rude" in str(failure.to_exception())


def test_a_huge_text_is_cut():
    failure = sent(ValueError("x" * 10_000_000))
    assert len(failure.message) == MESSAGE_LIMIT
    assert len(failure.traceback) < 10 * MESSAGE_LIMIT


def test_a_failure_that_nobody_raised_becomes_an_exception():
    made = Failure("builtins.TimeoutError", "no heartbeat for 50 s").to_exception()
    assert isinstance(made, TimeoutError) and str(made) == "no heartbeat for 50 s"
    assert type(Failure("builtins.Exception", "?").to_exception()) is JobFailedError
    assert type(Failure("builtins.print", "?").to_exception()) is JobFailedError
    assert type(Failure("os.system", "?").to_exception()) is JobFailedError


def test_what_travelled_is_described_as_it_was():
    first = sent(ValueError("bad"))
    assert Failure.of(first.to_exception()) == first


def test_a_note_is_added_once():
    error = ValueError("bad")
    add_note(error, "not restarted")
    add_note(error, "not restarted")
    assert getattr(error, "__notes__", ["not restarted"]) == ["not restarted"]
