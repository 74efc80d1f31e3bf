from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flinkbuf._core.columns.arrow_column import ArrowBatch
from flinkbuf._core.flow.record_buffers import RecordBufferWriter, SortBufferWriter
from flinkbuf._core.flow.record_writer import RecordWriter
from flinkbuf._core.record.channel_selector import ChannelSelector
from flinkbuf._core.value.type_codec import TypeCodec

class RowChunks:
    def __init__(self, codec: TypeCodec, selector: ChannelSelector) -> None: ...

def channels_of_rows(chunks: RowChunks, batch: ArrowBatch) -> NDArray[np.uint32]: ...
def write_batch(writer: RecordWriter, chunks: RowChunks, batch: ArrowBatch, channels: Any = None) -> int: ...

class HashBatchWriter(RecordBufferWriter):
    @property
    def record_counts(self) -> list[int]: ...
    def __init__(
        self, batches: Iterable[ArrowBatch], codec: TypeCodec, selector: ChannelSelector, segment_size: int
    ) -> None: ...

class SortBatchWriter(SortBufferWriter):
    @property
    def record_counts(self) -> list[int]: ...
    def __init__(
        self,
        batches: Iterable[ArrowBatch],
        codec: TypeCodec,
        selector: ChannelSelector,
        segment_size: int,
        segment_count: int,
    ) -> None: ...
