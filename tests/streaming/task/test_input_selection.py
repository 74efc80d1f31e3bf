"""Which input is read next. Flink: MultipleInputSelectionHandlerTest, InputSelectionTest."""

import pytest

from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.task.input_selection import (
    NONE_AVAILABLE,
    InputSelection,
    MultipleInputSelectionHandler,
    fair_select_next_index,
)

MORE, NOTHING, END_OF_DATA, END, STOPPED = (
    InputStatus.MORE_AVAILABLE,
    InputStatus.NOTHING_AVAILABLE,
    InputStatus.END_OF_DATA,
    InputStatus.END_OF_INPUT,
    InputStatus.STOPPED,
)


class Selector:
    """An operator that selects what a test says."""

    def __init__(self, *input_ids):
        self.select(*input_ids)

    def select(self, *input_ids):
        self.selection = InputSelection.of(*input_ids)

    def __call__(self):
        return self.selection


def selectable(input_count, *input_ids):
    selector = Selector(*input_ids)
    handler = MultipleInputSelectionHandler(input_count, selector)
    handler.select()
    return handler, selector


@pytest.mark.parametrize(
    ("selected", "available", "last", "chosen"),
    [
        (-1, 0b11, 0, 1),
        (-1, 0b11, 1, 0),
        (-1, 0b01, 0, 0),
        (-1, 0b10, 1, 1),
        (-1, 0, 0, NONE_AVAILABLE),
        (0b01, 0b10, 0, NONE_AVAILABLE),
        (0b101, 0b111, 0, 2),
        (0b101, 0b111, 2, 0),
        (-1, 1 << 62, 0, 62),
        (-1, 1 << 62 | 1, 62, 0),
    ],
)
def test_inputs_are_read_in_turn(selected, available, last, chosen):
    assert fair_select_next_index(selected, available, last) == chosen


def test_selections_are_made_of_numbers_from_1():
    assert InputSelection.of(1, 3) == InputSelection(0b101)
    assert InputSelection.of(2) == InputSelection.SECOND
    for wrong in (0, 64):
        with pytest.raises(ValueError, match="1 to 63"):
            InputSelection.of(wrong)


def test_more_inputs_than_a_mask_has_bits_are_refused():
    MultipleInputSelectionHandler(63)
    with pytest.raises(ValueError, match="at most 63 inputs, got 64"):
        MultipleInputSelectionHandler(64)


def test_all_inputs_are_read_in_turn():
    handler = MultipleInputSelectionHandler(3)
    order, last = [], 2
    for _ in range(7):
        last = handler.select_next_input(last)
        order.append(last)
        assert handler.update(MORE, last) == MORE
    assert order == [0, 1, 2, 0, 1, 2, 0]


def test_an_input_with_nothing_is_passed_over_until_it_may_have_something():
    handler = MultipleInputSelectionHandler(2)
    assert handler.update(NOTHING, 0) == MORE  # of the other one
    assert handler.select_next_input(1) == 1
    assert handler.unavailable_inputs == [0]
    assert handler.update(NOTHING, 1) == NOTHING
    assert handler.select_next_input(1) == NONE_AVAILABLE
    handler.set_available(0)
    assert handler.select_next_input(1) == 0


def test_an_input_that_has_ended_is_not_read_any_more():
    handler = MultipleInputSelectionHandler(2)
    assert handler.update(END_OF_DATA, 0) == MORE
    assert handler.update(END, 0) == MORE
    assert handler.select_next_input(0) == handler.select_next_input(1) == 1
    handler.set_available(0)
    assert handler.select_next_input(1) == 1


def test_data_ends_with_the_last_input():
    handler = MultipleInputSelectionHandler(2)
    assert handler.update(END_OF_DATA, 1) == MORE
    assert handler.update(END_OF_DATA, 0) == END_OF_DATA
    assert handler.update(END, 0) == MORE
    assert handler.update(END, 1) == END
    assert handler.are_all_inputs_finished


@pytest.mark.parametrize("statuses", [(STOPPED, END_OF_DATA), (END_OF_DATA, STOPPED), (STOPPED, STOPPED)])
def test_it_is_stopped_if_any_input_is(statuses):
    handler = MultipleInputSelectionHandler(2)
    handler.update(statuses[0], 0)
    assert handler.update(statuses[1], 1) == STOPPED


def test_what_is_available_and_not_selected_is_not_read():
    handler, selector = selectable(2, 1)
    assert handler.update(NOTHING, 0) == NOTHING
    assert handler.select_next_input(0) == NONE_AVAILABLE
    assert handler.unavailable_inputs == [0]
    selector.select(2)
    handler.select()
    assert handler.select_next_input(0) == 1


def test_the_operator_is_asked_after_each_read():
    handler, selector = selectable(2, 1)
    assert handler.select_next_input(1) == 0
    selector.select(2)
    assert handler.update(MORE, 0) == MORE
    assert handler.select_next_input(0) == 1


def test_after_the_first_end_inputs_whose_data_ended_are_read_to_their_end():
    handler, _ = selectable(3, 2, 3)
    handler.update(END_OF_DATA, 1)
    assert handler.select_next_input(0) == 1  # selected, and its end is to come
    handler.update(END, 1)
    assert handler.select_next_input(0) == 2


def test_an_input_that_is_not_selected_any_more_is_read_to_its_end():
    handler, selector = selectable(3, 2)
    selector.select(3)
    assert handler.update(END_OF_DATA, 1) == MORE
    assert {handler.select_next_input(last) for last in range(3)} == {1, 2}


def test_when_all_data_has_ended_the_operator_is_not_asked():
    handler, _selector = selectable(2, 1)
    handler.update(END_OF_DATA, 0)
    handler._next_selection = lambda: pytest.fail("asked")
    assert handler.update(END_OF_DATA, 1) == END_OF_DATA
    assert handler.select_next_input(0) == 1


def test_selecting_only_what_has_ended_is_an_error():
    handler, _ = selectable(2, 1)
    handler.update(END_OF_DATA, 0)
    with pytest.raises(RuntimeError, match="no progress"):
        handler.update(END, 0)
