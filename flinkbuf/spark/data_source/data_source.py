"""The Spark data source ``flinkbuf``: DataFrames in partition files, written once, read many times.

::

    df.write.format("flinkbuf").option("key", "tailnum").option("num_partitions", 64).mode("append").save(path)
    spark.read.format("flinkbuf").load(path)

Each task of a write makes one partition file; the driver commits them all at once. A read makes tasks of neighbouring
subpartitions, and takes each from all files. PySpark finds the source by itself, through the module `pyspark_flinkbuf`.

What Spark's API for Python sources leaves to be said here:

* ``mode("error")``, the default, and ``mode("ignore")`` are refused by Spark for every Python source; with
  ``mode("append")`` the option ``if_exists`` says the same: ``append``, ``error`` or ``ignore``.
* A read has no columns pruned by Spark. A schema of some columns, ``spark.read.schema("tailnum string")``, does it.
* Filters come only with ``spark.sql.python.filterPushdown.enabled``; and up to PySpark 4.3 what was planned for a
  filter stays with the object that ``load()`` gave (``PythonDataSourceV2.readInfo``), for the next scan of it that
  filters otherwise or not at all, in the same query or a later one, which would then miss rows; no Python code is asked
  in between. So filters prune only where Spark keeps plans apart, and the option ``pushdown`` is refused elsewhere. The
  options ``keys`` and ``subpartitions`` prune anywhere.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from flinkbuf.partition_files.data_set import DATA, PartitionDataSet, local_path, new_job
from flinkbuf.partition_files.job_owner import JobOwner
from flinkbuf.partition_files.manifest import DataFile, Layout, Manifest
from flinkbuf.partition_files.part_reader import Piece, cut_pieces, read_pieces
from flinkbuf.partition_files.part_writer import write_part
from flinkbuf.partition_files.pruning import key_combinations, subpartitions_of_keys
from flinkbuf.records.partitioner import default_max_parallelism
from flinkbuf.records.spark_arrow import arrow_schema_of
from flinkbuf.spark.data_source.filters import candidates_of, values_of_json
from flinkbuf.spark.data_source.options import ReadOptions, WriteOptions
from flinkbuf.spark.data_source.types import check_columns, key_types_of, record_type_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

NAME = "flinkbuf"


class FlinkbufDataSource(DataSource):
    """What ``format("flinkbuf")`` stands for. See the module."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return NAME

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        # Spark keeps this object with what load() gives, and plans each scan of it by a copy: all see one version.
        self._version = _last_version(options)

    def schema(self) -> StructType:
        """The columns of the data set's last version."""
        manifest = PartitionDataSet(_read_options(self.options).path).manifest()
        self._version = manifest.version
        return StructType.fromJson(dict(manifest.layout.schema))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Plan a read of the version that was the last when it was loaded."""
        options = _read_options(self.options)
        data_set = PartitionDataSet(options.path)
        return _reader_kind(options)(data_set.path, data_set.manifest(self._version), schema, options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Plan a write; nothing is changed before the first task runs."""
        return FlinkbufWriter(schema, overwrite, WriteOptions.of(self.options))


# PySpark's next version pushes limits, too, and keeps what was planned with each scan.
KEEPS_PLANS_APART = hasattr(DataSourceReader, "pushLimit")


def _last_version(options: Mapping[str, str]) -> int | None:
    """Return the number of the version that a load() is of; None where there is none, as for a write."""
    try:
        return PartitionDataSet(options.get("path", "")).versions()[-1]
    except (ValueError, OSError, IndexError):  # a read says what is wrong when it is planned
        return None


def _read_options(options: Mapping[str, str]) -> ReadOptions:
    """Read the options of a read; ValueError names the one that is wrong here."""
    found = ReadOptions.of(options)
    if found.pushdown and not KEEPS_PLANS_APART:
        raise ValueError(
            f"the option pushdown cannot be 'true' with PySpark {pyspark.__version__}: what it plans for a filter it "
            "uses again for other queries over the same load(), which would miss rows. Leave it out, and name the keys "
            'that are wanted by the option keys, such as ["N14228"]'
        )
    return found


def _reader_kind(options: ReadOptions) -> type[FlinkbufReader]:
    if options.pushdown is None:
        return OptionalPushdownReader if KEEPS_PLANS_APART else FlinkbufReader
    return PushdownReader if options.pushdown else FlinkbufReader


# ---- writing


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
        PartitionDataSet(self.path).commit(
            self.job,
            self.layout,
            [file for each in messages if each is not None for file in each.files],
            self.operation,
            retention_s=self.options.retention_s,
            must_be_new=self.operation == "append" and self.options.if_exists == "error",
        )

    def abort(self, messages: Sequence[PartWritten | None]) -> None:  # type: ignore[override]
        """Remove the files of all tasks."""
        if self.is_ignored:
            return
        PartitionDataSet(self.path).abort(self.job, self.owner)


# ---- reading


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
