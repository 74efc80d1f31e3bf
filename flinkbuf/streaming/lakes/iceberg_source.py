"""The rows of an Iceberg table: as it is in one snapshot, and what later snapshots append to it.

Each data file is a split. A snapshot that takes rows away or changes some is refused; one that only puts the same rows
into other files is passed over. Flink: IcebergSource.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkbuf.errors import CorruptDataError
from flinkbuf.records.arrow_batches import record_type
from flinkbuf.streaming.lakes.iceberg_table import IcebergFile, IcebergPlace, IcebergTableError
from flinkbuf.streaming.lakes.table_files import (
    BYTES_OF_RECORDS,
    ROWS_OF_RECORDS,
    TableColumnFileReader,
    TableFileReader,
    TablePosition,
    TableWatcher,
)
from flinkbuf.streaming.sources.source import (
    Boundedness,
    EnumeratorContext,
    ReaderContext,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flinkbuf.streaming.sources.split_reader import QueueEnumerator, rows_behind
from flinkbuf.streaming.sources.wanted_columns import batch_in, wanted_schema
from flinkbuf.types.type_information import RowTypeInfo

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import FileScanTask, Table


@dataclass(frozen=True)
class IcebergSourceOptions:
    """What a source of an Iceberg table was built with.

    Attributes
    ----------
    snapshot_id, timestamp_ms : int, optional
        The table as it was then; None: as it is when the job begins.
    start_snapshot_id : int, optional
        What snapshots behind this one append, and nothing that was there before.
    interval_ms : int, optional
        How often it looks for new snapshots; None: the source ends.
    schema : pyarrow.Schema, optional
        Of the rows.
    table_schema : str
        The same in the words of Iceberg, with the numbers of the columns, by which they are found in files.
    """

    place: IcebergPlace
    snapshot_id: int | None = None
    timestamp_ms: int | None = None
    start_snapshot_id: int | None = None
    interval_ms: int | None = None
    columns: tuple[str, ...] | None = None
    schema: pa.Schema | None = None
    table_schema: str = ""


@dataclass(frozen=True)
class IcebergSplit:
    """A data file with the files of its deletes, behind its first rows."""

    file: IcebergFile
    deletes: tuple[IcebergFile, ...] = ()
    skipped: int = 0

    @property
    def split_id(self) -> str:
        """Return a name that is unique among the splits of the source."""
        return self.file.path


class IcebergRowSource(Source):
    """Reads rows; `flinkbuf.datastream.connectors.iceberg.IcebergSource` is its face."""

    def __init__(self, options: IcebergSourceOptions) -> None:
        assert options.schema is not None, "the builder has looked at the table"
        self.options = options
        row_type = record_type(options.schema)
        assert isinstance(row_type, RowTypeInfo), "of a schema"
        self._row_type = row_type

    @property
    def boundedness(self) -> Boundedness:  # type: ignore[override]
        """Return bounded, unless the source looks for new snapshots."""
        return Boundedness.BOUNDED if self.options.interval_ms is None else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> RowTypeInfo | None:
        """Return the type of the rows."""
        return self._row_type

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Find the files of the table as it is, or was."""
        options = self.options
        table = options.place.load()
        if options.start_snapshot_id is not None:
            position = TablePosition(options.start_snapshot_id, ())
            if options.interval_ms is None:
                position = appended(table, options.place, options.start_snapshot_id)
        else:
            snapshot_id = beginning(table, options)
            position = TablePosition(snapshot_id, files_of(table, options.place, snapshot_id))
        if options.interval_ms is None:
            return QueueEnumerator(context, position.splits)
        return TableWatcher(context, self._look_from, position, options.interval_ms)

    def restore_enumerator(self, context: EnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        """Go on with files that nobody had, and with snapshots that were not read."""
        if self.options.interval_ms is None:
            splits = checkpoint.splits if isinstance(checkpoint, TablePosition) else checkpoint
            return QueueEnumerator(context, splits)
        if not isinstance(checkpoint, TablePosition):
            raise IcebergTableError(
                "the checkpoint is of an IcebergSource that had an end, and knows no snapshot to go on behind: build "
                "the source as it was, or begin with set_start_snapshot_id(...) and another uid"
            )
        return TableWatcher(context, self._look_from, checkpoint, self.options.interval_ms)

    def _look_from(self, snapshot_id: int | None) -> TablePosition:
        return appended(self.options.place.load(), self.options.place, snapshot_id)

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Read rows as records."""
        assert self.options.schema is not None
        reads = IcebergFileReads(self.options, self.options.schema, ROWS_OF_RECORDS, BYTES_OF_RECORDS)
        return TableFileReader(context, reads, self._row_type)

    def of_batches(self, wanted: object, max_rows: int, max_bytes: int) -> tuple[IcebergColumnSource, pa.Schema]:
        """Return a source of the same rows as batches of the wanted columns, and their schema."""
        assert self.options.schema is not None
        schema = wanted_schema(wanted, self._row_type, self.options.schema)
        return IcebergColumnSource(self.options, IcebergFileReads(self.options, schema, max_rows, max_bytes)), schema


class IcebergColumnSource(IcebergRowSource):
    """Reads a table as batches of columns. Its checkpoints are those of a source of the same rows."""

    def __init__(self, options: IcebergSourceOptions, reads: IcebergFileReads) -> None:
        super().__init__(options)
        self._reads = reads

    def get_produced_type(self) -> None:
        """Return None: the records are batches."""

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Read rows as batches."""
        return TableColumnFileReader(context, self._reads)


def beginning(table: Table, options: IcebergSourceOptions) -> int | None:
    """Return the snapshot that a source begins with; None: the table has none yet.

    Raises
    ------
    IcebergTableError
        If the one that was asked for is not there.
    """
    if options.timestamp_ms is not None:
        found = table.snapshot_as_of_timestamp(options.timestamp_ms)
        if found is None:
            raise IcebergTableError(f"{options.place} had no snapshot yet at {options.timestamp_ms} ms since 1970")
        return found.snapshot_id
    if options.snapshot_id is not None:
        if table.snapshot_by_id(options.snapshot_id) is None:
            raise IcebergTableError(f"{options.place} has no snapshot {options.snapshot_id}, or it has expired")
        return options.snapshot_id
    current = table.current_snapshot()
    return None if current is None else current.snapshot_id


def files_of(table: Table, place: IcebergPlace, snapshot_id: int | None) -> tuple[IcebergSplit, ...]:
    """Return all data files of a snapshot."""
    if snapshot_id is None:
        return ()
    return _splits(table.scan(snapshot_id=snapshot_id).plan_files, place)


def appended(table: Table, place: IcebergPlace, behind: int | None) -> TablePosition:
    """Return the files that snapshots behind one have appended, up to the current one; None: behind none.

    Raises
    ------
    IcebergTableError
        If a snapshot does not only append, or the one to begin behind is none of the table's ancestors any more.
    """
    from pyiceberg.table.snapshots import Operation, ancestors_of

    current = table.current_snapshot()
    if current is None or current.snapshot_id == behind:
        return TablePosition(behind, ())
    oldest = None
    for snapshot in ancestors_of(current, table.metadata):
        if snapshot.snapshot_id == behind:
            break
        oldest = snapshot
        operation = None if snapshot.summary is None else snapshot.summary.operation
        if operation not in (Operation.APPEND, Operation.REPLACE):
            said = "unknown" if operation is None else operation.value
            raise IcebergTableError(
                f"snapshot {snapshot.snapshot_id} of {place} ({said}) takes rows away or changes some, and "
                "IcebergSource reads what is appended only: begin behind it with set_start_snapshot_id("
                f"{snapshot.snapshot_id}), or read the table as it is then"
            )
    assert oldest is not None, "the current one is another"
    if oldest.parent_snapshot_id != behind:
        raise IcebergTableError(
            f"snapshot {behind} is not among those that {place} has come from: it has expired, or the table was rolled "
            "back; begin with the table as it is, or behind a later snapshot"
        )
    scan = table.incremental_append_scan(
        from_snapshot_id_exclusive=behind, to_snapshot_id_inclusive=current.snapshot_id
    )
    return TablePosition(current.snapshot_id, _splits(scan.plan_files, place))


def _splits(plan_files: Any, place: IcebergPlace) -> tuple[IcebergSplit, ...]:
    try:
        tasks: Iterable[FileScanTask] = list(plan_files())
    except (ValueError, NotImplementedError) as error:  # such as deletes by equality
        raise IcebergTableError(f"{place} cannot be read: {error}") from error
    splits = []
    for task in tasks:
        spec_id = task.file.spec_id
        deletes = tuple(IcebergFile.of(each, spec_id) for each in task.delete_files)
        splits.append(IcebergSplit(IcebergFile.of(task.file, spec_id), deletes))
    return tuple(sorted(splits, key=lambda each: each.split_id))


@dataclass(frozen=True)
class IcebergFileReads:
    """Says how data files are read as batches.

    Attributes
    ----------
    options : IcebergSourceOptions
    schema : pyarrow.Schema
        Of the batches.
    max_rows, max_bytes : int
        Of a batch.
    """

    options: IcebergSourceOptions
    schema: pa.Schema
    max_rows: int
    max_bytes: int

    def read(self, split: IcebergSplit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file that were not read before."""
        where = f"file {split.file.path} of {self.options.place}"
        for batch in rows_behind(self._batches(split, where), split.skipped, where):
            width = batch.nbytes / batch.num_rows
            row_count = max(1, min(self.max_rows, int(self.max_bytes / max(width, 1))))
            for start in range(0, batch.num_rows, row_count):
                columns = [batch.column(name) for name in self.schema.names]
                yield batch_in(where, [each.slice(start, row_count) for each in columns], self.schema)

    def _batches(self, split: IcebergSplit, where: str) -> Iterator[pa.RecordBatch]:
        from pyarrow import ArrowException
        from pyiceberg.exceptions import ResolveError
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files
        from pyiceberg.schema import Schema
        from pyiceberg.table import FileScanTask

        table = self.options.place.load()  # which knows the partitions of any file that it has
        projected = Schema.model_validate_json(self.options.table_schema).select(*self.schema.names)
        task = FileScanTask(split.file.to_data_file(), {each.to_data_file() for each in split.deletes})
        scan = ArrowScan(table.metadata, table.io, projected, AlwaysTrue())
        try:
            deletes = _read_all_delete_files(table.io, [task])
            # What to_record_batches() calls, which would have all batches of the file in memory.
            for batch in scan._record_batches_from_scan_tasks_and_deletes([task], deletes):
                if batch.num_rows:
                    yield batch
        except (ArrowException, ResolveError) as error:
            raise CorruptDataError(f"{where}: {error}") from error
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{where} is gone, though a snapshot has it that is to be read: snapshots that expire take their files "
                "with them"
            ) from error
