"""What an aggregate of a column stream computes, as a user says it: a kind, and the columns that it reads.

Nothing is computed here: `column_groups` asks for the accumulators of them, one set for each group of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkbuf._core.columns.slot_aggregates import make_aggregate
from flinkbuf.streaming.columns.column_functions import check_expression


@dataclass(frozen=True)
class Aggregate:
    """One aggregate, as ``count()`` and its like give it.

    Attributes
    ----------
    kind : str
        What `make_aggregate` takes; "window_start" and "window_end" are no aggregates, but what a window says.
    columns : tuple
        What it reads: names, expressions, or functions over batches.
    """

    kind: str
    columns: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        for each in self.columns:
            check_expression(f"the column of {self.kind}()", each)

    @property
    def is_of_window(self) -> bool:
        """Return whether the window says it."""
        return self.kind in (WINDOW_START, WINDOW_END)

    @property
    def text(self) -> str:
        """Return what a snapshot says of it: ``sum(_)``."""
        return f"{self.kind}({', '.join('_' for _ in self.columns)})"

    def check(self, name: str) -> None:
        """Raise TypeError unless it can compute the result called `name`."""

    def accumulator(self, name: str, types: tuple[Any, ...]) -> Any:
        """Return a `SlotAggregate`, or what is like one, for the result called `name` of columns of these types."""
        return make_aggregate(self.kind, *types)


WINDOW_START, WINDOW_END = "window_start", "window_end"
