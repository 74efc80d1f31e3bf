"""Delta tables as sinks and sources. PyFlink has no such thing. Needs deltalake and pyarrow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from flinkbuf.datastream.connectors.lakes import TableSinkBuilder, TableSourceBuilder, checked_time
from flinkbuf.streaming.lakes.delta_sink import DeltaSinkOptions, DeltaTableSink
from flinkbuf.streaming.lakes.delta_source import DeltaRowSource, DeltaSourceOptions, opened
from flinkbuf.streaming.lakes.delta_table import (
    DeltaPlace,
    DeltaTableError,
    arrow_schema_of,
    check_readable,
    deltalake_module,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DeltaSink", "DeltaSinkBuilder", "DeltaSource", "DeltaSourceBuilder", "DeltaTableError"]


class DeltaSink(DeltaTableSink):
    """Appends rows to a Delta table, exactly once.

    With checkpoints all that the sink has written between two of them becomes visible as one version of the table, when
    the checkpoint counts. The commit says so by a transaction of its own (``txn``), so that it is found again after a
    failure and nothing is committed twice. Without checkpoints there is one version at the end of a bounded job. Other
    writers may append to the table at the same time.

    The batches of a column stream are written as they are, by the names of their columns; records need a declared type.
    A table that is not there yet is made when the job begins. What a job that failed has left in the directory is in no
    version, and goes with ``DeltaTable(...).vacuum(full=True, dry_run=False)``.

    References
    ----------
    Flink ``DeltaSink``, of the Delta connectors.

    Examples
    --------
    >>> import tempfile
    >>> from deltalake import DeltaTable
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> folder = tempfile.TemporaryDirectory()
    >>> delays = env.from_collection([("EWR", 2), ("LGA", 4)]).as_columns("origin string, minutes int")
    >>> _ = delays.sink_to(DeltaSink.builder().set_table(folder.name).set_partition_by("origin").build())
    >>> _ = env.execute()
    >>> sorted(DeltaTable(folder.name).to_pyarrow_table().column("minutes").to_pylist())
    [2, 4]
    >>> folder.cleanup()
    """

    @staticmethod
    def builder() -> DeltaSinkBuilder:
        """Begin a sink."""
        return DeltaSinkBuilder()


class DeltaSinkBuilder(TableSinkBuilder[DeltaSinkOptions]):
    """What a `DeltaSink` is to do: a table, the rest if you like."""

    table_kind = "a Delta table"

    def __init__(self) -> None:
        self._options = DeltaSinkOptions(DeltaPlace(""))

    def set_table(self, path: str | os.PathLike[str]) -> DeltaSinkBuilder:
        """Set where the table is.

        Parameters
        ----------
        path : path-like
            Of a directory, or a URI as deltalake takes it, such as ``"s3://bucket/table"``.
        """
        place = DeltaPlace.of(path)
        return self._with(place=replace(place, storage_options=self._options.place.storage_options))

    def set_storage_options(self, storage_options: Mapping[str, str]) -> DeltaSinkBuilder:
        """Set what deltalake is told of an object store, such as ``{"AWS_REGION": "eu-central-1"}``.

        They travel with the program; what is secret belongs into the environment of the tasks.
        """
        return self._with(place=replace(self._options.place, storage_options=dict(storage_options)))

    def set_partition_by(self, *columns: str) -> DeltaSinkBuilder:
        """Set the columns that a table is partitioned by which is not there yet."""
        if not columns or not all(isinstance(each, str) for each in columns) or len(set(columns)) < len(columns):
            raise ValueError(f"set_partition_by() takes names of columns, each once, got {columns!r}")
        return self._with(partition_by=columns)

    def set_file_size(self, file_bytes: int) -> DeltaSinkBuilder:
        """Set at how many bytes a data file is ended; 128 MiB unless it is set. Each ends with a checkpoint, too."""
        if file_bytes < 1:
            raise ValueError(f"file_bytes must be at least 1, got {file_bytes}")
        return self._with(file_bytes=file_bytes)

    def build(self) -> DeltaSink:
        """Make the sink.

        Raises
        ------
        ValueError
            No table is named.
        ImportError
            deltalake is not installed.
        """
        if not self._options.place.uri:
            raise ValueError("a DeltaSink needs set_table(...)")
        deltalake_module("DeltaSink")
        return DeltaSink(self._options)


class DeltaSource(DeltaRowSource):
    """Reads the rows of a Delta table: as it is, as it was, or as they are appended.

    Unless it is said otherwise it reads the table as it is when the job begins, and ends. With `monitor_continuously`
    it goes on with what later versions append, and with `set_starting_version` it reads only what is appended from a
    version on. A version that takes rows away or changes some is an error; one that only puts rows into other files is
    passed over. Where ``as_columns`` follows directly, batches of columns are read.

    References
    ----------
    Flink ``DeltaSource``, of the Delta connectors.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> from deltalake import write_deltalake
    >>> from flinkbuf.common import WatermarkStrategy
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> folder = tempfile.TemporaryDirectory()
    >>> write_deltalake(folder.name, pa.table({"n": [1, 2]}))
    >>> write_deltalake(folder.name, pa.table({"n": [3]}), mode="append")
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> source = DeltaSource.builder().set_table(folder.name).set_starting_version(1).build()
    >>> env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").execute_and_collect(limit=1)
    [Row(n=3)]
    >>> folder.cleanup()
    """

    @staticmethod
    def builder() -> DeltaSourceBuilder:
        """Begin a source."""
        return DeltaSourceBuilder()


class DeltaSourceBuilder(TableSourceBuilder[DeltaSourceOptions]):
    """What a `DeltaSource` is to do: a table, the rest if you like."""

    def __init__(self) -> None:
        self._options = DeltaSourceOptions(DeltaPlace(""))

    def set_table(self, path: str | os.PathLike[str]) -> DeltaSourceBuilder:
        """Set where the table is: the path of a directory, or a URI as deltalake takes it."""
        place = DeltaPlace.of(path)
        return self._with(place=replace(place, storage_options=self._options.place.storage_options))

    def set_storage_options(self, storage_options: Mapping[str, str]) -> DeltaSourceBuilder:
        """Set what deltalake is told of an object store; what is secret belongs into the environment of the tasks."""
        return self._with(place=replace(self._options.place, storage_options=dict(storage_options)))

    def set_version_as_of(self, version: int) -> DeltaSourceBuilder:
        """Begin with the table as it was in a version."""
        return self._with(version=_version(version))

    def set_timestamp_as_of(self, timestamp: datetime) -> DeltaSourceBuilder:
        """Begin with the table as it was at a time, which has a time zone."""
        return self._with(version=checked_time(timestamp))

    def set_starting_version(self, version: int) -> DeltaSourceBuilder:
        """Read only what is appended by this version and later ones."""
        return self._with(starting_version=_version(version))

    def build(self) -> DeltaSource:
        """Look at the table, and make the source.

        Raises
        ------
        ValueError
            No table is named, two beginnings are, or a column that it has not.
        FileNotFoundError
            There is no such table.
        DeltaTableError
            It has a feature that is not read.
        ImportError
            deltalake is not installed.
        """
        options = self._options
        if not options.place.uri:
            raise ValueError("a DeltaSource needs set_table(...)")
        if options.version is not None and options.starting_version is not None:
            raise ValueError(
                "a DeltaSource begins either with the table as it was (set_version_as_of, set_timestamp_as_of) or with "
                "what a version appends (set_starting_version)"
            )
        deltalake_module("DeltaSource")
        table = opened(options)
        check_readable(table.protocol().reader_features, table.metadata().configuration, options.place.uri)
        schema = arrow_schema_of(table.schema())
        return DeltaSource(replace(options, schema=_selected(schema, options.columns)))


def _version(version: object) -> int:
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise ValueError(f"version must be a number from 0 on, got {version!r}")
    return version


def _selected(schema: pa.Schema, columns: tuple[str, ...] | None) -> pa.Schema:
    import pyarrow as pa

    missing = [name for name in columns or () if name not in schema.names]
    if missing:
        raise ValueError(f"the Delta table has no column {missing[0]!r}; it has {', '.join(schema.names)}")
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])
