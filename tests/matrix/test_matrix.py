"""The net itself: values are the same by their text, a worker answers, and what is wrong is seen."""

import pickle

import pytest

from matrix import written  # noqa: F401 - knows the programs
from matrix.program import PROGRAMS, Program
from matrix.runner import Runner, difference
from matrix.running import gathered
from matrix.values import TABLE, shown, value
from matrix.ways import Way


@pytest.mark.parametrize("name", TABLE)
def test_makers_of_one_name_make_the_same_value(name):
    made = [value(name, maker) for maker in range(len(TABLE[name]))]
    assert len({shown(each) for each in made + pickle.loads(pickle.dumps(made))}) == 1


def test_values_of_two_names_are_two():
    assert len({shown(value(name)) for name in TABLE}) == len(TABLE)


def test_a_record_that_is_lost_doubled_or_changed_is_seen():
    wanted = gathered([("out", None, "1"), ("out", None, "2")])
    assert difference(wanted, gathered([("out", None, "2"), ("out", None, "1")])) is None
    for found in ([("out", None, "1")], [("out", None, "1")] * 2 + [("out", None, "2")], [("out", None, "1")] * 2):
        assert "of 2 records are missing" in difference(gathered(found), wanted)


def test_an_order_that_is_determined_counts():
    def is_first(value):
        return value

    one, other = [("out", "k", "1"), ("out", "k", "2")], [("out", "k", "2"), ("out", "k", "1")]
    assert difference(gathered(one, is_first), gathered(one, is_first), is_first) is None
    assert "another order" in difference(gathered(one, is_first), gathered(other, is_first), is_first)


def test_a_wrong_model_is_a_failure_and_an_error_has_its_traceback(tmp_path):
    program = PROGRAMS["map_of_a_class"]
    with Runner(tmp_path / "log") as runner:
        assert runner.failure(program, Way()) is None
        wrong = Program(program.name, program.build, lambda way: [*program.model(way), 7])
        assert "1 of 51 records are missing" in runner.failure(wrong, Way())
        code = "def program(s):\n    return s.records([1]).map(lambda record: record / 0)\n"
        assert "division by zero" in runner.failure(program, Way(), {"code": code})
        assert runner.failure(program, Way()) is None, "the worker goes on"


def test_a_worker_that_dies_is_an_error_and_another_takes_its_place(tmp_path):
    program = PROGRAMS["map_of_a_class"]
    code = "import os\ndef program(s):\n    os._exit(3)\n"
    with Runner(tmp_path / "log") as runner:
        assert "the worker died: exit code 3" in runner.failure(program, Way(), {"code": code})
        assert runner.failure(program, Way()) is None
