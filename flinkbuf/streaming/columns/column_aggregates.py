"""Running results by key over columns: each batch gives the groups that it has changed.

Flink's table runtime: GroupAggFunction, with a result for each batch in place of each record. What a result was before
is never given (no "-U"): the key says which one a new result replaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK, NO_TIMESTAMP
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.streaming.columns.aggregates import Aggregate
from flinkbuf.streaming.columns.column_functions import check_differ
from flinkbuf.streaming.columns.column_groups import ColumnGroups, GroupPlan
from flinkbuf.streaming.columns.grouping_operator import GroupingOperator
from flinkbuf.types.row import RowKind

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

STATE_NAME: Final = "running-groups"


class ColumnAggregateOperator(GroupingOperator):
    """Aggregates of all rows of each key that have come so far.

    In batch execution each key has one result, at the end, with the latest timestamp of all rows.

    Parameters
    ----------
    key : tuple of str
    aggregates : tuple of (name, Aggregate)
    row_kind : str, optional
        The column that says whether a key is new, "+I", or changed, "+U"; None: there is none.
    """

    name = STATE_NAME

    def __init__(
        self, key: tuple[str, ...], aggregates: tuple[tuple[str, Aggregate], ...], row_kind: str | None = None
    ) -> None:
        super().__init__(key, aggregates)
        self._row_kind = row_kind
        self._groups: ColumnGroups
        self._latest = NO_TIMESTAMP

    def process_batch(self, element: ColumnBatch) -> None:
        """Take rows, and give what they have changed."""
        keys, read = self.take(element)
        before = len(self._groups)
        slots = self._groups.add(keys, read)
        if self.context.settings.is_batch:
            self._latest = max(self._latest, element.latest)
        else:
            self._give_changed(slots, before, element.latest)

    def process_watermark(self, timestamp: int) -> None:
        """Give all groups at the end of a batch job, before event time ends."""
        if timestamp == MAX_WATERMARK and self.context.settings.is_batch and self.has_plan:
            self._give_all(self._latest)
        self.emit_watermark(timestamp)

    def _give_changed(self, slots: np.ndarray, before: int, latest: int) -> None:
        """Give the groups that rows belong to; those from slot `before` on are new."""
        import numpy as np

        changed = np.unique(slots).astype(np.int64)
        kinds = np.where(changed < before, RowKind.UPDATE_AFTER, RowKind.INSERT)
        self._give_groups(*self._groups.results(changed), kinds, latest)

    def _give_all(self, latest: int) -> None:
        import numpy as np

        self._give_groups(*self._groups.results(), np.full(len(self._groups), RowKind.INSERT), latest)

    def _give_groups(self, keys: pa.RecordBatch, results: list[pa.Array], kinds: np.ndarray, latest: int) -> None:
        import numpy as np
        import pyarrow as pa

        names = [*keys.schema.names, *(name for name, _ in self._aggregates)]
        batch = pa.record_batch([*keys.columns, *results], names)
        times = None if latest == NO_TIMESTAMP else np.full(batch.num_rows, latest)
        self.emit(ColumnBatch(self._with_kinds(batch, kinds), times))

    def _with_kinds(self, batch: pa.RecordBatch, kinds: np.ndarray) -> pa.RecordBatch:
        import pyarrow as pa

        if self._row_kind is None:
            return batch
        check_differ([*batch.schema.names, self._row_kind], "row_kind=")
        texts = pa.array([kind.short_name for kind in RowKind])
        return batch.append_column(self._row_kind, texts.take(pa.array(kinds)))

    def begin(self, plan: GroupPlan) -> None:
        """Begin without groups."""
        super().begin(plan)
        self._groups = ColumnGroups(plan)

    def frozen_rows(self) -> list[pa.RecordBatch]:
        """Return all groups."""
        return [self._groups.state()] if self.has_plan and len(self._groups) else []

    def restore_rows(self, batch: pa.RecordBatch) -> None:
        """Take groups of a snapshot."""
        self.begin_from(batch)
        self._groups.merge_state(batch)
