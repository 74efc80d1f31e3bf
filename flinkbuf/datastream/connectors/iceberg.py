"""Iceberg tables as sinks and sources. PyFlink has no such thing. Needs pyiceberg and pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from flinkbuf.datastream.connectors.lakes import TableSinkBuilder, TableSourceBuilder, checked_time
from flinkbuf.streaming.lakes.iceberg_sink import IcebergSinkOptions, IcebergTableSink
from flinkbuf.streaming.lakes.iceberg_source import IcebergRowSource, IcebergSourceOptions, beginning
from flinkbuf.streaming.lakes.iceberg_table import IcebergPlace, IcebergTableError, check_pyiceberg, plain_schema

if TYPE_CHECKING:
    pass

__all__ = ["IcebergSink", "IcebergSinkBuilder", "IcebergSource", "IcebergSourceBuilder", "IcebergTableError"]


class IcebergSink(IcebergTableSink):
    """Appends rows to an Iceberg table, exactly once.

    With checkpoints all that the sink has written between two of them becomes visible as one snapshot, when the
    checkpoint counts. The summary of the snapshot says whose it is and which checkpoint it has (``flink.job-id``,
    ``flink.max-committed-checkpoint-id``), so that it is found again after a failure and nothing is committed twice;
    where that has expired, by the files that it has added: these must not be rewritten while a job still goes on from a
    checkpoint before. Without checkpoints there is one snapshot at the end of a bounded job. Other writers may append
    to the table at the same time.

    The batches of a column stream are written as they are, by the names of their columns; records need a declared type.
    The table has to be there: its catalog decides its columns and partitions. Partitions by anything but columns as
    they are need ``pyiceberg[pyiceberg-core]``. What a job that failed has left among the data files is in no snapshot.

    References
    ----------
    Flink ``IcebergSink``, of Apache Iceberg.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> from pyiceberg.catalog import load_catalog
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> folder = tempfile.TemporaryDirectory()
    >>> catalog = {"type": "sql", "uri": f"sqlite:///{folder.name}/catalog.db", "warehouse": f"file://{folder.name}"}
    >>> lake = load_catalog("lake", **catalog)
    >>> lake.create_namespace("flights")
    >>> table = lake.create_table("flights.delays", pa.schema([("origin", pa.string()), ("minutes", pa.int32())]))
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> delays = env.from_collection([("EWR", 2), ("LGA", 4)]).as_columns("origin string, minutes int")
    >>> _ = delays.sink_to(IcebergSink.builder().set_catalog("lake", catalog).set_table("flights.delays").build())
    >>> _ = env.execute()
    >>> table.refresh().scan().to_arrow()["minutes"].to_pylist()
    [2, 4]
    >>> lake.close(); folder.cleanup()
    """

    @staticmethod
    def builder() -> IcebergSinkBuilder:
        """Begin a sink."""
        return IcebergSinkBuilder()


class IcebergSinkBuilder(TableSinkBuilder[IcebergSinkOptions]):
    """What an `IcebergSink` is to do: a catalog and a table, the rest if you like."""

    table_kind = "an Iceberg table"

    def __init__(self) -> None:
        self._options = IcebergSinkOptions(IcebergPlace())

    def set_catalog(self, name: str, properties: Mapping[str, str] | None = None) -> IcebergSinkBuilder:
        """Set which catalog has the table; "default" unless it is set.

        Parameters
        ----------
        name : str
            By which pyiceberg finds it in its configuration and the environment of the tasks.
        properties : mapping, optional
            What pyiceberg is told of it besides, such as ``{"type": "rest", "uri": ...}``. They travel with the
            program; what is secret belongs into the environment, ``PYICEBERG_CATALOG__NAME__CREDENTIAL``.
        """
        return self._with(place=replace(self._options.place, catalog=name, properties=dict(properties or {})))

    def set_table(self, table: str) -> IcebergSinkBuilder:
        """Set which table: its namespace and its name, ``"flights.delays"``."""
        return self._with(place=replace(self._options.place, table=_checked(table)))

    def set_buffer_size(self, buffer_bytes: int) -> IcebergSinkBuilder:
        """Set how many bytes of rows a subtask keeps before it writes files of them; 128 MiB unless it is set.

        With each checkpoint files are written, too.
        """
        if buffer_bytes < 1:
            raise ValueError(f"buffer_bytes must be at least 1, got {buffer_bytes}")
        return self._with(buffer_bytes=buffer_bytes)

    def build(self) -> IcebergSink:
        """Make the sink.

        Raises
        ------
        ValueError
            No table is named.
        ImportError
            pyiceberg is not installed.
        """
        if not self._options.place.table:
            raise ValueError("an IcebergSink needs set_table(...)")
        check_pyiceberg("IcebergSink")
        return IcebergSink(self._options)


class IcebergSource(IcebergRowSource):
    """Reads the rows of an Iceberg table: as it is, as it was, or as they are appended.

    Unless it is said otherwise it reads the table as it is when the job begins, and ends. With `monitor_continuously`
    it goes on with what later snapshots append, and with `set_start_snapshot_id` it reads only what is appended behind
    a snapshot. A snapshot that takes rows away or changes some is an error there; one that only puts rows into other
    files is passed over. Where ``as_columns`` follows directly, batches of columns are read.

    References
    ----------
    Flink ``IcebergSource``, of Apache Iceberg.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> from pyiceberg.catalog import load_catalog
    >>> from flinkbuf.common import WatermarkStrategy
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> folder = tempfile.TemporaryDirectory()
    >>> catalog = {"type": "sql", "uri": f"sqlite:///{folder.name}/catalog.db", "warehouse": f"file://{folder.name}"}
    >>> lake = load_catalog("lake", **catalog)
    >>> lake.create_namespace("db")
    >>> numbers = lake.create_table("db.numbers", pa.schema([("n", pa.int64())]))
    >>> numbers.append(pa.table({"n": [1, 2]}))
    >>> before = numbers.current_snapshot().snapshot_id
    >>> numbers.append(pa.table({"n": [3]}))
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> start = IcebergSource.builder().set_catalog("lake", catalog).set_table("db.numbers")
    >>> source = start.set_start_snapshot_id(before).build()
    >>> env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").execute_and_collect(limit=1)
    [Row(n=3)]
    >>> lake.close(); folder.cleanup()
    """

    @staticmethod
    def builder() -> IcebergSourceBuilder:
        """Begin a source."""
        return IcebergSourceBuilder()


class IcebergSourceBuilder(TableSourceBuilder[IcebergSourceOptions]):
    """What an `IcebergSource` is to do: a catalog and a table, the rest if you like."""

    def __init__(self) -> None:
        self._options = IcebergSourceOptions(IcebergPlace())

    def set_catalog(self, name: str, properties: Mapping[str, str] | None = None) -> IcebergSourceBuilder:
        """Set which catalog has the table, as `IcebergSinkBuilder.set_catalog` does."""
        return self._with(place=replace(self._options.place, catalog=name, properties=dict(properties or {})))

    def set_table(self, table: str) -> IcebergSourceBuilder:
        """Set which table: its namespace and its name, ``"flights.delays"``."""
        return self._with(place=replace(self._options.place, table=_checked(table)))

    def set_snapshot_id_as_of(self, snapshot_id: int) -> IcebergSourceBuilder:
        """Begin with the table as it was in a snapshot."""
        return self._with(snapshot_id=_snapshot(snapshot_id), timestamp_ms=None)

    def set_timestamp_as_of(self, timestamp: datetime) -> IcebergSourceBuilder:
        """Begin with the table as it was at a time, which has a time zone."""
        return self._with(timestamp_ms=int(checked_time(timestamp).timestamp() * 1_000), snapshot_id=None)

    def set_start_snapshot_id(self, snapshot_id: int) -> IcebergSourceBuilder:
        """Read only what is appended behind a snapshot, whose own rows are not read."""
        return self._with(start_snapshot_id=_snapshot(snapshot_id))

    def build(self) -> IcebergSource:
        """Look at the table, and make the source.

        Raises
        ------
        ValueError
            No table is named, two beginnings are, or a column that it has not.
        FileNotFoundError
            There is no such table.
        IcebergTableError
            It has no such snapshot.
        ImportError
            pyiceberg is not installed.
        """
        options = self._options
        if not options.place.table:
            raise ValueError("an IcebergSource needs set_table(...)")
        if options.start_snapshot_id is not None and (options.snapshot_id or options.timestamp_ms) is not None:
            raise ValueError(
                "an IcebergSource begins either with the table as it was (set_snapshot_id_as_of, set_timestamp_as_of) "
                "or with what is appended behind a snapshot (set_start_snapshot_id)"
            )
        check_pyiceberg("IcebergSource")
        table = options.place.load()
        beginning(table, options)
        schema = table.schema()
        missing = [name for name in options.columns or () if name not in schema.as_arrow().names]
        if missing:
            raise ValueError(
                f"{options.place} has no column {missing[0]!r}; it has {', '.join(schema.as_arrow().names)}"
            )
        found = plain_schema(schema.as_arrow())
        if options.columns is not None:
            import pyarrow as pa

            found = pa.schema([found.field(name) for name in options.columns])
        return IcebergSource(replace(options, schema=found, table_schema=schema.model_dump_json()))


def _checked(table: str) -> str:
    if not isinstance(table, str) or "." not in table.strip("."):
        raise ValueError(f"a table is named with its namespace, as in 'flights.delays', got {table!r}")
    return table


def _snapshot(snapshot_id: object) -> int:
    if isinstance(snapshot_id, bool) or not isinstance(snapshot_id, int):
        raise ValueError(f"snapshot_id must be a number, got {snapshot_id!r}")
    return snapshot_id
