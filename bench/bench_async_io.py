"""How close do asynchronous calls come to the ideal, and what does the operator cost where a call never waits?

A call of 5 ms, 100 at a time, ideally gives 20,000 records/s; with 1 % of the calls ten times as slow, 18,348. The
rivals are what people write by hand: ``Semaphore`` and ``gather``, and a window of tasks, first in first out or as they
end. In flink-benchmarks: AsyncWaitOperatorBenchmark.
"""

import asyncio
from collections import deque

import pytest
from measure import SMOKE, measure, scaled

from flinkbuf.async_io.function import AsyncOptions
from flinkbuf.async_io.operator import AsyncOperator

CONCURRENCY = 100
WAITING = range(scaled(10_000))
READY = range(scaled(100_000))
CALL_SECONDS = 0.005
SLOW_SECONDS = 0.050


async def call(record):
    await asyncio.sleep(CALL_SECONDS)
    return record


async def call_with_tail(record):
    # Spread like a tail of slow answers: one in a hundred, not in step with the window.
    await asyncio.sleep(SLOW_SECONDS if record * 7919 % 10007 % 100 == 0 else CALL_SECONDS)
    return record


async def ready(record):
    return record


async def yields(record):
    await asyncio.sleep(0)
    return record


def ours(func, records, **options):
    options = {"capacity": CONCURRENCY, "timeout": 60.0, "event_loop": "asyncio", **options}
    assert sum(1 for _ in AsyncOperator(func, AsyncOptions(**options)).run(records)) == len(records)


def by_hand(func, records, strategy):
    assert len(asyncio.run(strategy(func, records))) == len(records)


async def semaphore_and_gather(func, records):
    semaphore = asyncio.Semaphore(CONCURRENCY)

    async def one(record):
        async with semaphore:
            return await func(record)

    return await asyncio.gather(*[one(record) for record in records])


async def gather(func, records):
    return await asyncio.gather(*[func(record) for record in records])


async def window_in_order(func, records):
    results, window = [], deque()
    for record in records:
        if len(window) >= CONCURRENCY:
            results.append(await window.popleft())
        window.append(asyncio.ensure_future(func(record)))
    while window:
        results.append(await window.popleft())
    return results


async def window_as_they_end(func, records):
    results, window = [], set()
    for record in records:
        if len(window) >= CONCURRENCY:
            done, window = await asyncio.wait(window, return_when=asyncio.FIRST_COMPLETED)
            results.extend(task.result() for task in done)
        window.add(asyncio.ensure_future(func(record)))
    return results + list(await asyncio.gather(*window))


WIDE = {"capacity": 20 * CONCURRENCY, "concurrency": CONCURRENCY}  # room for what waits behind a slow call
CASES = {
    "async_wait.flinkbuf_ordered": lambda: ours(call, WAITING),
    "async_wait.flinkbuf_unordered": lambda: ours(call, WAITING, ordered=False),
    "async_wait.flinkbuf_uvloop": lambda: ours(call, WAITING, event_loop="uvloop"),
    "async_wait.semaphore_and_gather": lambda: by_hand(call, WAITING, semaphore_and_gather),
    "async_wait.window_in_order": lambda: by_hand(call, WAITING, window_in_order),
    "async_wait.window_as_they_end": lambda: by_hand(call, WAITING, window_as_they_end),
    "async_tail.flinkbuf_unordered": lambda: ours(call_with_tail, WAITING, ordered=False),
    "async_tail.flinkbuf_ordered": lambda: ours(call_with_tail, WAITING, **WIDE),
    "async_tail.flinkbuf_ordered_narrow": lambda: ours(call_with_tail, WAITING),
    "async_tail.semaphore_and_gather": lambda: by_hand(call_with_tail, WAITING, semaphore_and_gather),
    "async_tail.window_in_order": lambda: by_hand(call_with_tail, WAITING, window_in_order),
    "async_tail.window_as_they_end": lambda: by_hand(call_with_tail, WAITING, window_as_they_end),
    "async_ready.flinkbuf_ordered": lambda: ours(ready, READY),
    "async_ready.flinkbuf_unordered": lambda: ours(ready, READY, ordered=False),
    "async_ready.gather": lambda: by_hand(ready, READY, gather),
    "async_ready.window_in_order": lambda: by_hand(ready, READY, window_in_order),
    "async_in_flight.flinkbuf_10000": lambda: ours(yields, READY, capacity=10_000),
    "async_in_flight.flinkbuf_100": lambda: ours(yields, READY),
    "async_in_flight.window_in_order": lambda: by_hand(yields, READY, window_in_order),
}


def measure_case(name, benchmark=None):
    if name.endswith("uvloop"):
        pytest.importorskip("uvloop", reason="uvloop is not installed")
    count = len(READY) if name.startswith(("async_ready", "async_in_flight")) else len(WAITING)
    measure(name, CASES[name], count, "records", benchmark=benchmark, repeats=2 if SMOKE else 3)


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure_case(name, benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure_case(name)
