"""The types of Flink's table runtime: rows that begin with a slot of 8 bytes for each field, and what lies in them.

`ROW_DATA` is the format of Flink SQL's own exchanges (``RowData``, ``BinaryRowData``). Its values in Python are those
of `ROW_NAMED`; its bytes are aligned, so that a column becomes a slot of each row, and back, with hardly a look at it.
It knows more of its fields than `ROW` does: how many digits a decimal or a timestamp has, and which fields are declared
NOT NULL.

What the other types become as fields:

==============================  =========================  ===================================
As a field                      is                         Flink SQL
==============================  =========================  ===================================
BOOLEAN … DOUBLE, VOID          itself                     BOOLEAN, TINYINT … DOUBLE, NULL
STRING                          STRING_DATA                STRING
PRIMITIVE_ARRAY(BYTE)           itself                     BYTES
BIG_DEC                         DECIMAL_DATA(38, 18)       DECIMAL(38, 18)
BIG_INT                         DECIMAL_DATA(38, 0)        DECIMAL(38, 0)
LOCAL_DATE, SQL_DATE            DATE_DATA                  DATE
LOCAL_TIME, SQL_TIME            TIME_DATA                  TIME(3)
LOCAL_DATE_TIME, SQL_TIMESTAMP  TIMESTAMP_DATA(6)          TIMESTAMP(6)
INSTANT, TIMESTAMP_LTZ          TIMESTAMP_LTZ_DATA(6)      TIMESTAMP_LTZ(6)
LIST and the arrays             ARRAY_DATA                 ARRAY
MAP                             MAP_DATA                   MAP
ROW, TUPLE                      ROW_DATA                   ROW
NULLABLE(t)                     t                          every field may be null
==============================  =========================  ===================================

Of pyspark and pyarrow also intervals: one of years and months is INT (months), one of days to seconds LONG (of its own
unit, microseconds from Spark), one of months, days and nanoseconds a ROW_DATA of INT, INT and LONG.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from flinkbuf._core.value.type_codec import TypeCodec
from flinkbuf.types.schema import DecimalParser, as_type
from flinkbuf.types.type_information import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    NullableTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    TypeOfRows,
    basic_type,
)

if TYPE_CHECKING:
    import pyarrow

MICROS = 6  # digits of a timestamp where nobody said

_PLAIN = ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "VOID")
# Of each leaf the plain type whose Python values it has, how many numbers it takes, its bytes where they do not vary.
_LEAVES: dict[str, tuple[str | None, int, int | None]] = {
    "STRING_DATA": (None, 0, None),
    "DECIMAL_DATA": ("BIG_DEC", 2, None),
    "DATE_DATA": ("LOCAL_DATE", 0, 4),
    "TIME_DATA": ("LOCAL_TIME", 0, 4),
    "TIMESTAMP_DATA": ("LOCAL_DATE_TIME", 1, None),
    "TIMESTAMP_LTZ_DATA": ("TIMESTAMP_LTZ", 1, None),
}


@dataclass(frozen=True, slots=True)
class LeafDataTypeInfo(TypeInformation):
    """Text, a decimal, a date or a time of the table runtime, by its name in `Types`. Flink's ``StringDataSerializer``,
    ``DecimalDataSerializer``, ``TimestampDataSerializer``."""

    name: str
    precision: int = 0
    scale: int = 0

    def __post_init__(self) -> None:
        if self.name not in _LEAVES:
            raise ValueError(f"no type is named {self.name!r}")
        self.codec  # noqa: B018 - it refuses digits that there are not

    @property
    def kind(self) -> str:
        return self.name

    @property
    def children(self) -> tuple[TypeInformation, ...]:
        plain = _LEAVES[self.name][0]
        return () if plain is None else (basic_type(plain),)

    @property
    def fixed_size(self) -> int | None:
        if self.name == "DECIMAL_DATA":
            return 8 if self.precision <= 18 else None
        if self.name.startswith("TIMESTAMP"):
            return 8 if self.precision <= 3 else 12
        return _LEAVES[self.name][2]

    def _make_codec(self, children: tuple[TypeCodec, ...]) -> TypeCodec:
        return TypeCodec(self.kind, children, precision=self.precision, scale=self.scale)

    def __repr__(self) -> str:
        numbers = (self.precision, self.scale)[: _LEAVES[self.name][1]]
        return f"Types.{self.name}({', '.join(map(str, numbers))})"


@functools.cache
def leaf_data_type(name: str, precision: int = 0, scale: int = 0) -> LeafDataTypeInfo:
    """The one description of a type without parts, whose codec is built once."""
    return LeafDataTypeInfo(name, precision, scale)


@dataclass(frozen=True, slots=True)
class ArrayDataTypeInfo(TypeInformation):
    """An array whose elements may be None. Flink's ``ArrayDataSerializer``."""

    element_type: TypeInformation

    def __post_init__(self) -> None:
        object.__setattr__(self, "element_type", data_type(self.element_type))

    @property
    def kind(self) -> str:
        return "ARRAY_DATA"

    @property
    def children(self) -> tuple[TypeInformation, ...]:
        return (self.element_type,)

    def __repr__(self) -> str:
        return f"Types.ARRAY_DATA({self.element_type!r})"


@dataclass(frozen=True, slots=True)
class MapDataTypeInfo(TypeInformation):
    """A map whose values may be None. Flink's ``MapDataSerializer``."""

    key_type: TypeInformation
    value_type: TypeInformation

    def __post_init__(self) -> None:
        object.__setattr__(self, "key_type", data_type(self.key_type, "key"))
        object.__setattr__(self, "value_type", data_type(self.value_type, "value"))

    @property
    def kind(self) -> str:
        return "MAP_DATA"

    @property
    def children(self) -> tuple[TypeInformation, ...]:
        return (self.key_type, self.value_type)

    def __repr__(self) -> str:
        return f"Types.MAP_DATA({self.key_type!r}, {self.value_type!r})"


@dataclass(frozen=True, slots=True)
class RowDataTypeInfo(TypeOfRows):
    """A row of the table runtime. Flink's ``InternalTypeInfo`` of a ``RowType``, whose serializer is
    ``RowDataSerializer``."""

    field_types: tuple[TypeInformation, ...]
    names: tuple[str, ...]
    required: tuple[bool, ...] | None = field(default=None)
    _kind: ClassVar[str] = "ROW_DATA"

    def __post_init__(self) -> None:
        RowTypeInfo(self.field_types, self.names)  # which looks at the names
        converted = tuple(data_type(each, name) for name, each in zip(self.names, self.field_types, strict=True))
        object.__setattr__(self, "field_types", converted)
        if self.required is not None and not any(self.required):
            object.__setattr__(self, "required", None)

    @property
    def kind(self) -> str:
        return self._kind

    def __repr__(self) -> str:
        required = [name for name, each in zip(self.names, self.required or (), strict=False) if each]
        return (
            f"Types.ROW_DATA({list(self.names)!r}, [{', '.join(map(repr, self.field_types))}]"
            f"{f', not_null={required!r}' if required else ''})"
        )


# What basic types are as fields.
_FIELDS = {
    "STRING": ("STRING_DATA",),
    "STRING_VALUE": ("STRING_DATA",),
    "BIG_DEC": ("DECIMAL_DATA", 38, 18),
    "BIG_INT": ("DECIMAL_DATA", 38, 0),
    "LOCAL_DATE": ("DATE_DATA",),
    "SQL_DATE": ("DATE_DATA",),
    "LOCAL_TIME": ("TIME_DATA",),
    "SQL_TIME": ("TIME_DATA",),
    "LOCAL_DATE_TIME": ("TIMESTAMP_DATA", MICROS),
    "SQL_TIMESTAMP": ("TIMESTAMP_DATA", MICROS),
    "INSTANT": ("TIMESTAMP_LTZ_DATA", MICROS),
    "TIMESTAMP_LTZ": ("TIMESTAMP_LTZ_DATA", MICROS),
}


def data_type(found: TypeInformation, where: str = "") -> TypeInformation:
    """What a type is inside a row of the table runtime, as the table in this module says.

    Raises
    ------
    TypeError
        If there is nothing like it; the message names the field `where`.

    Examples
    --------
    >>> data_type(as_type("array<struct<a: date, b: decimal(10, 2)>>"))
    Types.ARRAY_DATA(Types.ROW_DATA(['a', 'b'], [Types.DATE_DATA(), Types.DECIMAL_DATA(38, 18)]))
    """
    if isinstance(found, LeafDataTypeInfo | ArrayDataTypeInfo | MapDataTypeInfo | RowDataTypeInfo):
        return found
    if isinstance(found, NullableTypeInfo):
        return data_type(found.value_type, where)
    if isinstance(found, RowTypeInfo):
        return RowDataTypeInfo(found.field_types, found.field_names, found.required)
    if isinstance(found, TupleTypeInfo):
        return RowDataTypeInfo(found.field_types, found.field_names)
    if isinstance(found, MapTypeInfo):
        return MapDataTypeInfo(found.key_type, found.value_type)
    if isinstance(found, PrimitiveArrayTypeInfo) and found.element_type.kind == "BYTE":
        return found if not found.numpy else PrimitiveArrayTypeInfo(found.element_type)
    if isinstance(found, ListTypeInfo | ObjectArrayTypeInfo | BasicArrayTypeInfo | PrimitiveArrayTypeInfo):
        return ArrayDataTypeInfo(found.element_type)
    name = getattr(found, "name", None)
    if name in _FIELDS:
        return leaf_data_type(*_FIELDS[name])
    if found.kind in _PLAIN and name in _PLAIN:
        return found
    if found.kind in _PLAIN:  # IntValue and so on
        return basic_type(found.kind)
    place = f"field {where!r}: " if where else ""
    raise TypeError(f"{place}{found!r} has no place in a ROW_DATA; use a ROW_NAMED, or another type for the field")


def row_data(names: Iterable[str], types: Iterable[object], not_null: Iterable[str] = ()) -> RowDataTypeInfo:
    """`Types.ROW_DATA`."""
    names, required = tuple(names), set(not_null)
    unknown = sorted(required.difference(names))
    if unknown:
        raise ValueError(f"not_null names {unknown}, but the fields are {list(names)}")
    return RowDataTypeInfo(tuple(map(as_type, types)), names, tuple(name in required for name in names))


# ---------------------------------------------------------------------------------------------- descriptions of others


def row_data_type(description: object) -> RowDataTypeInfo:
    """The row of the table runtime that `description` means: as `as_type`, with all that such rows know of fields.

    Parameters
    ----------
    description : str, pyspark StructType, pyarrow Schema, or TypeInformation of a row
        The digits of decimals and timestamps and NOT NULL are kept. What describes a single type is a row of one field
        named ``value``.

    Returns
    -------
    RowDataTypeInfo

    Raises
    ------
    TypeError
        If a field has a type that such rows cannot hold; the message names the field.

    Examples
    --------
    >>> row_data_type("id bigint not null, price decimal(10, 2)")
    Types.ROW_DATA(['id', 'price'], [Types.LONG(), Types.DECIMAL_DATA(10, 2)], not_null=['id'])
    """
    found = data_type(_described(description))
    return found if isinstance(found, RowDataTypeInfo) else RowDataTypeInfo((found,), ("value",))


def _described(description: object) -> TypeInformation:
    if isinstance(description, str):
        return _DigitsParser.type_of(description)
    packages = {each.__module__.partition(".")[0] for each in type(description).__mro__}
    if "pyspark" in packages and hasattr(description, "typeName"):
        return _of_spark(description, "")
    if "pyarrow" in packages:
        return _of_arrow_description(description)
    return as_type(description)


class _DigitsParser(DecimalParser):
    """Makes decimals with their digits."""

    @classmethod
    def type_of(cls, ddl: str) -> TypeInformation:
        as_type(ddl)  # which says what is wrong with it
        parser = cls(ddl)
        return parser.read_columns("") if parser.starts_columns() else parser.read_type()

    def read_rest_of_type(self, name: str, text: str, position: int) -> TypeInformation:
        found = super().read_rest_of_type(name, text, position)
        is_decimal = name in ("decimal", "dec", "numeric")
        return leaf_data_type("DECIMAL_DATA", *self.decimals[-1]) if is_decimal else found


def _interval_row() -> RowDataTypeInfo:
    parts = (basic_type("INT"), basic_type("INT"), basic_type("LONG"))
    return RowDataTypeInfo(parts, ("months", "days", "nanoseconds"))


def _of_spark(found: Any, where: str) -> TypeInformation:
    if hasattr(found, "sqlType"):
        return _of_spark(type(found).sqlType(), where)
    name = found.typeName()
    if name == "array":
        return ArrayDataTypeInfo(_of_spark(found.elementType, where))
    if name == "map":
        return MapDataTypeInfo(_of_spark(found.keyType, where), _of_spark(found.valueType, where))
    if name == "struct":
        prefix = f"{where}." if where else ""
        types = tuple(_of_spark(each.dataType, prefix + each.name) for each in found.fields)
        return RowDataTypeInfo(types, tuple(found.names), tuple(not each.nullable for each in found.fields))
    if name == "decimal":
        return leaf_data_type("DECIMAL_DATA", found.precision, found.scale)
    kind = type(found).__name__
    if kind == "DayTimeIntervalType":
        return basic_type("LONG")
    if kind == "YearMonthIntervalType":
        return basic_type("INT")
    if kind == "CalendarIntervalType":
        return _interval_row()
    try:
        return data_type(as_type(found), where)
    except TypeError as error:
        raise TypeError(f"field {where!r}: {error}") from None


def _of_arrow_description(description: object) -> TypeInformation:
    import pyarrow

    if isinstance(description, pyarrow.Schema):
        return _of_arrow_fields(list(description), "")
    if isinstance(description, pyarrow.Field):
        return _of_arrow(description.type, description.name)
    return _of_arrow(description, "") if isinstance(description, pyarrow.DataType) else as_type(description)


def _of_arrow_fields(fields: list[pyarrow.Field], where: str) -> RowDataTypeInfo:
    types = tuple(_of_arrow(each.type, where + each.name) for each in fields)
    return RowDataTypeInfo(types, tuple(each.name for each in fields), tuple(not each.nullable for each in fields))


_ARROW_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def _of_arrow(found: pyarrow.DataType, where: str) -> TypeInformation:
    import pyarrow
    from pyarrow import types

    if types.is_struct(found):
        return _of_arrow_fields([found.field(i) for i in range(found.num_fields)], f"{where}." if where else "")
    if types.is_map(found):
        return MapDataTypeInfo(_of_arrow(found.key_type, where), _of_arrow(found.item_type, where))
    if types.is_dictionary(found) or types.is_run_end_encoded(found):
        return _of_arrow(found.value_type, where)
    if hasattr(found, "storage_type"):
        return _of_arrow(found.storage_type, where)
    if types.is_timestamp(found):
        name = "TIMESTAMP_DATA" if found.tz is None else "TIMESTAMP_LTZ_DATA"
        return leaf_data_type(name, _ARROW_DIGITS[found.unit])
    if types.is_decimal(found):
        if not 0 <= found.scale <= found.precision <= 38:
            raise TypeError(f"field {where!r}: {found} has more digits than a DECIMAL of Flink SQL; cast it first")
        return leaf_data_type("DECIMAL_DATA", found.precision, found.scale)
    if types.is_uint64(found):
        return leaf_data_type("DECIMAL_DATA", 20, 0)
    if types.is_duration(found):
        return basic_type("LONG")
    if types.is_interval(found):
        return _interval_row()
    if types.is_nested(found) and hasattr(found, "value_type"):
        return ArrayDataTypeInfo(_of_arrow(found.value_type, where))
    named = pyarrow.field(where, found) if where else found  # the name stands in the message
    return data_type(as_type(named), where)
