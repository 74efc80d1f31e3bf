"""A source that counts. PyFlink: pyflink.datastream.connectors.number_seq."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flinkbuf.streaming.sources.source import (
    Boundedness,
    EnumeratorContext,
    ReaderContext,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flinkbuf.streaming.sources.split_reader import QueueEnumerator, SplitReader
from flinkbuf.types.type_information import TypeInformation
from flinkbuf.types.types import Types

if TYPE_CHECKING:
    from flinkbuf.streaming.sources.source import SourceSplit

__all__ = ["NumberSequenceSource"]


@dataclass(frozen=True)
class NumberSequenceSplit:
    """The numbers from `start` to `end`, both included."""

    split_id: str
    start: int
    end: int


def split_sequence(start: int, end: int, count: int) -> list[NumberSequenceSplit]:
    """Cut a sequence into so many parts of almost one length, fewer if it is shorter.

    Examples
    --------
    >>> [(part.start, part.end) for part in split_sequence(1, 10, 3)]
    [(1, 3), (4, 6), (7, 10)]
    """
    total = end - start + 1
    count = max(1, min(count, total))
    size, longer_count = divmod(total, count)
    splits = []
    for index in range(count):
        length = size + (index >= count - longer_count)
        splits.append(NumberSequenceSplit(str(index + 1), start, start + length - 1))
        start += length
    return splits


class NumberSequenceSource(Source):
    """The numbers from `start` to `end`, both included, in as many parts as there are subtasks.

    Each part comes in order, so with a parallelism of 1 the whole sequence does.

    Parameters
    ----------
    start, end : int
        64-bit numbers; `end` is not below `start`.

    References
    ----------
    PyFlink ``NumberSequenceSource``.
    """

    boundedness = Boundedness.BOUNDED

    def __init__(self, start: int, end: int) -> None:
        if not -(2**63) <= start <= end < 2**63:
            raise ValueError(f"a sequence goes from a 64-bit number up to another, got {start} to {end}")
        self.start = start
        self.end = end

    def get_produced_type(self) -> TypeInformation:
        """Return LONG."""
        return Types.LONG()

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """One part for each subtask."""
        return QueueEnumerator(context, split_sequence(self.start, self.end, context.parallelism))

    def restore_enumerator(self, context: EnumeratorContext, checkpoint: Sequence[SourceSplit]) -> SplitEnumerator:
        """The parts that nobody had."""
        return QueueEnumerator(context, checkpoint)

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Count."""
        return NumberSequenceReader(context)


class NumberSequenceReader(SplitReader):
    """Reads parts of a sequence."""

    def open_split(self, split: NumberSequenceSplit) -> Iterator[int]:
        """Count from its first number to its last."""
        return iter(range(split.start, split.end + 1))

    def split_after(self, split: NumberSequenceSplit, record_count: int) -> NumberSequenceSplit:
        """The rest."""
        return replace(split, start=split.start + record_count)
