"""From records to calls and back: what an async operator does inside its event loop.

Every record becomes an entry of a queue. Its call is made as soon as key, batch, concurrency and rate limit let it;
when the call has ended, the entry is settled, or the call is made again.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from dataclasses import replace
from typing import Any

from flinkbuf._core.async_call import AsyncCall, none_error, start_many
from flinkbuf.async_function import AsyncOptions, CallContext, ResultFuture, as_function
from flinkbuf.async_queue import Entry, OrderedQueue, UnorderedQueue
from flinkbuf.async_stats import AsyncStats, shortened
from flinkbuf.async_timer import RateLimiter, Timers
from flinkbuf.errors import AsyncCallError, AsyncTimeoutError

# Leaving the loop costs some 10 µs with asyncio and 80 with uvloop; nothing stands still meanwhile.
_LINGER_SECONDS = 0.002


class Batch:
    """Records that share one call; it takes the place of an entry where calls are made."""

    __slots__ = ("entries", "attempt", "submitted", "call")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.attempt = 0
        self.submitted = 0.0
        self.call: Any = None


class AsyncCalls:
    """The calls of one operator, and all that is known of them; only used inside the running loop.

    Parameters as for `flinkbuf.async_io.AsyncOperator`, which opens and closes what is used here.
    """

    # Set by open().
    _loop: Any = None
    _timers: Timers
    _base_context: Context
    _invoke: Callable[..., Any]
    _invoke_at_once: Callable[[Any], Any]
    _idle_call: AsyncCall | None = None
    _pool: ThreadPoolExecutor | None = None
    _lingering: Any = None  # the timer of _stop_soon
    _grace_until = 0.0  # no timeout counts before: the loop stood still

    def __init__(
        self,
        func: Any,
        options: AsyncOptions,
        *,
        context: CallContext | None = None,
        keeps_record: bool = False,
        value_of: Callable[[Any], Any] | None = None,
        output: Callable[[Any], None] | None = None,
    ) -> None:
        self.stats = AsyncStats()
        self._options = options
        self._function = as_function(func, options)
        self._context = context or CallContext()
        self._keeps_record = keeps_record
        self._value_of = value_of or itself
        self._output = output
        self._queue: Any = OrderedQueue() if options.ordered else UnorderedQueue()
        self._out: list[Any] = []  # results of calls that did not wait, before they are handed on
        self._running: dict[Any, None] = {}  # entries and batches with a call, by the time of their first one
        self._dying: dict[Any, None] = {}  # calls that were cancelled and have not ended yet
        self._delayed: dict[Any, None] = {}  # waiting for their next attempt
        self._held: deque[Any] = deque()  # waiting until others have ended, or for the rate limit
        self._keys: dict[Any, deque[Entry]] = {}  # by busy key: who waits for it
        self._concurrency = options.concurrency or options.capacity
        self._active = 0  # calls that run
        self._is_releasing = self._is_limit_timer_set = False
        self._batch: Batch | None = None
        self._limiter = RateLimiter(options.rate_limit) if options.rate_limit else None
        self._failure: BaseException | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._is_blocking = self._is_stopping = self._is_hurrying = self._is_closing = False
        self._on_all_ended: asyncio.Future[None] | None = None
        self._thread_results: list[Any] = []
        self._thread_lock = threading.Lock()
        self._number = 0  # of the next record
        # Calls that need nothing but to be made go through one loop in C.
        self._is_plain = not (
            options.key or options.batch_size or self._limiter or self._function.wants_context
            or self._function.kind != "coroutine" or (options.retry and options.retry.on_result)
        )  # fmt: skip
        self._is_direct = self._is_plain and not self._function.is_flat

    def _stop(self) -> None:
        # Once a run: a second stop would be waiting for uvloop's next one.
        if not self._is_stopping and self._loop is not None:
            self._is_stopping = True
            self._loop.stop()

    def _stop_soon(self) -> None:
        """Leave the loop to hand results on: at once, or with more of them while other calls wait to be made."""
        if not self._held:
            self._stop()
        elif self._lingering is None:
            self._lingering = self._loop.call_later(_LINGER_SECONDS, self._stop)

    def _start(self, records: list[Any]) -> None:
        """Start a call for each record; one that ends at once leaves its result in `_out` or in the queue."""
        index, count, queue, stats = 0, len(records), self._queue, self.stats
        stats.records += count
        may_pass = not self._options.ordered
        while index < count and self._failure is None:
            if not self._is_plain or not (may_pass or not len(queue)) or self._active >= self._concurrency:
                entry = Entry(records[index], None, self._number)
                self._number += 1
                index += 1
                if not self._is_plain:
                    self._admit(entry)
                    continue
                queue.put(entry)
                if self._held or self._active >= self._concurrency:
                    self._held.append(entry)
                else:
                    self._attempt_plain(entry)
                continue
            call = self._idle_call or AsyncCall(self._loop, self._attempt_done)
            first = index
            index, call, error = start_many(
                call, self._invoke_at_once, records, index, self._out, self._function.is_flat, self._keeps_record,
                self._base_context,
            )  # fmt: skip
            self._idle_call = call
            done = index - first
            stats.calls += done
            stats.latencies[0] += done
            self._number += done
            if index == count:
                return
            entry = Entry(records[index], None, self._number)
            self._number += 1
            index += 1
            queue.put(entry)
            self._submitted(entry)
            entry.attempt = 1
            stats.calls += 1
            self._active += 1
            if error is None:
                self._idle_call = None
                call.work, entry.call = entry, call
            else:
                self._attempt_ended(entry, None, error)

    # ---------------------------------------------------------------- from record to call

    def _admit(self, entry: Entry) -> None:
        """Queue an entry and call for it as soon as key, batch and rate limit let it."""
        self._queue.put(entry)
        if self._options.key is not None:
            entry.key = self._options.key(self._value_of(entry.record))
            waiting = self._keys.get(entry.key)
            if waiting is not None:
                waiting.append(entry)
                return
            self._keys[entry.key] = deque()
        self._collect(entry)

    def _collect(self, entry: Entry) -> None:
        """Put an entry into the batch that is being filled, or call for it alone."""
        if self._options.batch_size is None:
            self._launch(entry)
            return
        if self._batch is None:
            self._batch = batch = Batch()
            self._timers.at(self._now() + self._options.batch_timeout, lambda: self._flush_batch(batch))
        self._batch.entries.append(entry)
        if len(self._batch.entries) >= self._options.batch_size or len(self._queue) >= self._options.capacity:
            self._flush_batch()

    def _flush_batch(self, only: Batch | None = None) -> None:
        batch = self._batch
        if batch is not None and (only is None or only is batch):
            self._batch = None
            self._launch(batch)

    def _launch(self, work: Any) -> None:
        """Make a call now, or as soon as `concurrency` and the rate limit allow it."""
        self._held.append(work)
        self._release_held()

    def _release_held(self) -> None:
        """Make the calls that wait for others to end; those that end at once come back here and do not nest."""
        if self._is_releasing:
            return
        self._is_releasing = True
        try:
            while self._held and self._active < self._concurrency and self._failure is None:
                work = self._held[0]
                if work.attempt and work not in self._running:
                    self._held.popleft()  # its time ran out while it waited
                    continue
                if self._limiter is not None and not self._is_within_limit(self._limiter):
                    return
                self._held.popleft()
                if self._is_plain and not work.attempt:
                    self._attempt_plain(work)
                else:
                    self._attempt(work)
        finally:
            self._is_releasing = False

    def _is_within_limit(self, limiter: RateLimiter) -> bool:
        """Take the right to one call, or come back when there is one."""
        if self._is_limit_timer_set:
            return False
        now = self._now()
        wait = limiter.reserve(now)
        if wait <= 0:
            return True
        self._is_limit_timer_set = True
        self._timers.at(now + wait, self._limit_passed)
        return False

    def _limit_passed(self) -> None:
        self._is_limit_timer_set = False
        self._release_held()

    def _submitted(self, work: Any) -> None:
        """Note when the first call for a record is made: its timeout runs from here."""
        work.submitted = self._loop.time()
        self._running[work] = None
        timeout = self._options.timeout
        if timeout is not None and self._expiry is None:
            self._expiry = self._loop.call_at(work.submitted + timeout, self._expire)

    def _attempt_plain(self, entry: Entry) -> None:
        """Make the first call for a record where a coroutine function needs nothing but the record."""
        self._submitted(entry)
        entry.attempt = 1
        self.stats.calls += 1
        self._active += 1
        entry.call = call = AsyncCall(self._loop, self._attempt_done, entry)
        try:
            call.start(self._invoke_at_once(entry.record), self._base_context)
        except Exception as error:
            entry.call = None
            self._attempt_ended(entry, None, error)

    def _attempt(self, work: Any) -> None:
        """Make one call for a record or a batch."""
        if work.attempt == 0:
            self._submitted(work)
        else:
            self.stats.retried += 1
        work.attempt += 1
        self.stats.calls += 1
        self._active += 1
        is_batch = isinstance(work, Batch)
        value_of = self._value_of
        argument = [value_of(entry.record) for entry in work.entries] if is_batch else value_of(work.record)
        named = {}
        if self._function.wants_context:
            number = work.entries[0].number
            named["context"] = replace(self._context, record_number=number, attempt=work.attempt)
        try:
            if self._function.kind == "thread":
                self._call_on_thread(work, argument, named)
            elif self._function.kind == "callback":
                work.call = ResultFuture(self._future_completed, f"record {work.entries[0].number}")
                work.call.work = work
                self._invoke(argument, work.call, **named)
            else:
                self._call_coroutine(work, self._invoke(argument, **named))
        except Exception as error:
            work.call = None
            self._attempt_ended(work, None, error)

    def _call_coroutine(self, work: Any, awaitable: Any) -> None:
        call = AsyncCall(self._loop, self._attempt_done, work)
        work.call = call
        call.start(awaitable, self._base_context)

    def _call_on_thread(self, work: Any, argument: Any, named: dict[str, Any]) -> None:
        assert self._pool is not None
        future = self._pool.submit(self._invoke, argument, **named)
        work.call = future
        future.add_done_callback(functools.partial(self._thread_done, work))

    # ---------------------------------------------------------------- from call to result

    def _thread_done(self, work: Any, future: Future[Any]) -> None:
        """Runs on a thread of the pool: the loop is woken once for all results that have come meanwhile."""
        with self._thread_lock:
            self._thread_results.append((work, future))
            is_first = len(self._thread_results) == 1
        if is_first:
            self._wake_loop(self._take_thread_results)

    def _take_thread_results(self) -> None:
        with self._thread_lock:
            arrived, self._thread_results = self._thread_results, []
        for work, future in arrived:
            if work.call is not future or future.cancelled():
                continue
            work.call = None
            error = future.exception()
            result = None if error is not None else future.result()
            if error is None and inspect.isawaitable(result):
                # The attempt goes on where it began on the thread.
                self._call_coroutine(work, result)  # a plain function that gave a coroutine, such as a lambda
            else:
                self._attempt_ended(work, result, error)

    def _future_completed(
        self, future: ResultFuture, results: Any, error: BaseException | None, is_second: bool
    ) -> None:
        def arrive() -> None:
            work = future.work  # type: ignore[attr-defined]
            if is_second and error is not None:
                self._fail(error)
            elif work.call is future:
                work.call = None
                self._attempt_ended(work, results, error)

        self._wake_loop(arrive)

    def _wake_loop(self, function: Callable[[], None]) -> None:
        loop = self._loop
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(function)
        except RuntimeError:
            pass  # closed meanwhile: nobody waits for the result any more

    def _attempt_done(self, call: AsyncCall, result: Any, error: BaseException | None) -> None:
        """What `AsyncCall` tells when its coroutine has ended."""
        work = call.work
        if work is None or work.call is not call or self._is_closing:
            self._dying.pop(call, None)  # timed out or cancelled before: the result comes too late
            if self._is_closing and work is not None:
                work.call = None
            if not self._dying and self._on_all_ended is not None and not self._on_all_ended.done():
                self._on_all_ended.set_result(None)
            return
        work.call = None
        if error is not None or not self._is_direct:
            self._attempt_ended(work, result, error)
            return
        # The usual end, without the questions whose answer is known: the same as _attempt_ended and _settle.
        del self._running[work]
        self._active -= 1
        self.stats.add_latency(self._loop.time() - work.submitted)
        if self._queue.complete(work, [result]) and self._is_blocking:
            self._stop_soon()
        if self._held:
            self._release_held()

    def _attempt_ended(self, work: Any, result: Any, error: BaseException | None) -> None:
        """Settle a record or a batch after a call, or call again."""
        if self._is_closing:
            return
        self._active -= 1
        try:
            if error is not None and not isinstance(error, (Exception, asyncio.CancelledError)):
                self._fail(error)  # KeyboardInterrupt and its like are nobody's result
            elif isinstance(work, Batch):
                self._batch_ended(work, result, error)
            elif self._may_retry(work, result, error):
                self._delay(work)
            else:
                del self._running[work]
                self._settle(work, work, result, error)
            if self._held:
                self._release_held()
        except BaseException as unexpected:
            self._fail(unexpected)

    def _batch_ended(self, batch: Batch, result: Any, error: BaseException | None) -> None:
        """Match results by position; an exception among them is the failure of that record alone."""
        entries = batch.entries
        results: list[Any] = []
        if error is None:
            try:
                results = list(result)
                if len(results) != len(entries):
                    raise ValueError(f"the function gave {len(results)} results for a batch of {len(entries)} records")
            except (TypeError, ValueError) as mismatch:
                error = mismatch
        outcomes = [(entry, None, error) for entry in entries] if error is not None else [
            (entry, None, value) if isinstance(value, BaseException) else (entry, value, None)
            for entry, value in zip(entries, results, strict=True)
        ]  # fmt: skip
        again = [outcome[0] for outcome in outcomes if self._may_retry(batch, *outcome[1:])]
        if again:
            batch.entries = again
        else:
            del self._running[batch]
        remaining = set(map(id, again))
        for entry, value, failure in outcomes:
            if id(entry) not in remaining:
                self._settle(entry, batch, value, failure)
        if again:
            self._delay(batch)

    def _may_retry(self, work: Any, result: Any, error: BaseException | None) -> bool:
        retry = self._options.retry
        if retry is None or self._is_hurrying or work.attempt > retry.max_attempts:
            return False
        return bool(retry.wants(result, error))

    def _delay(self, work: Any) -> None:
        self._delayed[work] = None
        delay = self._options.retry.delay_before(work.attempt)
        self._timers.at(self._now() + delay, functools.partial(self._retry_now, work))

    def _retry_now(self, work: Any) -> None:
        if work in self._delayed:  # else its time ran out, or the end of the input was faster
            del self._delayed[work]
            self._launch(work)

    def _settle(self, entry: Entry, work: Any, result: Any, error: BaseException | None) -> None:
        """Complete an entry for good, let the next of its key go, and end the wait if something can leave."""
        stats = self.stats
        stats.add_latency(self._loop.time() - work.submitted)
        results: list[Any] = []
        if error is not None:
            results = self._results_after(entry, work, error)
        elif not self._function.is_flat:
            results = [result]
        else:
            try:
                if result is None:
                    raise none_error()
                results = list(result)
            except Exception as odd:
                results = self._results_after(entry, work, odd)
        if self._queue.complete(entry, results) and self._is_blocking:
            self._stop_soon()
        if self._options.key is not None:
            waiting = self._keys[entry.key]
            if waiting:
                self._collect(waiting.popleft())
            else:
                del self._keys[entry.key]

    def _results_after(self, entry: Entry, work: Any, error: BaseException) -> list[Any]:
        """What stands for a record whose call failed: nothing, what on_error says, or the failure of the task."""
        on_error = self._options.on_error
        if on_error == "raise":
            self._fail(self._explained(entry, work, error))
        elif on_error == "skip":
            self.stats.add_skipped(self._value_of(entry.record), error, work.attempt)
        else:
            try:
                return self._as_results(on_error(self._value_of(entry.record), error))
            except Exception as raised:
                self._fail(self._explained(entry, work, raised))
        return []

    def _as_results(self, value: Any) -> list[Any]:
        return list(value) if self._function.is_flat else [value]

    def _explained(self, entry: Entry, work: Any, error: BaseException) -> BaseException:
        """Make the error that the user sees: which record, how many attempts, and the original as its cause."""
        kind = AsyncTimeoutError if isinstance(error, AsyncTimeoutError) else AsyncCallError
        what = str(error) if kind is AsyncTimeoutError else f"{type(error).__name__}: {error}"
        record = self._value_of(entry.record)
        found = kind(
            f"{self._function.name} failed for record {entry.number} of partition {self._context.partition} after "
            f"{work.attempt} call{'s' * (work.attempt != 1)}: {what}; the record: {shortened(record)}"
        )
        found.record, found.attempts = record, work.attempt
        found.__cause__ = error
        return found

    def _fail(self, error: BaseException) -> None:
        """Let the task fail with this error, if it is the first."""
        if self._failure is None:
            self._failure = error
        self._stop()

    # ---------------------------------------------------------------- time

    def _now(self) -> float:
        return self._loop.time()

    def _expire(self) -> None:
        """Time out what is too old. All timeouts are equal, so the oldest call is due first: one timer serves all."""
        loop, timeout = self._loop, self._options.timeout
        assert timeout is not None
        self._expiry = None
        now = loop.time()
        while self._running and self._failure is None:
            work = next(iter(self._running))
            due = max(work.submitted + timeout, self._grace_until)
            if due > now:
                self._expiry = loop.call_at(due, self._expire)
                return
            self._time_out(work)

    def _time_out(self, work: Any) -> None:
        """End a record or a batch whose time, attempts and delays together, is over; there is no further attempt."""
        del self._running[work]
        self._delayed.pop(work, None)
        call, work.call = work.call, None
        if call is not None:
            if isinstance(call, AsyncCall):
                self._dying[call] = None
            call.cancel()
            self._active -= 1
        self.stats.timed_out += len(work.entries)
        for entry in work.entries:
            try:
                self._settle(entry, work, *self._outcome_of_timeout(entry))
            except BaseException as unexpected:
                self._fail(unexpected)
        if self._held:
            self._release_held()

    def _outcome_of_timeout(self, entry: Entry) -> tuple[Any, BaseException | None]:
        error: Exception = AsyncTimeoutError(f"no result within {self._options.timeout:g} s")
        if self._function.on_timeout is not None:
            try:
                return self._function.on_timeout(self._value_of(entry.record)), None
            except Exception as raised:
                # PyFlink's default raises a TimeoutError of its own, which says less.
                error = error if isinstance(raised, TimeoutError) else raised
        return None, error

    def _deadline_passed(self) -> None:
        self._fail(AsyncTimeoutError(
            f"the deadline of {self._options.deadline:g} s for partition {self._context.partition} passed with "
            f"{len(self._queue)} records in flight and {self._number} taken from the input"
        ))  # fmt: skip


def itself(record: Any) -> Any:
    """Return the record: what the user's functions get, unless `value_of` says otherwise."""
    return record
