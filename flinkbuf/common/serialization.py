"""How records become bytes and come back from them. PyFlink: pyflink.common.serialization."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import IO, Any

from flinkbuf.streaming.part_file import PartWriter
from flinkbuf.streaming.value_text import text_of
from flinkbuf.types.type_information import TypeInformation
from flinkbuf.types.types import Types

__all__ = [
    "BulkWriter",
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowDataBulkWriterFactory",
    "SerializationSchema",
    "SimpleStringSchema",
]


class SerializationSchema:
    """Makes the bytes of a message from a record. Flink: SerializationSchema."""

    def serialize(self, element: Any) -> bytes:
        """Return the bytes of one record."""
        raise NotImplementedError(f"{type(self).__name__}.serialize")


class DeserializationSchema:
    """Makes a record from the bytes of a message. Flink: DeserializationSchema."""

    def deserialize(self, message: bytes) -> Any:
        """Return the record; None: there is none in this message."""
        raise NotImplementedError(f"{type(self).__name__}.deserialize")

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records; None: not declared."""
        return None


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """A message is a text.

    Examples
    --------
    >>> SimpleStringSchema("UTF-16-BE").serialize("a"), SimpleStringSchema().deserialize(b"a")
    (b'\\x00a', 'a')
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = codecs.lookup(charset).name

    def serialize(self, element: str) -> bytes:
        """Encode."""
        return element.encode(self._charset)

    def deserialize(self, message: bytes) -> str:
        """Decode; what is not valid becomes U+FFFD, as in Java."""
        return message.decode(self._charset, "replace")

    def get_produced_type(self) -> TypeInformation:
        """Return STRING."""
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """A message is the record itself."""

    def serialize(self, element: bytes) -> bytes:
        """The same bytes."""
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        """The same bytes."""
        return bytes(message)

    def get_produced_type(self) -> TypeInformation:
        """Return PRIMITIVE_ARRAY(BYTE)."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class Encoder:
    """Writes one record after the other into a file of a row-format `FileSink`.

    Parameters
    ----------
    encode : callable
        Takes a record and returns its bytes, with whatever ends it.

    Examples
    --------
    >>> Encoder.simple_string_encoder()(("a", 1))
    b"('a', 1)\\n"
    """

    def __init__(self, encode: Callable[[Any], bytes]) -> None:
        if not callable(encode):
            raise TypeError(f"an Encoder takes a function from a record to bytes, got {encode!r}")
        self._encode = encode

    def __call__(self, element: Any) -> bytes:
        """Return the bytes of one record."""
        return self._encode(element)

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8", type_info: TypeInformation | None = None) -> Encoder:
        """Each record as the line of text that ``print`` shows for it.

        Parameters
        ----------
        charset_name : str, default "UTF-8"
        type_info : TypeInformation, optional
            Of the records, if their text is to be Flink's; None: Python's.
        """
        return Encoder(_TextLines(charset_name, type_info))


class _TextLines:
    def __init__(self, charset_name: str, type_info: TypeInformation | None) -> None:
        self._charset = codecs.lookup(charset_name).name
        self._type_info = type_info
        self._text_of = text_of(type_info)

    def __call__(self, element: Any) -> bytes:
        return f"{self._text_of(element)}\n".encode(self._charset)

    def __reduce__(self) -> Any:
        return _TextLines, (self._charset, self._type_info)


BulkWriter = PartWriter  # its name in Flink


class BulkWriterFactory:
    """Makes the writer of one file of a bulk-format `FileSink`. Flink: BulkWriter.Factory.

    Parameters
    ----------
    create : callable
        Takes the open binary file and returns an object with ``add_element(record)``, ``flush()`` and ``finish()``,
        which writes the end of the file and leaves it open.
    """

    def __init__(self, create: Callable[[IO[bytes]], PartWriter]) -> None:
        self._create = create

    def create(self, file: IO[bytes]) -> PartWriter:
        """Make the writer of a file."""
        return self._create(file)


class RowDataBulkWriterFactory(BulkWriterFactory):
    """One whose records are rows of a known type."""

    def __init__(self, create: Callable[[IO[bytes]], PartWriter], row_type: TypeInformation) -> None:
        super().__init__(create)
        self._row_type = row_type

    def get_row_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._row_type
