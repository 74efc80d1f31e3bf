"""Values of PostgreSQL, which come as text, as values of declared types; and which columns fit which type.

No value is changed on the way: what the declared type cannot hold is an error.
"""

from __future__ import annotations

import datetime
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

from flinkbuf.types.type_information import (
    BasicArrayTypeInfo,
    BasicTypeInfo,
    ListTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    TypeInformation,
)
from flinkbuf.types.values import Instant

Converter: TypeAlias = Callable[[str], Any]

# The numbers of types that come with PostgreSQL are the same on each server.
_BOOL, _BYTEA, _INT8, _INT2, _INT4, _FLOAT4, _FLOAT8, _NUMERIC = 16, 17, 20, 21, 23, 700, 701, 1700
_DATE, _TIME, _TIMESTAMP, _TIMESTAMPTZ = 1082, 1083, 1114, 1184
TYPE_NAMES = {
    _BOOL: "boolean",
    _BYTEA: "bytea",
    _INT2: "smallint",
    _INT4: "integer",
    _INT8: "bigint",
    _FLOAT4: "real",
    _FLOAT8: "double precision",
    _NUMERIC: "numeric",
    25: "text",
    1043: "character varying",
    1042: "character",
    2950: "uuid",
    114: "json",
    3802: "jsonb",
    _DATE: "date",
    _TIME: "time without time zone",
    _TIMESTAMP: "timestamp without time zone",
    _TIMESTAMPTZ: "timestamp with time zone",
    1186: "interval",
    1266: "time with time zone",
}
_ELEMENTS = {  # of the types of arrays
    1000: _BOOL,
    1001: _BYTEA,
    1005: _INT2,
    1007: _INT4,
    1016: _INT8,
    1021: _FLOAT4,
    1022: _FLOAT8,
    1231: _NUMERIC,
    1009: 25,
    1015: 1043,
    1014: 1042,
    2951: 2950,
    199: 114,
    3807: 3802,
    1182: _DATE,
    1183: _TIME,
    1115: _TIMESTAMP,
    1185: _TIMESTAMPTZ,
    1187: 1186,
    1270: 1266,
}
TYPE_NAMES |= {array: f"{TYPE_NAMES[element]}[]" for array, element in _ELEMENTS.items()}

_TIMESTAMP_TEXT = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(\+00)?", re.ASCII)
_FLOAT = struct.Struct("<f")


def _boolean(text: str) -> bool:
    if text not in ("t", "f"):
        raise ValueError("'t' or 'f' is expected")
    return text == "t"


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError("hexadecimal digits behind \\x are expected")
    return bytes.fromhex(text[2:])


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError("a BIG_DEC is finite")
    return value


def _real(text: str) -> float:
    """The number of 32 bits that the server has; its text has as few digits as tell it from others."""
    return float(_FLOAT.unpack(_FLOAT.pack(float(text)))[0])


def _date(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text)


def _local_time(text: str) -> datetime.time:
    if text.startswith("24"):
        raise ValueError("a time is before 24:00:00")
    whole, _, fraction = text.partition(".")
    return datetime.time.fromisoformat(whole).replace(microsecond=int(fraction.ljust(6, "0")))


def _sql_time(text: str) -> datetime.time:
    value = _local_time(text)
    if value.microsecond % 1000:
        raise ValueError("a SQL_TIME has milliseconds; LOCAL_TIME has all digits")
    return value


def _timestamp(text: str) -> datetime.datetime:
    found = _TIMESTAMP_TEXT.fullmatch(text)
    if found is None:
        raise ValueError("a datetime has the years 1 to 9999, and no infinity")
    seconds, fraction, zone = found.groups(default="")
    value = datetime.datetime.fromisoformat(seconds).replace(microsecond=int(fraction.ljust(6, "0")))
    return value.replace(tzinfo=datetime.timezone.utc) if zone else value


def _instant(text: str) -> Instant:
    return Instant.from_datetime(_timestamp(text))


# By the name of a type: which types of PostgreSQL fit, and what makes a value of text.
_CONVERTERS: dict[str, tuple[tuple[int, ...], Converter]] = {
    "BOOLEAN": ((_BOOL,), _boolean),
    "SHORT": ((_INT2,), int),
    "INT": ((_INT2, _INT4), int),
    "LONG": ((_INT2, _INT4, _INT8), int),
    "BIG_INT": ((_INT2, _INT4, _INT8), int),
    "FLOAT": ((_FLOAT4,), _real),
    "DOUBLE": ((_FLOAT4, _FLOAT8), float),
    "BIG_DEC": ((_NUMERIC,), _decimal),
    "SQL_DATE": ((_DATE,), _date),
    "LOCAL_DATE": ((_DATE,), _date),
    "SQL_TIME": ((_TIME,), _sql_time),
    "LOCAL_TIME": ((_TIME,), _local_time),
    "SQL_TIMESTAMP": ((_TIMESTAMP,), _timestamp),
    "LOCAL_DATE_TIME": ((_TIMESTAMP,), _timestamp),
    "TIMESTAMP_LTZ": ((_TIMESTAMPTZ,), _timestamp),
    "INSTANT": ((_TIMESTAMPTZ,), _instant),
}


def is_readable(declared: TypeInformation) -> bool:
    """Return whether a column of some type can be read as this one.

    Examples
    --------
    >>> from flinkbuf.types.types import Types
    >>> is_readable(Types.OBJECT_ARRAY(Types.INT())), is_readable(Types.MAP(Types.INT(), Types.INT()))
    (True, False)
    """
    if isinstance(declared, PrimitiveArrayTypeInfo):
        return getattr(declared.element_type, "name", None) == "BYTE" and not declared.numpy
    if isinstance(declared, (ObjectArrayTypeInfo, BasicArrayTypeInfo, ListTypeInfo)):
        return is_readable(declared.element_type)
    return isinstance(declared, BasicTypeInfo) and (declared.name in _CONVERTERS or declared.name == "STRING")


def converter(declared: TypeInformation, type_oid: int) -> Converter | None:
    """Return what makes values of a declared type out of the text of a column; None: the column does not fit.

    Examples
    --------
    >>> from flinkbuf.types.types import Types
    >>> converter(Types.OBJECT_ARRAY(Types.INT()), 1007)("{1,NULL,3}")
    [1, None, 3]
    >>> converter(Types.INT(), 20) is None  # a bigint is larger
    True
    """
    if isinstance(declared, PrimitiveArrayTypeInfo):
        return _bytes if type_oid == _BYTEA else None
    if isinstance(declared, BasicTypeInfo):
        return _basic_converter(declared.name, type_oid)
    element = getattr(declared, "element_type", None)
    return None if element is None else _array_converter(declared, type_oid)


def _basic_converter(name: str, type_oid: int) -> Converter | None:
    if name == "STRING":  # what PostgreSQL writes, of any type
        return str
    oids, convert = _CONVERTERS[name]
    if type_oid not in oids:
        return None
    return _real if type_oid == _FLOAT4 else convert


def _array_converter(declared: Any, type_oid: int) -> Converter | None:
    """The type of an array does not say how many dimensions its values have; the declared one does."""
    depth, has_nulls = 1, _has_nulls(declared)
    leaf = declared.element_type
    while isinstance(leaf, (ObjectArrayTypeInfo, BasicArrayTypeInfo, ListTypeInfo)):
        has_nulls = _has_nulls(leaf)
        leaf = leaf.element_type
        depth += 1
    element_oid = _ELEMENTS.get(type_oid)
    convert = None if element_oid is None else converter(leaf, element_oid)
    return None if convert is None else _ArrayConverter(depth, convert, has_nulls)


def _has_nulls(declared: Any) -> bool:
    return not isinstance(declared, ListTypeInfo) or declared.element_type.accepts_none


_BOUNDS = re.compile(r"(?:\[[+-]?\d+:[+-]?\d+\])+=", re.ASCII)
_TOKEN = re.compile(r'([{},])|"((?:[^"\\]|\\.)*)"|([^{},"\\]+)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class _ArrayConverter:
    """Makes lists of an array's text, as deep as it was declared."""

    def __init__(self, depth: int, convert: Converter, has_nulls: bool) -> None:
        self._depth = depth
        self._convert = convert
        self._has_nulls = has_nulls

    def __call__(self, text: str) -> list[Any]:
        bounds = _BOUNDS.match(text)
        self._text = text
        self._place = 0 if bounds is None else bounds.end()
        if self._token()[0] != "{":
            raise ValueError("an array begins with '{'")
        values = self._list(self._depth)
        if self._place != len(text):
            raise ValueError(f"the array ends at character {self._place}, and more follows")
        return values

    def _token(self) -> tuple[str, str | None, str]:
        found = _TOKEN.match(self._text, self._place)
        if found is None:
            raise ValueError(f"the array cannot be read at character {self._place}")
        self._place = found.end()
        return found[1] or "", found[2], found[3] or ""

    def _list(self, depth: int) -> list[Any]:
        values: list[Any] = []
        while True:
            sign, quoted, bare = self._token()
            if sign == "}" and not values:
                return values
            values.append(self._element(depth, sign, quoted, bare))
            sign = self._token()[0]
            if sign == "}":
                return values
            if sign != ",":
                raise ValueError("elements of an array have commas between them")

    def _element(self, depth: int, sign: str, quoted: str | None, bare: str) -> Any:
        if (sign == "{") != (depth > 1) or sign in ("}", ","):
            raise ValueError(f"an array of {self._depth} dimensions is declared")
        if sign:
            return self._list(depth - 1)
        if quoted is not None:
            return self._convert(_ESCAPED.sub(r"\1", quoted))
        if bare.upper() == "NULL":
            if not self._has_nulls:
                raise ValueError("an element is null, which a LIST of this type has not; declare an OBJECT_ARRAY")
            return None
        return self._convert(bare)
