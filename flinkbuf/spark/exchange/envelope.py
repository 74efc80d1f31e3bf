"""Envelopes: buffers on their way through Spark's shuffle, each behind a header that says where it comes from.

A task can tell the producers of its channel apart by it, and sees a buffer that is missing, doubled or out of order.
"""

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from flinkbuf.errors import CorruptDataError

# Magic, exchange id, producer, sequence number within (producer, channel), is this the end marker?
_HEADER = struct.Struct(">4sQII?")
_MAGIC = b"FBX1"
HEADER_SIZE = _HEADER.size


def header_of(exchange_id: int, producer: int, sequence: int, is_end: bool = False) -> bytes:
    """Return what stands before the buffer of this number that a producer sends to a channel.

    Examples
    --------
    >>> len(header_of(7, 0, 0)) == HEADER_SIZE
    True
    """
    return _HEADER.pack(_MAGIC, exchange_id, producer, sequence, is_end)


@dataclass
class Arrivals:
    """The envelopes of one channel, told apart by producer in one pass.

    Spark delivers what one task wrote in one piece, so a buffer is handed on as soon as it comes. Should two
    producers be mixed, the buffers of the one that is not being read wait in memory.
    """

    exchange_id: int
    channel: int
    envelopes: Iterator[bytes | memoryview]
    next_sequence: dict[int, int] = field(default_factory=dict)  # by producer; -1 after its end marker
    waiting: dict[int, deque[memoryview | None]] = field(default_factory=dict)  # None marks the end

    def producers(self) -> Iterator[int]:
        """Yield each producer when it is its turn to be read, by order of arrival."""
        while self.waiting or self._take():
            producer = next(iter(self.waiting))
            yield producer
            del self.waiting[producer]

    def buffers_of(self, producer: int) -> Iterator[memoryview]:
        """Yield the buffers of `producer` in order, to the end marker."""
        queue = self.waiting[producer]
        while True:
            while queue:
                buffer = queue.popleft()
                if buffer is None:
                    return
                yield buffer
            if not self._take():
                raise CorruptDataError("the end marker of this producer never came: the shuffle lost the rest")

    def describe(self, producer: int) -> str:
        """Say where in the exchange the reader is, for messages."""
        sequence = self.next_sequence.get(producer, 0)
        where = "at its end" if sequence < 0 else f"after {sequence} buffers"
        return f"exchange {self.exchange_id:016x}, channel {self.channel}, producer {producer}, {where}"

    def _take(self) -> bool:
        """Move one envelope into the queue of its producer; False where there is none left."""
        envelope = next(self.envelopes, None)
        if envelope is None:
            return False
        producer, is_end = self._check_header(envelope)
        buffer = None if is_end else memoryview(envelope)[_HEADER.size :]
        self.waiting.setdefault(producer, deque()).append(buffer)
        return True

    def _check_header(self, envelope: bytes | memoryview) -> tuple[int, bool]:
        """Check that this is the envelope expected next from its producer; return producer and end flag."""
        if len(envelope) < _HEADER.size:
            raise CorruptDataError(
                f"exchange {self.exchange_id:016x}, channel {self.channel}: an envelope of {len(envelope)} bytes "
                f"is shorter than its header of {_HEADER.size} bytes"
            )
        magic, exchange_id, producer, sequence, is_end = _HEADER.unpack_from(envelope)
        if magic != _MAGIC or exchange_id != self.exchange_id:
            raise CorruptDataError(
                f"exchange {self.exchange_id:016x}, channel {self.channel}: an envelope starts with {magic!r} and "
                f"exchange {exchange_id:016x}; it does not belong here"
            )
        expected = self.next_sequence.get(producer, 0)
        if sequence != expected:
            raise CorruptDataError(f"{self.describe(producer)}: {_misplaced(sequence, expected)}")
        self.next_sequence[producer] = -1 if is_end else sequence + 1
        return producer, is_end


def _misplaced(sequence: int, expected: int) -> str:
    """Say what is wrong with buffer `sequence` where `expected` was due."""
    if expected < 0:
        return f"buffer {sequence} came after the end marker"
    if sequence < expected:
        return f"buffer {sequence} came twice or too late; buffer {expected} was due"
    return f"buffer {sequence} came where buffer {expected} was due; {sequence - expected} are missing or late"
