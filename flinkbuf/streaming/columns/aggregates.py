"""What an aggregate of a column stream computes, as a user says it: a kind, and the columns that it reads.

Nothing is computed here: `column_groups` makes the accumulators of them, one set for each group of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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


WINDOW_START, WINDOW_END = "window_start", "window_end"
