"""Streams whose records are answered by coroutines. Flink: AsyncDataStream."""

from __future__ import annotations

import inspect
from typing import Any

from flinkbuf.datastream.arguments import check_is_object, declared
from flinkbuf.datastream.data_stream import DataStream
from flinkbuf.datastream.operator_factories import MadeBy
from flinkbuf.streaming.async_functions import NO_RETRY_STRATEGY, AsyncFunction, AsyncRetryStrategy
from flinkbuf.streaming.async_wait_operator import AsyncWaitOperatorFactory
from flinkbuf.types.duration import Time, milliseconds_of

OPERATOR_NAME = "async wait operator"


class AsyncDataStream:
    """Makes streams whose records are answered by coroutines. Flink's ``AsyncDataStream``.

    Examples
    --------
    >>> from flinkbuf.common import Time
    >>> from flinkbuf.datastream import AsyncFunction, StreamExecutionEnvironment
    >>> class Lookup(AsyncFunction):
    ...     async def async_invoke(self, value):
    ...         return [value]
    >>> stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1, 2])
    >>> AsyncDataStream.ordered_wait(stream, Lookup(), Time.seconds(5)).get_name()
    'async wait operator'
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[Any],
        async_function: AsyncFunction[Any, Any],
        timeout: Time,
        capacity: int = 100,
        output_type: Any = None,
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
        """
        return _wait(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, is_ordered=False)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[Any],
        async_function: AsyncFunction[Any, Any],
        timeout: Time,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[Any]:
        """As `unordered_wait`, with further attempts; the timeout is for all attempts together."""
        return _wait(
            data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, is_ordered=False
        )

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[Any],
        async_function: AsyncFunction[Any, Any],
        timeout: Time,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[Any]:
        """Give results in the order of the records."""
        return _wait(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, is_ordered=True)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[Any],
        async_function: AsyncFunction[Any, Any],
        timeout: Time,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[Any]:
        """As `ordered_wait`, with further attempts; the timeout is for all attempts together."""
        return _wait(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, is_ordered=True)


def _wait(
    data_stream: DataStream[Any],
    async_function: AsyncFunction[Any, Any],
    timeout: Any,
    strategy: AsyncRetryStrategy[Any],
    capacity: int,
    output_type: Any,
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
