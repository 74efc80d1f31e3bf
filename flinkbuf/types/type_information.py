"""What a type is: immutable descriptions that compare, hash, print and pickle, and build their codec when asked.

Users make them through `flinkbuf.Types` or `flinkbuf.as_type`; the classes are named as Flink's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, Flag
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from flinkbuf._core.value.type_codec import TypeCodec
from flinkbuf.types.values import (
    Instant,
    InternalWatermark,
    JavaDate,
    LatencyMarker,
    Left,
    LocalDate,
    LocalDateTime,
    LocalTime,
    RecordAttributes,
    Right,
    SqlDate,
    SqlTime,
    SqlTimestamp,
    StreamRecord,
    Watermark,
    WatermarkStatus,
    row_classes,
)

if TYPE_CHECKING:
    import numpy

T = TypeVar("T")

# Name in Types: (kind in csrc/value/type.h, bytes of every value or None where they vary, is None a value?, the
# classes for what Python's own values cannot hold). An INSTANT has its class for every value.
_BASIC: dict[str, tuple[str, int | None, bool, tuple[type, ...]]] = {
    "BOOLEAN": ("BOOLEAN", 1, False, ()),
    "BYTE": ("BYTE", 1, False, ()),
    "SHORT": ("SHORT", 2, False, ()),
    "CHAR": ("CHAR", 2, False, ()),
    "INT": ("INT", 4, False, ()),
    "LONG": ("LONG", 8, False, ()),
    "FLOAT": ("FLOAT", 4, False, ()),
    "DOUBLE": ("DOUBLE", 8, False, ()),
    "STRING": ("STRING", None, True, ()),
    "VOID": ("VOID", 1, True, ()),
    "BIG_INT": ("BIG_INT", None, True, ()),
    "BIG_DEC": ("BIG_DEC", None, True, ()),
    "INSTANT": ("INSTANT", 12, True, (Instant,)),
    "TIMESTAMP_LTZ": ("INSTANT", 12, True, (Instant,)),
    "LOCAL_DATE": ("LOCAL_DATE", 6, True, (LocalDate,)),
    "LOCAL_TIME": ("LOCAL_TIME", 7, True, (LocalTime,)),
    "LOCAL_DATE_TIME": ("LOCAL_DATE_TIME", 13, True, (LocalDateTime,)),
    "DATE": ("DATE", 8, True, (JavaDate,)),
    "SQL_DATE": ("SQL_DATE", 8, True, (SqlDate,)),
    "SQL_TIME": ("SQL_TIME", 8, True, (SqlTime,)),
    "SQL_TIMESTAMP": ("SQL_TIMESTAMP", 12, True, (SqlTimestamp,)),
    "PICKLED_BYTE_ARRAY": ("PICKLED_BYTES", None, True, ()),
    # org.apache.flink.types.*Value: the bytes are those of the plain types, but a StringValue has no null.
    "BOOLEAN_VALUE": ("BOOLEAN", 1, False, ()),
    "BYTE_VALUE": ("BYTE", 1, False, ()),
    "SHORT_VALUE": ("SHORT", 2, False, ()),
    "CHAR_VALUE": ("CHAR", 2, False, ()),
    "INT_VALUE": ("INT", 4, False, ()),
    "LONG_VALUE": ("LONG", 8, False, ()),
    "FLOAT_VALUE": ("FLOAT", 4, False, ()),
    "DOUBLE_VALUE": ("DOUBLE", 8, False, ()),
    "STRING_VALUE": ("STRING_VALUE", None, False, ()),
    "NULL_VALUE": ("NULL_VALUE", 0, True, ()),
}
# How Flink, and so str(), calls the types without parts.
_TEXTS = {
    "STRING": "String",
    "BYTE": "Byte",
    "BOOLEAN": "Boolean",
    "SHORT": "Short",
    "INT": "Integer",
    "LONG": "Long",
    "FLOAT": "Float",
    "DOUBLE": "Double",
    "CHAR": "Char",
    "BIG_INT": "BigInteger",
    "BIG_DEC": "BigDecimal",
    "INSTANT": "Instant",
    "SQL_DATE": "DateTypeInfo",
    "SQL_TIME": "TimeTypeInfo",
    "SQL_TIMESTAMP": "TimestampTypeInfo",
    "PICKLED_BYTE_ARRAY": "PickledByteArrayTypeInfo",
}
_PRIMITIVES = ("BOOLEAN", "BYTE", "SHORT", "CHAR", "INT", "LONG", "FLOAT", "DOUBLE")
_DTYPES = {"BYTE": "int8", "SHORT": "int16", "INT": "int32", "LONG": "int64", "FLOAT": "float32", "DOUBLE": "float64"}
_STREAM_ELEMENTS = (StreamRecord, Watermark, InternalWatermark, LatencyMarker, WatermarkStatus, RecordAttributes)


class TypeInformation:
    """The description of one type. Flink's ``TypeInformation``; its codec is Flink's ``TypeSerializer``.

    Two are equal if they describe the same type; they can be keys of a dict, and are pickled without their codec.
    ``repr`` gives the expression that makes an equal one.

    Examples
    --------
    >>> from flinkbuf.types.types import Types
    >>> Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.LIST(Types.STRING())])
    Types.ROW_NAMED(['a', 'b'], [Types.INT(), Types.LIST(Types.STRING())])
    """

    __slots__ = ("_codec",)
    _codec: TypeCodec

    @property
    def kind(self) -> str:
        """Which codec encodes it: a name of ``FB_TYPE_KINDS`` in ``csrc/value/type.h``."""
        raise TypeError(f"{type(self).__name__} describes no type by itself")

    @property
    def children(self) -> tuple[TypeInformation, ...]:
        """The types it is made of, in the codec's order."""
        return ()

    @property
    def fixed_size(self) -> int | None:
        """Bytes that every value takes, None where they vary. Flink's ``TypeSerializer.getLength``."""
        return None

    @property
    def accepts_none(self) -> bool:
        """True if None is a value of this type."""
        return False

    @property
    def codec(self) -> TypeCodec:
        """Encodes and decodes values; built at first use, then kept."""
        try:
            return self._codec
        except AttributeError:
            pass
        children = tuple(child.codec for child in self.children)
        codec = self._make_codec(children)
        object.__setattr__(self, "_codec", codec)
        return codec

    def _make_codec(self, children: tuple[TypeCodec, ...]) -> TypeCodec:
        return TypeCodec(self.kind, children)

    def need_conversion(self) -> bool:
        """Whether PyFlink would convert values of this type itself: never here, where codecs do it."""
        return False

    def to_internal_type(self, obj: T) -> T:
        """What PyFlink makes of a value before it is encoded: here the value."""
        return obj

    def from_internal_type(self, obj: T) -> T:
        """What PyFlink makes of what was decoded: here the value."""
        return obj

    def serialize(self, value: object) -> bytes:
        """The bytes that Flink's serializer of this type writes for `value`.

        Raises
        ------
        TypeError, OverflowError, ValueError
            If `value` is not of this type, is out of its range, or lacks a field; the message names the field.
        """
        return self.codec.serialize(value)

    def deserialize(self, data: object) -> Any:
        """The value that `data` (bytes, or any buffer of bytes) encodes.

        Raises
        ------
        flinkbuf.errors.CorruptDataError
            If `data` is not exactly one value of this type; the message says where it went wrong.
        """
        return self.codec.deserialize(data)


@dataclass(frozen=True, slots=True)
class BasicTypeInfo(TypeInformation):
    """A type without parts, by its name in `Types`."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in _BASIC:
            raise ValueError(f"no type is named {self.name!r}")

    @property
    def kind(self) -> str:
        return _BASIC[self.name][0]

    @property
    def fixed_size(self) -> int | None:
        return _BASIC[self.name][1]

    @property
    def accepts_none(self) -> bool:
        return _BASIC[self.name][2]

    def _make_codec(self, children: tuple[TypeCodec, ...]) -> TypeCodec:
        return TypeCodec(self.kind, classes=_BASIC[self.name][3] or None, own_class=self.name == "INSTANT")

    def __repr__(self) -> str:
        return f"Types.{self.name}()"

    def __str__(self) -> str:
        return _TEXTS.get(self.name, repr(self))


# Kept, so that the codecs of the basic types are built once.
_basic_types = {name: BasicTypeInfo(name) for name in _BASIC}


def basic_type(name: str) -> BasicTypeInfo:
    """The one description of the type without parts that `Types` calls `name`."""
    return _basic_types[name]


@dataclass(frozen=True, slots=True)
class PrimitiveArrayTypeInfo(TypeInformation):
    """An array of Java primitives, such as ``int[]``. Flink's ``PrimitiveArrayTypeInfo``."""

    element_type: TypeInformation
    numpy: bool = False

    def __post_init__(self) -> None:
        name = getattr(self.element_type, "name", None)
        if name not in _PRIMITIVES:
            raise TypeError(f"a primitive array holds one of {', '.join(_PRIMITIVES)}, not {self.element_type!r}")

    @property
    def kind(self) -> str:
        return "PRIMITIVE_ARRAY"

    @property
    def children(self) -> tuple[TypeInformation, ...]:
        return (self.element_type,)

    def _make_codec(self, children: tuple[TypeCodec, ...]) -> TypeCodec:
        return TypeCodec(self.kind, children, numpy=self.numpy)

    def __repr__(self) -> str:
        return f"Types.PRIMITIVE_ARRAY({self.element_type!r}{', numpy=True' if self.numpy else ''})"

    def __str__(self) -> str:
        return f"PrimitiveArrayTypeInfo<{self.element_type}>"


@dataclass(frozen=True, slots=True)
class _ElementsTypeInfo(TypeInformation):
    """Any number of values of one type; the subclasses differ in container and bytes."""

    element_type: TypeInformation
    _kind: ClassVar[str]

    @property
    def kind(self) -> str:
        return self._kind

    @property
    def children(self) -> tuple[TypeInformation, ...]:
        return (self.element_type,)

    def __repr__(self) -> str:
        return f"Types.{self.kind}({self.element_type!r})"

    def __str__(self) -> str:
        return f"{type(self).__name__}<{self.element_type}>"


class ListTypeInfo(_ElementsTypeInfo):
    """A list; its elements are None only if their type says so. Flink's ``ListTypeInfo``."""

    __slots__ = ()
    _kind = "LIST"


class SetTypeInfo(_ElementsTypeInfo):
    """A set. Flink's ``SetTypeInfo``."""

    __slots__ = ()
    _kind = "SET"


class ObjectArrayTypeInfo(_ElementsTypeInfo):
    """An array whose elements may be None, of any type. Flink's ``ObjectArrayTypeInfo``."""

    __slots__ = ()
    _kind = "OBJECT_ARRAY"


@dataclass(frozen=True, slots=True)
class BasicArrayTypeInfo(_ElementsTypeInfo):
    """An array of Java's boxed primitives or of strings. Flink's ``BasicArrayTypeInfo``."""

    def __post_init__(self) -> None:
        if getattr(self.element_type, "name", None) not in (*_PRIMITIVES, "STRING"):
            allowed = ", ".join((*_PRIMITIVES, "STRING"))
            raise TypeError(f"a basic array holds one of {allowed}, not {self.element_type!r}; use OBJECT_ARRAY")

    @property
    def kind(self) -> str:
        # A String[] has a serializer of its own, the others share that of object arrays.
        return "STRING_ARRAY" if self.element_type == basic_type("STRING") else "OBJECT_ARRAY"

    @property
    def children(self) -> tuple[TypeInformation, ...]:
        return () if self.kind == "STRING_ARRAY" else (self.element_type,)

    def __repr__(self) -> str:
        return f"Types.BASIC_ARRAY({self.element_type!r})"


@dataclass(frozen=True, slots=True)
class MapTypeInfo(TypeInformation):
    """A map; its values may be None, its keys only if their type says so. Flink's ``MapTypeInfo``."""

    key_type: TypeInformation
    value_type: TypeInformation

    @property
    def kind(self) -> str:
        return "MAP"

    @property
    def children(self) -> tuple[TypeInformation, ...]:
        return (self.key_type, self.value_type)

    def __repr__(self) -> str:
        return f"Types.MAP({self.key_type!r}, {self.value_type!r})"

    def __str__(self) -> str:
        return f"MapTypeInfo<{self.key_type}, {self.value_type}>"


class TypeOfFields(TypeInformation):
    """What types of values with several fields have in common."""

    __slots__ = ()
    field_types: tuple[TypeInformation, ...]

    @property
    def children(self) -> tuple[TypeInformation, ...]:
        return self.field_types

    def get_field_types(self) -> list[TypeInformation]:
        """As `field_types`, under the name that PyFlink has it."""
        return list(self.field_types)


class TypeOfRows(TypeOfFields):
    """What types of rows have in common."""

    __slots__ = ()
    names: tuple[str, ...] | None
    required: tuple[bool, ...] | None

    @property
    def field_names(self) -> tuple[str, ...]:
        """The names; ``f0``, ``f1``, … where none were given, as in Flink."""
        return self.names if self.names is not None else tuple(f"f{i}" for i in range(len(self.field_types)))

    def _make_codec(self, children: tuple[TypeCodec, ...]) -> TypeCodec:
        return TypeCodec(self.kind, children, names=self.names, classes=row_classes(self.names), required=self.required)

    def get_field_names(self) -> list[str]:
        """As `field_names`, under the name that PyFlink has it."""
        return list(self.field_names)

    def get_field_index(self, field_name: str) -> int:
        """The position of a field; ValueError if there is none of this name."""
        if field_name not in self.field_names:
            raise ValueError(f"{field_name!r} is not in {list(self.field_names)}")
        return self.field_names.index(field_name)


@dataclass(frozen=True, slots=True)
class TupleTypeInfo(TypeOfFields):
    """A tuple of fields with types of their own. Flink's ``TupleTypeInfo``."""

    field_types: tuple[TypeInformation, ...]

    def __post_init__(self) -> None:
        if not self.field_types:
            raise ValueError("a TUPLE has at least one field; a ROW may have none")

    @property
    def field_names(self) -> tuple[str, ...]:
        """``f0``, ``f1``, …, as in Flink."""
        return tuple(f"f{i}" for i in range(len(self.field_types)))

    @property
    def kind(self) -> str:
        return "TUPLE"

    @property
    def fixed_size(self) -> int | None:
        sizes = [each.fixed_size for each in self.field_types]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def __repr__(self) -> str:
        return f"Types.TUPLE([{', '.join(map(repr, self.field_types))}])"

    def __str__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self.field_types))})"


@dataclass(frozen=True, slots=True)
class RowTypeInfo(TypeOfRows):
    """A row: fields that may be None, and a kind of change. Flink's ``RowTypeInfo``."""

    field_types: tuple[TypeInformation, ...]
    names: tuple[str, ...] | None = None
    # Which fields were declared NOT NULL: no byte depends on it, but batches are held to it.
    required: tuple[bool, ...] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.names is None:
            return
        if len(self.names) != len(self.field_types):
            raise ValueError(f"{len(self.names)} field names {list(self.names)} for {len(self.field_types)} types")
        wrong = next((name for name in self.names if not isinstance(name, str)), None)
        if wrong is not None:
            raise TypeError(f"a field name must be a str, got {wrong!r}")
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise ValueError(f"field names must differ, but {twice} occur more than once; rename the columns")

    @property
    def kind(self) -> str:
        return "ROW"

    def __repr__(self) -> str:
        types = f"[{', '.join(map(repr, self.field_types))}]"
        return f"Types.ROW({types})" if self.names is None else f"Types.ROW_NAMED({list(self.names)!r}, {types})"

    def __str__(self) -> str:
        if self.names is None:
            return f"RowTypeInfo({', '.join(map(str, self.field_types))})"
        fields = zip(self.names, self.field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {field_type}' for name, field_type in fields)})"


@dataclass(frozen=True, slots=True)
class EnumTypeInfo(TypeInformation):
    """One of some values, encoded as its position. Flink's ``EnumTypeInfo``."""

    symbols: type[Enum] | tuple[object, ...]

    def __post_init__(self) -> None:
        if isinstance(self.symbols, type) and issubclass(self.symbols, Flag):
            raise TypeError(f"{self.symbols.__name__} is a Flag, whose values combine; declare an INT or LONG instead")
        values = self.values
        if not values:
            raise ValueError("an ENUM needs at least one value")
        if len(set(values)) != len(values):
            raise ValueError(f"the values of an ENUM must differ, got {list(values)}")

    @property
    def values(self) -> tuple[object, ...]:
        """The Python values in the order of their ordinals."""
        return tuple(self.symbols)

    @property
    def kind(self) -> str:
        return "ENUM"

    @property
    def fixed_size(self) -> int | None:
        return 4

    def _make_codec(self, children: tuple[TypeCodec, ...]) -> TypeCodec:
        return TypeCodec(self.kind, children, symbols=self.values)

    def __repr__(self) -> str:
        symbols = self.symbols.__qualname__ if isinstance(self.symbols, type) else repr(list(self.symbols))
        return f"Types.ENUM({symbols})"


@dataclass(frozen=True, slots=True)
class EitherTypeInfo(TypeInformation):
    """A `Left` of one type or a `Right` of another. Flink's ``EitherTypeInfo``."""

    left_type: TypeInformation
    right_type: TypeInformation

    @property
    def kind(self) -> str:
        return "EITHER"

    @property
    def children(self) -> tuple[TypeInformation, ...]:
        return (self.left_type, self.right_type)

    def _make_codec(self, children: tuple[TypeCodec, ...]) -> TypeCodec:
        return TypeCodec(self.kind, children, classes=(Left, Right))

    def __repr__(self) -> str:
        return f"Types.EITHER({self.left_type!r}, {self.right_type!r})"


@dataclass(frozen=True, slots=True)
class NullableTypeInfo(TypeInformation):
    """Another type, and None. Flink's ``NullableSerializer``."""

    value_type: TypeInformation
    padded: bool = False

    @property
    def kind(self) -> str:
        return "NULLABLE"

    @property
    def children(self) -> tuple[TypeInformation, ...]:
        return (self.value_type,)

    @property
    def padding(self) -> int:
        """Bytes written for None beside the mask; 0 unless padded and the inner type has a fixed size."""
        return (self.value_type.fixed_size or 0) if self.padded else 0

    @property
    def fixed_size(self) -> int | None:
        return 1 + self.padding if self.padding else None

    @property
    def accepts_none(self) -> bool:
        return True

    def _make_codec(self, children: tuple[TypeCodec, ...]) -> TypeCodec:
        return TypeCodec(self.kind, children, padding=self.padding)

    def __repr__(self) -> str:
        return f"Types.NULLABLE({self.value_type!r}{', padded=True' if self.padded else ''})"


@dataclass(frozen=True, slots=True)
class StreamElementTypeInfo(TypeInformation):
    """A record with its event time, or another element of a stream. Flink's ``StreamElementSerializer``."""

    value_type: TypeInformation

    @property
    def kind(self) -> str:
        return "STREAM_ELEMENT"

    @property
    def children(self) -> tuple[TypeInformation, ...]:
        return (self.value_type,)

    def _make_codec(self, children: tuple[TypeCodec, ...]) -> TypeCodec:
        return TypeCodec(self.kind, children, classes=_STREAM_ELEMENTS)

    def __repr__(self) -> str:
        return f"Types.STREAM_ELEMENT({self.value_type!r})"


@dataclass(frozen=True, slots=True)
class ObjectTypeInfo(TypeInformation):
    """Any value, as where nobody declared a type. In place of PyFlink's ``PickledBytesTypeInfo``; the bytes are ours.

    Parameters
    ----------
    trusted : bool, default True
        Unpickle what came as a pickle. False where the writer has not proved the secret: builtin values are read, and
        a pickle is refused. It does not take part in comparisons.
    """

    trusted: bool = field(default=True, compare=False)

    @property
    def kind(self) -> str:
        return "OBJECT"

    @property
    def accepts_none(self) -> bool:
        return True

    def _make_codec(self, children: tuple[TypeCodec, ...]) -> TypeCodec:
        return TypeCodec(self.kind, children, trusted=self.trusted, row_classes=row_classes)

    def __repr__(self) -> str:
        return f"object_type({'' if self.trusted else 'trusted=False'})"


_object_types = {trusted: ObjectTypeInfo(trusted) for trusted in (True, False)}


def object_type(trusted: bool = True) -> ObjectTypeInfo:
    """The type of values that nobody declared: whatever Python has, given back as a pickle would.

    None, bool, int, float, str, bytes, bytearray, tuple, list, dict, set, frozenset, date, time, datetime, timedelta,
    Decimal and `flinkbuf.Row` are written as such, classes exactly; a value with anything else inside is pickled, by
    cloudpickle where pickle refuses.

    Parameters
    ----------
    trusted : bool, default True
        See `ObjectTypeInfo`.

    Examples
    --------
    >>> object_type().deserialize(object_type().serialize((1, 1.0, True, None, {"a": [b"b"]})))
    (1, 1.0, True, None, {'a': [b'b']})
    """
    return _object_types[bool(trusted)]


def row_type(
    names: Sequence[str] | None, types: Iterable[TypeInformation], required: Iterable[bool] | None = None
) -> RowTypeInfo:
    """A row with these fields; `names` None for one whose fields have none, `required` those that are NOT NULL."""
    flags = None if required is None else tuple(required)
    return RowTypeInfo(tuple(types), None if names is None else tuple(names), flags if flags and any(flags) else None)


def column_dtype(record_type: TypeInformation) -> numpy.dtype[numpy.generic]:
    """The numpy type that holds a column of such records, in the machine's byte order.

    Raises
    ------
    TypeError
        If the records are not plain numbers of a fixed size.

    Examples
    --------
    >>> column_dtype(basic_type("LONG"))
    dtype('int64')
    """
    import numpy

    name = _DTYPES.get(record_type.kind) if isinstance(record_type, BasicTypeInfo) else None
    if name is None:
        raise TypeError(f"a batch is a column of numbers ({', '.join(_DTYPES)}), but the records are {record_type!r}")
    return numpy.dtype(name)
