"""From an input gate back to records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from flinkbuf._core.record_reader import RecordReader as _RecordReader
from flinkbuf.network.events import Event, EventRegistry, event_from_bytes
from flinkbuf.network.input_gate import InputGate, UnionInputGate
from flinkbuf.types.types import TypeInformation, as_type, column_dtype

if TYPE_CHECKING:
    import numpy as np


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
    record is read from the buffer it arrived in; only one that spans buffers is copied together, and one over 5 MiB
    goes through a temporary file. One thread uses a reader. A priority event is given between two records, before what
    else has arrived.

    References
    ----------
    Flink ``StreamTaskNetworkInput``, ``SpillingAdaptiveSpanningRecordDeserializer``.
    """

    type: TypeInformation

    def __new__(
        cls, gate: InputGate | UnionInputGate, type: Any, *, events: bool | EventRegistry = False
    ) -> RecordReader:
        if not isinstance(events, (bool, EventRegistry)):
            raise TypeError(f"events must be True, False or an EventRegistry, got {events!r:.80}")
        registry = events if isinstance(events, EventRegistry) else None
        gives_events = events is not False
        record_type = as_type(type)
        self = super().__new__(cls, gate, record_type.codec, partial(_event_of, registry) if gives_events else None)
        self.type = record_type
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

    def __enter__(self) -> RecordReader:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _event_of(registry: EventRegistry | None, channel_index: int, data: bytes, data_type: int) -> Event:
    return event_from_bytes(data, registry)
