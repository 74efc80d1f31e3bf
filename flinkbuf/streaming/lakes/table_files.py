"""The files of a table that grows: what looks for new ones, and readers that know how many rows they have read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from flinkbuf.records.arrow_batches import records_of
from flinkbuf.streaming.sources.source import EnumeratorContext, ReaderContext, SplitEnumerator
from flinkbuf.streaming.sources.split_reader import BatchReader, SplitReader
from flinkbuf.types.type_information import RowTypeInfo

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkbuf.streaming.sources.source import SourceSplit

ROWS_OF_RECORDS = 1024  # rows that are read at once where records are made of them
BYTES_OF_RECORDS = 32 << 20


@dataclass(frozen=True)
class TablePosition:
    """How far a table was looked at: `place` says what comes next, in the words of its kind; and splits nobody has."""

    place: Any
    splits: tuple[Any, ...]


class TableWatcher(SplitEnumerator):
    """Looks for what a table has got in intervals; readers wait while there is nothing to do.

    Parameters
    ----------
    context : EnumeratorContext
    look : callable
        Takes a place, and returns the next one with the splits in between.
    position : TablePosition
        Where to begin.
    interval_ms : int
    """

    def __init__(
        self,
        context: EnumeratorContext,
        look: Callable[[Any], TablePosition],
        position: TablePosition,
        interval_ms: int,
    ) -> None:
        self._context = context
        self._look_from = look
        self._place = position.place
        self._splits = deque(position.splits)
        self._interval_ms = interval_ms
        self._waiting: deque[int] = deque()  # readers that have nothing to do

    def start(self) -> None:
        """Look now, so that what is wrong ends the job at once, and then at each interval."""
        self.handle_found(self._look(), None)
        self._context.call_async(self._look, self.handle_found, self._interval_ms, self._interval_ms)

    def _look(self) -> TablePosition:
        return self._look_from(self._place)

    def handle_found(self, found: TablePosition | None, error: BaseException | None) -> None:
        """Add the files that there are now."""
        if error is not None:
            raise error
        assert found is not None, "or there is an error"
        self._place = found.place
        self._splits.extend(found.splits)
        self._give()

    def handle_split_request(self, subtask_index: int, host: str | None) -> None:
        """Give the next split, or remember the reader."""
        self._waiting.append(subtask_index)
        self._give()

    def add_splits_back(self, splits: Sequence[SourceSplit], subtask_index: int) -> None:
        """Give these splits out next, and not to the reader that failed."""
        self._splits.extendleft(reversed(splits))
        self._waiting = deque(waiting for waiting in self._waiting if waiting != subtask_index)
        self._give()

    def _give(self) -> None:
        # One that failed while it waited asks again when it is back.
        self._waiting = deque(each for each in self._waiting if each in self._context.registered_readers)
        while self._splits and self._waiting:
            self._context.assign_split(self._splits.popleft(), self._waiting.popleft())

    def snapshot_state(self, checkpoint_id: int) -> TablePosition:
        """Return the place, and the splits not assigned yet."""
        return TablePosition(self._place, tuple(self._splits))


class ReadsFiles(Protocol):
    """Says how a split is read: behind the rows that it has ``skipped``."""

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file that were not read before."""
        ...


class TableFileReader(SplitReader):
    """Reads files as records."""

    def __init__(self, context: ReaderContext, files: ReadsFiles, row_type: RowTypeInfo) -> None:
        super().__init__(context)
        self._files, self._row_type = files, row_type

    def open_split(self, split: Any) -> Iterator[object]:
        """Return the rows of a file."""
        return records_of(self._files.read(split), self._row_type.codec)

    def split_after(self, split: Any, record_count: int) -> SourceSplit:
        """Return the same file, with more rows to skip."""
        return replace(split, skipped=split.skipped + record_count)


class TableColumnFileReader(BatchReader):
    """Reads files as batches."""

    def __init__(self, context: ReaderContext, files: ReadsFiles) -> None:
        super().__init__(context)
        self._files = files

    def read_batches(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Return the rows of a file."""
        return self._files.read(split)

    def split_behind(self, split: Any, row_count: int) -> SourceSplit:
        """Return the same file, with more rows to skip."""
        return replace(split, skipped=split.skipped + row_count)
