"""Inputs of a keyed operator in batch execution: first all is read, then it is processed key by key.

Flink: SortingDataInput, MultiInputSortingDataInput, StreamMultipleInputProcessor with their input selector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from flinkbuf._core.sort.record_sorter import RecordSorter
from flinkbuf._core.task.sorted_input import SortedInput, SortedMerge
from flinkbuf._core.task.stream_input import TaskTurn
from flinkbuf.streaming.chain.functions import SelectorCall
from flinkbuf.streaming.chain.operator_config import InputConfig
from flinkbuf.streaming.chain.operator_context import ManagedMemory
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.state.key_groups import codec_of
from flinkbuf.streaming.task.input_selection import InputSelection

if TYPE_CHECKING:
    from flinkbuf._core.flow.record_reader import RecordReader
    from flinkbuf._core.operators.stream_operator import StreamOperator
    from flinkbuf.network.io_manager import IOManager
    from flinkbuf.streaming.chain.runtime_context import RuntimeContext

MIN_SORTER_BYTES = 64 * 1024


class InputProcessor(Protocol):
    """The default action of a task: reads its inputs, for one turn at a time. Flink: ``StreamInputProcessor``."""

    def process_input(self) -> int:
        """Do one turn; return an `InputStatus`."""
        ...


class InputSorting:
    """Makes the sorted inputs of one task.

    Parameters
    ----------
    configs : sequence of InputConfig
        All inputs of the task.
    memory_bytes : int
        What all of them sort in, at most.
    memory : ManagedMemory, optional
        Of the operator's slot: it is taken from there, where half of what is left is not less. None: not counted.
    io_manager : IOManager, optional
        Where there is room for more; None: the process's own.
    """

    def __init__(
        self,
        configs: Sequence[InputConfig],
        memory_bytes: int,
        memory: ManagedMemory | None = None,
        io_manager: IOManager | None = None,
    ) -> None:
        self._io_manager = io_manager
        self._memory = memory
        count = sum(config.sort_key is not None for config in configs)
        self._reserved = 0
        if memory is not None and count:
            memory_bytes = self._reserved = memory.reserve_part(memory_bytes)
        self._sorter_bytes = max(memory_bytes // max(count, 1), MIN_SORTER_BYTES)
        self._selectors: list[SelectorCall] = []
        self.inputs: list[SortedInput] = []

    def make(self, index: int, config: InputConfig, reader: RecordReader, operator: StreamOperator) -> SortedInput:
        """Return the sorter of an input."""
        key = config.sort_key
        assert key is not None, "only inputs with a key are sorted"
        if isinstance(key.selector, SelectorCall):
            self._selectors.append(key.selector)
        sorter = RecordSorter(self._sorter_bytes, self._path)
        made = SortedInput(index, reader, operator, operator.inputs[index], key.selector, codec_of(key.type), sorter)
        self.inputs.append(made)
        return made

    def _path(self) -> str:
        if self._io_manager is None:
            from flinkbuf.network.io_manager import default_io_manager  # made when something is spilled, not before

            self._io_manager = default_io_manager()
        return self._io_manager.partition_path()

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the key selectors that want it."""
        for selector in self._selectors:
            selector.open(runtime_context)

    def close(self) -> None:
        """Close the key selectors, free memory and files."""
        for each in self.inputs:
            each.sorter.close()
        reserved, self._reserved = self._reserved, 0
        if self._memory is not None and reserved:
            self._memory.release_reserved(reserved)
        for selector in self._selectors:
            selector.close()


class SortingInputProcessor:
    """Reads all inputs to their end, then gives what was sorted.

    Parameters
    ----------
    processor : OneInputProcessor or MultipleInputProcessor
        Reads them: records of sorted inputs into their sorters, those of others into the operator.
    sorting : InputSorting
        Of the sorted ones.
    turn : TaskTurn
    ends : object or None
        Has ``end_key()``: the keyed state of the operator.
    end_input : callable
        Called with the number of an input, from 1, behind its last record.
    """

    def __init__(
        self,
        processor: InputProcessor,
        sorting: InputSorting,
        turn: TaskTurn,
        ends: object,
        end_input: Callable[[int], None],
    ) -> None:
        self._processor = processor
        self._end_input = end_input
        self._merge: SortedMerge | None = SortedMerge(sorting.inputs, turn, ends, self._end)
        self._is_sorted = False

    def process_input(self) -> int:
        """Do one turn; return an `InputStatus`."""
        if self._is_sorted and self._merge is not None:
            status: int = self._merge.emit_next()
            if status == InputStatus.END_OF_DATA:
                self._merge = None
            return status
        status = self._processor.process_input()
        if status != InputStatus.END_OF_DATA or self._merge is None:
            return status
        self._is_sorted = True
        self._merge.begin()
        return InputStatus.MORE_AVAILABLE

    def _end(self, source: SortedInput) -> None:
        source.emit_watermark()
        self._end_input(source.index + 1)


class FirstInputs:
    """Selects some inputs until their data has ended, and all from then on.

    Parameters
    ----------
    input_numbers : iterable of int
        From 1.

    Examples
    --------
    >>> first = FirstInputs([2])
    >>> first.next_selection().mask
    2
    >>> first.end_input(2)
    >>> first.next_selection() is InputSelection.ALL
    True
    """

    def __init__(self, input_numbers: Iterable[int]) -> None:
        self._waiting = set(input_numbers)

    def end_input(self, input_number: int) -> None:
        """Note that no more records come from this input."""
        self._waiting.discard(input_number)

    def next_selection(self) -> InputSelection:
        """Return the inputs to read next."""
        return InputSelection.of(*self._waiting) if self._waiting else InputSelection.ALL
