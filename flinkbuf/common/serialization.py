"""How records become bytes and come back from them. PyFlink: pyflink.common.serialization."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

from flinkbuf.streaming.sinks.part_file import PartWriter
from flinkbuf.streaming.sinks.value_text import file_text_of
from flinkbuf.types.type_information import TypeInformation
from flinkbuf.types.types import Types

if TYPE_CHECKING:
    from flinkbuf.streaming.sources.wanted_columns import MessageColumns

__all__ = [
    "BulkWriter",
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowDataBulkWriterFactory",
    "RowFieldExtractorSchema",
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

    def deserialize(self, message: bytes) -> object:
        """Return the record; None: there is none in this message."""
        raise NotImplementedError(f"{type(self).__name__}.deserialize")

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records; None: not declared."""
        return None

    def of_batches(self, wanted: object) -> MessageColumns | None:
        """Return what reads many messages at once, as a batch of columns; None: they are read one by one only.

        Parameters
        ----------
        wanted : type, optional
            Of the rows, as ``DataStream.as_columns`` takes it; it may have fewer columns. None: as the schema has them.
        """
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


class RowFieldExtractorSchema(SerializationSchema):
    """A message is one field of a row, which holds bytes: of one row the key and the value, each by its own schema.

    Parameters
    ----------
    field_index : int
        Which field, from 0.

    Raises
    ------
    ValueError
        If there can be no such field.

    Examples
    --------
    >>> RowFieldExtractorSchema(1).serialize((b"key", b"value"))
    b'value'
    """

    def __init__(self, field_index: int) -> None:
        if isinstance(field_index, bool) or not isinstance(field_index, int):
            raise TypeError(f"field_index must be an int, got {type(field_index).__name__} {field_index!r}")
        if field_index < 0:
            raise ValueError(f"field_index must be at least 0, got {field_index}")
        self._field_index = field_index

    def serialize(self, element: Any) -> bytes:
        """Return the bytes of the field.

        Raises
        ------
        IndexError
            If the row has fewer fields.
        TypeError
            If the field holds no bytes.
        """
        if not 0 <= self._field_index < len(element):
            raise IndexError(f"field {self._field_index} of {element!r}, which has {len(element)} fields")
        value = element[self._field_index]
        if not isinstance(value, (bytes, bytearray)):
            raise TypeError(
                f"field {self._field_index} of {element!r} must hold bytes, got {type(value).__name__}: encode it in a "
                "map before, and declare Types.PRIMITIVE_ARRAY(Types.BYTE())"
            )
        return bytes(value)


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

    def __init__(self, encode: Callable[..., bytes]) -> None:
        if not callable(encode):
            raise TypeError(f"an Encoder takes a function from a record to bytes, got {encode!r}")
        self._encode = encode

    def __call__(self, element: object) -> bytes:
        """Return the bytes of one record."""
        return self._encode(element)

    def of_records(self, type_info: TypeInformation | None) -> Encoder:
        """Return the encoder of a stream's records, which have this declared type; None: nobody declared one."""
        return self

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8", type_info: TypeInformation | None = None) -> Encoder:
        """Each record as a line of text.

        Parameters
        ----------
        charset_name : str, default "UTF-8"
        type_info : TypeInformation, optional
            Of the records; by default the declared type of the stream that is written. Their text is Flink's then, and
            Python's where no type is declared.
        """
        return _TextEncoder(charset_name, type_info)


class _TextEncoder(Encoder):
    """Lines of text, as the declared type of the records has it."""

    def __init__(self, charset_name: str, type_info: TypeInformation | None) -> None:
        super().__init__(_TextLines(charset_name, type_info))
        self._charset_name = charset_name
        self._type_info = type_info

    def of_records(self, type_info: TypeInformation | None) -> Encoder:
        """Return the encoder for a type, unless one was given."""
        return self if self._type_info is not None else _TextEncoder(self._charset_name, type_info)


class _TextLines:
    def __init__(self, charset_name: str, type_info: TypeInformation | None) -> None:
        self._charset = codecs.lookup(charset_name).name
        self._type_info = type_info
        self._text_of = file_text_of(type_info)

    def __call__(self, element: object) -> bytes:
        return f"{self._text_of(element)}\n".encode(self._charset)

    def __reduce__(self) -> tuple[object, ...]:
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

    def of_columns(self) -> Any:
        """Return what makes writers of the same files that take the batches of a column stream; None: there are none.

        It is called with the file, and has a method ``check(schema)`` that refuses a stream of other columns.
        """
        make = getattr(self._create, "of_columns", None)
        is_own = type(self).create is BulkWriterFactory.create  # a subclass may write other files
        return make() if is_own and make is not None else None


class RowDataBulkWriterFactory(BulkWriterFactory):
    """One whose records are rows of a known type."""

    def __init__(self, create: Callable[[IO[bytes]], PartWriter], row_type: TypeInformation) -> None:
        super().__init__(create)
        self._row_type = row_type

    def get_row_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._row_type
