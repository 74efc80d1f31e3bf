"""What a task reads: a network input for each logical input of its head operator, over one gate or several.

Flink: StreamTwoInputProcessorFactory, StreamMultipleInputProcessorFactory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from flinkbuf._core.ground.wakeup import TaskBell
from flinkbuf._core.task.operator_chain import OperatorCounters
from flinkbuf._core.task.stream_input import NetworkInput, TaskTurn
from flinkbuf.network.input_gate import InputGate, UnionInputGate
from flinkbuf.records.record_reader import RecordReader
from flinkbuf.streaming.chain.operator_config import InputConfig
from flinkbuf.streaming.checkpoint.checkpointed_inputs import CheckpointedInputs
from flinkbuf.streaming.task.input_processor import (
    FinishedOperatorInput,
    FinishedSource,
    MultipleInputProcessor,
    NetworkInputEvents,
    OneInputProcessor,
    pass_over,
)
from flinkbuf.streaming.task.input_selection import MultipleInputSelectionHandler
from flinkbuf.streaming.task.sorting_inputs import FirstInputs, InputSorting, SortingInputProcessor
from flinkbuf.streaming.time.valve import StatusWatermarkValve
from flinkbuf.types.types import Types

if TYPE_CHECKING:
    from flinkbuf._core.operators.stream_operator import Input, StreamOperator
    from flinkbuf.streaming.task.input_selection import InputSelection
    from flinkbuf.streaming.task.sorting_inputs import InputProcessor
    from flinkbuf.streaming.time.valve import ValveOutput


class TaskInputs:
    """The gates of a task and what reads them.

    Parameters
    ----------
    configs : sequence of InputConfig
    gates : sequence of InputGate
        All of the task's.
    turn : TaskTurn
    bell : TaskBell
        Rung when anything comes.
    task_counters : OperatorCounters
    checkpointed : CheckpointedInputs
        Gets barriers.

    Attributes
    ----------
    readers : list of RecordReader
        One a logical input.
    valves : list of StatusWatermarkValve
        Likewise.
    """

    def __init__(
        self,
        configs: Sequence[InputConfig],
        gates: Sequence[InputGate],
        turn: TaskTurn,
        bell: TaskBell,
        task_counters: OperatorCounters,
        checkpointed: CheckpointedInputs,
    ) -> None:
        self.readers: list[RecordReader] = []
        self.valves: list[StatusWatermarkValve] = []
        self._configs = configs
        self._task_gates = list(gates)
        self._turn = turn
        self._bell = bell
        self._task_counters = task_counters
        self._checkpointed = checkpointed
        self._gates: list[InputGate | UnionInputGate] = []
        self._inputs: list[NetworkInput] = []

    def make_processor(
        self,
        targets: Sequence[Input],
        counters: OperatorCounters,
        end_input: Callable[[int], None],
        next_selection: Callable[[], InputSelection] | None,
    ) -> InputProcessor:
        """Return what the default action calls: it gives each logical input to one of `targets`."""
        return self._processor(
            [
                OneInputProcessor(self._make_input(config, target, counters), end_input, index)
                for index, (config, target) in enumerate(zip(self._configs, targets, strict=True))
            ],
            next_selection,
        )

    def _processor(
        self, processors: Sequence[OneInputProcessor], next_selection: Callable[[], InputSelection] | None
    ) -> InputProcessor:
        if len(processors) == 1:
            return processors[0]
        selection = MultipleInputSelectionHandler(len(processors), next_selection)
        return MultipleInputProcessor(processors, selection, self._bell.seen)

    def make_batch_processor(
        self,
        operator: StreamOperator,
        counters: OperatorCounters,
        end_input: Callable[[int], None],
        sorting: InputSorting,
    ) -> InputProcessor:
        """Return the same for batch execution: inputs with a sort key are sorted, broadcast ones are read first."""
        first = FirstInputs(getattr(operator, "broadcast_inputs", ()))

        def end_plain(input_number: int) -> None:
            first.end_input(input_number)
            end_input(input_number)

        processors = []
        for index, config in enumerate(self._configs):
            made = self._make_input(config, operator.inputs[index], counters)
            if config.sort_key is None:
                processors.append(OneInputProcessor(made, end_plain, index))
                continue
            made.target = sorting.make(index, config, made.reader, operator)
            processors.append(OneInputProcessor(made, pass_over, index))
        if not sorting.inputs:
            return self._processor(processors, first.next_selection)
        processor = self._processor(processors, None)
        return SortingInputProcessor(processor, sorting, self._turn, operator.context.keyed_state, end_input)

    def make_finished_processor(self) -> InputProcessor:
        """Return the same for a task whose operators were finished before: it waits for the end of all inputs."""
        if not self._configs:
            return OneInputProcessor(FinishedSource(), pass_over)
        targets = [FinishedOperatorInput() for _ in self._configs]
        return self.make_processor(targets, OperatorCounters(), pass_over, None)

    def _make_input(self, config: InputConfig, target: Input, counters: OperatorCounters) -> NetworkInput:
        gates = [self._task_gates[gate_index] for gate_index in config.gate_indexes]
        gate = gates[0] if len(gates) == 1 else UnionInputGate(gates)
        gate.share_bell(self._bell)
        self._gates.append(gate)
        self._checkpointed.add_gate(gate)
        reader = RecordReader(gate, Types.STREAM_ELEMENT(config.type), events=True)
        self.readers.append(reader)
        events = NetworkInputEvents(gate, self._checkpointed)
        network_input = NetworkInput(
            reader, target, self._turn, counters, self._task_counters, self._make_valve, events
        )
        self._inputs.append(network_input)
        return network_input

    def process_priority_events(self) -> bool:
        """Handle events that overtake records, without reading any; return whether there was one."""
        heard = [each.process_priority() for each in self._inputs]
        return any(heard)

    def _make_valve(self, channel_count: int, output: ValveOutput) -> StatusWatermarkValve:
        valve = StatusWatermarkValve(channel_count, output)
        self.valves.append(valve)
        return valve

    def request_partitions(self) -> None:
        """Request the partitions of all channels."""
        for gate in self._gates:
            gate.request_partitions()

    @property
    def closers(self) -> list[Callable[[], None]]:
        """Return the calls for the task's end, each made also if another fails."""
        gates = [*self._gates, *self._task_gates]
        return [*(reader.close for reader in self.readers), *(gate.close for gate in gates)]
