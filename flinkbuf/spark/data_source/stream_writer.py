"""A streaming query that writes into a data set: each micro-batch is one commit, and counts once.

Spark repeats a micro-batch whose outcome it does not know, as when its driver died between the commit here and the note
in Spark's commit log. A query keeps its id as long as its checkpoint, and the numbers of its batches grow: the manifest
tells the last one of each query, and a batch that is in it is not committed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from flinkbuf.partition_files.data_set import PartitionDataSet
from flinkbuf.partition_files.job_owner import JobOwner
from flinkbuf.partition_files.manifest import DataFile
from flinkbuf.spark.data_source.options import WriteOptions
from flinkbuf.spark.data_source.writer import FlinkbufWriter

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY_ID = "sql.streaming.queryId"  # a local property that Spark gives all tasks of a query


@dataclass
class BatchPartWritten(WriterCommitMessage):
    """What a task of a micro-batch tells the driver, where the object that commits is not the one that planned."""

    query: str
    job: str
    owner: JobOwner
    files: tuple[DataFile, ...]  # none where it had no rows


class FlinkbufStreamWriter(DataSourceStreamArrowWriter):
    """A micro-batch of a query: Spark makes one of these to plan and write it, and one more to commit it."""

    def __init__(self, schema: StructType, overwrite: bool, options: WriteOptions) -> None:
        if options.batch is not None:
            raise ValueError("a streaming query numbers its batches itself: leave out the options writer and batch")
        if options.if_exists != "append":
            raise ValueError(
                f"a streaming query goes on where it was: if_exists cannot be {options.if_exists!r} for it"
            )
        self.writer = FlinkbufWriter(schema, overwrite, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchPartWritten:
        """Write the rows of one task into a partition file of its own."""
        return BatchPartWritten(_query_id(), self.writer.job, self.writer.owner, self.writer.write(iterator).files)

    def commit(self, messages: Sequence[BatchPartWritten | None], batchId: int) -> None:  # type: ignore[override]
        """Make the files of all tasks part of the data set, unless the batch is in it already."""
        parts = [each for each in messages if each is not None]
        files = [file for each in parts for file in each.files]
        if not files and self.writer.operation == "append" and PartitionDataSet(self.writer.path).exists():
            return  # nothing that could count twice
        self.writer.commit_files(parts[0].job, files, (parts[0].query, batchId))

    def abort(self, messages: Sequence[BatchPartWritten | None], batchId: int) -> None:  # type: ignore[override]
        """Remove the files of all tasks; a task that failed has removed its own."""
        for job, owner in {each.job: each.owner for each in messages if each is not None}.items():
            PartitionDataSet(self.writer.path).abort(job, owner)


def _query_id() -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    found = context.getLocalProperty(_QUERY_ID) if context else None
    if not found:
        raise RuntimeError(
            f"Spark does not tell this task the id of its streaming query (its local property {_QUERY_ID}), without "
            "which a repeated batch would count twice: write in foreachBatch, with the options writer and batch"
        )
    return found
