"""JSON, in files of lines and in messages. PyFlink: pyflink.datastream.formats.json."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from importlib.util import find_spec
from typing import Any, TypeVar

from flinkbuf.common.serialization import DeserializationSchema, Encoder, SerializationSchema
from flinkbuf.datastream.formats.json_columns import ALIKE, PLACE, JsonMessages
from flinkbuf.errors import CorruptDataError
from flinkbuf.records.arrow_batches import arrow_schema
from flinkbuf.streaming.sources.file_format import LineFormat
from flinkbuf.streaming.sources.wanted_columns import MessageColumns, MessageRows, wanted_schema
from flinkbuf.types.row import row_class
from flinkbuf.types.type_information import RowTypeInfo, TypeInformation

__all__ = [
    "JsonLinesFormat",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
]

_INTEGERS = ("BYTE", "SHORT", "INT", "LONG", "BIG_INT")
_LISTS = ("LIST", "OBJECT_ARRAY", "PRIMITIVE_ARRAY")
T = TypeVar("T")
Conversion = Callable[[Any], object]


class JsonLinesFormat(LineFormat):
    """Reads files in which each line is a JSON value; lines of blanks are left out. Flink has no such format.

    Parameters
    ----------
    type_info : TypeInformation, optional
        What the values are, such as a row of an object's fields; None: as Python's json gives them.
    fail_on_missing_field : bool, default False
        Whether an object without a field of the row is an error; otherwise the field is None.
    """

    def __init__(self, type_info: TypeInformation | None = None, fail_on_missing_field: bool = False) -> None:
        super().__init__(parse=_JsonParser(type_info, fail_on_missing_field), type_info=type_info, skips_blank=True)

    @staticmethod
    def encoder(type_info: TypeInformation | None = None) -> Encoder:
        """Return what writes such files with a row-format `FileSink`."""
        return Encoder(_JsonLine(type_info))


class _JsonParser:
    """Makes a value from a JSON text; picklable."""

    def __init__(self, type_info: TypeInformation | None, fails_on_missing: bool) -> None:
        self._type_info = type_info
        self._fails_on_missing = fails_on_missing
        self._convert = None if type_info is None else _from_json(type_info, fails_on_missing)

    def __call__(self, text: str | bytes) -> object:
        try:
            if self._convert is None:
                return json.loads(text)
            return self._convert(json.loads(text, parse_float=Decimal))
        except (TypeError, KeyError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error

    def __reduce__(self) -> tuple[object, ...]:
        return _JsonParser, (self._type_info, self._fails_on_missing)


class _JsonText:
    """Makes a JSON text from a value; picklable."""

    def __init__(self, type_info: TypeInformation | None) -> None:
        self._type_info = type_info
        self._convert = None if type_info is None else _to_json(type_info)

    def __call__(self, value: object) -> bytes:
        converted = value if self._convert is None else self._convert(value)
        return json.dumps(converted, ensure_ascii=False, separators=(",", ":"), default=_plain).encode()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._type_info,)


class _JsonLine(_JsonText):
    def __call__(self, value: object) -> bytes:
        return super().__call__(value) + b"\n"


def _plain(value: object) -> object:
    """What json itself cannot write."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} {value!r} has no form in JSON; declare the type of the stream")


class JsonRowDeserializationSchema(DeserializationSchema):
    """Makes a row from a JSON object. PyFlink: JsonRowDeserializationSchema.

    Where ``as_columns`` follows a `KafkaSource` directly, pyarrow reads many messages at once, and no row is an object:
    if all fields are numbers, booleans and texts, and one that is missing is no error.
    """

    def __init__(
        self, type_info: TypeInformation, fail_on_missing_field: bool = False, ignore_parse_errors: bool = False
    ) -> None:
        self._type_info = type_info
        self._parse = _JsonParser(type_info, fail_on_missing_field)
        self._fails_on_missing = fail_on_missing_field
        self._ignores_errors = ignore_parse_errors

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Begin without a type."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes) -> Any:
        """Return the row; None if it cannot be read and errors are ignored."""
        try:
            return self._parse(message)
        except ValueError as error:
            if self._ignores_errors:
                return None
            raise CorruptDataError(f"{message!r} is no row of this type: {error}") from error

    def get_produced_type(self) -> TypeInformation:
        """Return the row type."""
        return self._type_info

    def of_batches(self, wanted: object) -> MessageColumns | None:
        """Return what reads many messages at once: numbers, booleans and texts that may be missing; None for others."""
        row_type = self._type_info
        is_own = type(self).deserialize is JsonRowDeserializationSchema.deserialize  # a subclass may give other rows
        if (
            not is_own
            or self._fails_on_missing
            or not isinstance(row_type, RowTypeInfo)
            or find_spec("pyarrow") is None
        ):
            return None
        if not all(each.kind in ALIKE for each in row_type.field_types):
            return None
        schema = wanted_schema(wanted, row_type, row_type)
        return JsonMessages(schema, MessageRows(PLACE, row_type, arrow_schema(row_type), self.deserialize))

    class Builder:
        """Makes one; each method returns the builder."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._fails_on_missing = False
            self._ignores_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Set the type; a row's field names are those of the object."""
            self._type_info = type_info
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """An object without a field of the row is an error; otherwise the field is None."""
            self._fails_on_missing = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Leave out what cannot be read."""
            self._ignores_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Make it."""
            if self._type_info is None:
                raise TypeError("Typeinfo should be set.")
            return JsonRowDeserializationSchema(self._type_info, self._fails_on_missing, self._ignores_errors)


class JsonRowSerializationSchema(SerializationSchema):
    """Makes a JSON object from a row. PyFlink: JsonRowSerializationSchema."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._text_of = _JsonText(type_info)

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Begin without a type."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: object) -> bytes:
        """Return the text of one row."""
        return self._text_of(element)

    class Builder:
        """Makes one; each method returns the builder."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Set the type; a row's field names are those of the object."""
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Make it."""
            if self._type_info is None:
                raise TypeError("Typeinfo should be set.")
            return JsonRowSerializationSchema(self._type_info)


# Conversions by type: what json gives, or takes, on the one side, and a value of the type on the other.


def _or_none(convert: Conversion) -> Conversion:
    return lambda value: None if value is None else convert(value)


def _from_json(type_info: TypeInformation, fails_on_missing: bool) -> Conversion:
    kind, children = type_info.kind, type_info.children
    if isinstance(type_info, RowTypeInfo):
        return _or_none(_row_from_json(type_info, fails_on_missing))
    if kind in _LISTS:
        element = _from_json(children[0], fails_on_missing)
        return _or_none(lambda value: [element(each) for each in _checked(value, list)])
    if kind == "STRING_ARRAY":
        return _or_none(lambda value: [_or_none(str)(each) for each in _checked(value, list)])
    if kind == "MAP":
        of_value = _from_json(children[1], fails_on_missing)
        return _or_none(lambda value: {key: of_value(each) for key, each in _checked(value, dict).items()})
    try:
        return _or_none(_BASIC[kind][0])
    except KeyError:
        raise TypeError(f"no JSON value is a {type_info!r}") from None


def _row_from_json(type_info: RowTypeInfo, fails_on_missing: bool) -> Conversion:
    make_row = row_class(type_info.field_names)
    fields = [
        (name, _from_json(each, fails_on_missing))
        for name, each in zip(type_info.field_names, type_info.field_types, strict=True)
    ]

    def convert(value: object) -> object:
        values = []
        for name, of_field in fields:
            if fails_on_missing and name not in _checked(value, dict):
                raise ValueError(f"the field {name!r} is missing")
            try:
                values.append(of_field(_checked(value, dict).get(name)))
            except (ValueError, TypeError, ArithmeticError) as error:
                raise ValueError(f"field {name!r}: {error}") from error
        return make_row(*values)

    return convert


def _to_json(type_info: TypeInformation) -> Conversion:
    kind, children = type_info.kind, type_info.children
    if isinstance(type_info, RowTypeInfo):
        names, fields = type_info.field_names, [_to_json(each) for each in type_info.field_types]
        return _or_none(lambda row: {name: field(value) for name, field, value in zip(names, fields, row, strict=True)})
    if kind in _LISTS:
        element = _to_json(children[0])
        return _or_none(lambda value: [element(each) for each in value])
    if kind == "STRING_ARRAY":
        return _or_none(list)
    if kind == "MAP":
        of_value = _to_json(children[1])
        return _or_none(lambda value: {str(key): of_value(each) for key, each in value.items()})
    try:
        return _or_none(_BASIC[kind][1])
    except KeyError:
        raise TypeError(f"a {type_info!r} has no form in JSON") from None


def _checked(value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise ValueError(f"expected {'an object' if kind is dict else 'an array'}, got {value!r}")
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {value!r}")
    return value


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=float)


def _utc(value: str) -> datetime.datetime:
    """A time stamp as RFC 3339 has it; PyFlink's time stamps have no zone and mean UTC."""
    moment = datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.timezone.utc)
    return moment.replace(tzinfo=None)


def _same(value: object) -> object:
    return value


_BASIC: dict[str, tuple[Conversion, Conversion]] = {
    **dict.fromkeys(_INTEGERS, (int, int)),
    "BOOLEAN": (_boolean, bool),
    "FLOAT": (float, float),
    "DOUBLE": (float, float),
    "BIG_DEC": (lambda value: Decimal(str(value)), _same),
    "STRING": (_text, str),
    "PICKLED_BYTES": (base64.b64decode, lambda value: base64.b64encode(value).decode()),
    "SQL_DATE": (datetime.date.fromisoformat, lambda value: value.isoformat()),
    "SQL_TIME": (lambda value: datetime.time.fromisoformat(value.rstrip("Z")), lambda value: f"{value.isoformat()}Z"),
    "SQL_TIMESTAMP": (_utc, lambda value: f"{value.isoformat()}Z"),
}
