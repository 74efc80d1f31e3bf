from collections.abc import Iterable, Iterator
from typing import Any

from flinkbuf._core.record.channel_selector import ChannelSelector
from flinkbuf._core.value.type_codec import TypeCodec

class RecordBufferWriter(Iterator[tuple[int, bytes]]):
    def __next__(self) -> tuple[int, bytes]: ...
    @property
    def record_count(self) -> int: ...
    @property
    def has_record_in_hand(self) -> bool: ...

class HashBufferWriter(RecordBufferWriter):
    def __init__(
        self, records: Iterable[Any], codec: TypeCodec, selector: ChannelSelector, segment_size: int
    ) -> None: ...

class SortBufferWriter(RecordBufferWriter):
    def __init__(
        self,
        records: Iterable[Any],
        codec: TypeCodec,
        selector: ChannelSelector,
        segment_size: int,
        segment_count: int,
    ) -> None: ...

class RecordBufferReader(Iterator[Any]):
    @property
    def pending_bytes(self) -> int: ...
    def __init__(self, buffers: Iterable[Any], codec: TypeCodec) -> None: ...
    def __next__(self) -> Any: ...
