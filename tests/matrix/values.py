"""Values and keys that hurt, and when two of them are the same.

Two values are the same if their texts (`shown`) are: classes count (1, 1.0 and True are three, a subclass is not its
base), the order of a set or dict does not, all NaN are one, 0.0 and -0.0 are two. Keys are told apart in the same way.
`TABLE` has for each name some makers of one and the same value, whose pickles differ: inserted in another order, with
parts that are one object or two, or spelled in another way.
"""

import dataclasses
import datetime
import decimal
import enum
import math
import zlib
from collections import OrderedDict, namedtuple

import numpy

import flinkbuf as fb

LONGEST = 200  # bytes or characters that a text shows as they are


@dataclasses.dataclass(frozen=True)
class Place:
    """A value of the user's own class, with a set inside."""

    city: str
    tags: frozenset


@dataclasses.dataclass
class Basket:
    """A value of the user's own class that can change."""

    things: list


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Text(str):
    """A text that equals a str and is none."""

    __slots__ = ()


class Whole(int):
    """A number that equals an int and is none."""


Point = namedtuple("Point", ["x", "y"])


def other(text):
    """The same text in another object."""
    return "".join(list(text))


def shown(value):
    """The text of a value: equal for what counts as the same, in every process."""
    kind = type(value)
    if kind in PLAIN:
        return PLAIN[kind](value)
    if isinstance(value, fb.Row):
        names = value._names or ()
        return f"Row{list(names)}{value.row_kind.short_name}({', '.join(map(shown, value))})"
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return f"{kind.__name__}({', '.join(shown(getattr(value, field.name)) for field in fields)})"
    if isinstance(value, enum.Enum):
        return str(value)
    if isinstance(value, numpy.ndarray):
        return f"array({value.dtype}, {list(map(shown, value.tolist()))})"
    if isinstance(value, numpy.generic):
        return f"{kind.__name__}({shown(value.item())})"
    for base in (str, int, tuple):
        if isinstance(value, base):
            return f"{kind.__name__}({PLAIN[base](base(value))})"
    raise TypeError(f"no text for {kind.__name__} {value!r}")


def _long(value):
    if len(value) <= LONGEST:
        return repr(value)
    data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    return f"{type(value).__name__} of {len(value)}, crc {zlib.crc32(data)}"


def _number(value):
    return "nan" if math.isnan(value) else repr(value)


def _time(value):
    return f"{value!r}"


PLAIN = {
    type(None): repr,
    bool: repr,
    int: repr,
    float: _number,
    complex: repr,
    str: _long,
    bytes: _long,
    bytearray: repr,
    tuple: lambda value: f"({', '.join(map(shown, value))})",
    list: lambda value: f"[{', '.join(map(shown, value))}]",
    dict: lambda value: f"{{{', '.join(sorted(f'{shown(key)}: {shown(each)}' for key, each in value.items()))}}}",
    OrderedDict: lambda value: f"OrderedDict({', '.join(f'{shown(k)}: {shown(each)}' for k, each in value.items())})",
    set: lambda value: f"set({', '.join(sorted(map(shown, value)))})",
    frozenset: lambda value: f"frozenset({', '.join(sorted(map(shown, value)))})",
    datetime.datetime: _time,
    datetime.date: _time,
    datetime.timedelta: _time,
    decimal.Decimal: repr,
}


def _pair(part):
    return (part, part)


def _twins(first, second):
    return (first, second)


# name: makers of one value; each call makes new objects
TABLE = {
    "none": [lambda: None],
    "one": [lambda: 1],
    "one as float": [lambda: 1.0],
    "true": [lambda: True],
    "false": [lambda: False],
    "nought": [lambda: 0],
    "large": [lambda: 2**70],
    "negative": [lambda: -(2**63)],
    "text": [lambda: "text", lambda: other("text")],
    "empty text": [lambda: ""],
    "odd text": [lambda: "ä\x00€\U0001f600"],
    "bytes": [lambda: b"text"],
    "nan": [lambda: math.nan, lambda: -math.nan, lambda: math.inf - math.inf],
    "zero": [lambda: 0.0],
    "minus zero": [lambda: -0.0],
    "infinite": [lambda: math.inf],
    "half": [lambda: 0.5],
    "numpy float": [lambda: numpy.float64(1.5), lambda: numpy.float64("1.5")],
    "numpy one": [lambda: numpy.int64(1)],
    "numpy bool": [lambda: numpy.bool_(True)],
    "numpy single": [lambda: numpy.float32(0.1)],
    "subclass": [lambda: Text("text"), lambda: Text(other("text"))],
    "whole": [lambda: Whole(1)],
    "empty tuple": [tuple],
    "pair": [lambda: (1, "x"), lambda: (1, other("x"))],
    "pair of one kind": [lambda: (1.0, "x")],
    "shared": [lambda: _pair(("a part", 1)), lambda: _twins(("a part", 1), (other("a part"), 1))],
    "shared list": [lambda: _pair(["a part"]), lambda: _twins(["a part"], [other("a part")])],
    "list": [lambda: [1, "x"]],
    "empty list": [list],
    "list of lists": [lambda: [["a part"]] * 2, lambda: [["a part"], [other("a part")]]],
    "dict": [lambda: {"x": 1, "yy": 2, 3: None}, lambda: {3: None, "yy": 2, "x": 1}],
    "empty dict": [dict],
    "nested dict": [lambda: {"a": {"x": 1, "y": [2]}, "b": 0}, lambda: {"b": 0, "a": {"y": [2], "x": 1}}],
    "ordered dict": [lambda: OrderedDict([("x", 1), ("y", 2)])],
    "set": [lambda: {8, 0, 16}, lambda: {16, 8, 0}],
    "set of texts": [lambda: {"x", "yy", "zzz"}, lambda: {"zzz", "yy", "x"}],
    "empty set": [set],
    "frozenset": [lambda: frozenset(["x", "yy", "zzz"]), lambda: frozenset(["zzz", "yy", "x"])],
    "frozenset of sets": [
        lambda: frozenset([frozenset([8, 0]), frozenset(["x", "yy"])]),
        lambda: frozenset([frozenset(["yy", "x"]), frozenset([0, 8])]),
    ],
    "place": [lambda: Place("x", frozenset(["a", "bb"])), lambda: Place(other("x"), frozenset(["bb", "a"]))],
    "basket": [lambda: Basket([1, Place("x", frozenset())])],
    "enum": [lambda: Color.RED, lambda: Color("red")],
    "point": [lambda: Point(1, 2)],
    "row": [lambda: fb.Row(1, "x"), lambda: fb.Row(1, other("x"))],
    "named row": [lambda: fb.Row(a={"x": 1, "y": 2}, b=None), lambda: fb.Row(a={"y": 2, "x": 1}, b=None)],
    "row of rows": [lambda: fb.Row(a=fb.Row(b=1, c=fb.Row("x")), d=(fb.Row(2),))],
    "changed row": [lambda: fb.Row.of_kind("-D", 1, "x")],
    "date": [lambda: datetime.date(2024, 2, 29)],
    "time": [lambda: datetime.datetime(2024, 1, 1, 1, 30, fold=1)],
    "time with zone": [lambda: datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)],
    "decimal": [lambda: decimal.Decimal("1.50")],
    "shorter decimal": [lambda: decimal.Decimal("1.5")],
    "array": [lambda: numpy.array([1.0, math.nan])],
    "array in a tuple": [lambda: (numpy.array([1, 2]), "x")],
    "complex": [lambda: 1 + 2j],
    "long text": [lambda: "long " * 20_000],
}
HUGE = "huge"  # rare, and of no use as a key
HUGE_BYTES = 50_000_000
KEYS = list(TABLE)


def value(name, maker=0):
    """A new object of a name of the table; `maker` chooses one of its spellings."""
    if name == HUGE:
        return bytes(HUGE_BYTES)
    makers = TABLE[name]
    return makers[maker % len(makers)]()
