"""Messages as bytes: the number of their kind, then JSON of their fields. Nothing is ever unpickled.

A kind is a frozen dataclass. Each field is checked against its annotation, at the sender, where a mistake has its
cause, and again at the receiver, who believes nothing.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import numbers
import struct
import types
import typing
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flinkbuf.control.secure_link import MESSAGE_LIMIT, MessageTooLargeError
from flinkbuf.errors import CorruptDataError

Json = dict[str, Any]  # numbers, texts, lists and dicts of them
_Convert = Callable[..., object]
_ATTACHED = struct.Struct(">BI")  # number of the kind, and how many bytes are attached
_DEPTH_MAX = 64  # of JSON values in a field


class _Mismatch(Exception):
    """A value that its annotation does not allow; the message says where, from the inside out."""

    def __init__(self, expected: str, got: object) -> None:
        super().__init__()
        self.path = ""
        self.expected = expected
        self.got = got

    def within(self, step: str) -> _Mismatch:
        self.path = step + self.path
        return self

    def __str__(self) -> str:
        return f"{self.path.lstrip('.') or 'it'} must be {self.expected}, got {self.got!r:.80}"


class _Shape:
    """How values of one annotation become JSON, and JSON becomes them."""

    def __init__(self, to_json: _Convert, from_json: _Convert) -> None:
        self.to_json = to_json
        self.from_json = from_json


class MessageCodec:
    """Writes and reads the messages of one table.

    Parameters
    ----------
    kinds : mapping of int to type
        Frozen dataclasses by number, 0 to 255. A number is never used again for another message. Fields are int, float,
        str, bool, bytes, ``X | None``, ``tuple[X, ...]``, ``tuple[X, Y]``, ``list[X]``, ``dict[str, X]``, other frozen
        dataclasses, and Any for what JSON can say. A field with the metadata ``{"travels": False}`` stays at home and
        has its default at the other end. One with ``{"attached": True}``, of a kind itself and at most one, is bytes
        that stand as they are in front of the JSON, which is compressed: for large messages that many are sent.
    omits_defaults : bool, default False
        A field that is as its default is not written, and one that is missing is as its default: what was written
        before a field was added can be read. For what is kept; messages have all their fields.

    Raises
    ------
    TypeError
        If a kind is no frozen dataclass, or a field's annotation is none of these.

    Examples
    --------
    >>> import dataclasses
    >>> @dataclasses.dataclass(frozen=True)
    ... class Greeting:
    ...     name: str
    ...     times: int = 1
    >>> codec = MessageCodec({7: Greeting})
    >>> codec.encode(Greeting("you", 2))
    b'\\x07{"name":"you","times":2}'
    >>> codec.decode(_)
    Greeting(name='you', times=2)
    """

    def __init__(self, kinds: Mapping[int, type], *, omits_defaults: bool = False) -> None:
        self._omits_defaults = omits_defaults
        self._shape_of: dict[object, _Shape] = {}  # of dataclasses that are known already
        self._kinds: dict[int, tuple[type, _Shape]] = {}
        self._number_of: dict[type, int] = {}
        self._attached: dict[type, str] = {}  # name of the field, by kind
        for number, kind in kinds.items():
            if not 0 <= number <= 255:
                raise ValueError(f"the number of a kind is from 0 to 255, got {number}")
            self._kinds[number] = kind, self._dataclass(kind)
            for field in dataclasses.fields(kind):
                if field.metadata.get("attached"):
                    self._attached[kind] = field.name
            self._number_of[kind] = number

    def encode(self, message: object) -> bytes:
        """Return the bytes of a message.

        Raises
        ------
        TypeError
            If it is of no kind, or a field holds what its annotation does not allow.
        MessageTooLargeError
            If its JSON, compressed beside attached bytes, is longer than a message may be.
        """
        number = self._number_of.get(type(message))
        if number is None:
            raise TypeError(f"{type(message).__name__} is no message that can be sent")
        try:
            value = self._kinds[number][1].to_json(message)
            text = json.dumps(value, separators=(",", ":"), check_circular=False)
        except _Mismatch as error:
            raise TypeError(f"{type(message).__name__} cannot be sent: {error}") from None
        except ValueError as error:  # a number of more digits than Python writes
            raise TypeError(f"{type(message).__name__} cannot be sent: {error}") from None
        attached = self._attached.get(type(message))
        if attached is None:
            return bytes((number,)) + text.encode("ascii")
        if len(text) > MESSAGE_LIMIT:  # the receiver takes no more, however small it can be made
            raise MessageTooLargeError(len(text))
        data = getattr(message, attached)
        return b"".join((_ATTACHED.pack(number, len(data)), data, zlib.compress(text.encode("ascii"), 1)))

    def decode(self, data: bytes) -> Any:
        """Return the message that `data` holds.

        Raises
        ------
        CorruptDataError
            If it holds none.
        """
        if not data or data[0] not in self._kinds:
            raise CorruptDataError(f"no message is of kind {data[:1].hex() or 'nothing'}")
        kind, shape = self._kinds[data[0]]
        attached = self._attached.get(kind)
        try:
            if attached is None:
                return shape.from_json(json.loads(str(data[1:], "ascii")))
            value, text = _apart(data)
            message: Any = shape.from_json(json.loads(text))
            return dataclasses.replace(message, **{attached: value})
        except _Mismatch as error:
            raise CorruptDataError(f"a message {kind.__name__}: {error}") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise CorruptDataError(f"a message {kind.__name__} that cannot be read: {error}") from None

    # ---- one shape for each sort of annotation

    def _shape(self, annotation: object) -> _Shape:
        if annotation in _SCALARS:
            return _SCALARS[annotation]
        if dataclasses.is_dataclass(annotation):
            return self._dataclass(annotation)
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in (typing.Union, types.UnionType) and len(arguments) == 2 and type(None) in arguments:
            return _optional(self._shape(next(each for each in arguments if each is not type(None))))
        if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
            return _sequence(self._shape(arguments[0]), tuple)
        if origin is tuple and arguments:
            return _fixed_tuple([self._shape(each) for each in arguments])
        if origin is list:
            return _sequence(self._shape(arguments[0]), list)
        if origin is dict and arguments[0] is str:
            return _dict(self._shape(arguments[1]))
        raise TypeError(f"a field of the type {annotation} cannot travel")

    def _dataclass(self, kind: Any) -> _Shape:
        if kind in self._shape_of:
            return self._shape_of[kind]
        parameters = getattr(kind, "__dataclass_params__", None)
        if parameters is None or not parameters.frozen:
            raise TypeError(f"{kind!r} is no frozen dataclass")
        shape = self._shape_of[kind] = _Shape(_not_ready, _not_ready)  # a field may be of its own type
        annotations = typing.get_type_hints(kind)
        fields = {
            field.name: self._shape(annotations[field.name])
            for field in dataclasses.fields(kind)
            if field.metadata.get("travels", True) and not field.metadata.get("attached")
        }
        shape.to_json, shape.from_json = _object(kind, fields, _defaults(kind) if self._omits_defaults else {})
        return shape


def _apart(data: bytes) -> tuple[bytes, str]:
    """Return the attached bytes of a message, and its JSON."""
    if len(data) < _ATTACHED.size:
        raise ValueError("it is cut off")
    end = _ATTACHED.size + _ATTACHED.unpack_from(data)[1]
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(data[end:], MESSAGE_LIMIT)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not inflater.eof or inflater.unused_data:
        raise ValueError("its JSON is cut off, too long, or has something behind it")
    return data[_ATTACHED.size : end], str(text, "ascii")


def _not_ready(value: object) -> object:
    raise AssertionError("a shape is used while it is made")


def _exactly(kind: type, name: str) -> _Shape:
    def check(value: object) -> object:
        if type(value) is not kind:
            raise _Mismatch(name, value)
        return value

    return _Shape(check, check)


def _float_from_json(value: str | float) -> float:
    if type(value) not in (int, float):
        raise _Mismatch("a number", value)
    try:
        return float(value)
    except OverflowError:
        raise _Mismatch("a number", value) from None


def _bytes_to_json(value: object) -> str:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise _Mismatch("bytes", value)
    return base64.b64encode(value).decode("ascii")


def _bytes_from_json(value: object) -> bytes:
    if type(value) is not str:
        raise _Mismatch("bytes as base64", value)
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise _Mismatch("bytes as base64", value) from None


def _json(value: object, depth: int = 0) -> object:
    """Return a value as JSON has it, at whatever depth: tuples are lists, numpy's numbers are Python's."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, numbers.Real):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    if depth == _DEPTH_MAX:
        raise _Mismatch(f"nested at most {_DEPTH_MAX} times", value)
    if isinstance(value, (list, tuple)):
        return [_json(each, depth + 1) for each in value]
    if not isinstance(value, dict):
        raise _Mismatch("None, a bool, an int, a float, a text, or a list or dict of them", value)
    for name in value:
        if type(name) is not str:
            raise _Mismatch("a dict by texts", value)
    return {name: _json(each, depth + 1) for name, each in value.items()}


_SCALARS: dict[object, _Shape] = {
    int: _exactly(int, "a whole number"),
    str: _exactly(str, "a text"),
    bool: _exactly(bool, "True or False"),
    float: _Shape(_float_from_json, _float_from_json),
    bytes: _Shape(_bytes_to_json, _bytes_from_json),
    **dict.fromkeys((Any, object), _Shape(_json, _json)),
}


def _optional(inner: _Shape) -> _Shape:
    return _Shape(
        lambda value: None if value is None else inner.to_json(value),
        lambda value: None if value is None else inner.from_json(value),
    )


def _convert_all(values: Iterable[object], convert: _Convert) -> list[object]:
    converted = []
    for value in values:
        try:
            converted.append(convert(value))
        except _Mismatch as error:
            raise error.within(f"[{len(converted)}]") from None
    return converted


def _sequence(inner: _Shape, kind: type[tuple[object, ...]] | type[list[object]]) -> _Shape:
    def to_json(value: Sequence[object]) -> list[object]:
        if type(value) is not kind:
            raise _Mismatch(f"a {kind.__name__}", value)
        return _convert_all(value, inner.to_json)

    def from_json(value: object) -> object:
        if type(value) is not list:
            raise _Mismatch("a list", value)
        return kind(_convert_all(value, inner.from_json))

    return _Shape(to_json, from_json)


def _fixed_tuple(inner: list[_Shape]) -> _Shape:
    def convert(value: object, kind: type[tuple[object, ...]] | type[list[object]], direction: str) -> list[object]:
        if not isinstance(value, kind) or len(value) != len(inner):
            raise _Mismatch(f"a {kind.__name__} of {len(inner)}", value)
        return _convert_all(zip(inner, value, strict=True), lambda pair: getattr(pair[0], direction)(pair[1]))

    return _Shape(
        lambda value: convert(value, tuple, "to_json"),
        lambda value: tuple(convert(value, list, "from_json")),
    )


def _dict(inner: _Shape) -> _Shape:
    def convert(value: object, convert_one: _Convert) -> dict[str, object]:
        if type(value) is not dict:
            raise _Mismatch("a dict", value)
        converted = {}
        for name, each in value.items():
            if type(name) is not str:
                raise _Mismatch("a dict by texts", value)
            try:
                converted[name] = convert_one(each)
            except _Mismatch as error:
                raise error.within(f"[{name[:40]!r}]") from None
        return converted

    return _Shape(lambda value: convert(value, inner.to_json), lambda value: convert(value, inner.from_json))


def _defaults(kind: type) -> dict[str, object]:
    """The default of each field that has one."""
    defaults = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory()
    return defaults


def _object(kind: type, fields: dict[str, _Shape], omitted: dict[str, object]) -> tuple[_Convert, _Convert]:
    """`omitted` has the defaults of fields that need not be written."""
    needed = fields.keys() - omitted.keys()

    def convert_fields(values: Mapping[str, object], direction: str) -> dict[str, object]:
        converted = {}
        for name, value in values.items():
            try:
                converted[name] = getattr(fields[name], direction)(value)
            except _Mismatch as error:
                raise error.within(f".{name}") from None
        return converted

    def is_written(name: str, value: object) -> bool:
        return name in needed or type(value) is not type(omitted[name]) or value != omitted[name]

    def to_json(value: object) -> dict[str, object]:
        if type(value) is not kind:
            raise _Mismatch(f"a {kind.__name__}", value)
        values = {name: getattr(value, name) for name in fields}
        return convert_fields({name: each for name, each in values.items() if is_written(name, each)}, "to_json")

    def from_json(value: object) -> object:
        if type(value) is not dict or not needed <= value.keys() <= fields.keys():
            raise _Mismatch(f"a {kind.__name__} with the fields {', '.join(fields) or 'none'}", value)
        return kind(**convert_fields(value, "from_json"))

    return to_json, from_json
