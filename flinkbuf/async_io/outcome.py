"""What becomes of a record when its call has ended: its results, another attempt, or the failure of the task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set

from flinkbuf._core.operators.async_call import as_results
from flinkbuf.async_io.admission import Batch, Work
from flinkbuf.async_io.function import AsyncOptions, CallContext, Function
from flinkbuf.async_io.queue import Entry
from flinkbuf.async_io.stats import AsyncStats, error_text, shortened
from flinkbuf.errors import AsyncCallError, AsyncTimeoutError


class Outcomes:
    """Judges results and errors as the options say.

    Parameters
    ----------
    function, options, context, stats
        Those of the operator.
    value_of : callable
        What of a record the user's functions get.
    result_of : callable, optional
        What leaves for a result of theirs, if not the result.
    """

    def __init__(
        self,
        function: Function,
        options: AsyncOptions,
        context: CallContext,
        stats: AsyncStats,
        value_of: Callable[..., object],
        result_of: Callable[..., object] | None = None,
    ) -> None:
        self._function, self._options, self._context, self._stats = function, options, context, stats
        self._value_of, self._result_of = value_of, result_of

    def may_retry(self, work: Work, result: object, error: BaseException | None) -> bool:
        """Tell whether the call should be made again."""
        retry = self._options.retry
        return retry is not None and retry.can_retry(work.attempt) and bool(retry.wants(result, error))

    def of_batch(
        self, batch: Batch, result: object, error: BaseException | None
    ) -> list[tuple[Entry, object, BaseException | None]]:
        """Match results by position; an exception among them is the failure of that record alone."""
        entries = batch.entries
        results: list[object] = []
        if error is None:
            try:
                if isinstance(result, (Mapping, Set, str, bytes)) or not isinstance(result, Iterable):
                    raise TypeError(f"the function gave a {type(result).__name__} for a batch; give a list")
                results = list(result)
                if len(results) != len(entries):
                    raise ValueError(f"the function gave {len(results)} results for a batch of {len(entries)} records")
            except Exception as mismatch:
                error = mismatch
        if error is not None:
            return [(entry, None, error) for entry in entries]
        return [
            (entry, None, value) if isinstance(value, BaseException) else (entry, value, None)
            for entry, value in zip(entries, results, strict=True)
        ]

    def of_timeout(self, entry: Entry) -> tuple[object, BaseException | None]:
        """Return result and error for a record whose time is over."""
        error: Exception = AsyncTimeoutError(f"no result within {self._options.timeout:g} s")
        if self._function.on_timeout is not None:
            try:
                return self._function.on_timeout(self._value_of(entry.record)), None
            except Exception as raised:
                # PyFlink's default raises a TimeoutError of its own, which says less.
                error = error if isinstance(raised, TimeoutError) else raised
        return None, error

    def results(self, entry: Entry, attempts: int, result: object, error: BaseException | None) -> list[object]:
        """Return what leaves for a record.

        Raises
        ------
        AsyncCallError
            If the task has to fail; its cause is `error`, or what is wrong with `result`.
        """
        if error is None:
            try:
                return self._leaving(result)
            except Exception as odd:
                error = odd
        on_error = self._options.on_error
        if on_error == "raise":
            raise self.failure(entry, attempts, error)
        if on_error == "skip":
            self._stats.add_skipped(self._value_of(entry.record), error, attempts)
            return []
        try:
            value = on_error(self._value_of(entry.record), error)
            return self._leaving(value)
        except Exception as raised:
            raise self.failure(entry, attempts, raised, "on_error= of ") from raised

    def _leaving(self, result: object) -> list[object]:
        """Return what leaves for what a function gave."""
        results = as_results(result) if self._function.is_flat else [result]
        return results if self._result_of is None else [self._result_of(each) for each in results]

    def failure(self, entry: Entry, attempts: int, error: BaseException, of_what: str = "") -> AsyncCallError:
        """Make the error that the user sees: which record, how many attempts, and the original as its cause."""
        kind = AsyncTimeoutError if isinstance(error, AsyncTimeoutError) else AsyncCallError
        what = str(error) if kind is AsyncTimeoutError else error_text(error)
        record = self._value_of(entry.record)
        found = kind(
            f"{of_what}{self._function.name} failed for record {entry.number} of partition {self._context.partition} "
            f"after {attempts} call{'s' * (attempts != 1)}: {what}; the record: {shortened(record)}"
        )
        found.record, found.attempts = record, attempts
        found.__cause__ = error
        return found
