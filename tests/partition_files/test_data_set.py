"""Commits are all or nothing, whoever is killed when; what is needed is never cleared away, and nothing else stays."""

import errno
import os
import signal
import threading
from pathlib import Path

import pytest

from flinkbuf.errors import CorruptDataError
from flinkbuf.partition_files import data_set as module
from flinkbuf.partition_files.data_set import LEFTOVER_S, PartitionDataSet, local_path, new_job
from flinkbuf.partition_files.job_owner import JobOwner
from flinkbuf.partition_files.manifest import DataFile, Layout

SCHEMA = {"type": "struct", "fields": [{"name": "k", "type": "long", "nullable": False, "metadata": {}}]}
LAYOUT = Layout(SCHEMA, "Types.ROW_NAMED(['k'], [Types.LONG()])", ("k",), 2, 128)
ALIVE = JobOwner.of_this_process()
DEAD = JobOwner(ALIVE.place, ALIVE.process_id, ALIVE.started + 1)  # the number was given to another one since
ELSEWHERE = JobOwner("0123456789abcdef", 1, 1)


class Clock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def data_set(tmp_path, clock):
    return PartitionDataSet(str(tmp_path / "set"), clock)


def write_part(data_set, job, text, owner=ALIVE, task=0):
    """Write what a task would; its data file holds `text`."""
    base = data_set.begin_part(job, owner, task)
    data = text.encode()
    Path(base + ".shuffle.data").write_bytes(data)
    Path(base + ".shuffle.index").write_bytes(b"index")
    for suffix in (".shuffle.data", ".shuffle.index"):
        os.utime(base + suffix, (data_set._now(), data_set._now()))
    return DataFile(os.path.basename(base), len(data), 5, 0, (1, 0), (len(data), 0), (0, 0), 32_768)


def write(data_set, text, operation="overwrite", **options):
    job = new_job()
    return data_set.commit(job, LAYOUT, [write_part(data_set, job, text)], operation, **options)


def texts(data_set, manifest=None):
    """What the files of a version hold."""
    files = (manifest or data_set.manifest()).files
    return [Path(data_set.base_path(each) + ".shuffle.data").read_text() for each in files]


def data_files(data_set):
    return sorted(os.listdir(data_set.directory("data")))


def test_nothing_is_there_before_the_first_commit(data_set):
    assert not data_set.exists()
    with pytest.raises(FileNotFoundError, match="holds no data set of partition files"):
        data_set.manifest()
    write_part(data_set, new_job(), "unfinished")
    assert not data_set.exists()


def test_append_adds_and_overwrite_replaces(data_set):
    assert write(data_set, "a", "append").version == 1
    assert write(data_set, "b", "append").version == 2
    assert texts(data_set) == ["a", "b"]
    assert write(data_set, "c").version == 3
    assert texts(data_set) == ["c"]
    assert os.listdir(data_set.directory("_jobs")) == []


def test_a_reader_that_began_before_an_overwrite_finishes_on_the_old_files(data_set, clock):
    write(data_set, "old")
    began = data_set.manifest()
    write(data_set, "new")
    clock.now += 3599
    write(data_set, "newer")
    assert texts(data_set, began) == ["old"]
    clock.now += 2
    data_set.sweep()
    with pytest.raises(FileNotFoundError):
        texts(data_set, began)
    assert texts(data_set) == ["newer"]
    assert data_set.versions() == [2, 3]  # version 2 was replaced less than an hour ago


def test_without_retention_replaced_files_go_at_once(data_set):
    write(data_set, "old", retention_s=0)
    write(data_set, "new", retention_s=0)
    assert texts(data_set) == ["new"]
    assert len(data_files(data_set)) == 2
    assert data_set.versions() == [2]


def test_files_that_a_later_version_still_has_stay(data_set, clock):
    write(data_set, "a", "append", retention_s=0)
    write(data_set, "b", "append", retention_s=0)
    write(data_set, "c", "append", retention_s=0)
    assert texts(data_set) == ["a", "b", "c"]
    assert data_set.versions() == [3]


def test_what_a_dead_job_left_goes_with_the_next_commit(data_set):
    write_part(data_set, new_job(), "lost", owner=DEAD)
    write(data_set, "kept")
    assert len(data_files(data_set)) == 2
    assert os.listdir(data_set.directory("_jobs")) == []


@pytest.mark.parametrize("owner", [ALIVE, ELSEWHERE])
def test_what_a_living_or_unknown_job_writes_stays_for_a_day(data_set, clock, owner):
    job = new_job()
    write_part(data_set, job, "on its way", owner=owner)
    write(data_set, "a")
    assert len(data_files(data_set)) == 4
    os.utime(os.path.join(data_set.directory("_jobs"), f"{job}.{owner.to_name()}"), (clock.now, clock.now))
    clock.now += LEFTOVER_S + 1
    data_set.sweep()
    assert texts(data_set) == ["a"]
    assert len(data_files(data_set)) == 2


def test_files_of_users_are_never_touched(data_set, clock):
    write(data_set, "a")
    notes = Path(data_set.directory("data"), "notes.txt")
    notes.write_text("mine")
    os.utime(notes, (0, 0))
    data_set.sweep()
    assert notes.read_text() == "mine"


def test_abort_removes_what_the_job_wrote_and_nothing_else(data_set):
    write(data_set, "a")
    job = new_job()
    write_part(data_set, job, "b")
    data_set.abort(job, ALIVE)
    assert texts(data_set) == ["a"]
    assert len(data_files(data_set)) == 2


def test_a_late_abort_spares_files_that_a_later_version_has(data_set):
    job = new_job()
    data_set.commit(job, LAYOUT, [write_part(data_set, job, "a")], "append")
    write(data_set, "b", "append", retention_s=0)
    assert data_set.versions() == [2], "that of the job is cleared away"
    data_set.abort(job, ALIVE)
    assert texts(data_set) == ["a", "b"]


def test_tasks_of_an_aborted_job_are_told(data_set, clock):
    """Spark calls abort while tasks still run, and some have yet to begin."""
    write(data_set, "a")
    job = new_job()
    write_part(data_set, job, "b")
    data_set.check_job(job, ALIVE)
    data_set.abort(job, ALIVE)
    with pytest.raises(InterruptedError, match="was aborted"):
        data_set.check_job(job, ALIVE)
    with pytest.raises(InterruptedError, match="was aborted"):
        data_set.begin_part(job, ALIVE, 1)
    for other in (new_job(), new_job()):
        data_set.begin_part(other, ALIVE, 1)
    (record,) = (name for name in os.listdir(data_set.directory("_jobs")) if name.startswith(job))
    os.utime(os.path.join(data_set.directory("_jobs"), record), (clock.now, clock.now))
    clock.now += LEFTOVER_S + 1
    data_set.sweep()
    assert record not in os.listdir(data_set.directory("_jobs"))


def test_an_abort_removes_files_although_the_disk_is_full(data_set, monkeypatch):
    write(data_set, "a")
    job = new_job()
    write_part(data_set, job, "b")

    open_file = open

    def full(path, mode="r", *args, **more):
        if "w" in mode:
            raise OSError(errno.ENOSPC, "no space left on device", path)
        return open_file(path, mode, *args, **more)

    monkeypatch.setattr("builtins.open", full)
    with pytest.raises(OSError, match="no space"):
        data_set.abort(job, ALIVE)
    monkeypatch.undo()
    assert len(data_files(data_set)) == 2


def test_a_job_that_is_aborted_before_it_wrote_changes_nothing(data_set):
    data_set.abort(new_job(), ALIVE)
    assert not os.path.exists(data_set.path)


def test_after_a_commit_the_slower_of_two_attempts_is_let_be(data_set):
    job = new_job()
    data_set.commit(job, LAYOUT, [write_part(data_set, job, "a")], "append")
    data_set.check_job(job, ALIVE)


def test_attempts_that_failed_or_were_slower_go_at_commit(data_set):
    job = new_job()
    write_part(data_set, job, "lost attempt")
    kept = write_part(data_set, job, "attempt that won")
    data_set.commit(job, LAYOUT, [kept], "append")
    assert texts(data_set) == ["attempt that won"]
    assert len(data_files(data_set)) == 2


def test_a_commit_whose_files_are_gone_or_cut_is_refused(data_set):
    write(data_set, "old")
    job = new_job()
    part = write_part(data_set, job, "new rows")
    path = data_set.base_path(part) + ".shuffle.data"
    Path(path).write_bytes(b"new")
    with pytest.raises(OSError, match="3 bytes where a task has written 8"):
        data_set.commit(job, LAYOUT, [part], "overwrite")
    os.unlink(path)
    with pytest.raises(FileNotFoundError):
        data_set.commit(job, LAYOUT, [part], "overwrite")
    assert texts(data_set) == ["old"]


def test_rows_of_another_layout_are_not_appended(data_set):
    write(data_set, "a")
    other = Layout(SCHEMA, LAYOUT.record_type, ("k",), 4, 128)
    with pytest.raises(ValueError, match="num_partitions is 2, that of the new rows 4"):
        data_set.check_new_rows(other, "append")
    with pytest.raises(ValueError, match="num_partitions"):
        data_set.commit(new_job(), other, [], "append")
    data_set.check_new_rows(other, "overwrite")


def test_must_be_new(data_set):
    write(data_set, "a", must_be_new=True)
    with pytest.raises(FileExistsError, match="holds a data set already"):
        write(data_set, "b", must_be_new=True)
    assert texts(data_set) == ["a"]


def test_other_directories_are_not_written_into(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(FileExistsError, match=r"thesis.tex.*directory of its own"):
        PartitionDataSet(str(tmp_path)).check_new_rows(LAYOUT, "overwrite")
    with pytest.raises(NotADirectoryError):
        PartitionDataSet(str(tmp_path / "thesis.tex")).check_new_rows(LAYOUT, "overwrite")


def test_a_damaged_last_version_is_no_reason_to_show_the_one_before(data_set):
    write(data_set, "old")
    write(data_set, "new")
    path = Path(data_set.directory("_manifests"), "2.json")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptDataError, match=r"2\.json: at byte"):
        data_set.manifest()
    with pytest.raises(CorruptDataError):
        write(data_set, "more", "append")
    assert write(data_set, "repaired").version == 3  # an overwrite asks for nothing that was there
    assert texts(data_set) == ["repaired"]


def test_two_writers_at_once_both_append_and_one_overwrite_stands(data_set):
    def run(operation, texts):
        barrier = threading.Barrier(len(texts))

        def one(text):
            job = new_job()
            part = write_part(data_set, job, text)
            barrier.wait()
            data_set.commit(job, LAYOUT, [part], operation)

        threads = [threading.Thread(target=one, args=(text,)) for text in texts]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    names = [f"row {index}" for index in range(8)]
    run("append", names)
    assert sorted(texts(data_set)) == names
    assert data_set.manifest().version == 8
    run("overwrite", names)
    assert len(texts(data_set)) == 1
    assert data_set.manifest().version == 16


def test_a_file_system_without_links_is_refused_by_name(data_set, monkeypatch):
    def refuse(*paths):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(OSError, match="cannot link files"):
        write(data_set, "a")
    assert not data_set.exists()


STEPS = ("open", "makedirs", "replace", "link", "unlink", "fsync", "listdir", "stat", "close")


def die_at(step, work):
    """Do `work` in a child that is killed just before its `step`-th call of the system; whether it got so far."""
    child = os.fork()
    if child == 0:
        count = 0

        def counted(function):
            def call(*arguments, **options):
                nonlocal count
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                count += 1
                return function(*arguments, **options)

            return call

        for name in STEPS:
            setattr(os, name, counted(getattr(os, name)))
        module.open = counted(open)
        try:
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("operation", ["append", "overwrite"])
def test_killed_at_any_step_a_writer_leaves_the_old_rows_or_the_new_ones(tmp_path, clock, operation):
    before, after = (["old"], ["old", "new"] if operation == "append" else ["new"])
    outcomes = []
    for step in range(1000):
        data_set = PartitionDataSet(str(tmp_path / f"{operation}-{step}"), clock)
        write(data_set, "old")

        def work(data_set=data_set):
            job = new_job()
            data_set.commit(job, LAYOUT, [write_part(data_set, job, "new", owner=DEAD)], operation)

        killed = die_at(step, work)
        outcomes.append(texts(data_set))
        assert outcomes[-1] in (before, after)
        # The next one finds nothing in its way, and clears away what the dead one has left.
        write(data_set, "last", retention_s=0)
        assert texts(data_set) == ["last"]
        assert len(data_files(data_set)) == 2
        assert data_set.versions() == [data_set.manifest().version]
        assert os.listdir(data_set.directory("_jobs")) == []
        assert os.listdir(data_set.directory("_manifests")) == [f"{data_set.manifest().version}.json"]
        if not killed:
            break
    assert outcomes[0] == before
    assert outcomes[-1] == after
    assert len(outcomes) > 20


def write_batch(data_set, text, number, operation="append", writer="query", owner=ALIVE):
    job = new_job()
    part = write_part(data_set, job, text, owner)
    return data_set.commit(job, LAYOUT, [part], operation, retention_s=0, batch=(writer, number))


def abort_all(data_set):
    """Abort what has left a record of itself, as Spark does with a job whose commit failed."""
    for name in os.listdir(data_set.directory("_jobs")):
        job, _, owner = name.partition(".")
        data_set.abort(job, JobOwner.from_name(owner))
        os.unlink(os.path.join(data_set.directory("_jobs"), name))


def test_a_batch_that_is_committed_already_changes_nothing(data_set, caplog):
    write_batch(data_set, "a", 0)
    write_batch(data_set, "b", 1)
    write_batch(data_set, "of another one", 0, writer="other query")
    write(data_set, "by hand", "append")
    last = data_set.manifest()
    assert write_batch(data_set, "again", 1) == last
    assert "batch 1 of writer 'query' is in the data set already" in caplog.text
    with pytest.raises(ValueError, match="batch 0 of writer 'query' comes after batch 1.* another checkpointLocation"):
        write_batch(data_set, "of a query that begins anew", 0)
    abort_all(data_set)
    assert texts(data_set) == ["a", "b", "of another one", "by hand"]
    assert len(data_files(data_set)) == 8
    assert os.listdir(data_set.directory("_jobs")) == []
    write(data_set, "whole")
    assert write_batch(data_set, "again", 1, "overwrite").version == data_set.manifest().version
    write_batch(data_set, "c", 2)
    assert texts(data_set) == ["whole", "c"]
    assert data_set.manifest().batches == {"query": 2, "other query": 0}


def test_a_batch_whose_writer_is_killed_at_any_step_counts_once_when_it_is_repeated(tmp_path, clock):
    for step in range(1000):
        data_set = PartitionDataSet(str(tmp_path / str(step)), clock)
        write_batch(data_set, "old", 6)
        killed = die_at(step, lambda data_set=data_set: write_batch(data_set, "new", 7, owner=DEAD))
        write_batch(data_set, "new", 7)
        assert texts(data_set) == ["old", "new"]
        write_batch(data_set, "last", 8)
        assert texts(data_set) == ["old", "new", "last"]
        assert len(data_files(data_set)) == 6
        if not killed:
            assert step > 20
            return
    raise AssertionError("it was killed each time")


def test_killed_at_any_step_a_compaction_leaves_the_rows_as_they_were(tmp_path, clock):
    for step in range(1000):
        data_set = PartitionDataSet(str(tmp_path / str(step)), clock)
        for text in "abcd":
            write(data_set, text, "append")
        run = data_set.manifest().files[1:3]

        def work(data_set=data_set, run=run):
            job = new_job()
            part = write_part(data_set, job, "bc", owner=DEAD)
            data_set.commit(job, LAYOUT, [part], "compact", retention_s=0, replaced=run)

        killed = die_at(step, work)
        assert "".join(texts(data_set)) == "abcd"
        write(data_set, "e", "append", retention_s=0)
        assert "".join(texts(data_set)) == "abcde"
        assert len(data_files(data_set)) == 2 * len(texts(data_set))
        assert data_set.versions() == [data_set.manifest().version]
        if not killed:
            assert texts(data_set) == ["a", "bc", "d", "e"]
            return
    raise AssertionError("it was killed each time")


def test_of_two_drivers_with_one_batch_one_commits_it(data_set):
    write_batch(data_set, "old", 0)
    barrier = threading.Barrier(4)

    def one():
        job = new_job()
        part = write_part(data_set, job, "new")
        barrier.wait()
        data_set.commit(job, LAYOUT, [part], "append", batch=("query", 1))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert texts(data_set) == ["old", "new"]
    assert len(data_files(data_set)) == 4


def test_killed_in_the_middle_of_a_sweep_the_next_one_goes_on(tmp_path, clock):
    for step in range(100):
        data_set = PartitionDataSet(str(tmp_path / str(step)), clock)
        for text in ("a", "b", "c"):
            write(data_set, text)
        killed = die_at(step, lambda data_set=data_set: data_set.sweep(0))
        assert texts(data_set) == ["c"]
        data_set.sweep(0)
        assert len(data_files(data_set)) == 2
        assert data_set.versions() == [3]
        if not killed:
            return
    raise AssertionError("it was killed each time")


def test_paths_and_uris():
    assert local_path("file:/data/a%20b") == "/data/a b"
    assert local_path("data") == os.path.abspath("data")
    for other in ("s3://bucket/x", "hdfs:///x", "file://host/x", "dbfs:/x"):
        with pytest.raises(ValueError, match="have mounted|workers have"):
            local_path(other)


def test_owners_are_told_apart_from_later_processes_of_their_number():
    assert ALIVE.is_gone() is False
    assert DEAD.is_gone() is True
    assert ELSEWHERE.is_gone() is None
    assert JobOwner.from_name(ALIVE.to_name()) == ALIVE
    assert JobOwner.from_name(JobOwner("", 3, 4).to_name()) == JobOwner("", 3, 4)
    for strange in ("", ".", "a", "a.b.c", "a.1", "a.1.-2"):
        assert JobOwner.from_name(strange) is None


def test_a_child_that_has_ended_is_gone():
    read, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(read, 1)
        os._exit(0)
    owner = JobOwner._of(child)
    assert owner.is_gone() is False
    os.write(write_end, b"x")
    os.waitpid(child, 0)
    assert owner.is_gone() is True
    os.close(read)
    os.close(write_end)
