"""Each program gives on flinkbuf what it gave on PyFlink."""

import json

import pytest
from support.programs.pyflink_programs import EXPECTED

NAMES = sorted(json.loads(EXPECTED.read_text())["programs"])


@pytest.mark.parametrize("name", NAMES)
def test_program_answers_as_on_pyflink(name, ours, expected):
    assert name not in ours["failed"], ours["failed"][name]
    assert ours["programs"].get(name, "the run ended before this program") == expected[name]


def test_every_program_has_an_answer_of_pyflink(ours, expected):
    """One that is new is run on PyFlink first: see run_programs.py."""
    assert (ours["programs"].keys() | ours["failed"].keys()) == expected.keys()


def test_there_are_programs_of_every_family():
    families = {name.partition(".")[0] for name in NAMES}
    assert len(NAMES) >= 60
    assert len(families) >= 15
