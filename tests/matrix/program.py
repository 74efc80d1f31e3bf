"""What a program of the matrix is: how it is built, and what must come of it."""

import dataclasses
from collections.abc import Callable
from typing import Any

from matrix.ways import MOVE


@dataclasses.dataclass(frozen=True)
class Program:
    """A program and its model.

    Parameters
    ----------
    name : str
    build : callable
        Given `Inputs`; returns a stream, or a dict of streams by name.
    model : callable
        Given the way; returns the records of the stream, or a dict of lists by name, in plain Python.
    order_by : callable, optional
        Of a record: records with the same have to come in the model's order. Without it the order is no matter.
    avoids : frozenset
        What the program does not determine its results under: "batch", "streaming", "unaligned", "move" (going on
        from a savepoint), "width" (going on with another width).
    output_width : int, optional
        How many subtasks give the results; 1 keeps the order of all.
    """

    name: str
    build: Callable[[Any], Any]
    model: Callable[[Any], Any]
    order_by: Callable[[Any], Any] | None = None
    avoids: frozenset = frozenset()
    output_width: int | None = None

    def suits(self, way):
        """Whether the program determines its results this way."""
        met = {
            "batch": way.is_batch,
            "streaming": not way.is_batch,
            "unaligned": way.is_unaligned,
            "move": way.fault == MOVE,
            "width": way.fault == MOVE and way.width != way.width_after,
        }
        return not any(met[each] for each in self.avoids)


PROGRAMS = {}


def program(model, order_by=None, avoids=(), output_width=None):
    """Make a program of the function below; `model` is given the way, or nothing."""

    def made(build):
        name = build.__name__
        assert name not in PROGRAMS, name
        call = model if model.__code__.co_argcount else lambda way: model()
        PROGRAMS[name] = Program(name, build, call, order_by, frozenset(avoids), output_width)
        return build

    return made
