"""Runs generated programs until one fails, and gives the shortest form of it."""

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from matrix.generated import pasted, programs, ways

MOST_WAYS = 3  # of one program


class Differs(AssertionError):
    """A program did not give what its model says."""


def explore(runner, seed, programs_count, **choice):
    """Return the script of the shortest failing program of some that a seed draws; None if there is none.

    Parameters
    ----------
    runner : Runner
    seed : int
    programs_count : int
    **choice
        Of targets and faults, as `ways` takes them.
    """
    failing = []

    @seeded(seed)
    @settings(
        max_examples=programs_count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
    )
    @given(programs(), st.lists(ways(**choice), min_size=1, max_size=MOST_WAYS))
    def run(drawn, some_ways):
        runner.programs += 1
        program = drawn.program()
        for way in some_ways:
            told = runner.failure(program, way, {"code": drawn.code()}) if program.suits(way) else None
            if told is not None:
                failing.append(pasted(drawn, way, told))
                raise Differs(told)

    try:
        run()
    except Exception:  # hypothesis has its own where what failed once does not fail again: that is a failure, too
        if not failing:
            raise
    return min(failing, key=len, default=None)
