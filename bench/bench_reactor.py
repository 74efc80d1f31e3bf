"""How long until the I/O thread has run something for another thread, next to asyncio's loop in a thread?

The way of every notification from a task to the network: post, wake up, run, and here also the way back.
"""

import asyncio
import threading
from concurrent.futures import Future

import pytest
from measure import measure, scaled

from flinkbuf._core.io.reactor import Reactor

COUNT = scaled(1_000)
REACTOR = Reactor()
LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def round_trips():
    wait = REACTOR.wait_for_turn
    for _ in range(COUNT):
        wait()


def round_trips_asyncio():
    for _ in range(COUNT):
        done = Future()
        LOOP.call_soon_threadsafe(done.set_result, None)
        done.result()


CASES = {
    "reactor_round_trip.flinkbuf": (round_trips, COUNT, "round trips"),
    "reactor_round_trip.asyncio": (round_trips_asyncio, COUNT, "round trips"),
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name], benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure(name, *CASES[name])
