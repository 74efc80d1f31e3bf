"""A source of made-up records, as many and as fast as one likes. Flink: DataGeneratorSource; PyFlink has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from flinkbuf._core.operators.source_operator import ReaderOutput
from flinkbuf.datastream.connectors.number_seq import NumberSequenceReader, NumberSequenceSplit, split_sequence
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.sources.source import (
    Boundedness,
    EnumeratorContext,
    ReaderContext,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flinkbuf.streaming.sources.split_reader import QueueEnumerator
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    from flinkbuf.streaming.sources.source import SourceSplit

__all__ = ["DataGeneratorSource", "RateLimit"]


class DataGeneratorSource(Source):
    """The results of a function for 0, 1, 2, …

    Parameters
    ----------
    generator_function : callable
        Takes a number and returns a record; pickled for each subtask.
    count : int
        Records in all; the subtasks share them.
    records_per_second : float, optional
        Of all subtasks together; None: as fast as they can.
    type_info : TypeInformation, optional
        What the function returns; None: not declared.

    References
    ----------
    Flink ``DataGeneratorSource``, ``RateLimiterStrategy.perSecond``.
    """

    boundedness = Boundedness.BOUNDED

    def __init__(
        self,
        generator_function: Callable[[int], object],
        count: int,
        records_per_second: float | None = None,
        type_info: TypeInformation | None = None,
    ) -> None:
        if not callable(generator_function):
            raise TypeError(f"generator_function must be callable, got {generator_function!r}")
        if count < 0:
            raise ValueError(f"count must not be negative, got {count}")
        if records_per_second is not None and records_per_second <= 0:
            raise ValueError(f"records_per_second must be greater than zero, got {records_per_second}")
        self.generator_function = generator_function
        self.count = count
        self.records_per_second = records_per_second
        self.type_info = type_info

    def get_produced_type(self) -> TypeInformation | None:
        """Return what was declared."""
        return self.type_info

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """One part of the numbers for each subtask."""
        splits = split_sequence(0, self.count - 1, context.parallelism) if self.count else []
        return QueueEnumerator(context, splits)

    def restore_enumerator(self, context: EnumeratorContext, checkpoint: Sequence[SourceSplit]) -> SplitEnumerator:
        """The parts that nobody had."""
        return QueueEnumerator(context, checkpoint)

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Call the function for each number."""
        if self.records_per_second is None:
            return DataGeneratorReader(context, self.generator_function)
        now_ms = context.processing_time.now_ms()
        rate = RateLimit(self.records_per_second / context.parallelism, now_ms)
        return RateLimitedReader(context, self.generator_function, rate)


class RateLimit:
    """How many records are due; whoever was late is not made to catch up more than one second.

    Examples
    --------
    >>> rate = RateLimit(per_second=100, now_ms=0)
    >>> rate.due(now_ms=20), rate.next_ms
    (3, 0)
    >>> rate.take(3)
    >>> rate.due(now_ms=30), rate.due(now_ms=29)
    (1, 0)
    """

    def __init__(self, per_second: float, now_ms: int) -> None:
        self._interval_ms = 1_000 / per_second
        self._next_ms = float(now_ms)  # when the next record is due

    def due(self, now_ms: int) -> int:
        """How many records may come now."""
        if now_ms - self._next_ms > 1_000:
            self._next_ms = now_ms - 1_000.0
        return 0 if now_ms < self._next_ms else int((now_ms - self._next_ms) / self._interval_ms) + 1

    def take(self, count: int) -> None:
        """So many have come."""
        self._next_ms += count * self._interval_ms

    @property
    def next_ms(self) -> int:
        """When the next record is due."""
        return -int(-self._next_ms // 1)


class DataGeneratorReader(NumberSequenceReader):
    """Calls the function for each number of its splits."""

    def __init__(self, context: ReaderContext, generator_function: Callable[[int], object]) -> None:
        super().__init__(context)
        self._generator_function = generator_function

    def open_split(self, split: NumberSequenceSplit) -> Iterator[Any]:
        """What the function returns."""
        generate = self._generator_function
        return (generate(number) for number in super().open_split(split))  # a StopIteration in it is an error


class RateLimitedReader(DataGeneratorReader):
    """The same, but a record comes when it is due."""

    def __init__(self, context: ReaderContext, generator_function: Callable[[int], object], rate: RateLimit) -> None:
        super().__init__(context, generator_function)
        self._rate = rate

    def poll_next(self, output: ReaderOutput) -> int:
        """Emit what is due, and have the task woken for the next."""
        time = self._context.processing_time
        if self._iterator is None and not self._begin_split(output):
            return InputStatus.END_OF_INPUT if self._has_no_more else InputStatus.NOTHING_AVAILABLE
        for _ in range(self._rate.due(time.now_ms())):
            if not self._collect_one(output):
                return InputStatus.MORE_AVAILABLE
            self._rate.take(1)
            if output.is_turn_over:
                return InputStatus.MORE_AVAILABLE
        time.register_timer(self._rate.next_ms - 1, lambda timestamp_ms: self._context.wake())
        return InputStatus.NOTHING_AVAILABLE

    def _collect_one(self, output: ReaderOutput) -> bool:
        for record in self._iterator:  # type: ignore[union-attr]
            self._output.collect(record)  # type: ignore[union-attr]
            return True
        self._end_split(output)
        return False
