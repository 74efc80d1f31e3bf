"""The pipelined exchange of a DataFrame: one ``mapInArrow`` in a barrier stage, whose tasks send each other buffers.

A task is that of a pipelined exchange of an RDD (pipelined.py) but for what it writes and reads: batches, in C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flinkbuf.network.partition import ResultPartition
from flinkbuf.records.record_writer import RecordWriter
from flinkbuf.spark.exchange.arguments import STAGE_USER
from flinkbuf.spark.exchange.batch_exchange import BatchExchange
from flinkbuf.spark.exchange.frame_tasks import BatchFunction, Columns, FrameReadTask, FrameSource, refused
from flinkbuf.spark.exchange.pipelined import PipelinedTask, reason_of
from flinkbuf.spark.stage.barrier_stage import check_allocation, check_chain, check_slots, slot_count
from flinkbuf.spark.stage.driver_address import DriverAddress

if TYPE_CHECKING:
    import pyarrow
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame

    from flinkbuf._core.flow.record_exchange import RecordExchange
    from flinkbuf.network.input_gate import InputGate
    from flinkbuf.spark.exchange.blocking import WriteTask
    from flinkbuf.spark.exchange.exchange_task import ExchangeManager, ExchangeTask


@dataclass(frozen=True)
class FramePipelinedTask(PipelinedTask):
    """One task of a pipelined exchange of a DataFrame, pickled to where it runs.

    Attributes
    ----------
    columns : Columns
        What crosses.
    source : FrameSource
        What becomes of the batches of this task before.
    handed_over : FrameReadTask, optional
        What makes batches of what Spark brings, where that is envelopes: the rows came through a shuffle, into as many
        partitions as there are tasks.
    after : callable, optional
        The user's function over the batches that come.
    """

    columns: Columns = None  # type: ignore[assignment]  # it follows fields with defaults
    source: FrameSource = field(default_factory=FrameSource)
    handed_over: FrameReadTask | None = None
    after: BatchFunction | None = None

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:  # type: ignore[override]
        """Return the batches of this task's partition, and send its own to the others meanwhile."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        own = batches if self.handed_over is None else self.handed_over.read(batches)
        return self.results(context.partitionId(), self.source(own))

    def results(self, index: int, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Yield what comes for partition `index`, through the user's function; what that leaves is passed over."""
        arriving = self._run(index, batches)
        next(arriving)  # the task has joined the others
        try:
            yield from arriving if self.after is None else self.after(arriving)
        finally:
            arriving.close()  # sends the rest; or fails the others, if an error is on its way

    def _exchange(
        self,
        writer: RecordWriter,
        partition: ResultPartition,
        gate: InputGate,
        records: Iterator[pyarrow.RecordBatch],
        check: Callable[[], object],
    ) -> BatchExchange:
        return BatchExchange(writer, partition, gate, self.columns.builder(), records, check)

    def _give_up(
        self, partition: ResultPartition, exchange: RecordExchange | BatchExchange | None, error: BaseException
    ) -> None:
        if isinstance(exchange, BatchExchange):
            exchange.give_up(reason_of(error))
        else:
            partition.fail(reason_of(error))

    def _explain(
        self,
        index: int,
        error: BaseException,
        task: ExchangeTask | None,
        manager: ExchangeManager,
        is_over_own_record: bool,
    ) -> BaseException:
        if isinstance(error, ValueError) and getattr(error, "record_number", None) is not None:
            return refused(index, error)
        return super()._explain(index, error, task, manager, is_over_own_record)


# ---- on the driver, of a classic session


def task_count_of(rows: DataFrame, asked: int | None) -> tuple[int, bool]:
    """Return how many tasks the barrier stage has, and whether it may read `rows` as they are.

    It may if Spark knows before it runs how many partitions they have, and computes them in a barrier stage. With
    adaptive execution it does not know of rows that come out of a shuffle; unions and coalesced partitions it refuses.

    Raises
    ------
    ValueError
        If there are fewer slots than tasks, or dynamic allocation is on.
    """
    context = rows.sparkSession.sparkContext
    check_allocation(context, STAGE_USER)
    known = partition_count(rows)
    if asked is None:
        slots = slot_count(context.parallelize((), 1))
        asked = known if known is not None and 0 < known <= slots else slots
    check_slots(context.parallelize((), 1), asked, STAGE_USER)
    return asked, known == asked


def partition_count(rows: DataFrame) -> int | None:
    """Return how many partitions the rows have; None if that is not certain, or they cannot be read in a barrier."""
    plan: JavaObject = rows._jdf.queryExecution().executedPlan()
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        return None
    made = rows.rdd
    count = made.getNumPartitions()
    try:
        check_chain(made, count, STAGE_USER)
    except ValueError:
        return None
    return count


def meeting_of(rows: DataFrame, write: WriteTask, is_client: bool) -> tuple[DriverAddress, str | None]:
    """Return where the tasks meet, and the address that they listen at if it is not the one they come from.

    OSError if this process cannot listen for them.
    """
    from flinkbuf.spark.exchange.exchange_job import exchanges_of, exchanges_of_client  # bring what no task needs

    session = rows.sparkSession
    exchanges = exchanges_of_client(session) if is_client else exchanges_of(session.sparkContext)
    return exchanges.address_of(write), session.conf.get("spark.flinkbuf.task.bindAddress", None)
