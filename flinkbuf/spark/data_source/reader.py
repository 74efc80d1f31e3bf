"""A read of one version: tasks of neighbouring subpartitions, each of them from all files."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from flinkbuf.partition_files.data_set import DATA, PartitionDataSet
from flinkbuf.partition_files.manifest import DataFile, Manifest
from flinkbuf.partition_files.part_reader import Piece, cut_pieces, read_pieces
from flinkbuf.partition_files.pruning import key_combinations, subpartitions_of_keys
from flinkbuf.records.spark_arrow import arrow_schema_of
from flinkbuf.spark.data_source.filters import candidates_of, values_of_json
from flinkbuf.spark.data_source.options import ReadOptions
from flinkbuf.spark.data_source.types import check_columns, key_types_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

# PySpark's next version pushes limits, too, and keeps what was planned with each scan.
KEEPS_PLANS_APART = hasattr(DataSourceReader, "pushLimit")


class Slice(InputPartition):
    """What one task reads: the same subpartitions of some files."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)


class FlinkbufReader(DataSourceReader):
    """One read of one version, which stays the same however often it is run."""

    def __init__(self, path: str, manifest: Manifest, schema: StructType, options: ReadOptions) -> None:
        self.path = path
        self.schema = schema
        self.options = options
        self.stored = StructType.fromJson(dict(manifest.layout.schema))
        self.layout = manifest.layout
        self._manifest: Manifest | None = manifest
        check_columns(schema, (), stored=self.stored)
        self.chosen = self._chosen()

    def __getstate__(self) -> Mapping[str, object]:
        return {**self.__dict__, "_manifest": None}  # tasks are told their files

    def _chosen(self) -> frozenset[int]:
        """Subpartitions that the options ask for."""
        count = self.layout.subpartition_count
        chosen = frozenset(range(count)) if self.options.subpartitions is None else self.options.subpartitions
        if max(chosen, default=0) >= count:
            raise ValueError(f"the option subpartitions asks for {max(chosen)}; there are {count}, from 0")
        if self.options.keys is not None:
            try:
                chosen &= self._holding(self._given_keys(self.options.keys))
            except (TypeError, OverflowError) as error:
                raise ValueError(f"the option keys: {error}") from error
        return chosen

    def _given_keys(self, keys: Sequence[Sequence[object]]) -> list[tuple[object, ...]]:
        names = self.layout.key
        if not names:
            raise ValueError("the option keys needs a data set that was written with a key; this one has none")
        for key in keys:
            if len(key) != len(names):
                raise ValueError(f"the option keys: {list(key)!r} has not one value for each of {list(names)}")
        fields = [self.stored[name] for name in names]
        found: list[tuple[object, ...]] = []
        for key in keys:
            equal = [values_of_json(value, field) for value, field in zip(key, fields, strict=True)]
            found += itertools.product(*equal)
        return found

    def _holding(self, keys: Iterable[Sequence[object]]) -> frozenset[int]:
        types = key_types_of(self.stored, self.layout.key)
        return subpartitions_of_keys(keys, types, self.layout.subpartition_count, self.layout.max_parallelism)

    def partitions(self) -> list[Slice]:
        """Cut the subpartitions into tasks."""
        assert self._manifest is not None
        return slices_of(self._manifest.files, sorted(self.chosen), self.options.task_size)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task."""
        if not isinstance(partition, Slice):  # Spark's own, where there is nothing to read
            return
        stored, wanted = arrow_schema_of(self.stored), arrow_schema_of(self.schema)
        directory = PartitionDataSet(self.path).directory(DATA)
        columns = None if wanted.names == stored.names else wanted.names
        for batch in read_pieces(directory, partition.pieces, stored, self.options.max_rows, columns):
            yield batch if wanted.equals(batch.schema) else batch.cast(wanted)


class PushdownReader(FlinkbufReader):
    """A read that filters on the key prune; Spark applies them again."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Read less where the filters leave only some keys; all of them stay Spark's to apply."""
        fields = [self.stored[name] for name in self.layout.key]
        keys = key_combinations([candidates_of(filters, field) for field in fields]) if fields else None
        if keys is not None:
            with contextlib.suppress(TypeError, ValueError, OverflowError):  # no value of the type's: all is read
                self.chosen &= self._holding(keys)
        return filters


class OptionalPushdownReader(PushdownReader):
    """The same, without a failure where ``spark.sql.python.filterPushdown.enabled`` is not set.

    Spark refuses a source that could filter and may not. Leaving out less is no error here.
    """

    @property
    def pushFilters(self) -> Any:
        """As of `PushdownReader`; Spark takes it for the method that every reader has."""
        return _OptionalFilters(super().pushFilters)


@dataclass
class _OptionalFilters:
    """A call that says of itself to be the base class's."""

    call: Callable[[list[Filter]], Iterable[Filter]]
    __func__ = staticmethod(DataSourceReader.pushFilters) if hasattr(DataSourceReader, "pushFilters") else None

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self.call(filters)


def slices_of(files: Sequence[DataFile], subpartitions: Sequence[int], task_size: int | None) -> list[Slice]:
    """Cut into tasks of about `task_size` bytes; see `cut_pieces`."""
    return list(map(Slice, cut_pieces(files, subpartitions, task_size)))
