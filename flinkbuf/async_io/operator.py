"""The async operator: keeps calls in flight for many records at once, and gives their results in order or as they come.

It knows neither Spark nor streaming. `AsyncOperator.run` is a generator over an iterable, for batch tasks; a stream
task uses `process_element`, `process_watermark`, `end_input` and `snapshot_state`. Both are one operator: every entry
waits in a queue of at most `capacity`. The calls are made on an event loop with a thread of its own, so that they go on
while the task waits for its input or for whoever takes its output.
"""

from __future__ import annotations

import contextvars
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from flinkbuf.async_io.calls import AsyncCalls
from flinkbuf.async_io.function import AsyncOptions, CallContext, as_function
from flinkbuf.async_io.handover import Outbox
from flinkbuf.async_io.loop import BlockedWatch, LoopThread, LoopTimeoutError
from flinkbuf.async_io.queue import Entry, RecordElement, WatermarkElement, WatermarkEntry
from flinkbuf.async_io.stats import AsyncStats
from flinkbuf.errors import AsyncTimeoutError
from flinkbuf.log import logger

_PULL_SECONDS = 0.0002  # records are taken from the input for so long before their calls are started
_REFILL_SECONDS = 0.001  # and again when the consumer has kept the task for so long
_DEADLINE_SECONDS = 1.0  # the loop has so long to tell by itself that the deadline has passed
_LOOK_SECONDS = 0.05  # while no result comes, the loop is looked at so often
NOTHING_YET = object()  # what `AsyncOperator.run` gives while no result comes, if it was asked to


class AsyncOperator:
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
    result_of : callable, optional
        What leaves for a result that the user's functions gave, if not the result; for `process_element` and its like.
    output : callable, optional
        Takes each `RecordElement` and `WatermarkElement` that leaves; for `process_element` and its like.
    on_ready : callable, optional
        Called on the loop's thread when there is something for `emit_ready` and nobody waits for it: wakes a
        stream task that sleeps on its mailbox.
    stats : AsyncStats, optional
        What counts; made new if left out.
    thread : LoopThread, optional
        An event loop that others use, too: it is not closed with the operator.
    open_context : object, optional
        What the function's ``open`` is given, if not `context`.
    log : callable, optional
        Takes the lines about its progress, a format and its values, as ``logger.info`` does.

    Notes
    -----
    Threads: the methods are for the caller's thread, which also runs `output`. All functions of the user run on the
    thread of the event loop, those that are no coroutines on a pool of their own.

    References
    ----------
    Flink ``AsyncWaitOperator``, ``TableKeyedAsyncWaitOperator``, ``AsyncBatchWaitOperator``.

    Examples
    --------
    >>> import asyncio
    >>> async def double(number):
    ...     await asyncio.sleep(0.001)
    ...     return 2 * number
    >>> list(AsyncOperator(double, AsyncOptions(capacity=2)).run([1, 2, 3]))
    [2, 4, 6]
    """

    def __init__(
        self,
        func: object,
        options: AsyncOptions,
        *,
        context: CallContext | None = None,
        keeps_record: bool = False,
        value_of: Callable[..., object] | None = None,
        result_of: Callable[..., object] | None = None,
        output: Callable[[RecordElement | WatermarkElement], None] | None = None,
        on_ready: Callable[[], None] | None = None,
        stats: AsyncStats | None = None,
        thread: LoopThread | None = None,
        open_context: object = None,
        log: Callable[..., None] = logger.info,
    ) -> None:
        self._shared_thread, self._open_context, self._log = thread, open_context, log
        self.stats = stats if stats is not None else AsyncStats()
        self._function = as_function(func, options)
        self._options = options
        self._context = context or CallContext()
        self._keeps_record, self._value_of, self._result_of = keeps_record, value_of, result_of
        self._output = output
        self._outbox = Outbox(on_ready)
        self._thread: LoopThread | None = None
        self._calls: AsyncCalls
        self._watch: BlockedWatch | None = None
        self._deadline: float | None = None  # in seconds of time.monotonic()
        self._held = 0  # records and watermarks that have come and whose results have not been given on
        self._started = 0.0
        # Of `run`.
        self._chunk_size, self._chunk_count = 1, 0
        self._is_exhausted = self._has_begun = False
        self._refilled = 0.0

    # ---------------------------------------------------------------- life

    def open(self) -> None:
        """Start the event loop and make the session, once; done by `run`, else before the first record."""
        if self._has_begun:
            raise RuntimeError("this operator has been opened before; make another one for another run")
        self._has_begun = True
        options = self._options
        self._started = time.monotonic()
        if options.deadline is not None:
            self._deadline = self._started + options.deadline + _DEADLINE_SECONDS
        self._thread = self._shared_thread or LoopThread(options.event_loop, self._outbox.fail)
        self._watch = BlockedWatch(self._thread, self._function.name) if self._function.kind == "coroutine" else None
        self._calls = AsyncCalls(
            self._function,
            options,
            self._context,
            self.stats,
            self._outbox,
            self._thread.loop,
            base_context=contextvars.copy_context(),
            value_of=self._value_of,
            result_of=self._result_of,
            keeps_record=self._keeps_record,
            gives_entries=self._output is not None,
            open_context=self._open_context,
            log=self._log,
        )
        try:
            self._thread.run(self._calls.open(), options.deadline)
        except LoopTimeoutError as error:
            self._close_after(error)
            raise AsyncTimeoutError(f"the deadline passed while open= ran: {error}") from None
        except BaseException as error:
            self._close_after(error)
            raise

    def close(self) -> None:
        """Cancel what is in flight, wait for its end, close the session and the loop; closing twice does nothing.

        Calls, session, and tasks that were left behind may take ``close_timeout`` seconds each; what takes longer is
        left and told to the log.
        """
        thread, self._thread = self._thread, None
        if thread is None:
            return
        timeout, name = self._options.close_timeout, self._function.name
        if thread.is_current:  # the garbage collector found a generator that nobody reads, and happened to do it here
            thread.close_after(self._calls.close(), timeout)
            return
        try:
            thread.run(self._calls.close(), 2 * timeout + 0.5)
        except LoopTimeoutError as error:
            logger.warning("async: closing %s was given up: %s", name, error)
        finally:
            if thread is not self._shared_thread and not thread.close(timeout):
                logger.warning("async: the event loop of %s is blocked at %s and was left", name, thread.where())
            if thread is not self._shared_thread and thread.left_count:
                logger.warning("async: %d tasks of %s did not end when they were cancelled", thread.left_count, name)
            self.stats.seconds = time.monotonic() - self._started

    def _close_after(self, error: BaseException | None) -> None:
        """Close it; after an error, one of closing is only told to the log."""
        if error is None:
            self.close()
            return
        self._outbox.fail(error)
        try:
            self.close()
        except Exception:
            logger.exception("async: closing the session failed as well")

    # ---------------------------------------------------------------- over an iterable

    def run(self, records: Iterable[object], told_after: float | None = None) -> Iterator[Any]:
        """Yield the results for `records`; never holds more than `capacity` of them.

        Parameters
        ----------
        records : iterable
        told_after : float, optional
            Seconds of waiting for a result after which `NOTHING_YET` is yielded, again and again: the caller can do
            something with the results that it has. The wait for a record of the input is not interrupted.

        Raises
        ------
        AsyncCallError
            If a call failed for good and ``on_error`` is ``"raise"``; its cause is the function's own error.
        AsyncTimeoutError
            If a record, or the deadline of the task, ran out of time.
        """
        source = iter(records)
        self.stats.tasks = 1
        self.open()
        failure: BaseException | None = None
        try:
            while not self._is_exhausted or self._held:
                self._refill(source)
                if self._held:
                    yield from self._given_on(source, told_after)
        except GeneratorExit:
            raise  # whoever reads has enough: no failure
        except BaseException as error:
            failure = error
            raise
        finally:
            self._close_after(failure)

    def _refill(self, source: Iterator[object]) -> None:
        """Take records from the input as long as it is quick, and have their calls started."""
        room = self._options.capacity - self._held
        if room <= 0 or self._is_exhausted:
            return
        wanted, started = min(room, self._chunk_size), time.perf_counter()
        chunk: list[object] = []
        self._calls.pulled = self._chunk_count, chunk
        try:
            chunk.extend(islice(source, wanted))
        finally:
            self._calls.pulled = None
        self._refilled = time.perf_counter()
        # Calls start soon after their records come, however slow the input is.
        if self._refilled - started > _PULL_SECONDS:
            self._chunk_size = max(1, wanted // 2)
        elif wanted == self._chunk_size:
            self._chunk_size *= 2
        self._held += len(chunk)
        if chunk:
            self._chunk_count += 1
            self._calls.inbox.put(self._calls.start, chunk)
        if len(chunk) < wanted:
            self._is_exhausted = True
            self._calls.inbox.put(self._calls.end_input, False)

    def _given_on(self, source: Iterator[object], told_after: float | None) -> Iterator[object]:
        """Yield what is ready; if there is no room for further records, wait for something."""
        must_wait = self._is_exhausted or self._held >= self._options.capacity
        ready, record_count = self._take(told_after if must_wait else 0.0)
        if must_wait and not record_count and told_after is not None:
            yield NOTHING_YET
            return
        self.stats.results += len(ready)
        if self._function.is_flat:
            yield from ready
            self._held -= record_count
            return
        self._held -= record_count - len(ready)  # those that were left out
        given = 0
        for result in ready:
            yield result
            given += 1
            if time.perf_counter() - self._refilled > _REFILL_SECONDS and self._chunk_size > 1:
                # The consumer is slow, the input is not: calls are made meanwhile.
                self._held -= given
                given = 0
                self._refill(source)
        self._held -= given

    def _take(self, timeout: float | None) -> tuple[list[object], int]:
        """Take from the outbox; a loop that does not come to tell of the deadline is found out here."""
        if timeout != 0 and self._deadline is not None:
            left = max(0.001, self._deadline - time.monotonic())
            found = self._waited(left if timeout is None else min(left, timeout))
            if not found[1] and time.monotonic() > self._deadline:
                assert self._thread is not None
                raise AsyncTimeoutError(
                    f"the deadline of {self._options.deadline:g} s for partition {self._context.partition} passed, and "
                    f"the event loop is blocked at {self._thread.where()}"
                )
            return found
        return self._waited(timeout)

    def _waited(self, timeout: float | None) -> tuple[list[object], int]:
        """Take from the outbox; while nothing comes, look whether a coroutine blocks the loop."""
        watch = self._watch
        if timeout == 0 or watch is None or watch.is_over:
            return self._outbox.take(timeout)
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LOOK_SECONDS if until is None else min(_LOOK_SECONDS, max(0.0, until - time.monotonic()))
            found = self._outbox.take(left)
            if found[1] or (until is not None and time.monotonic() >= until):
                return found
            watch.look()
            if watch.is_over:
                return self._outbox.take(None if until is None else max(0.0, until - time.monotonic()))

    # ---------------------------------------------------------------- element by element, for stream tasks

    def process_element(self, value: object, timestamp: int | None = None) -> None:
        """Start the call for a record; waits while the queue is full, handing on what becomes ready."""
        self._make_room()
        self._held += 1
        self._calls.inbox.put(self._calls.start_element, value, timestamp)

    def process_watermark(self, watermark: object) -> None:
        """Let a watermark pass behind the records before it; it takes a place in the queue."""
        if not self._held:
            self._emit(WatermarkElement(watermark))
            return
        self._make_room()
        self._held += 1
        self._calls.inbox.put(self._calls.put_watermark, watermark)

    def emit_ready(self) -> int:
        """Hand all elements that can leave to the output; returns how many left."""
        return self.poll(0.0)

    def poll(self, timeout: float | None = 0.0) -> int:
        """Wait up to `timeout` seconds for something that can leave, and hand it on; returns how many elements left."""
        entries, count = self._take(timeout if self._held else 0.0)
        for entry in entries:
            if isinstance(entry, WatermarkEntry):
                self._emit(WatermarkElement(entry.watermark))
                continue
            assert isinstance(entry, Entry)
            self.stats.results += len(entry.results)
            for result in entry.results:
                self._emit(RecordElement(result, entry.timestamp))
        self._held -= count
        return count

    def end_input(self, *, is_hurrying: bool = True) -> None:
        """Wait until every call has ended and everything has left.

        Parameters
        ----------
        is_hurrying : bool, default True
            As Flink does it: what waits for its next attempt is tried at once, and there is no further one.
        """
        self.begin_end_input(is_hurrying=is_hurrying)
        while self._held:
            self.poll(None)

    def snapshot_state(self) -> list[RecordElement | WatermarkElement]:
        """Return all elements that have not left, in the order of the queue, finished calls included.

        Their results are not kept: what has not been handed on is called for again by whoever submits these again.
        """
        assert self._thread is not None, "the operator is not open"
        return self._thread.run(self._calls.snapshot())

    def begin_end_input(self, *, is_hurrying: bool = True) -> None:
        """Say that no further record comes, without waiting: `in_flight_count` goes down to 0 by `emit_ready`."""
        self._calls.inbox.put(self._calls.end_input, is_hurrying)

    def fail(self, error: BaseException) -> None:
        """Let the next call of any method that takes results raise this error; from any thread."""
        self._outbox.fail(error)

    @property
    def in_flight_count(self) -> int:
        """How many elements have come and not left, watermarks and finished calls included."""
        return self._held

    def _make_room(self) -> None:
        while self._held >= self._options.capacity:
            self.poll(None)

    def _emit(self, element: RecordElement | WatermarkElement) -> None:
        assert self._output is not None, "give output= to use the operator element by element"
        self._output(element)
