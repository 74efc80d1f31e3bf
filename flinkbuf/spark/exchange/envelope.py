"""Envelopes: buffers on their way through Spark's shuffle, each behind a header that says where it comes from.

A task can tell the producers of its channel apart by it, and sees a buffer that is missing, doubled or out of order.
Buffers are compressed as those of Flink's blocking partitions are: each of them is copied half a dozen times before it
is read, from process to process and through Spark's rows.
"""

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from flinkbuf.config import NetworkConfig
from flinkbuf.errors import CorruptDataError
from flinkbuf.network.compression import BufferCompressor, BufferDecompressor

# Magic, exchange id, producer, sequence number within (producer, channel), what is behind it: its kind in 2 bits, and
# above them how many bytes at the end do not belong to it
_HEADER = struct.Struct(">4sQIIB")
_MAGIC = b"FBX3"
HEADER_SIZE = _HEADER.size
BUFFER, COMPRESSED_BUFFER, END_MARKER = range(3)  # what is behind a header


def header_of(exchange_id: int, producer: int, sequence: int, kind: int = BUFFER, tail_size: int = 0) -> bytes:
    """Return what stands before the buffer of this number that a producer sends to a channel.

    `tail_size` is how many bytes come behind the buffer.

    Examples
    --------
    >>> len(header_of(7, 0, 0)) == HEADER_SIZE
    True
    """
    return _HEADER.pack(_MAGIC, exchange_id, producer, sequence, kind | tail_size << 2)


def compressor_of(config: NetworkConfig | None) -> BufferCompressor | None:
    """Return what compresses the buffers of an exchange through Spark's shuffle; None where nothing does."""
    config = config or NetworkConfig()
    if not config.batch_shuffle_compression_enabled or config.compression_codec == "NONE":
        return None
    return BufferCompressor(config.compression_codec, config.segment_size)


@dataclass
class Arrivals:
    """The envelopes of one channel, told apart by producer in one pass.

    Spark delivers what one task wrote in one piece, so a buffer is handed on as soon as it comes. Should two
    producers be mixed, the buffers of the one that is not being read wait in memory.
    """

    exchange_id: int
    channel: int
    envelopes: Iterator[bytes | memoryview]
    config: NetworkConfig | None = None  # the producers'
    next_sequence: dict[int, int] = field(default_factory=dict)  # by producer; -1 after its end marker
    waiting: dict[int, deque[tuple[int, memoryview]]] = field(default_factory=dict)  # what each is, and its bytes

    def producers(self) -> Iterator[int]:
        """Yield each producer when it is its turn to be read, by order of arrival."""
        while self.waiting or self._take():
            producer = next(iter(self.waiting))
            yield producer
            del self.waiting[producer]

    def buffers_of(self, producer: int) -> Iterator[bytes | memoryview]:
        """Yield the buffers of `producer` in order, to the end marker."""
        queue = self.waiting[producer]
        while True:
            while queue:
                kind, data = queue.popleft()
                if kind == END_MARKER:
                    return
                yield data if kind == BUFFER else self._decompressor.decompress(data)
            if not self._take():
                raise CorruptDataError("the end marker of this producer never came: the shuffle lost the rest")

    def describe(self, producer: int) -> str:
        """Say where in the exchange the reader is, for messages."""
        sequence = self.next_sequence.get(producer, 0)
        where = "at its end" if sequence < 0 else f"after {sequence} buffers"
        return f"exchange {self.exchange_id:016x}, channel {self.channel}, producer {producer}, {where}"

    @cached_property
    def _decompressor(self) -> BufferDecompressor:
        config = self.config or NetworkConfig()
        return BufferDecompressor(config.compression_codec, config.segment_size)

    def _take(self) -> bool:
        """Move one envelope into the queue of its producer; False where there is none left."""
        envelope = next(self.envelopes, None)
        if envelope is None:
            return False
        producer, kind, end = self._check_header(envelope)
        self.waiting.setdefault(producer, deque()).append((kind, memoryview(envelope)[_HEADER.size : end]))
        return True

    def _check_header(self, envelope: bytes | memoryview) -> tuple[int, int, int]:
        """Check that this is the envelope expected next; return its producer, what is in it, and where that ends."""
        if len(envelope) < _HEADER.size:
            raise CorruptDataError(
                f"exchange {self.exchange_id:016x}, channel {self.channel}: an envelope of {len(envelope)} bytes "
                f"is shorter than its header of {_HEADER.size} bytes"
            )
        magic, exchange_id, producer, sequence, what = _HEADER.unpack_from(envelope)
        if magic != _MAGIC or exchange_id != self.exchange_id:
            raise CorruptDataError(
                f"exchange {self.exchange_id:016x}, channel {self.channel}: an envelope starts with {magic!r} and "
                f"exchange {exchange_id:016x}; it does not belong here"
            )
        expected = self.next_sequence.get(producer, 0)
        if sequence != expected:
            raise CorruptDataError(f"{self.describe(producer)}: {_misplaced(sequence, expected)}")
        kind, end = what & 3, len(envelope) - (what >> 2)
        if kind > END_MARKER:
            raise CorruptDataError(f"{self.describe(producer)}: an envelope of kind {kind}, which is none")
        if end < _HEADER.size:
            raise CorruptDataError(f"{self.describe(producer)}: an envelope of {len(envelope)} bytes is cut off")
        self.next_sequence[producer] = -1 if kind == END_MARKER else sequence + 1
        return producer, kind, end


def _misplaced(sequence: int, expected: int) -> str:
    """Say what is wrong with buffer `sequence` where `expected` was due."""
    if expected < 0:
        return f"buffer {sequence} came after the end marker"
    if sequence < expected:
        return f"buffer {sequence} came twice or too late; buffer {expected} was due"
    return f"buffer {sequence} came where buffer {expected} was due; {sequence - expected} are missing or late"
