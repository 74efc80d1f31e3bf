"""Which records may be called for now: keys, batches, the number of calls at once, and the rate limit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import TYPE_CHECKING

from flinkbuf.async_io.function import AsyncOptions
from flinkbuf.async_io.queue import Entry
from flinkbuf.async_io.timer import RateLimiter, Timers

if TYPE_CHECKING:
    from flinkbuf._core.operators.async_call import AsyncCall
    from flinkbuf.async_io.function import ResultFuture


class Batch:
    """Records that share one call; it takes the place of an entry where calls are made."""

    __slots__ = ("entries", "attempt", "submitted", "call")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.attempt = 0
        self.submitted = 0.0
        self.call: AsyncCall | ResultFuture | Future[object] | None = None


Work = Entry | Batch  # what a call is made for


class Admission:
    """Lets records go to their calls, in the order in which they came.

    A record passes up to three gates: its key must be free, its batch full or old enough, and less than `concurrency`
    calls running, no faster than the rate limit.

    Parameters
    ----------
    options : AsyncOptions
        What the gates let pass.
    concurrency : int
        The most calls at once.
    timers : Timers
        Those of the operator.
    is_full : callable
        Whether there is room for no further record, so that a batch need not wait for one.
    make_call : callable
        Given an entry or a `Batch`, once for each attempt.

    Attributes
    ----------
    active : int
        Calls that run; those that were cancelled and have not ended included.
    held : deque
        Entries and batches that wait until others have ended, or for the rate limit.
    is_shut : bool
        No call is made any more.
    """

    def __init__(
        self,
        options: AsyncOptions,
        concurrency: int,
        timers: Timers,
        is_full: Callable[[], bool],
        make_call: Callable[[Work], None],
    ) -> None:
        self.active = 0
        self.held: deque[Work] = deque()
        self.concurrency = concurrency
        self.is_shut = False
        self._options = options
        self._timers = timers
        self._is_full, self._make_call = is_full, make_call
        self._keys: dict[object, deque[Entry]] = {}  # by busy key: who waits for it
        self._batch: Batch | None = None  # is being filled
        self._limiter = RateLimiter(options.rate_limit) if options.rate_limit else None
        self._has_ended = self._is_releasing = self._is_limit_timer_set = False

    # ---------------------------------------------------------------- in

    def admit(self, entry: Entry) -> None:
        """Call for a record as soon as its key is free and the other gates let it pass."""
        if self._options.key is not None:
            waiting = self._keys.get(entry.key)
            if waiting is not None:
                waiting.append(entry)
                return
            self._keys[entry.key] = deque()
        self._collect(entry)

    def launch(self, work: Work) -> None:
        """Make a call as soon as there is room for one; further attempts come in here."""
        self.held.append(work)
        self.release()

    def end_input(self) -> None:
        """No further record comes: nobody waits for a batch to fill."""
        self._has_ended = True
        self._flush()

    # ---------------------------------------------------------------- out

    def release(self) -> None:
        """Make the calls that there is room for; those that end at once come back here and do not nest."""
        if self._is_releasing:
            return
        self._is_releasing = True
        try:
            while self.held and self.active < self.concurrency and not self.is_shut:
                if self._limiter is not None and not self._is_within_limit(self._limiter):
                    return
                self._make_call(self.held.popleft())
        finally:
            self._is_releasing = False

    def free_key(self, entry: Entry) -> None:
        """Let the next record with the key of this one go."""
        if self._options.key is None:
            return
        waiting = self._keys[entry.key]
        if waiting:
            self._collect(waiting.popleft())
        else:
            del self._keys[entry.key]

    # ---------------------------------------------------------------- batches

    def _collect(self, entry: Entry) -> None:
        """Put an entry into the batch that is being filled, or call for it alone."""
        if self._options.batch_size is None:
            self.launch(entry)
            return
        batch = self._batch
        if batch is None:
            self._batch = batch = Batch()
            self._timers.at(monotonic() + self._options.batch_timeout, lambda: self._flush(batch))
        batch.entries.append(entry)
        if len(batch.entries) >= self._options.batch_size:
            self._flush()
        elif self._has_ended or self._is_full():
            # Not at once: more may come out of the call that has just ended.
            self._timers.soon(lambda: self._flush(batch))

    def _flush(self, only: Batch | None = None) -> None:
        batch = self._batch
        if batch is not None and (only is None or only is batch):
            self._batch = None
            self.launch(batch)

    # ---------------------------------------------------------------- rate

    def _is_within_limit(self, limiter: RateLimiter) -> bool:
        """Take the right to one call, or come back when there is one."""
        if self._is_limit_timer_set:
            return False
        now = monotonic()
        wait = limiter.reserve(now)
        if wait <= 0:
            return True
        self._is_limit_timer_set = True
        self._timers.at(now + wait, self._limit_passed)
        return False

    def _limit_passed(self) -> None:
        self._is_limit_timer_set = False
        self.release()
