"""What a source is made of: splits, an enumerator that gives them out, and readers that read them.

Flink: FLIP-27, org.apache.flink.api.connector.source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from flinkbuf._core.operators.source_operator import ReaderOutput
from flinkbuf.streaming.chain.operator_config import TaskInfo
from flinkbuf.streaming.time.processing_time import ProcessingTimeService

if TYPE_CHECKING:
    from flinkbuf.metrics import MetricGroup
    from flinkbuf.streaming.chain.runtime_context import RuntimeContext

__all__ = [
    "Boundedness",
    "EnumeratorContext",
    "ReaderContext",
    "Source",
    "SourceReader",
    "SplitEnumerator",
]


class Boundedness(Enum):
    """Whether a source comes to an end by itself. Flink: Boundedness."""

    BOUNDED = "BOUNDED"
    CONTINUOUS_UNBOUNDED = "CONTINUOUS_UNBOUNDED"


class SourceSplit(Protocol):
    """A part of a source that one reader reads."""

    @property
    def split_id(self) -> str:
        """Return the name that no other split of the source has."""
        ...


class Source:
    """Where records come from: ``env.from_source(source, watermark_strategy, name)``.

    It is pickled. A job has one enumerator of it, and a reader in each subtask. A split is any object that can be
    pickled and has a ``split_id``, a string that no other split of the source has.
    """

    boundedness: Boundedness = Boundedness.BOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Make the enumerator, which gives out the splits."""
        raise NotImplementedError(f"{type(self).__name__}.create_enumerator")

    def restore_enumerator(self, context: EnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        """Make an enumerator that goes on from what an enumerator's snapshot_state gave."""
        raise NotImplementedError(f"{type(self).__name__}.restore_enumerator")

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Make the reader of one subtask."""
        raise NotImplementedError(f"{type(self).__name__}.create_reader")


class EnumeratorContext(Protocol):
    """What an enumerator may do. Flink: SplitEnumeratorContext."""

    @property
    def parallelism(self) -> int:
        """Return how many subtasks read."""
        ...

    @property
    def registered_readers(self) -> frozenset[int]:
        """Return the subtasks whose readers run."""
        ...

    def assign_split(self, split: SourceSplit, subtask_index: int) -> None:
        """Give a split to a reader that is registered."""
        ...

    def assign_splits(self, assignment: Mapping[int, Sequence[SourceSplit]]) -> None:
        """Give splits to several readers."""
        ...

    def signal_no_more_splits(self, subtask_index: int) -> None:
        """Tell a reader that it gets no split any more: it ends after the splits that it has."""
        ...

    def send_event_to_source_reader(self, subtask_index: int, event: object) -> None:
        """Send an event of the source's own to a reader."""
        ...

    def call_async(
        self,
        work: Callable[[], object],
        handler: Callable[[Any, BaseException | None], None],
        initial_delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> None:
        """Do what takes long on another thread; then ``handler(result, error)`` as one of the enumerator's calls.

        With `period_ms` it is done again so long after each beginning, for as long as the job runs.
        """
        ...

    def call(self, handler: Callable[[], None]) -> None:
        """Do something as one of the enumerator's calls, on the calling thread; nothing once the source is closed."""
        ...

    def request_checkpoint(self) -> None:
        """Have the job take a checkpoint soon, besides those of its interval; returns at once."""
        ...


class SplitEnumerator:
    """Finds the splits and decides who reads which; one call at a time. Flink: SplitEnumerator."""

    def start(self) -> None:
        """Begin; no reader is registered yet."""

    def add_reader(self, subtask_index: int) -> None:
        """Note that a reader has started."""

    def handle_split_request(self, subtask_index: int, host: str | None) -> None:
        """Handle the request of a reader without splits; `host` is where it runs, if it told."""

    def add_splits_back(self, splits: Sequence[Any], subtask_index: int) -> None:
        """Take splits back from a failed reader: they were in no complete checkpoint."""

    def handle_source_event(self, subtask_index: int, event: Any) -> None:
        """Handle an event of the source's own, from a reader."""

    def snapshot_state(self, checkpoint_id: int) -> object:
        """Return all that is not yet assigned."""
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Note that a checkpoint is complete."""

    def close(self) -> None:
        """Free what was opened; called once."""


@dataclass(frozen=True)
class ReaderContext:
    """The surroundings of a reader, and what it may do. Flink: SourceReaderContext."""

    task: TaskInfo
    processing_time: ProcessingTimeService
    wake: Callable[[], None]
    """From any thread: there is something to poll again."""
    send_split_request: Callable[[], None]
    """Ask the enumerator for a split."""
    send_source_event: Callable[[object], None]
    """Send something of the source's own to the enumerator."""
    metrics: MetricGroup | None = None
    runtime_context: RuntimeContext | None = None

    @property
    def subtask_index(self) -> int:
        """Return which of the subtasks the reader belongs to, from 0."""
        return self.task.subtask_index

    @property
    def parallelism(self) -> int:
        """Return how many subtasks read."""
        return self.task.parallelism


class SourceReader:
    """Reads the splits of one subtask; everything on the task's thread. Flink: SourceReader.

    Attributes
    ----------
    has_split_outputs : bool
        Whether it emits each split's records into ``output.create_output_for_split(split.split_id)``, and releases that
        at the split's end. The outputs are made when splits come then: a split that was not begun yet holds event time
        back, so that its records are not late.
    """

    has_split_outputs = False

    def start(self) -> None:
        """Begin; splits that a snapshot held were added before."""

    def poll_next(self, output: ReaderOutput) -> int:
        """Emit what there is without waiting, one record or more until ``output.is_turn_over``.

        Returns
        -------
        InputStatus
            NOTHING_AVAILABLE: it is polled again after ``context.wake()``, or when splits or events have come.
        """
        raise NotImplementedError(f"{type(self).__name__}.poll_next")

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Take more splits to read."""

    def notify_no_more_splits(self) -> None:
        """Note that no split comes any more."""

    def handle_source_event(self, event: Any) -> None:
        """Handle an event of the source's own, from the enumerator."""

    def pause_or_resume_splits(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> None:
        """Read on from splits only that are not too far ahead in event time."""
        raise NotImplementedError(
            f"{type(self).__name__} reads several splits at once and cannot pause one that is ahead of the others; "
            "set pipeline.watermark-alignment.allow-unaligned-source-splits to let it read on"
        )

    def snapshot_state(self, checkpoint_id: int) -> Sequence[object]:
        """Return all splits that are not read to their end, so that each goes on where it is now."""
        return []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Note that a checkpoint is complete."""

    def close(self) -> None:
        """Free what was opened; called once, also after a failure."""
