"""A write of a DataFrame: each task makes one partition file; the driver commits them all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from flinkbuf.partition_files.compaction import compact_newest
from flinkbuf.partition_files.data_set import PartitionDataSet, local_path, new_job
from flinkbuf.partition_files.job_owner import JobOwner
from flinkbuf.partition_files.manifest import DataFile, Layout
from flinkbuf.partition_files.part_writer import write_part
from flinkbuf.records.partitioner import default_max_parallelism
from flinkbuf.spark.data_source.options import WriteOptions
from flinkbuf.spark.data_source.types import check_columns, record_type_of

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class PartWritten(WriterCommitMessage):
    """What a task tells the driver."""

    files: tuple[DataFile, ...]  # none where it had no rows


class FlinkbufWriter(DataSourceArrowWriter):
    """One writing job: planned in the driver, written in tasks, committed or aborted in the driver."""

    def __init__(self, schema: StructType, overwrite: bool, options: WriteOptions) -> None:
        check_columns(schema, options.key)
        self.schema = schema
        self.options = options
        self.operation = "overwrite" if overwrite else "append"
        self.layout = Layout(
            schema.jsonValue(),
            repr(record_type_of(schema)),
            options.key,
            options.num_partitions,
            default_max_parallelism(options.num_partitions),
        )
        self.job = new_job()
        self.owner = JobOwner.of_this_process()
        self.path = local_path(options.path)
        data_set = PartitionDataSet(self.path)
        exists = data_set.exists()
        if exists and not overwrite and options.if_exists == "error":
            raise FileExistsError(f"{self.path} holds a data set already; choose mode('append') or mode('overwrite')")
        self.is_ignored = exists and not overwrite and options.if_exists == "ignore"
        if not self.is_ignored:
            data_set.check_new_rows(self.layout, self.operation)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartWritten:
        """Write the rows of one task into a partition file of its own."""
        if self.is_ignored:
            return PartWritten(())
        found = write_part(
            iterator,
            self.layout,
            record_type_of(self.schema),
            self._begin,
            self._check,
            memory=self.options.memory,
            compression=self.options.compression,
        )
        return PartWritten(tuple(found))

    def _begin(self) -> str:
        from pyspark import TaskContext

        context = TaskContext.get()
        return PartitionDataSet(self.path).begin_part(self.job, self.owner, context.partitionId() if context else 0)

    def _check(self) -> None:
        PartitionDataSet(self.path).check_job(self.job, self.owner)

    def commit(self, messages: Sequence[PartWritten | None]) -> None:  # type: ignore[override]
        """Make the files of all tasks part of the data set."""
        if self.is_ignored:
            return
        files = [file for each in messages if each is not None for file in each.files]
        self.commit_files(self.job, files, self.options.batch)

    def commit_files(self, job: str, files: Sequence[DataFile], batch: tuple[str, int] | None) -> None:
        """Make the files of a job part of the data set, and compact where small ones have become many."""
        data_set = PartitionDataSet(self.path)
        manifest = data_set.commit(
            job,
            self.layout,
            files,
            self.operation,
            retention_s=self.options.retention_s,
            must_be_new=self.operation == "append" and self.options.if_exists == "error",
            batch=batch,
        )
        if self.operation == "append":
            compact_newest(data_set, manifest, self.options.compact_files, retention_s=self.options.retention_s)

    def abort(self, messages: Sequence[PartWritten | None]) -> None:  # type: ignore[override]
        """Remove the files of all tasks."""
        if self.is_ignored:
            return
        PartitionDataSet(self.path).abort(self.job, self.owner)
