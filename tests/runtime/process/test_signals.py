"""Signals are handled where nobody else does, and given back."""

import os
import signal
import threading

import pytest

from flinkbuf.runtime.process import signals

NUMBER = signal.SIGUSR2


@pytest.fixture(autouse=True)
def _default():
    before = signal.signal(NUMBER, signal.SIG_DFL)
    yield
    signals._given.pop(NUMBER, None)
    signal.signal(NUMBER, before)


def test_it_is_handled_and_given_back():
    came = []
    with signals.handled(NUMBER, lambda: came.append(1)):
        signal.raise_signal(NUMBER)
        assert came == [1]
    assert signal.getsignal(NUMBER) == signal.SIG_DFL


def test_a_handler_of_the_program_is_kept():
    came = []
    signal.signal(NUMBER, lambda number, frame: came.append("the program's"))
    with signals.handled(NUMBER, lambda: came.append("ours")):
        signal.raise_signal(NUMBER)
    signal.raise_signal(NUMBER)
    assert came == ["the program's"] * 2
    signal.signal(NUMBER, signal.SIG_IGN)
    assert not signals.handle(NUMBER, list)
    assert signal.getsignal(NUMBER) == signal.SIG_IGN


def test_a_handler_that_the_program_sets_later_is_kept():
    def theirs(number, frame):
        pass

    with signals.handled(NUMBER, list):
        signal.signal(NUMBER, theirs)
    assert signal.getsignal(NUMBER) is theirs


def test_another_thread_handles_nothing():
    taken = []
    thread = threading.Thread(target=lambda: taken.append(signals.handle(NUMBER, list)))
    thread.start()
    thread.join()
    assert taken == [False] and signal.getsignal(NUMBER) == signal.SIG_DFL


def test_a_forked_child_has_the_default():
    with signals.handled(NUMBER, list):
        pid = os.fork()
        if pid == 0:
            os._exit(signal.getsignal(NUMBER) != signal.SIG_DFL)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert signal.getsignal(NUMBER) != signal.SIG_DFL
