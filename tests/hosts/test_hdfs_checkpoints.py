"""Checkpoints, and the directory of highly available jobs, on a real HDFS: its daemons are killed and started again."""

import contextlib
import pickle
import threading
import time
import zlib

import pytest
from support.data.checkpoint_files import JOB_ID, inline, write_checkpoint, written
from support.programs.checkpointed_jobs import completed, until
from support.programs.golden_savepoint import environment, results, stream
from support.waiting import wait_until

from flinkbuf.checkpoints import ha_hdfs, hdfs_files
from flinkbuf.checkpoints import ha_protocol as protocol
from flinkbuf.checkpoints.description import verify
from flinkbuf.checkpoints.ha_protocol import LeaseLostError
from flinkbuf.checkpoints.ha_store import HaStore
from flinkbuf.checkpoints.handles import StateHandle
from flinkbuf.checkpoints.locations import SHARED, checkpoint_location, child, name_of, savepoint_location
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.errors import CorruptDataError

pytestmark = pytest.mark.hosts


@pytest.fixture
def storage(directory):
    return storage_of(directory)


def files_below(location):
    """The files below a directory, as the NameNode lists them."""
    client, path = hdfs_files.hdfs_client(location), hdfs_files.path_of(location)
    with contextlib.suppress(FileNotFoundError):
        found = [each.path for each in client.list_status(path, True) if not each.isdir]
        return sorted(each[each.index(path) + len(path) + 1 :] for each in found)
    return []


def test_a_checkpoint_is_written_and_read(storage):
    metadata, path = write_checkpoint(storage)
    other = pickle.loads(pickle.dumps(storage))
    assert other.read_metadata(path) == metadata
    for handle in next(metadata.subtasks()).handles():
        assert len(other.read(handle)) == handle.size
    assert f"{JOB_ID}/chk-7/_metadata" in files_below(storage.directory)


def test_state_of_many_blocks_is_read_in_pieces(storage):
    block = bytes(range(256)) * 2048
    with storage.open_output(storage.directory) as output:
        assert [output.write(block) for _ in range(9)] == [len(block) * index for index in range(9)]
        output.write(b"")
        path = output.finish()
        assert output.finish() == path
    with storage.open_input(path) as file:
        assert file.size == 9 * len(block)
        assert file.read_at((4 << 20) - 3, 9) == block[-3:] + block[:6], "over the border of two blocks"
        assert file.read_at(file.size, 0) == b""
        with pytest.raises(CorruptDataError, match="in all"):
            file.read_at(file.size, 1)
    handle = StateHandle(len(block), zlib.crc32(block), path, 8 * len(block))
    assert storage.read(handle) == block


def test_many_threads_write_and_read_at_once(storage):
    found = {}

    def work(number):
        handles = written(storage, storage.directory, bytes([number]) * 100_000, b"x" * number)
        found[number] = [zlib.crc32(storage.read(handle)) for handle in handles]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {n: [zlib.crc32(bytes([n]) * 100_000), zlib.crc32(b"x" * n)] for n in range(8)}


def test_what_is_given_up_is_gone(storage):
    with pytest.raises(KeyError):
        with storage.open_output(storage.directory) as output:
            output.write(b"x" * 3_000_000)
            raise KeyError
    assert files_below(storage.directory) == []
    output = storage.open_output(storage.directory)
    output.write(b"x")
    output.abort()
    with pytest.raises(OSError, match="given up"):
        output.write(b"x")
    output = storage.open_output(storage.directory)
    output.finish()
    output.discard()
    assert files_below(storage.directory) == []


def test_metadata_is_never_written_again(storage):
    metadata, path = write_checkpoint(storage)
    before = files_below(storage.directory)
    with pytest.raises(FileExistsError, match="is there already"):
        storage.write_metadata(checkpoint_location(storage.directory, JOB_ID, 7), metadata)
    assert files_below(storage.directory) == before
    assert storage.read_metadata(path) == metadata


def test_a_checkpoint_that_is_deleted_while_a_task_writes_into_it_stays_deleted(storage):
    """The task hears of it from the NameNode, which knows no such file any more."""
    location = checkpoint_location(storage.directory, JOB_ID, 3)
    output = storage.open_output(location)
    output.write(b"x" * 2_000_000)
    storage.delete_checkpoint(location)
    with pytest.raises(OSError, match="chk-3"):
        with output:
            output.write(b"x" * 2_000_000)
            output.finish()
    assert files_below(storage.directory) == []


def test_checkpoints_are_found_and_deleted(storage):
    first, second = (write_checkpoint(storage, number) for number in (1, 2))
    write_checkpoint(storage, 4, savepoint_location(storage.directory, JOB_ID, "0" * 12))
    written(storage, checkpoint_location(storage.directory, JOB_ID, 3), b"unfinished")
    written(storage, child(storage.directory, JOB_ID, SHARED), b"shared")
    found = {name_of(each.location): each.is_complete for each in storage.list_checkpoints()}
    assert found == {"chk-1": True, "chk-2": True, "chk-3": False, "savepoint-ababab-" + "0" * 12: True}
    with pytest.raises(FileNotFoundError):
        storage.list_checkpoints(child(storage.directory, "nothing"))
    for _ in range(2):
        storage.delete_checkpoint(checkpoint_location(storage.directory, JOB_ID, 1))
    with pytest.raises(FileNotFoundError, match="no checkpoint or savepoint at"):
        storage.read_metadata(first[1])
    assert storage.read_metadata(second[1]) == second[0]
    shared = [file.handle for file in next(first[0].subtasks()).shared_files()]
    storage.delete([*shared, inline(b"x")])
    storage.delete(shared)
    for number in (2, 3):
        storage.delete_checkpoint(checkpoint_location(storage.directory, JOB_ID, number))
    storage.remove_job_directory(JOB_ID)
    assert files_below(child(storage.directory, JOB_ID)) == []


def test_options_of_the_uri(hdfs, directory):
    storage = storage_of(directory + "?replication=1")
    (handle,) = written(storage, storage.directory, b"state")
    path = hdfs_files.path_of(handle.path)
    status = hdfs_files.hdfs_client(directory).get_file_info(path)
    assert (status.replication, status.permission & 0o777) == (1, 0o600)
    with pytest.raises(ValueError, match="has the option replication=<number> and no other"):
        storage_of(directory + "?replicas=1").open_output(directory + "?replicas=1")


def test_the_default_file_system_is_that_of_hadoops_configuration(directory):
    (handle,) = written(storage_of(directory), directory, b"state")
    assert storage_of("hdfs:///of").read(StateHandle(5, path="hdfs://" + hdfs_files.path_of(handle.path))) == b"state"


def test_in_a_container_of_yarn_configuration_and_user_are_those_that_spark_has_brought(
    hdfs, directory, monkeypatch, tmp_path
):
    storage = storage_of(directory)
    hdfs_files.hdfs_client(directory).mkdirs("/alice", 0o777, True)
    hdfs_files.hdfs_client(directory).set_permission("/alice", 0o777)
    (tmp_path / "__spark_conf__").mkdir()
    (tmp_path / "__spark_conf__" / "__hadoop_conf__").symlink_to(hdfs.client_configuration)
    monkeypatch.delenv("HADOOP_CONF_DIR")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONTAINER_ID", "container_1")
    monkeypatch.setenv("SPARK_USER", "alice")
    monkeypatch.setenv("HADOOP_USER_NAME", "nobody")
    monkeypatch.delenv("HADOOP_USER_NAME")  # which is put back as it was, whoever sets it meanwhile
    (handle,) = written(storage_of("hdfs:///alice"), "hdfs:///alice", b"state")
    monkeypatch.delenv("HADOOP_USER_NAME")
    assert storage.read(StateHandle(5, path=hdfs.uri(hdfs_files.path_of(handle.path)[1:]))) == b"state"
    assert hdfs_files.hdfs_client(directory).get_file_info(hdfs_files.path_of(handle.path)).owner == "alice"


def test_a_directory_that_is_another_users_is_refused(hdfs, directory, monkeypatch):
    written(storage_of(directory), directory, b"state")
    monkeypatch.setenv("HADOOP_USER_NAME", "mallory")
    with pytest.raises(PermissionError, match="mallory"):
        storage_of(directory).open_output(directory)


# ---- daemons that go


def test_a_data_node_that_is_killed_while_state_is_written_changes_nothing(hdfs, storage):
    with storage.open_output(storage.directory) as output:
        for number in range(12):
            output.write(bytes([number]) * 500_000)
            if number == 5:
                hdfs.kill("datanode1")
        path = output.finish()
    try:
        with storage.open_input(path) as file:
            assert [file.read_at(number * 500_000 + 7, 1)[0] for number in range(12)] == list(range(12))
        (handle,) = written(storage, storage.directory, b"more")
        assert storage.read(handle) == b"more"
    finally:
        hdfs.start("datanode1")


def test_a_name_node_that_is_gone_is_an_error_in_good_time_and_serves_again(hdfs, storage):
    metadata, path = write_checkpoint(storage)
    hdfs.kill("namenode")
    try:
        began = time.monotonic()
        with pytest.raises(OSError, match="hdfs://127.0.0.1"):
            storage.read_metadata(path)
        with pytest.raises(OSError, match="hdfs://127.0.0.1"):
            storage.open_output(storage.directory)
        assert time.monotonic() - began < 60
    finally:
        hdfs.start("namenode")
    hdfs.wait_until_writable()
    assert storage.read_metadata(path) == metadata
    (handle,) = written(storage, storage.directory, b"again")
    assert storage.read(handle) == b"again"


def test_a_job_goes_on_over_a_name_node_that_is_started_again(hdfs, directory):
    """It fails for as long as no checkpoint can be taken or read, and counts each record once."""
    settings = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.data-inline-threshold": "0 b",
        "execution.checkpointing.dir": directory,
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.initial-backoff": "200 ms",
        "restart-strategy.exponential-delay.max-backoff": "1 s",
    }
    env = environment(settings)
    found = []
    stream(env, delay_s=0.01).add_sink(found.append)
    client = env.execute_async("on HDFS")
    until(lambda: completed(client) >= 2)
    hdfs.kill("namenode")
    time.sleep(1)
    hdfs.start("namenode")
    client.get_job_execution_result().result()
    hdfs.wait_until_writable()
    assert sorted(each for each in set(found) if not each.startswith("window")) == results()[:-6]
    assert files_below(directory) == []


def test_a_job_keeps_its_checkpoints_there_and_goes_on_from_a_savepoint(hdfs, directory):
    settings = {"execution.checkpointing.interval": "50 ms", "execution.checkpointing.data-inline-threshold": "0 b"}
    env = environment({"execution.checkpointing.dir": directory, **settings})
    stream(env, delay_s=0.005).print()
    client = env.execute_async("on HDFS")
    until(lambda: has_ended(client, "Source: Collection Source") and completed(client) >= 1)
    savepoint = client.stop_with_savepoint(False, directory).result()
    assert verify(storage_of(directory), savepoint).problems == ()
    env = environment(
        {"execution.checkpointing.dir": directory, "execution.state-recovery.path": savepoint, **settings}
    )
    got = list(stream(env.set_parallelism(3)).execute_and_collect())
    assert [each for each in sorted(got) if not each.startswith("window")] == results()[:-6]
    assert [each.location for each in storage_of(directory).list_checkpoints()] == [savepoint]


def has_ended(client, name):
    """Whether all subtasks of a task have: one that is about to end refuses a savepoint."""
    (vertex,) = (each for each in client.details()["vertices"] if each["name"] == name)
    return vertex["tasks"].get("FINISHED") == vertex["parallelism"]


# ---- who may run a job


def taken(store, timeout_ms=0):
    lease = store.try_acquire(timeout_ms)
    assert lease is not None
    return lease


def test_a_job_is_taken_over_with_all_that_counts(directory):
    store = HaStore(directory, "default", "my job")
    first = taken(store)
    first.store_job(JOB_ID, b"\x00job" * 1000)
    for number in (1, 2, 3):
        first.add_checkpoint(number, f"/c/chk-{number}/_metadata")
    first.remove_checkpoint(1)
    second = taken(store)
    assert (second.epoch, second.previous.job_id, second.previous.job) == (2, JOB_ID, b"\x00job" * 1000)
    assert second.checkpoints() == ((2, "/c/chk-2/_metadata"), (3, "/c/chk-3/_metadata"))
    with pytest.raises(LeaseLostError):
        first.add_checkpoint(4, "/c/chk-4/_metadata")
    second.add_checkpoint(4, "/c/chk-4-2/_metadata")
    assert [each.job_name for each in HaStore.unfinished(directory).stores] == ["my job"]
    second.finish("FINISHED")
    assert HaStore.unfinished(directory).stores == []
    assert store.peek().is_finished


def test_a_lease_that_is_renewed_is_held_and_one_that_is_not_is_taken(directory, monkeypatch):
    monkeypatch.setattr("flinkbuf.checkpoints.ha_store.is_gone", lambda holder: False)
    store = HaStore(directory, "default", "job")
    first = taken(store)
    assert store.try_acquire(60_000) is None
    time.sleep(1.2)
    first.renew()
    assert store.try_acquire(1_000) is None
    assert wait_until(lambda: store.try_acquire(1_000), 10)
    with pytest.raises(LeaseLostError):
        first.renew()


def test_of_many_that_take_a_job_at_once_one_does(directory):
    store = HaStore(directory, "default", "job")
    taken(store).release()
    found, ready = [], threading.Barrier(6)

    def take():
        mine = HaStore(directory, "default", "job")
        ready.wait(30)
        lease = mine.try_acquire(60_000)
        found.append(None if lease is None else lease.epoch)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    epochs = [each for each in found if each is not None]
    assert len(found) == 6 and len(epochs) == len(set(epochs)) and epochs, found


def test_a_write_whose_answer_is_lost_is_not_done_later(directory):
    """The name under which its bytes lie is gone before anything else is asked."""
    place = ha_hdfs.HdfsHaDirectory(directory)
    place.make()
    place.do(protocol.Write("state-1", b"old"))
    client, sent = place._files._client, []

    class Lost:
        def rename(self, *arguments):
            sent.append(arguments)
            raise RuntimeError("the answer is lost")

        def __getattr__(self, name):
            return getattr(client, name)

    place._files._client = Lost()
    with pytest.raises(OSError, match="the answer is lost"):
        place.do(protocol.Write("state-1", b"new"))
    place._files._client = client
    assert place.do(protocol.Read("state-1")) == b"old"
    with pytest.raises(FileNotFoundError), hdfs_files.errors_at(directory):
        client.rename(*sent[0])
    assert place.do(protocol.Read("state-1")) == b"old"
    assert files_below(directory) == ["state-1"]


def test_without_hdfs_native_one_is_told_what_to_install(directory, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "hdfs_native", None)
    with pytest.raises(ValueError, match=r"pip install 'flinkbuf\[hdfs\]'"):
        HaStore(directory, "default", "job")
    with pytest.raises(OSError, match="need hdfs-native: pip install"):
        storage_of(directory).open_output(directory)
