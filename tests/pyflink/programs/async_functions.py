"""AsyncDataStream: order, exceptions, time limits, retries."""

import asyncio

from pyflink.common import Types
from pyflink.common.time import Time
from pyflink.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy


class Sleep(AsyncFunction):
    """The later a record comes, the sooner it is done."""

    async def async_invoke(self, value):
        await asyncio.sleep((10 - value) / 50)
        return [value, value * 10]

    def timeout(self, value):
        return [f"timeout {value}"]


class Nothing(AsyncFunction):
    async def async_invoke(self, value):
        return [] if value % 2 else (value,)


class NeverEnds(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(3600 if value == 2 else 0)
        return [value]

    def timeout(self, value):
        return [-value, -value]


class FailsTwice(AsyncFunction):
    def __init__(self):
        self.tries = {}

    async def async_invoke(self, value):
        self.tries[value] = self.tries.get(value, 0) + 1
        if value == 2 and self.tries[value] < 3:
            raise ValueError("not yet")
        return [(value, self.tries[value])]


class EmptyTwice(AsyncFunction):
    def __init__(self):
        self.tries = {}

    async def async_invoke(self, value):
        self.tries[value] = self.tries.get(value, 0) + 1
        return [(value, self.tries[value])] if self.tries[value] > 2 or value == 3 else []


def ordered(env):
    stream = env.from_collection(range(8), Types.INT())
    results = AsyncDataStream.ordered_wait(stream, Sleep(), Time.seconds(20), 4, Types.INT())
    return list(results.execute_and_collect())


def unordered(env):
    stream = env.from_collection(range(8), Types.INT())
    results = AsyncDataStream.unordered_wait(stream, Sleep(), Time.seconds(20), 100, Types.INT())
    return sorted(results.execute_and_collect())


def results_none_or_several(env):
    stream = env.from_collection(range(6))
    return list(AsyncDataStream.ordered_wait(stream, Nothing(), Time.seconds(20)).execute_and_collect())


def results_after_the_time(env):
    stream = env.from_collection([1, 2, 3], Types.INT())
    results = AsyncDataStream.ordered_wait(stream, NeverEnds(), Time.seconds(1), 100, Types.INT())
    return list(results.execute_and_collect())


def retries_after_exceptions(env):
    stream = env.from_collection([1, 2, 3])
    strategy = AsyncRetryStrategy.fixed_delay(3, 10, None, lambda error: isinstance(error, ValueError))
    results = AsyncDataStream.ordered_wait_with_retry(stream, FailsTwice(), Time.seconds(20), strategy)
    return list(results.execute_and_collect())


def retries_after_results(env):
    stream = env.from_collection([1, 3])
    strategy = AsyncRetryStrategy.exponential_backoff(5, 5, 50, 2.0, lambda results: not results, None)
    results = AsyncDataStream.unordered_wait_with_retry(stream, EmptyTwice(), Time.seconds(20), strategy)
    return sorted(results.execute_and_collect())


def strategies_as_values(env):
    fixed = AsyncRetryStrategy.fixed_delay(3, 10, None, None)
    growing = AsyncRetryStrategy.exponential_backoff(4, 10, 50, 3.0, None, None)
    return [
        [fixed.can_retry(number) for number in range(1, 6)],
        [fixed.get_backoff_time_millis(number) for number in range(1, 4)],
        [growing.can_retry(number) for number in range(1, 6)],
        [growing.get_backoff_time_millis(number) for number in range(1, 6)],
        AsyncRetryStrategy.no_restart().can_retry(1),
        fixed.get_retry_predicate().result_predicate() is None,
    ]


class NotAsync(AsyncFunction):
    def async_invoke(self, value):
        return [value]


def arguments_refused(env):
    stream = env.from_collection([1])
    strategy = AsyncRetryStrategy.fixed_delay(3, 10, None, None)
    attempts = [
        lambda: AsyncDataStream.ordered_wait(stream, NotAsync(), Time.seconds(1)),
        lambda: AsyncDataStream.unordered_wait(stream, lambda value: value, Time.seconds(1)),
        lambda: AsyncDataStream.ordered_wait_with_retry(stream, Nothing(), Time.seconds(0), strategy),
        lambda: AsyncDataStream.unordered_wait_with_retry(stream, Nothing(), Time.seconds(1), None),
    ]
    answers = []
    for attempt in attempts:
        try:
            attempt()
            answers.append("taken")
        except Exception:
            answers.append("refused")
    return answers
