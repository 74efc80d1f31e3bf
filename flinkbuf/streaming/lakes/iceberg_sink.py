"""Rows into an Iceberg table, exactly once: data files by the writers, and one snapshot for each checkpoint.

The summary of a snapshot says whose it is and which checkpoint it has, as that of Flink's own sink does. A commit that
is repeated after a failure finds that among the ancestors of the table's snapshot, and is left out. Flink:
IcebergFilesCommitter.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flinkbuf.streaming.lakes.iceberg_table import (
    IcebergFile,
    IcebergPlace,
    IcebergTableError,
    check_columns,
    check_writable,
    is_first,
)
from flinkbuf.streaming.lakes.parquet_writer import batch_as
from flinkbuf.streaming.lakes.table_commits import TableCommit, TableCommitter, TableSink, TableSinkOptions, TableWriter
from flinkbuf.streaming.sinks.sink import CommitterContext, GlobalCommitter, SinkWriter, WriterContext

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

DEFAULT_BUFFER_BYTES = 128 << 20
JOB = "flink.job-id"
CHECKPOINT = "flink.max-committed-checkpoint-id"


@dataclass(frozen=True)
class IcebergSinkOptions(TableSinkOptions):
    """What a sink of an Iceberg table was built with.

    Attributes
    ----------
    buffer_bytes : int
        So many bytes of rows are kept in memory before files are written of them.
    """

    place: IcebergPlace
    buffer_bytes: int = DEFAULT_BUFFER_BYTES


class IcebergTableSink(TableSink):
    """Writes rows; `flinkbuf.datastream.connectors.iceberg.IcebergSink` is its face."""

    options: IcebergSinkOptions

    def for_rows(self, found: pa.Schema | None) -> IcebergSinkOptions:
        """Return the options with what the table has."""
        return with_table(self.options, found)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        """Write the files of one subtask."""
        return IcebergWriter(self.options)

    def create_global_committer(self, context: CommitterContext) -> GlobalCommitter:
        """Make what adds the files of all subtasks to the table."""
        return IcebergCommitter(self.options, context)


def with_table(options: IcebergSinkOptions, found: pa.Schema | None) -> IcebergSinkOptions:
    """Return the options with what the table has.

    Parameters
    ----------
    options : IcebergSinkOptions
    found : pyarrow.Schema, optional
        Of the rows as the stream has them; None: known when they come.

    Raises
    ------
    FileNotFoundError
        If there is no such table.
    ValueError, TypeError
        If such rows cannot be written.
    IcebergTableError
        If the table has partitions that cannot be made.
    """
    import pyarrow as pa

    table = options.place.load()
    check_writable(table, options.place)
    schema = table.schema().as_arrow()
    if found is not None:
        batch_as(pa.RecordBatch.from_pylist([], found), schema)
    return replace(options, schema=schema)


class IcebergWriter(TableWriter):
    """Keeps the rows of one subtask, and writes files of them with each checkpoint, and when they are many."""

    def __init__(self, options: IcebergSinkOptions) -> None:
        assert options.schema is not None, "sink_to() knows the stream"
        super().__init__(options.schema, options.record_type)
        self._buffer_bytes = options.buffer_bytes
        self._table = options.place.load()
        check_writable(self._table, options.place)  # it may have changed since the program was built
        check_columns(self._table, options.schema, options.place)
        self._kept: list[pa.RecordBatch] = []
        self._kept_bytes = 0
        self._ended: list[IcebergFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep rows until they are enough for files."""
        self._kept.append(batch)
        self._kept_bytes += batch.nbytes
        if self._kept_bytes >= self._buffer_bytes:
            self._write_files()

    def flush(self, end_of_input: bool) -> None:
        """Write files: what they have belongs to the next checkpoint, or to the end."""
        self.add_rows()
        if self._kept:
            self._write_files()

    def prepare_commit(self) -> Sequence[IcebergFile]:
        """Return the files that were written since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        """Remove files that no checkpoint knows of."""
        for each in self._ended:
            with contextlib.suppress(Exception):
                self._table.io.delete(each.path)

    def _write_files(self) -> None:
        import pyarrow as pa
        from pyiceberg.io.pyarrow import _dataframe_to_data_files  # what append() of a table calls, too

        kept, self._kept, self._kept_bytes = self._kept, [], 0
        rows = pa.Table.from_batches(kept, self._schema)
        metadata = self._table.metadata
        for each in _dataframe_to_data_files(metadata, rows, self._table.io):
            self._ended.append(IcebergFile.of(each, metadata.default_spec_id))  # at once: if the next fails, it goes


class IcebergCommitter(TableCommitter):
    """Adds the data files of a checkpoint to the table, as one snapshot."""

    def __init__(self, options: IcebergSinkOptions, context: CommitterContext) -> None:
        from pyiceberg.exceptions import CommitFailedException, RESTError, WaitingForLockException

        self._place = options.place
        self._table: Table = options.place.load()
        retried: list[type[Exception]] = [CommitFailedException, RESTError, WaitingForLockException, OSError]
        super().__init__(str(options.place), context, (*retried, *_errors_of_databases()))

    def last_committed(self, application: str) -> int | None:
        """Look for the last snapshot of an application among the ancestors of the current one."""
        from pyiceberg.table.snapshots import ancestors_of

        table = self._table.refresh()
        for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
            summary = snapshot.summary
            if summary is not None and summary.get(JOB) == application:
                return int(summary[CHECKPOINT] or 0)
        return None

    def append(self, commit: TableCommit) -> None:
        """Add files as a snapshot behind the one that was looked at, or fail if there is another one by now."""
        table = self._table
        spec_ids = {each.spec_id for each in commit.files}
        if spec_ids != {table.metadata.default_spec_id}:
            raise IcebergTableError(
                f"{self._place} has got other partitions since files were written that are to be committed: set the "
                f"old ones again ({', '.join(str(table.specs()[each]) for each in spec_ids)}), and let the job go on"
            )
        # The library would try again by itself, behind whoever was faster, and would not look who that was.
        table.metadata.properties["commit.retry.num-retries"] = "0"  # here only: no commit has it
        is_merged = table.properties.get("commit.manifest-merge.enabled", "false").lower() == "true"
        said = {
            JOB: commit.application,
            "flink.operator-id": self._context.operator_id,
            CHECKPOINT: str(commit.checkpoint_id),
            "flinkbuf.job-id": self._context.task.job_id,
        }
        with table.transaction() as transaction:
            update = transaction.update_snapshot(snapshot_properties=said)
            with update.merge_append() if is_merged else update.fast_append() as files:
                for each in commit.files:
                    files.append_data_file(each.to_data_file())

    def close(self) -> None:
        """Close the connections of the catalog."""
        self._table.catalog.close()

    def has_files(self, commit: TableCommit) -> bool:
        """Look for the files in the table, where snapshots have expired that could say whose they were."""
        from pyiceberg.manifest import ManifestContent
        from pyiceberg.table.snapshots import ancestors_of

        table = self._table
        known = list(ancestors_of(table.current_snapshot(), table.metadata))
        if not known or is_first(known[-1], table.io):
            return False
        paths = {each.path for each in commit.files}
        # A scan would refuse tables whose rows others delete by their values, and plan what nobody reads.
        manifests = [each for each in known[0].manifests(table.io) if each.content == ManifestContent.DATA]
        entries = (entry for each in manifests for entry in each.fetch_manifest_entry(table.io))
        return any(entry.data_file.file_path in paths for entry in entries)

    def gone_file(self, commit: TableCommit) -> str | None:
        """Ask the store for each file."""
        io = self._table.io
        return next((each.path for each in commit.files if not io.new_input(each.path).exists()), None)


def _errors_of_databases() -> tuple[type[Exception], ...]:
    try:
        from sqlalchemy.exc import OperationalError
    except ImportError:
        return ()
    return (OperationalError,)
