"""Avro, in messages. PyFlink: pyflink.datastream.formats.avro. Needs fastavro."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from flinkbuf.common.serialization import DeserializationSchema, SerializationSchema
from flinkbuf.datastream.connectors.java_only import java_only
from flinkbuf.errors import CorruptDataError
from flinkbuf.types.row import row_class
from flinkbuf.types.type_information import TypeInformation
from flinkbuf.types.types import Types

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]

_FILES = "a BulkWriterFactory or a generator of your own over fastavro, or Parquet"
AvroBulkWriters = java_only("AvroBulkWriters", _FILES)
AvroInputFormat = java_only("AvroInputFormat", _FILES)
AvroSchema = java_only("AvroSchema", "the schema's JSON text")
GenericRecordAvroTypeInfo = java_only("GenericRecordAvroTypeInfo", "a type of Types.ROW_NAMED")

Conversion = Callable[[Any], object]
_UTC = datetime.timezone.utc


class AvroRowDeserializationSchema(DeserializationSchema):
    """Makes a row of a message in Avro's binary format. PyFlink's ``AvroRowDeserializationSchema``.

    Parameters
    ----------
    record_class : str, optional
        The name of a Java class: it is refused.
    avro_schema_string : str
        The schema of the messages, as JSON; a record.

    Raises
    ------
    TypeError
        If there is no schema, or it is no record.
    ValueError
        If the schema cannot be read.

    Examples
    --------
    >>> schema = '{"type": "record", "name": "Pair", "fields": [{"name": "id", "type": "int"}]}'
    >>> AvroRowDeserializationSchema(avro_schema_string=schema).deserialize(b"\\x0e")  # doctest: +SKIP
    Row(id=7)
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._text = _checked_text(record_class, avro_schema_string)
        self._schema = _parsed(self._text)
        self._type = _type_of(self._schema)
        self._convert = _reading(self._schema)

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a message.

        Parameters
        ----------
        message : bytes
            One record, without a header.

        Returns
        -------
        Row
            By the names of the schema.

        Raises
        ------
        CorruptDataError
            If the bytes are not of the schema.
        """
        stream = io.BytesIO(message)
        try:
            value = fastavro_library().schemaless_reader(stream, self._schema, None)
        except Exception as error:  # whatever fastavro stumbles over: it has no class of its own for it
            raise CorruptDataError(f"{message!r} is no record of this schema: {error!r}") from error
        if stream.tell() != len(message):
            raise CorruptDataError(f"{message!r} has {len(message) - stream.tell()} bytes behind the record")
        return value if self._convert is None else self._convert(value)

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._type

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (None, self._text)


class AvroRowSerializationSchema(SerializationSchema):
    """Makes a message in Avro's binary format of a row. PyFlink's ``AvroRowSerializationSchema``.

    Parameters
    ----------
    record_class : str, optional
        The name of a Java class: it is refused.
    avro_schema_string : str
        The schema of the messages, as JSON; a record, whose fields are the row's in their order.

    Raises
    ------
    TypeError
        If there is no schema, or it is no record.
    ValueError
        If the schema cannot be read.

    Examples
    --------
    >>> schema = '{"type": "record", "name": "Pair", "fields": [{"name": "id", "type": "int"}]}'
    >>> AvroRowSerializationSchema(avro_schema_string=schema).serialize((7,))  # doctest: +SKIP
    b'\\x0e'
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._text = _checked_text(record_class, avro_schema_string)
        self._schema = _parsed(self._text)
        self._convert = _writing(self._schema)

    def serialize(self, element: object) -> bytes:
        """Return the message of a row.

        Parameters
        ----------
        element : Row or tuple
            Its values by position, as in Flink.

        Returns
        -------
        bytes
            One record, without a header.

        Raises
        ------
        ValueError
            If a value is not of the schema; the message names the field.
        """
        stream = io.BytesIO()
        try:
            value = element if self._convert is None else self._convert(element)
            fastavro_library().schemaless_writer(stream, self._schema, value, strict=True)
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueError(f"{element!r} does not fit the Avro schema {self._schema['name']!r}: {error}") from error
        return stream.getvalue()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (None, self._text)


def fastavro_library() -> ModuleType:
    """Return fastavro, which is an extra."""
    try:
        import fastavro
    except ImportError as error:
        raise ImportError(f"Avro needs fastavro ({error}): install flinkbuf[avro]") from error
    return fastavro


def _checked_text(record_class: str | None, text: str | None) -> str:
    if record_class is not None:
        raise NotImplementedError(
            f"{record_class} is a Java class, and there is no JVM here: use avro_schema_string with its schema"
        )
    if not isinstance(text, str):
        raise TypeError(f"avro_schema_string must be the schema's JSON text, got {type(text).__name__} {text!r}")
    return text


def _parsed(text: str) -> dict[str, object]:
    """The schema as fastavro has it: names in full, types that were named before as their names."""
    library = fastavro_library()
    try:
        schema = library.parse_schema(json.loads(text))
    except ValueError as error:
        raise ValueError(f"this is no Avro schema: {error}: {text}") from error
    except Exception as error:  # SchemaParseException, UnknownType: not ValueErrors
        raise ValueError(f"this is no Avro schema: {error!r}: {text}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise TypeError(f"the Avro schema of rows is a record, got {text}")
    return schema


class _Walk:
    """Looks through a schema; types that are used again by name are found where they were declared."""

    def __init__(self) -> None:
        self.named: dict[str, object] = {}

    def shape(self, schema: Any) -> tuple[str, str | None, Any]:
        """The kind of a type, its logical type, and its description; of ``["null", x]`` those of x."""
        if isinstance(schema, list):
            rest = [each for each in schema if each != "null"]
            return self.shape(rest[0]) if len(rest) == 1 else ("union", None, schema)
        if isinstance(schema, str):
            return self.shape(self.named[schema]) if schema in self.named else (schema, None, schema)
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.shape(kind)
        if kind in ("record", "enum", "fixed"):
            self.named[schema["name"]] = schema
        return kind, schema.get("logicalType"), schema


# Of primitive types: by kind and logical type what they are here.
_TYPES: dict[tuple[str, str | None], Callable[[], TypeInformation]] = {
    ("string", None): Types.STRING,
    ("enum", None): Types.STRING,
    ("boolean", None): Types.BOOLEAN,
    ("null", None): Types.VOID,
    ("int", None): Types.INT,
    ("int", "date"): Types.SQL_DATE,
    ("int", "time-millis"): Types.SQL_TIME,
    ("long", None): Types.LONG,
    ("long", "time-micros"): Types.LOCAL_TIME,
    ("long", "timestamp-millis"): Types.SQL_TIMESTAMP,
    ("long", "timestamp-micros"): Types.SQL_TIMESTAMP,
    ("float", None): Types.FLOAT,
    ("double", None): Types.DOUBLE,
    ("bytes", "decimal"): Types.BIG_DEC,
    ("fixed", "decimal"): Types.BIG_DEC,
    ("bytes", None): lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    ("fixed", None): lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
}


def _type_of(schema: object, walk: _Walk | None = None) -> TypeInformation:
    """Flink's type of an Avro type; AvroSchemaConverter."""
    walk = walk or _Walk()
    kind, logical, found = walk.shape(schema)
    if kind == "record":
        fields = found["fields"]
        return Types.ROW_NAMED([each["name"] for each in fields], [_type_of(each["type"], walk) for each in fields])
    if kind == "array":
        return Types.OBJECT_ARRAY(_type_of(found["items"], walk))
    if kind == "map":
        return Types.MAP(Types.STRING(), _type_of(found["values"], walk))
    if kind == "union":
        raise TypeError(f"an Avro union of several types has no type of rows: {found}; make one of null and a type")
    return (_TYPES.get((kind, logical)) or _TYPES[kind, None])()


def _reading(schema: object, walk: _Walk | None = None) -> Conversion | None:
    """What makes our value of fastavro's; None: it is the value itself."""
    walk = walk or _Walk()
    kind, logical, found = walk.shape(schema)
    if kind == "record":
        names = tuple(each["name"] for each in found["fields"])
        make_row, fields = row_class(names), [_reading(each["type"], walk) for each in found["fields"]]

        def row(value: Mapping[str, object] | None) -> object:
            if value is None:
                return None
            return make_row(*(_of(each, value[name]) for name, each in zip(names, fields, strict=True)))

        return row
    if kind in ("array", "map"):
        return _of_parts(kind, _reading(found["items" if kind == "array" else "values"], walk))
    if kind == "long" and logical in ("timestamp-millis", "timestamp-micros"):
        return lambda value: None if value is None else value.replace(tzinfo=None)
    return None


def _writing(schema: object, walk: _Walk | None = None) -> Conversion | None:
    """What makes of our value what fastavro writes; None: the value itself."""
    walk = walk or _Walk()
    kind, logical, found = walk.shape(schema)
    if kind == "record":
        names = tuple(each["name"] for each in found["fields"])
        fields = [_writing(each["type"], walk) for each in found["fields"]]

        def record(value: Sequence[object] | None) -> object:
            if value is None:
                return None
            if len(value) != len(names):
                raise ValueError(f"it has {len(value)} fields instead of {len(names)}")
            return {name: _of(each, part) for name, each, part in zip(names, fields, value, strict=True)}

        return record
    if kind in ("array", "map"):
        return _of_parts(kind, _writing(found["items" if kind == "array" else "values"], walk))
    if kind == "long" and logical in ("timestamp-millis", "timestamp-micros"):  # which fastavro takes for local time
        return lambda value: value if value is None or value.utcoffset() is not None else value.replace(tzinfo=_UTC)
    return None


def _of_parts(kind: str, convert: Conversion | None) -> Conversion | None:
    if convert is None:
        return None
    if kind == "array":
        return lambda values: None if values is None else [convert(each) for each in values]
    return lambda pairs: None if pairs is None else {key: convert(each) for key, each in pairs.items()}


def _of(convert: Conversion | None, value: object) -> object:
    return value if convert is None else convert(value)
