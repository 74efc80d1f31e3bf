"""Bytes that a program makes itself, such as those of its own windows. PyFlink: TypeSerializer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import BytesIO
from typing import Generic, TypeVar

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes values of one kind to a stream and reads them back."""

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Write one value."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Read one value."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self.__class__) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """Of what has no bytes."""

    def serialize(self, element: bytes, stream: BytesIO) -> None:
        """Write nothing."""

    def deserialize(self, stream: BytesIO) -> bytes:
        """Read nothing."""
        return b""
