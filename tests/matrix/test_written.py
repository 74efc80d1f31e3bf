"""Each written program gives what its model says: all ways together over all programs, a few for each."""

import os
import zlib

import pytest

from matrix import written  # noqa: F401 - knows the programs
from matrix.program import PROGRAMS
from matrix.runner import Runner
from matrix.ways import CALM, KILL, MOVE, RAISE, ways_of

SPARK = os.environ.get("MATRIX_SPARK") == "1"


@pytest.fixture(scope="module")
def runner():
    with Runner() as made:
        yield made


def chosen(place, name):
    """The ways of a program: always the same ones; the slow ones fall to each of them in turn."""
    number = zlib.crc32(name.encode())
    calm, disturbed = ways_of(number, 2, faults=(CALM,)), ways_of(number, 1, faults=((RAISE,), (MOVE,))[place % 2])
    local = ways_of(number, 1, targets=("local",), faults=((CALM,), (KILL,), (RAISE,), (MOVE,))[place // 4 % 4])
    spark = ways_of(number, 1, targets=("spark",), faults=((CALM,), (RAISE,), (MOVE,))[place // 4 % 3])
    return [*calm, *disturbed, *(local if place % 4 == 0 else []), *(spark if SPARK and place % 4 == 1 else [])]


@pytest.mark.parametrize(("place", "name"), list(enumerate(PROGRAMS)))
def test_a_program_gives_what_its_model_says(runner, place, name):
    program, failures = PROGRAMS[name], []
    for way in chosen(place, name):
        told = runner.failure(program, way) if program.suits(way) else None
        if told:
            failures.append(f"{way}: {told}")
    assert not failures, "\n".join([*failures, f"what the workers said: {runner.log_path}"])
