"""Lets pytest collect ``bench_*.py`` and gives it ``--smoke``, a short run in which figures only have to exist."""

import os

import pytest


def pytest_addoption(parser):
    parser.addoption("--smoke", action="store_true", help="few repeats over little data: does every benchmark run?")


def pytest_configure(config):
    # Read by measure.py, here and in the processes that bench_programs.py starts.
    if config.getoption("--smoke"):
        os.environ["FLINKBUF_BENCH_SMOKE"] = "1"


def pytest_collect_file(file_path, parent):
    if file_path.name.startswith("bench_") and file_path.suffix == ".py":
        return pytest.Module.from_parent(parent, path=file_path)
    return None
