"""Tables of PostgreSQL as sinks. Flink: JdbcSink with XA; PyFlink has it for Java drivers only. Needs psycopg."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flinkbuf.datastream.arguments import OptionsBuilder
from flinkbuf.datastream.connectors.base import DeliveryGuarantee
from flinkbuf.streaming.sinks.postgres_sink import (
    PostgresOptions,
    PostgresSetupError,
    PostgresTableSink,
    check_prefix,
    psycopg_module,
)

__all__ = ["PostgresSetupError", "PostgresSink", "PostgresSinkBuilder"]


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
            There is no connection, or neither a table nor a statement.
        ImportError
            psycopg is not installed.
        """
        if not self._options.connection:
            raise ValueError("a PostgresSink needs set_connection(...)")
        if self._options.table is None and self._options.statement is None:
            raise ValueError("a PostgresSink needs set_table(...) or set_sql(...)")
        psycopg_module()
        return PostgresSink(self._options)
