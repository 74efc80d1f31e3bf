"""The I/O thread as a Python process sees it: when it starts and ends, and what it leaves alone."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from flinkbuf._core.io.reactor import Reactor

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of threads on Linux only")


def thread_ids():
    return {int(path.name) for path in Path("/proc/self/task").iterdir()}


def descriptors():
    return set(os.listdir("/proc/self/fd"))


@on_linux
def test_thread_and_descriptors_last_as_long_as_the_reactor():
    before = thread_ids(), len(descriptors())
    with Reactor() as reactor:
        reactor.wait_for_turn()
        assert len(thread_ids()) == len(before[0]) + 1
        assert len(descriptors()) == before[1] + 2  # epoll and eventfd
    assert (thread_ids(), len(descriptors())) == before


@on_linux
def test_signals_are_left_to_the_other_threads():
    before = thread_ids()
    with Reactor() as reactor:
        reactor.wait_for_turn()
        (thread,) = thread_ids() - before
        status = Path(f"/proc/self/task/{thread}/status").read_text()
    blocked = int(next(line for line in status.splitlines() if line.startswith("SigBlk")).split()[1], 16)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1):
        assert blocked >> (number - 1) & 1


def test_idle_thread_sleeps():
    with Reactor() as reactor:
        reactor.wait_for_turn()
        time.sleep(0.01)
        turns = reactor.counters()["turns"]
        time.sleep(0.05)
        assert reactor.counters()["turns"] == turns


def test_every_thread_is_served():
    with Reactor() as reactor:
        threads = [threading.Thread(target=lambda: [reactor.wait_for_turn() for _ in range(200)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
        counters = reactor.counters()
        assert 0 < counters["wakeups"] <= counters["turns"]


def test_closed_reactor_says_so():
    reactor = Reactor()
    assert not reactor.is_closed
    reactor.close()
    reactor.close()
    assert reactor.is_closed
    with pytest.raises(RuntimeError, match="the reactor is closed"):
        reactor.wait_for_turn()
    with pytest.raises(RuntimeError, match="the reactor is closed"):
        reactor.counters()


@on_linux
def test_forgotten_reactor_ends_its_thread():
    before = thread_ids()
    reactor = Reactor()
    del reactor
    assert thread_ids() == before


@on_linux
def test_forked_child_is_told_and_may_end():
    reactor = Reactor()
    child = os.fork()
    if child == 0:
        try:
            reactor.wait_for_turn()
        except RuntimeError as error:
            reactor.close()
            os._exit(7 if "belongs to process" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    reactor.wait_for_turn()
    reactor.close()
