"""The Spark data source ``flinkbuf``: DataFrames in partition files, written once, read many times.

::

    df.write.format("flinkbuf").option("key", "tailnum").option("num_partitions", 64).mode("append").save(path)
    spark.read.format("flinkbuf").load(path)
    stream.writeStream.format("flinkbuf").option("checkpointLocation", where).start(path)
    spark.readStream.format("flinkbuf").load(path)

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

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader
from pyspark.sql.types import StructType

from flinkbuf.partition_files.data_set import PartitionDataSet
from flinkbuf.spark.data_source.options import ReadOptions, WriteOptions
from flinkbuf.spark.data_source.reader import KEEPS_PLANS_APART, FlinkbufReader, OptionalPushdownReader, PushdownReader
from flinkbuf.spark.data_source.writer import FlinkbufWriter

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter

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

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Plan a streaming read, of what is there and of what will be appended."""
        from flinkbuf.spark.data_source.stream_reader import FlinkbufStreamReader

        return FlinkbufStreamReader(schema, ReadOptions.of(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Plan or commit a micro-batch of a streaming query."""
        try:
            from flinkbuf.spark.data_source.stream_writer import FlinkbufStreamWriter
        except ImportError:
            raise NotImplementedError(
                f"PySpark {pyspark.__version__} has no writers of Arrow batches for streams, which came with 4.1: "
                "write in foreachBatch, with the options writer and batch"
            ) from None
        return FlinkbufStreamWriter(schema, overwrite, WriteOptions.of(self.options))


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
