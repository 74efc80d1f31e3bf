"""The source of a job that reads a query: its readers take micro-batches from Spark's tasks, each as one epoch.

What counts is decided elsewhere (`epochs`); here the job's side of it is done. The enumerator knows which epochs are
sealed, which is its state in checkpoints, and is told of it by the program that has the query (`query_feed`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

from flinkbuf.config import TlsConfig
from flinkbuf.spark.frames.arrow_input import ArrowBatches, ArrowRows
from flinkbuf.spark.stage.driver_address import address_towards
from flinkbuf.spark.streams.epochs import (
    CheckpointCompleted,
    EpochEmitted,
    JobBegan,
    JobLeft,
    Message,
    Part,
    ReaderCame,
    ReaderPlace,
    SealEpoch,
    SnapshotTaken,
    TakenEpochs,
)
from flinkbuf.spark.streams.received_parts import MemoryBudget, PartRows, StoredBatch
from flinkbuf.spark.streams.rows_receiver import RowsReceiver
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.sources.reader_output import EventTimeOutput
from flinkbuf.streaming.sources.source import (
    Boundedness,
    EnumeratorContext,
    ReaderContext,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flinkbuf.streaming.sources.source_coordinator import CoordinatorStore, SourceCoordinator
from flinkbuf.streaming.sources.source_factories import SourceOperatorFactory
from flinkbuf.streaming.sources.source_operator import SourceOperator
from flinkbuf.streaming.time.clock import Clock

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkbuf._core.operators.source_operator import ReaderOutput


class EpochFeed(Protocol):
    """The program's side of a query that a job reads."""

    @property
    def key(self) -> bytes:
        """Return what the secrets of the source's readers are derived from."""
        ...

    @property
    def tls(self) -> TlsConfig | None:
        """Return how connections are encrypted, if they are."""
        ...

    @property
    def hosts(self) -> tuple[str, str | None]:
        """Return the driver's address, and where tasks listen if that was said."""
        ...

    def attach(self, enumerator: EpochEnumerator) -> None:
        """Have a job read the query."""
        ...

    def detach(self, enumerator: EpochEnumerator) -> None:
        """The job begins again, or ends."""
        ...

    def next_generation(self) -> int:
        """Return a number for a beginning of the job."""
        ...

    def tell(self, message: Message) -> None:
        """Tell what has happened; returns at once."""
        ...

    def end(self) -> None:
        """The job is over for good: end the query."""
        ...


# ---- what the enumerator and its readers say to each other


@dataclass(frozen=True)
class ListenAt:
    """To a reader: take rows, at an address that is reached from where the driver is.

    Attributes
    ----------
    driver_host : str
    bind_host : str or None
        Where to listen, if that is another address.
    """

    driver_host: str
    bind_host: str | None


@dataclass(frozen=True)
class EpochSealed:
    """To a reader: these parts of a run are an epoch."""

    epoch: int
    run: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class RestOfPart:
    """What of a part was not emitted when a checkpoint was taken: a split of the source, which has its rows with it.

    Attributes
    ----------
    split_id : str
    epoch, partition : int
    batches : tuple of StoredBatch
    skipped : int
        Rows of the first batch that were emitted.
    """

    split_id: str
    epoch: int
    partition: int
    batches: tuple[StoredBatch, ...]
    skipped: int


# ---- a subtask's reader


@dataclass
class _QueuedPart:
    """Rows to emit; so many of them were emitted before."""

    epoch: int
    partition: int
    rows: PartRows
    skipped: int = 0


@dataclass(frozen=True)
class _EpochEnd:
    epoch: int
    has_rows: bool


class EpochReader(SourceReader):
    """Emits sealed epochs, one after the other, each partition's rows in their order.

    Event time moves at the end of an epoch alone, as in Spark: the partitions of one come one after the other, and none
    of their rows is late because of another partition. A reader that has no row of an epoch is idle until it has.

    Parameters
    ----------
    context : ReaderContext
    source : EpochSource
    """

    def __init__(self, context: ReaderContext, source: EpochSource) -> None:
        self._context = context
        self._source = source
        self._budget = MemoryBudget()
        self._receiver: RowsReceiver | None = None
        self._queue: deque[_QueuedPart | _EpochEnd] = deque()
        self._part: _QueuedPart | None = None
        self._iterator: Iterator[object] | None = None
        self._output: ReaderOutput | None = None
        self._count_before = 0  # of the output, when the part was begun
        self._taken_rows = 0  # of the part, where batches are emitted
        self._has_no_more = False

    def handle_source_event(self, event: object) -> None:
        """Begin to take rows, or queue an epoch."""
        if isinstance(event, ListenAt):
            self._listen(event)
        elif isinstance(event, EpochSealed):
            assert self._receiver is not None, "it has told where it takes rows"
            sealed = self._receiver.seal(event.run, event.parts)
            self._queue.extend(_QueuedPart(event.epoch, part.partition, rows) for part, rows in sealed)
            self._queue.append(_EpochEnd(event.epoch, bool(sealed)))

    def _listen(self, event: ListenAt) -> None:
        host = address_towards(event.driver_host)
        source = self._source
        self._receiver = RowsReceiver(event.bind_host or host, host, source.key, self._budget, source.tls)
        place = ReaderPlace(self._context.subtask_index, self._receiver.token, *self._receiver.address)
        self._context.send_source_event(ReaderCame(place))

    def add_splits(self, splits: Sequence[RestOfPart]) -> None:
        """Queue what a checkpoint has of epochs that were not emitted whole."""
        in_order = sorted(splits, key=lambda rest: (rest.epoch, rest.partition))
        for epoch, parts in groupby(in_order, key=lambda rest: rest.epoch):
            for rest in parts:
                rows = PartRows(self._budget, rest.batches)
                self._queue.append(_QueuedPart(epoch, rest.partition, rows, rest.skipped))
            self._queue.append(_EpochEnd(epoch, has_rows=True))

    def notify_no_more_splits(self) -> None:
        """End after the epochs that are there."""
        self._has_no_more = True

    def poll_next(self, output: ReaderOutput) -> int:
        """Emit from the part in hand, or begin the next one."""
        if self._iterator is None:
            if not self._queue:
                return InputStatus.END_OF_INPUT if self._has_no_more else InputStatus.NOTHING_AVAILABLE
            self._begin_next(output)
            return InputStatus.MORE_AVAILABLE
        if not self._output.collect_from(self._iterator):  # type: ignore[union-attr]
            self._end_part()
        return InputStatus.MORE_AVAILABLE

    def _begin_next(self, output: ReaderOutput) -> None:
        entry = self._queue.popleft()
        if isinstance(entry, _EpochEnd):
            if isinstance(output, EventTimeOutput):
                if entry.has_rows:
                    output.emit_periodically()
                else:
                    output.mark_idle()
            self._context.send_source_event(EpochEmitted(self._context.subtask_index, entry.epoch))
            return
        self._part = entry
        self._output = output.main if isinstance(output, EventTimeOutput) else output
        self._count_before, self._taken_rows = self._output.count, 0
        self._iterator = self._rows_of(entry)

    def _rows_of(self, part: _QueuedPart) -> Iterator[object]:
        batches = _read(self._source.rows, part)
        if not self._source.as_batches:
            return self._source.rows.records(batches)
        return self._counted(batches)

    def _counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._taken_rows += batch.num_rows
            yield batch

    def _end_part(self) -> None:
        part, self._part, self._iterator, self._output = self._part, None, None, None
        if part is not None:
            part.rows.close()

    def snapshot_state(self, checkpoint_id: int) -> list[RestOfPart]:
        """Keep the rows that were sealed and not emitted."""
        rests = []
        if self._part is not None and self._output is not None:
            emitted = self._taken_rows if self._source.as_batches else self._output.count - self._count_before
            rests.append(_rest(self._part, self._part.skipped + emitted))
        rests += [_rest(entry, entry.skipped) for entry in self._queue if isinstance(entry, _QueuedPart)]
        return [rest for rest in rests if rest.batches]

    def pause_or_resume_splits(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> None:
        """Do nothing: there is one part at a time, and the operator waits as a whole."""

    def close(self) -> None:
        """Take no more rows, and free those that are here."""
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.close()
        self._end_part()
        while self._queue:
            entry = self._queue.popleft()
            if isinstance(entry, _QueuedPart):
                entry.rows.close()


def _rest(part: _QueuedPart, emitted: int) -> RestOfPart:
    batches, skipped = tuple(part.rows.batches(emitted)), part.rows.skipped_of_first(emitted)
    return RestOfPart(f"{part.epoch}/{part.partition}", part.epoch, part.partition, batches, skipped)


def _read(rows: EpochRows, part: _QueuedPart) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a part, without the rows that were emitted before."""
    left = part.rows.skipped_of_first(part.skipped)
    for batch in rows.batches(each.message for each in part.rows.batches(part.skipped)):
        yield batch.slice(left) if left else batch
        left = 0


# ---- the enumerator


class EpochEnumerator(SplitEnumerator):
    """Tells the readers which epochs are sealed, and remembers that in checkpoints.

    Parameters
    ----------
    context : EpochCoordinator
    feed : EpochFeed
    taken : TakenEpochs
        What the job has of the query as it begins.
    """

    def __init__(self, context: EpochCoordinator, feed: EpochFeed, taken: TakenEpochs) -> None:
        self._context = context
        self._feed = feed
        self._initial = self._taken = taken
        self._generation = 0
        self._snapshots: dict[int, TakenEpochs] = {}
        self._reset: set[int] = set()  # subtasks that begin again, until all of them do

    def start(self) -> None:
        """Tell the feed of the query that its job begins."""
        self._feed.attach(self)
        self._begin()

    def _begin(self) -> None:
        self._generation = self._feed.next_generation()
        self._feed.tell(JobBegan(self._generation, self._context.parallelism, self._taken))

    def add_reader(self, subtask_index: int) -> None:
        """Have it take rows.

        Raises
        ------
        RuntimeError
            It begins again without the others: the job has to, as a whole, since Spark repeats a batch as a whole.
        """
        if self._reset:
            raise RuntimeError(
                "some subtasks of the source begin again, and others go on: a micro-batch is repeated for all of them, "
                "so all begin again"
            )
        self._context.send_event_to_source_reader(subtask_index, ListenAt(*self._feed.hosts))

    def reader_reset(self, subtask_index: int, checkpoint_id: int | None) -> None:
        """Note that a subtask goes back to a checkpoint, None: to the beginning."""
        if not self._reset:
            self._generation = self._feed.next_generation()
            self._taken = self._initial if checkpoint_id is None else self._snapshots.get(checkpoint_id, self._initial)
            self._feed.tell(JobLeft())
        self._reset.add(subtask_index)
        if len(self._reset) == self._context.parallelism:
            self._reset.clear()
            self._begin()

    def handle_source_event(self, subtask_index: int, event: Any) -> None:
        """Pass on what a reader says: where it takes rows, or that it has emitted an epoch."""
        self._feed.tell(event)

    def snapshot_state(self, checkpoint_id: int) -> TakenEpochs:
        """Return which epochs are sealed."""
        self._snapshots[checkpoint_id] = self._taken
        self._feed.tell(SnapshotTaken(checkpoint_id, self._taken))
        return self._taken

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Note that a checkpoint is complete."""
        self._snapshots = {key: taken for key, taken in self._snapshots.items() if key >= checkpoint_id}
        self._feed.tell(CheckpointCompleted(checkpoint_id))

    def close(self) -> None:
        """The job begins again, or ends."""
        self._feed.detach(self)
        self._feed.tell(JobLeft())

    # ---- called by the feed, on its own thread

    def seal(self, order: SealEpoch) -> None:
        """Tell the readers which parts are the epoch, unless they have gone back since that was decided."""

        def tell() -> None:
            if order.generation != self._generation or self._reset:
                return
            self._taken = order.taken
            for subtask in range(self._context.parallelism):
                parts = tuple(part for part in order.parts if part.subtask == subtask)
                event = EpochSealed(order.taken.last, order.run, parts)
                self._context.send_event_to_source_reader(subtask, event)

        self._context.call(tell)

    def end_input(self) -> None:
        """Tell the readers that nothing follows."""

        def tell() -> None:
            for subtask in self._context.registered_readers:
                self._context.signal_no_more_splits(subtask)

        self._context.call(tell)

    def request_checkpoint(self) -> None:
        """Have the job take a checkpoint."""
        self._context.request_checkpoint()

    def fail(self, error: Exception) -> None:
        """Have the job fail."""

        def raise_it(result: object, nothing: BaseException | None) -> None:
            raise error

        self._context.call_async(bool, raise_it)


class EpochCoordinator(SourceCoordinator):
    """The coordinator of such a source: its enumerator is told of subtasks that begin again."""

    def reset_reader(self, subtask_index: int, checkpoint_id: int | None) -> None:
        """Take a failed subtask back to a checkpoint."""
        with self._lock:
            super().reset_reader(subtask_index, checkpoint_id)
            enumerator = self._started()
            assert isinstance(enumerator, EpochEnumerator), "its source makes no other"
            enumerator.reader_reset(subtask_index, checkpoint_id)


# ---- the source


@dataclass(frozen=True)
class EpochRows:
    """How rows are read that come as messages of Arrow.

    Attributes
    ----------
    read : ArrowRows or ArrowBatches
        For records; or for batches, whose instants stay instants.
    """

    read: ArrowRows | ArrowBatches

    def batches(self, messages: Iterable[bytes]) -> Iterator[Any]:
        """Yield the batches in messages."""
        if isinstance(self.read, ArrowRows):
            return self.read.batches(messages)
        return self.read(messages)

    def records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[object]:
        """Return the rows of batches as records."""
        from flinkbuf.records.arrow_batches import records_of

        assert isinstance(self.read, ArrowRows), "the source emits records"
        return records_of(batches, self.read.type.codec)


class EpochSource(Source):
    """What ``env.from_streaming_data_frame`` reads. The query stays with the program: no copy of this has it.

    Parameters
    ----------
    feed : EpochFeed
    read : ArrowRows or ArrowBatches
    """

    boundedness = Boundedness.CONTINUOUS_UNBOUNDED

    def __init__(self, feed: EpochFeed, read: ArrowRows | ArrowBatches) -> None:
        self._feed: EpochFeed | None = feed
        self.rows = EpochRows(read)
        self.key = feed.key
        self.tls: TlsConfig | None = None

    def __getstate__(self) -> dict[str, object]:
        # Settings of TLS may have been made after the source was.
        tls = self.tls if self._feed is None else self._feed.tls
        return {**vars(self), "_feed": None, "tls": tls}

    @property
    def as_batches(self) -> bool:
        """Whether its records are whole batches."""
        return isinstance(self.rows.read, ArrowBatches)

    @property
    def feed(self) -> EpochFeed:
        """Return the query's side.

        Raises
        ------
        RuntimeError
            This is a copy, in another program than that of the query.
        """
        if self._feed is None:
            raise RuntimeError(
                "a job that reads a query of Spark goes on in the program that has the query: run that program again"
            )
        return self._feed

    def get_produced_type(self) -> Any:
        """Return the type of its records; None: they are batches."""
        return self.rows.read.type if isinstance(self.rows.read, ArrowRows) else None

    def of_batches(self, wanted: object, max_rows: int, max_bytes: int) -> tuple[EpochSource, pa.Schema]:
        """Return a source of the batches that Spark has made, and their schema, whatever is wanted of them."""
        schema = self.rows.read.schema
        return EpochSource(self.feed, ArrowBatches(schema)), schema

    def create_enumerator(self, context: EnumeratorContext) -> EpochEnumerator:
        """Begin with the query's first batch."""
        return self.restore_enumerator(context, TakenEpochs())

    def restore_enumerator(self, context: EnumeratorContext, checkpoint: TakenEpochs) -> EpochEnumerator:
        """Go on behind the epochs that a checkpoint has."""
        assert isinstance(context, EpochCoordinator), "its factory makes no other"
        return EpochEnumerator(context, self.feed, checkpoint)

    def create_reader(self, context: ReaderContext) -> EpochReader:
        """Make the reader of one subtask."""
        return EpochReader(context, self)


class EpochSourceOperator(SourceOperator):
    """The operator around an `EpochReader`, which says itself when event time moves."""

    def watermark_interval_ms(self) -> int:
        """Return 0: never by the clock."""
        return 0


@dataclass(frozen=True)
class EpochSourceFactory(SourceOperatorFactory):
    """What ``env.from_streaming_data_frame`` puts into the graph."""

    why_checkpoints = (
        "a batch of the query ends when a checkpoint of the job that holds it is complete: call "
        "env.enable_checkpointing(milliseconds) before"
    )
    query_slots = 1  # of Spark; with fewer than it has partitions its tasks come one after the other

    def __call__(self) -> EpochSourceOperator:
        """Make the operator of one subtask."""
        return EpochSourceOperator(self.source, self.watermark_strategy)

    def create_coordinator(
        self, parallelism: int, clock: Clock, store: CoordinatorStore, report_failure: Callable[[BaseException], None]
    ) -> EpochCoordinator:
        """Make the coordinator of all subtasks' operators."""
        alignment = None if self.watermark_strategy is None else self.watermark_strategy.alignment
        return EpochCoordinator(self.source, parallelism, clock, store, report_failure, alignment)

    def end(self, error: BaseException | None) -> None:
        """The job is over for good: end the query."""
        assert isinstance(self.source, EpochSource), "it has no other"
        self.source.feed.end()
