"""Refuses what Spark would not compute of a pipelined DataFrame: a part of it, or two of them as one.

Spark says so in fifty lines, or stops its context. What is made of the result by a further step is Spark's alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PARTS = ("show", "take", "head", "tail", "first", "isEmpty", "toLocalIterator")
_UNIONS = ("union", "unionAll", "unionByName")


def computed_whole(result: DataFrame, task_count: int) -> DataFrame:
    """Return the DataFrame, with methods of its own that refuse. Of one task, a part is the whole."""
    for name in _PARTS if task_count > 1 else ():
        setattr(result, name, _Part(name))
    for name in _UNIONS:
        setattr(result, name, _Union(name, getattr(result, name)))
    return result


class _Part:
    """Stands for a method that computes some partitions only."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise ValueError(
            f"{self._name}() computes some partitions only, and the tasks of a pipelined exchange run all together or "
            f"not at all: put a shuffle between, as in moved.repartition(2).{self._name}(), collect() all of it, or "
            "use mode='blocking'"
        )


class _Union:
    """Stands for a method that puts two into one."""

    def __init__(self, name: str, method: Callable[..., DataFrame]) -> None:
        self._name, self._method = name, method

    def __call__(self, other: DataFrame, *rest: object, **options: object) -> DataFrame:
        if isinstance(getattr(other, self._name, None), _Union):
            raise ValueError(
                f"{self._name}() would put two pipelined exchanges into one stage, which Spark runs for neither: put a "
                "shuffle behind each, such as repartition(2), or use mode='blocking' for one"
            )
        return self._method(other, *rest, **options)
