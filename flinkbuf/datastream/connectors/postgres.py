"""Tables of PostgreSQL as sinks, and their changes as a source. Needs psycopg.

Flink: JdbcSink with XA, which PyFlink has for Java drivers only; the PostgreSQL connector of Flink CDC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from flinkbuf.datastream.arguments import OptionsBuilder
from flinkbuf.datastream.connectors.base import DeliveryGuarantee
from flinkbuf.streaming.postgres.postgres_client import PostgresSetupError, check_connection
from flinkbuf.streaming.postgres.postgres_replication import parse_lsn
from flinkbuf.streaming.postgres.postgres_source import PostgresChangeOptions, PostgresTableChangeSource
from flinkbuf.streaming.postgres.postgres_values import is_readable
from flinkbuf.streaming.postgres.published_table import RowOptions
from flinkbuf.streaming.sinks.postgres_sink import PostgresOptions, PostgresTableSink, check_prefix
from flinkbuf.types.type_information import RowTypeInfo
from flinkbuf.types.types import Types, as_type

__all__ = [
    "PostgresChangeSource",
    "PostgresChangeSourceBuilder",
    "PostgresSetupError",
    "PostgresSink",
    "PostgresSinkBuilder",
]

_SLOT = re.compile(r"[a-z0-9_]{1,63}", re.ASCII)


class PostgresSink(PostgresTableSink):
    """Writes each record as a row, exactly once.

    With checkpoints, what a subtask has written between two of them is one transaction, which is prepared (``PREPARE
    TRANSACTION``) with the checkpoint and committed when it counts; so rows become visible once a checkpoint. A job
    that fails in between commits it when it goes on. Without checkpoints all rows become visible at the end of a
    bounded job. The server needs ``max_prepared_transactions`` of at least twice the sink's parallelism; it is 0 unless
    somebody has set it. Prepared transactions hold their locks: until the commit, others wait for the rows.

    References
    ----------
    Flink ``JdbcSink.exactlyOnceSink``.

    Examples
    --------
    >>> sink = (
    ...     PostgresSink.builder()
    ...     .set_connection("host=localhost dbname=flights")
    ...     .set_table("delays", ["carrier", "minutes"])
    ...     .build()
    ... )  # doctest: +SKIP
    >>> stream.sink_to(sink)  # doctest: +SKIP
    """

    @staticmethod
    def builder() -> PostgresSinkBuilder:
        """Begin a sink."""
        return PostgresSinkBuilder()


class PostgresSinkBuilder(OptionsBuilder[PostgresOptions]):
    """What a `PostgresSink` is to do: a connection and either a table or a statement, the rest if you like."""

    def __init__(self) -> None:
        self._options = PostgresOptions("")

    def set_connection(self, connection: str) -> PostgresSinkBuilder:
        """Set where the database is.

        Parameters
        ----------
        connection : str
            As libpq takes it: ``"host=... dbname=... user=..."`` or ``"postgresql://..."``. What it leaves out comes
            from the environment of the tasks (``PGPASSWORD``, ``~/.pgpass``), which is where a password belongs.
        """
        return self._with(connection=connection)

    def set_table(self, table: str, columns: Sequence[str]) -> PostgresSinkBuilder:
        """Copy each record into a table: the fastest way.

        Parameters
        ----------
        table : str
            Its name, or ``schema.name``.
        columns : sequence of str
            Which column each field of a record goes to.
        """
        if isinstance(columns, str) or not columns:
            raise ValueError(f"columns must be a list of at least one name, got {columns!r}")
        return self._with(table=table, columns=tuple(columns), statement=None)

    def set_sql(self, statement: str, parameters: Callable[[Any], object] | None = None) -> PostgresSinkBuilder:
        """Execute a statement for each record, such as an ``INSERT ... ON CONFLICT ... DO UPDATE``.

        Parameters
        ----------
        statement : str
            With ``%s`` or ``%(name)s`` for each parameter.
        parameters : callable, optional
            Makes a sequence or a dict out of a record; None: the record is one, or the only parameter.
        """
        return self._with(statement=statement, parameters=parameters, table=None)

    def set_parameters(self, parameters: Callable[[Any], object]) -> PostgresSinkBuilder:
        """Set what makes the fields of a row out of a record."""
        return self._with(parameters=parameters)

    def set_batch_size(self, batch_size: int) -> PostgresSinkBuilder:
        """Set how many rows are sent at once; 1,000 unless it is set."""
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1 row, got {batch_size}")
        return self._with(batch_size=batch_size)

    def set_batch_interval(self, batch_interval_ms: int) -> PostgresSinkBuilder:
        """Set after how many milliseconds rows are sent that are fewer; at least once only. 0: with the checkpoint."""
        if batch_interval_ms < 0:
            raise ValueError(f"batch_interval_ms must not be negative, got {batch_interval_ms}")
        return self._with(batch_interval_ms=batch_interval_ms)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> PostgresSinkBuilder:
        """Set how often a row may come if something fails; exactly once unless it is set.

        Otherwise each batch is committed by itself, and no transaction is prepared.
        """
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise TypeError(f"delivery_guarantee must be a DeliveryGuarantee, got {delivery_guarantee!r}")
        return self._with(is_exactly_once=delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE)

    def set_transaction_prefix(self, transaction_prefix: str) -> PostgresSinkBuilder:
        """Set what the names of transactions begin with, so that another job can clear away what this one has left.

        No two sinks that run at the same time may share it: each rolls back what the other has prepared. Unless it is
        set, each job has one of its own, and what a job leaves that is given up for good is to be ended by hand
        (``SELECT gid FROM pg_prepared_xacts``).
        """
        return self._with(transaction_prefix=check_prefix(transaction_prefix))

    def build(self) -> PostgresSink:
        """Make the sink.

        Raises
        ------
        ValueError
            There is no connection, or none that libpq can read, or neither a table nor a statement.
        ImportError
            psycopg is not installed.
        """
        if not self._options.connection:
            raise ValueError("a PostgresSink needs set_connection(...)")
        if self._options.table is None and self._options.statement is None:
            raise ValueError("a PostgresSink needs set_table(...) or set_sql(...)")
        check_connection("PostgresSink", self._options.connection)
        return PostgresSink(self._options)


class PostgresChangeSource(PostgresTableChangeSource):
    """Reads what changes in the tables of a publication, each change exactly once, by logical replication.

    Each change is a `Row` with its `RowKind`, transactions come in the order of their commits, and the timestamp of a
    row is that of the commit. The slot keeps the server's log for the job and is moved on when a checkpoint is
    complete, so a job without checkpoints never moves it. One subtask reads: a slot has one connection and one order.

    An inserted row is an ``INSERT``. An updated one is an ``UPDATE_AFTER``, behind an ``UPDATE_BEFORE`` if the server
    sends the old row, and a deleted one is a ``DELETE``. What there is of an old row depends on the table: with
    ``REPLICA IDENTITY FULL`` all of it. Otherwise the fields that are not in the key are None, and an update that
    leaves the key as it is has no ``UPDATE_BEFORE``.

    References
    ----------
    The PostgreSQL connector of Flink CDC.

    Examples
    --------
    >>> source = (
    ...     PostgresChangeSource.builder()
    ...     .set_connection("host=localhost dbname=flights")
    ...     .set_publication("delays")
    ...     .set_slot("delays")
    ...     .set_type("carrier string, minutes int")
    ...     .build()
    ... )  # doctest: +SKIP
    >>> env.from_source(source, WatermarkStrategy.no_watermarks(), "delays").set_parallelism(1)  # doctest: +SKIP
    """

    @staticmethod
    def builder() -> PostgresChangeSourceBuilder:
        """Begin a source."""
        return PostgresChangeSourceBuilder()


class PostgresChangeSourceBuilder(OptionsBuilder[PostgresChangeOptions]):
    """What a `PostgresChangeSource` is to read: a connection, a publication, a slot and the type of its rows."""

    def __init__(self) -> None:
        self._options = PostgresChangeOptions()
        self._table_field: str | None = None
        self._unchanged: tuple[object, ...] = ()
        self._row_type: RowTypeInfo | None = None

    def set_connection(self, connection: str) -> PostgresChangeSourceBuilder:
        """Set where the database is.

        Parameters
        ----------
        connection : str
            As libpq takes it, and as `PostgresSinkBuilder.set_connection` does. The user needs the right to replicate
            (``ALTER ROLE ... REPLICATION``).
        """
        return self._with(connection=connection)

    def set_publication(self, *publications: str) -> PostgresChangeSourceBuilder:
        """Set whose tables are read (``CREATE PUBLICATION``); its column lists and row filters hold."""
        if not publications or not all(publications):
            raise ValueError(f"a publication has a name, got {publications!r}")
        return self._with(publications=publications)

    def set_slot(self, slot: str) -> PostgresChangeSourceBuilder:
        """Set the replication slot, which is there, and which nobody else reads.

        It is made behind the publication, by ``SELECT pg_create_logical_replication_slot('...', 'pgoutput')``; changes
        are read from then on. Drop it when the job is given up: a slot that nobody reads keeps the log without end.
        """
        if not isinstance(slot, str) or not _SLOT.fullmatch(slot):
            raise ValueError(f"a replication slot is called by 1 to 63 of a-z, 0-9 and _, got {slot!r}")
        return self._with(slot=slot)

    def set_type(self, row_type: object) -> PostgresChangeSourceBuilder:
        """Set what the rows are.

        Parameters
        ----------
        row_type : TypeInformation or str
            A row whose fields are called as columns that each table of the publication has; other columns are left
            out. As DDL of Spark, too: ``"carrier string, minutes int"``.
        """
        declared = as_type(row_type)
        if not isinstance(declared, RowTypeInfo) or declared.names is None:
            raise TypeError(f"the type of changes is a row with names, such as Types.ROW_NAMED(...), got {declared!r}")
        for name, field_type in zip(declared.names, declared.field_types, strict=True):
            if not is_readable(field_type):
                raise TypeError(f"field {name!r} is {field_type!r}, which no column of PostgreSQL can be read as")
        self._row_type = declared
        return self

    def set_table_field(self, name: str) -> PostgresChangeSourceBuilder:
        """Set which field of the type, a STRING, has the table that a row is of, as ``schema.name``."""
        self._table_field = name
        return self

    def set_value_of_unchanged(self, value: object) -> PostgresChangeSourceBuilder:
        """Set what a row has in place of a large value that an update left as it was, such as None.

        The server does not send such a value again, unless the table has ``REPLICA IDENTITY FULL``; where nothing is
        set, an update of that kind is an error.
        """
        self._unchanged = (value,)
        return self

    def set_ignores_truncate(self, ignores_truncate: bool) -> PostgresChangeSourceBuilder:
        """Set whether a ``TRUNCATE`` goes by without a row; it is an error unless it is set."""
        return self._with(ignores_truncate=ignores_truncate)

    def set_bounded(self, until: str | None = None) -> PostgresChangeSourceBuilder:
        """Set where to end; without an end unless it is set.

        Parameters
        ----------
        until : str, optional
            A place in the server's log, as ``pg_current_wal_lsn()`` gives it: transactions that are committed before it
            are read. None: where the log ends when the job begins.
        """
        if until is not None:
            parse_lsn(until)
        return self._with(until=until or "")

    def build(self) -> PostgresChangeSource:
        """Make the source.

        Raises
        ------
        ValueError
            Something is missing that it cannot do without, or libpq cannot read the connection.
        ImportError
            psycopg is not installed.
        """
        options = self._options
        for value, method in (
            (options.connection, "set_connection"),
            (options.publications, "set_publication"),
            (options.slot, "set_slot"),
            (self._row_type, "set_type"),
        ):
            if not value:
                raise ValueError(f"a PostgresChangeSource needs {method}(...)")
        assert self._row_type is not None and self._row_type.names is not None
        if self._table_field is not None:
            fields = dict(zip(self._row_type.names, self._row_type.field_types, strict=True))
            if fields.get(self._table_field) != Types.STRING():
                raise ValueError(f"set_table_field({self._table_field!r}) needs a field of the type that is a STRING")
        check_connection("PostgresChangeSource", options.connection)
        rows = RowOptions(self._row_type, self._table_field, self._unchanged)
        return PostgresChangeSource(replace(options, rows=rows))
