"""Checkpoints on a real S3 server, through pyarrow.fs; and what is said where there is none."""

import pickle
import threading
import time
import zlib

import pytest
from support.data.checkpoint_files import JOB_ID, inline, write_checkpoint, written
from support.programs.checkpointed_jobs import completed, until
from support.programs.golden_savepoint import environment, results, stream
from support.servers.s3_server import running_s3_server

from flinkbuf.checkpoints.description import verify
from flinkbuf.checkpoints.handles import StateHandle
from flinkbuf.checkpoints.locations import SHARED, checkpoint_location, child, name_of, savepoint_location
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.errors import CorruptDataError

pytest.importorskip("moto.server", reason="an S3 server is needed: pip install 'moto[s3]' flask flask-cors")


@pytest.fixture(scope="module")
def server():
    with running_s3_server() as started:
        yield started


@pytest.fixture
def storage(server, request):
    return storage_of(server.uri(f"of/{request.node.name}".replace("[", "-").replace("]", "")))


def objects(server, storage):
    """The keys of all objects below a storage's directory, as the server itself names them."""
    prefix = storage.directory.partition("://checkpoints/")[2].partition("?")[0]
    listing = server.request("GET", f"checkpoints?list-type=2&prefix={prefix}/").decode()
    keys = [each.partition("</Key>")[0] for each in listing.split("<Key>")[1:]]
    return [key.removeprefix(prefix + "/") for key in keys if not key.endswith("/")]


def test_credentials_come_from_the_surroundings(storage):
    assert pickle.loads(pickle.dumps(storage)).directory == storage.directory
    with pytest.raises(ValueError, match="credentials, s3://…, cannot be a directory of checkpoints") as caught:
        storage_of(storage.directory.replace("s3://", "s3://user:hidden@"))
    assert "hidden" not in str(caught.value)


def test_a_checkpoint_is_written_and_read(server, storage):
    metadata, path = write_checkpoint(storage)
    assert f"{JOB_ID}/chk-7/_metadata" in objects(server, storage)
    assert storage.read_metadata(path) == storage.read_metadata(checkpoint_location(storage.directory, JOB_ID, 7))
    assert storage.read_metadata(path) == metadata
    handles = [*next(metadata.subtasks()).handles()]
    assert all(len(storage.read(handle)) == handle.size for handle in handles)


def test_another_process_reads_it_by_its_handles(storage):
    metadata, path = write_checkpoint(storage)
    other = pickle.loads(pickle.dumps(storage))
    assert other.read_metadata(path) == metadata
    for handle in next(metadata.subtasks()).handles():
        assert other.read(handle) == storage.read(handle)


def test_a_storage_on_this_machine_reads_what_lies_there(storage, tmp_path):
    metadata, path = write_checkpoint(storage)
    local = storage_of(str(tmp_path))
    assert local.read_metadata(path) == metadata
    (handle,) = written(local, local.directory, b"here")
    assert storage.read(handle) == b"here"


def test_large_state_goes_up_in_parts_and_is_read_in_pieces(storage):
    block = bytes(range(256)) * 4096
    with storage.open_output(storage.directory) as output:
        assert [output.write(block) for _ in range(24)] == [len(block) * index for index in range(24)]
        path = output.finish()
        assert output.finish() == path
    with storage.open_input(path) as file:
        assert file.size == 24 << 20
        assert file.read_at((17 << 20) + 5, 9) == block[5:14]
        with pytest.raises(CorruptDataError, match="in all"):
            file.read_at(24 << 20, 1)
    handle = StateHandle(len(block), zlib.crc32(block), path, 23 << 20)
    assert storage.read(handle) == block


def test_a_directory_is_the_same_by_hadoops_name(server, storage):
    (handle,) = written(storage, storage.directory, b"state")
    hadoop = storage_of("s3a" + storage.directory.removeprefix("s3"))
    path = handle.path.replace("s3://", "s3a://")
    assert hadoop.read(StateHandle(5, path=path)) == b"state"


def test_what_is_given_up_is_gone(server, storage):
    with pytest.raises(KeyError):
        with storage.open_output(storage.directory) as output:
            output.write(b"x" * 1_000_000)
            raise KeyError
    assert objects(server, storage) == []
    output = storage.open_output(storage.directory)
    output.write(b"x")
    thread = threading.Thread(target=output.abort)
    thread.start()
    thread.join()
    assert objects(server, storage) == []
    with pytest.raises(OSError, match="given up"):
        output.write(b"x")


def test_metadata_is_never_written_again(storage):
    metadata, _ = write_checkpoint(storage)
    with pytest.raises(FileExistsError, match="is there already"):
        storage.write_metadata(checkpoint_location(storage.directory, JOB_ID, 7), metadata)


def test_a_damaged_object_is_refused_by_its_name(server, storage):
    (handle,) = written(storage, storage.directory, b"state")
    with storage._files(handle.path)._fs.open_output_stream(storage._files(handle.path)._path(handle.path)) as file:
        file.write(b"stale")
    with pytest.raises(CorruptDataError, match="is damaged at byte 0") as caught:
        storage.read(handle)
    assert caught.value.path == handle.path
    with storage._files(handle.path)._fs.open_output_stream(storage._files(handle.path)._path(handle.path)) as file:
        file.write(b"sta")
    with pytest.raises(CorruptDataError, match="is damaged at byte 0: 5 bytes are said to be at 0, but it has 3"):
        storage.read(handle)


def test_checkpoints_are_deleted_one_by_one(server, storage):
    first, second = (write_checkpoint(storage, number) for number in (1, 2))
    storage.delete_checkpoint(checkpoint_location(storage.directory, JOB_ID, 1))
    storage.delete_checkpoint(checkpoint_location(storage.directory, JOB_ID, 1))
    with pytest.raises(FileNotFoundError, match="no checkpoint or savepoint at"):
        storage.read_metadata(first[1])
    assert storage.read_metadata(second[1]) == second[0]
    shared = [file.handle for metadata, _ in (first, second) for file in next(metadata.subtasks()).shared_files()]
    assert all(storage.read(handle) for handle in shared)
    storage.delete([*shared, inline(b"x")])
    storage.delete(shared)
    storage.remove_job_directory(JOB_ID)
    assert storage.read_metadata(second[1]) == second[0]
    storage.delete_checkpoint(checkpoint_location(storage.directory, JOB_ID, 2))
    storage.remove_job_directory(JOB_ID)
    assert objects(server, storage) == []
    assert "checkpoints" in server.request("GET", "").decode(), "the bucket stays"


def test_checkpoints_are_found(storage):
    write_checkpoint(storage, 1)
    write_checkpoint(storage, 2, savepoint_location(storage.directory, JOB_ID, "0" * 12))
    written(storage, checkpoint_location(storage.directory, JOB_ID, 3), b"unfinished")
    written(storage, child(storage.directory, JOB_ID, SHARED), b"shared")
    found = storage.list_checkpoints()
    by_name = {name_of(each.location): each for each in found}
    assert {name: each.is_complete for name, each in by_name.items()} == {
        "chk-1": True,
        "chk-3": False,
        "savepoint-ababab-" + "0" * 12: True,
    }
    assert storage.list_checkpoints(child(storage.directory, JOB_ID, "chk-1")) == (by_name["chk-1"],)
    with pytest.raises(FileNotFoundError):
        storage.list_checkpoints(child(storage.directory, "nothing"))


def test_a_bucket_that_is_not_there_is_named(server):
    storage = storage_of(server.uri("x").replace("checkpoints", "no-such-bucket"))
    with pytest.raises(OSError, match="s3://no-such-bucket/x"):
        with storage.open_output(storage.directory) as output:
            output.write(b"x")
            output.finish()
    with pytest.raises(OSError, match="no-such-bucket"):
        storage.read(StateHandle(1, path=child(storage.directory, "x")))


def test_a_server_that_is_gone_is_an_error_in_good_time():
    with running_s3_server() as server:
        storage = storage_of(server.uri("gone"))
        _, path = write_checkpoint(storage)
    began = time.monotonic()
    with pytest.raises(OSError, match="s3://checkpoints/gone"):
        storage.read_metadata(path)
    assert time.monotonic() - began < 60


def has_ended(client, name):
    """Whether all subtasks of a task have: one that is about to end refuses a savepoint."""
    (vertex,) = (each for each in client.details()["vertices"] if each["name"] == name)
    return vertex["tasks"].get("FINISHED") == vertex["parallelism"]


def test_a_job_keeps_its_checkpoints_there_and_goes_on_from_one(server):
    uri = server.uri("jobs")
    settings = {"execution.checkpointing.interval": "50 ms", "execution.checkpointing.data-inline-threshold": "0 b"}
    env = environment({"execution.checkpointing.dir": uri, **settings})
    stream(env, delay_s=0.005).print()
    client = env.execute_async("on S3")
    until(lambda: has_ended(client, "Source: Collection Source") and completed(client) >= 1)
    savepoint = client.stop_with_savepoint(False, uri).result()
    assert verify(storage_of(uri), savepoint).problems == ()
    env = environment({"execution.checkpointing.dir": uri, "execution.state-recovery.path": savepoint, **settings})
    got = list(stream(env.set_parallelism(3)).execute_and_collect())
    assert [each for each in sorted(got) if not each.startswith("window")] == results()[:-6]
    left = storage_of(uri).list_checkpoints()
    assert [each.location for each in left] == [savepoint], "those of jobs that have ended are gone"


def test_a_file_system_that_pyarrow_does_not_know_is_refused():
    with pytest.raises(ValueError, match="no file system for checkpoints at gopher://"):
        storage_of("gopher://host/x").open_output("gopher://host/x")


def test_without_pyarrow_one_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        storage_of("s3://bucket/x").open_output("s3://bucket/x")
