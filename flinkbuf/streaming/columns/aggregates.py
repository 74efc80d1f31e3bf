"""What an aggregate of a column stream computes, as a user says it: a kind, and the columns that it reads.

Nothing is computed here: `column_groups` asks for the accumulators of them, one set for each group of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from flinkbuf._core.columns.slot_aggregates import make_aggregate
from flinkbuf.streaming.columns.column_functions import check_expression

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


class SlotStates(Protocol):
    """What keeps the partial results of one aggregate, by slot: a `SlotAggregate`, or what is like one."""

    @property
    def result_type(self) -> pa.DataType:
        """The type of the results."""
        ...

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns of a partial result."""
        ...

    @property
    def nbytes(self) -> int:
        """The bytes of memory that it has."""
        ...

    def accumulate(self, slots: np.ndarray, slot_count: int, *columns: pa.Array) -> None:
        """Take rows: their slots, and the columns that the aggregate reads; there are `slot_count` slots now."""
        ...

    def merge(self, slots: np.ndarray, slot_count: int, *state_columns: pa.Array) -> None:
        """Take partial results: row i into slots[i]."""
        ...

    def state(self, slots: np.ndarray | None = None) -> tuple[pa.Array, ...]:
        """Return the partial results of all slots, or of some, as columns."""
        ...

    def result(self, slots: np.ndarray | None = None) -> pa.Array:
        """Return the results of all slots, or of some."""
        ...


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
    columns: tuple[object, ...] = ()

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

    def accumulator(self, name: str, types: tuple[pa.DataType, ...]) -> SlotStates:
        """Return what keeps partial results, for the result called `name` of columns of these types."""
        return make_aggregate(self.kind, *types)


WINDOW_START, WINDOW_END = "window_start", "window_end"
