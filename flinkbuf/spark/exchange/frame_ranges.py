"""The bounds of a range partitioner from a sample of a DataFrame: a job before the exchange, as Spark has one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkbuf.records.range_partitioner import KeySample, RangePartitioner, range_bounds, sample_keys, sample_size
from flinkbuf.spark.exchange.frame_tasks import Columns, FrameSource
from flinkbuf.spark.workers import shipped

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

SAMPLE_SCHEMA = "seen bigint, keys array<binary>"
PRODUCERS = 8  # so many partitions share a sample, where Spark cannot say how many there are


@dataclass(frozen=True)
class FrameSampleTask:
    """Looks at all rows of one Spark partition, and gives the keys of some, in one row.

    Attributes
    ----------
    partitioner : RangePartitioner
    source : FrameSource
    columns : Columns
        What the source gives.
    size : int
        How many keys at most.
    """

    partitioner: RangePartitioner
    source: FrameSource
    columns: Columns
    size: int

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Return the row for the batches of this task's partition."""
        from pyspark import TaskContext

        context = TaskContext.get()
        return self.sample(0 if context is None else context.partitionId(), batches)

    def sample(self, producer: int, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Yield the row of Spark partition `producer`."""
        import pyarrow as pa

        found = sample_keys(
            self.source(batches), self.partitioner, self.columns.type, size=self.size, producer_index=producer
        )
        keys = pa.array([list(found.keys)], pa.list_(pa.binary()))
        yield pa.record_batch([pa.array([found.count], pa.int64()), keys], ["seen", "keys"])


def with_sampled_bounds(
    rows: DataFrame,
    source: FrameSource,
    columns: Columns,
    partitioner: RangePartitioner,
    channel_count: int,
    producer_count: int | None,
) -> RangePartitioner:
    """Return the partitioner with bounds; runs a job that computes all of `rows`, unless one channel takes it all."""
    if channel_count == 1:
        return partitioner.with_bounds(())
    size = sample_size(partitioner, channel_count, producer_count or PRODUCERS)
    task = FrameSampleTask(partitioner, source, columns, size)
    samples = rows.mapInArrow(shipped(task), SAMPLE_SCHEMA).collect()
    found = [KeySample(row.seen, tuple(bytes(key) for key in row["keys"])) for row in samples]
    return partitioner.with_bounds(range_bounds(found, partitioner, channel_count))
