"""The two halves of a blocking exchange of a DataFrame, as functions over iterators of Arrow batches.

The first half gives rows (channel, envelope), in batches of bounded size, which Spark's shuffle brings to the task of
their channel; the second half makes batches of them again. Between both nobody but Spark sees a row, and Spark sees
one for each buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from flinkbuf._core.flow.batch_reader import BatchBufferReader
from flinkbuf._core.record.record_digest import RecordDigests
from flinkbuf.config import NetworkConfig
from flinkbuf.errors import CorruptDataError
from flinkbuf.records.arrow_batches import MAX_BYTES, MAX_ROWS, batch_builder
from flinkbuf.spark.exchange.blocking import WriteTask
from flinkbuf.spark.exchange.envelope import END_MARKER, HEADER_SIZE, Arrivals, header_of
from flinkbuf.spark.exchange.frame_schema import column_names
from flinkbuf.spark.exchange.row_checksum import tail_of, tail_size

if TYPE_CHECKING:
    import pyarrow

    from flinkbuf._core.flow.batch_reader import BatchBuilder
    from flinkbuf.types.type_information import TypeInformation

BatchFunction = Callable[[Iterator[Any]], Iterable[object]]  # of pyarrow.RecordBatch, which has no types of its own

ROWS_SCHEMA = "channel int, envelope binary"
ROWS_BYTES = 1 << 20  # of envelopes that go to Spark in one Arrow batch
FILLER_BYTES = 8  # of a row without an envelope: its channel and an offset
ARRIVING_BYTES = 64 << 20  # of envelopes that should come from Spark in one


@dataclass(frozen=True)
class BatchLimits:
    """How large the batches are that a task gives: no more rows, and they end behind the row that brings the bytes."""

    max_rows: int = MAX_ROWS
    max_bytes: int = MAX_BYTES


@dataclass(frozen=True)
class Columns:
    """What the rows between the tasks are.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the batches on both sides.
    type : TypeInformation
        That of the records between them.
    limits : BatchLimits
        Of the batches that are read.
    """

    schema: pyarrow.Schema
    type: TypeInformation
    limits: BatchLimits = BatchLimits()

    def builder(self) -> BatchBuilder:
        """Return what makes the batches."""
        return batch_builder(self.type.codec, self.schema, self.limits.max_rows, self.limits.max_bytes)


@dataclass(frozen=True)
class NamedColumns:
    """A user's function over batches; the columns that it gives are taken by their names, in any order.

    Spark takes those of ``mapInArrow`` by their place, so two columns of one type in another order would be swapped
    without a word.

    Attributes
    ----------
    function : callable
        The user's function.
    names : list of str
        The columns that Spark expects, in their order.
    argument : str
        As which argument the user gave the function.
    said_by : str
        Who names the columns: ``"schema= says"``, or ``"the DataFrame has"``.
    """

    function: BatchFunction
    names: list[str]
    argument: str
    said_by: str

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Return the function's batches, with the columns in their order."""
        return self._in_order(iter(self.function(batches)))

    def _in_order(self, results: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa

        try:
            for batch in results:
                is_batch = isinstance(batch, pa.RecordBatch)  # else Spark, or the record writer, says what is needed
                yield self._selected(batch) if is_batch else batch
        finally:
            if hasattr(results, "close"):
                results.close()

    def _selected(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        found, wanted = batch.schema.names, self.names
        if found == wanted or found == column_names(wanted):
            return batch
        if len(set(found)) == len(found) and sorted(found) == sorted(wanted):
            return batch.select(wanted)
        raise ValueError(
            f"{self.argument}= gave a batch with the columns {', '.join(found) or '(none)'}, where {self.said_by} "
            f"{', '.join(wanted)}: columns are taken by their names, in any order; name them so"
        )


@dataclass(frozen=True)
class FrameSource:
    """What becomes of the batches that Spark brings before they are exchanged.

    Attributes
    ----------
    names : list of str, optional
        What the columns are called, where Spark was given other names.
    before : callable, optional
        The user's function over the batches.
    """

    names: list[str] | None = None
    before: BatchFunction | None = None

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Return the batches that are exchanged."""
        if self.names is not None:
            batches = (batch.rename_columns(self.names) for batch in batches)
        return iter(batches if self.before is None else self.before(batches))


@dataclass(frozen=True)
class MapTask:
    """A task that exchanges nothing: what becomes of the batches of a partition that stays where it is."""

    source: FrameSource
    after: BatchFunction | None = None

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Return the batches for Spark."""
        results = self.source(batches)
        return results if self.after is None else iter(self.after(results))


@dataclass(frozen=True)
class FrameWriteTask:
    """The producing half: batches of the DataFrame become rows (channel, envelope).

    Attributes
    ----------
    write : WriteTask
        What goes where.
    ids : sequence of int
        By what number Spark's shuffle finds each channel's task.
    source : FrameSource
    fillers : int, default 0
        How many rows without an envelope come behind each one with: Spark puts so many rows in one batch for the
        reading task, however large they are, so these keep it from being too large.
    """

    write: WriteTask
    ids: Sequence[int]
    source: FrameSource = FrameSource()
    fillers: int = 0

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Return the rows for the batches of this task's partition."""
        from pyspark import TaskContext

        context = TaskContext.get()
        return self.rows(0 if context is None else context.partitionId(), batches)

    def rows(self, producer: int, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of Spark partition `producer`, in batches of about `ROWS_BYTES`."""
        waiting, digests = _Rows(self.fillers), RecordDigests(self.write.channel_count)
        try:
            for channel, sequence, kind, buffer in self.write.buffers(producer, self.source(batches), digests):
                tail = tail_size(HEADER_SIZE + len(buffer))
                header = header_of(self.write.exchange_id, producer, sequence, kind, tail)
                row_hash = digests.value(channel) if kind == END_MARKER else 0
                waiting.add(self.ids[channel], header, buffer, tail_of(self.ids[channel], header, buffer, row_hash))
                if waiting.size >= ROWS_BYTES:
                    yield waiting.take()
        except ValueError as error:
            raise refused(producer, error) from error.__cause__
        if waiting.size:
            yield waiting.take()


def refused(producer: int, error: ValueError) -> Exception:
    """Return the error with the task whose row was refused, if it is about one; else as it is."""
    if getattr(error, "record_number", None) is None or str(error).startswith("producer"):
        return error
    return error.__class__(f"producer {producer}, {error}")


class _Rows:
    """Rows (channel, envelope) on their way to an Arrow batch; the envelopes are copied once."""

    def __init__(self, fillers: int) -> None:
        self._fillers = fillers
        self._clear()

    def _clear(self) -> None:
        self.size = 0  # bytes
        self._ids: list[int] = []
        self._sizes: list[int] = []
        self._parts: list[bytes] = []

    def add(self, channel_id: int, *parts: bytes) -> None:
        self._ids.append(channel_id)
        self._sizes.append(sum(map(len, parts)))
        self._parts += parts
        self.size += self._sizes[-1] + FILLER_BYTES * self._fillers

    def take(self) -> pyarrow.RecordBatch:
        """Return what was added since the last time."""
        import numpy as np
        import pyarrow as pa

        each = 1 + self._fillers  # rows for each envelope
        count = each * len(self._ids)
        ids = np.repeat(np.array(self._ids, np.int32), each)
        is_there = np.zeros(count, np.uint8)
        is_there[::each] = 1
        sizes = np.zeros(count + 1, np.int32)
        sizes[1::each] = self._sizes
        validity = pa.py_buffer(np.packbits(is_there, bitorder="little")) if self._fillers else None
        offsets, data = pa.py_buffer(np.cumsum(sizes, dtype=np.int32)), pa.py_buffer(b"".join(self._parts))
        envelopes = pa.Array.from_buffers(pa.binary(), count, [validity, offsets, data])
        self._clear()
        return pa.record_batch([pa.array(ids), envelopes], ["channel", "envelope"])


@dataclass(frozen=True)
class FrameReadTask:
    """The consuming half: the rows of one channel become batches again.

    Attributes
    ----------
    exchange_id : int
    columns : Columns
    ids : sequence of int
        As in `FrameWriteTask`.
    config : NetworkConfig, optional
        That of the producers.
    after : callable, optional
        The user's function over the batches.
    """

    exchange_id: int
    columns: Columns
    ids: Sequence[int]
    config: NetworkConfig | None = None
    after: BatchFunction | None = None

    def __call__(self, rows: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Return the batches for Spark."""
        batches = self.read(rows)
        return batches if self.after is None else iter(self.after(batches))

    def read(self, rows: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Yield the batches of the one channel whose rows these are; none if there is no row."""
        arrivals = Arrivals(self.exchange_id, -1, iter(()), self.config)
        arrivals.envelopes = self._envelopes(rows, arrivals)
        yield from ChannelReader(arrivals, self.columns)

    def _envelopes(self, rows: Iterator[pyarrow.RecordBatch], arrivals: Arrivals) -> Iterator[memoryview]:
        """Yield the envelopes in the rows, where they lie; and learn from the first which channel it is."""
        import numpy as np

        for batch in rows:
            ids, envelopes = batch.column(0), batch.column(1)
            if len(ids) == 0:
                continue
            if arrivals.channel < 0:
                arrivals.channel = list(self.ids).index(ids[0].as_py())
            found = ids.to_numpy(zero_copy_only=False)
            if not (found == self.ids[arrivals.channel]).all():
                raise CorruptDataError(
                    f"exchange {self.exchange_id:016x}, channel {arrivals.channel}: Spark has put the rows of another "
                    "channel into the same partition, which it does for no repartition(n, column) that it knows"
                )
            _, offset_buffer, data = envelopes.buffers()
            width = np.int64 if str(envelopes.type).startswith("large") else np.int32
            offsets = np.frombuffer(offset_buffer, width)[envelopes.offset : envelopes.offset + len(ids) + 1].tolist()
            whole = memoryview(b"" if data is None else data)
            for start, end in pairwise(offsets):
                if start < end:  # else a filler
                    yield whole[start:end]


class ChannelReader(Iterator["pyarrow.RecordBatch"]):
    """The batches in what has arrived for one channel, one producer after the other.

    A batch may hold rows of several producers. One whose buffers end inside a record is an error of its own, not the
    beginning of the next one's.
    """

    def __init__(self, arrivals: Arrivals, columns: Columns) -> None:
        self._arrivals = arrivals
        self._producer = 0
        self._reader = BatchBufferReader(self._buffers(), columns.type.codec, columns.builder())

    def __next__(self) -> pyarrow.RecordBatch:
        try:
            return next(self._reader)
        except CorruptDataError as error:
            where = self._arrivals.describe(self._producer)
            raise CorruptDataError(str(error) if where in str(error) else f"{where}: {error}") from None

    def _buffers(self) -> Iterator[bytes | memoryview]:
        for producer in self._arrivals.producers():
            self._producer = producer
            yield from self._arrivals.buffers_of(producer)
            if (cut := self._reader.pending_bytes) > 0:
                where = self._arrivals.describe(producer)
                raise CorruptDataError(f"{where}: its last record is cut off after {cut} bytes")
