"""From an input gate back to records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from flinkbuf._core.flow.batch_reader import GateBatches
from flinkbuf._core.flow.record_reader import RecordReader as _RecordReader
from flinkbuf.network.events import Event, EventRegistry, event_from_bytes
from flinkbuf.network.input_gate import InputGate, UnionInputGate
from flinkbuf.network.io_manager import IOManager, temporary_directories
from flinkbuf.records.arrow_batches import MAX_BYTES, MAX_ROWS, batch_builder, record_type
from flinkbuf.types.types import TypeInformation, column_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import pyarrow

SPILL_THRESHOLD_BYTES = 5 << 20


class RecordReader(_RecordReader):
    """Iterate the records (and, on request, the events) of a gate.

    Parameters
    ----------
    gate : InputGate or UnionInputGate
        Where the buffers come from. It stays the caller's.
    type : TypeInformation, str, pyspark StructType or pyarrow schema
        The records' type, as the writer's. With ``Types.STREAM_ELEMENT`` a record comes as its value, and `timestamp`
        has its event time; a watermark, or another element that is no record, comes as its object.
    events : bool or EventRegistry, default False
        Give events too, in their place among the records; an `EventRegistry` says which classes of the user's are
        among them. Without it barriers are passed over, and producers are told
        at EndOfData that their records were processed; with it that is the caller's to do
        (``gate.acknowledge_all_records_processed``).
    spill_threshold : int, default 5242880
        Bytes; a record that spans buffers and is longer than this is gathered in a temporary file, not in memory.
    io_manager : IOManager, optional
        In whose directories such files lie; by default in those of ``SPARK_LOCAL_DIRS``, or the system's one. No name
        leads to them, and they are gone with the record or the process.

    Raises
    ------
    CorruptDataError
        From the iteration, for bytes that no writer of the type produced, and for a channel that ends inside a record;
        the message names channel, record number and byte offset.
    CancelTaskError
        If a partition was released before its end.

    Notes
    -----
    The iteration waits, without the GIL, until there is a record; it ends when every channel gave its EndOfPartition. A
    record is read from the buffer it arrived in; only one that spans buffers is copied together, and one over
    `spill_threshold` goes through a temporary file. One thread uses a reader. A priority event is given between two
    records, before what else has arrived.

    References
    ----------
    Flink ``StreamTaskNetworkInput``, ``SpillingAdaptiveSpanningRecordDeserializer``.
    """

    type: TypeInformation
    _described_as: object  # the type as it was given: of a pyarrow schema, batches have that schema

    def __new__(
        cls,
        gate: InputGate | UnionInputGate,
        type: object,
        *,
        events: bool | EventRegistry = False,
        spill_threshold: int = SPILL_THRESHOLD_BYTES,
        io_manager: IOManager | None = None,
    ) -> RecordReader:
        if not isinstance(events, (bool, EventRegistry)):
            raise TypeError(f"events must be True, False or an EventRegistry, got {events!r:.80}")
        if spill_threshold < 1:
            raise ValueError(f"spill_threshold must be at least 1 byte, got {spill_threshold}")
        registry = events if isinstance(events, EventRegistry) else None
        gives_events = events is not False
        read = record_type(type)
        self = super().__new__(
            cls,
            gate,
            read.codec,
            partial(_event_of, registry) if gives_events else None,
            spill_threshold=spill_threshold,
            spill_dirs=temporary_directories() if io_manager is None else io_manager.paths,
        )
        self.type = read
        self._described_as = type
        return self

    def read_batch(self, count: int) -> np.ndarray:
        """Read up to `count` records of a number type into one array.

        Returns
        -------
        numpy.ndarray
            Shape ``(n,)`` with ``n <= count``; shorter only where the gate is finished.

        Raises
        ------
        TypeError
            If the type is not a number.
        """
        return super().read_column(column_dtype(self.type), count)

    def read_batches(
        self, max_rows: int = MAX_ROWS, *, schema: object = None, max_bytes: int = MAX_BYTES
    ) -> Iterator[pyarrow.RecordBatch]:
        """Iterate the rest of the gate as batches of columns, made in C.

        Parameters
        ----------
        max_rows : int, default 65536
            No batch has more rows.
        schema : pyarrow schema, optional
            Of the batches, where it is not what the reader's type has; see `flinkbuf.read_batches`.
        max_bytes : int, default 64 MiB
            A batch ends behind the rows that bring so many bytes.

        Yields
        ------
        pyarrow.RecordBatch
            Of the schema that this reader's type was given as; see `flinkbuf.read_batches`. It waits until a batch is
            full, or the gate at its end.

        Raises
        ------
        CorruptDataError
            As the iteration; also for a value that its column cannot hold. The rows before it are given first.
        TypeError
            For a type that has no column, for elements of a stream, and where an event comes next.
        """
        described = self._described_as if schema is None else schema
        return GateBatches(self, batch_builder(self.type.codec, described, max_rows, max_bytes))

    def __enter__(self) -> RecordReader:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _event_of(registry: EventRegistry | None, channel_index: int, data: bytes, data_type: int) -> Event:
    return event_from_bytes(data, registry)
