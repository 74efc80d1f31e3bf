"""What a harness keeps of the records of sorted inputs, as a task does in batch execution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf._core.value.type_codec import TypeCodec
from flinkbuf.runtime.graph.batch_inputs import sort_key_of
from flinkbuf.runtime.graph.transformation import OperatorTransformation, PartitionTransformation, UnionTransformation
from flinkbuf.streaming.chain.operator_config import SortKey
from flinkbuf.streaming.state.key_groups import codec_of

_UNDECLARED = TypeCodec("OBJECT", is_key=True)


class BatchRecords:
    """Records of all sorted inputs of one operator, in memory.

    Parameters
    ----------
    sort_keys : sequence of SortKey or None
        One an input; None: it is not sorted.
    """

    def __init__(self, sort_keys: Sequence[SortKey | None]) -> None:
        self._sort_keys = sort_keys
        self._records: list[tuple[bytes, int, int, object]] = []
        self._open = {index for index, key in enumerate(sort_keys) if key is not None}

    def is_sorted(self, index: int) -> bool:
        """Whether the records of an input, from 0, wait until all is there."""
        return index < len(self._sort_keys) and self._sort_keys[index] is not None

    def add(self, index: int, value: object, timestamp: int | None) -> None:
        """Keep one record."""
        key = self._sort_keys[index]
        assert key is not None
        time = NO_TIMESTAMP if timestamp is None else timestamp
        self._records.append((_key_bytes(key, value), time, index, value))

    def end(self, index: int) -> bool:
        """Nothing more comes from an input; returns whether nothing comes from any."""
        self._open.discard(index)
        return not self._open

    def take(self) -> Iterator[tuple[bytes, int, int, object]]:
        """Go over key, timestamp, input and value of all records, in the order of batch execution."""
        records, self._records = sorted(self._records, key=_order), []
        return iter(records)


def _key_bytes(key: SortKey, value: object) -> bytes:
    if key.selector is None:
        return b""
    codec = codec_of(key.type)
    if codec is not None:
        return codec.serialize(key.selector(value))
    data = _UNDECLARED.serialize(key.selector(value))
    return len(data).to_bytes(4, "big") + data


def _order(record: tuple[bytes, int, int, object]) -> tuple[bytes, int, int]:
    """Bytes are signed, as Java's."""
    return bytes(byte ^ 0x80 for byte in record[0]), record[1], record[2]


def sort_keys_of(transformation: OperatorTransformation) -> list[SortKey | None]:
    """By what the inputs of an operator are sorted."""
    return [sort_key_of(transformation.is_keyed, _partitioner(given)) for given in transformation.inputs]


def _partitioner(given: object) -> object:
    while isinstance(given, UnionTransformation):
        given = given.inputs[0]
    return given.partitioner if isinstance(given, PartitionTransformation) else None
