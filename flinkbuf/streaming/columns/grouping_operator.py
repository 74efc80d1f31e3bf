"""What the operators have in common that aggregate rows by key: which groups there are is known by the first rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.records.column_exchange import key_columns
from flinkbuf.streaming.columns.aggregates import Aggregate
from flinkbuf.streaming.columns.column_groups import GroupPlan, columns_read
from flinkbuf.streaming.columns.column_operator import ColumnOperator

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from flinkbuf.streaming.state.snapshot import OperatorSnapshot


_OF_ALL: Final = ""  # the column of the key that all rows have


class GroupingOperator(ColumnOperator):
    """An operator whose state is rows of keys and partial results.

    Parameters
    ----------
    key : tuple of str
        Without columns all rows have one key, which is a column of the state.
    aggregates : tuple of (name, Aggregate)
        Those that are computed.

    Attributes
    ----------
    plan : GroupPlan
        From the first rows on, of the stream or of a snapshot.
    """

    plan: GroupPlan

    def __init__(self, key: tuple[str, ...], aggregates: tuple[tuple[str, Aggregate], ...]) -> None:
        super().__init__()
        self._key = key or (_OF_ALL,)
        self.has_key = bool(key)
        self._aggregates = aggregates
        self.has_plan = False

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Take restored rows, and have snapshots hold those to come."""
        super().initialize_state(snapshot)
        self.context.keyed_state.keep_columns(self, len(self._key))

    def take(self, element: ColumnBatch) -> tuple[pa.RecordBatch, list[list[pa.Array]]]:
        """Return the keys of rows, and the columns that each aggregate reads, with the types of the first rows."""
        keys = key_columns(element.batch, self._key) if self.has_key else _one_key(len(element))
        read = self.read(element)
        if not self.has_plan:
            self.begin(GroupPlan.of(keys, self._aggregates, read))
        return self.plan.keys_as(keys), self.plan.read_as(read)

    def read(self, element: ColumnBatch) -> list[list[pa.Array]]:
        """Return the columns that each aggregate reads."""
        return columns_read(element.batch, self._aggregates)

    def begin_from(self, batch: pa.RecordBatch) -> None:
        """Begin with rows of a snapshot, if they are the first."""
        if not self.has_plan:
            self.begin(GroupPlan.of_state(batch, self._key, self._aggregates))

    def begin(self, plan: GroupPlan) -> None:
        """Begin to keep groups."""
        self.plan, self.has_plan = plan, True


def _one_key(count: int) -> pa.RecordBatch:
    """Return the key of so many rows that are not told apart."""
    import numpy as np
    import pyarrow as pa

    return pa.record_batch([pa.array(np.zeros(count, np.int8))], [_OF_ALL])


def event_times(element: ColumnBatch, side: str = "") -> np.ndarray:
    """Return the timestamps of rows that are put in windows, or joined, by event time.

    Parameters
    ----------
    element : ColumnBatch
    side : str
        Of a join: "left".

    Raises
    ------
    ValueError
        If a row has none.
    """
    import numpy as np

    times = element.timestamps
    if times is None or (times == NO_TIMESTAMP).any():
        raise ValueError(
            f"a row{f' of the {side} side' if side else ''} has no timestamp, by which windows and joins of event time "
            "go: say assign_timestamps_and_watermarks(column, ...) before key_by()"
        )
    return np.ascontiguousarray(times)
