"""Windows as bytes, as Flink writes them.

Here state keeps windows as objects; these exist for assigners that name their serializer, and for programs that use
one. PyFlink: TimeWindowSerializer, CountWindowSerializer, GlobalWindowSerializer.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import BinaryIO, Generic, TypeVar

from flinkbuf.streaming.windows.window import CountWindow, GlobalWindow, TimeWindow

__all__ = ["CountWindowSerializer", "GlobalWindowSerializer", "TimeWindowSerializer", "TypeSerializer"]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes values of one type to a stream of bytes and reads them again. PyFlink: pyflink.common.serializer."""

    @abstractmethod
    def serialize(self, element: T, stream: BinaryIO) -> None:
        """Write `element`."""

    @abstractmethod
    def deserialize(self, stream: BinaryIO) -> T:
        """Read what `serialize` wrote."""


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Start and end, big-endian.

    Examples
    --------
    >>> import io
    >>> stream = io.BytesIO()
    >>> TimeWindowSerializer().serialize(TimeWindow(1, 2), stream)
    >>> stream.getvalue().hex()
    '00000000000000010000000000000002'
    """

    def serialize(self, element: TimeWindow, stream: BinaryIO) -> None:
        stream.write(struct.pack(">qq", element.start, element.end))

    def deserialize(self, stream: BinaryIO) -> TimeWindow:
        return TimeWindow(*struct.unpack(">qq", stream.read(16)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """The number, big-endian."""

    def serialize(self, element: CountWindow, stream: BinaryIO) -> None:
        stream.write(struct.pack(">q", element.id))

    def deserialize(self, stream: BinaryIO) -> CountWindow:
        return CountWindow(*struct.unpack(">q", stream.read(8)))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """One byte: there is only one such window."""

    def serialize(self, element: GlobalWindow, stream: BinaryIO) -> None:
        stream.write(b"\0")

    def deserialize(self, stream: BinaryIO) -> GlobalWindow:
        stream.read(1)
        return GlobalWindow()
