"""What each join of column streams puts into the graph: picklable objects that make an operator in each task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkbuf.datastream.program.operator_factories import OperatorFactory

if TYPE_CHECKING:
    from flinkbuf._core.operators.stream_operator import StreamOperator
    from flinkbuf.streaming.columns.column_joins import JoinPlan
    from flinkbuf.streaming.columns.sliced_windows import SlicedWindows


@dataclass(frozen=True)
class ColumnWindowJoinFactory(OperatorFactory):
    """Of joins by key and window."""

    plan: JoinPlan
    windows: SlicedWindows

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf.streaming.columns.column_joins import ColumnWindowJoinOperator

        return ColumnWindowJoinOperator(self.plan, self.windows)


@dataclass(frozen=True)
class ColumnIntervalJoinFactory(OperatorFactory):
    """Of joins by key and event time."""

    plan: JoinPlan
    bounds_ms: tuple[int, int]

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf.streaming.columns.column_joins import ColumnIntervalJoinOperator

        return ColumnIntervalJoinOperator(self.plan, self.bounds_ms)


@dataclass(frozen=True)
class ColumnTimeToLiveJoinFactory(OperatorFactory):
    """Of joins by key of all rows that are kept."""

    plan: JoinPlan
    time_to_live_ms: int

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf.streaming.columns.column_joins import ColumnTimeToLiveJoinOperator

        return ColumnTimeToLiveJoinOperator(self.plan, self.time_to_live_ms)
