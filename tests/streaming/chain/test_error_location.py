"""Where an exception of a user's function is said to come from."""

import pytest
from support.worlds.stream_tasks import info, operator

from flinkbuf.streaming.chain.error_location import bounded_repr, keep_as_context, locate_error

CONFIG = operator("Map", None)


def test_the_place_is_on_the_exception():
    error = ValueError("no")
    locate_error(error, info("Source -> Map", subtask_index=2, parallelism=4), CONFIG, ("JFK", 5))
    assert (error.operator_name, error.operator_id, error.subtask_index) == ("Map", CONFIG.operator_id, 2)
    assert error.task_name == "Source -> Map (3/4)#0"
    assert error.record == ("JFK", 5)
    if hasattr(error, "add_note"):
        assert error.__notes__ == ["in operator 'Map' of task Source -> Map (3/4)#0, with the record ('JFK', 5)"]


def test_without_a_record_the_method_is_said():
    error = ValueError("no")
    locate_error(error, info(), CONFIG, method="open")
    assert error.record is None
    assert "open()" in error.__notes__[0] if hasattr(error, "__notes__") else True


def test_None_is_a_record():
    error = ValueError("no")
    locate_error(error, info(), CONFIG, None)
    assert "the record None" in error.__notes__[0] if hasattr(error, "__notes__") else True


def test_an_exception_that_takes_no_attributes_goes_on():
    class Stubborn(Exception):
        def __setattr__(self, name, value):
            raise TypeError(name)

    locate_error(Stubborn(), info(), CONFIG, 1)


class Unrepresentable:
    def __repr__(self):
        raise LookupError


@pytest.mark.parametrize("value", ["x" * 100_000, list(range(100_000)), {n: [n] * 1000 for n in range(1000)}, 10**4000])
def test_a_large_record_is_shown_in_part(value):
    assert len(bounded_repr(value)) <= 400


def test_a_record_whose_repr_fails_is_named():
    assert bounded_repr(Unrepresentable()).startswith("<Unrepresentable")


def test_later_errors_are_shown_behind_the_first():
    first, second, third = ValueError(1), ValueError(2), ValueError(3)
    keep_as_context(first, second)
    keep_as_context(first, third)
    assert first.__context__ is second and second.__context__ is third


def test_an_error_is_not_behind_itself():
    first, second = ValueError(1), ValueError(2)
    keep_as_context(first, first)
    assert first.__context__ is None
    second.__context__ = first
    keep_as_context(first, second)
    assert first.__context__ is None


def test_a_record_whose_repr_ends_the_program_is_named_too():
    class Exits:
        def __repr__(self):
            raise SystemExit(3)

    assert bounded_repr(Exits()) == "<Exits, whose repr raises SystemExit>"
