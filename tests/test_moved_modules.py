"""Old names of modules still lead to them: in savepoints, and in programs that were written before."""

import importlib
import pickle
import sys

import pytest

from flinkbuf.moved_modules import MovedModules


@pytest.fixture
def unloaded():
    """Names of modules that are to be found anew; they are gone again afterwards."""
    names = ["flinkbuf.streaming.file_split", "flinkbuf._core.time_window", "flinkbuf.jobs", "flinkbuf.jobs.failure"]
    for name in names:
        sys.modules.pop(name, None)
    yield names
    for name in names:
        sys.modules.pop(name, None)


def test_a_class_of_an_old_name_is_the_class_of_today(unloaded):
    from flinkbuf.runtime.protocol.failure import JobFailedError
    from flinkbuf.streaming.windows.window import TimeWindow

    with pytest.warns(
        DeprecationWarning, match=r"flinkbuf\._core\.time_window is flinkbuf\._core\.operators\.time_window"
    ):
        window = pickle.loads(b"cflinkbuf._core.time_window\nTimeWindow\n(I1\nI2\ntR.")
    assert window == TimeWindow(1, 2)
    with pytest.warns(DeprecationWarning, match="flinkbuf.runtime.protocol.failure now"):
        assert importlib.import_module("flinkbuf.jobs.failure").JobFailedError is JobFailedError


@pytest.mark.parametrize("name", ["flinkbuf.streaming.fiel_split", "flinkbuf.jobs.master.nothing", "flinkbuf.nothing"])
def test_what_never_was_is_not_found(name):
    assert MovedModules.find_spec(name) is None
    with pytest.raises(ModuleNotFoundError, match=name.rpartition(".")[2]):
        importlib.import_module(name)


def test_other_packages_are_no_business_of_it():
    assert MovedModules.find_spec("pyspark.streaming.time") is None
