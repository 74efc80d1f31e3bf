"""Pairs of keys that are equal and have other bytes: what was inserted in another order, shared, or made elsewhere."""

import dataclasses
import datetime
import decimal
import enum
import math

import numpy

import flinkbuf as fb
from flinkbuf.streaming.windows.window import Window


@dataclasses.dataclass(frozen=True)
class Place:
    """A key of the user's own class."""

    city: str
    tags: frozenset


class Color(enum.Enum):
    RED = "red"


class Text(str):
    __slots__ = ()


def other(text):
    """The same text in another object."""
    return "".join(list(text))


SHARED = ["a shared part"]
PAIR = ("a shared part", 1)

PAIRS = {
    "frozenset": (frozenset(["x", "yy"]), frozenset(["yy", "x"])),
    "colliding": (frozenset([8, 0, 16]), frozenset([16, 8, 0])),
    "dict": ({"x": 1, "y": 2}, {"y": 2, "x": 1}),
    "set": ({8, 0}, {0, 8}),
    "shared": ((PAIR, PAIR), (PAIR, (other("a shared part"), 1))),
    "shared list": ([SHARED, SHARED], [SHARED, [other("a shared part")]]),
    "dataclass": (Place("x", frozenset([8, 0])), Place(other("x"), frozenset([0, 8]))),
    "in a tuple": ((1, Place("x", frozenset())), (1, Place(other("x"), frozenset()))),
    "in a row": (fb.Row(a={"x": 1, "y": 2}), fb.Row(a={"y": 2, "x": 1})),
    "nan": (math.nan, -math.nan),
    "zero": (-0.0, -0.0),
    "numpy": (numpy.float64(1.5), numpy.float64("1.5")),
    "enum": (Color.RED, Color("red")),
    "subclass": (Text("text"), Text(other("text"))),
    "decimal": (decimal.Decimal("1.50"), decimal.Decimal("1.50")),
    "time": (datetime.datetime(2024, 1, 1, fold=1), datetime.datetime(2024, 1, 1, fold=1)),
    "plain": ("text", other("text")),
    "true": (True, True),
    "one": (1, 1),
    "one as float": (1.0, 1.0),
    "none": (None, None),
}


class TableWindow(Window):
    """A window of a program's own: known by a name, with one of the values of a pair."""

    def __init__(self, name, value):
        self.name = name
        self.value = value

    def max_timestamp(self):
        return 1_000

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return isinstance(other, TableWindow) and self.name == other.name

    def __repr__(self):
        return f"TableWindow({self.name!r})"


def hashable(value):
    """Whether Python takes a value as key of a dict."""
    try:
        hash(value)
    except TypeError:
        return False
    return True
