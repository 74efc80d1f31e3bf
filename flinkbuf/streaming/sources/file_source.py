"""A source of files: those that are there, or whatever comes into a directory.

Flink: FileSource, StaticFileSplitEnumerator, ContinuousFileSplitEnumerator, FileSourceReader.
"""

from __future__ import annotations

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
from flinkbuf.streaming.sources.split_reader import (
    BatchReader,
    QueueEnumerator,
    SplitReader,
    WatchingEnumerator,
    records_behind,
)
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    import pyarrow
    import pyarrow as pa

    from flinkbuf.streaming.sources.source import SourceSplit


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


class FileWatcher(WatchingEnumerator):
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
        super().__init__(context, discover, interval_ms)
        self._splits_of = splits_of
        self._seen: set[str] = set()

    def new_splits(self, found: list[tuple[str, int]]) -> Iterator[FileSplit]:
        """Yield those of the files that the directories hold now and did not before."""
        for path, size in found:
            if path not in self._seen:
                self._seen.add(path)
                yield from self._splits_of(path, size)

    def snapshot_state(self, checkpoint_id: int) -> tuple[list[str], list[SourceSplit]]:
        """Return the files that were found, and the splits not assigned yet."""
        return sorted(self._seen), list(self._splits)

    def restore(self, checkpoint: tuple[Sequence[str], Sequence[FileSplit]]) -> None:
        """Go on from a snapshot."""
        seen, splits = checkpoint
        self._seen.update(seen)
        self._splits.extend(splits)
