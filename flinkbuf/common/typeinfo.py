"""Types of records, under the names of PyFlink's classes. PyFlink: common/typeinfo.py.

A type is always one of `flinkbuf.types.type_information`, however it was made. The classes here make such types with
PyFlink's arguments, and `isinstance` with them asks which kind a type is.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from flinkbuf.types import type_information
from flinkbuf.types.type_information import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    basic_type,
)
from flinkbuf.types.types import Types

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "ExternalTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "LocalTimeTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
]


class BasicType(Enum):
    """The basic types, by what Java calls them."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


class _Kind(type):
    """Of classes whose instances are types of another class."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TypeInformation) and cls.includes(instance)  # type: ignore[attr-defined]


class _Named(metaclass=_Kind):
    """A name of PyFlink's for types of `flinkbuf.types.type_information`; it has their methods, to be looked up."""

    need_conversion = TypeInformation.need_conversion
    to_internal_type = TypeInformation.to_internal_type
    from_internal_type = TypeInformation.from_internal_type


class _Basic(_Named):
    """Some of the types without parts."""

    _names: frozenset[str] = frozenset()

    @classmethod
    def includes(cls, type_info: TypeInformation) -> bool:
        """Tell whether a type is of this kind."""
        return isinstance(type_info, type_information.BasicTypeInfo) and type_info.name in cls._names


class BasicTypeInfo(_Basic):
    """Numbers, strings and booleans. PyFlink's ``BasicTypeInfo``.

    Examples
    --------
    >>> isinstance(Types.INT(), BasicTypeInfo), isinstance(Types.SQL_DATE(), BasicTypeInfo)
    (True, False)
    """

    _names = frozenset(BasicType.__members__)

    def __new__(cls, basic_type: BasicType) -> type_information.BasicTypeInfo:  # type: ignore[misc]
        """Return the type."""
        return type_information.basic_type(basic_type.name)

    @staticmethod
    def STRING_TYPE_INFO() -> type_information.BasicTypeInfo:
        """str."""
        return basic_type("STRING")

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> type_information.BasicTypeInfo:
        """bool."""
        return basic_type("BOOLEAN")

    @staticmethod
    def BYTE_TYPE_INFO() -> type_information.BasicTypeInfo:
        """int of 8 bits."""
        return basic_type("BYTE")

    @staticmethod
    def SHORT_TYPE_INFO() -> type_information.BasicTypeInfo:
        """int of 16 bits."""
        return basic_type("SHORT")

    @staticmethod
    def INT_TYPE_INFO() -> type_information.BasicTypeInfo:
        """int of 32 bits."""
        return basic_type("INT")

    @staticmethod
    def LONG_TYPE_INFO() -> type_information.BasicTypeInfo:
        """int of 64 bits."""
        return basic_type("LONG")

    @staticmethod
    def FLOAT_TYPE_INFO() -> type_information.BasicTypeInfo:
        """float of 32 bits."""
        return basic_type("FLOAT")

    @staticmethod
    def DOUBLE_TYPE_INFO() -> type_information.BasicTypeInfo:
        """float."""
        return basic_type("DOUBLE")

    @staticmethod
    def CHAR_TYPE_INFO() -> type_information.BasicTypeInfo:
        """str of one character."""
        return basic_type("CHAR")

    @staticmethod
    def BIG_INT_TYPE_INFO() -> type_information.BasicTypeInfo:
        """int of any size."""
        return basic_type("BIG_INT")

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> type_information.BasicTypeInfo:
        """decimal.Decimal."""
        return basic_type("BIG_DEC")

    @staticmethod
    def INSTANT_TYPE_INFO() -> type_information.BasicTypeInfo:
        """Point in time."""
        return basic_type("INSTANT")


class InstantTypeInfo(BasicTypeInfo):
    """Points in time."""

    _names = frozenset({"INSTANT"})

    def __new__(cls, basic_type: BasicType) -> type_information.BasicTypeInfo:  # type: ignore[misc]
        """Return the type."""
        return type_information.basic_type("INSTANT")


class _OneBasic(_Basic):
    """A single one of the types without parts."""

    def __new__(cls) -> type_information.BasicTypeInfo:  # type: ignore[misc]
        """Return the type."""
        (name,) = cls._names
        return basic_type(name)


class DateTypeInfo(_OneBasic):
    """datetime.date."""

    EPOCH_ORDINAL = 719163
    _names = frozenset({"SQL_DATE"})


class TimeTypeInfo(_OneBasic):
    """datetime.time."""

    EPOCH_ORDINAL = 719163 * 86_400 * 1_000_000
    _names = frozenset({"SQL_TIME"})


class TimestampTypeInfo(_OneBasic):
    """datetime.datetime without a zone."""

    _names = frozenset({"SQL_TIMESTAMP"})


class PickledBytesTypeInfo(_OneBasic):
    """What nobody declared."""

    _names = frozenset({"PICKLED_BYTE_ARRAY"})


class SqlTimeTypeInfo(_Basic):
    """Dates and times of SQL. PyFlink's ``SqlTimeTypeInfo``."""

    _names = frozenset({"SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP"})

    @staticmethod
    def DATE() -> type_information.BasicTypeInfo:
        """datetime.date."""
        return basic_type("SQL_DATE")

    @staticmethod
    def TIME() -> type_information.BasicTypeInfo:
        """datetime.time."""
        return basic_type("SQL_TIME")

    @staticmethod
    def TIMESTAMP() -> type_information.BasicTypeInfo:
        """datetime.datetime without a zone."""
        return basic_type("SQL_TIMESTAMP")


class LocalTimeTypeInfo(_Basic):
    """Dates and times without a zone. PyFlink's ``LocalTimeTypeInfo``."""

    _names = frozenset({"LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME"})

    class TimeType(Enum):
        """Which of them."""

        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __new__(cls, time_type: LocalTimeTypeInfo.TimeType) -> type_information.BasicTypeInfo:  # type: ignore[misc]
        """Return the type."""
        return basic_type(time_type.name)


class RowTypeInfo(_Named):
    """Rows. PyFlink's ``RowTypeInfo``.

    Examples
    --------
    >>> RowTypeInfo([Types.INT()], ["a"])
    Types.ROW_NAMED(['a'], [Types.INT()])
    """

    def __new__(  # type: ignore[misc]
        cls, field_types: Sequence[object], field_names: Sequence[str] | None = None
    ) -> type_information.RowTypeInfo:
        """Return the type."""
        return Types.ROW(field_types) if field_names is None else Types.ROW_NAMED(field_names, field_types)

    @classmethod
    def includes(cls, type_info: TypeInformation) -> bool:
        """Tell whether a type is one of rows."""
        return isinstance(type_info, type_information.RowTypeInfo)

    get_field_names = type_information.RowTypeInfo.get_field_names
    get_field_index = type_information.RowTypeInfo.get_field_index
    get_field_types = type_information.RowTypeInfo.get_field_types


class MapTypeInfo(_Named):
    """Dicts. PyFlink's ``MapTypeInfo``."""

    def __new__(cls, key_type_info: object, value_type_info: object) -> type_information.MapTypeInfo:  # type: ignore[misc]
        """Return the type."""
        return Types.MAP(key_type_info, value_type_info)

    @classmethod
    def includes(cls, type_info: TypeInformation) -> bool:
        """Tell whether a type is one of dicts."""
        return isinstance(type_info, type_information.MapTypeInfo)


class ExternalTypeInfo(_Named):
    """What tables wrap types in: here the type itself. PyFlink's ``ExternalTypeInfo``."""

    def __new__(cls, type_info: TypeInformation) -> TypeInformation:  # type: ignore[misc]
        """Return the type."""
        return type_info

    @classmethod
    def includes(cls, type_info: TypeInformation) -> bool:
        """Tell that no type is wrapped."""
        return False
