"""Which seeds are run: ``--seed 7`` for one, ``--runs 2000`` or SIMULATION_RUNS=2000 for many."""

import os

import pytest

RUNS = 25  # of each simulation in make test; make test-simulation and CI run many more


def pytest_addoption(parser):
    parser.addoption("--seed", type=int, default=None, help="run the simulation of this seed only")
    parser.addoption("--runs", type=int, default=None, help="run the simulation of so many seeds")


@pytest.fixture(scope="session")
def seeds(request):
    """Seeds of this test run."""
    seed = request.config.getoption("--seed", default=None)
    runs = request.config.getoption("--runs", default=None) or int(os.environ.get("SIMULATION_RUNS", RUNS))
    return range(runs) if seed is None else range(seed, seed + 1)
