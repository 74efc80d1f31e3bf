"""Both ends of the way between a job and a task manager in one process."""

import threading
import time

import pytest

from flinkbuf.runtime.manager.manager_link import link_pair


@pytest.fixture
def pair():
    heard, closed = [], []
    link, connection = link_pair(heard.append, closed.append)
    return link, connection, heard, closed


def test_messages_arrive_in_order_as_the_objects_they_are(pair):
    link, connection, heard, _ = pair
    messages = [object() for _ in range(100)]
    for message in messages:
        connection.send(message)
        link.send(message)
    assert all(link.receive(0) is message for message in messages)
    assert all(one is other for one, other in zip(heard, messages, strict=True))
    assert link.receive(0) is None


def test_who_waits_is_woken(pair):
    link, *_ = pair
    threading.Timer(0.02, link.wake).start()
    started = time.monotonic()
    assert link.receive(30) is None
    assert time.monotonic() - started < 10


def test_the_job_ends_the_link_after_what_it_said_before(pair):
    link, connection, heard, closed = pair
    connection.send("last")
    connection.close()
    connection.close()
    connection.send("too late")
    assert link.receive(1) == "last"
    for _ in range(2):
        with pytest.raises(ConnectionError, match="has ended"):
            link.receive(1)
    with pytest.raises(ConnectionError, match="has ended"):
        link.send("too late")
    assert (heard, closed) == ([], [])


def test_the_manager_ends_the_link_and_the_job_is_told_once(pair):
    link, connection, _, closed = pair
    link.close()
    link.close()
    assert closed == ["the task manager has closed its link"]
    connection.send("too late")
    with pytest.raises(ConnectionError):
        link.receive(1)
