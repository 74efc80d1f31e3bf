"""What a job leaves in files is its user's alone, whatever the program's umask is."""

import contextlib
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

import pytest
from support.other_user import as_other_user, needs_root

import flinkbuf as fb
from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.data_gen import DataGeneratorSource
from flinkbuf.datastream.state import ValueStateDescriptor
from flinkbuf.partition_files.data_set import PartitionDataSet, new_job
from flinkbuf.partition_files.job_owner import JobOwner
from flinkbuf.partition_files.manifest import DataFile, Layout
from flinkbuf.private_files import make_private_directories


class Count(KeyedProcessFunction):
    """Counts by key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value


@pytest.fixture
def place(monkeypatch):
    """A directory that all users may enter, for temporary files, too; nothing is withheld by the umask."""
    before = os.umask(0)
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    yield directory
    os.umask(before)
    shutil.rmtree(directory)


def begin(place, **more):
    pairs = {
        "execution.target": "embedded",
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.data-inline-threshold": "0 b",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "jobmanager.archive.fs.dir": str(place / "archive"),
        **more,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(pairs)).set_parallelism(1)
    source = DataGeneratorSource(int, 10**9, records_per_second=500)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers.key_by(lambda value: value % 7, Types.LONG()).process(Count())
    return env.execute_async("counts")


def await_checkpoint(client):
    deadline = time.monotonic() + 30
    while not client._job.details()["checkpoints"]["counts"]["completed"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def seen_by_others(directory):
    """What others may do something with, by path; of what lies in a private directory, nothing."""
    found = {}
    for each in entries_of(directory):
        with contextlib.suppress(FileNotFoundError):  # of a checkpoint that is deleted meanwhile
            mode = each.lstat().st_mode
            if stat.S_IMODE(mode) & 0o077:
                found[str(each.relative_to(directory))] = oct(stat.S_IMODE(mode) & 0o077)
                inside = seen_by_others(each) if stat.S_ISDIR(mode) else {}
                found |= {f"{each.name}/{name}": seen for name, seen in inside.items()}
    return found


def entries_of(directory):
    try:
        return list(directory.iterdir())
    except FileNotFoundError:
        return []


def files_below(directory):
    return [each for each in directory.rglob("*") if each.is_file()]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_pointers_savepoints_and_archives_are_the_users_alone(place, backend):
    settings = {
        "state.backend.type": backend,
        "state.backend.rocksdb.localdir": str(place / "rocks"),
        "execution.checkpointing.dir": str(place / "a" / "checkpoints"),
        "high-availability.storageDir": str(place / "ha"),
    }
    client = begin(place, **settings)
    await_checkpoint(client)
    try:
        client.trigger_savepoint(str(place / "savepoints")).result()
        assert seen_by_others(place) == {}
        assert list(place.glob("ha/**/job-*")) and list(place.glob("savepoints/*/_metadata"))
    finally:
        client.cancel().result()
    deadline = time.monotonic() + 30
    while not list(place.glob("archive/*.json")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert seen_by_others(place) == {}
    files = [each for kept in ("a", "archive", "savepoints", "ha") for each in files_below(place / kept)]
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    directories = [each.parent for each in files]
    assert {stat.S_IMODE(each.stat().st_mode) for each in directories} == {0o700}


def test_temporary_directories_are_the_users_alone(place):
    client = begin(place)
    try:
        await_checkpoint(client)
        assert list(place.glob("flinkbuf-checkpoints-*/**/_metadata"))
        assert seen_by_others(place) == {}
    finally:
        client.cancel().result()


def test_partition_files_and_data_sets_are_the_users_alone(place):
    with (
        fb.NetworkBufferPool(64, 32_768) as pool,
        fb.ResultPartition(pool, 2, "BLOCKING_PERSISTENT", place / "partition") as partition,
        fb.RecordWriter(partition, fb.Types.LONG(), "rebalance") as writer,
    ):
        writer.emit_all(range(1000))
    files = PartitionDataSet(str(place / "set"))
    job, owner = new_job(), JobOwner.of_this_process()
    base = files.begin_part(job, owner, 0)
    for suffix, data in ((".shuffle.data", b"x"), (".shuffle.index", b"index")):
        with open(base + suffix, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:  # as in C
            file.write(data)
    schema = {"type": "struct", "fields": [{"name": "k", "type": "long", "nullable": False, "metadata": {}}]}
    layout = Layout(schema, "Types.ROW_NAMED(['k'], [Types.LONG()])", ("k",), 2, 128)
    files.commit(job, layout, [DataFile(os.path.basename(base), 1, 5, 0, (1, 0), (1, 0), (0, 0), 32_768)], "overwrite")
    aborted = new_job()
    files.begin_part(aborted, owner, 0)
    files.abort(aborted, owner)
    assert len(files_below(place)) >= 6
    assert {stat.S_IMODE(each.stat().st_mode) for each in files_below(place)} == {0o600}
    assert {stat.S_IMODE(each.stat().st_mode) for each in place.rglob("*") if each.is_dir()} == {0o700}


def test_a_directory_that_is_there_stays_as_it_is(place):
    (place / "open").mkdir()
    make_private_directories(place / "open" / "new")
    make_private_directories(place / "open" / "new")
    assert seen_by_others(place) == {"open": "0o77"}
    (place / "file").touch()
    with pytest.raises(FileExistsError):
        make_private_directories(place / "file")


@needs_root
def test_another_user_reads_no_state_and_no_function(place):
    client = begin(
        place,
        **{"execution.checkpointing.dir": str(place / "kept"), "high-availability.storageDir": str(place / "ha")},
    )
    try:
        await_checkpoint(client)
        paths = [str(each) for each in files_below(place)]
        assert any("/job-" in each for each in paths) and any("chk-" in each for each in paths)

        def read():
            tried = [
                (os.listdir, str(place / "kept")),
                (os.listdir, str(place / "ha")),
                *((open, path) for path in paths),
            ]
            opened = []
            for call, path in tried:
                try:
                    call(path)
                    opened.append(path)
                except (PermissionError, FileNotFoundError):
                    continue
            return opened

        assert as_other_user(read) == []
    finally:
        client.cancel().result()
