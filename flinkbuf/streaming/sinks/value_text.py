"""The text that a value of a stream is printed as, which depends on its declared type.

A value of no declared type is printed as Python prints it; one of a declared type as Java prints Flink's. Rows are the
exception: their fields are Python's text where they are printed, and Java's in files. Flink:
PrintSinkFunction, toString of each class.
"""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from flinkbuf.types.date_time import Instant, LocalDate, LocalDateTime, LocalTime, SqlDate, SqlTime, SqlTimestamp
from flinkbuf.types.type_information import TypeInformation

TextOf = Callable[[Any], str]


def text_of(type_info: TypeInformation | None) -> TextOf:
    """Return the function that makes the text of a value of a type; None: no type was declared.

    Examples
    --------
    >>> from flinkbuf.types.types import Types
    >>> text_of(Types.TUPLE([Types.BOOLEAN(), Types.MAP(Types.STRING(), Types.DOUBLE())]))((True, {"a": 1e7}))
    '(true,{a=1.0E7})'
    >>> text_of(Types.ROW([Types.BOOLEAN(), Types.STRING()]))((True, None)), text_of(None)((True, None))
    ('+I[True,None]', '(True, None)')
    """
    if type_info is None or type_info.kind in ("PICKLED_BYTES", "OBJECT"):
        return str
    return _null_or(_text_of_kind(type_info))


def file_text_of(type_info: TypeInformation | None) -> TextOf:
    """Return the function that makes the text of a record in a file, where the fields of rows are Java's text, too.

    Examples
    --------
    >>> from flinkbuf.types.types import Types
    >>> file_text_of(Types.ROW([Types.BOOLEAN(), Types.STRING()]))((True, None))
    '+I[true, null]'
    """
    if type_info is None or type_info.kind not in ("ROW", "ROW_DATA"):
        return text_of(type_info)
    texts = [file_text_of(child) for child in type_info.children]

    def text(row: Iterable[object]) -> str:
        return f"{_kind_text(row)}[{', '.join(each(value) for each, value in zip(texts, row, strict=True))}]"

    return _null_or(text)


def _null_or(text: TextOf) -> TextOf:
    return lambda value: "null" if value is None else text(value)


def _text_of_kind(type_info: TypeInformation) -> TextOf:
    kind, children = type_info.kind, type_info.children
    if kind in ("ROW", "ROW_DATA"):
        return _row_text
    if kind == "TUPLE":
        texts = [text_of(child) for child in children]
        return lambda value: f"({','.join(text(field) for text, field in zip(texts, value, strict=True))})"
    if kind in ("MAP", "MAP_DATA"):
        key_text, value_text = map(text_of, children)
        return lambda value: f"{{{', '.join(f'{key_text(k)}={value_text(v)}' for k, v in value.items())}}}"
    if kind in ("LIST", "SET", "OBJECT_ARRAY", "PRIMITIVE_ARRAY", "ARRAY_DATA"):
        return _elements_text(text_of(children[0]))
    if kind == "STRING_ARRAY":
        return _elements_text(_null_or(str))
    return _BASIC_TEXTS.get(kind, str)


def _row_text(row: Iterable[object]) -> str:
    return f"{_kind_text(row)}[{','.join(map(str, row))}]"


def _kind_text(row: object) -> str:
    kind = getattr(row, "row_kind", None)
    short_name: str = "+I" if kind is None else kind.short_name
    return short_name


def _elements_text(element_text: TextOf) -> TextOf:
    def text(elements: Iterable[object]) -> str:
        return f"[{', '.join(map(element_text, elements))}]"

    return text


def _boolean_text(value: object) -> str:
    return "true" if value else "false"


def _double_text(value: float) -> str:
    """Format as Java's Double.toString: plain from 0.001 to 10 million, else one digit before the point and an E."""
    return _java_number(float(value), repr(float(value)))


def _float_text(value: float) -> str:
    """Format as Java's Float.toString: the shortest decimal that is the same 32-bit number."""
    value = float(value)
    if not math.isfinite(value):
        return _java_number(value, repr(value))
    single = struct.unpack("<f", struct.pack("<f", value))[0]
    for digits in range(1, 10):
        shortest = f"{single:.{digits}g}"
        if struct.unpack("<f", struct.pack("<f", float(shortest)))[0] == single:
            break
    return _java_number(single, shortest)


def _java_number(value: float, shortest: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    minus = "-" if sign else ""
    significant = "".join(map(str, digits)).lstrip("0").rstrip("0") or "0"
    if value == 0:
        return f"{minus}0.0"
    point = len("".join(map(str, digits)).lstrip("0")) + int(exponent)  # digits before the decimal point
    if 0.001 <= abs(value) < 10_000_000:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{significant}"
        return f"{minus}{significant[:point].ljust(point, '0')}.{significant[point:] or '0'}"
    return f"{minus}{significant[0]}.{significant[1:] or '0'}E{point - 1}"


def _sql_date_text(value: SqlDate | datetime.date) -> str:
    return (value.to_date() if isinstance(value, SqlDate) else value).isoformat()


def _sql_time_text(value: SqlTime | datetime.time) -> str:
    return (value.to_time() if isinstance(value, SqlTime) else value).strftime("%H:%M:%S")


def _sql_timestamp_text(value: SqlTimestamp | datetime.datetime) -> str:
    moment = value.to_datetime() if isinstance(value, SqlTimestamp) else value
    fraction = f"{moment.microsecond:06d}".rstrip("0") or "0"
    return f"{moment.replace(microsecond=0, tzinfo=None).isoformat(sep=' ')}.{fraction}"


def _instant_text(value: Instant | datetime.datetime) -> str:
    return (Instant.from_datetime(value) if isinstance(value, datetime.datetime) else value).isoformat()


def _local_text(value: object) -> str:
    if isinstance(value, datetime.datetime):
        return str(LocalDateTime.from_datetime(value))
    if isinstance(value, datetime.date):
        return str(LocalDate.from_date(value))
    return str(LocalTime.from_time(value) if isinstance(value, datetime.time) else value)


_BASIC_TEXTS: dict[str, TextOf] = {
    "BOOLEAN": _boolean_text,
    "DOUBLE": _double_text,
    "FLOAT": _float_text,
    "SQL_DATE": _sql_date_text,
    "SQL_TIME": _sql_time_text,
    "SQL_TIMESTAMP": _sql_timestamp_text,
    "INSTANT": _instant_text,
    "LOCAL_DATE": _local_text,
    "LOCAL_TIME": _local_text,
    "LOCAL_DATE_TIME": _local_text,
}
