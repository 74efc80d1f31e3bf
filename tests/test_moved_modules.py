"""Old names of modules still lead to them: in savepoints, and in programs that were written before."""

import importlib
import pickle
import re
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
        failure = importlib.import_module("flinkbuf.jobs.failure")
    assert failure is sys.modules["flinkbuf.runtime.protocol.failure"] and failure.JobFailedError is JobFailedError


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("jobs.embedded", "targets.embedded"),
        ("jobs.graphs.job_graph", "runtime.graph.job_graph"),
        ("jobs.manager.shuffle", "runtime.manager.shuffle"),
        ("jobs.master.slots", "runtime.scheduler.slots"),
        ("spark.job", "spark.stage.job"),
        ("_core.buffer", "_core.memory.buffer"),
        ("streaming.kafka_source", "streaming.sources.kafka_source"),
    ],
)
def test_where_a_module_has_gone(old, new):
    assert MovedModules.find_spec(f"flinkbuf.{old}").loader.home == f"flinkbuf.{new}"


@pytest.mark.parametrize(
    "name",
    [
        "flinkbuf.streaming.fiel_split",
        "flinkbuf.jobs.master.nothing",
        "flinkbuf.nothing",
        "flinkbuf._core.memory.crc32",  # in a room that never had it
        "flinkbuf._core.operators.window_operators",
        "flinkbuf._core.python_object",  # a header
        "flinkbuf._core.*",
    ],
)
def test_what_never_was_is_not_found(name):
    assert MovedModules.find_spec(name) is None
    with pytest.raises(ModuleNotFoundError, match=re.escape(name.rpartition(".")[2])):
        importlib.import_module(name)


def test_other_packages_are_no_business_of_it():
    assert MovedModules.find_spec("pyspark.streaming.time") is None
