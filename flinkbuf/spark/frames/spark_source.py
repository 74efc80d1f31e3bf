"""Streams of what Spark has: ``env.from_rdd`` and ``env.from_data_frame``."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

from flinkbuf._core.operators.source_operator import IteratorSourceOperator
from flinkbuf._core.value.conversion import convert
from flinkbuf.common import options
from flinkbuf.datastream.arguments import declared
from flinkbuf.datastream.data_stream import DataStream
from flinkbuf.spark.frames.arrow_input import ArrowBatches, ArrowRows, arrow_input
from flinkbuf.spark.frames.rdd_order import has_fixed_order
from flinkbuf.spark.frames.spark_task_io import SparkTaskIo
from flinkbuf.streaming.chain.latency_markers import emit_latency_markers
from flinkbuf.streaming.chain.operator_context import OperatorContext
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.sources.iterator_source import CollectionSourceOperator
from flinkbuf.streaming.sources.source import EnumeratorContext, Source, SplitEnumerator
from flinkbuf.streaming.sources.source_coordinator import CoordinatorStore, SourceCoordinator
from flinkbuf.streaming.sources.source_events import NoMoreSplits, SourceEvent
from flinkbuf.streaming.state.state import ListStateDescriptor
from flinkbuf.streaming.time.clock import Clock
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame

    from flinkbuf._core.operators.stream_operator import Output
    from flinkbuf.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flinkbuf.streaming.state.snapshot import OperatorSnapshot

COUNTS_STATE = "counts"
RECORDS, BATCHES = "records", "batches"
RDD_SOURCE_NAME, DATA_FRAME_SOURCE_NAME = "RDD Source", "DataFrame Source"

_numbers = itertools.count(1)  # only tells the sources of one program apart


class SparkSourceOperator(CollectionSourceOperator):
    """Emits what Spark gives its subtask, record by record, as Spark makes them.

    Its state is how many records of each partition of the RDD were emitted. After a restart Spark computes the RDD
    again, and so many of each partition are passed over: they come once if a partition always has the same records in
    the same order. Where Spark does not say so of the RDD, a checksum of what was emitted is part of the state, and of
    what is passed over it is made again: another order is an error. Whoever has emitted all waits for the others, so
    that no checkpoint lacks what it has counted.

    Parameters
    ----------
    number : int
        Which source of the program it is.
    type_info : TypeInformation or None
        Of the records.
    read : callable, optional
        Makes records of what the RDD holds.
    is_ordered : bool, default True
        Whether each partition has the same records in the same order whenever it is computed.
    partition_count : int, optional
        Of the RDD; with another one its records lie elsewhere.
    unit : {"records", "batches"}, default "records"
        What is emitted and counted.
    """

    def __init__(
        self,
        number: int,
        type_info: TypeInformation | None,
        read: ArrowRows | ArrowBatches | None = None,
        is_ordered: bool = True,
        partition_count: int | None = None,
        unit: str = RECORDS,
    ) -> None:
        IteratorSourceOperator.__init__(self, self._given)
        self.copies = type_info is None  # what Spark has pickled together may have parts in common
        self._unit = unit
        self._read = read if read is not None else self._converted
        self._has_told = self._may_end = False
        self._number, self._type_info = number, type_info
        self._markers = None
        self._counted: dict[int, int] = {}  # by partition, up to the batch at hand
        self._partition: int | None = None  # of that
        self._from = 0  # the position at its first record
        self._is_ordered = is_ordered
        self._partition_count = partition_count
        self._is_summed = False
        self._cut_off: set[int] = set()  # partitions of which fewer records have come than were emitted before
        self._sums: dict[int, int] = {}  # by partition, of all records up to the one at hand
        self._expected: dict[int, int | None] = {}  # likewise, of those that were emitted before

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Get how many records of each partition were emitted before, by whichever subtask."""
        IteratorSourceOperator.initialize_state(self, snapshot)
        self._counts = self.context.operator_state.get_union_list_state(ListStateDescriptor(COUNTS_STATE, None))
        for partition, count, *rest in self._counts.get():
            if count and len(rest) > 1 and None not in (rest[1], self._partition_count):
                self._check_partition_count(rest[1])
            if count:
                self._check_unit(rest[2] if len(rest) > 2 else RECORDS)
            if count > self._counted.get(partition, 0):
                self._counted[partition] = count
                self._expected[partition] = rest[0] if rest else None

    def _check_partition_count(self, before: int) -> None:
        if before != self._partition_count:
            raise OtherInputError(
                f"what {self.context.operator_name!r} reads has {self._partition_count} partitions, and had {before} "
                "when the checkpoint was taken: which records were read before is counted by partition, and these are "
                f"other ones now. Bring it into {before} as before, as in parallelize(records, {before}): Spark "
                "makes as many as it has cores by itself"
            )

    def _check_unit(self, before: str) -> None:
        if before != self._unit:
            raise OtherInputError(
                f"{self.context.operator_name!r} has counted {before} when the checkpoint was taken, and reads "
                f"{self._unit} now: where it was is not known. Begin without its state, by another uid, or call "
                "as_columns() where it was called before"
            )

    def open(self) -> None:
        """Begin, with latency markers if the job wants any."""
        self._left = dict(self._counted)
        self._is_summed = not self._is_ordered and self.context.settings.checkpointing_enabled
        self._subtask = self.context.task.subtask_index
        assert self.context.coordinator is not None, "a source is deployed with its coordinator"
        self._coordinator = self.context.coordinator
        self._coordinator.register_reader(self._subtask, self)
        IteratorSourceOperator.open(self)
        self._markers = emit_latency_markers(self)

    def handle_event(self, event: object) -> None:
        """All subtasks have emitted all; on the task's thread."""
        self._may_end = self._may_end or isinstance(event, NoMoreSplits)
        self.context.wake()

    def stop(self, is_drain: bool) -> None:
        """End without the others: so do they."""
        self._may_end = True
        super().stop(is_drain)

    def emit_next(self, output: Output, max_records: int) -> int:
        """Emit some; at the end wait for the other subtasks."""
        status: int = super().emit_next(output, max_records)
        if status != InputStatus.END_OF_INPUT or self._may_end:
            return status
        if not self._has_told:
            self._has_told = True
            self._coordinator.handle_event(self._subtask, SourceEvent("at its end"))
        return InputStatus.NOTHING_AVAILABLE

    def close(self) -> None:
        """Tell the coordinator that this reader has ended."""
        self._coordinator.reader_ended(self._subtask)
        super().close()

    def snapshot_state(self, checkpoint_id: int) -> OperatorSnapshot:
        """Keep how many records of each partition were emitted."""
        self._settle()
        not_passed = {partition: self._expected[partition] for partition, left in self._left.items() if left}
        sums = {**self._sums, **not_passed}
        whole = self._partition_count
        self._counts.update([(part, n, sums.get(part), whole, self._unit) for part, n in self._counted.items()])
        return IteratorSourceOperator.snapshot_state(self, checkpoint_id)

    def _settle(self) -> None:
        if self._partition is not None:
            self._counted[self._partition] = self._counted.get(self._partition, 0) + self.position - self._from
        self._from = self.position

    def _given(self, context: OperatorContext) -> Iterator[object]:
        io = context.target_io
        if not isinstance(io, SparkTaskIo):
            raise NotOnSparkError(
                f"{context.operator_name!r} reads from Spark, so its program runs on Spark only: leave the "
                "configuration's execution.target unset, or set it to 'spark'"
            )
        for partition, batch in io.input.batches_of(self._number):
            self._settle()
            self._partition = context.task.subtask_index if partition is None else partition
            records = self._read(batch)
            if self._is_summed or (not self._is_ordered and self._left.get(self._partition)):
                records = self._summed(self._partition, records)
            yield from self._not_emitted(self._partition, records)
        cut_off = [partition for partition in self._cut_off if self._left.get(partition)]
        if cut_off:
            raise _other_records(context.operator_name, min(cut_off), "has fewer")

    def _converted(self, records: Iterable[object]) -> Iterator[object]:
        """Records as they come, as their declared type has them."""
        return iter(records) if self._type_info is None else map(partial(convert, self._type_info.codec), records)

    def _summed(self, partition: int, records: Iterator[object]) -> Iterator[object]:
        to_bytes = pickle.dumps if self._type_info is None else self._type_info.codec.serialize
        total = self._sums.get(partition, 0)
        for record in records:
            self._sums[partition] = total = crc32(to_bytes(record), total)
            yield record

    def _not_emitted(self, partition: int, records: Iterator[object]) -> Iterator[object]:
        counted = left = self._left.pop(partition, 0)
        while left and next(records, records) is not records:
            left -= 1
        if left:  # they are in the batches that follow
            self._left[partition] = left
            self._cut_off.add(partition)
        elif counted and not self._is_ordered and self._sums[partition] != self._expected[partition]:
            has = "has" if self._expected[partition] is not None else "has perhaps"
            raise _other_records(self.context.operator_name, partition, has)
        return records


class NotOnSparkError(RuntimeError):
    """Another target than Spark runs the program; the next attempt would be no other."""

    can_restart = False


class OtherInputError(RuntimeError):
    """Input of Spark's is not what was read before the job began again; it will not be the next time either."""

    can_restart = False


def _other_records(name: str, partition: int, has: str) -> OtherInputError:
    return OtherInputError(
        f"partition {partition} of what {name!r} reads {has} other records, or the same in another order, than before "
        "the job began again from a checkpoint: which of them were read before is not known. Behind a shuffle (a join, "
        "groupBy, repartition) Spark gives rows in any order: sort the partitions by all that tells rows apart "
        "(df.sortWithinPartitions), or write them to files and read these"
    )


class EndTogether(SplitEnumerator):
    """Lets the subtasks end once all of them have emitted all that Spark gave them."""

    def __init__(self, context: EnumeratorContext) -> None:
        self._context = context
        self._ended: set[int] = set()

    def add_reader(self, subtask_index: int) -> None:
        """One runs; perhaps again, and what it told before counts no more."""
        self._ended.discard(subtask_index)

    def handle_source_event(self, subtask_index: int, event: object) -> None:
        """One has come to its end."""
        self._ended.add(subtask_index)
        if len(self._ended) == self._context.parallelism:
            for subtask in self._context.registered_readers:
                self._context.signal_no_more_splits(subtask)

    def snapshot_state(self, checkpoint_id: int) -> object:
        """Keep nothing: after a restart all of them come to their end again, and say so."""
        return None


class _EndTogetherSource(Source):
    """What a `SourceCoordinator` makes an enumerator with."""

    def create_enumerator(self, context: EnumeratorContext) -> EndTogether:
        return EndTogether(context)


class SparkSourceFactory:
    """What ``env.from_rdd`` puts into the graph. The RDD stays with the program: no copy of this has it.

    Attributes
    ----------
    data : RDD or None
        None in the processes of task managers, which get its records from Spark.
    number : int
        Tells the sources of a program apart.
    read : ArrowRows, ArrowBatches or None
        Makes records of what the RDD holds; None: it holds records.
    is_ordered : bool
        Whether each partition has the same records in the same order whenever it is computed.
    """

    reads_spark = True

    def __init__(
        self, data: RDD[object], type_info: TypeInformation | None, read: ArrowRows | ArrowBatches | None = None
    ) -> None:
        self.data: RDD[object] | None = data
        self.type_info = type_info
        self.read: ArrowRows | ArrowBatches | None = read
        self.is_ordered = has_fixed_order(data)
        self.partition_count = data.getNumPartitions()
        self.number = next(_numbers)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "data": None}

    def __call__(self) -> SparkSourceOperator:
        """Make the operator of one subtask."""
        unit = BATCHES if isinstance(self.read, ArrowBatches) else RECORDS
        return SparkSourceOperator(self.number, self.type_info, self.read, self.is_ordered, self.partition_count, unit)

    def of_batches(self, wanted: object, max_rows: int, max_bytes: int) -> tuple[SparkSourceFactory, object] | None:
        """Return what makes a source of whole batches, and their schema; None: the RDD holds no batches.

        The batches are those that Spark has made, whatever is wanted of them.
        """
        if not isinstance(self.read, ArrowRows):
            return None
        assert self.data is not None, "asked for in the program alone"
        return SparkSourceFactory(self.data, None, ArrowBatches(self.read.schema)), self.read.schema

    def create_coordinator(
        self, parallelism: int, clock: Clock, store: CoordinatorStore, report_failure: Callable[[BaseException], None]
    ) -> SourceCoordinator:
        """Make what all its subtasks tell that they have come to their end."""
        source = _EndTogetherSource()
        return SourceCoordinator(source, parallelism, clock, store, report_failure)


def from_rdd(env: StreamExecutionEnvironment, data: object, type_info: object = None) -> DataStream:
    """Make a stream of an RDD's records; see ``StreamExecutionEnvironment.from_rdd``."""
    return _stream_of(env, _checked_rdd(data), declared(type_info), RDD_SOURCE_NAME)


def from_data_frame(env: StreamExecutionEnvironment, data: DataFrame) -> DataStream:
    """Make a stream of a DataFrame's rows; see ``StreamExecutionEnvironment.from_data_frame``."""
    from flinkbuf.spark.frames.schema import from_spark_rows  # brings pyspark

    check_is_data_frame(data, "from_data_frame")
    type_info = from_spark_rows(data.schema)
    found = arrow_input(data, type_info)
    if found is None:
        return _stream_of(env, data.rdd, type_info, DATA_FRAME_SOURCE_NAME)
    messages, read = found
    return _stream_of(env, messages, type_info, DATA_FRAME_SOURCE_NAME, read)


def _stream_of(
    env: StreamExecutionEnvironment,
    data: RDD[object],
    type_info: TypeInformation | None,
    name: str,
    read: ArrowRows | None = None,
) -> DataStream:
    stream: DataStream = env._source(name, type_info, SparkSourceFactory(data, type_info, read), is_parallel=True)
    is_said = env._configuration.contains_key(options.PARALLELISM.key)
    most = env.get_parallelism() if is_said else data.context.defaultParallelism  # as many as Spark has cores
    return stream.set_parallelism(max(1, min(data.getNumPartitions(), most)))


def _checked_rdd(data: object) -> RDD[object]:
    from pyspark import RDD

    if isinstance(data, RDD):
        return data
    advice = "; a DataFrame goes to from_data_frame" if hasattr(data, "schema") else ""
    raise TypeError(f"from_rdd takes an RDD, got {type(data).__module__}.{type(data).__qualname__}{advice}")


def check_is_data_frame(data: object, method: str) -> None:
    """Refuse what is no DataFrame of this process, for the method that was given it."""
    module = type(data).__module__
    if module.startswith("pyspark.sql.connect"):
        raise TypeError(
            f"{method} takes the DataFrame of a program that runs in Spark's driver; this one is of a Spark "
            "Connect client, which the tasks of a job cannot reach: run the program with spark-submit, or write the "
            "DataFrame to files and read these with from_source(FileSource...)"
        )
    if not (module.startswith("pyspark.sql") and hasattr(type(data), "rdd") and hasattr(data, "schema")):
        advice = "; an RDD goes to from_rdd" if hasattr(data, "mapPartitions") else ""
        raise TypeError(f"{method} takes a DataFrame of pyspark, got {module}.{type(data).__qualname__}{advice}")
