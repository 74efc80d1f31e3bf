"""A source of what changes in tables of PostgreSQL: one split, whose place is where its log was read to.

A replication slot keeps the log from the last checkpoint on, since it is told of a place when the checkpoint counts
that has it. A checkpoint may stand within a transaction: it has how many changes of it were read. After a failure the
server sends the transaction again, in the same order, and these are passed over; so no transaction has to be held in
memory. Flink CDC: PostgresSourceEnumerator, PostgresStreamFetchTask.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkbuf.errors import CorruptDataError
from flinkbuf.log import logger
from flinkbuf.streaming.postgres.pgoutput import (
    Change,
    Relation,
    TransactionBegin,
    TransactionCommit,
    Truncate,
    TypeName,
    decode,
)
from flinkbuf.streaming.postgres.postgres_client import PostgresSetupError
from flinkbuf.streaming.postgres.postgres_replication import (
    Received,
    ReplicationConnection,
    ReplicationError,
    ServerLog,
    lsn_text,
    parse_lsn,
)
from flinkbuf.streaming.postgres.published_table import PublishedTable, RowOptions
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.sources.source import (
    Boundedness,
    EnumeratorContext,
    ReaderContext,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    from flinkbuf._core.operators.source_operator import ReaderOutput

_BATCHES_AHEAD = 2  # that wait for the task
_POLL_S = 0.1  # the thread of a reader looks so often whether it is to end
_FIRST_STATUS_S, _LONGEST_STATUS_S = 0.02, 1.0  # until a quiet server is asked how far it is
_TAKEOVER_S = 90.0  # longer than wal_sender_timeout, after which a server knows that a reader is gone
_END_S = 2.0  # for the server to hear of the last checkpoint


@dataclass(frozen=True)
class PostgresChangeOptions:
    """What a source of changes was built with.

    Attributes
    ----------
    connection : str
        As libpq takes it.
    until : str or None
        The end of a bounded source: a place in the log, or "" for where the log ends when the job begins.
    """

    connection: str = ""
    slot: str = ""
    publications: tuple[str, ...] = ()
    rows: RowOptions | None = None
    ignores_truncate: bool = False
    until: str | None = None


@dataclass(frozen=True)
class ReplicationSplit:
    """The changes of a slot behind a place in the server's log.

    Attributes
    ----------
    position : int
        All transactions were read whose commits are before it.
    transaction : int or None
        Where the commit of the transaction is that is being read.
    change_count : int
        How many changes of this transaction were read.
    until : int or None
        Transactions whose commits are at this place or behind it are left.
    timeline : int or None
        Which way the server's log had gone when it was read; None: it is not known.
    """

    slot: str
    publications: tuple[str, ...]
    system_id: str
    position: int
    transaction: int | None = None
    change_count: int = 0
    until: int | None = None
    timeline: int | None = None

    @property
    def split_id(self) -> str:
        """Return the slot, which is the only split."""
        return self.slot


class PostgresTableChangeSource(Source):
    """Reads changes; `flinkbuf.datastream.connectors.postgres.PostgresChangeSource` is its face."""

    def __init__(self, options: PostgresChangeOptions) -> None:
        self.options = options

    @property
    def boundedness(self) -> Boundedness:  # type: ignore[override]
        """Return the boundedness that the source was built with."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self.options.until is None else Boundedness.BOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the rows."""
        return None if self.options.rows is None else self.options.rows.row_type

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Ask the server where its slot begins."""
        return ReplicationEnumerator(context, self.options)

    def restore_enumerator(self, context: EnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        """Go on with the split, if it was found and not given to a reader."""
        return ReplicationEnumerator(context, self.options, *checkpoint)

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Read the slot, if its split comes here."""
        return PostgresChangeReader(context, self.options)


class ReplicationEnumerator(SplitEnumerator):
    """Looks at slot, publications and tables, and gives the one split to the first subtask.

    The server sends a slot's changes over one connection and in one order, so there is nothing to deal out.
    """

    def __init__(
        self,
        context: EnumeratorContext,
        options: PostgresChangeOptions,
        is_found: bool = False,
        pending: ReplicationSplit | None = None,
    ) -> None:
        self._context = context
        self._options = options
        self._is_found = is_found
        self._pending = pending

    def start(self) -> None:
        """Look at the server on another thread, unless that was done before."""
        if not self._is_found:
            self._context.call_async(self._look, self._found)

    def _look(self) -> ReplicationSplit:
        options = self._options
        connection = ReplicationConnection(options.connection)
        try:
            tables, type_names = connection.published_tables(options.publications)
            assert options.rows is not None, "the builder asks for a type"
            for relation in tables:
                PublishedTable(relation, options.rows, type_names)
            slot, log = connection.slot(options.slot), connection.log()
            until = options.until
            return ReplicationSplit(
                options.slot,
                options.publications,
                log.system_id,
                slot.confirmed_lsn,
                until=None if until is None else parse_lsn(until) if until else log.end_lsn,
                timeline=log.timeline,
            )
        finally:
            connection.close()

    def _found(self, split: ReplicationSplit | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self._is_found, self._pending = True, split
        for subtask_index in sorted(self._context.registered_readers):
            self._give(subtask_index)

    def add_reader(self, subtask_index: int) -> None:
        """Give the first reader the split, and tell the others that there is none for them."""
        if self._is_found:
            self._give(subtask_index)

    def add_splits_back(self, splits: Sequence[ReplicationSplit], subtask_index: int) -> None:
        """Keep the split until its reader comes again."""
        (self._pending,) = splits

    def _give(self, subtask_index: int) -> None:
        if subtask_index == 0 and self._pending is not None:
            split, self._pending = self._pending, None
            self._context.assign_split(split, 0)
        self._context.signal_no_more_splits(subtask_index)

    def snapshot_state(self, checkpoint_id: int) -> object:
        """Return whether the split was found, and the split if no reader has it."""
        return self._is_found, self._pending


class PostgresChangeReader(SourceReader):
    """Emits rows of what a thread of its own receives."""

    has_split_outputs = True

    def __init__(self, context: ReaderContext, options: PostgresChangeOptions) -> None:
        assert options.rows is not None, "the builder asks for a type"
        self._context = context
        self._options = options
        self._row_options = options.rows
        self._split: ReplicationSplit | None = None  # as it is now, but for the changes of its transaction
        self._change_count = 0  # of these: how many were read
        self._output: Any = None
        self._has_no_more = False
        self._receiver: _Receiver | None = None
        self._messages: deque[bytes | int] = deque()  # that were taken and not yet read
        self._positions: dict[int, int] = {}  # by checkpoint: what the slot is told when it is complete
        self._position = 0
        self._tables: dict[int, PublishedTable] = {}
        self._type_names: dict[int, str] = {}
        self._begin: TransactionBegin | None = None  # of the transaction that is being received
        self._seen_count = 0  # changes of this transaction that were received

    def add_splits(self, splits: Sequence[ReplicationSplit]) -> None:
        """Begin to receive; there is one split."""
        (split,) = splits
        self._check_restored(split)
        self._split, self._position, self._change_count = split, split.position, split.change_count
        self._receiver = _Receiver(self._context, self._options, split)

    def _check_restored(self, split: ReplicationSplit) -> None:
        options = self._options
        if split.slot != options.slot:
            raise PostgresSetupError(
                f"the checkpoint has a place in the replication slot {split.slot!r}, and the source reads "
                f"{options.slot!r}: begin the job anew, or read the slot of the checkpoint"
            )
        if split.transaction is not None and split.publications != options.publications:
            raise PostgresSetupError(
                f"the checkpoint lies within a transaction that was read by the publications {split.publications}; it "
                "can be gone on from with these alone. Take a savepoint while nothing is written, and go on from that"
            )

    def notify_no_more_splits(self) -> None:
        """End after the split, if there is one."""
        self._has_no_more = True

    def poll_next(self, output: ReaderOutput) -> int:
        """Emit rows until the turn is over."""
        receiver = self._receiver
        if receiver is not None and self._split is not None:
            if not self._messages:
                self._messages.extend(receiver.take())
            while self._messages and self._split is not None:
                self._read(self._messages.popleft(), output)
                if output.is_turn_over:
                    break
            if self._split is not None:
                has_more = bool(self._messages) or receiver.has_messages
                return InputStatus.MORE_AVAILABLE if has_more else InputStatus.NOTHING_AVAILABLE
        return InputStatus.END_OF_INPUT if self._has_no_more else InputStatus.NOTHING_AVAILABLE

    def _read(self, received: bytes | int, output: ReaderOutput) -> None:
        if isinstance(received, int):
            if self._split is not None and self._split.transaction is None:
                self._advance(received, output)
            return
        message = decode(received)
        if isinstance(message, Change):
            self._read_change(message, output)
        elif isinstance(message, TransactionBegin):
            self._read_begin(message, output)
        elif isinstance(message, TransactionCommit):
            self._read_commit(message, output)
        elif isinstance(message, Relation):
            self._tables[message.oid] = PublishedTable(message, self._row_options, self._type_names)
        elif isinstance(message, TypeName):
            self._type_names[message.oid] = message.name
        elif isinstance(message, Truncate):
            self._read_truncate(message)

    def _read_begin(self, begin: TransactionBegin, output: ReaderOutput) -> None:
        split = self._current()
        if split.transaction is not None and split.transaction != begin.commit_lsn:
            raise PostgresSetupError(
                f"of the transaction committed at {lsn_text(split.transaction)} of PostgreSQL's log "
                f"{self._change_count} changes were read before the job began again, and the server sends one "
                f"committed at {lsn_text(begin.commit_lsn)} instead: it is another server, or its log is another"
            )
        if split.until is not None and begin.commit_lsn >= split.until:
            self._end(output)
            return
        self._begin, self._seen_count = begin, 0
        if split.transaction is None:
            self._split = replace(split, transaction=begin.commit_lsn)

    def _read_change(self, change: Change, output: ReaderOutput) -> None:
        table = self._tables.get(change.relation_oid)
        if table is None:
            raise CorruptDataError(f"a change is of table number {change.relation_oid}, which PostgreSQL has not told")
        if not self._is_new():
            return
        timestamp_ms = self._transaction().commit_us // 1_000
        if self._output is None:
            self._output = output.create_output_for_split(self._current().split_id)
        for row in table.rows(change):
            self._output.collect(row, timestamp_ms)

    def _read_truncate(self, truncate: Truncate) -> None:
        if self._is_new() and not self._options.ignores_truncate:
            names = ", ".join(str(self._tables.get(oid, oid)) for oid in truncate.relation_oids)
            raise PostgresSetupError(
                f"{names} of PostgreSQL was truncated, and no kind of row says so. set_ignores_truncate(True) has the "
                "source go on, with what the job has counted of the table left as it is"
            )

    def _is_new(self) -> bool:
        """Count a change of the transaction; returns whether it was not read before."""
        self._transaction()
        self._seen_count += 1
        if self._seen_count <= self._change_count:
            return False
        self._change_count = self._seen_count
        return True

    def _transaction(self) -> TransactionBegin:
        if self._begin is None:
            raise CorruptDataError("a message of pgoutput belongs to a transaction, and none has begun")
        return self._begin

    def _current(self) -> ReplicationSplit:
        assert self._split is not None, "nothing is read behind the end"
        return self._split

    def _read_commit(self, commit: TransactionCommit, output: ReaderOutput) -> None:
        if self._transaction().commit_lsn != commit.commit_lsn or commit.end_lsn < commit.commit_lsn:
            raise CorruptDataError(
                f"the transaction that ends at {lsn_text(commit.commit_lsn)} is not the one that began"
            )
        split = self._current()
        if self._seen_count < self._change_count:
            raise PostgresSetupError(
                f"the transaction committed at {lsn_text(commit.commit_lsn)} of PostgreSQL's log has "
                f"{self._seen_count} changes, and {self._change_count} were read before the job began again"
            )
        self._begin, self._change_count = None, 0
        self._split = replace(split, transaction=None)
        self._advance(commit.end_lsn, output)

    def _advance(self, position: int, output: ReaderOutput) -> None:
        """Note that all transactions were read whose commits are before a place."""
        split = self._current()
        self._position = max(position, split.position)
        self._split = replace(split, position=self._position)
        if split.until is not None and self._position >= split.until:
            self._end(output)

    def _end(self, output: ReaderOutput) -> None:
        output.release_output_for_split(self._current().split_id)
        self._split = self._output = None
        self._messages.clear()

    def pause_or_resume_splits(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> None:
        """Do nothing: there is one split, and the operator waits as a whole."""

    def snapshot_state(self, checkpoint_id: int) -> list[ReplicationSplit]:
        """Return the split, from the change on that comes next."""
        if self._receiver is None:
            return []
        self._positions[checkpoint_id] = self._position
        if self._split is None:
            return []
        return [replace(self._split, change_count=self._change_count, timeline=self._receiver.timeline)]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell the slot that what is before the checkpoint's place is not needed again."""
        position = self._positions.pop(checkpoint_id, None)
        self._positions = {key: value for key, value in self._positions.items() if key > checkpoint_id}
        if position is not None and self._receiver is not None:
            self._receiver.confirm(position)

    def close(self) -> None:
        """End the thread and the connection."""
        if self._receiver is not None:
            self._receiver.close()


class _Receiver:
    """The thread that has the connection: it receives, and tells the server how far the job is, also while it waits."""

    def __init__(self, context: ReaderContext, options: PostgresChangeOptions, split: ReplicationSplit) -> None:
        self._options = options
        self._split = split
        self._wake = context.wake
        self._batches: deque[list[bytes | int]] = deque()
        self._has_room = threading.Condition()
        self._error: BaseException | None = None
        self._is_closed = False
        self._confirmed_lsn = self._received_lsn = split.position
        self.timeline = split.timeline  # of the server that is read
        self._told_lsn = 0  # what the server was told last
        self._quiet_s = _FIRST_STATUS_S
        self._due_s = 0.0
        name = f"{context.task.task_name_with_subtask} PostgreSQL"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def confirm(self, lsn: int) -> None:
        """Have the server told that a checkpoint has all before a place."""
        self._confirmed_lsn = max(lsn, self._confirmed_lsn)

    @property
    def has_messages(self) -> bool:
        """Return whether a batch waits, or an error."""
        return bool(self._batches) or self._error is not None

    def take(self) -> list[bytes | int]:
        """Take a batch; raises what the thread has ended with."""
        with self._has_room:
            if self._batches:
                self._has_room.notify()
                return self._batches.popleft()
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            return []

    def _run(self) -> None:
        connection: ReplicationConnection | None = None
        try:
            connection = self._open()
            while connection is not None and not self._is_closed:
                received = connection.receive(min(_POLL_S, self._quiet_s))
                self._received_lsn = max(self._received_lsn, received.last_lsn)
                self._tell(connection, received)
                if received.messages:
                    self._put(connection, received.messages)
            if connection is not None:
                self._say_goodbye(connection)
        except BaseException as error:
            self._error = error
            self._wake()
        finally:
            if connection is not None:
                connection.close()

    def _open(self) -> ReplicationConnection | None:
        """Connect, and begin at the checkpoint's place; None: it was closed while another reader had the slot."""
        deadline_s = time.monotonic() + _TAKEOVER_S
        is_told = False
        while not self._is_closed:
            connection = ReplicationConnection(self._options.connection)
            try:
                self._check_server(connection)
                connection.start(self._split.slot, self._split.position, self._options.publications)
                return connection
            except ReplicationError as error:
                connection.close()
                if not error.is_in_use:
                    raise
                if time.monotonic() >= deadline_s:
                    raise ReplicationError(
                        f"{error}. It was waited for {_TAKEOVER_S:g} s, as for a reader that was killed: another job "
                        "reads the slot, and each job needs one of its own"
                    ) from error
                if not is_told:
                    logger.warning("the replication slot is in use, and is waited for: %s", error)
                is_told = True
                time.sleep(_POLL_S)
            except BaseException:
                connection.close()
                raise
        return None

    def _check_server(self, connection: ReplicationConnection) -> None:
        split = self._split
        log = connection.log()
        if log.system_id != split.system_id:
            raise PostgresSetupError(
                f"{connection.place} is another server (system identifier {log.system_id}) than the one that the "
                f"checkpoint has a place of ({split.system_id}): begin the job anew there"
            )
        self._check_log(connection, log)
        slot = connection.slot(split.slot)
        if slot.confirmed_lsn > split.position:
            raise PostgresSetupError(
                f"{connection.place} has its slot {split.slot!r} at {lsn_text(slot.confirmed_lsn)}, behind the "
                f"checkpoint's place {lsn_text(split.position)}: changes in between were confirmed, by a later "
                "checkpoint or another client, and are not sent again. Go on from the newest checkpoint, or load the "
                "tables again and begin the job anew"
            )
        self.timeline = log.timeline

    def _check_log(self, connection: ReplicationConnection, log: ServerLog) -> None:
        """Refuse a log that was set back: what is written at places that the job has passed would not be sent."""
        split, end_lsn = self._split, log.end_lsn
        if split.timeline is not None and log.timeline is not None and split.timeline != log.timeline:
            end_lsn = connection.end_of_timeline(split.timeline, log.timeline)
        read_lsn = split.position if split.transaction is None else split.transaction + 1
        if end_lsn < read_lsn:
            raise PostgresSetupError(
                f"{connection.place} has the log of the checkpoint to {lsn_text(end_lsn)} only, before the "
                f"checkpoint's place {lsn_text(read_lsn)}: the server was set back to a backup, or is a copy that took "
                "over before it had all. The job has changes that were never made there, and what was made instead is "
                "not sent: drop the slot, make it anew, load the tables again and begin the job anew"
            )

    def _tell(self, connection: ReplicationConnection, received: Received | None) -> None:
        """Tell the server how far the job is, when that has changed, it asks, or it has been quiet for some time."""
        now_s = time.monotonic()
        confirmed = self._confirmed_lsn
        is_quiet = received is not None and all(isinstance(each, int) for each in received.messages)
        if not is_quiet:
            self._quiet_s = _FIRST_STATUS_S
        is_due = now_s >= self._due_s
        if is_due or confirmed != self._told_lsn or (received is not None and received.asks_for_answer):
            connection.send_status(max(self._received_lsn, confirmed), confirmed, is_due and is_quiet)
            self._told_lsn = confirmed
            self._due_s = now_s + self._quiet_s
            self._quiet_s = min(2 * self._quiet_s, _LONGEST_STATUS_S)

    def _put(self, connection: ReplicationConnection, messages: list[bytes | int]) -> None:
        while True:
            with self._has_room:
                if len(self._batches) >= _BATCHES_AHEAD and not self._is_closed:
                    self._has_room.wait(_POLL_S)
                if len(self._batches) < _BATCHES_AHEAD or self._is_closed:
                    self._batches.append(messages)
                    break
            self._tell(connection, None)
        self._wake()

    def _say_goodbye(self, connection: ReplicationConnection) -> None:
        """The last checkpoint of a job that ends is complete right before its readers are closed."""
        if self._confirmed_lsn != self._told_lsn:
            connection.send_status(max(self._received_lsn, self._confirmed_lsn), self._confirmed_lsn, False)
        try:
            connection.end(_END_S)
        except Exception as error:
            logger.warning("the end of replication from PostgreSQL was not answered: %s", error)

    def close(self) -> None:
        """End the thread, which closes the connection."""
        self._is_closed = True
        with self._has_room:
            self._has_room.notify_all()
        self._thread.join(_END_S + 2 * _POLL_S)
        if self._thread.is_alive():
            logger.warning("the connection that replicates from PostgreSQL has not ended and was left")
