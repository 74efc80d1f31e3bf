"""The archive of jobs that have ended."""

import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.worlds.master_world import MasterWorld, pipeline

from flinkbuf.errors import CorruptDataError
from flinkbuf.runtime.picture.job_archive import archive_job, archived_jobs, read_archived_job
from flinkbuf.runtime.picture.job_details import job_details

ID = "0b" * 16


def test_a_job_and_back(tmp_path):
    world = MasterWorld(pipeline()).start().register_all().all_report("RUNNING", "FINISHED")
    details = job_details(world.job, 5)
    path = archive_job(tmp_path / "deep" / "er", details)
    assert path == tmp_path / "deep" / "er" / f"{ID}.json"
    assert read_archived_job(path.parent, ID) == details
    assert [each.name for each in path.parent.iterdir()] == [path.name], "nothing else is left there"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(values)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_json_can_say(tmp_path, value):
    archive_job(tmp_path, {"jid": ID, "value": value})
    assert read_archived_job(tmp_path, ID)["value"] == value


def test_the_same_job_again_replaces_the_file_as_a_whole(tmp_path):
    archive_job(tmp_path, {"jid": ID, "state": "RUNNING"})
    archive_job(tmp_path, {"jid": ID, "state": "FINISHED"})
    assert read_archived_job(tmp_path, ID)["state"] == "FINISHED"


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    archive_job(tmp_path, {"jid": ID, "state": "RUNNING"})
    with pytest.raises(ValueError):
        archive_job(tmp_path, {"jid": ID, "state": float("nan")})

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        archive_job(tmp_path, {"jid": ID, "state": "FINISHED"})
    assert read_archived_job(tmp_path, ID)["state"] == "RUNNING"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_was_never_archived(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"job {ID} is not archived in"):
        read_archived_job(tmp_path, ID)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", json.dumps({"jid": "f" * 32}).encode()])
def test_a_file_that_is_no_archive(tmp_path, data):
    (tmp_path / f"{ID}.json").write_bytes(data)
    with pytest.raises(CorruptDataError, match=f"{ID}.json: not the archive of"):
        read_archived_job(tmp_path, ID)


@pytest.mark.parametrize("job_id", ["../" + ID, "", ID.upper(), ID + "0"])
def test_an_id_that_is_none_does_not_become_a_path(tmp_path, job_id):
    for act in (lambda: read_archived_job(tmp_path, job_id), lambda: archive_job(tmp_path, {"jid": job_id})):
        with pytest.raises(ValueError, match="a job's id has 32 hex digits"):
            act()


def test_jobs_of_a_directory_the_last_first(tmp_path):
    ids = [f"{number:032x}" for number in range(3)]
    for number, job_id in enumerate(ids):
        os.utime(archive_job(tmp_path, {"jid": job_id}), ns=(0, number))
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / f".{ID}-x.tmp").write_text("{}")
    assert archived_jobs(tmp_path) == ids[::-1]
    assert archived_jobs(tmp_path / "nowhere") == []
