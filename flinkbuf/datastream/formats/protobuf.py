"""Protocol Buffers, in messages. Flink: flink-protobuf; PyFlink has no such schema. Needs protobuf."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flinkbuf.common.serialization import DeserializationSchema, SerializationSchema
from flinkbuf.errors import CorruptDataError
from flinkbuf.types.row import row_class
from flinkbuf.types.type_information import TypeInformation
from flinkbuf.types.types import Types

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
    from google.protobuf.message import Message

__all__ = ["ProtobufRowDeserializationSchema", "ProtobufRowSerializationSchema"]

Reading = Callable[[Any], object]
Writing = Callable[["Message", object], None]


class ProtobufRowDeserializationSchema(DeserializationSchema):
    """Makes a row of a message of Protocol Buffers.

    Numbers of 32 bits without a sign are LONG, and so are those of 64 bits, which have to be less than 2^63; enums are
    STRING, by name; messages are rows, repeated fields arrays, maps maps. A field that the message can tell to be
    missing is None then; one that it cannot (a number of proto3 without ``optional``) is its default. Workers need the
    library, not the class.

    Parameters
    ----------
    message_class : type
        The class that ``protoc`` has made.

    Raises
    ------
    TypeError
        It is no such class, or a message of it may contain one of its own kind: rows cannot.

    Examples
    --------
    >>> from flights_pb2 import Flight  # doctest: +SKIP
    >>> ProtobufRowDeserializationSchema(Flight).deserialize(b"\\x08\\x07")  # doctest: +SKIP
    Row(id=7)
    """

    def __init__(self, message_class: type) -> None:
        self._class = _checked(message_class)
        descriptor = self._class.DESCRIPTOR
        self._type = _type_of(descriptor, ())
        self._read = _reading(descriptor)

    def deserialize(self, message: bytes) -> object:
        """Return the row of a message.

        Raises
        ------
        CorruptDataError
            The bytes are no such message, or have a number where an enum has no name for it.
        """
        name = self._class.DESCRIPTOR.full_name
        try:
            parsed = self._class.FromString(message)
        except Exception as error:  # DecodeError; whatever else, too
            raise CorruptDataError(f"{message!r} is no message {name}: {error}") from error
        try:
            return self._read(parsed)
        except ValueError as error:
            raise CorruptDataError(f"a message {name} cannot be a row: {error}") from error

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._type

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), *_described(self._class.DESCRIPTOR))


class ProtobufRowSerializationSchema(SerializationSchema):
    """Makes a message of Protocol Buffers of a row; the other way round than `ProtobufRowDeserializationSchema`.

    Parameters
    ----------
    message_class : type
        The class that ``protoc`` has made; its fields are the row's in their order.

    Raises
    ------
    TypeError
        It is no such class, or a message of it may contain one of its own kind.

    Examples
    --------
    >>> from flights_pb2 import Flight  # doctest: +SKIP
    >>> ProtobufRowSerializationSchema(Flight).serialize((7,))  # doctest: +SKIP
    b'\\x08\\x07'
    """

    def __init__(self, message_class: type) -> None:
        self._class = _checked(message_class)
        _type_of(self._class.DESCRIPTOR, ())
        self._write = _writing(self._class.DESCRIPTOR)

    def serialize(self, element: object) -> bytes:
        """Return the message of a row.

        Parameters
        ----------
        element : Row or tuple
            Its values by position. None: the field is left out.

        Raises
        ------
        ValueError
            A value does not fit its field, or is None where a message cannot say so; the error names the field.
        """
        message = self._class()
        try:
            self._write(message, element)
        except (TypeError, ValueError, OverflowError) as error:
            name = self._class.DESCRIPTOR.full_name
            raise ValueError(f"{element!r} does not fit the message {name}: {error}") from error
        return message.SerializeToString(deterministic=True)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), *_described(self._class.DESCRIPTOR))


def _checked(message_class: Any) -> Any:
    try:
        from google.protobuf.message import Message
    except ImportError as error:
        raise ImportError(f"Protocol Buffers need protobuf ({error}): install flinkbuf[protobuf]") from error
    if not (isinstance(message_class, type) and issubclass(message_class, Message) and message_class is not Message):
        raise TypeError(f"message_class must be a class that protoc has made, got {message_class!r}")
    return message_class


def _described(descriptor: Descriptor) -> tuple[list[bytes], str]:
    """Return the files that a message's description is in, those that others need first, and its name."""
    found: dict[str, bytes] = {}

    def add(file: FileDescriptor) -> None:
        if file.name not in found:
            for each in file.dependencies:
                add(each)
            found[file.name] = file.serialized_pb

    add(descriptor.file)
    return list(found.values()), descriptor.full_name


def _rebuilt(schema_class: Callable[[type], object], files: Sequence[bytes], name: str) -> object:
    """Return a schema where the message's class may not be there."""
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for each in files:
        pool.AddSerializedFile(each)
    return schema_class(message_factory.GetMessageClass(pool.FindMessageTypeByName(name)))


def _is_repeated(field: FieldDescriptor) -> bool:
    found = getattr(field, "is_repeated", None)  # since protobuf 6
    return field.label == field.LABEL_REPEATED if found is None else bool(found)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _type_of(descriptor: Descriptor, around: tuple[str, ...]) -> TypeInformation:
    """Return the type of a message's rows; `around` are the messages that it is within."""
    if descriptor.full_name in around:
        path = " in ".join((descriptor.full_name, *reversed(around)))
        raise TypeError(f"a row cannot contain rows of its own kind: {path}")
    around = (*around, descriptor.full_name)
    names = [field.name for field in descriptor.fields]
    return Types.ROW_NAMED(names, [_type_of_field(field, around) for field in descriptor.fields])


def _type_of_field(field: FieldDescriptor, around: tuple[str, ...]) -> TypeInformation:
    if _is_map(field):
        parts = field.message_type.fields_by_name
        return Types.MAP(_type_of_value(parts["key"], around), _type_of_value(parts["value"], around))
    found = _type_of_value(field, around)
    return Types.OBJECT_ARRAY(found) if _is_repeated(field) else found


def _type_of_value(field: FieldDescriptor, around: tuple[str, ...]) -> TypeInformation:
    if field.message_type is not None:
        return _type_of(field.message_type, around)
    if field.type == field.TYPE_BYTES:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    kinds = {
        field.CPPTYPE_INT32: Types.INT,
        field.CPPTYPE_INT64: Types.LONG,
        field.CPPTYPE_UINT32: Types.LONG,
        field.CPPTYPE_UINT64: Types.LONG,
        field.CPPTYPE_FLOAT: Types.FLOAT,
        field.CPPTYPE_DOUBLE: Types.DOUBLE,
        field.CPPTYPE_BOOL: Types.BOOLEAN,
        field.CPPTYPE_STRING: Types.STRING,
        field.CPPTYPE_ENUM: Types.STRING,
    }
    return kinds[field.cpp_type]()


def _reading(descriptor: Descriptor) -> Reading:
    names = tuple(field.name for field in descriptor.fields)
    make_row, fields = row_class(names), [_reading_field(field) for field in descriptor.fields]
    return lambda message: make_row(*(read(message) for read in fields))


def _reading_field(field: FieldDescriptor) -> Reading:
    name, read = field.name, _reading_value(field)
    if _is_map(field):
        read = _reading_value(field.message_type.fields_by_name["value"])
        return lambda message: {key: read(value) for key, value in _items(getattr(message, name))}
    if _is_repeated(field):
        return lambda message: [read(value) for value in getattr(message, name)]
    if field.has_presence:
        return lambda message: read(getattr(message, name)) if message.HasField(name) else None
    return lambda message: read(getattr(message, name))


def _items(values: Any) -> list[tuple[object, Any]]:
    return [(key, values[key]) for key in values]


def _reading_value(field: FieldDescriptor) -> Reading:
    if field.message_type is not None:
        return _reading(field.message_type)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}

        def named(number: int) -> str:
            if number not in names:
                raise ValueError(f"{field.full_name} is {number}, and {field.enum_type.full_name} has no name for it")
            return names[number]

        return named
    if field.cpp_type == field.CPPTYPE_UINT64:

        def signed(number: int) -> int:
            if number >= 1 << 63:
                raise ValueError(f"{field.full_name} is {number}, more than a LONG holds")
            return number

        return signed
    return _itself


def _writing(descriptor: Descriptor) -> Writing:
    fields = [(field.name, _writing_field(field)) for field in descriptor.fields]

    def write(message: Message, row: Any) -> None:
        if len(row) != len(fields):
            raise ValueError(f"it has {len(row)} fields instead of {len(fields)}")
        for (name, write_field), value in zip(fields, row, strict=True):
            try:
                write_field(message, value)
            except (TypeError, ValueError, OverflowError) as error:
                raise ValueError(f"{name}: {error}") from error

    return write


def _writing_field(field: FieldDescriptor) -> Writing:
    name = field.name
    if _is_map(field):
        return _writing_map(name, field.message_type.fields_by_name["value"])
    if _is_repeated(field):
        return _writing_array(name, field)
    has_presence, of_message = field.has_presence, field.message_type is not None
    write_message = _writing(field.message_type) if of_message else None
    convert = _writing_value(field)

    def write(message: Message, value: object) -> None:
        if value is None:
            if not has_presence:
                raise ValueError("it is None, and the message cannot say so: declare the field optional")
        elif write_message is not None:
            part = getattr(message, name)
            part.SetInParent()
            write_message(part, value)
        else:
            setattr(message, name, convert(value))

    return write


def _writing_map(name: str, field: FieldDescriptor) -> Writing:
    write_message = None if field.message_type is None else _writing(field.message_type)
    convert = _writing_value(field)

    def write(message: Message, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise TypeError(f"it is {value!r}, and should be a dict")
        target = getattr(message, name)
        for key, each in value.items():
            if write_message is None:
                target[key] = convert(each)
            else:
                write_message(target[key], each)

    return write


def _writing_array(name: str, field: FieldDescriptor) -> Writing:
    write_message = None if field.message_type is None else _writing(field.message_type)
    convert = _writing_value(field)

    def write(message: Message, value: Any) -> None:
        if value is None:
            raise ValueError("it is None, and the message cannot say so: use an empty list")
        target = getattr(message, name)
        for each in value:
            if write_message is None:
                target.append(convert(each))
            else:
                write_message(target.add(), each)

    return write


def _writing_value(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.enum_type is not None:
        numbers = {name: value.number for name, value in field.enum_type.values_by_name.items()}

        def numbered(name: object) -> int:
            if name not in numbers:
                raise ValueError(f"{name!r} is no name of {field.enum_type.full_name}: it has {', '.join(numbers)}")
            return numbers[name]

        return numbered
    return _bytes if field.type == field.TYPE_BYTES else _itself


def _bytes(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray)):
        raise TypeError(f"it is {value!r}, and should be bytes")
    return bytes(value)


def _itself(value: Any) -> Any:
    return value
