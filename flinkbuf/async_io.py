"""The async operator: keeps calls in flight for many records at once, and gives their results in order or as they come.

It knows neither Spark nor streaming. `AsyncOperator.run` is a generator over an iterable, for batch tasks; a stream
task uses `process_element`, `process_watermark`, `end_input` and `snapshot_state`. Both are one operator: every entry
waits in a queue of at most `capacity`, and everything happens on the thread that calls, inside one event loop that
runs while there is something to wait for.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from flinkbuf._core.async_call import AsyncCall
from flinkbuf.async_calls import AsyncCalls, itself
from flinkbuf.async_function import AsyncOptions
from flinkbuf.async_loop import close_event_loop, new_event_loop
from flinkbuf.async_queue import Entry, StreamRecord, StreamWatermark, WatermarkEntry
from flinkbuf.async_timer import Timers

_PULL_SECONDS = 0.0002  # records are taken from the input for so long before their calls are started
_STALL_SECONDS = 0.05  # after a pause of the loop as long as this, answers that wait are read before timeouts count
_DEFAULT_THREADS = 32


def _logger() -> Any:
    import logging  # not before there is something to say: it would double the time of importing flinkbuf

    return logging.getLogger("flinkbuf")


class AsyncOperator(AsyncCalls):
    """Calls a function for many records at once and gives its results, in order or as they come.

    Parameters
    ----------
    func : coroutine function, function, or object with ``async_invoke``
        As for `flinkbuf.async_map`.
    options : AsyncOptions
        Capacity, timeout, retries and the rest.
    context : CallContext, optional
        Where it runs.
    keeps_record : bool, default False
        `run` gives pairs (record, result).
    value_of : callable, optional
        What of a record the user's functions get, if not all of it.
    output : callable, optional
        Takes each `StreamRecord` and `StreamWatermark` that leaves; for `process_element` and its like.

    Notes
    -----
    Threads: one, the caller's; functions that are no coroutines run on a pool of their own.

    References
    ----------
    Flink ``AsyncWaitOperator``, ``TableKeyedAsyncWaitOperator``, ``AsyncBatchWaitOperator``.

    Examples
    --------
    >>> async def double(number):
    ...     await asyncio.sleep(0.001)
    ...     return 2 * number
    >>> list(AsyncOperator(double, AsyncOptions(capacity=2)).run([1, 2, 3]))
    [2, 4, 6]
    """

    # ---------------------------------------------------------------- life

    def open(self) -> None:
        """Make the event loop and the session, once; done by `run`, else before the first record."""
        if self._loop is not None or self._is_closing:
            raise RuntimeError("this operator has been opened before; make another one for another run")
        self._loop = loop = new_event_loop(self._options.event_loop, has_sockets=self._function.open is not None)
        self._started = time.monotonic()
        self._timers = Timers(loop, self._fail)
        self._base_context = contextvars.copy_context()
        self._last_turn = self._last_log = self._opened = loop.time()
        self._session = None
        self._leave: Any = None
        try:
            loop.run_until_complete(self._open_function())
        except BaseException:
            self._function.close = None  # what did not open is not closed
            self.close()
            raise
        self._invoke = invoke = self._make_invoke()
        self._invoke_at_once = invoke
        if self._value_of is not itself:
            value_of = self._value_of
            self._invoke_at_once = lambda record: invoke(value_of(record))
        if self._function.kind == "thread":
            count = self._options.threads or min(self._options.capacity, _DEFAULT_THREADS)
            self._pool = ThreadPoolExecutor(count, "flinkbuf-async")
        if self._options.deadline is not None:
            self._timers.at(self._opened + self._options.deadline, self._deadline_passed)

    async def _open_function(self) -> None:
        function = self._function
        if function.open is None:
            return
        arguments = (self._context,) if _takes_argument(function.open) else ()
        session = function.open(*arguments)
        if inspect.isawaitable(session):
            session = await session
        if function.close is None and hasattr(session, "__aenter__") and hasattr(session, "__aexit__"):
            self._leave = session.__aexit__
            session = await session.__aenter__()
        self._session = session

    def _make_invoke(self) -> Callable[..., Any]:
        call, session = self._function.call, self._session
        if not self._function.has_session:
            return call
        return lambda record, **context: call(record, session, **context)

    def close(self) -> None:
        """Cancel what is in flight, wait for its end, close the session and the loop; closing twice does nothing.

        All of it takes at most twice ``close_timeout`` seconds.
        """
        loop, self._loop = self._loop, None
        if loop is None:
            return
        self._is_closing = True
        self._timers.close()
        if self._expiry is not None:
            self._expiry.cancel()
        started = time.monotonic()
        try:
            loop.run_until_complete(self._shut_down(loop))
        finally:
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._join_threads(started + self._options.close_timeout)
            left = close_event_loop(loop, self._options.close_timeout)
            if left:
                _logger().warning("async: %d tasks of %s did not end when they were cancelled", left, self._function.name)
            self.stats.seconds = time.monotonic() - self._started

    async def _shut_down(self, loop: asyncio.AbstractEventLoop) -> None:
        """End all calls and leave the session, both within their bound."""
        calls = [work.call for work in self._running if work.call is not None]
        self._running.clear()
        self._dying.update(dict.fromkeys(call for call in calls if isinstance(call, AsyncCall)))
        for call in list(self._dying) + [call for call in calls if not isinstance(call, AsyncCall)]:
            call.cancel()
        if self._dying:
            self._on_all_ended = loop.create_future()
            await asyncio.wait([self._on_all_ended], timeout=self._options.close_timeout)
        if self._dying:
            _logger().warning(
                "async: %d calls of %s did not end within %g s of being cancelled and were dropped",
                len(self._dying), self._function.name, self._options.close_timeout,
            )  # fmt: skip
            for call in self._dying:
                call.close()
            self._dying.clear()
        await self._close_function()

    async def _close_function(self) -> None:
        if self._leave is not None:
            closing = self._leave(None, None, None)
        elif self._function.close is not None:
            closing = self._function.close(self._session) if self._function.has_session else _call_close(self._function)
        else:
            return
        if inspect.isawaitable(closing):
            await asyncio.wait_for(closing, max(self._options.close_timeout, 0.001))

    def _join_threads(self, until: float) -> None:
        assert self._pool is not None
        threads = list(self._pool._threads)
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        left = sum(thread.is_alive() for thread in threads)
        if left:
            _logger().warning("async: %d threads still run %s; a thread cannot be cancelled", left, self._function.name)

    # ---------------------------------------------------------------- over an iterable

    def run(self, records: Iterable[Any]) -> Iterator[Any]:
        """Yield the results for `records`; never holds more than `capacity` of them.

        Raises
        ------
        AsyncCallError
            If a call failed for good and ``on_error`` is ``"raise"``; its cause is the function's own error.
        AsyncTimeoutError
            If a record, or the deadline of the task, ran out of time.
        """
        source, is_exhausted, chunk_size = iter(records), False, 1
        self.open()
        try:
            while True:
                room = self._options.capacity - len(self._queue)
                chunk: list[Any] = []
                if room > 0 and not is_exhausted:
                    wanted, started = min(room, chunk_size), time.perf_counter()
                    chunk = list(islice(source, wanted))
                    is_exhausted = len(chunk) < wanted
                    # Calls start soon after their records come, however slow the input is.
                    if time.perf_counter() - started > _PULL_SECONDS:
                        chunk_size = max(1, wanted // 2)
                    elif wanted == chunk_size:
                        chunk_size *= 2
                self._turn(chunk, is_exhausted)
                while self._queue.has_ready:
                    entry = self._queue.pop()
                    if self._keeps_record:
                        self._out.extend([(entry.record, result) for result in entry.results])
                    else:
                        self._out.extend(entry.results)
                if self._failure is not None:
                    raise self._failure
                if self._out:
                    ready, self._out = self._out, []
                    self.stats.results += len(ready)
                    yield from ready
                elif is_exhausted and not len(self._queue):
                    return
        finally:
            self.stats.tasks = 1
            self._close_after_run()

    def _close_after_run(self) -> None:
        if self._failure is None:
            self.close()
            return
        try:
            self.close()
        except Exception:
            _logger().exception("async: closing the session failed as well")

    def _run_loop(self) -> None:
        """Let the loop run until `_stop`; answers that came while it stood still are read before timeouts count."""
        loop = self._loop
        now = loop.time()
        if now - self._last_turn > _STALL_SECONDS:
            self._grace_until = now + 2 * _STALL_SECONDS
        self._is_stopping = False
        try:
            loop.run_forever()
        finally:
            self._is_blocking = False
            if self._lingering is not None:
                self._lingering.cancel()
                self._lingering = None
            self._last_turn = loop.time()

    def _turn(self, chunk: list[Any], is_exhausted: bool) -> None:
        """Start the calls of `chunk` and let the loop run: once, or until there is a result if nothing else is to do."""
        loop = self._loop
        now = loop.time()
        if now - self._last_log > self._options.log_interval:
            self._last_log = now
            _logger().info("async: partition %d: %s; %d in flight", self._context.partition, self.stats, len(self._queue))
        loop.call_soon(self._begin_turn, chunk, is_exhausted)
        self._run_loop()

    def _begin_turn(self, chunk: list[Any], is_exhausted: bool) -> None:
        try:
            self._start(chunk)
        except BaseException as error:
            self._fail(error)
        in_flight = len(self._queue)
        self.stats.max_in_flight = max(self.stats.max_in_flight, in_flight)
        if is_exhausted:
            self._flush_batch()
        is_waiting = in_flight and (is_exhausted or in_flight >= self._options.capacity)
        if not is_waiting or self._out or self._queue.has_ready or self._failure is not None:
            self._stop()
        else:
            self._is_blocking = True

    # ---------------------------------------------------------------- element by element, for stream tasks

    def process_element(self, value: Any, timestamp: int | None = None) -> None:
        """Start the call for a record; waits while the queue is full, handing on what becomes ready."""
        self._make_room()
        entry = Entry(value, timestamp, self._number)
        self._number += 1
        self.stats.records += 1
        self._once(functools.partial(self._admit, entry))

    def process_watermark(self, watermark: Any) -> None:
        """Let a watermark pass behind the records before it; it takes a place in the queue."""
        self._make_room()
        self._queue.put(WatermarkEntry(watermark))
        self.emit_ready()

    def poll(self, timeout: float = 0.0) -> int:
        """Let calls go on for at most `timeout` seconds, until something is ready; returns how many elements left."""
        loop = self._loop
        if timeout > 0 and len(self._queue) and not self._queue.has_ready and self._failure is None:
            self._is_blocking = True
            handle = loop.call_later(timeout, self._stop)
            self._run_loop()
            handle.cancel()
            return self.emit_ready()
        return self._once(lambda: None)

    def emit_ready(self) -> int:
        """Hand all elements that can leave to the output; returns how many left."""
        if self._failure is not None:
            raise self._failure
        count = 0
        while self._queue.has_ready:
            entry = self._queue.pop()
            count += 1
            assert self._output is not None, "give output= to use the operator element by element"
            if entry.is_watermark:
                self._output(StreamWatermark(entry.watermark))
                continue
            self.stats.results += len(entry.results)
            for result in entry.results:
                self._output(StreamRecord(result, entry.timestamp))
        return count

    def end_input(self, *, is_hurrying: bool = True) -> None:
        """Wait until every call has ended and everything has left.

        Parameters
        ----------
        is_hurrying : bool, default True
            As Flink does it: what waits for its next attempt is tried at once, and there is no further one.
        """
        self._is_hurrying = is_hurrying

        def finish() -> None:
            self._flush_batch()
            if is_hurrying:
                for work in list(self._delayed):
                    self._retry_now(work)

        self._once(finish)
        while len(self._queue):
            self.poll(1.0)

    def snapshot_state(self) -> list[StreamRecord | StreamWatermark]:
        """Return all elements that have not left, in the order of the queue, finished calls included.

        Their results are not kept: what has not been handed on is called for again after `restore_state`.
        """
        return [entry.element for entry in self._queue]

    def restore_state(self, elements: Iterable[StreamRecord | StreamWatermark]) -> None:
        """Submit the elements of a snapshot again, in their order, before any new record."""
        for element in elements:
            if isinstance(element, StreamWatermark):
                self.process_watermark(element.watermark)
            else:
                self.process_element(element.value, element.timestamp)

    @property
    def in_flight_count(self) -> int:
        """How many elements are in the queue, watermarks and finished calls included."""
        return len(self._queue)

    def _make_room(self) -> None:
        while len(self._queue) >= self._options.capacity:
            self.poll(1.0)

    def _once(self, function: Callable[[], None]) -> int:
        """Run `function` inside the loop, with one turn of it, and hand on what is ready."""
        loop = self._loop

        def run() -> None:
            try:
                function()
            except BaseException as error:
                self._fail(error)
            self._stop()

        loop.call_soon(run)
        self._run_loop()
        self.stats.max_in_flight = max(self.stats.max_in_flight, len(self._queue))
        return self.emit_ready()

def _takes_argument(func: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(func).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(each.kind in kinds and each.default is inspect.Parameter.empty for each in parameters)


def _call_close(function: Any) -> Any:
    """Close what has no session: an AsyncFunction, or a close= without open=."""
    return function.close(None) if _takes_argument(function.close) else function.close()
