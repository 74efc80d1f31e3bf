"""A streaming query that reads a data set: what is there, if wanted, and then what is appended.

Its offsets are positions in the logs that the subpartitions are, so each row is read once, whatever becomes of the
files that hold it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from flinkbuf.partition_files.data_set import PartitionDataSet
from flinkbuf.partition_files.log_position import LogPosition, pieces_between
from flinkbuf.spark.data_source.options import ReadOptions
from flinkbuf.spark.data_source.reader import FlinkbufReader, Slice

if TYPE_CHECKING:
    import pyarrow as pa

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # before PySpark 4.2, which asks for all that there is
    ReadAllAvailable = ReadMaxRows = SupportsTriggerAvailableNow = object  # type: ignore[assignment, misc]

_Offset = Mapping[str, Any]


class FlinkbufStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One run of a query that follows a data set, with the columns that it had at its start."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        if options.max_rows_per_trigger is not None and ReadMaxRows is object:
            raise ValueError(f"the option max_rows_per_trigger needs PySpark 4.2; this is {pyspark.__version__}")
        self.data_set = PartitionDataSet(options.path)
        self.options = options
        self.reader = FlinkbufReader(self.data_set.path, self.data_set.manifest(), schema, options)
        self._target: LogPosition | None = None  # where the query shall end

    def initialOffset(self) -> dict[str, Any]:
        """The place where a query begins that has no checkpoint."""
        manifest = self.data_set.manifest()
        begins_late = self.options.starting == "latest"
        return (LogPosition.end_of(manifest) if begins_late else LogPosition.begin_of(manifest)).to_json()

    def getDefaultReadLimit(self) -> Any:
        """What the option says of the rows of a batch."""
        most = self.options.max_rows_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember how far the query shall come."""
        self._target = LogPosition.end_of(self.data_set.manifest())

    def latestOffset(self, start: _Offset | None = None, limit: object = None) -> dict[str, Any]:
        """The end of the next batch."""
        end = self._target or LogPosition.end_of(self.data_set.manifest())
        if start is not None:
            begin = LogPosition.from_json(start)
            self._check_follows(begin, end.generation)
            end.check_reaches(begin)
            most = getattr(limit, "max_rows", None)
            end = end if most is None else begin.towards(end, most)
        return end.to_json()

    def reportLatestOffset(self) -> dict[str, Any]:
        """The end of the data set, for the query's progress."""
        return LogPosition.end_of(self.data_set.manifest()).to_json()

    def partitions(self, start: _Offset, end: _Offset) -> Sequence[Slice]:
        """Cut the rows of a batch into tasks: the same rows whenever it is asked."""
        first, last = LogPosition.from_json(start), LogPosition.from_json(end)
        if first == last:
            return []
        manifest = self.data_set.manifest()
        self._check_follows(first, manifest.generation)
        if manifest.layout.schema != self.reader.layout.schema:
            raise ValueError(
                f"a column of the data set at {self.data_set.path} may be null since rows were appended, which it "
                "could not be when this query began: start the query again"
            )
        pieces = pieces_between(manifest, first, last, self.reader.chosen, self.options.task_size)
        return list(map(Slice, pieces))

    def _check_follows(self, position: LogPosition, generation: str) -> None:
        if position.generation != generation:
            raise ValueError(
                f"the data set at {self.data_set.path} was overwritten behind what this query has read of it, and its "
                "rows of now do not follow those: begin the query again with another checkpointLocation"
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task."""
        return self.reader.read(partition)
