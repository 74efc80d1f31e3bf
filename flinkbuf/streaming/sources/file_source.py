"""A source of files: those that are there, or whatever comes into a directory.

Flink: FileSource, StaticFileSplitEnumerator, ContinuousFileSplitEnumerator, FileSourceReader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkbuf.streaming.sources.file_format import BulkFormat, ColumnFormat, StreamFormat
from flinkbuf.streaming.sources.file_split import DEFAULT_SPLIT_SIZE, FileSplit, find_files, split_file
from flinkbuf.streaming.sources.source import (
    Boundedness,
    EnumeratorContext,
    ReaderContext,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flinkbuf.streaming.sources.split_reader import BatchReader, QueueEnumerator, SplitReader, records_behind
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    import pyarrow
    import pyarrow as pa


@dataclass(frozen=True)
class FileSourceOptions:
    """What a source of files was built with."""

    format: StreamFormat | BulkFormat
    paths: tuple[str, ...]
    split_size: int | None = DEFAULT_SPLIT_SIZE  # bytes; None: a file is read by one reader
    discovery_interval_ms: int | None = None  # None: bounded
    order: Callable[[list[FileSplit]], list[FileSplit]] | None = None  # in which splits are given out


class FileRangeSource(Source):
    """Reads the ranges of files; `flinkbuf.datastream.connectors.file_system.FileSource` is its face."""

    def __init__(self, options: FileSourceOptions) -> None:
        self.options = options

    @property
    def boundedness(self) -> Boundedness:  # type: ignore[override]
        """Return bounded, unless the source watches its directories."""
        return Boundedness.BOUNDED if self.options.discovery_interval_ms is None else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the format's records."""
        return self.options.format.get_produced_type()

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Find the files: now, or now and again."""
        if self.options.discovery_interval_ms is None:
            splits = [split for found in find_files(self.options.paths) for split in self._splits_of(*found)]
            return QueueEnumerator(context, splits if self.options.order is None else self.options.order(splits))
        return FileWatcher(context, self._discover, self._splits_of, self.options.discovery_interval_ms)

    def restore_enumerator(self, context: EnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        """Go on with splits not assigned, and with files that were not found before."""
        if self.options.discovery_interval_ms is None:
            return QueueEnumerator(context, checkpoint)
        watcher = FileWatcher(context, self._discover, self._splits_of, self.options.discovery_interval_ms)
        watcher.restore(checkpoint)
        return watcher

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Read splits with the format."""
        return FileReader(context, self.options.format)

    def of_batches(self, wanted: object, max_rows: int, max_bytes: int) -> tuple[FileRangeSource, pa.Schema] | None:
        """Return a source of the same rows as batches of columns, and their schema; None: the format has none."""
        if type(self).create_reader is not FileRangeSource.create_reader:
            return None  # a subclass gives other rows
        columns = self.options.format.of_batches(wanted, max_rows, max_bytes)
        return None if columns is None else (FileColumnSource(self.options, columns), columns.schema)

    def _discover(self) -> list[tuple[str, int]]:
        return list(find_files(self.options.paths))

    def _splits_of(self, path: str, size: int) -> list[FileSplit]:
        split_size = self.options.split_size if self.options.format.is_splittable else None
        return split_file(path, size, split_size)


class FileReader(SplitReader):
    """Reads ranges of files."""

    def __init__(self, context: ReaderContext, format: StreamFormat | BulkFormat) -> None:
        super().__init__(context)
        self._format = format

    def open_split(self, split: FileSplit) -> Iterator[object]:
        """Return the records of the range but those that were read before a restore."""
        return records_behind(self._format.read_split(split), split.skipped, split.path)

    def split_after(self, split: FileSplit, record_count: int) -> FileSplit:
        """Return the same range, with more records to skip."""
        return replace(split, skipped=split.skipped + record_count)


class FileColumnSource(FileRangeSource):
    """Reads the ranges of files as batches of columns. Its checkpoints are those of a source of the same rows."""

    def __init__(self, options: FileSourceOptions, columns: ColumnFormat) -> None:
        super().__init__(options)
        self._columns = columns

    def get_produced_type(self) -> None:
        """Return None: the records are batches."""

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Read splits as batches."""
        return FileColumnReader(context, self._columns)


class FileColumnReader(BatchReader):
    """Reads ranges of files as batches."""

    def __init__(self, context: ReaderContext, columns: ColumnFormat) -> None:
        super().__init__(context)
        self._columns = columns

    def read_batches(self, split: FileSplit) -> Iterator[pyarrow.RecordBatch]:
        """Return the batches of the range, without the rows that were read before a restore."""
        return self._columns.read_batches(split)

    def split_behind(self, split: FileSplit, row_count: int) -> FileSplit:
        """Return the same range, with more rows to skip."""
        return replace(split, skipped=split.skipped + row_count)


class FileWatcher(SplitEnumerator):
    """Looks for files that were not there before, and gives their splits to readers that have nothing to do.

    A file is read as it is when it is found: its writer gives it a hidden name first and renames it.
    """

    def __init__(
        self,
        context: EnumeratorContext,
        discover: Callable[[], list[tuple[str, int]]],
        splits_of: Callable[[str, int], list[FileSplit]],
        interval_ms: int,
    ) -> None:
        self._context = context
        self._discover = discover
        self._splits_of = splits_of
        self._interval_ms = interval_ms
        self._seen: set[str] = set()
        self._splits: deque[FileSplit] = deque()
        self._waiting: deque[int] = deque()  # readers that have nothing to do

    def start(self) -> None:
        """Look now, so that a path that is missing ends the job at once, and then at each interval."""
        self.handle_files(self._discover(), None)
        self._context.call_async(self._discover, self.handle_files, self._interval_ms, self._interval_ms)

    def handle_files(self, files: list[tuple[str, int]], error: BaseException | None) -> None:
        """Add the files that the directories hold now."""
        if error is not None:
            raise error
        for path, size in files:
            if path not in self._seen:
                self._seen.add(path)
                self._splits.extend(self._splits_of(path, size))
        self._give()

    def handle_split_request(self, subtask_index: int, host: str | None) -> None:
        """Give the next split, or remember the reader."""
        self._waiting.append(subtask_index)
        self._give()

    def add_splits_back(self, splits: Sequence[FileSplit], subtask_index: int) -> None:
        """Give these splits out next, and not to the reader that failed."""
        self._splits.extendleft(reversed(splits))
        self._waiting = deque(waiting for waiting in self._waiting if waiting != subtask_index)
        self._give()

    def _give(self) -> None:
        # One that failed while it waited asks again when it is back.
        self._waiting = deque(each for each in self._waiting if each in self._context.registered_readers)
        while self._splits and self._waiting:
            self._context.assign_split(self._splits.popleft(), self._waiting.popleft())

    def snapshot_state(self, checkpoint_id: int) -> tuple[list[str], list[FileSplit]]:
        """Return the files that were found, and the splits not assigned yet."""
        return sorted(self._seen), list(self._splits)

    def restore(self, checkpoint: tuple[Sequence[str], Sequence[FileSplit]]) -> None:
        """Go on from a snapshot."""
        seen, splits = checkpoint
        self._seen.update(seen)
        self._splits.extend(splits)
