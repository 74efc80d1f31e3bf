"""The bounds of a range partitioner from a sample of an RDD: a job before the exchange. Spark: RangePartitioner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkbuf.records.range_partitioner import KeySample, RangePartitioner, range_bounds, sample_keys, sample_size
from flinkbuf.spark.workers import shipped
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    from pyspark import RDD


@dataclass(frozen=True)
class SampleTask:
    """Looks at all records of one Spark partition, and keeps the keys of some."""

    partitioner: RangePartitioner
    type: TypeInformation
    size: int

    def __call__(self, producer: int, records: Iterable[object]) -> Iterator[KeySample]:
        """Yield one sample."""
        yield sample_keys(records, self.partitioner, self.type, size=self.size, producer_index=producer)


def with_sampled_bounds(
    data: RDD[object], partitioner: RangePartitioner, record_type: TypeInformation, channel_count: int
) -> RangePartitioner:
    """Return the partitioner with bounds; runs a job that computes all of `data`, unless one channel takes it all."""
    partitioner.range_fields(record_type)  # a field that is not there fails here, not in a task
    if channel_count == 1:
        return partitioner.with_bounds(())
    size = sample_size(partitioner, channel_count, data.getNumPartitions())
    samples = data.mapPartitionsWithIndex(shipped(SampleTask(partitioner, record_type, size))).collect()
    return partitioner.with_bounds(range_bounds(samples, partitioner, channel_count))
