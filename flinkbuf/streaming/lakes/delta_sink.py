"""Rows into a Delta table, exactly once: data files by the writers, and one commit for each checkpoint.

Writers put Parquet files into the table's directory, of which nobody knows before the log names them. The files that
all writers have ended before a checkpoint are one thing to commit, and that is in the checkpoint. When it counts, the
only committer of the job adds them to the log in one version, together with a transaction: the id of this sink in this
job, and the number of the checkpoint. A commit that is repeated after a failure finds its transaction in the log, and
is left out. Flink: DeltaSink, DeltaGlobalCommitter.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from flinkbuf.records.arrow_batches import arrow_schema
from flinkbuf.streaming.lakes.delta_table import (
    DeltaPlace,
    DeltaTableError,
    arrow_schema_of,
    check_partition_columns,
    check_writable,
    delta_schema_of,
    partition_text,
)
from flinkbuf.streaming.lakes.parquet_writer import ParquetColumnWriter, batch_as
from flinkbuf.streaming.lakes.table_commits import TableCommit, TableCommitter, TableSink, TableSinkOptions, TableWriter
from flinkbuf.streaming.sinks.sink import CommitterContext, GlobalCommitter, SinkWriter, WriterContext

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem

DEFAULT_FILE_BYTES = 128 << 20
_MAX_TEXT = 32  # characters of a string that statistics have


@dataclass(frozen=True)
class DeltaSinkOptions(TableSinkOptions):
    """What a sink of a Delta table was built with.

    Attributes
    ----------
    partition_by : tuple of str
        Of a table that is not there yet; None: as the table has it.
    file_bytes : int
        A data file that has come to this size is ended.
    """

    place: DeltaPlace
    partition_by: tuple[str, ...] | None = None
    file_bytes: int = DEFAULT_FILE_BYTES


@dataclass(frozen=True)
class DeltaFile:
    """A file that is complete and in no version of the table yet."""

    path: str
    size: int
    row_count: int
    partition: Mapping[str, str | None]
    stats: str
    written_ms: int


class DeltaTableSink(TableSink):
    """Writes rows; `flinkbuf.datastream.connectors.delta.DeltaSink` is its face."""

    options: DeltaSinkOptions

    def for_rows(self, found: pa.Schema | None) -> DeltaSinkOptions:
        """Return the options with what the table has, or is going to have."""
        return with_schema(self.options, found)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        """Write the files of one subtask."""
        return DeltaWriter(self.options, context)

    def create_global_committer(self, context: CommitterContext) -> GlobalCommitter:
        """Make what adds the files of all subtasks to the table."""
        return DeltaCommitter(self.options, context)


def with_schema(options: DeltaSinkOptions, found: pa.Schema | None) -> DeltaSinkOptions:
    """Return the options with what the table has, or is going to have.

    Parameters
    ----------
    options : DeltaSinkOptions
    found : pyarrow.Schema, optional
        Of the rows as the stream has them; None: known when they come.

    Raises
    ------
    ValueError, TypeError
        If such rows cannot be written, or nobody says what they are.
    DeltaTableError
        If the table has rules that nobody would keep.
    """
    place, partition_by = options.place, options.partition_by
    table = place.open()
    if table is not None:
        check_writable(table, place.uri)
        schema, has = arrow_schema_of(table.schema()), tuple(table.metadata().partition_columns)
        if partition_by is not None and partition_by != has:
            raise ValueError(
                f"Delta table {place.uri} is partitioned by {', '.join(has) or 'nothing'}, and set_partition_by() says "
                f"{', '.join(partition_by) or 'nothing'}"
            )
        partition_by = has
    else:
        wanted = found if options.row_type is None else arrow_schema(options.row_type)
        if wanted is None:
            raise ValueError(
                f"there is no Delta table {place.uri} yet, and what columns the stream has is known when they come: "
                "say set_row_type(...)"
            )
        schema = arrow_schema_of(delta_schema_of(wanted))
        partition_by = partition_by or ()
    check_partition_columns(schema, partition_by)
    if found is not None:
        _check_columns(found, schema)
    return replace(options, schema=schema, partition_by=partition_by)


def _check_columns(found: pa.Schema, schema: pa.Schema) -> None:
    import pyarrow as pa

    batch_as(pa.RecordBatch.from_pylist([], found), schema)


class DeltaWriter(TableWriter):
    """Writes the rows of one subtask into data files, which end with each checkpoint."""

    def __init__(self, options: DeltaSinkOptions, context: WriterContext) -> None:
        assert options.schema is not None and options.partition_by is not None, "sink_to() knows the stream"
        super().__init__(options.schema, options.record_type)
        self._partition_by = options.partition_by
        self._file_bytes = options.file_bytes
        self._subtask = context.subtask_index
        self._files = options.place.file_system()
        self._file_schema = _without(options.schema, self._partition_by)
        self._open: dict[tuple[str | None, ...], OpenDeltaFile] = {}
        self._ended: list[DeltaFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Put rows into the file of their partition."""
        for values, rows in parts_of(batch, self._partition_by):
            file = self._open.get(values)
            if file is None:
                file = self._open[values] = self._begin(values)
            if file.write(rows) >= self._file_bytes:
                self._end(values)

    def flush(self, end_of_input: bool) -> None:
        """End all files: what they have belongs to the next checkpoint, or to the end."""
        self.add_rows()
        for values in list(self._open):
            self._end(values)

    def prepare_commit(self) -> Sequence[DeltaFile]:
        """Return the files that were ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        """Remove files that no checkpoint knows of."""
        for file in self._open.values():
            file.abandon()
        for ended in self._ended:
            with contextlib.suppress(OSError):
                self._files.delete_file(ended.path)

    def _end(self, values: tuple[str | None, ...]) -> None:
        file = self._open.pop(values)
        try:
            self._ended.append(file.finish())
        except BaseException:
            file.abandon()
            raise

    def _begin(self, values: tuple[str | None, ...]) -> OpenDeltaFile:
        partition = dict(zip(self._partition_by, values, strict=True))
        name = f"part-{self._subtask:05d}-{uuid.uuid4()}.snappy.parquet"
        folders = [f"{quote(key, safe=' ')}={_folder_of(value)}" for key, value in partition.items()]
        return OpenDeltaFile(self._files, "/".join([*folders, name]), self._file_schema, partition)


def _folder_of(value: str | None) -> str:
    """Return a value as Hive names directories."""
    return "__HIVE_DEFAULT_PARTITION__" if value is None else quote(value, safe=" ").replace("~", "%7E")


def _without(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([each for each in schema if each.name not in names])


def parts_of(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """Yield the rows of each partition without its columns, and their values as text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"day": ["a", None, "a"], "n": [1, 2, 3]})
    >>> [(values, rows.to_pydict()) for values, rows in parts_of(batch, ["day"])]
    [(('a',), {'n': [1, 3]}), ((None,), {'n': [2]})]
    """
    import numpy as np
    import pyarrow as pa

    if not names:
        if batch.num_rows:
            yield (), batch
        return
    kept = batch.select([name for name in batch.schema.names if name not in names])
    numbers = np.zeros(batch.num_rows, np.int64)
    for name in names:
        codes = batch.column(name).dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        _, numbers = np.unique(numbers * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)
    for number in range(int(numbers.max(initial=-1)) + 1):
        rows = np.flatnonzero(numbers == number)
        values = tuple(partition_text(batch.column(name)[int(rows[0])], name) for name in names)
        yield values, kept.take(pa.array(rows))


class OpenDeltaFile:
    """A data file that is being written."""

    def __init__(self, files: FileSystem, path: str, schema: pa.Schema, partition: Mapping[str, str | None]) -> None:
        self._files = files
        self._path = path
        self._partition = partition
        self._schema = schema
        self._row_count = 0
        self._stream = files.open_output_stream(path)
        self._writer = ParquetColumnWriter(schema, self._stream)

    def write(self, rows: pa.RecordBatch) -> int:
        """Add rows; return how many bytes the file has by now."""
        self._writer.add_element(rows)
        self._row_count += rows.num_rows
        return int(self._stream.tell())

    def finish(self) -> DeltaFile:
        """End the file."""
        self._writer.finish()
        size = self._stream.tell()
        self._stream.close()
        stats = stats_of(self._writer.metadata, self._schema)
        return DeltaFile(self._path, size, self._row_count, self._partition, json.dumps(stats), time.time_ns() // 10**6)

    def abandon(self) -> None:
        """Remove the file, as far as that goes: nobody knows of it."""
        with contextlib.suppress(Exception):
            self._writer.abandon()
        with contextlib.suppress(Exception):
            self._stream.close()
        with contextlib.suppress(OSError):
            self._files.delete_file(self._path)


def stats_of(metadata: Any, schema: pa.Schema) -> dict[str, Any]:
    """Return what the log says of a file's rows: their number, nulls, and the lowest and highest values.

    Those of floating point numbers are left out: the file does not say whether it has NaN, which is the highest of all.
    """
    nulls: dict[str, int] = {}
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    unknown: set[str] = set()
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            name, found = column.path_in_schema, column.statistics
            if name not in schema.names or "." in name:
                continue  # a part of a nested one, or called like one
            if found is None or not found.has_null_count:
                unknown.add(name)
                continue
            nulls[name] = nulls.get(name, 0) + found.null_count
            if found.null_count == group.num_rows:
                continue
            if not found.has_min_max or not _is_ordered(schema.field(name).type):
                unknown.add(name)
                continue
            try:
                lowest[name] = min(lowest.get(name, found.min), found.min)
                highest[name] = max(highest.get(name, found.max), found.max)
            except (OverflowError, ValueError):  # a time beyond the years that Python has
                unknown.add(name)
    ends: dict[str, tuple[object, object]] = {}
    for name in lowest.keys() - unknown:
        low, high = lowest[name], highest[name]
        if _is_short(low) and _is_short(high):
            with contextlib.suppress(OverflowError):  # no millisecond is above the last one of these years
                ends[name] = (_stats_value(low, is_highest=False), _stats_value(high, is_highest=True))
    names = [name for name in schema.names if name in ends]
    return {
        "numRecords": metadata.num_rows,
        "minValues": {name: ends[name][0] for name in names},
        "maxValues": {name: ends[name][1] for name in names},
        "nullCount": nulls,
    }


def _is_ordered(type_: pa.DataType) -> bool:
    from pyarrow import types

    is_instant = types.is_timestamp(type_) and type_.tz is not None
    return types.is_integer(type_) or types.is_string(type_) or types.is_date(type_) or is_instant


def _is_short(value: object) -> bool:
    return not isinstance(value, str) or len(value) <= _MAX_TEXT


def _stats_value(value: object, is_highest: bool) -> object:
    """Return a value as the log has it; of times milliseconds, so the highest one is rounded up."""
    if isinstance(value, datetime):
        value = value.astimezone(timezone.utc).replace(tzinfo=None)
        rest = timedelta(microseconds=value.microsecond % 1000)
        value = value - rest + (timedelta(milliseconds=1) if is_highest and rest else timedelta())
        return value.isoformat(timespec="milliseconds") + "Z"
    return value.isoformat() if isinstance(value, date) else value


class DeltaCommitter(TableCommitter):
    """Adds the data files of a checkpoint to the table, in one version of its log."""

    def __init__(self, options: DeltaSinkOptions, context: CommitterContext) -> None:
        from deltalake.exceptions import DeltaError

        assert options.schema is not None and options.partition_by is not None, "sink_to() knows the stream"
        self._place = options.place
        self._schema = options.schema
        self._partition_by = options.partition_by
        self._table = self._open_or_create()
        super().__init__(f"Delta table {options.place.uri}", context, (DeltaError, OSError))

    def last_committed(self, application: str) -> int | None:
        """Look for the last transaction of an application in the log."""
        self._table.update_incremental()
        return self._table.transaction_version(application)

    def append(self, commit: TableCommit) -> None:
        """Add files in a version with a transaction; the library tries again when other writers were faster.

        It fails if they have committed a transaction of the same application.
        """
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction

        self._check_table()
        actions: list[Any] = [
            AddAction(each.path, each.size, dict(each.partition), each.written_ms, True, each.stats)
            for each in commit.files
        ]
        self._table.create_write_transaction(
            actions,
            mode="append",
            schema=self._table.schema(),
            partition_by=list(self._partition_by),
            commit_properties=CommitProperties(
                custom_metadata={
                    "flinkbuf.job-id": self._context.task.job_id,
                    "flinkbuf.checkpoint-id": str(commit.checkpoint_id),
                },
                app_transactions=[Transaction(commit.application, commit.checkpoint_id)],
            ),
        )

    def gone_file(self, commit: TableCommit) -> str | None:
        """Ask the store for each file."""
        from pyarrow.fs import FileType

        paths = [each.path for each in commit.files]
        found = self._place.file_system().get_file_info(paths)
        return next((path for path, info in zip(paths, found, strict=True) if info.type == FileType.NotFound), None)

    def _open_or_create(self) -> DeltaTable:
        table = self._place.open()
        if table is None:
            import deltalake

            table = deltalake.DeltaTable.create(
                self._place.uri,
                delta_schema_of(self._schema),
                mode="ignore",
                partition_by=list(self._partition_by),
                storage_options=dict(self._place.storage_options) or None,
            )
            table = self._place.open() or table
        return table

    def _check_table(self) -> None:
        """Refuse to add files to a table that has been changed so that it would not read them as they are."""
        table = self._table
        check_writable(table, self._place.uri)
        has = arrow_schema_of(table.schema())
        for each in self._schema:
            if each.name not in has.names or not has.field(each.name).type.equals(each.type):
                raise DeltaTableError(
                    f"column {each.name!r} of Delta table {self._place.uri} was {each.type} when the sink was built, "
                    f"and is {has.field(each.name).type if each.name in has.names else 'gone'} now: build it again"
                )
        missing = [each.name for each in has if not each.nullable and each.name not in self._schema.names]
        if missing or tuple(table.metadata().partition_columns) != self._partition_by:
            what = f"a column {missing[0]!r} without nulls" if missing else "other columns to be partitioned by"
            raise DeltaTableError(
                f"Delta table {self._place.uri} has got {what} since the sink was built: build it again"
            )
