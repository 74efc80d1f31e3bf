"""What an async operator counts: records, attempts, failures, and how long calls take."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

# Latencies are counted in buckets, each 8 % wider than the one before, from 1 µs on: quantiles to 8 % at any number
# of calls, in a few hundred numbers that can be added up over tasks.
_BUCKET_WIDTH = math.log(1.08)


@dataclass
class SkippedRecord:
    """A record whose call failed and that on_error let pass.

    Attributes
    ----------
    record : object
        The record, as the function got it; its text, shortened, if it cannot be pickled and had to come to the driver.
    error : str
        Class and message of the error.
    attempts : int
        Calls made for it.
    """

    record: object
    error: str
    attempts: int


@dataclass
class AsyncStats:
    """Counters of one async operator, or the sum over the tasks of a job.

    Attributes
    ----------
    records, results : int
        Taken from the input, and given on.
    calls, retried, timed_out, skipped : int
        Calls of the function, how many of them were repetitions, records that ran into their timeout, records that
        failed and were left out.
    max_in_flight : int
        The most records held at once, in any task.
    tasks : int
        Tasks that have reported.
    skipped_records : list of SkippedRecord
        The first of those left out.
    kept_limit : int or None, default 1000
        How many of them each task keeps; None for all.
    """

    records: int = 0
    results: int = 0
    calls: int = 0
    retried: int = 0
    timed_out: int = 0
    skipped: int = 0
    max_in_flight: int = 0
    tasks: int = 0
    seconds: float = 0.0
    skipped_records: list[SkippedRecord] = field(default_factory=list)
    kept_limit: int | None = 1000
    latencies: Counter[int] = field(default_factory=Counter)

    def add_latency(self, seconds: float, count: int = 1) -> None:
        """Count `count` records whose results came after `seconds`."""
        bucket = int(math.log(seconds * 1e6) / _BUCKET_WIDTH) + 1 if seconds > 1e-6 else 0
        self.latencies[bucket] += count

    def add_skipped(self, record: object, error: BaseException, attempts: int) -> None:
        """Count a record that is left out, and keep it as long as there is room."""
        self.skipped += 1
        if self.kept_limit is None or len(self.skipped_records) < self.kept_limit:
            self.skipped_records.append(SkippedRecord(record, error_text(error), attempts))

    def quantile(self, share: float) -> float:
        """Return the latency in seconds that `share` of the records do not exceed; 0 before the first.

        Examples
        --------
        >>> stats = AsyncStats()
        >>> for ms in range(1, 101): stats.add_latency(ms / 1000)
        >>> 0.046 < stats.quantile(0.5) < 0.056
        True
        """
        wanted = share * sum(self.latencies.values())
        for bucket in sorted(self.latencies):
            wanted -= self.latencies[bucket]
            if wanted <= 0:
                return math.exp((bucket - 0.5) * _BUCKET_WIDTH) / 1e6 if bucket else 0.0
        return 0.0

    def merge(self, other: AsyncStats) -> AsyncStats:
        """Add the counts of another operator to these; returns self."""
        for name in ("records", "results", "calls", "retried", "timed_out", "skipped", "tasks", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.max_in_flight = max(self.max_in_flight, other.max_in_flight)
        self.skipped_records.extend(other.skipped_records)
        self.latencies.update(other.latencies)
        return self

    def __str__(self) -> str:
        text = (
            f"{self.records:,} records, {self.results:,} results, {self.calls:,} calls, {self.retried:,} retried, "
            f"{self.timed_out:,} timed out, {self.skipped:,} skipped, at most {self.max_in_flight:,} in flight"
        )
        return f"{text}, p50 {_in_ms(self.quantile(0.5))}, p99 {_in_ms(self.quantile(0.99))}"


def error_text(error: BaseException) -> str:
    """Return class and message of an error, or its class alone if it has no message."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def shortened(record: object, limit: int = 200) -> str:
    """Return a record as text for messages; a repr that fails is told, not raised."""
    try:
        text = repr(record)
    except Exception as error:
        text = f"<{type(record).__name__} whose repr fails: {error}>"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _in_ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
