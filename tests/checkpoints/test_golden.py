"""Checkpoints that version 1 of the format has left are read, and jobs go on from them."""

import dataclasses
import os
import shutil
from pathlib import Path

import pytest
from support.data.checkpoint_files import JOB_ID, write_checkpoint
from support.programs.golden_savepoint import environment, results, stream

from flinkbuf.checkpoints.description import describe, verify
from flinkbuf.checkpoints.handles import StateHandle
from flinkbuf.checkpoints.metadata import VERSION
from flinkbuf.checkpoints.storage import storage_of

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoints"
SAVEPOINT = str(GOLDEN / "savepoint-v1")


def test_each_version_has_its_golden_files():
    assert {path.name for path in GOLDEN.iterdir()} >= {
        f"{kind}-v{version}" for kind in ("savepoint", "job") for version in range(1, VERSION + 1)
    }


def without_paths(value):
    """Names of files are drawn; where the checkpoint lies is another place."""
    if isinstance(value, StateHandle):
        return dataclasses.replace(value, path="somewhere" if value.path else "")
    if isinstance(value, tuple):
        return tuple(map(without_paths, value))
    if dataclasses.is_dataclass(value):
        return type(value)(
            **{each.name: without_paths(getattr(value, each.name)) for each in dataclasses.fields(value)}
        )
    return value


def test_metadata_says_what_it_said(tmp_path):
    storage = storage_of(str(GOLDEN))
    golden = storage.read_metadata(str(GOLDEN / "job-v1" / "chk-7"))
    written, _ = write_checkpoint(storage_of(str(tmp_path)))
    assert without_paths(golden) == without_paths(written)
    (subtask,) = golden.subtasks()
    handles = [*subtask.handles(), *(each.handle for each in subtask.shared_files())]
    assert [storage.read(handle) for handle in handles] == [
        b"split 1 of 2",
        b"lists" * 9,
        b"keyed" * 50,
        b"buffers",
        b"out",
        b"table" * 20,
    ]
    assert golden.job_id == JOB_ID


def test_every_byte_of_the_savepoint_is_as_it_was():
    found = verify(storage_of(SAVEPOINT), SAVEPOINT)
    assert (found.problems, found.states) == ((), 11)
    assert found.size == describe(storage_of(SAVEPOINT), SAVEPOINT)["size"]


@pytest.mark.filterwarnings("ignore:flinkbuf._core.time_window is:DeprecationWarning")  # it names its classes so
@pytest.mark.parametrize("parallelism, backend", [(2, "hashmap"), (1, "hashmap"), (3, "hashmap"), (2, "rocksdb")])
def test_a_job_goes_on_from_it(tmp_path, parallelism, backend):
    """Moved to another place, at another parallelism, in another backend."""
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    place = tmp_path / "savepoint-moved"
    shutil.copytree(SAVEPOINT, place)
    before = sorted(os.listdir(place))
    env = environment({"execution.state-recovery.path": str(place), "state.backend.type": backend})
    env.set_parallelism(parallelism)
    got = list(stream(env).execute_and_collect())
    done = [each for each in results() if each.startswith("window")]
    assert sorted(each for each in got if not each.startswith("window")) == results()[: -len(done)]
    assert 0 < len([each for each in got if each.startswith("window")]) < len(done), "some came before the savepoint"
    assert set(got) <= set(results())
    assert sorted(os.listdir(place)) == before
