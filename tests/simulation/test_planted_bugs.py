"""The simulation finds what is wrong: each of these bugs, within 200 seeds."""

import pytest

from simulation.planted import BUGS
from simulation.replay import FailedRun, run

SEEDS = 200


@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_found(name, monkeypatch):
    BUGS[name](monkeypatch)
    for seed in range(SEEDS):
        try:
            run(seed)
        except FailedRun:
            monkeypatch.undo()
            run(seed)  # it is the bug that was found, and nothing else
            return
    pytest.fail(f"{SEEDS} seeds have not found it: a fault is missing that would show it")
