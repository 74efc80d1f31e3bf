"""PyFlink, asked again: what expected.json says is what it says."""

import pytest
from support.programs.pyflink_programs import PYFLINK

pytestmark = pytest.mark.skipif(not PYFLINK, reason="make test-pyflink runs this: it installs PyFlink beside")


def test_every_program_runs_on_pyflink(theirs):
    assert theirs["failed"] == {}


def test_expected_is_what_pyflink_says(theirs, expected):
    changed = {name: (answer, expected.get(name)) for name, answer in theirs["programs"].items()}
    assert {name: both for name, both in changed.items() if both[0] != both[1]} == {}


def test_both_say_the_same(theirs, ours):
    answers = {name: (answer, ours["programs"].get(name)) for name, answer in theirs["programs"].items()}
    assert {name: both for name, both in answers.items() if both[0] != both[1]} == {}


def test_local_processes_and_spark_say_the_same(ours_elsewhere, expected):
    assert ours_elsewhere["failed"] == {}
    assert {name: each for name, each in ours_elsewhere["programs"].items() if each != expected[name]} == {}
    assert ours_elsewhere["programs"].keys() == expected.keys()
