"""Programs that hypothesis draws give what the generator's model says. A failing one is printed as a script."""

import pytest

from matrix.exploring import explore
from matrix.runner import Runner

PROGRAMS = 150  # in `make test`; `make test-matrix` runs as many as there is time for


@pytest.mark.long
def test_generated_programs_give_what_their_model_says():
    with Runner() as runner:
        found = explore(runner, 0, PROGRAMS)
    if found is not None:
        pytest.fail(f"{found}\nwhat the workers said: {runner.log_path}", pytrace=False)
