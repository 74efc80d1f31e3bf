"""Bytes that a program makes itself, such as those of its own windows. PyFlink: common/serializer.py."""

from __future__ import annotations

from typing import BinaryIO

from flinkbuf.streaming.windows.window_serializer import TypeSerializer

__all__ = ["TypeSerializer", "VoidNamespaceSerializer"]


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """Of what has no bytes."""

    def serialize(self, element: bytes, stream: BinaryIO) -> None:
        """Write nothing."""

    def deserialize(self, stream: BinaryIO) -> bytes:
        """Read nothing."""
        return b""
