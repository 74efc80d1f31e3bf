"""The rows of an Iceberg table: as it is in one snapshot, and what later snapshots append to it.

Each data file is a split. A snapshot that takes rows away or changes some is refused; one that only puts the same rows
into other files is passed over. Flink: IcebergSource.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.lakes.iceberg_table import IcebergFile, IcebergPlace, IcebergTableError, is_first
from flinkbuf.streaming.lakes.table_files import TablePosition, TableRowSource, TableSourceOptions
from flinkbuf.streaming.sources.split_reader import rows_behind
from flinkbuf.streaming.sources.wanted_columns import batch_in

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import FileScanTask, Table


@dataclass(frozen=True)
class IcebergSourceOptions(TableSourceOptions):
    """What a source of an Iceberg table was built with.

    Attributes
    ----------
    snapshot_id, timestamp_ms : int, optional
        The table as it was then; None: as it is when the job begins.
    start_snapshot_id : int, optional
        What snapshots behind this one append, and nothing that was there before.
    table_schema : str
        The schema in the words of Iceberg, with the numbers of the columns, by which they are found in files.
    """

    place: IcebergPlace
    snapshot_id: int | None = None
    timestamp_ms: int | None = None
    start_snapshot_id: int | None = None
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


class IcebergRowSource(TableRowSource):
    """Reads rows; `flinkbuf.datastream.connectors.iceberg.IcebergSource` is its face."""

    options: IcebergSourceOptions

    def beginning(self) -> TablePosition:
        """Return the files of the table as it is, or was, or behind which snapshot it is read."""
        options = self.options
        table = options.place.load()
        if options.start_snapshot_id is not None:
            if options.interval_ms is None:
                return appended(table, options.place, options.start_snapshot_id)
            return TablePosition(options.start_snapshot_id, ())
        snapshot_id = beginning(table, options)
        return TablePosition(snapshot_id, files_of(table, options.place, snapshot_id))

    def look_from(self, place: int | None) -> TablePosition:
        """Return what snapshots behind one have appended."""
        return appended(self.options.place.load(), self.options.place, place)

    def reads(self, schema: pa.Schema, max_rows: int, max_bytes: int) -> IcebergFileReads:
        """Return what reads data files."""
        return IcebergFileReads(self.options, schema, max_rows, max_bytes)

    def without_place(self) -> IcebergTableError:
        """Return the error of a checkpoint whose source had an end."""
        return IcebergTableError(
            "the checkpoint is of an IcebergSource that had an end, and knows no snapshot to go on behind: build "
            "the source as it was, or begin with set_start_snapshot_id(...) and another uid"
        )


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
    if behind is None and not is_first(oldest, table.io):
        raise IcebergTableError(
            f"{place} was empty when this source has looked at it, and its first snapshots have expired since: begin "
            "with the table as it is, with another uid"
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
