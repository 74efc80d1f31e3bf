"""The first rows by key, as they change: one row of each key, or some by an order.

Flink's table runtime: ProcTimeDeduplicateKeepFirstRowFunction, RowTimeDeduplicateFunction, AppendOnlyTopNFunction; but
that what changes within a batch is given once, by what it is in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.streaming.columns.column_aggregates import ColumnAggregateOperator
from flinkbuf.streaming.columns.column_functions import check_differ
from flinkbuf.streaming.columns.key_table import places_within
from flinkbuf.streaming.columns.ranked_rows import RankedRows, RankStates
from flinkbuf.types.row import RowKind

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_ROWS: Final = "rows"  # the one aggregate, whose results are the rows
_TIME: Final = "timestamp"  # the last column of a row that is kept


class ColumnFirstOperator(ColumnAggregateOperator):
    """The first row of each key to come, when it comes; only the keys are kept.

    Parameters
    ----------
    key : tuple of str
    row_kind : str, optional
        The column that says that the rows are new, "+I".
    """

    def __init__(self, key: tuple[str, ...], row_kind: str | None = None) -> None:
        super().__init__(key, (), row_kind)

    def process_batch(self, element: ColumnBatch) -> None:
        """Give the rows whose key was never seen."""
        import numpy as np

        keys, _ = self.take(element)
        before = len(self._groups)
        slots = self._groups.slots_of(keys)
        rows = np.flatnonzero(slots >= before)
        _, firsts = np.unique(slots[rows], return_index=True)
        given = element.take(rows[firsts])
        self.emit(given.with_batch(self._with_kinds(given.batch, np.full(len(given), RowKind.INSERT))))

    def _give_all(self, latest: int) -> None:
        """Do nothing: all were given when they came."""


class ColumnRankOperator(ColumnAggregateOperator):
    """The first rows of each key by an order: those that a batch has changed, with their own timestamps.

    With ranks, a rank that has another row is given. Without them the rows that came in are, and, if it is asked what
    becomes of a row, those that fell out.

    Parameters
    ----------
    key : tuple of str
    ranked : RankedRows
    row_kind : str, optional
        The column that says "+I" of a row that is new, "+U" of one in the place of another, and "-D" of one that fell
        out; None: there is none.
    """

    def __init__(self, key: tuple[str, ...], ranked: RankedRows, row_kind: str | None = None) -> None:
        super().__init__(key, ((_ROWS, ranked),), row_kind)
        self._rank = ranked.rank
        self._is_by_rank = ranked.rank is not None or ranked.limit == 1

    def read(self, element: ColumnBatch) -> list[list[pa.Array]]:
        """Return the rows with their timestamps, and what they are ordered by."""
        import numpy as np
        import pyarrow as pa

        ((rows, *computed),) = super().read(element)
        times = element.timestamps
        if times is None:
            times = np.full(len(element), NO_TIMESTAMP)
        fields = [*rows.type, pa.field(_TIME, pa.int64())]
        return [[pa.StructArray.from_arrays([*rows.flatten(), pa.array(times)], fields=fields), *computed]]

    @property
    def _states(self) -> RankStates:
        (states,) = self._groups.aggregates.accumulators
        assert isinstance(states, RankStates)
        return states

    def _give_changed(self, slots: np.ndarray, before: int, latest: int) -> None:
        states = self._states
        ranks, numbers, kinds = states.changes(self._is_by_rank)
        if not self._is_by_rank and self._row_kind is None:
            stayed = kinds != RowKind.DELETE
            ranks, numbers, kinds = ranks[stayed], numbers[stayed], kinds[stayed]
        self._give_rows(states, numbers, ranks, kinds)
        states.compact()

    def _give_all(self, latest: int) -> None:
        import numpy as np

        states = self._states
        counts, numbers = states.numbers()
        self._give_rows(states, numbers, places_within(counts) + 1, np.full(len(numbers), RowKind.INSERT))

    def _give_rows(self, states: RankStates, numbers: np.ndarray, ranks: np.ndarray, kinds: np.ndarray) -> None:
        import pyarrow as pa

        rows = states.rows(numbers)
        times = rows.column(rows.num_columns - 1).to_numpy()
        batch = pa.record_batch(rows.columns[:-1], rows.schema.names[:-1])
        if self._rank is not None:
            check_differ([*batch.schema.names, self._rank], "rank=")
            batch = batch.append_column(self._rank, pa.array(ranks))
        has_times = len(times) > 0 and times.max() != NO_TIMESTAMP
        self.emit(ColumnBatch(self._with_kinds(batch, kinds), times if has_times else None))
