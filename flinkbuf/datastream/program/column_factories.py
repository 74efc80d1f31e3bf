"""What each method of a column stream puts into the graph: picklable objects that make an operator in each task."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkbuf.datastream.program.operator_factories import OperatorFactory

if TYPE_CHECKING:
    import pyarrow

    from flinkbuf._core.operators.stream_operator import StreamOperator
    from flinkbuf.records.column_batch import ColumnBatch
    from flinkbuf.streaming.columns.aggregates import Aggregate
    from flinkbuf.streaming.columns.keyed_batch_function import KeyedBatchFunction
    from flinkbuf.streaming.columns.ranked_rows import RankedRows
    from flinkbuf.streaming.columns.sliced_windows import SlicedWindows
    from flinkbuf.streaming.time.watermark_strategy import WatermarkStrategy
    from flinkbuf.streaming.windows.count_windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner
    from flinkbuf.streaming.windows.session_windows import EventTimeSessionWindows
    from flinkbuf.types.type_information import TypeInformation


@dataclass(frozen=True)
class AsColumnsFactory(OperatorFactory):
    """Of as_columns."""

    description: object  # of the records
    max_rows: int
    max_bytes: int
    max_delay_ms: int
    declared: TypeInformation | None = None  # of the records

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf.streaming.columns.column_operator import as_columns_operator

        return as_columns_operator(self.description, self.declared, self.max_rows, self.max_bytes, self.max_delay_ms)


@dataclass(frozen=True)
class AsRecordsFactory(OperatorFactory):
    """Of as_records."""

    description: object  # of the records; None: what each batch says

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf.streaming.columns.column_operator import as_records_operator

        return as_records_operator(self.description)


@dataclass(frozen=True)
class ColumnFunctionFactory(OperatorFactory):
    """Of what looks at one batch at a time; `lifecycle` is the user's function, if it may want to be opened."""

    function: Callable[[ColumnBatch], Iterable[ColumnBatch]]
    lifecycle: object = None

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf.streaming.columns.column_operator import ColumnFunctionOperator

        return ColumnFunctionOperator(self.function, self.lifecycle)


@dataclass(frozen=True)
class ColumnTimestampsFactory(OperatorFactory):
    """Of assign_timestamps_and_watermarks."""

    column: str
    strategy: WatermarkStrategy

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf.streaming.columns.column_operator import ColumnTimestampsOperator

        return ColumnTimestampsOperator(self.column, self.strategy)


@dataclass(frozen=True)
class ColumnAggregateFactory(OperatorFactory):
    """Of running aggregates by key."""

    key: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    row_kind: str | None = None

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf.streaming.columns.column_aggregates import ColumnAggregateOperator

        return ColumnAggregateOperator(self.key, self.aggregates, self.row_kind)


@dataclass(frozen=True)
class ColumnRanksFactory(OperatorFactory):
    """Of the first rows by key, as they change; without `ranked` each key's first row to come, and no other."""

    key: tuple[str, ...]
    ranked: RankedRows | None = None
    row_kind: str | None = None

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf.streaming.columns.column_ranks import ColumnFirstOperator, ColumnRankOperator

        if self.ranked is None:
            return ColumnFirstOperator(self.key, self.row_kind)
        return ColumnRankOperator(self.key, self.ranked, self.row_kind)


@dataclass(frozen=True)
class ColumnSessionFactory(OperatorFactory):
    """Of aggregates by key and session."""

    key: tuple[str, ...]
    windows: EventTimeSessionWindows
    aggregates: tuple[tuple[str, Aggregate], ...]
    lateness_ms: int
    late_tag: str | None

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf.streaming.columns.column_sessions import ColumnSessionOperator
        from flinkbuf.streaming.columns.column_windows import WindowResults

        results = WindowResults(self.aggregates)
        return ColumnSessionOperator(self.key, self.windows, results, self.lateness_ms, self.late_tag)


@dataclass(frozen=True)
class ColumnCountFactory(OperatorFactory):
    """Of aggregates by key and window of so many rows."""

    key: tuple[str, ...]
    windows: CountTumblingWindowAssigner | CountSlidingWindowAssigner
    aggregates: tuple[tuple[str, Aggregate], ...]

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf.streaming.columns.column_counts import ColumnCountOperator, ColumnSlidingCountOperator
        from flinkbuf.streaming.columns.column_windows import WindowResults
        from flinkbuf.streaming.windows.count_windows import CountSlidingWindowAssigner

        results = WindowResults(self.aggregates)
        if isinstance(self.windows, CountSlidingWindowAssigner):
            return ColumnSlidingCountOperator(self.key, self.windows, results)
        return ColumnCountOperator(self.key, self.windows, results)


@dataclass(frozen=True)
class ColumnWindowFactory(OperatorFactory):
    """Of aggregates by key and window of fixed lengths of time."""

    key: tuple[str, ...]
    windows: SlicedWindows
    aggregates: tuple[tuple[str, Aggregate], ...]
    lateness_ms: int
    late_tag: str | None

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf.streaming.columns.column_windows import ColumnWindowOperator, WindowResults

        results = WindowResults(self.aggregates)
        return ColumnWindowOperator(self.key, self.windows, results, self.lateness_ms, self.late_tag)


@dataclass(frozen=True)
class KeyedBatchFactory(OperatorFactory):
    """Of process_batches."""

    key: tuple[str, ...]
    function: KeyedBatchFunction
    schema: pyarrow.Schema | None  # of the results; None: what the function gives
    timestamp_column: str | None

    def create(self) -> StreamOperator:
        """Make the operator."""
        from flinkbuf.streaming.columns.keyed_batches import KeyedBatchOperator

        return KeyedBatchOperator(self.key, self.function, self.schema, self.timestamp_column)
