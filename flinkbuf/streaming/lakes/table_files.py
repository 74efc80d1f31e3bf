"""A table in files that grows: a source of it, what looks for new files, and readers that know how far they are."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from flinkbuf.records.arrow_batches import record_type, records_of
from flinkbuf.streaming.lakes.table_commits import LakeTableError
from flinkbuf.streaming.sources.source import (
    Boundedness,
    EnumeratorContext,
    ReaderContext,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flinkbuf.streaming.sources.split_reader import BatchReader, QueueEnumerator, SplitReader, WatchingEnumerator
from flinkbuf.streaming.sources.wanted_columns import wanted_schema
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


class TableWatcher(WatchingEnumerator):
    """Looks for what a table has got in intervals.

    Parameters
    ----------
    context : EnumeratorContext
    look_from : callable
        Takes a place, and returns the next one with the splits in between.
    position : TablePosition
        Where to begin.
    interval_ms : int
    """

    def __init__(
        self,
        context: EnumeratorContext,
        look_from: Callable[[Any], TablePosition],
        position: TablePosition,
        interval_ms: int,
    ) -> None:
        super().__init__(context, lambda: look_from(self._place), interval_ms, position.splits)
        self._place = position.place

    def new_splits(self, found: TablePosition) -> tuple[Any, ...]:
        """Return the splits of the files that came since the last look."""
        self._place = found.place
        return found.splits

    def snapshot_state(self, checkpoint_id: int) -> TablePosition:
        """Return the place, and the splits not assigned yet."""
        return TablePosition(self._place, tuple(self._splits))


class ReadsFiles(Protocol):
    """Says how a split is read: behind the rows that it has ``skipped``."""

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file that were not read before."""
        ...


@dataclass(frozen=True, kw_only=True)
class TableSourceOptions:
    """What sources of all kinds of tables are built with.

    Attributes
    ----------
    interval_ms : int, optional
        How often it looks for what is new; None: the source ends.
    columns : tuple of str, optional
        That are read; None: all.
    schema : pyarrow.Schema, optional
        Of the rows.
    """

    interval_ms: int | None = None
    columns: tuple[str, ...] | None = None
    schema: pa.Schema | None = None


class TableRowSource(Source):
    """Reads the rows of a table, each of whose data files is a split; a subclass knows the kind of table."""

    def __init__(self, options: TableSourceOptions) -> None:
        assert options.schema is not None, "the builder has looked at the table"
        self.options = options
        self._schema = options.schema
        row_type = record_type(options.schema)
        assert isinstance(row_type, RowTypeInfo), "of a schema"
        self._row_type = row_type
        self._batch_reads: ReadsFiles | None = None  # None: rows are records

    @abstractmethod
    def beginning(self) -> TablePosition:
        """Return the files that are read first; of a source that ends, all."""

    @abstractmethod
    def look_from(self, place: Any) -> TablePosition:
        """Return what the table has got behind a place."""

    @abstractmethod
    def reads(self, schema: pa.Schema, max_rows: int, max_bytes: int) -> ReadsFiles:
        """Return what reads files as batches with a schema."""

    @abstractmethod
    def without_place(self) -> LakeTableError:
        """Return the error of a checkpoint whose source had an end, and so knows no place to go on from."""

    @property
    def boundedness(self) -> Boundedness:  # type: ignore[override]
        """Return bounded, unless the source looks for what is new."""
        return Boundedness.BOUNDED if self.options.interval_ms is None else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> RowTypeInfo | None:
        """Return the type of the rows; None: the records are batches."""
        return self._row_type if self._batch_reads is None else None

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Find the files of the table as it is, or was."""
        position = self.beginning()
        if self.options.interval_ms is None:
            return QueueEnumerator(context, position.splits)
        return TableWatcher(context, self.look_from, position, self.options.interval_ms)

    def restore_enumerator(self, context: EnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        """Go on with files that nobody had, and with what is behind them."""
        is_position = isinstance(checkpoint, TablePosition)
        if self.options.interval_ms is None:
            return QueueEnumerator(context, checkpoint.splits if is_position else checkpoint)
        if not is_position:
            raise self.without_place()
        return TableWatcher(context, self.look_from, checkpoint, self.options.interval_ms)

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Read rows as records, or as batches."""
        if self._batch_reads is not None:
            return TableColumnFileReader(context, self._batch_reads)
        return TableFileReader(context, self.reads(self._schema, ROWS_OF_RECORDS, BYTES_OF_RECORDS), self._row_type)

    def of_batches(self, wanted: object, max_rows: int, max_bytes: int) -> tuple[TableRowSource, pa.Schema]:
        """Return a source of the same rows as batches of the wanted columns, and their schema.

        Its checkpoints are those of this one.
        """
        schema = wanted_schema(wanted, self._row_type, self._schema)
        source = copy.copy(self)
        source._batch_reads = self.reads(schema, max_rows, max_bytes)
        return source, schema


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
