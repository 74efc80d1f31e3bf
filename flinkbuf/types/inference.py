"""The type that fits a sample of records, or an error that says what is in the way.

The result depends only on the values, not on their order, and is the narrowest rule of this list that loses nothing:

* bool → BOOLEAN; int → LONG, or BIG_INT where one is beyond 64 bits; float → DOUBLE; ints among floats → DOUBLE if
  each of them is exact as a float; str → STRING; bytes, bytearray → PRIMITIVE_ARRAY(BYTE); Decimal → BIG_DEC
* date → LOCAL_DATE, time → LOCAL_TIME, naive datetime → LOCAL_DATE_TIME, aware datetime → TIMESTAMP_LTZ (which comes
  back in UTC: the same point in time), Instant → INSTANT; likewise the classes of `flinkbuf` for them
* named tuples, pyspark's and our rows with names → ROW_NAMED, our rows without → ROW, other tuples → TUPLE
* list → LIST, set and frozenset → SET, dict → MAP, members of one enum class → ENUM, `Left` and `Right` → EITHER
* numpy's scalars → as Python's; its one-dimensional arrays of numbers → PRIMITIVE_ARRAY(…, numpy=True)
* where None was seen and the type has no form for it → NULLABLE of the type; fields of rows, elements of sets and
  values of maps need none, as Flink's serializers mark null there themselves
"""

from __future__ import annotations

import datetime
import decimal
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any

from flinkbuf.types.type_information import (
    EitherTypeInfo,
    EnumTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    NullableTypeInfo,
    PrimitiveArrayTypeInfo,
    SetTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    basic_type,
    row_type,
)
from flinkbuf.types.values import (
    Instant,
    JavaDate,
    Left,
    LocalDate,
    LocalDateTime,
    LocalTime,
    Right,
    Row,
    SqlDate,
    SqlTime,
    SqlTimestamp,
    StreamRecord,
)

_DECLARE = "declare the type, such as type='origin string, delay double' or type=fb.Types.TUPLE([…])"
_DEPTH_LIMIT = 100
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1

# Looked through in this order: a bool is an int too, a datetime a date, a named tuple a tuple.
_PLAIN: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "bool"),
    (int, "int"),
    (float, "float"),
    (str, "str"),
    ((bytes, bytearray), "bytes"),
    (decimal.Decimal, "Decimal"),
    (datetime.date, "date"),
    (datetime.time, "time"),
    (list, "list"),
    ((set, frozenset), "set"),
    (dict, "dict"),
    (Instant, "Instant"),
    (LocalDate, "date"),
    (LocalTime, "time"),
    (LocalDateTime, "naive datetime"),
    (JavaDate, "JavaDate"),
    (SqlDate, "SqlDate"),
    (SqlTime, "SqlTime"),
    (SqlTimestamp, "SqlTimestamp"),
    ((Left, Right), "Left or Right"),
)
_BASIC_OF = {
    "bool": "BOOLEAN",
    "str": "STRING",
    "Decimal": "BIG_DEC",
    "date": "LOCAL_DATE",
    "time": "LOCAL_TIME",
    "float": "DOUBLE",
    "naive datetime": "LOCAL_DATE_TIME",
    "aware datetime": "TIMESTAMP_LTZ",
    "Instant": "INSTANT",
    "JavaDate": "DATE",
    "SqlDate": "SQL_DATE",
    "SqlTime": "SQL_TIME",
    "SqlTimestamp": "SQL_TIMESTAMP",
}
_ARRAY_ELEMENTS = {
    "bool": "BOOLEAN",
    "int8": "BYTE",
    "int16": "SHORT",
    "int32": "INT",
    "int64": "LONG",
    "float32": "FLOAT",
    "float64": "DOUBLE",
}


def infer_type(samples: Sequence[object]) -> TypeInformation:
    """The type that holds all of `samples` without losing anything.

    Parameters
    ----------
    samples : sequence
        Some of the records; the more, the better the guess. A record that was not among them and does not fit
        is refused later, when it is written.

    Returns
    -------
    TypeInformation
        By the rules above; the same for the same values in any order.

    Raises
    ------
    TypeError
        If there are no samples, if a field holds values that no one type fits, only None or only empty containers,
        or something that is no data; the message names the field, what was seen, and how to declare the type.

    Examples
    --------
    >>> infer_type([("JFK", 2.0, None), ("LGA", 3, [1])])
    Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.NULLABLE(Types.LIST(Types.LONG()))])
    >>> infer_type([("JFK", 1), ("LGA", "late")])
    Traceback (most recent call last):
    TypeError: field 1 holds int (1) and str ('late'), which no one type fits; declare the type, such as \
type='origin string, delay double' or type=fb.Types.TUPLE([…])
    """
    values = list(samples)
    if not values:
        raise TypeError(f"there are no records to infer a type from; {_DECLARE}")
    return _infer(values, "", 0)


def _where(path: str) -> str:
    return path if path else "the record"


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _category(value: object) -> str:
    """What `value` is, for these rules; for what has none, the name of its class."""
    if isinstance(value, Enum):
        return f"enum {type(value).__qualname__}"
    if isinstance(value, tuple):
        named = _names_of(value) is not None
        return "row with names" if named else "row" if isinstance(value, Row) else "tuple"
    if isinstance(value, datetime.datetime):
        return "naive datetime" if value.utcoffset() is None else "aware datetime"
    for classes, name in _PLAIN:
        if isinstance(value, classes):
            return name
    numpy = sys.modules.get("numpy")  # who has such a value has imported it
    if numpy is not None and hasattr(numpy, "ndarray"):  # else another thread is about to
        if isinstance(value, numpy.bool_):
            return "bool"
        if isinstance(value, numpy.integer):
            return "int"
        if isinstance(value, (numpy.float16, numpy.float32)):
            return "float"
        if isinstance(value, numpy.ndarray):
            return f"numpy array of {value.dtype.name}, {value.ndim} dimensions"
    return type(value).__qualname__


def _names_of(value: tuple[object, ...]) -> tuple[str, ...] | None:
    """Field names of our rows (`_fields`), named tuples (`_fields`) and pyspark's rows (`__fields__`)."""
    names = getattr(value, "_fields", None)
    if names is None:
        names = getattr(value, "__fields__", None)
    return tuple(names) if isinstance(names, (tuple, list)) and len(names) == len(value) else None


def _infer(values: list[object], path: str, depth: int, null_form: bool = False) -> TypeInformation:
    """The type of `values`, which all stand at `path`; `null_form` says that None is marked around them."""
    if depth > _DEPTH_LIMIT:
        raise TypeError(f"{_where(path)} nests deeper than {_DEPTH_LIMIT} levels")
    present = [value for value in values if value is not None]
    if not present:
        raise TypeError(f"{_where(path)} was None in all {len(values)} samples, so its type is unknown; {_DECLARE}")
    seen: dict[str, object] = {}
    for value in present:
        seen.setdefault(_category(value), value)
    found = _infer_present(present, seen, path, depth)
    if len(present) == len(values) or null_form or found.accepts_none:
        return found
    return NullableTypeInfo(found)


def _infer_present(values: list[Any], seen: dict[str, Any], path: str, depth: int) -> TypeInformation:
    if seen.keys() == {"int", "float"}:
        return _infer_mixed_numbers(values, path)
    if seen.keys() == {"aware datetime", "Instant"}:
        return basic_type("TIMESTAMP_LTZ")
    if len(seen) > 1:
        parts = [f"{name} ({_shorten(seen[name])})" for name in sorted(seen)]
        listed = ", ".join(parts[:-1]) + " and " + parts[-1]
        raise TypeError(f"{_where(path)} holds {listed}, which no one type fits; {_DECLARE}")
    ((category, first),) = seen.items()
    if category == "int":
        return basic_type("LONG" if all(_LONG_MIN <= int(value) <= _LONG_MAX for value in values) else "BIG_INT")
    if category == "bytes":
        return PrimitiveArrayTypeInfo(basic_type("BYTE"))
    if category == "time":
        zoned = next((value for value in values if getattr(value, "tzinfo", None) is not None), None)
        if zoned is not None:
            raise TypeError(f"{_where(path)} holds the time {zoned!r}, whose zone Flink cannot keep; {_DECLARE}")
    if category in _BASIC_OF:
        return basic_type(_BASIC_OF[category])
    if category in _CONTAINERS:
        return _CONTAINERS[category](values, path, depth)
    if category.startswith("enum "):
        return EnumTypeInfo(type(first))
    if category.startswith("numpy array"):
        element = _ARRAY_ELEMENTS.get(first.dtype.name)
        if first.ndim == 1 and element is not None:
            return PrimitiveArrayTypeInfo(basic_type(element), numpy=True)
    hint = "Types.STREAM_ELEMENT" if isinstance(first, StreamRecord) else "Types.PICKLED_BYTE_ARRAY()"
    raise TypeError(
        f"{_where(path)} holds {category} ({_shorten(first)}), for which there is no type by itself; "
        f"{_DECLARE}, or type=fb.{hint} where it fits"
    )


def _infer_mixed_numbers(values: list[float], path: str) -> TypeInformation:
    for value in values:
        if isinstance(value, float) or not hasattr(value, "__index__"):
            continue
        try:
            exact = int(float(value)) == int(value)
        except OverflowError:
            exact = False
        if not exact:
            raise TypeError(
                f"{_where(path)} holds both float and int, and the int {int(value)} is not exact as a float; {_DECLARE}"
            )
    return basic_type("DOUBLE")


def _elements(values: Iterable[Iterable[object]], what: str, path: str) -> tuple[list[object], str]:
    found = [element for value in values for element in value]
    part = f"{what} of {_where(path)}"
    if not found:
        raise TypeError(f"{_where(path)} was empty in all samples, so the type of the {part} is unknown; {_DECLARE}")
    return found, part


def _infer_list(values: list[Iterable[object]], path: str, depth: int) -> TypeInformation:
    elements, part = _elements(values, "element", path)
    return ListTypeInfo(_infer(elements, part, depth + 1))


def _infer_set(values: list[Iterable[object]], path: str, depth: int) -> TypeInformation:
    elements, part = _elements(values, "element", path)
    # A set has no order of its own that lasts; without one, messages would differ from run to run.
    return SetTypeInfo(_infer(sorted(elements, key=repr), part, depth + 1, null_form=True))


def _infer_dict(values: list[dict[object, object]], path: str, depth: int) -> TypeInformation:
    keys, key_part = _elements(values, "key", path)
    items, item_part = _elements((value.values() for value in values), "value", path)
    try:
        return MapTypeInfo(_infer(keys, key_part, depth + 1), _infer(items, item_part, depth + 1, null_form=True))
    except TypeError as error:
        if all(isinstance(key, str) for key in keys):
            raise TypeError(f"{error} (dicts with the same keys can be declared by name: fb.Types.ROW_NAMED)") from None
        raise


def _columns(values: list[tuple[object, ...]], path: str) -> list[list[object]]:
    lengths = sorted({len(value) for value in values})
    if len(lengths) > 1:
        raise TypeError(f"{_where(path)} holds tuples of {' and '.join(map(str, lengths))} fields; {_DECLARE}")
    return [[value[i] for value in values] for i in range(lengths[0])]


def _field(path: str, name: str | int) -> str:
    return f"field {name!r}" + (f" of {path}" if path else "")


def _infer_tuple(values: list[tuple[object, ...]], path: str, depth: int) -> TypeInformation:
    columns = _columns(values, path)
    if not columns:
        raise TypeError(f"{_where(path)} holds only tuples without fields, of which Flink has no type; {_DECLARE}")
    return TupleTypeInfo(tuple(_infer(column, _field(path, i), depth + 1) for i, column in enumerate(columns)))


def _infer_row(values: list[tuple[object, ...]], path: str, depth: int) -> TypeInformation:
    columns = _columns(values, path)
    types = [_infer(column, _field(path, i), depth + 1, null_form=True) for i, column in enumerate(columns)]
    return row_type(None, types)


def _infer_named_row(values: list[tuple[object, ...]], path: str, depth: int) -> TypeInformation:
    all_names = sorted({_names_of(value) or () for value in values})
    if len(all_names) > 1:
        listed = " and ".join(str(list(names)) for names in all_names[:2])
        raise TypeError(f"{_where(path)} holds rows with different fields, {listed}; {_DECLARE}")
    names, columns = all_names[0], _columns(values, path)
    types = [
        _infer(col, _field(path, name), depth + 1, null_form=True) for name, col in zip(names, columns, strict=True)
    ]
    return row_type(names, types)


def _infer_either(values: list[Left | Right], path: str, depth: int) -> TypeInformation:
    sides = []
    for side in (Left, Right):
        inner = [value.value for value in values if isinstance(value, side)]
        if not inner:
            raise TypeError(
                f"{_where(path)} was never a {side.__name__}, so the type of that side is unknown; {_DECLARE}"
            )
        sides.append(_infer(inner, f"{side.__name__} of {_where(path)}", depth + 1))
    return EitherTypeInfo(*sides)


_CONTAINERS: dict[str, Callable[[list[Any], str, int], TypeInformation]] = {
    "list": _infer_list,
    "set": _infer_set,
    "dict": _infer_dict,
    "tuple": _infer_tuple,
    "row": _infer_row,
    "row with names": _infer_named_row,
    "Left or Right": _infer_either,
}
