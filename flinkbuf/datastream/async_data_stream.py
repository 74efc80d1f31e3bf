"""Streams whose records are answered by coroutines. Flink: AsyncDataStream."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any, TypeVar

from flinkbuf.datastream.arguments import check_is_object, declared
from flinkbuf.datastream.data_stream import DataStream
from flinkbuf.datastream.program.operator_factories import MadeBy
from flinkbuf.streaming.chain.async_functions import NO_RETRY_STRATEGY, AsyncFunction, AsyncRetryStrategy
from flinkbuf.streaming.chain.async_wait_operator import AsyncWaitOperatorFactory
from flinkbuf.types.duration import Duration, Time, milliseconds_of

OPERATOR_NAME = "async wait operator"

T = TypeVar("T")  # of the records
R = TypeVar("R")  # of the results


class AsyncDataStream:
    """Makes streams whose records are answered by coroutines. Flink's ``AsyncDataStream``.

    Examples
    --------
    >>> import asyncio
    >>> from flinkbuf.common import Time
    >>> from flinkbuf.datastream import AsyncFunction, StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> class Square(AsyncFunction):
    ...     async def async_invoke(self, value):
    ...         await asyncio.sleep(60 if value == 2 else 0)  # a call of a service
    ...         return [value * value]
    ...     def timeout(self, value):
    ...         return [f"no answer for {value}"]
    >>> numbers = env.from_collection([2])
    >>> AsyncDataStream.ordered_wait(numbers, Square(), Time.milliseconds(10)).execute_and_collect(limit=1)
    ['no answer for 2']
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, R],
        timeout: Time,
        capacity: int = 100,
        output_type: object = None,
    ) -> DataStream[Any]:
        """Give results as they come; watermarks are not overtaken.

        Parameters
        ----------
        data_stream : DataStream
        async_function : AsyncFunction
        timeout : Time
            For each record; what then happens is up to the function's ``timeout``.
        capacity : int, default 100
            Records that are asked for at the same time in each subtask.
        output_type : TypeInformation, optional

        Examples
        --------
        >>> import asyncio
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import AsyncFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Lookup(AsyncFunction):
        ...     def open(self, runtime_context):
        ...         self.quick = asyncio.Event()
        ...     async def async_invoke(self, value):
        ...         await self.quick.wait() if value == "slow" else self.quick.set()
        ...         return [value]
        >>> values = env.from_collection(["slow", "quick"])
        >>> AsyncDataStream.unordered_wait(values, Lookup(), Time.seconds(5)).execute_and_collect(limit=2)
        ['quick', 'slow']
        """
        return _wait(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, is_ordered=False)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, R],
        timeout: Time,
        async_retry_strategy: AsyncRetryStrategy[R],
        capacity: int = 100,
        output_type: object = None,
    ) -> DataStream[Any]:
        """As `unordered_wait`, with further attempts; the timeout is for all attempts together.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import AsyncFunction, AsyncRetryStrategy, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Unsteady(AsyncFunction):
        ...     def open(self, runtime_context):
        ...         self.calls = 0
        ...     async def async_invoke(self, value):
        ...         self.calls += 1
        ...         if self.calls <= 2:
        ...             raise ConnectionError("try again")
        ...         return [(value, self.calls)]
        >>> again = AsyncRetryStrategy.fixed_delay(3, 1, None, lambda error: isinstance(error, ConnectionError))
        >>> answers = AsyncDataStream.unordered_wait_with_retry(
        ...     env.from_collection(["a"]), Unsteady(), Time.seconds(5), again, capacity=10
        ... )
        >>> answers.execute_and_collect(limit=1)
        [('a', 3)]
        """
        return _wait(
            data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, is_ordered=False
        )

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, R],
        timeout: Time,
        capacity: int = 100,
        output_type: object = None,
    ) -> DataStream[Any]:
        """Give results in the order of the records.

        Examples
        --------
        >>> import asyncio
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import AsyncFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Lookup(AsyncFunction):
        ...     def open(self, runtime_context):
        ...         self.quick = asyncio.Event()
        ...     async def async_invoke(self, value):
        ...         await self.quick.wait() if value == "slow" else self.quick.set()
        ...         return [value]
        >>> values = env.from_collection(["slow", "quick"])
        >>> AsyncDataStream.ordered_wait(values, Lookup(), Time.seconds(5)).execute_and_collect(limit=2)
        ['slow', 'quick']
        """
        return _wait(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, is_ordered=True)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, R],
        timeout: Time,
        async_retry_strategy: AsyncRetryStrategy[R],
        capacity: int = 100,
        output_type: object = None,
    ) -> DataStream[Any]:
        """As `ordered_wait`, with further attempts; the timeout is for all attempts together.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import AsyncFunction, AsyncRetryStrategy, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Filling(AsyncFunction):
        ...     def open(self, runtime_context):
        ...         self.found = []
        ...     async def async_invoke(self, value):
        ...         self.found.append(value)
        ...         return self.found[1:]
        >>> again = AsyncRetryStrategy.fixed_delay(3, 1, lambda results: not results, None)
        >>> answers = AsyncDataStream.ordered_wait_with_retry(
        ...     env.from_collection(["a"]), Filling(), Time.seconds(5), again, capacity=1
        ... )
        >>> answers.execute_and_collect(limit=1)
        ['a']
        """
        return _wait(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, is_ordered=True)


def _wait(
    data_stream: DataStream[T],
    async_function: AsyncFunction[T, R],
    timeout: Duration | Time | timedelta,
    strategy: AsyncRetryStrategy[R],
    capacity: int,
    output_type: object,
    *,
    is_ordered: bool,
) -> DataStream[Any]:
    check_is_object(async_function)
    if not hasattr(async_function, "async_invoke"):
        raise TypeError(
            "an AsyncFunction is needed, an object with 'async def async_invoke(self, value)', got "
            f"{type(async_function).__name__} {async_function!r}"
        )
    if not inspect.iscoroutinefunction(async_function.async_invoke):
        raise TypeError(f"Method 'async_invoke' of class '{type(async_function)}' should be declared as 'async def'.")
    if strategy is None:
        raise TypeError("Async retry strategy should not be None.")
    if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
        raise ValueError(f"capacity must be a whole number of at least 1, got {capacity!r}")
    timeout_ms = milliseconds_of("timeout", timeout)
    if strategy is not NO_RETRY_STRATEGY and timeout_ms <= 0:
        raise ValueError("Timeout should be configured when do async with retry.")
    if strategy.get_retry_predicate() is None:
        raise TypeError(f"Retry predicate of the async retry strategy '{type(strategy)}' is None.")
    type_info = declared(output_type)
    factory = AsyncWaitOperatorFactory(
        async_function,
        timeout_ms=timeout_ms,
        capacity=capacity,
        is_ordered=is_ordered,
        retry=strategy,
    )
    stream = data_stream._values()
    return stream._transform(OPERATOR_NAME, type_info, MadeBy(type_info, factory), is_yielding=True)
