"""What sends the rows of a micro-batch to a job; it runs in Spark's Python workers, under ``mapInArrow``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from flinkbuf.config import TlsConfig
from flinkbuf.control.control_client import ControlClient
from flinkbuf.errors import RemoteTransportError
from flinkbuf.spark.streams.epochs import ReaderPlace
from flinkbuf.spark.streams.rows_protocol import begin_of, end_of, group_of, is_taken, messages_of

if TYPE_CHECKING:
    import pyarrow as pa

PARTS_DDL: Final = "run long, partition long, attempt long, subtask long, token string, row_count long"
NOT_DELIVERED: Final = "rows of a micro-batch did not reach"
CONNECT_TIMEOUT_S = 10.0
_SLICE_S = 1.0  # so often a sender that waits for room looks whether the reader is still there


@dataclass(frozen=True)
class RowsSender:
    """Sends the rows of one partition to one reader, and gives Spark one row that says so; nothing if there are none.

    Spark takes the result of one attempt of each task. So what it gives the driver says which attempts count, of
    however many it has begun.

    Attributes
    ----------
    run : int
    places : tuple of ReaderPlace
    secrets : dict
        Of each reader, by its token.
    schema : pyarrow.Schema
        What the job reads.
    tls : TlsConfig or None
    """

    run: int
    places: tuple[ReaderPlace, ...]
    secrets: dict[str, bytes] = field(repr=False)
    schema: pa.Schema
    tls: TlsConfig | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send all batches; then yield the part that they are."""
        import pyarrow as pa
        from pyspark import TaskContext

        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        context = TaskContext.get()
        assert context is not None, "it runs in a task"
        partition, attempt = context.partitionId(), context.taskAttemptId()
        place = self.places[partition % len(self.places)]
        row_count = self._send(place, (self.run, partition, attempt), first, filled)
        part = (self.run, partition, attempt, place.subtask, place.token, row_count)
        names = [name.split()[0] for name in PARTS_DDL.split(", ")]
        yield pa.RecordBatch.from_arrays([pa.array([value]) for value in part], names=names)

    def _send(
        self, place: ReaderPlace, key: tuple[int, int, int], first: pa.RecordBatch, others: Iterator[pa.RecordBatch]
    ) -> int:
        try:
            client = ControlClient.connect(
                (place.host, place.port),
                group_of(place.token),
                self.secrets[place.token],
                tls=self.tls,
                timeout_s=CONNECT_TIMEOUT_S,
            )
        except RemoteTransportError as error:
            raise self._undelivered(place, error) from None
        try:
            return self._send_by(client, place, key, first, others)
        finally:
            client.close(0)

    def _send_by(
        self,
        client: ControlClient,
        place: ReaderPlace,
        key: tuple[int, int, int],
        first: pa.RecordBatch,
        others: Iterator[pa.RecordBatch],
    ) -> int:
        row_count = 0
        self._put(client, place, begin_of(key))
        batch: pa.RecordBatch | None = first
        while batch is not None:
            row_count += batch.num_rows
            for message in messages_of(self._as_read(batch)):
                self._put(client, place, message)
            batch = next(others, None)
        self._put(client, place, end_of(row_count))
        try:
            answer = None
            while answer is None:
                answer = client.receive(_SLICE_S)
        except RemoteTransportError as error:
            raise self._undelivered(place, error) from None
        if not is_taken(answer):
            raise RemoteTransportError(f"subtask {place.subtask} of the job's source answers {answer[:40]!r}")
        return row_count

    def _put(self, client: ControlClient, place: ReaderPlace, message: bytes) -> None:
        """Send a message, and wait until it has left: rows do not gather here."""
        try:
            client.send(message)
            while not client.flush(_SLICE_S):
                client.receive(0)  # which feels whether the machine is still there
        except RemoteTransportError as error:
            raise self._undelivered(place, error) from None

    def _undelivered(self, place: ReaderPlace, error: Exception) -> RemoteTransportError:
        return RemoteTransportError(
            f"{NOT_DELIVERED} subtask {place.subtask} of the job's source at {place.host}:{place.port}: {error}"
        )

    def _as_read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch in the types that the job reads: instants are in the zone of Spark's session here."""
        import pyarrow as pa

        columns = [column.cast(field.type) for column, field in zip(batch.columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
