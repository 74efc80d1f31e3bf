"""Rows into a table of PostgreSQL: exactly once by transactions that are prepared, or at least once in batches.

A transaction holds what a subtask has written between two checkpoints. PREPARE TRANSACTION leaves it with the server,
where it outlives the connection, and COMMIT PREPARED ends it when the checkpoint counts. Its name says whose it is and
behind which checkpoint it was begun, so that an attempt which goes on from checkpoint n can roll back what was prepared
behind n or a later one: that is in no state any more, unless another program has taken the job over and prepared it.
Flink: JdbcExactlyOnceSinkWriter, XaFacade.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flinkbuf._core.value.own_value import copied_if_it_can
from flinkbuf.errors import FlinkbufError
from flinkbuf.log import logger
from flinkbuf.streaming.postgres.postgres_client import PostgresSetupError, psycopg_module
from flinkbuf.streaming.sinks.batching_writer import BatchingWriter
from flinkbuf.streaming.sinks.sink import CommitRequest, Committer, Sink, SinkContext, SinkWriter, WriterContext

if TYPE_CHECKING:
    from typing import Any

    from psycopg import Connection
    from psycopg.sql import Composed


DEFAULT_BATCH_SIZE = 1_000  # rows
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 2.0  # before a commit is tried again
_PREFIX_LIMIT = 120  # bytes; PostgreSQL takes names of transactions up to 199
_JOB_DIGITS = 8  # of a job's id, in names of transactions
_BEHIND_PREFIX = re.compile(r"(\d+):(\d+):(?:([^:]*):(\d+):)?[^:]*", re.ASCII)


@dataclass(frozen=True)
class PostgresOptions:
    """What a sink of PostgreSQL was built with.

    Attributes
    ----------
    connection : str
        As libpq takes it: ``host=... dbname=...`` or ``postgresql://...``.
    statement : str or None
        With ``%s`` or ``%(name)s`` for the parameters; None: rows are copied into `table`.
    parameters : callable or None
        Makes the parameters of a record; None: the record itself.
    """

    connection: str
    table: str | None = None
    columns: tuple[str, ...] = ()
    statement: str | None = None
    parameters: Callable[[object], object] | None = None
    batch_size: int = DEFAULT_BATCH_SIZE
    batch_interval_ms: int = 0  # 0: none
    is_exactly_once: bool = True
    transaction_prefix: str | None = None  # None: one of the job's own


@dataclass(frozen=True)
class PreparedTransaction:
    """A transaction that waits at the server. It is what the sink commits."""

    name: str

    def __str__(self) -> str:
        return f"transaction {self.name!r} of PostgreSQL"


@dataclass(frozen=True)
class TransactionNames:
    """How the transactions of one subtask are called: ``prefix:subtask:checkpoint:job:epoch:anything``; decides only.

    Attributes
    ----------
    prefix : str
    subtask_index, parallelism : int
    checkpoint_id : int
        The last one that the subtask was part of; 0: none.
    job : str
        What tells jobs apart that have the same prefix.
    epoch : int
        Of the program that holds the job: how many have held it so far.

    Examples
    --------
    >>> names = TransactionNames("totals", 1, 2, checkpoint_id=5, job="ab", epoch=2)
    >>> names.name("x")
    'totals:1:5:ab:2:x'
    >>> [names.left_behind(f"totals:{rest}:ab:1:x") for rest in ("1:5", "1:4", "3:7", "0:7")]
    [True, False, True, False]
    >>> [names.left_behind(f"totals:1:5:{holder}:x") for holder in ("ab:2", "ab:3", "cd:3")]
    [True, False, True]
    """

    prefix: str
    subtask_index: int
    parallelism: int
    checkpoint_id: int
    job: str = ""
    epoch: int = 1

    def name(self, unique: str) -> str:
        """Return the name of a transaction that is begun now."""
        return f"{self.prefix}:{self.subtask_index}:{self.checkpoint_id}:{self.job}:{self.epoch}:{unique}"

    def left_behind(self, name: str) -> bool:
        """Return whether an earlier attempt of this subtask began a transaction behind the checkpoint.

        At another parallelism the subtasks that there were are dealt out among those that there are. What a program has
        prepared that took the job over from this one is not left behind; epochs of another job say nothing, and a name
        without job and epoch is an older version's.
        """
        found = _BEHIND_PREFIX.fullmatch(name.removeprefix(f"{self.prefix}:"))
        if found is None or not name.startswith(f"{self.prefix}:"):
            return False
        subtask, checkpoint, job, epoch = found.groups()
        if job == self.job and int(epoch) > self.epoch:
            return False
        return int(subtask) % self.parallelism == self.subtask_index and int(checkpoint) >= self.checkpoint_id


def default_prefix(job_id: str, operator_id: str) -> str:
    """Return a prefix that no other sink and no other job has."""
    return "flinkbuf-" + hashlib.sha256(f"{job_id} {operator_id}".encode()).hexdigest()[:16]


def check_prefix(prefix: str) -> str:
    """Return a prefix of the user's; ValueError if PostgreSQL would not take what is called so."""
    if not prefix or ":" in prefix or "'" in prefix or len(prefix.encode()) > _PREFIX_LIMIT:
        raise ValueError(
            f"a transaction prefix has 1 to {_PREFIX_LIMIT} bytes and neither ':' nor quotes, got {prefix!r}"
        )
    return prefix


class PostgresTableSink(Sink):
    """Writes rows; `flinkbuf.datastream.connectors.postgres.PostgresSink` is its face."""

    def __init__(self, options: PostgresOptions) -> None:
        self.options = options

    def create_writer(self, context: WriterContext) -> SinkWriter:
        """Connect, and write the rows of one subtask."""
        return (
            TransactionWriter(self.options, context)
            if self.options.is_exactly_once
            else BatchWriter(self.options, context)
        )

    def create_committer(self) -> Committer | None:
        """Make the committer of prepared transactions."""
        return TransactionCommitter(self.options) if self.options.is_exactly_once else None

    @property
    def has_committer(self) -> bool:
        """Return whether it prepares transactions."""
        return self.options.is_exactly_once


class Rows:
    """Rows on their way into one connection, in batches."""

    def __init__(self, options: PostgresOptions) -> None:
        self._parameters = options.parameters
        self._statement = _copy_statement(options) if options.statement is None else options.statement
        self._is_copied = options.statement is None
        self.batch: list[Any] = []

    def add(self, element: object) -> int:
        """Take one record; returns how many wait."""
        row = _parameters_of(element) if self._parameters is None else self._parameters(element)
        self.batch.append(copied_if_it_can(row))  # whoever gave it may go on changing it
        return len(self.batch)

    def send(self, connection: Connection) -> None:
        """Execute the waiting rows on the server."""
        batch, self.batch = self.batch, []
        with connection.cursor() as cursor:
            if not self._is_copied:
                cursor.executemany(self._statement, batch)
                return
            with cursor.copy(self._statement) as copy:
                for row in batch:
                    copy.write_row(row)


def _copy_statement(options: PostgresOptions) -> Composed:
    sql = psycopg_module("PostgresSink").sql
    table = sql.Identifier(*(options.table or "").split("."))
    columns = sql.SQL(", ").join(map(sql.Identifier, options.columns))
    return sql.SQL("COPY {} ({}) FROM STDIN").format(table, columns)


def _parameters_of(element: object) -> object:
    if isinstance(element, (tuple, list, dict)):
        return element
    return (element,)


class BatchWriter(BatchingWriter):
    """Commits each batch; a record comes once, or several times after a failure."""

    def __init__(self, options: PostgresOptions, context: WriterContext) -> None:
        super().__init__(context, options.batch_size, options.batch_interval_ms)
        self._rows = Rows(options)
        self._connection = connect(options)

    def write(self, element: object, context: SinkContext) -> None:
        """Add a record to the batch."""
        count = self._rows.add(element)
        self.added(count - 1, count)

    def send(self) -> None:
        """Commit the batch."""
        if self._rows.batch:
            with self._connection.transaction():
                self._rows.send(self._connection)

    def close(self) -> None:
        """Close the connection."""
        super().close()
        self._connection.close()


class TransactionWriter(SinkWriter):
    """Writes what comes between two checkpoints into one transaction, and prepares it."""

    def __init__(self, options: PostgresOptions, context: WriterContext) -> None:
        task = context.task
        prefix = options.transaction_prefix or default_prefix(task.job_id, context.operator_id)
        self._options = options
        self._names = TransactionNames(
            prefix,
            task.subtask_index,
            task.parallelism,
            context.restored_checkpoint_id or 0,
            task.job_id[:_JOB_DIGITS],
            task.epoch,
        )
        self._rows = Rows(options)
        self._prepared: list[PreparedTransaction] = []
        self._is_in_transaction = False
        self._connection = connect(options)
        try:
            self._check_server(task.parallelism)
            self._roll_back_leftovers()
        except BaseException:
            self._connection.close()
            raise

    def write(self, element: object, context: SinkContext) -> None:
        """Add a record to the batch, and the batch to the transaction when it is full."""
        if self._rows.add(element) >= self._options.batch_size:
            self._send()

    def flush(self, end_of_input: bool) -> None:
        """Prepare the transaction, if there is one: from now on nothing but its commit is left."""
        if self._rows.batch:
            self._send()
        if self._is_in_transaction:
            self._is_in_transaction = False
            self._prepared.append(self._prepare())

    def prepare_commit(self) -> Sequence[PreparedTransaction]:
        """Return the transactions prepared since the last call."""
        prepared, self._prepared = self._prepared, []
        return prepared

    def snapshot_state(self, checkpoint_id: int) -> list[object]:
        """Return nothing; the next transaction is begun behind this checkpoint."""
        self._names = replace(self._names, checkpoint_id=checkpoint_id)
        return []

    def close(self) -> None:
        """Close the connection; the server rolls back the transaction that was not prepared."""
        self._connection.close()

    def _send(self) -> None:
        if not self._is_in_transaction:
            self._connection.execute("BEGIN")
            self._is_in_transaction = True
        self._rows.send(self._connection)

    def _prepare(self) -> PreparedTransaction:
        errors = psycopg_module("PostgresSink").errors
        name = self._names.name(uuid.uuid4().hex)
        try:
            self._connection.execute(f"PREPARE TRANSACTION {_quoted(name)}")
        except errors.OutOfMemory as error:
            if "max_prepared_transactions" not in (error.diag.message_hint or ""):
                raise
            raise PostgresSetupError(
                f"{_place(self._connection)} holds as many prepared transactions as it may "
                f"({error.diag.message_primary}). " + _advice(self._names.parallelism)
            ) from error
        return PreparedTransaction(name)

    def _check_server(self, parallelism: int) -> None:
        limit = self._connection.execute("SHOW max_prepared_transactions").fetchone()
        assert limit is not None, "SHOW gives a row"
        if int(limit[0]) == 0:
            raise PostgresSetupError(
                f"{_place(self._connection)} prepares no transactions (max_prepared_transactions = 0), so nothing can "
                f"be written exactly once. {_advice(parallelism)}"
            )

    def _roll_back_leftovers(self) -> None:
        rows = self._connection.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, %s)",
            (f"{self._names.prefix}:",),
        ).fetchall()
        for (name,) in rows:
            if self._names.left_behind(name):
                logger.info("rolling back transaction %r, which an attempt that failed had prepared", name)
                _end_prepared(self._connection, "ROLLBACK", name)


class TransactionCommitter(Committer):
    """Commits prepared transactions over a connection of its own, which is opened when it is needed."""

    def __init__(self, options: PostgresOptions) -> None:
        self._options = options
        self._connection: Connection | None = None

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Commit each; one that is not there was committed before, unless it was prepared just now."""
        for request in requests:
            try:
                self._commit(request)
            except psycopg_module("PostgresSink").OperationalError as error:
                logger.warning("%s could not be committed yet: %s", request.committable, error)
                self.close()
                time.sleep(min(_FIRST_WAIT_S * 2**request.attempts, _LONGEST_WAIT_S))
                request.retry_later()

    def _commit(self, request: CommitRequest) -> None:
        if self._connection is None:
            self._connection = connect(self._options)
        if _end_prepared(self._connection, "COMMIT", request.committable.name):
            return
        if not request.is_restored and not request.attempts:
            raise FlinkbufError(
                f"{request.committable} is gone, though this job has not committed it: another client has ended it, "
                "and its rows are lost unless the job goes on from an earlier checkpoint"
            )
        request.signal_already_committed()

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def connect(options: PostgresOptions) -> Connection:
    """Return a connection on which transactions are begun by hand."""
    return psycopg_module("PostgresSink").connect(options.connection, autocommit=True, application_name="flinkbuf")


def _end_prepared(connection: Connection, verb: str, name: str) -> bool:
    """Commit or roll back a prepared transaction; False: there is none of that name."""
    try:
        connection.execute(f"{verb} PREPARED {_quoted(name)}")
    except psycopg_module("PostgresSink").errors.UndefinedObject:
        return False
    return True


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _place(connection: Connection) -> str:
    info = connection.info
    return f"PostgreSQL at {info.host}:{info.port}, database {info.dbname!r},"


def _advice(parallelism: int) -> str:
    return (
        f"Set max_prepared_transactions in its postgresql.conf to {2 * parallelism} or more (for each subtask of each "
        "such sink one, and another one while a checkpoint is on its way) and start it again; or build the sink with "
        "DeliveryGuarantee.AT_LEAST_ONCE"
    )
