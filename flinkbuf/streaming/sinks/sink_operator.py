"""The operators around sinks: a writer and its committer, printed lines, collected records.

Flink: SinkWriterOperator, CommitterOperator, PrintSinkFunction, CollectSinkFunction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flinkbuf._core.operators.sink_operator import SinkFunctionOperator, SinkWriterOperatorBase
from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf._core.record.plain_function import quickened
from flinkbuf._core.value.own_value import copied
from flinkbuf.errors import FlinkbufError
from flinkbuf.log import logger
from flinkbuf.records.column_batch import PageReader, without_dictionaries
from flinkbuf.streaming.chain.by_reference import CannotBeginAgainError
from flinkbuf.streaming.chain.checkpointed_function import FunctionCheckpoints
from flinkbuf.streaming.sinks.collect import CollectedPart, Collector
from flinkbuf.streaming.sinks.print_sink import PrintLines, line_prefix
from flinkbuf.streaming.sinks.sink import (
    CommitRequest,
    CommitState,
    Committer,
    CommitterContext,
    GlobalCommitter,
    Sink,
    SinkWriter,
    WriterContext,
)
from flinkbuf.streaming.sinks.value_text import TextOf
from flinkbuf.streaming.state.state import ListStateDescriptor
from flinkbuf.types.values import Watermark

if TYPE_CHECKING:
    from flinkbuf.streaming.state.operator_state import OperatorStateBackend
    from flinkbuf.streaming.state.snapshot import OperatorSnapshot

WRITER_STATE = "writer_state"
COMMITTABLES_STATE = "committables"
LAST_CHECKPOINT_STATE = "last_checkpoint"
COMMIT_ATTEMPTS = 10  # sink.committer.retries, as many calls of commit() for one request


class PrintSinkOperator(SinkFunctionOperator):
    """Prints each record."""

    def __init__(self, text_of_value: TextOf, sink_identifier: str | None) -> None:
        super().__init__(self._write)
        self._text_of_value = text_of_value
        self._sink_identifier = sink_identifier
        self._lines: PrintLines | None = None

    def open(self) -> None:
        super().open()
        task = self.context.task
        prefix = line_prefix(self._sink_identifier, task.subtask_index, task.parallelism)
        self._lines = PrintLines(prefix, self._text_of_value, self.context.processing_time)

    def _write(self, value: object) -> None:
        self._lines.write(value)  # type: ignore[union-attr]

    def close(self) -> None:
        """Flush the lines, so that those printed before a failure are seen, too."""
        if self._lines is not None:
            self._lines.flush()


class CheckpointedSinkOperator(SinkFunctionOperator):
    """Calls a function object of the user, which may have state and want to hear of checkpoints."""

    def __init__(self, function: Any, lifecycle: object, takes_context: bool = False) -> None:
        super().__init__(function.invoke if takes_context else quickened(function.invoke), lifecycle, takes_context)
        self._checkpoints = FunctionCheckpoints(function)

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Let the function get its state."""
        super().initialize_state(snapshot)
        self._checkpoints.initialize_state(self.context.operator_state, snapshot)

    def snapshot_state(self, checkpoint_id: int) -> OperatorSnapshot:
        """Let the function update its state, and keep it."""
        self._checkpoints.snapshot_state(checkpoint_id)
        return super().snapshot_state(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the function: checkpoint complete."""
        self._checkpoints.notify_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the function: checkpoint aborted."""
        self._checkpoints.notify_aborted(checkpoint_id)


class CollectSinkOperator(SinkFunctionOperator):
    """Hands each record to the program; waits while the program is behind, and runs its mails meanwhile.

    With checkpoints the program is given a record once the checkpoint behind it counts, and so exactly once; if they
    are at least once, at once.
    """

    def __init__(self, collector: Collector, convert: Callable[[object], object] | None = None) -> None:
        super().__init__(self._put)
        self._collector = collector
        self._convert = convert or copied  # the program and the functions of the job never hold the same object
        self._part: CollectedPart | None = None  # None: records do not wait
        self._restored_id: int | None = None

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Get the number of the checkpoint that the job goes on from."""
        super().initialize_state(snapshot)
        self._last = self.context.operator_state.get_alike_list_state(ListStateDescriptor(LAST_CHECKPOINT_STATE, None))
        self._restored_id = max(self._last.get(), default=None)

    def open(self) -> None:
        """Refuse to give records a second time."""
        super().open()
        settings, collector = self.context.settings, self._collector
        if settings.checkpointing_enabled and hasattr(collector, "begin_part"):
            if settings.is_exactly_once:
                self._part = collector.begin_part(self.context.task.subtask_index, self._restored_id)
            else:
                collector.may_repeat = True
        ask = getattr(collector, "why_not_again", None)
        reason = ask() if ask is not None and self.context.task.attempt_number else None
        if reason is not None:
            raise CannotBeginAgainError(f"the job was restarted, but cannot be: {reason}")

    def _put(self, value: object) -> None:
        record = self._convert(value)
        if self._part is None:
            self._collector.put(record, self.context.mailbox.try_yield)
        else:
            self._collector.wait(self.context.mailbox.try_yield)
            self._part.records.append(record)

    def snapshot_state(self, checkpoint_id: int) -> OperatorSnapshot:
        """Hold the records before this checkpoint until it is complete."""
        if self._part is not None:
            self._part.seal(checkpoint_id)
        self._last.update([checkpoint_id])
        return super().snapshot_state(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Give the program the records of the checkpoint."""
        if self._part is not None:
            self._collector.complete_part(self.context.task.subtask_index, self._part, checkpoint_id)


class CollectBatchesOperator(CollectSinkOperator):
    """Hands each batch of a column stream to the program."""

    def __init__(self, collector: Collector) -> None:
        self._pages = PageReader()
        super().__init__(collector, self._batch_of)

    @property
    def rows_in(self) -> int:
        """Return how many rows came; for any thread, as its records are batches."""
        return self._pages.row_count

    def _batch_of(self, value: Any) -> object:
        return copied(without_dictionaries(self._pages.element_of(value).batch))


class PendingCommits:
    """What is still to be committed, each with the checkpoint that it belongs to, in the state of an operator."""

    def __init__(self) -> None:
        self._requests: list[tuple[int, CommitRequest]] = []  # oldest first

    def initialize(self, states: OperatorStateBackend) -> None:
        """Get what was to be committed with the restored checkpoint or one before."""
        self._committables = states.get_list_state(ListStateDescriptor(COMMITTABLES_STATE, None))
        self._last = states.get_alike_list_state(ListStateDescriptor(LAST_CHECKPOINT_STATE, None))

    @property
    def restored_id(self) -> int | None:
        """Return the checkpoint that the job goes on from; to be asked before one is taken."""
        return max(self._last.get(), default=None)

    def restored(self) -> list[CommitRequest]:
        """Return what a restored checkpoint holds: it counts, so all of it is committed."""
        found = sorted(self._committables.get(), key=lambda each: each[0])
        return [CommitRequest(committable, is_restored=True) for _, committable in found]

    def add(self, checkpoint_id: int, requests: Iterable[CommitRequest]) -> None:
        """Have requests wait for a checkpoint."""
        self._requests += [(checkpoint_id, request) for request in requests]

    def keep(self, checkpoint_id: int) -> None:
        """Put all that is not committed into the state."""
        self._committables.update([(belongs_to, request.committable) for belongs_to, request in self._requests])
        self._last.update([checkpoint_id])

    def take_due(self, checkpoint_id: int) -> list[CommitRequest]:
        """Take what belongs to a checkpoint that counts, or to one before whose notice was lost."""
        due = [request for belongs_to, request in self._requests if belongs_to <= checkpoint_id]
        self._requests = [each for each in self._requests if each[0] > checkpoint_id]
        return due

    def take_all(self) -> list[CommitRequest]:
        """Take everything: no checkpoint follows."""
        requests, self._requests = [request for _, request in self._requests], []
        return requests


class SinkWriterOperator(SinkWriterOperatorBase):
    """Writes with a `SinkWriter`; what the writer prepares is committed once it counts.

    With checkpoints that is when the first one that was taken behind it is complete, without when a bounded job ends.
    Writer and committer are one operator, so nothing is between them that could be lost. A sink that commits globally
    has its committer in the operator behind, which is sent what was prepared before the barrier that it belongs to. So
    has every sink in batch, where there is no barrier but the end.

    Parameters
    ----------
    sink : Sink
    is_committed_behind : bool
        The committer is in the operator behind.
    """

    takes_batches = False

    def __init__(self, sink: Sink, is_committed_behind: bool = False) -> None:
        self._sink = sink
        self._is_committed_behind = is_committed_behind
        self._writer: SinkWriter | None = None
        self._committer: Committer | None = None
        self._prepared: list[CommitRequest] = []  # since the last checkpoint was taken
        self._pending = PendingCommits()
        self._has_ended = False

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Get the writer's state, and what was prepared but perhaps not committed."""
        super().initialize_state(snapshot)
        states = self.context.operator_state
        self._writer_states = states.get_list_state(ListStateDescriptor(WRITER_STATE, None))
        self._pending.initialize(states)

    def open(self) -> None:
        """Commit at once what a restored checkpoint holds, since it counts; then make the writer.

        In this order, so that a writer which clears away what earlier attempts have left finds nothing that is still to
        be committed by this subtask.
        """
        self._committer = None if self._is_committed_behind else self._sink.create_committer()
        self._commit(self._pending.restored())
        context, states = self.context, self._writer_states.get()
        writer_context = WriterContext(
            context.task,
            context.processing_time,
            context.mailbox,
            context.metrics,
            self._pending.restored_id,
            context.operator_id,
            self._hand_over if self._is_committed_behind else None,
        )
        if states:
            self._writer = self._sink.restore_writer(writer_context, states)
        else:
            self._writer = self._sink.create_writer(writer_context)
        self.use_writer(self._writer, self.takes_batches)

    def emit_watermark(self, timestamp: int) -> None:
        """Pass the watermark to the writer."""
        super().emit_watermark(timestamp)
        try:
            self._opened_writer().write_watermark(timestamp)
        except BaseException:
            self.note_failure(Watermark(timestamp))
            raise

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Flush the writer: all records written so far belong to this checkpoint."""
        if not self._has_ended:
            self._flush(end_of_input=False)

    def snapshot_state(self, checkpoint_id: int) -> OperatorSnapshot:
        """Keep the writer's state, and all that is not committed; what was prepared waits for this checkpoint."""
        self._pending.add(checkpoint_id, self._prepared)
        self._prepared = []
        self._writer_states.update(self._opened_writer().snapshot_state(checkpoint_id))
        self._pending.keep(checkpoint_id)
        return super().snapshot_state(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit what belongs to this checkpoint, or to one before whose notice was lost."""
        self._commit(self._pending.take_due(checkpoint_id))

    def end_input(self, input_number: int) -> None:
        """Flush the rest at the end: it belongs to the next checkpoint, and to none that was taken before."""
        self._has_ended = True
        self._flush(end_of_input=True)

    def finish(self) -> None:
        """A bounded job has come to its end: if no checkpoint follows, what was written becomes visible now."""
        settings = self.context.settings
        if not (settings.checkpointing_enabled and settings.checkpoints_after_tasks_finish):
            requests = [*self._pending.take_all(), *self._prepared]
            self._prepared = []
            self._commit(requests)

    def _flush(self, end_of_input: bool) -> None:
        writer = self._opened_writer()
        writer.flush(end_of_input)
        for each in writer.prepare_commit():
            if self._is_committed_behind:
                self._hand_over(each)
            else:
                self._prepared.append(CommitRequest(each))

    def _hand_over(self, committable: object) -> None:
        self.output.collect(committable, NO_TIMESTAMP)

    def _opened_writer(self) -> SinkWriter:
        if self._writer is None:
            raise RuntimeError("a sink operator was used before it was opened")
        return self._writer

    def _commit(self, requests: list[CommitRequest]) -> None:
        if self._committer is not None:
            commit_all(self._committer, requests)

    def close(self) -> None:
        """Close both, the committer also if the writer's close fails."""
        try:
            if self._writer is not None:
                self._writer.close()
        finally:
            if self._committer is not None:
                self._committer.close()


class BatchWriterOperator(SinkWriterOperator):
    """Writes the batches of a column stream with a `SinkWriter` that takes batches."""

    takes_batches = True

    def __init__(self, sink: Sink, is_committed_behind: bool = False) -> None:
        super().__init__(sink, is_committed_behind)
        self._pages = PageReader()

    @property
    def rows_in(self) -> int:
        """Return how many rows came; for any thread, as its records are batches."""
        return self._pages.row_count

    def process_element(self, value: Any, timestamp: int) -> None:
        """Give the writer the batch of an element, or of the page of one."""
        element = self._pages.element_of(value)
        self.sink_context.timestamps = element.timestamps
        # Writers keep batches, while a function before them may go on changing the arrays of numpy that it gave.
        super().process_element(copied(without_dictionaries(element.batch)), timestamp)


class CommitterOperator(SinkFunctionOperator):
    """Commits what the writers of a batch job have prepared, when all of that has come, or one by one.

    It begins when all writers have finished. An attempt that begins again gets the same once more, of which the one
    before may have committed some. Flink: CommitterOperator.
    """

    def __init__(self, sink: Sink) -> None:
        super().__init__(self._take)
        self._sink = sink
        self._committer: Committer | None = None
        self._prepared: list[object] = []

    def open(self) -> None:
        """Make the committer."""
        super().open()
        self._committer = self._sink.create_committer()
        self._commits_one_by_one = getattr(
            self._committer, "commits_one_by_one", False
        )  # not all derive from Committer

    def _take(self, committable: object) -> None:
        self._prepared.append(committable)
        if self._commits_one_by_one:
            self._commit()

    def finish(self) -> None:
        """Commit everything."""
        self._commit()

    def _commit(self) -> None:
        prepared, self._prepared = self._prepared, []
        is_restored = self.context.task.attempt_number > 0
        if self._committer is not None:
            commit_all(self._committer, [CommitRequest(each, is_restored) for each in prepared])

    def close(self) -> None:
        """Close the committer."""
        if self._committer is not None:
            self._committer.close()


class GlobalCommitterOperator(SinkFunctionOperator):
    """Commits what the writers of all subtasks prepared, once for each checkpoint; it has one subtask.

    What a writer prepared before a barrier comes before that barrier. Where an unaligned one has overtaken it, it is
    part of the checkpoint as a record on its way, and is committed with the next one.
    """

    def __init__(self, sink: Sink) -> None:
        super().__init__(self._take)
        self._sink = sink
        self._committer: GlobalCommitter | None = None
        self._prepared: list[object] = []  # since the last checkpoint was taken
        self._pending = PendingCommits()
        self._last_id = 0  # the last checkpoint that was taken

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Get what was to be committed with the restored checkpoint or one before."""
        super().initialize_state(snapshot)
        self._pending.initialize(self.context.operator_state)

    def open(self) -> None:
        """Make the committer, and commit at once what a restored checkpoint holds, since it counts."""
        super().open()
        restored_id = self._pending.restored_id
        self._last_id = restored_id or 0
        of = self.context
        context = CommitterContext(of.task, of.metrics, restored_id, of.operator_id, of.settings.checkpointing_enabled)
        self._committer = self._sink.create_global_committer(context)
        commit_all(self._committer, self._pending.restored())

    def _take(self, committable: object) -> None:
        self._prepared.append(committable)

    def snapshot_state(self, checkpoint_id: int) -> OperatorSnapshot:
        """Keep all that is not committed; what came since the last checkpoint waits for this one."""
        self._combine(checkpoint_id)
        self._last_id = checkpoint_id
        self._pending.keep(checkpoint_id)
        return super().snapshot_state(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit what belongs to this checkpoint, or to one before whose notice was lost."""
        commit_all(self._opened_committer(), self._pending.take_due(checkpoint_id))

    def finish(self) -> None:
        """A bounded job has come to its end: if no checkpoint follows, what was written becomes visible now."""
        settings = self.context.settings
        if not (settings.checkpointing_enabled and settings.checkpoints_after_tasks_finish):
            self._combine(self._last_id + 1)
            commit_all(self._opened_committer(), self._pending.take_all())

    def _combine(self, checkpoint_id: int) -> None:
        prepared, self._prepared = self._prepared, []
        if prepared:
            committable = self._opened_committer().combine(prepared, checkpoint_id)
            self._pending.add(checkpoint_id, [CommitRequest(committable)])

    def _opened_committer(self) -> GlobalCommitter:
        if self._committer is None:
            raise RuntimeError("a committer was used before it was opened")
        return self._committer

    def close(self) -> None:
        """Close the committer."""
        if self._committer is not None:
            self._committer.close()


def commit_all(committer: Committer, requests: list[CommitRequest]) -> None:
    """Commit requests until each is committed, or given up by the committer.

    Raises
    ------
    FlinkbufError
        If one could not be committed in `COMMIT_ATTEMPTS` attempts.
    """
    while requests:
        for request in requests:
            request.state = CommitState.PENDING
        committer.commit(requests)
        for request in requests:
            _note_outcome(request)
        requests = [request for request in requests if request.state is CommitState.RETRY]


def _note_outcome(request: CommitRequest) -> None:
    request.attempts += 1
    if request.state is CommitState.FAILED:
        logger.error("%s cannot be committed and is given up: %s", request.committable, request.error)
    elif request.state is CommitState.RETRY and request.attempts >= COMMIT_ATTEMPTS:
        reason = "" if request.error is None else f": {request.error}"
        text = f"{request.committable} could not be committed in {COMMIT_ATTEMPTS} attempts{reason}"
        raise FlinkbufError(text) from request.error
