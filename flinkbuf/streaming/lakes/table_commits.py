"""What sinks of tables in lakes have in common: rows become batches of the table, and a commit is made once.

A commit says in the table whose it is (an id of the sink in its job), and for which checkpoint. One that is repeated
after a failure is found by that, and left out.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkbuf._core.flow.batch_records import RecordsToBatch
from flinkbuf.errors import FlinkbufError
from flinkbuf.log import logger
from flinkbuf.records.arrow_batches import HAS_FIELDS, arrow_schema, batch_builder, record_type
from flinkbuf.streaming.lakes.parquet_writer import ROWS_PER_GROUP, batch_as
from flinkbuf.streaming.sinks.sink import (
    CommitRequest,
    CommitterContext,
    GlobalCommitter,
    Sink,
    SinkContext,
    SinkWriter,
)
from flinkbuf.types.types import as_type

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Self

    from flinkbuf.types.type_information import TypeInformation

_BATCH_BYTES = 32 << 20
_FIRST_WAIT_S = 0.1  # before a commit is tried again
_LONGEST_WAIT_S = 2.0


class LakeTableError(FlinkbufError, RuntimeError):
    """A table asks for what a sink or source does not do; to begin again does not help."""

    can_restart = False


@dataclass(frozen=True, kw_only=True)
class TableSinkOptions:
    """What sinks of all kinds of tables are built with.

    Attributes
    ----------
    row_type : object
        As `flinkbuf.as_type` reads it; None: the rows are as the table or the stream has them.
    schema : pyarrow.Schema, optional
        Of the table; None: the stream is not known yet.
    record_type : object
        Of the records, where there are some.
    """

    row_type: object = None
    schema: pa.Schema | None = None
    record_type: object = None


class TableSink(Sink):
    """Writes rows into a table; a subclass knows the kind of table."""

    commits_globally = True

    def __init__(self, options: TableSinkOptions) -> None:
        self.options = options

    @abstractmethod
    def for_rows(self, found: pa.Schema | None) -> TableSinkOptions:
        """Return the options for rows as the stream has them, None: known when they come; refuse what cannot be."""

    def of_records(self, type_info: TypeInformation | None) -> Self:
        """Return the sink of records of a type.

        Raises
        ------
        TypeError, ValueError
            If nobody says what they are, or they cannot be rows of the table.
        """
        description = type_info if self.options.row_type is None else self.options.row_type
        if description is None or as_type(description).kind not in HAS_FIELDS:
            raise TypeError(
                f"{type(self).__name__} writes rows, and the type of the records is {type_info or 'not declared'}: say "
                "output_type=Types.ROW_NAMED(...) of the function before it, or set_row_type(...) of the sink"
            )
        return type(self)(replace(self.for_rows(arrow_schema(description)), record_type=description))

    def of_columns(self, schema: pa.Schema | None = None) -> Self:
        """Return the sink of batches of columns.

        Raises
        ------
        TypeError, ValueError
            If they cannot be rows of the table.
        """
        return type(self)(self.for_rows(schema))


class TableWriter(SinkWriter):
    """Makes batches with the columns of a table, in its order and types; a subclass has `add`.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the table.
    record_type : object, optional
        Of the records, as `flinkbuf.as_type` reads it; None: batches come.
    """

    def __init__(self, schema: pa.Schema, description: object) -> None:
        self._schema = schema
        self._required = [each.name for each in schema if not each.nullable]
        self._rows: RecordsToBatch | None = None
        if description is not None:
            codec = record_type(description).codec
            self._rows = RecordsToBatch(codec, batch_builder(codec, description, ROWS_PER_GROUP, _BATCH_BYTES))

    @abstractmethod
    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows with the table's columns."""

    def write(self, element: object, context: SinkContext) -> None:
        """Add one row."""
        assert self._rows is not None, "of records"
        if self._rows.add_record(element):
            self.add_rows()

    def write_batch(self, batch: pa.RecordBatch, context: SinkContext | None) -> None:
        """Add the rows of a batch."""
        batch = batch_as(batch, self._schema)
        for name in self._required:
            if batch.column(name).null_count:
                raise ValueError(f"column {name!r} of the table takes no nulls, and a row has one")
        if batch.num_rows:
            self.add(batch)

    def add_rows(self) -> None:
        """Have all records that came added."""
        batch = None if self._rows is None else self._rows.finish()
        if batch is not None:
            self.write_batch(batch, None)


@dataclass(frozen=True)
class TableCommit:
    """What is committed for one checkpoint: it is found again by `application` and `checkpoint_id`."""

    table: str
    application: str
    checkpoint_id: int
    files: tuple[Any, ...]

    def __str__(self) -> str:
        return f"what checkpoint {self.checkpoint_id} has for {self.table} ({len(self.files)} files)"


class TableCommitter(GlobalCommitter):
    """Commits the files of a checkpoint once; a subclass says how that is seen and done.

    Parameters
    ----------
    table : str
        Of which table, for whoever reads it.
    context : CommitterContext
    retried : tuple of exception classes
        After which a commit is tried again.
    """

    def __init__(self, table: str, context: CommitterContext, retried: tuple[type[Exception], ...]) -> None:
        self._name = table
        self._context = context
        self._retried = retried
        self._has_warned = False
        self._application = self._find_application()

    @abstractmethod
    def last_committed(self, application: str) -> int | None:
        """Look at the table as it is now, and return the last checkpoint that was committed under an id."""

    @abstractmethod
    def append(self, commit: TableCommit) -> None:
        """Add files to the table as it was when `last_committed` looked, or fail if another has committed the same."""

    def has_files(self, commit: TableCommit) -> bool:
        """Return whether a table that may have forgotten a commit has its files all the same."""
        return False

    @abstractmethod
    def gone_file(self, commit: TableCommit) -> str | None:
        """Return a file of a commit that does not exist any more; None: all do."""

    def combine(self, committables: Sequence[Any], checkpoint_id: int) -> TableCommit:
        """Return what is committed for a checkpoint."""
        return TableCommit(self._name, self._application, checkpoint_id, tuple(committables))

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Commit each, unless the table says that it was.

        Then its files stay: they may be those that were committed, given once more to a committer that has begun again.
        """
        for request in requests:
            try:
                self._commit(request)
            except self._retried as error:
                request.error = error
                logger.warning("%s could not be committed yet: %s", request.committable, error)
                time.sleep(min(_FIRST_WAIT_S * 2**request.attempts, _LONGEST_WAIT_S))
                request.retry_later()

    def _commit(self, request: CommitRequest) -> None:
        commit: TableCommit = request.committable
        if commit.table != self._name:
            raise LakeTableError(
                f"the checkpoint has files of {commit.table} that are still to be committed, and the sink writes "
                f"{self._name} now: let the job go on with the table it had, or give the sink another uid"
            )
        done = self.last_committed(commit.application)
        if done is None or done < commit.checkpoint_id:
            if not request.is_restored:
                self.append(commit)
            elif not self.has_files(commit):
                self._check_files(commit)
                self.append(commit)
            else:
                request.signal_already_committed()
            return
        if request.is_restored:
            self._warn_if_behind(done)  # what the job was called when it took the checkpoint may be another id
        request.signal_already_committed()

    def _check_files(self, commit: TableCommit) -> None:
        """Refuse to name files in the table that nobody could read."""
        gone = self.gone_file(commit)
        if gone is not None:
            raise LakeTableError(
                f"{commit} cannot be committed: file {gone} does not exist any more. The job has begun again so late "
                "that what removes files which are in no version of a table has taken it for one; rows are lost unless "
                "the job goes on from an earlier checkpoint"
            )

    def _find_application(self) -> str:
        """Return the id by which the commits of this sink are found again.

        It is the same in each attempt of a job. One that goes on from an older checkpoint than the last that was
        committed, because the user has said so, gets another one: its checkpoints have the numbers of others. Without
        checkpoints there is one commit at the end, which has all rows.
        """
        context = self._context
        digits = hashlib.sha256(f"{context.task.job_id} {context.operator_id}".encode()).hexdigest()[:16]
        application = f"flinkbuf-{digits}"
        done = self.last_committed(application)
        if done is None or not context.checkpointing_enabled or not self._warn_if_behind(done):
            return application
        return f"{application}-{uuid.uuid4().hex[:8]}"

    def _warn_if_behind(self, done: int) -> bool:
        """Return whether the job goes on from an older checkpoint than one that was committed, and say so once."""
        restored_id = self._context.restored_checkpoint_id or 0
        if done <= restored_id:
            return False
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "the job goes on from checkpoint %d, and %s has what it has written up to checkpoint %d: rows in "
                "between come again",
                restored_id,
                self._name,
                done,
            )
        return True
