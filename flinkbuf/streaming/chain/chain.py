"""The operators of one task, in the order in which records come to them, and the order of calls along them.

Flink: OperatorChain, RegularOperatorChain, StreamOperatorWrapper.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from flinkbuf._core.operators.stream_operator import Output, StreamOperator
from flinkbuf._core.task.operator_chain import BroadcastingOutput, ChainingOutput, EdgeOutput, OperatorCounters
from flinkbuf._core.task.record_writer_output import PageOutput, RecordWriterOutput
from flinkbuf.records.column_batch import ColumnTypeInfo
from flinkbuf.records.column_exchange import pages_for
from flinkbuf.records.record_writer import RecordWriter
from flinkbuf.records.small_elements import small_elements_for
from flinkbuf.streaming.chain.accumulators import AccumulatorRegistry
from flinkbuf.streaming.chain.error_location import NO_RECORD, keep_as_context, locate_error
from flinkbuf.streaming.chain.mailbox import MailboxProcessor, OperatorMailboxExecutor
from flinkbuf.streaming.chain.operator_config import (
    ChainConfig,
    ChainedEdge,
    HasLifecycle,
    NetworkEdge,
    OperatorConfig,
    TaskInfo,
)
from flinkbuf.streaming.state.snapshot import OperatorSnapshot
from flinkbuf.streaming.time.processing_time import OperatorTimerService, TaskTimerService

if TYPE_CHECKING:
    from flinkbuf.streaming.chain.operator_context import OperatorContext


@dataclass
class ChainedOperator:
    """One operator with what surrounds it."""

    config: OperatorConfig
    mail_priority: int
    counters: OperatorCounters
    operator: StreamOperator
    output: Output
    edges: list[EdgeOutput]
    processing_time: OperatorTimerService
    mailbox: OperatorMailboxExecutor
    context: OperatorContext
    finished_inputs: set[int] = field(default_factory=set)
    is_closed: bool = False


class ContextMaker(Protocol):
    """Makes the surroundings of one operator: ``flinkbuf.streaming.chain.operator_setup.make_context``."""

    def __call__(
        self,
        *,
        config: OperatorConfig,
        processing_time: object,
        mailbox: object,
        wake: Callable[[], None],
        accumulators: AccumulatorRegistry,
        owns_records: bool,
    ) -> OperatorContext:
        """Return its `OperatorContext`."""
        ...


class OperatorChain:
    """Makes the operators of a task, tail first, and calls them.

    Parameters
    ----------
    info : TaskInfo
    config : ChainConfig
    writers : sequence of RecordWriter
        One a partition of the task.
    processor : MailboxProcessor
    timers : TaskTimerService
    make_context : callable
        See `ContextMaker`.
    wake : callable
        Has the task look for input again; any thread calls it.
    chance : random.Random
        Chooses channels of latency markers.
    reuses_objects : bool, default False
        Whether all ways that a record goes get the same object.
    """

    def __init__(
        self,
        info: TaskInfo,
        config: ChainConfig,
        writers: list[RecordWriter],
        processor: MailboxProcessor,
        timers: TaskTimerService,
        make_context: ContextMaker,
        wake: Callable[[], None],
        chance: random.Random,
        reuses_objects: bool = False,
    ) -> None:
        self.info = info
        self.task_counters = OperatorCounters()
        self.accumulators = AccumulatorRegistry()
        self._located: BaseException | None = None
        self._config = config
        self._writers = writers
        self._processor = processor
        self._timers = timers
        self._make_context = make_context
        self._wake = wake
        self._chance = chance
        self._reuses_objects = reuses_objects
        self._made: dict[int, ChainedOperator] = {}
        self.is_finished = False

    @property
    def operators(self) -> list[ChainedOperator]:
        """Return the operators that were made, head first."""
        return [self._made[index] for index in sorted(self._made)]

    def operator_at(self, index: int) -> ChainedOperator:
        """Return an operator that was made, by its place."""
        return self._made[index]

    @property
    def head(self) -> ChainedOperator:
        """Return the operator that is given the task's input, or makes it."""
        return self._made[0]

    @property
    def made_head(self) -> ChainedOperator | None:
        """Return the head, or None if it was not made yet; for other threads."""
        return self._made.get(0)

    @property
    def is_source(self) -> bool:
        """Return whether the task has no input: its head makes records."""
        return self._config.operators[0].is_source

    # ---- making -----------------------------------------------------------------------------------------

    def make(self) -> None:
        """Make and set up all operators; each after those that it gives its records to."""
        for index in reversed(range(len(self._config.operators))):
            self._made[index] = self._make_operator(index)

    def _make_operator(self, index: int) -> ChainedOperator:
        config = self._config.operators[index]
        mail_priority = index + 1
        counters = OperatorCounters()

        def locate(error: BaseException) -> None:
            self.locate(error, config)

        mailbox = OperatorMailboxExecutor(self._processor, mail_priority, locate)
        processing_time = OperatorTimerService(self._timers, mail_priority, locate)
        try:
            edges = [  # bytes first: what is chained may change the record
                *(self._network_edge(edge, counters, processing_time) for edge in config.network_edges),
                *(self._chained_edge(edge, index, counters, config) for edge in config.chained_edges),
            ]
            output = self._output(edges, counters)
            operator = config.factory()
            context = self._make_context(
                config=config,
                processing_time=processing_time,
                mailbox=mailbox,
                wake=self._wake,
                accumulators=self.accumulators,
                owns_records=index == 0,
            )
            operator.setup(context, output)
        except BaseException as error:
            self.locate(error, config, "setup")
            raise
        return ChainedOperator(
            config, mail_priority, counters, operator, output, edges, processing_time, mailbox, context
        )

    def _chained_edge(
        self, edge: ChainedEdge, index: int, counters: OperatorCounters, config: OperatorConfig
    ) -> ChainingOutput:
        if edge.target <= index:
            raise ValueError(
                f"operator {index} of a chain is chained to {edge.target}: an operator stands before those it is "
                f"chained to"
            )
        target = self._made[edge.target]
        inputs = target.operator.inputs
        if not 1 <= edge.input_number <= len(inputs):
            raise ValueError(
                f"{target.config.name} has {len(inputs)} inputs, an edge of its chain leads to {edge.input_number}"
            )
        copies = not self._reuses_objects and not _is_last_way(config, edge)
        return ChainingOutput(counters, inputs[edge.input_number - 1], target.counters, edge.output_tag, copies)

    def _network_edge(
        self, edge: NetworkEdge, counters: OperatorCounters, processing_time: OperatorTimerService
    ) -> RecordWriterOutput:
        writer = self._writers[edge.partition_index]
        if isinstance(edge.type, ColumnTypeInfo):
            channel_count, delay_ms = writer.partition.subpartition_count, edge.buffer_timeout_ms
            small = None
            if self._timers.is_of_machine:  # where a test sets the time, what waits would not go on by itself
                small = small_elements_for(edge.partitioner, channel_count, delay_ms)
            return PageOutput(
                counters,
                self.task_counters,
                writer,
                self._chance,
                pages_for(edge.partitioner, channel_count),
                edge.output_tag,
                small,
                processing_time,
                delay_ms,
            )
        return RecordWriterOutput(counters, self.task_counters, writer, self._chance, edge.output_tag)

    def _output(self, edges: list[EdgeOutput], counters: OperatorCounters) -> Output:
        if len(edges) == 1 and edges[0].tag is None:
            return edges[0]
        return BroadcastingOutput(counters, self.task_counters, edges)

    # ---- the start --------------------------------------------------------------------------------------

    def initialize_state_and_open(self, snapshots: Mapping[str, OperatorSnapshot] | None) -> None:
        """Open each operator, tail first, so that one that emits in open() finds all behind it open.

        One of which the checkpoint has nothing, such as a source that had come to its end, is restored with nothing.
        """
        for made in reversed(self.operators):
            snapshot = None if snapshots is None else snapshots.get(made.config.operator_id, OperatorSnapshot())
            self._call(made, "initialize_state", snapshot)
            self._open_functions(made)
            self._call(made, "open")

    def _open_functions(self, made: ChainedOperator) -> None:
        """Open the functions that choose channels for the operator's records, before it can emit any."""
        for function in _functions_of(made.config):
            try:
                function.open(made.context.runtime_context)
            except BaseException as error:
                self.locate(error, made.config, "open of its partitioner")
                raise

    def _call(self, made: ChainedOperator, method: str, *arguments: object) -> None:
        try:
            getattr(made.operator, method)(*arguments)
        except BaseException as error:
            self.locate(error, made.config, method)
            raise

    # ---- the end ----------------------------------------------------------------------------------------

    def end_input(self, input_number: int) -> None:
        """End an input of the head: no more records come to it."""
        self._end_input(self.head, input_number)

    def _end_input(self, made: ChainedOperator, input_number: int) -> None:
        if input_number not in made.finished_inputs:
            made.finished_inputs.add(input_number)
            self._call(made, "end_input", input_number)

    def finish(self, is_drain: bool) -> None:
        """Finish all operators, head first, each when its timers are off and its mails are done.

        With a drain the inputs of an operator inside the chain end before that.
        """
        for made in self.operators:
            if is_drain and made is not self.head:
                for input_number in range(1, len(made.operator.inputs) + 1):
                    self._end_input(made, input_number)
            made.processing_time.quiesce()
            while made.mailbox.try_yield():
                pass
            self._call(made, "finish")
            while made.mailbox.try_yield():  # what finish() has put
                pass
            self._send_waiting(made)
        self.is_finished = True

    def _send_waiting(self, made: ChainedOperator) -> None:
        """Have what an operator has emitted, and what waits for others at an edge, go on."""
        try:
            for edge in made.edges:
                edge.send_waiting()
        except BaseException as error:
            self.locate(error, made.config)
            raise

    def close(self) -> BaseException | None:
        """Close each operator that is not closed, tail first, also if others fail; returns the first error."""
        first: BaseException | None = None
        for made in reversed(self.operators):
            if made.is_closed:
                continue
            made.is_closed = True
            functions = (function.close for function in _functions_of(made.config))
            for close in (made.operator.close, *functions, getattr(made.context, "close", None)):
                try:
                    if close is not None:
                        close()
                except BaseException as error:
                    locate_error(error, self.info, made.config, method="close")
                    if first is None:
                        first = error
                    else:
                        keep_as_context(first, error)
        return first

    # ---- checkpoints ------------------------------------------------------------------------------------

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Let operators, head first, emit what has to be downstream before the barrier."""
        for made in self.operators:
            self._call(made, "prepare_snapshot_pre_barrier", checkpoint_id)
            self._send_waiting(made)

    def snapshot_state(self, checkpoint_id: int) -> Iterator[tuple[OperatorConfig, OperatorSnapshot]]:
        """Take the state of each operator, tail first, when the iterator asks for it."""
        for made in reversed(self.operators):
            try:
                state = made.operator.snapshot_state(checkpoint_id)
            except BaseException as error:
                self.locate(error, made.config, "snapshot_state")
                raise
            yield made.config, state

    def notify(self, method: str, checkpoint_id: int) -> None:
        """Tail first, each operator also if another fails; the first error is raised then."""
        first: BaseException | None = None
        for made in reversed(self.operators):
            try:
                made.context.notify_checkpoint(method, checkpoint_id)
                self._call(made, method, checkpoint_id)
            except Exception as error:
                if first is None:
                    first = error
                else:
                    keep_as_context(first, error)
        if first is not None:
            raise first

    # ---- where an error is from -------------------------------------------------------------------------

    def locate(self, error: BaseException, config: OperatorConfig | None = None, method: str | None = None) -> None:
        """Note on the error which operator it is from, once.

        That is the operator furthest down whose user's function, or whose write to a partition, has not returned; else
        the one that `config` names.
        """
        if self._located is error:
            return
        for made in reversed(self.operators):
            for edge in made.edges:
                if edge.is_writing:
                    self._note(error, made.config, edge.value_in_hand)
                    return
            if made.operator.is_in_function:
                self._note(error, made.config, made.operator.value_in_hand)
                return
        if config is not None:
            self._note(error, config, NO_RECORD, method)

    def locate_at(self, error: BaseException, config: OperatorConfig) -> None:
        """Note on an error that it is about the state of this operator, whatever operator runs at the moment."""
        self._note(error, config, NO_RECORD)

    def _note(self, error: BaseException, config: OperatorConfig, record: object, method: str | None = None) -> None:
        self._located = error
        locate_error(error, self.info, config, record, method)


def _is_last_way(config: OperatorConfig, edge: ChainedEdge) -> bool:
    """Return whether a record that comes to this edge goes no other way afterwards.

    A function may emit one object on its main output and on a side output, in any order.
    """
    tags = {each.output_tag for each in config.chained_edges} | {each.output_tag for each in config.network_edges}
    return len(tags) == 1 and edge is config.chained_edges[-1]


def _functions_of(config: OperatorConfig) -> Iterator[HasLifecycle]:
    return (function for edge in config.network_edges for function in edge.functions)
