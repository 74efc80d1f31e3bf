"""The simulation finds what is wrong: each of these bugs, within 200 seeds."""

import pytest

from simulation import planted, planted_checkpoints
from simulation.replay import FailedRun, run, run_checkpoints

SEEDS = 200


@pytest.mark.parametrize("name", planted.BUGS)
def test_planted_bug_is_found(name, monkeypatch):
    planted.BUGS[name](monkeypatch)
    look_for_it(run, monkeypatch)


@pytest.mark.parametrize("name", planted_checkpoints.BUGS)
def test_planted_bug_of_checkpoints_is_found(name, monkeypatch):
    planted_checkpoints.BUGS[name](monkeypatch)
    look_for_it(run_checkpoints, monkeypatch)


def look_for_it(run_seed, monkeypatch):
    for seed in range(SEEDS):
        try:
            run_seed(seed)
        except FailedRun:
            monkeypatch.undo()
            run_seed(seed)  # it is the bug that was found, and nothing else
            return
    pytest.fail(f"{SEEDS} seeds have not found it: a fault is missing that would show it")
