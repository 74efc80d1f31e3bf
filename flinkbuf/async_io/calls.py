"""From records to calls and back: what an async operator does on the thread of its event loop.

Every record becomes an entry of a queue. Its call is made as soon as `Admission` lets it; when the call has ended, the
entry is settled, or the call is made again.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from contextvars import Context
from dataclasses import replace
from operator import attrgetter
from time import monotonic
from typing import Any

from flinkbuf._core.operators.async_call import AsyncCall, start_many
from flinkbuf.async_io.admission import Admission, Batch, Work
from flinkbuf.async_io.attempt import Attempts
from flinkbuf.async_io.function import AsyncOptions, CallContext, Function
from flinkbuf.async_io.handover import Departures, Inbox, Outbox
from flinkbuf.async_io.outcome import Outcomes
from flinkbuf.async_io.queue import Entry, OrderedQueue, RecordElement, UnorderedQueue, WatermarkElement, WatermarkEntry
from flinkbuf.async_io.session import Session
from flinkbuf.async_io.stats import AsyncStats
from flinkbuf.async_io.timer import Timeouts, Timers
from flinkbuf.errors import AsyncTimeoutError
from flinkbuf.log import logger

_EARLY_SECONDS = 0.02  # the records of a chunk are called for if the input keeps the task so long before the rest


class AsyncCalls:
    """The calls of one operator, and all that is known of them.

    Parameters
    ----------
    function, options, context, stats
        As for `flinkbuf.async_io.operator.AsyncOperator`, which opens and closes this.
    outbox : Outbox
        Where results go: pairs (record, result) if `keeps_record`, whole entries if `gives_entries`.
    loop : asyncio.AbstractEventLoop
        Where the calls are made.
    value_of : callable, optional
        What of a record the user's functions get, if not all of it.
    result_of : callable, optional
        What leaves for a result of theirs, if not the result.

    Attributes
    ----------
    pulled : (int, list) or None
        Number, from 0, and records of a chunk that the task's thread is filling; `start` follows when it is complete.

    Notes
    -----
    Threads: all but `__init__` and `pulled` is for the loop's thread alone; others put it into `inbox`.
    """

    pulled: tuple[int, list[object]] | None = None
    _chunk_count = 0  # that were complete
    _early_count = 0  # records that were started of the next one
    _call_of_start: AsyncCall | None = None  # an idle one for start_many
    _is_hurrying = False
    _number = 0  # of the next record

    def __init__(
        self,
        function: Function,
        options: AsyncOptions,
        context: CallContext,
        stats: AsyncStats,
        outbox: Outbox,
        loop: asyncio.AbstractEventLoop,
        *,
        base_context: Context,
        value_of: Callable[..., object] | None = None,
        result_of: Callable[..., object] | None = None,
        keeps_record: bool = False,
        gives_entries: bool = False,
        open_context: object = None,
        log: Callable[..., None] = logger.info,
    ) -> None:
        self._log = log
        self.loop, self.inbox, self.timers = loop, Inbox(loop), Timers(loop, self.fail)
        self._function, self._options, self._context = function, options, context
        self._stats, self._outbox = stats, outbox
        self._base_context, self._value_of = base_context, value_of or itself
        self._keeps_record = keeps_record
        self._session = Session(function, open_context or context)
        self._outcomes = Outcomes(function, options, context, stats, self._value_of, result_of)
        self._queue: OrderedQueue | UnorderedQueue = OrderedQueue() if options.ordered else UnorderedQueue()
        results_of = _pairs if keeps_record else attrgetter("results")
        self._departures = Departures(
            self._queue, outbox, loop, None if gives_entries else results_of, self._has_calls_to_make
        )
        self._timeouts = Timeouts(self.timers, options.timeout, self._time_out)
        self._running = self._timeouts.running  # entries and batches, from their first call until they are settled
        self._delayed: dict[Work, None] = {}  # waiting for their next attempt
        concurrency = options.concurrency or options.capacity
        if function.kind == "thread":
            # What waits for a thread has no call yet, and its timeout does not run.
            concurrency = min(concurrency, options.thread_count)
        self._admission = Admission(options, concurrency, self.timers, self._is_full, self._make)
        # Calls that need nothing but to be made go through one loop in C.
        self._is_plain = not (
            options.key
            or options.batch_size
            or options.rate_limit
            or function.wants_context
            or function.kind != "coroutine"
            or (options.retry and options.retry.on_result)
        )
        self._is_direct = self._is_plain and not function.is_flat and result_of is None

    # ---------------------------------------------------------------- life

    async def open(self) -> None:
        """Open the session and start the clocks."""
        started = monotonic()
        await self._session.open()
        invoke, value_of = _with_session(self._function, self._session.value), self._value_of
        self._invoke_at_once = invoke if value_of is itself else lambda record: invoke(value_of(record))
        self._attempts = Attempts(self, self._function, invoke, self._base_context, self._options)
        if self._options.deadline is not None:
            self.timers.at(started + self._options.deadline, self._deadline_passed)
        self._log_later()
        self._start_early()

    async def close(self) -> None:
        """Cancel what is in flight, wait for its end, and close the session; each within ``close_timeout``."""
        self._admission.is_shut = True
        self.timers.close()
        self._timeouts.close()
        if not self._session.is_open:
            return  # and no call was made
        timeout, name = self._options.close_timeout, self._function.name
        calls, threads = await self._attempts.close(list(self._running), timeout)
        self._running.clear()
        if calls:
            logger.warning(
                "async: %d calls of %s did not end within %g s of being cancelled and were dropped",
                calls,
                name,
                timeout,
            )
        if threads:
            logger.warning("async: %d threads still run %s; a thread cannot be cancelled", threads, name)
        await self._session.close(self._outbox.failure, timeout)

    def fail(self, error: BaseException) -> None:
        """Let the task fail with this error, if it is the first; no further call is made."""
        self._admission.is_shut = True
        self._outbox.fail(error)

    def _log_later(self) -> None:
        if self._options.log_interval > 0:
            self.timers.at(monotonic() + self._options.log_interval, self._log_progress)

    def _log_progress(self) -> None:
        self._log("async: partition %d: %s; %d in flight", self._context.partition, self._stats, len(self._queue))
        self._log_later()

    def _deadline_passed(self) -> None:
        self.fail(
            AsyncTimeoutError(
                f"the deadline of {self._options.deadline:g} s for partition {self._context.partition} passed with "
                f"{len(self._queue)} records in flight and {self._stats.records} taken from the input"
            )
        )

    # ---------------------------------------------------------------- in

    def start(self, chunk: list[object]) -> None:
        """Start a call for each record of a chunk, as far as the gates let them."""
        self._chunk_count += 1
        count, self._early_count = self._early_count, 0
        self._start_each(chunk[count:] if count else chunk)

    def _start_early(self) -> None:
        """Start what has come of the next chunk if the input keeps the task waiting for the rest."""
        self.timers.at(monotonic() + _EARLY_SECONDS, self._start_early)
        pulled = self.pulled
        if pulled is not None and pulled[0] == self._chunk_count:  # else the one before lies in the inbox
            records = pulled[1][self._early_count :]
            self._early_count += len(records)
            self._start_each(records)

    def _start_each(self, records: list[object]) -> None:
        self._stats.records += len(records)
        try:
            self._start(records)
        except BaseException as error:
            self.fail(error)
        self._stats.max_in_flight = max(self._stats.max_in_flight, len(self._queue))
        if self._departures.out_count or self._queue.has_ready:
            self._departures.now()

    def start_element(self, value: object, timestamp: int | None) -> None:
        """Start the call for one record of a stream."""
        self._stats.records += 1
        try:
            self._admit(Entry(value, timestamp, self._next_number()))
        except BaseException as error:
            self.fail(error)
        self._stats.max_in_flight = max(self._stats.max_in_flight, len(self._queue))

    def put_watermark(self, watermark: object) -> None:
        """Let a watermark pass behind the records before it."""
        self._queue.put(WatermarkEntry(watermark))
        if self._queue.has_ready:
            self._departures.soon()

    def end_input(self, is_hurrying: bool) -> None:
        """No further record comes; if it is hurrying, what waits for its next attempt has its last one now."""
        self._is_hurrying = is_hurrying
        self._admission.end_input()
        if is_hurrying:
            for work in list(self._delayed):
                self._retry_now(work)

    async def snapshot(self) -> list[RecordElement | WatermarkElement]:
        """Return all elements that the task has not taken, in the order of the queue."""
        return [entry.element for entry in (*self._outbox.contents(), *self._queue)]

    def _has_calls_to_make(self) -> bool:
        return len(self._admission.held) >= self._admission.concurrency

    def _is_full(self) -> bool:
        return len(self._queue) >= self._options.capacity

    def _next_number(self) -> int:
        self._number += 1
        return self._number - 1

    def _start(self, records: list[object]) -> None:
        """Start calls; one that ends at once leaves its result with the departures, or in the queue."""
        index, count, queue, admission = 0, len(records), self._queue, self._admission
        departures = self._departures
        may_pass = not self._options.ordered
        while index < count and not admission.is_shut:
            if not self._is_plain or not (may_pass or not len(queue)) or admission.active >= admission.concurrency:
                self._admit(Entry(records[index], None, self._next_number()))
                index += 1
                continue
            call = self._call_of_start or AsyncCall(self.loop, self._coroutine_ended)
            first = index
            index, call, error = start_many(
                call,
                self._invoke_at_once,
                records,
                index,
                departures.out,
                self._function.is_flat,
                self._keeps_record,
                self._base_context,
            )
            self._call_of_start = call
            done = index - first
            self._stats.calls += done
            self._stats.latencies[0] += done
            self._number += done
            departures.out_count += done
            if index == count:
                return
            entry = Entry(records[index], None, self._next_number())
            index += 1
            queue.put(entry)
            self._timeouts.begin(entry)
            entry.attempt = 1
            self._stats.calls += 1
            admission.active += 1
            self._call_of_start = None
            if error is None:
                call.work, entry.call = entry, call
            else:
                self.attempt_ended(entry, None, error)

    def _admit(self, entry: Entry) -> None:
        """Queue an entry and call for it as soon as the gates let it."""
        self._queue.put(entry)
        admission = self._admission
        if self._is_plain:
            if admission.held or admission.active >= admission.concurrency:
                admission.held.append(entry)
            else:
                self._make(entry)
            return
        if self._options.key is not None:
            try:
                entry.key = self._options.key(self._value_of(entry.record))
                hash(entry.key)
            except Exception as error:
                self.fail(self._outcomes.failure(entry, 0, error, "key= of "))
                return
        admission.admit(entry)

    # ---------------------------------------------------------------- calls

    def _make(self, work: Work) -> None:
        """Make one call for a record or a batch."""
        if work.attempt == 0:
            self._timeouts.begin(work)
        elif work in self._running:
            self._stats.retried += 1
        else:
            return  # its time ran out while it waited
        work.attempt += 1
        self._stats.calls += 1
        self._admission.active += 1
        try:
            if self._is_plain and isinstance(work, Entry):
                work.call = call = AsyncCall(self.loop, self._coroutine_ended, work)
                call.start(self._invoke_at_once(work.record), self._base_context)
            else:
                self._make_in_its_way(work)
        except Exception as error:
            work.call = None
            self.attempt_ended(work, None, error)

    def _make_in_its_way(self, work: Work) -> None:
        """Make a call that is a batch, wants its context, or is no coroutine."""
        values = [self._value_of(entry.record) for entry in work.entries]
        named: dict[str, object] = {}
        if self._function.wants_context:
            number = work.entries[0].number
            named["context"] = replace(self._context, record_number=number, attempt=work.attempt)
        self._attempts.make(work, values if isinstance(work, Batch) else values[0], named)

    def _coroutine_ended(self, call: AsyncCall, result: object, error: BaseException | None) -> None:
        work = call.work
        if error is not None or not self._is_direct or work is None or work.call is not call:
            self._attempts.coroutine_ended(call, result, error)
            return
        # The usual end, without the questions whose answer is known: the same as attempt_ended and _settle. Without it
        # a call that gives way once takes a tenth longer (async_in_flight in bench_async_io.py).
        work.call = None
        del self._running[work]
        self._admission.active -= 1
        self._stats.add_latency(monotonic() - work.submitted)
        if self._queue.complete(work, [result]):
            self._departures.soon()
        if self._admission.held:
            self._admission.release()

    def attempt_ended(self, work: Work, result: object, error: BaseException | None) -> None:
        """Settle a record or a batch after a call, or call again."""
        self._admission.active -= 1
        try:
            if error is not None and not isinstance(error, (Exception, asyncio.CancelledError, GeneratorExit)):
                self.fail(error)  # KeyboardInterrupt and its like are nobody's result
            elif isinstance(work, Batch):
                self._batch_ended(work, result, error)
            elif self._may_retry(work, result, error):
                self._delay(work)
            else:
                del self._running[work]
                self._settle(work, work, result, error)
                self._admission.free_key(work)
        except Exception as odd:  # of a predicate
            self.fail(self._outcomes.failure(work.entries[0], work.attempt, odd, "retry= of "))
        except BaseException as interrupt:
            self.fail(interrupt)
        self._admission.release()

    def place_released(self, work: Work) -> None:
        """A call that ran out of time has really ended: others may take its place, and that of its keys."""
        self._admission.active -= 1
        for entry in work.entries:
            self._admission.free_key(entry)
        self._admission.release()

    def _batch_ended(self, batch: Batch, result: object, error: BaseException | None) -> None:
        """Settle the records of a batch, but for those that want another attempt."""
        again = []
        for entry, value, failure in self._outcomes.of_batch(batch, result, error):
            if self._may_retry(batch, value, failure):
                again.append(entry)
                continue
            self._settle(entry, batch, value, failure)
            self._admission.free_key(entry)
        if again:
            batch.entries = again
            self._delay(batch)
        else:
            del self._running[batch]

    # ---------------------------------------------------------------- retries and results

    def _may_retry(self, work: Work, result: object, error: BaseException | None) -> bool:
        return not self._is_hurrying and self._outcomes.may_retry(work, result, error)

    def _delay(self, work: Work) -> None:
        self._delayed[work] = None
        delay = self._options.retry.delay_before(work.attempt)
        self.timers.at(monotonic() + delay, functools.partial(self._retry_now, work))

    def _retry_now(self, work: Work) -> None:
        if work in self._delayed:  # else its time ran out, or the end of the input was faster
            del self._delayed[work]
            self._admission.launch(work)

    def _settle(self, entry: Entry, work: Work, result: object, error: BaseException | None) -> None:
        """Complete an entry for good, and have it handed on if it can leave."""
        self._stats.add_latency(monotonic() - work.submitted)
        results: list[object] = []
        try:
            results = self._outcomes.results(entry, work.attempt, result, error)
        except Exception as failure:
            self.fail(failure)
        if self._queue.complete(entry, results):
            self._departures.soon()

    # ---------------------------------------------------------------- time

    def _time_out(self, work: Work) -> None:
        """End a record or a batch whose time, attempts and delays together, is over; there is no further attempt."""
        if self._admission.is_shut:
            return
        self._delayed.pop(work, None)
        has_call = work.call is not None
        keeps_place = self._attempts.abandon(work)
        self._stats.timed_out += len(work.entries)
        for entry in work.entries:
            self._settle(entry, work, *self._outcomes.of_timeout(entry))
        if not keeps_place:
            self._admission.active -= has_call
            for entry in work.entries:
                self._admission.free_key(entry)
            self._admission.release()


def itself(record: object) -> object:
    """Return the record: what the user's functions get, unless `value_of` says otherwise."""
    return record


def _with_session(function: Function, session: object) -> Callable[..., Any]:
    """Return the call of the function in which the session, where it has one, is given already."""
    call = function.call
    if function.has_session and function.wants_context:
        return lambda value, context: call(value, session, context=context)
    if function.has_session:
        return lambda value: call(value, session)
    return call


def _pairs(entry: Entry) -> list[object]:
    return [(entry.record, result) for result in entry.results]
