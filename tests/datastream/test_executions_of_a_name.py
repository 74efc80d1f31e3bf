"""Which job a program goes on with: by name, by which of that name it is, and only of the same program."""

import os
import threading
import time

import pytest

from flinkbuf.checkpoints import ha_directory
from flinkbuf.checkpoints.ha_store import HaStore
from flinkbuf.commands.cli import main
from flinkbuf.common import Configuration
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.program import job_start
from flinkbuf.runtime.driver import recovery
from flinkbuf.runtime.protocol.failure import JobSuspendedError


@pytest.fixture
def directory(tmp_path):
    return str(tmp_path / "ha")


@pytest.fixture
def again(monkeypatch):
    """Let the process be another one: it has executed nothing yet."""
    return lambda: job_start._executions.clear()


def environment(directory, cluster="default", **more):
    options = {
        "execution.target": "embedded",
        "high-availability.storageDir": directory,
        "high-availability.cluster-id": cluster,
        "pipeline.progress": "false",
        **more,
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options)).set_parallelism(1)


@pytest.fixture
def seen(tmp_path):
    path = tmp_path / "seen"
    path.touch()
    return path


def numbers_in(path):
    return [int(line) for line in path.read_text().split()]


def numbers(env, seen, function=lambda number: number, name="twice"):
    def map_number(number):
        with open(seen, "a") as file:
            print(function(number), file=file)
        return number

    env.from_collection([1, 2]).map(map_number).name(name).print()
    return env


def test_two_executions_without_a_name_both_run(directory, seen):
    env = environment(directory)
    one = numbers(env, seen).execute()
    other = numbers(env, seen, lambda number: 10 * number).execute()
    assert numbers_in(seen) == [1, 2, 10, 20]
    assert one.get_job_id() != other.get_job_id()


def test_a_program_that_is_started_again_finds_each_of_its_executions(directory, again, seen):
    def program():
        env = environment(directory)
        return [numbers(env, seen).execute("counts").get_job_id() for _ in range(3)]

    ids = program()
    again()
    assert program() == ids
    assert numbers_in(seen) == [1, 2] * 3


def test_a_job_that_had_ended_has_no_progress_to_show(directory, again, seen):
    ids = []
    for _ in range(2):
        again()
        env = environment(directory, **{"pipeline.progress": "true"})
        ids.append(numbers(env, seen).execute("counts").get_job_id())
    assert ids[0] == ids[1]
    assert numbers_in(seen) == [1, 2]


def test_an_execution_that_could_not_begin_is_in_no_place(directory, seen):
    env = environment(directory)
    with pytest.raises(ValueError):
        env.execute("counts")
    numbers(env, seen).execute("counts")
    assert os.path.isdir(HaStore(directory, "default", "counts").path)
    assert not os.path.isdir(HaStore(directory, "default", "counts #2").path)


def leave(directory, program_text):
    """A driver has begun a job and is gone."""
    lease = HaStore(directory, "default", "counts").try_acquire(10_000)
    lease.store_job("ab" * 16, b"job", program_text)
    lease.add_checkpoint(4, "/c/chk-4/_metadata")
    lease.release()


@pytest.mark.parametrize("is_over", [False, True])
def test_another_program_under_the_same_name_is_refused_with_the_way_out(directory, again, seen, is_over):
    if is_over:
        numbers(environment(directory), seen, name="once").execute("counts")
        seen.write_text("")
    else:
        leave(directory, "0" * 64 + " Source: numbers, Counts")
    again()
    for _ in range(2):
        with pytest.raises(ValueError) as caught:
            numbers(environment(directory), seen).execute("counts")
        text = str(caught.value)
        assert text.startswith(f"job 'counts' in {HaStore(directory, 'default', 'counts').path} belongs to another")
        assert "this one has Source: Collection Source, twice, Sink: Print to Std. Out" in text
        for way in ("env.execute(name)", "pipeline.name", "high-availability.cluster-id", "storageDir"):
            assert way in text
        assert ("set execution.state-recovery.path to /c/chk-4 as well" in text) is not is_over
    assert numbers_in(seen) == []
    numbers(environment(directory, "mine"), seen).execute("counts")
    assert numbers_in(seen) == [1, 2]


def test_a_program_that_is_refused_leaves_the_job_as_it_was(directory, seen):
    leave(directory, "0" * 64 + " Source: numbers, Counts")
    with pytest.raises(ValueError, match="belongs to another program"):
        numbers(environment(directory), seen).execute("counts")
    previous = HaStore(directory, "default", "counts").peek()
    assert (previous.job, previous.checkpoint_id) == (b"job", 4)
    assert HaStore(directory, "default", "counts").try_acquire(10_000) is not None, "it waits for no timeout"


def test_a_job_without_a_name_is_known_by_the_text_of_its_program(directory, again, seen, monkeypatch):
    monkeypatch.setattr(job_start, "text_of_program", lambda: "one")
    numbers(environment(directory), seen).execute()
    again()
    monkeypatch.setattr(job_start, "text_of_program", lambda: "another")
    with pytest.raises(ValueError, match="belongs to another program, whose operators have the same names. Give this"):
        numbers(environment(directory), seen).execute()
    numbers(environment(directory), seen).execute("mine")
    assert numbers_in(seen) == [1, 2, 1, 2]


def test_a_damaged_record_keeps_no_other_job_from_being_recovered(directory, seen, capsys):
    """Their programs are gone; one record was cut off."""
    for name in ("whole", "damaged"):
        env = environment(directory)
        start = job_start.start_of(numbers(env, seen), name, env._job_files(), None, can_be_taken_over=True)
        job = start.make(clock=None, on_end=())
        job._leadership.close(is_over_for_good=False)
    path = HaStore(directory, "default", "damaged").path
    record = os.path.join(path, "job-1")
    os.truncate(record, 40)
    assert main(["recover", directory]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "whole: FINISHED" in lines
    assert any(each.startswith(f"{path}: CorruptDataError: {record} is damaged at byte") for each in lines)
    assert numbers_in(seen) == [1, 2]


def test_a_program_whose_lease_lasts_long_is_waited_for_as_long(directory, seen):
    """It renews the lease three times an hour, and the last time was twenty minutes ago."""
    env = environment(directory, **{"high-availability.lease-timeout": "1 h"})
    start = job_start.start_of(numbers(env, seen), "counts", env._job_files(), None, can_be_taken_over=True)
    start.make(clock=None, on_end=())
    store, is_cancelled = HaStore(directory, "default", "counts"), iter([False, True])
    renewed_s = time.time() - 1200
    os.utime(os.path.join(store.path, "lease-1"), (renewed_s, renewed_s))
    assert recovery._go_on(store, lambda: next(is_cancelled), False, None) == "another program holds it"
    assert numbers_in(seen) == []


def test_a_job_that_had_no_checkpoint_of_its_own_is_recovered_with_the_savepoint_it_began_with(
    directory, seen, tmp_path, monkeypatch
):
    """Its program is gone, and was in another directory."""
    go_on = seen.with_name("go-on")

    def source():
        yield from (1, 2)
        while not go_on.exists():
            time.sleep(0.01)
        yield from (3, 4)

    def note(number):
        with open(seen, "a") as file:
            print(number, file=file)
        return number

    def program(**options):
        env = environment(directory, **options)
        env.add_source(source).map(note).print()
        return env

    client = program(**{"high-availability.type": "none"}).execute_async("counts")
    while numbers_in(seen) != [1, 2]:
        time.sleep(0.01)
    savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    monkeypatch.chdir(tmp_path)
    env = program(**{"execution.state-recovery.path": os.path.relpath(savepoint)})
    start = job_start.start_of(env, "counts", env._job_files(), None, can_be_taken_over=True)
    start.make(clock=None, on_end=())._leadership.close(is_over_for_good=False)
    monkeypatch.chdir("/")
    go_on.touch()
    assert main(["recover", directory]) == 0
    assert numbers_in(seen) == [1, 2, 3, 4]


def test_a_job_whose_lease_cannot_be_renewed_is_suspended_and_goes_on_when_its_program_is_started_again(
    directory, again, seen, monkeypatch
):
    """Its directory fails for this program alone: another one could have taken the job over."""
    touch, has_failed, go_on = ha_directory._touch, threading.Event(), seen.with_name("go-on")

    def wait(number):
        while not go_on.exists():
            time.sleep(0.01)
        return number

    def program():
        env = environment(directory, **{"high-availability.lease-timeout": "1 s"})
        return numbers(env, seen, wait)

    def fail(path):
        has_failed.set()
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr(ha_directory, "_touch", fail)
    client = program().execute_async("counts")
    assert has_failed.wait(60)
    with pytest.raises(JobSuspendedError):
        client._job.wait(30)
    with pytest.raises(JobSuspendedError) as caught:
        client.get_job_execution_result().result()
    path = HaStore(directory, "default", "counts").path
    assert str(caught.value).startswith(f"job 'counts' was suspended: its lease in {path} could not be renewed for ")
    assert f"(the last error was [Errno 5] Input/output error: '{path}/lease-1')" in str(caught.value)
    assert "See that this directory can be written, then start the program again" in str(caught.value)
    assert client.get_job_status().result().name == "SUSPENDED"
    monkeypatch.setattr(ha_directory, "_touch", touch)
    go_on.touch()
    again()
    assert program().execute("counts").get_job_id() == client.get_job_id()
    assert numbers_in(seen) == [1, 2]
