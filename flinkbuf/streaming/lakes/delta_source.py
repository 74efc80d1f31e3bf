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
from flinkbuf.streaming.lakes.table_files import TablePosition, TableRowSource, TableSourceOptions
from flinkbuf.streaming.sources.wanted_columns import batch_in

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


_READ_BUFFER = 1 << 20  # bytes of a column that are read at once


@dataclass(frozen=True)
class DeltaSourceOptions(TableSourceOptions):
    """What a source of a Delta table was built with.

    Attributes
    ----------
    version : int or datetime, optional
        The table as it was then; None: as it is when the job begins.
    starting_version : int, optional
        What this version and later ones append, and nothing that was there before.
    """

    place: DeltaPlace
    version: int | datetime | None = None
    starting_version: int | None = None


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


class DeltaRowSource(TableRowSource):
    """Reads rows; `flinkbuf.datastream.connectors.delta.DeltaSource` is its face."""

    options: DeltaSourceOptions

    def beginning(self) -> TablePosition:
        """Return the files of the table as it is, or was, or where its log is read from."""
        options = self.options
        table = opened(options)
        if options.starting_version is not None:
            if options.interval_ms is None:
                return DeltaLog(options).read(options.starting_version, table.version())
            return TablePosition(options.starting_version, ())
        check_readable(table.protocol().reader_features, table.metadata().configuration, options.place.uri)
        schema, names = arrow_schema_of(table.schema()), table.metadata().partition_columns
        splits = tuple(DeltaSplit(each, table.version()) for each in files_of(table, schema, names))
        return TablePosition(table.version() + 1, splits)

    def look_from(self, place: int) -> TablePosition:
        """Return what a version and those behind it have appended."""
        return DeltaLog(self.options).read(place)

    def reads(self, schema: pa.Schema, max_rows: int, max_bytes: int) -> DeltaFileReads:
        """Return what reads data files."""
        return DeltaFileReads(self.options.place, schema, max_rows, max_bytes)

    def without_place(self) -> DeltaTableError:
        """Return the error of a checkpoint whose source had an end."""
        return DeltaTableError(
            "the checkpoint is of a DeltaSource that had an end, and knows no version of the log to go on with: "
            "build the source as it was, or begin with set_starting_version(...) and another uid"
        )


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
        self._starting_version = options.starting_version  # which may be one that comes later

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
        """Refuse to wait for a version that is not there any more, or of a table that is another one by now."""
        table = self._place.open()
        last = -1 if table is None else table.version()
        if last < number - 1 and number != self._starting_version:
            raise DeltaTableError(
                f"Delta table {self._place.uri} is at version {last}, and this source has read version {number - 1}: "
                "another table is in its place, or there is none; begin with the table as it is, with another uid"
            )
        if table is not None and last >= number:
            if read_log_version(self._place.file_system(), self._place.uri, number) is not None:
                return  # it has come just now
            raise DeltaTableError(
                f"version {number} of Delta table {self._place.uri} is not in its log any more, which goes to version "
                f"{last}: files of its log are removed after delta.logRetentionDuration; begin with the "
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
                columns.append(with_all_fields(batch.column(each.name), each.type))
            else:
                columns.append(pa.nulls(batch.num_rows, each.type))
        return batch_in(where, columns, self.schema)


def with_all_fields(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return a column of a file that is older than some fields of a struct in it; they are null there.

    Examples
    --------
    >>> import pyarrow as pa
    >>> old = pa.array([{"a": 1}, None])
    >>> with_all_fields(old, pa.struct([("a", pa.int64()), ("b", pa.string())])).to_pylist()
    [{'a': 1, 'b': None}, None]
    """
    import pyarrow as pa
    from pyarrow import types

    found = column.type
    if found.equals(wanted):
        return column
    if types.is_list(found) and types.is_list(wanted) and types.is_nested(wanted.value_type):
        plain = column.take(pa.array(range(len(column)), pa.int64()))  # of a slice, what is in it
        values = with_all_fields(plain.values, wanted.value_type)
        type_ = pa.list_(wanted.value_field.with_type(values.type))
        return pa.ListArray.from_arrays(plain.offsets, values, type_, mask=plain.is_null())
    if not (types.is_struct(found) and types.is_struct(wanted)):
        return column
    has = {each.name: index for index, each in enumerate(found)}
    if not has.keys() <= {each.name for each in wanted}:
        return column
    parts = [
        with_all_fields(column.field(has[each.name]), each.type)
        if each.name in has
        else pa.nulls(len(column), each.type)
        for each in wanted
    ]
    fields = [each.with_type(part.type) for each, part in zip(wanted, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=column.is_null())
