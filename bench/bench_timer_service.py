"""How fast are timers registered and fired, next to Python's heapq with a set beside it?

`one time each`: every timer has a time of its own, in no order. `one window`: a thousand keys share a time, as in a
tumbling window. Flink: InternalTimerServiceImpl, ``TimerHeapInternalTimer``.
"""

import heapq
import random

import pytest
from measure import measure, scaled

from flinkbuf._core.state.key_context import KeyContext
from flinkbuf._core.state.timer_service import InternalTimerService
from flinkbuf.testing import ManualClock

COUNT = scaled(100_000)
TIMES = random.Random(7).sample(range(10 * COUNT), COUNT)


class Target:
    """Does nothing."""

    def on_event_time(self, timestamp, key, namespace):
        pass

    def on_processing_time(self, timestamp, key, namespace):
        pass


def each_time():
    keys = KeyContext()
    service = InternalTimerService("timers", keys, Target(), ManualClock())
    register = service.register_event_time_timer
    for key, time in enumerate(TIMES):
        keys.set_key(key)
        register(None, time)
    service.advance_watermark(10 * COUNT)


def one_window():
    keys = KeyContext()
    service = InternalTimerService("timers", keys, Target(), ManualClock())
    register = service.register_event_time_timer
    for number in range(COUNT):
        keys.set_key(number % 1000)
        register("window", number // 1000)
    service.advance_watermark(COUNT)


def with_heapq():
    heap, known, target = [], set(), Target()
    for key, time in enumerate(TIMES):
        timer = (time, key)
        if timer not in known:
            known.add(timer)
            heapq.heappush(heap, timer)
    while heap:
        timer = heapq.heappop(heap)
        known.discard(timer)
        target.on_event_time(timer[0], timer[1], None)


CASES = {
    "timer_service.each_time": (each_time, COUNT, "timers"),
    "timer_service.one_window": (one_window, COUNT, "timers"),
    "timer_service.heapq": (with_heapq, COUNT, "timers"),
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name], benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure(name, *CASES[name])
