"""The rows of a Delta table: as it is in one version, and what later versions append to it.

Each data file is a split. A version of the log that takes rows away or changes some is refused; one that only writes
the same rows otherwise, such as OPTIMIZE does, is passed over. Flink: DeltaSource.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from flinkbuf.errors import CorruptDataError
from flinkbuf.records.arrow_batches import record_type
from flinkbuf.streaming.lakes.delta_table import (
    AddedFile,
    DeltaPlace,
    DeltaTableError,
    arrow_schema_of,
    check_readable,
    files_of,
    partition_value,
    read_log_version,
)
from flinkbuf.streaming.lakes.parquet_batches import batches_behind
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
from flinkbuf.streaming.sources.split_reader import QueueEnumerator
from flinkbuf.streaming.sources.wanted_columns import batch_in, wanted_schema
from flinkbuf.types.type_information import RowTypeInfo

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


_READ_BUFFER = 1 << 20  # bytes of a column that are read at once


@dataclass(frozen=True)
class DeltaSourceOptions:
    """What a source of a Delta table was built with.

    Attributes
    ----------
    version : int or datetime, optional
        The table as it was then; None: as it is when the job begins.
    starting_version : int, optional
        What this version and later ones append, and nothing that was there before.
    interval_ms : int, optional
        How often it looks for new versions; None: the source ends.
    schema : pyarrow.Schema, optional
        Of the rows.
    """

    place: DeltaPlace
    version: int | datetime | None = None
    starting_version: int | None = None
    interval_ms: int | None = None
    columns: tuple[str, ...] | None = None
    schema: pa.Schema | None = None


@dataclass(frozen=True)
class DeltaSplit:
    """A data file, behind its first rows."""

    file: AddedFile
    version: int
    skipped: int = 0

    @property
    def path(self) -> str:
        """Return where the file is, below the table."""
        return self.file.path

    @property
    def split_id(self) -> str:
        """Return a name that is unique among the splits of the source: a version may have a file of an older one."""
        return f"{self.version}:{self.path}"


class DeltaRowSource(Source):
    """Reads rows; `flinkbuf.datastream.connectors.delta.DeltaSource` is its face."""

    def __init__(self, options: DeltaSourceOptions) -> None:
        assert options.schema is not None, "the builder has looked at the table"
        self.options = options
        row_type = record_type(options.schema)
        assert isinstance(row_type, RowTypeInfo), "of a schema"
        self._row_type = row_type

    @property
    def boundedness(self) -> Boundedness:  # type: ignore[override]
        """Return bounded, unless the source looks for new versions."""
        return Boundedness.BOUNDED if self.options.interval_ms is None else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> RowTypeInfo | None:
        """Return the type of the rows."""
        return self._row_type

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Find the files of the table as it is, or was."""
        options = self.options
        table = opened(options)
        log = DeltaLog(options)
        splits: list[DeltaSplit] = []
        if options.starting_version is None:
            check_readable(table.protocol().reader_features, table.metadata().configuration, options.place.uri)
            schema, names = arrow_schema_of(table.schema()), table.metadata().partition_columns
            splits = [DeltaSplit(each, table.version()) for each in files_of(table, schema, names)]
            position = TablePosition(table.version() + 1, tuple(splits))
        else:
            position = TablePosition(options.starting_version, ())
        if options.interval_ms is not None:
            return TableWatcher(context, log.read, position, options.interval_ms)
        if options.starting_version is not None:
            found = log.read(position.place, table.version())
            return QueueEnumerator(context, found.splits)
        return QueueEnumerator(context, position.splits)

    def restore_enumerator(self, context: EnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        """Go on with files that nobody had, and with versions that were not read."""
        if self.options.interval_ms is None:
            splits = checkpoint.splits if isinstance(checkpoint, TablePosition) else checkpoint
            return QueueEnumerator(context, splits)
        if not isinstance(checkpoint, TablePosition):
            raise DeltaTableError(
                "the checkpoint is of a DeltaSource that had an end, and knows no version of the log to go on with: "
                "build the source as it was, or begin with set_starting_version(...) and another uid"
            )
        return TableWatcher(context, DeltaLog(self.options).read, checkpoint, self.options.interval_ms)

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Read rows as records."""
        assert self.options.schema is not None
        files = DeltaFileReads(self.options.place, self.options.schema, ROWS_OF_RECORDS, BYTES_OF_RECORDS)
        return TableFileReader(context, files, self._row_type)

    def of_batches(self, wanted: object, max_rows: int, max_bytes: int) -> tuple[DeltaColumnSource, pa.Schema]:
        """Return a source of the same rows as batches of the wanted columns, and their schema."""
        assert self.options.schema is not None
        schema = wanted_schema(wanted, self._row_type, self.options.schema)
        return DeltaColumnSource(self.options, DeltaFileReads(self.options.place, schema, max_rows, max_bytes)), schema


class DeltaColumnSource(DeltaRowSource):
    """Reads a table as batches of columns. Its checkpoints are those of a source of the same rows."""

    def __init__(self, options: DeltaSourceOptions, files: DeltaFileReads) -> None:
        super().__init__(options)
        self._files = files

    def get_produced_type(self) -> None:
        """Return None: the records are batches."""

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Read rows as batches."""
        return TableColumnFileReader(context, self._files)


def opened(options: DeltaSourceOptions) -> DeltaTable:
    """Return the table that a source reads, in the version where it begins.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    table = options.place.open(options.version)
    if table is None:
        raise FileNotFoundError(f"there is no Delta table {options.place.uri}")
    return table


class DeltaLog:
    """The versions of a table's log, as a source of appends reads them."""

    def __init__(self, options: DeltaSourceOptions) -> None:
        assert options.schema is not None
        self._place = options.place
        self._schema = options.schema

    def read(self, first: int, last: int | None = None) -> TablePosition:
        """Return the files that versions have appended, `first` and those behind it that are there.

        Raises
        ------
        DeltaTableError
            If a version does not only append, or is not in the log any more.
        """
        files, uri = self._place.file_system(), self._place.uri
        splits: list[DeltaSplit] = []
        number = first
        while last is None or number <= last:
            version = read_log_version(files, uri, number)
            if version is None:
                self._check_gone(number)
                break
            if version.schema_text is not None:
                self._check_schema(version.schema_text, number)
            splits += [DeltaSplit(each, number) for each in version.added]
            number += 1
        return TablePosition(number, tuple(splits))

    def _check_gone(self, number: int) -> None:
        """Refuse to wait for a version that is not there any more."""
        table = self._place.open()
        if table is not None and table.version() >= number:
            if read_log_version(self._place.file_system(), self._place.uri, number) is not None:
                return  # it has come just now
            raise DeltaTableError(
                f"version {number} of Delta table {self._place.uri} is not in its log any more, which goes to version "
                f"{table.version()}: files of its log are removed after delta.logRetentionDuration; begin with the "
                "table as it is, or with a later version"
            )

    def _check_schema(self, text: str, number: int) -> None:
        from deltalake import Schema

        has = arrow_schema_of(Schema.from_json(text))
        for each in self._schema:
            if each.name not in has.names or not has.field(each.name).type.equals(each.type):
                raise DeltaTableError(
                    f"column {each.name!r} of Delta table {self._place.uri} is {each.type} to this source, and "
                    f"{has.field(each.name).type if each.name in has.names else 'gone'} since version {number}"
                )


@dataclass(frozen=True)
class DeltaFileReads:
    """Says how data files are read as batches.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the batches; a column that a file has not, because it is older, is null there.
    max_rows, max_bytes : int
        Of a batch.
    """

    place: DeltaPlace
    schema: pa.Schema
    max_rows: int
    max_bytes: int

    def read(self, split: DeltaSplit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file that were not read before."""
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        where = f"file {split.path} of Delta table {self.place.uri}"
        try:
            with self._open(split.path) as stream:
                with ParquetFile(stream, buffer_size=_READ_BUFFER, coerce_int96_timestamp_unit="us") as file:
                    has = file.schema_arrow.names
                    names = [name for name in self.schema.names if name in has] or has[:1]
                    groups = list(range(file.metadata.num_row_groups))
                    for batch in batches_behind(file, groups, names, split, self.max_rows, self.max_bytes):
                        yield self._batch_of(batch, split, where)
        except ArrowException as error:
            raise CorruptDataError(f"{where}: {error}") from error

    def _open(self, path: str) -> Any:
        try:
            return self.place.file_system().open_input_file(path)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"file {path} of Delta table {self.place.uri} is gone, though a version has it that is to be read: "
                "VACUUM removes what no version within its retention has"
            ) from None

    def _batch_of(self, batch: pa.RecordBatch, split: DeltaSplit, where: str) -> pa.RecordBatch:
        import pyarrow as pa

        partition, columns = dict(split.file.partition), []
        for each in self.schema:
            if each.name in partition:
                columns.append(pa.repeat(partition_value(partition[each.name], each.type), batch.num_rows))
            elif each.name in batch.schema.names:
                columns.append(batch.column(each.name))
            else:
                columns.append(pa.nulls(batch.num_rows, each.type))
        return batch_in(where, columns, self.schema)
