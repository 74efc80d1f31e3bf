"""Which of several inputs a task reads next. Decides only; inputs are numbers from 0.

Flink: InputSelection, InputSelectable, MultipleInputSelectionHandler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from flinkbuf.streaming.sources.input_status import InputStatus

MAX_INPUT_COUNT = 63
NONE_AVAILABLE = -1


@dataclass(frozen=True)
class InputSelection:
    """The inputs that an operator selects next; the result of `next_selection` of a selectable operator.

    Parameters
    ----------
    mask : int
        Bit i for input i + 1; −1: all.

    Examples
    --------
    >>> InputSelection.of(1, 3).mask, InputSelection.FIRST.mask, InputSelection.ALL.mask
    (5, 1, -1)
    """

    mask: int
    ALL: ClassVar[InputSelection]
    FIRST: ClassVar[InputSelection]
    SECOND: ClassVar[InputSelection]

    @classmethod
    def of(cls, *input_ids: int) -> InputSelection:
        """Select inputs by their numbers, from 1."""
        mask = 0
        for input_id in input_ids:
            if not 1 <= input_id <= MAX_INPUT_COUNT:
                raise ValueError(f"inputs are numbered from 1 to {MAX_INPUT_COUNT}, got {input_id}")
            mask |= 1 << (input_id - 1)
        return cls(mask)


InputSelection.ALL = InputSelection(-1)
InputSelection.FIRST = InputSelection(1)
InputSelection.SECOND = InputSelection(2)


def fair_select_next_index(selected_mask: int, available_mask: int, last: int) -> int:
    """Return the next input in turn behind `last` that is selected and available, or −1.

    Examples
    --------
    >>> fair_select_next_index(-1, 0b111, 0), fair_select_next_index(-1, 0b011, 1), fair_select_next_index(0b100, 3, 0)
    (1, 0, -1)
    """
    candidates = selected_mask & available_mask
    if candidates == 0:
        return NONE_AVAILABLE
    behind = candidates >> (last + 1) << (last + 1)
    chosen = behind or candidates
    return (chosen & -chosen).bit_length() - 1


class MultipleInputSelectionHandler:
    """Keeps which inputs are selected, have something, and have ended.

    Parameters
    ----------
    input_count : int
        2 to 63.
    next_selection : callable, optional
        What the operator selects, asked after each read; None: always all.

    Raises
    ------
    ValueError
        For more inputs than a mask has bits.
    """

    def __init__(self, input_count: int, next_selection: Callable[[], InputSelection] | None = None) -> None:
        if input_count > MAX_INPUT_COUNT:
            raise ValueError(f"an operator has at most {MAX_INPUT_COUNT} inputs, got {input_count}")
        self._all = (1 << input_count) - 1
        self._next_selection = next_selection
        self._selected = self._all
        self._available = self._all  # unknown before the first read, which tells
        self._not_finished = self._all
        self._data_finished = 0  # EndOfData seen, EndOfPartition not yet
        self._is_drained = True  # as far as inputs have ended

    # ---- reading ----------------------------------------------------------------------------------------

    def select_next_input(self, last: int) -> int:
        """Return the input to read, fairly after `last`; −1: nothing selected is available."""
        return fair_select_next_index(self._selected, self._available & self._not_finished, last)

    @property
    def is_any_input_available(self) -> bool:
        """Return whether a selected input has records."""
        return self._selected & self._available & self._not_finished != 0

    @property
    def unavailable_inputs(self) -> list[int]:
        """Return selected inputs that have not ended and had nothing; they may have records now."""
        mask = self._selected & self._not_finished & ~self._available
        return [index for index in range(mask.bit_length()) if mask >> index & 1]

    def set_available(self, index: int) -> None:
        """Note that an input may have records."""
        self._available |= 1 << index

    # ---- after a read -----------------------------------------------------------------------------------

    def update(self, status: int, index: int) -> InputStatus:
        """Note what a read of an input has come to, ask for the next selection, and return what holds for all inputs.

        Raises
        ------
        RuntimeError
            The operator selects only inputs that have ended: nothing could ever go on.
        """
        bit = 1 << index
        if status == InputStatus.NOTHING_AVAILABLE:
            self._available &= ~bit
        elif status in (InputStatus.END_OF_DATA, InputStatus.STOPPED):
            self._data_finished |= bit
            self._is_drained &= status == InputStatus.END_OF_DATA
        elif status == InputStatus.END_OF_INPUT:
            self._data_finished &= ~bit
            self._not_finished &= ~bit
        self.select()
        return InputStatus.MORE_AVAILABLE if status == InputStatus.MORE_AVAILABLE else self._overall(status)

    def _overall(self, status: int) -> InputStatus:
        if self.are_all_inputs_finished:
            return InputStatus.END_OF_INPUT
        if status in (InputStatus.END_OF_DATA, InputStatus.STOPPED) and self._has_all_data:
            return InputStatus.END_OF_DATA if self._is_drained else InputStatus.STOPPED
        if self.is_any_input_available:
            return InputStatus.MORE_AVAILABLE
        if self._selected & self._not_finished == 0:
            raise RuntimeError("the operator can make no progress: all inputs that it selects have ended")
        return InputStatus.NOTHING_AVAILABLE

    def select(self) -> None:
        """Ask the operator; not before it is open.

        From the first end of an input on, inputs whose data has ended are read too, so that what follows their data
        is seen; when all data has ended the operator is not asked any more.
        """
        if self._next_selection is None or self._has_all_data:
            self._selected = self._all
            return
        self._selected = self._next_selection().mask & self._all
        if self._data_finished or self._not_finished != self._all:
            self._selected |= self._data_finished

    @property
    def _has_all_data(self) -> bool:
        return (self._data_finished | ~self._not_finished) & self._all == self._all

    @property
    def are_all_inputs_finished(self) -> bool:
        """Return whether all inputs have ended."""
        return self._not_finished == 0
