"""Between two threads: nothing put is lost, doubled or out of order, and no wake-up is missed."""

import asyncio
import random
import threading
import time

import pytest

from flinkbuf.async_io.handover import Departures, Inbox, Outbox
from flinkbuf.async_io.loop import LoopThread
from flinkbuf.async_io.queue import Entry, OrderedQueue

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.mark.parametrize("event_loop", ["asyncio", "uvloop"])
def test_what_many_threads_put_is_done_once_and_in_the_order_of_each(event_loop):
    if event_loop == "uvloop":
        pytest.importorskip("uvloop", reason="uvloop is not installed")
    thread, seen = LoopThread(event_loop, lambda error: None), []
    inbox = Inbox(thread.loop)

    def put(number):
        for count in range(2000):
            inbox.put(lambda *pair: seen.append(pair), number, count)

    putters = [threading.Thread(target=put, args=(number,)) for number in range(4)]
    for putter in putters:
        putter.start()
    for putter in putters:
        putter.join()

    async def nothing():
        pass

    thread.run(nothing())
    assert thread.close(1)
    assert len(seen) == 8000
    for number in range(4):
        assert [count for who, count in seen if who == number] == list(range(2000))


def test_nothing_happens_where_the_loop_has_been_closed():
    loop = asyncio.new_event_loop()
    loop.close()
    Inbox(loop).put(pytest.fail, "done")


@pytest.mark.parametrize("timeout", [None, 0.0, 0.00001, 0.001])
def test_all_that_is_put_is_taken_however_the_taker_waits(timeout):
    outbox, taken, records = Outbox(), [], 0

    def put():
        for number in range(3000):
            outbox.put([number, number], 1)
            if random.random() < 0.1:
                time.sleep(0)
        for _ in range(100):
            outbox.put([], 1)  # records without results count too

    putter = threading.Thread(target=put)
    putter.start()
    until = time.monotonic() + 20
    while records < 3100 and time.monotonic() < until:
        ready, count = outbox.take(timeout)
        taken += ready
        records += count
    putter.join()
    assert records == 3100 and taken == [number for number in range(3000) for _ in range(2)]


def test_a_failure_wakes_the_taker_and_the_first_one_counts():
    outbox = Outbox()
    timers = [threading.Timer(0.02 * n, outbox.fail, args=(ValueError(n),)) for n in (1, 2)]
    for timer in timers:
        timer.start()
    with pytest.raises(ValueError, match="1"):
        outbox.take(None)
    for timer in timers:
        timer.join()
    with pytest.raises(ValueError, match="1"):
        outbox.take()


def test_a_wait_ends_with_its_time_and_leaves_nothing_behind():
    outbox = Outbox()
    started = time.monotonic()
    assert outbox.take(0.02) == ([], 0) and time.monotonic() - started >= 0.02
    outbox.put([1], 1)
    assert outbox.contents() == [1]
    assert outbox.take(5) == ([1], 1) and outbox.take(0.001) == ([], 0)


def test_on_ready_is_called_only_where_nobody_waits():
    rings = []
    outbox = Outbox(lambda: rings.append(True))
    outbox.put([1], 1)
    assert rings == [True] and outbox.take(None) == ([1], 1)
    threading.Timer(0.02, outbox.put, args=([2], 1)).start()
    assert outbox.take(None) == ([2], 1) and rings == [True]


def test_departures_linger_while_there_are_calls_to_make_and_hurry_when_there_are_none():
    loop, queue, outbox, may_linger = asyncio.new_event_loop(), OrderedQueue(), Outbox(), [True]
    departures = Departures(queue, outbox, loop, lambda entry: entry.results, lambda: may_linger[0])

    def complete(record):
        entry = Entry(record)
        queue.put(entry)
        queue.complete(entry, [record])
        departures.soon()

    async def scenario():
        complete(1)
        complete(2)
        await asyncio.sleep(0)
        assert outbox.take() == ([], 0)
        may_linger[0] = False
        complete(3)
        await asyncio.sleep(0)
        assert outbox.take() == ([1, 2, 3], 3)
        may_linger[0] = True
        departures.out, departures.out_count = ["before"], 1
        complete(4)
        await asyncio.sleep(0.01)
        assert outbox.take() == (["before", 4], 2)
        departures.now()
        assert outbox.take() == ([], 0)

    loop.run_until_complete(scenario())
    loop.close()
