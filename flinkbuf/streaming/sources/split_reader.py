"""The common shape of sources: splits that are there or are looked for, and readers that read one after the other.

Flink: IteratorSourceEnumerator, IteratorSourceReaderBase, SimpleSplitAssigner, ContinuousFileSplitEnumerator.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from flinkbuf._core.operators.source_operator import ReaderOutput
from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.sources.source import EnumeratorContext, ReaderContext, SourceReader, SplitEnumerator

if TYPE_CHECKING:
    import pyarrow

    from flinkbuf.streaming.sources.source import SourceSplit


_END = object()


def rows_missing(place: str, read: int, missing: int) -> CorruptDataError:
    """Return the error of a split with fewer rows than were read of it before a restore."""
    return CorruptDataError(
        f"{place}: {read} rows were read of it before the job began again, and now there are {read - missing}: another "
        "file is in its place"
    )


def records_behind(records: Iterator[object], skipped: int, place: str) -> Iterator[object]:
    """Return records behind the first ones, which a restored split had read already.

    Raises
    ------
    CorruptDataError
        If there are not so many.
    """
    for number in range(skipped):
        if next(records, _END) is _END:
            raise rows_missing(place, skipped, skipped - number)
    return records


def rows_behind(batches: Iterable[pyarrow.RecordBatch], skipped: int, place: str) -> Iterator[pyarrow.RecordBatch]:
    """Yield batches without the first rows, which a restored split had read already.

    Raises
    ------
    CorruptDataError
        If there are not so many.
    """
    left = skipped
    for batch in batches:
        rest = batch.slice(left)
        left -= batch.num_rows - rest.num_rows
        if rest.num_rows:
            yield rest
    if left:
        raise rows_missing(place, skipped, left)


class QueueEnumerator(SplitEnumerator):
    """Gives the splits of a bounded source to the reader that asks first.

    Parameters
    ----------
    context : EnumeratorContext
    splits : iterable
        In the order in which they are given out.
    """

    def __init__(self, context: EnumeratorContext, splits: Iterable[SourceSplit]) -> None:
        self._context = context
        self._splits = deque(splits)

    def handle_split_request(self, subtask_index: int, host: str | None) -> None:
        """Give the next split, or say that there is none."""
        if self._splits:
            self._context.assign_split(self._splits.popleft(), subtask_index)
        else:
            self._context.signal_no_more_splits(subtask_index)

    def add_splits_back(self, splits: Sequence[SourceSplit], subtask_index: int) -> None:
        """Give these splits out next."""
        self._splits.extendleft(reversed(splits))

    def snapshot_state(self, checkpoint_id: int) -> list[SourceSplit]:
        """Return the splits not assigned yet."""
        return list(self._splits)


class WatchingEnumerator(SplitEnumerator):
    """Looks for splits in intervals; readers wait while there is nothing to do. A subclass says which splits are new.

    Parameters
    ----------
    context : EnumeratorContext
    look : callable
        Returns what there is; called on another thread but for the first time.
    interval_ms : int
    splits : iterable, optional
        Those that are known already.
    """

    def __init__(
        self,
        context: EnumeratorContext,
        look: Callable[[], Any],
        interval_ms: int,
        splits: Iterable[SourceSplit] = (),
    ) -> None:
        self._context = context
        self._look = look
        self._interval_ms = interval_ms
        self._splits = deque(splits)
        self._waiting: deque[int] = deque()  # readers that have nothing to do

    @abstractmethod
    def new_splits(self, found: Any) -> Iterable[SourceSplit]:
        """Return the splits that were not there before."""

    def start(self) -> None:
        """Look now, so that what is wrong ends the job at once, and then at each interval."""
        self.handle_found(self._look(), None)
        self._context.call_async(self._look, self.handle_found, self._interval_ms, self._interval_ms)

    def handle_found(self, found: Any, error: BaseException | None) -> None:
        """Add what is new, and give it to readers that wait."""
        if error is not None:
            raise error
        self._splits.extend(self.new_splits(found))
        self._give()

    def handle_split_request(self, subtask_index: int, host: str | None) -> None:
        """Give the next split, or remember the reader."""
        self._waiting.append(subtask_index)
        self._give()

    def add_splits_back(self, splits: Sequence[SourceSplit], subtask_index: int) -> None:
        """Give these splits out next, and not to the reader that failed."""
        self._splits.extendleft(reversed(splits))
        self._waiting = deque(waiting for waiting in self._waiting if waiting != subtask_index)
        self._give()

    def _give(self) -> None:
        # One that failed while it waited asks again when it is back.
        self._waiting = deque(each for each in self._waiting if each in self._context.registered_readers)
        while self._splits and self._waiting:
            self._context.assign_split(self._splits.popleft(), self._waiting.popleft())


class SplitReader(SourceReader):
    """Reads one split after the other and asks for the next; a subclass says how a split is read.

    An iterator of `open_split` that raises ends the job; its ``close``, if it has one, is called at the end or when the
    task ends before.
    """

    def __init__(self, context: ReaderContext) -> None:
        self._context = context
        self._waiting: deque[SourceSplit] = deque()
        self._split: SourceSplit | None = None
        self._iterator: Iterator[object] | None = None
        self._output: ReaderOutput | None = None
        self._count_before = 0  # of the output, when the split was begun
        self._has_no_more = False

    has_split_outputs = True

    def open_split(self, split: Any) -> Iterator[object]:
        """Return the records of a split."""
        raise NotImplementedError(f"{type(self).__name__}.open_split")

    def split_after(self, split: Any, record_count: int) -> SourceSplit:
        """Return the split without its first records, for a snapshot."""
        raise NotImplementedError(f"{type(self).__name__}.split_after")

    def start(self) -> None:
        """Ask for the first split, unless a snapshot held some."""
        if not self._waiting:
            self._context.send_split_request()

    def add_splits(self, splits: Sequence[SourceSplit]) -> None:
        """Take more splits to read."""
        self._waiting.extend(splits)

    def notify_no_more_splits(self) -> None:
        """End after the splits that are there."""
        self._has_no_more = True

    def poll_next(self, output: ReaderOutput) -> int:
        """Emit from the split in hand until the turn is over or the split is."""
        if self._iterator is None and not self._begin_split(output):
            return InputStatus.END_OF_INPUT if self._has_no_more else InputStatus.NOTHING_AVAILABLE
        if not self._output.collect_from(self._iterator):  # type: ignore[union-attr,arg-type]
            self._end_split(output)
        return InputStatus.MORE_AVAILABLE

    def _begin_split(self, output: ReaderOutput) -> bool:
        if not self._waiting:
            return False
        self._split = self._waiting.popleft()
        self._output = output.create_output_for_split(self._split.split_id)
        self._count_before = self._output.count
        self._iterator = iter(self.open_split(self._split))
        return True

    def _end_split(self, output: ReaderOutput) -> None:
        assert self._split is not None, "it was begun"
        split_id = self._split.split_id
        self._close_iterator()
        output.release_output_for_split(split_id)
        if not self._waiting and not self._has_no_more:
            self._context.send_split_request()

    def _close_iterator(self) -> None:
        iterator, self._iterator = self._iterator, None
        self._split = self._output = None
        if iterator is not None and hasattr(iterator, "close"):
            iterator.close()

    def pause_or_resume_splits(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> None:
        """Do nothing: there is one split at a time, and the operator waits as a whole."""

    def snapshot_state(self, checkpoint_id: int) -> list[SourceSplit]:
        """Return the rest of the split in hand, and the splits that wait."""
        splits = list(self._waiting)
        if self._split is not None and self._output is not None:
            splits.insert(0, self.split_after(self._split, self._output.count - self._count_before))
        return splits

    def close(self) -> None:
        """Close what is open."""
        self._close_iterator()


class BatchReader(SplitReader):
    """Reads splits as batches of columns. It counts what it has read in rows: later batches may be cut otherwise."""

    def __init__(self, context: ReaderContext) -> None:
        super().__init__(context)
        self._row_count = 0  # of the split in hand: what was taken of it was emitted, in the same turn

    def read_batches(self, split: Any) -> Iterator[pyarrow.RecordBatch]:
        """Return the batches of a split."""
        raise NotImplementedError(f"{type(self).__name__}.read_batches")

    def split_behind(self, split: Any, row_count: int) -> SourceSplit:
        """Return the split without its first rows, for a snapshot."""
        raise NotImplementedError(f"{type(self).__name__}.split_behind")

    def open_split(self, split: object) -> Iterator[object]:
        """Return the batches of a split, which are counted as they are taken."""
        self._row_count = 0
        return self._counted(self.read_batches(split))

    def _counted(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            self._row_count += batch.num_rows
            yield batch

    def split_after(self, split: object, record_count: int) -> SourceSplit:
        """Return the split behind the rows that were emitted."""
        return self.split_behind(split, self._row_count)
