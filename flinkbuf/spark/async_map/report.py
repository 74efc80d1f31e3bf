"""What an async_map tells of its tasks: lines in their logs while they run, and their counts on the driver."""

from __future__ import annotations

import logging
import pickle
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from flinkbuf.async_io.function import CallContext
from flinkbuf.async_io.operator import AsyncOperator
from flinkbuf.async_io.stats import AsyncStats, SkippedRecord, shortened
from flinkbuf.log import logger

if TYPE_CHECKING:
    from pyspark import RDD, Accumulator, SparkContext
    from pyspark.sql import DataFrame

T = TypeVar("T")


@dataclass(frozen=True)
class Report:
    """Where the counts of a task go: into its log while it runs, to the driver when it has ended.

    Attributes
    ----------
    accumulator : Accumulator or None
        None where there is no driver to reach, as in Spark Connect.
    kept_limit : int or None
        How many skipped records a task keeps.
    """

    accumulator: Accumulator[AsyncStats] | None = None
    kept_limit: int | None = 1000

    @staticmethod
    def to(context: SparkContext | None, stats: AsyncStats) -> Report:
        """Make a report that adds to `stats`, on the driver."""
        if context is None:
            return Report(None, stats.kept_limit)
        accumulator = context.accumulator(stats, StatsParam(is_driver=True))  # type: ignore[arg-type]
        return Report(accumulator, stats.kept_limit)

    def new_stats(self) -> AsyncStats:
        """Return counts of nothing, for one task."""
        return AsyncStats(kept_limit=self.kept_limit)

    def following(self, operator: AsyncOperator, results: Iterator[T], log_interval: float) -> Generator[T, None, None]:
        """Yield results, close their operator however that ends, and hand in its counts."""
        try:
            yield from results
        except Exception:
            (log_in_task if log_interval > 0 else logger.info)("async_map: the task fails after %s", operator.stats)
            raise
        finally:
            results.close()  # type: ignore[attr-defined]
            if self.accumulator is not None:
                for skipped in operator.stats.skipped_records:
                    _make_picklable(skipped)
                self.accumulator.add(operator.stats)


def context_of(data: RDD[object] | DataFrame) -> SparkContext | None:
    """Return the SparkContext of an RDD or DataFrame; None where there is none, as in Spark Connect."""
    from pyspark import RDD

    try:
        found: SparkContext = data.context if isinstance(data, RDD) else data.sparkSession.sparkContext
    except Exception:
        return None
    return found


def _make_picklable(skipped: SkippedRecord) -> None:
    try:
        pickle.dumps(skipped.record)
    except Exception:
        skipped.record = shortened(skipped.record)


def log_in_task(text: str, *values: object) -> None:
    """Log a line of level INFO, to the executor's log where nobody has set up logging in a worker of Spark.

    Where the user's code has done so, with a handler or a level for this logger or a handler for the root, that counts.
    """
    from pyspark import TaskContext

    if TaskContext.get() is None or logger.hasHandlers() or logger.level != logging.NOTSET:
        logger.info(text, *values)
    else:
        sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} INFO {logger.name}: {text % values}\n")


class StatsParam:
    """Adds up the counts of tasks, as Spark's accumulators want it; each task leaves a line in the driver's log."""

    def __init__(self, is_driver: bool = False) -> None:
        self.is_driver = is_driver

    def __reduce__(self) -> tuple[object, ...]:
        return StatsParam, ()  # whoever unpickles it is not the driver

    def zero(self, value: AsyncStats) -> AsyncStats:
        """Return counts of nothing."""
        return AsyncStats()

    def addInPlace(self, value: AsyncStats, other: AsyncStats) -> AsyncStats:
        """Add `other` to `value`."""
        if self.is_driver:
            logger.info("async_map: a task ended after %.1f s: %s", other.seconds, other)
        return value.merge(other)


def call_context(partition_count: int) -> CallContext:
    """Tell where this task runs; as if it were the only one, outside Spark."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        return CallContext(partition_count=partition_count)
    return CallContext(task.partitionId(), partition_count, task.attemptNumber(), task.stageId())
