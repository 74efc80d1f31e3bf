"""Running results by key over columns: each batch gives the groups that it has changed.

Flink's table runtime: GroupAggFunction, with a result for each batch in place of each record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK, NO_TIMESTAMP
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.records.column_exchange import key_columns
from flinkbuf.streaming.columns.aggregates import Aggregate
from flinkbuf.streaming.columns.column_groups import ColumnGroups, GroupPlan, columns_read
from flinkbuf.streaming.columns.column_operator import ColumnOperator

if TYPE_CHECKING:
    import pyarrow as pa

STATE_NAME: Final = "running-groups"


class ColumnAggregateOperator(ColumnOperator):
    """Aggregates of all rows of each key that have come so far.

    In batch execution each key has one result, at the end, with the latest timestamp of all rows.

    Parameters
    ----------
    key : tuple of str
    aggregates : tuple of (name, Aggregate)
    """

    name = STATE_NAME

    def __init__(self, key: tuple[str, ...], aggregates: tuple[tuple[str, Aggregate], ...]) -> None:
        super().__init__()
        self._key = key
        self._aggregates = aggregates
        self._groups: ColumnGroups | None = None
        self._plan: GroupPlan | None = None
        self._latest = NO_TIMESTAMP

    def initialize_state(self, snapshot: Any) -> None:
        """Take restored groups, and have snapshots hold those to come."""
        super().initialize_state(snapshot)
        self.context.keyed_state.keep_columns(self, len(self._key))

    def process_batch(self, element: ColumnBatch) -> None:
        """Take rows, and give the groups that they belong to; their timestamps are the latest of the batch."""
        import numpy as np

        keys = key_columns(element.batch, self._key)
        read = columns_read(element.batch, self._aggregates)
        if self._plan is None or self._groups is None:
            self._begin(GroupPlan.of(keys, self._aggregates, read))
        assert self._plan is not None and self._groups is not None
        slots = self._groups.add(self._plan.keys_as(keys), self._plan.read_as(read))
        if self.context.settings.is_batch:
            self._latest = max(self._latest, element.latest)
        else:
            self._give(np.unique(slots).astype(np.int64), element.latest)

    def process_watermark(self, timestamp: int) -> None:
        """Give all groups at the end of a batch job, before event time ends."""
        if timestamp == MAX_WATERMARK and self.context.settings.is_batch and self._groups is not None:
            self._give(None, self._latest)
        self.emit_watermark(timestamp)

    def _give(self, slots: Any, timestamp: int) -> None:
        import numpy as np
        import pyarrow as pa

        assert self._groups is not None
        keys, results = self._groups.results(slots)
        names = [*keys.schema.names, *(name for name, _ in self._aggregates)]
        batch = pa.record_batch([*keys.columns, *results], names)
        times = None if timestamp == NO_TIMESTAMP else np.full(batch.num_rows, timestamp)
        self.emit(ColumnBatch(batch, times))

    def _begin(self, plan: GroupPlan) -> None:
        self._plan, self._groups = plan, ColumnGroups(plan)

    def frozen_rows(self) -> list[pa.RecordBatch]:
        """Return all groups."""
        return [] if self._groups is None or not len(self._groups) else [self._groups.state()]

    def restore_rows(self, batch: pa.RecordBatch) -> None:
        """Take groups of a snapshot."""
        if self._groups is None:
            self._begin(GroupPlan.of_state(batch, self._key, self._aggregates))
        assert self._groups is not None
        self._groups.merge_state(batch)
