"""Lets pytest collect ``bench_*.py`` and gives it ``--smoke``, a short run in which figures only have to exist."""

import os

import pytest


def pytest_addoption(parser):
    parser.addoption("--smoke", action="store_true", help="few repeats over little data: does every benchmark run?")


def pytest_configure(config):
    # A contender that fails before the clock starts is one failure, not a failure and an error.
    config.addinivalue_line("filterwarnings", "ignore:Benchmark fixture was not used")
    # Read by measure.py, also in processes that a benchmark starts.
    if config.getoption("--smoke"):
        os.environ["FLINKBUF_BENCH_SMOKE"] = "1"


def pytest_collect_file(file_path, parent):
    # A file that is named on the command line is collected by pytest itself.
    if file_path.match("bench_*.py") and not parent.session.isinitpath(file_path):
        return pytest.Module.from_parent(parent, path=file_path)
    return None
