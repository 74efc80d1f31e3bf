"""Workers without flinkbuf, or with another version: one sentence says what to set, before the job or in it."""

import os
import shutil
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

import flinkbuf as fb
from flinkbuf.spark import workers
from flinkbuf.spark.workers import check_workers, shipped

PACKAGE = Path(fb.__file__).parent


async def tenfold(record):
    return 10 * record


def jobs(sc):
    """What a user starts: an exchange, one that takes a sample first, async_map over records and over rows."""
    from pyspark.sql import SparkSession

    data = sc.parallelize([(1, "a"), (2, "b")], 2)
    frame = SparkSession.getActiveSession().range(2)
    return {
        "exchange": lambda: fb.exchange(data, 0, type="n bigint, s string").collect(),
        "exchange with a sample": lambda: fb.exchange(data, 0).collect(),
        "pipelined exchange": lambda: fb.exchange(data, 0, type="n bigint, s string", mode="pipelined").collect(),
        "async_map": lambda: fb.async_map(data, tenfold).collect(),
        "async_map of a DataFrame": lambda: fb.async_map(frame, tenfold, schema="n bigint").collect(),
    }


JOBS = ["exchange", "exchange with a sample", "pipelined exchange", "async_map", "async_map of a DataFrame"]


@pytest.fixture
def interpreter(tmp_path):
    """A function that makes a python3 as Spark may find it on the path: with nothing installed but what is given.

    It goes to another folder first, since these tests may be run in the one where flinkbuf lies.
    """

    def make(folder=""):
        script = tmp_path / "python3"
        paths = f'PYTHONPATH="{folder}:$PYTHONPATH" ' if folder else ""
        script.write_text(f'#!/bin/sh\ncd {tmp_path}\n{paths}exec {sys.executable} -S "$@"\n')
        script.chmod(0o755)
        return str(script)

    return make


@pytest.fixture
def other_version(tmp_path):
    """A folder with a flinkbuf of the same version, and other sources."""
    core = tmp_path / "other" / "flinkbuf" / "_core"
    (core / "memory").mkdir(parents=True)
    (core.parent / "__init__.py").touch()
    (core.parent / "_version.py").write_text('def build_version():\n    return "0.1.0+00000000"\n')
    for name in ("__init__", "memory/__init__", "memory/buffer"):
        (core / f"{name}.py").touch()
    return core.parents[1]


@pytest.fixture
def unbuilt(tmp_path):
    """A source tree that was not built."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.c")
    return shutil.copytree(PACKAGE, tmp_path / "tree" / "flinkbuf", ignore=ignored).parent


@pytest.fixture
def unasked(monkeypatch, sc):
    """The context as if nothing had been found out yet about its workers."""
    monkeypatch.setattr(workers, "_checked", weakref.WeakSet())
    return sc


@pytest.mark.spark
@pytest.mark.parametrize("name", JOBS)
def test_the_driver_says_what_to_set_before_anything_runs(unasked, monkeypatch, interpreter, name):
    sc, python = unasked, interpreter()
    job = jobs(sc)[name]
    monkeypatch.setattr(sc, "pythonExec", python)
    before = sc.statusTracker().getJobIdsForGroup(None)
    with pytest.raises(RuntimeError, match="No module named 'flinkbuf'.*PYSPARK_PYTHON") as failure:
        job()
    assert python in str(failure.value)
    assert sys.executable in str(failure.value)
    assert list(sc.statusTracker().getJobIdsForGroup(None)) == list(before), "no job was started"


@pytest.mark.spark
@pytest.mark.parametrize("name", JOBS)
def test_where_the_driver_cannot_know_it_the_worker_says_what_to_set(unasked, monkeypatch, interpreter, name):
    sc = unasked
    workers._checked.add(sc)
    job = jobs(sc)[name]
    monkeypatch.setattr(sc, "pythonExec", interpreter())
    with pytest.raises(
        Exception, match="RuntimeError: this worker of Spark runs .*No module named 'flinkbuf'"
    ) as failure:
        job()
    assert "PYSPARK_PYTHON" in str(failure.value)
    assert f"Install flinkbuf {fb.__version__}" in str(failure.value)


@pytest.mark.spark
def test_another_version_is_refused_on_both_sides(unasked, monkeypatch, interpreter, other_version):
    sc = unasked
    job = jobs(sc)["async_map"]
    monkeypatch.setattr(sc, "pythonExec", interpreter(other_version))
    with pytest.raises(RuntimeError, match="has flinkbuf 0.1.0.00000000 where this program has 0.1.0.*PYSPARK_PYTHON"):
        job()
    workers._checked.add(sc)
    with pytest.raises(Exception, match="this worker of Spark runs .* has flinkbuf 0.1.0.00000000, another version"):
        job()


@pytest.mark.spark
def test_a_tree_that_is_not_built_says_so_through_spark(unasked, monkeypatch, interpreter, unbuilt):
    monkeypatch.setattr(unasked, "pythonExec", interpreter(unbuilt))
    with pytest.raises(RuntimeError, match="is flinkbuf's source, which is not built for this Python: ") as caught:
        check_workers(unasked)
    assert "PYSPARK_PYTHON" not in str(caught.value), "the interpreter is the right one"


@pytest.mark.spark
def test_it_is_found_out_once_a_context_and_only_where_the_workers_are_here(unasked, monkeypatch):
    calls = []
    real_run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: calls.append(args) or real_run(*args, **options))
    for _ in range(3):
        check_workers(unasked)
    assert len(calls) == 1
    for master, asked in (("spark://elsewhere:7077", 0), ("local-cluster[1,1,1024]", 0), ("local", 1), ("local[*]", 1)):
        del calls[:]
        monkeypatch.setattr(workers, "_checked", weakref.WeakSet())
        monkeypatch.setattr(unasked, "master", master)
        check_workers(unasked)
        assert len(calls) == asked, master


@pytest.mark.spark
def test_what_it_cannot_find_out_is_left_to_spark(unasked, monkeypatch, tmp_path):
    odd = tmp_path / "python3"
    odd.write_text("#!/bin/sh\necho no such library >&2; exit 1\n")
    odd.chmod(0o755)
    for python in (str(odd), str(tmp_path / "missing")):
        monkeypatch.setattr(unasked, "pythonExec", python)
        check_workers(unasked)


@pytest.mark.spark
def test_an_interpreter_that_does_not_answer_is_waited_for_once(unasked, monkeypatch, tmp_path):
    slow = tmp_path / "python3"
    slow.write_text("#!/bin/sh\necho asked >>" + str(tmp_path / "asked") + "\nexec sleep 30\n")
    slow.chmod(0o755)
    monkeypatch.setattr(unasked, "pythonExec", str(slow))
    monkeypatch.setattr(workers, "PROBE_TIMEOUT_S", 0.5)
    for _ in range(3):
        check_workers(unasked)
    assert (tmp_path / "asked").read_text() == "asked\n"


@pytest.mark.spark
def test_what_spark_lets_its_workers_import_is_on_the_path(unasked, monkeypatch):
    monkeypatch.setattr(unasked, "_python_includes", ["added.zip"])
    monkeypatch.setitem(unasked.environment, "PYTHONPATH", "of the executors")
    files, added, executors, *_ = workers._worker_environment(unasked)["PYTHONPATH"].split(os.pathsep)
    assert added == os.path.join(files, "added.zip")
    assert executors == "of the executors"


def test_a_tree_that_is_not_built_says_what_to_do(unbuilt):
    done = subprocess.run([sys.executable, "-c", "import flinkbuf"], cwd=unbuilt, capture_output=True, text=True)
    assert done.stderr.strip().splitlines()[-1] == (
        f"ImportError: {unbuilt}/flinkbuf is flinkbuf's source, which is not built for this Python: start Python in "
        f"another directory to use an installed flinkbuf, or build this one with: pip install -e {unbuilt}"
    )


def test_the_function_arrives_as_itself():
    cloudpickle = pytest.importorskip("pyspark.cloudpickle", reason="pyspark is not installed")
    assert shipped(len)([1, 2]) == 2
    assert cloudpickle.loads(cloudpickle.dumps(shipped(len))) is len
