"""The newest checkpoint is damaged: nothing older is begun from unasked, and the error says how to ask."""

import glob
import os
import time

import pytest
from support.worlds.checkpoint_world import CheckpointWorld
from support.worlds.master_world import error

from flinkbuf.checkpoints.ha_store import HaStore
from flinkbuf.checkpoints.handles import CheckpointMetadata
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.commands.cli import main
from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.state import ValueStateDescriptor
from flinkbuf.errors import CorruptDataError
from flinkbuf.runtime.checkpoint.checkpoint_restores import TRIES
from flinkbuf.runtime.driver.recovery import TakenJob
from flinkbuf.runtime.driver.stored_job import restored_from
from flinkbuf.runtime.protocol.failure import Failure, JobSuspendedError
from flinkbuf.runtime.protocol.job_status import JobStatus

JOB = "ab" * 16


@pytest.fixture
def checkpoints(tmp_path):
    """Three of them, oldest first."""
    storage = storage_of(str(tmp_path))
    paths = []
    for number in (3, 4, 5):
        location = f"{tmp_path}/{JOB}/chk-{number}"
        storage.write_metadata(location, CheckpointMetadata(number, 1000, JOB, "job", False, ()))
        os.utime(f"{location}/_metadata", (number, number))
        paths.append(location)
    return paths


def damage(location):
    with open(f"{location}/_metadata", "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))


def test_a_whole_checkpoint_is_begun_from_whatever_lies_beside_it(checkpoints):
    damage(checkpoints[1])
    for falls_back in (False, True):
        assert restored_from(checkpoints[2], falls_back=falls_back).location == checkpoints[2]


def test_a_damaged_one_is_an_error_that_names_its_file_a_whole_one_and_the_way_out(checkpoints):
    damage(checkpoints[2])
    damage(checkpoints[1])
    with pytest.raises(CorruptDataError) as caught:
        restored_from(checkpoints[2])
    text = str(caught.value)
    assert text.startswith(f"{checkpoints[2]}/_metadata is damaged at byte ")
    assert f"; {checkpoints[0]} is older and whole: execution.state-recovery.fall-back: true begins from it" in text
    assert checkpoints[1] not in text
    assert caught.value.path == f"{checkpoints[2]}/_metadata"


def test_the_newest_whole_one_is_begun_from_if_that_is_asked_for(checkpoints, caplog):
    damage(checkpoints[2])
    assert restored_from(checkpoints[2], falls_back=True).location == checkpoints[1]
    assert f"the job begins from {checkpoints[1]}, which is older" in caplog.text


def test_what_is_newer_than_a_damaged_one_or_of_another_job_is_not_older(checkpoints, tmp_path):
    """Who names an older checkpoint does not want what came later, such as what a mistake did to the state."""
    damage(checkpoints[1])
    assert restored_from(checkpoints[1], falls_back=True).location == checkpoints[0]
    savepoint = f"{tmp_path}/savepoint-cdcdcd-0123456789ab"
    storage_of(savepoint).write_metadata(savepoint, CheckpointMetadata(9, 1000, "cd" * 16, "other job", True, ()))
    damage(savepoint)
    for falls_back in (False, True):
        with pytest.raises(CorruptDataError) as caught:
            restored_from(savepoint, falls_back=falls_back)
        assert "fall-back" not in str(caught.value)


def test_where_none_is_whole_the_error_is_as_it_was(checkpoints):
    for each in checkpoints:
        damage(each)
    for falls_back in (False, True):
        with pytest.raises(CorruptDataError, match="chk-5/_metadata is damaged") as caught:
            restored_from(checkpoints[2], falls_back=falls_back)
        assert "fall-back" not in str(caught.value)


def test_a_path_without_a_checkpoint_is_no_damaged_one(checkpoints, tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        restored_from(f"{tmp_path}/{JOB}/chk-9", falls_back=True)
    assert "fall-back" not in str(caught.value)


@pytest.fixture
def store(tmp_path, checkpoints):
    """A driver has left a job with those that count: of three in the directory the first does not."""
    store = HaStore(str(tmp_path / "ha"), "default", "job")
    lease = store.try_acquire(10_000)
    lease.store_job(JOB, b"job")
    for number in (4, 5):
        lease.add_checkpoint(number, f"{checkpoints[number - 3]}/_metadata")
    lease.release()
    return store


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_job_that_is_taken_over_falls_back_to_what_counts_and_only_if_asked(store, checkpoints, is_gone):
    if is_gone:
        os.unlink(f"{checkpoints[2]}/_metadata")
    else:
        damage(checkpoints[2])
    with pytest.raises((CorruptDataError, FileNotFoundError), match=f"; {checkpoints[1]} is older and whole"):
        TakenJob.take(store, 10_000)
    taken = TakenJob.take(store, 10_000, falls_back=True)
    assert taken.restored.location == checkpoints[1]
    taken.lease.add_checkpoint(5, "/c/chk-5-3/_metadata")
    taken.lease.release()
    assert store.peek().checkpoint == "/c/chk-5-3/_metadata", "numbers go on from the older one"


def test_what_does_not_count_is_not_fallen_back_to(store, checkpoints):
    damage(checkpoints[2])
    damage(checkpoints[1])
    with pytest.raises(CorruptDataError, match="chk-5/_metadata is damaged"):
        TakenJob.take(store, 10_000, falls_back=True)


def unreadable(world, kind="flinkbuf.errors.CorruptDataError"):
    location = world.checkpoints.latest.location
    return Failure(kind, f"{location}/1 is damaged at byte 40", "Traceback\n  CorruptDataError: it is\n")


def fail(world, failure):
    """All subtasks of the first vertex find the same; the others are cancelled."""
    for attempt in [each for each in world.tasks if each.vertex_id == world.attempt(0, 0).vertex_id]:
        world.report(attempt, "FAILED", failure)
    world.confirm_cancels()


def restart(world, failure):
    fail(world, failure)
    world.wait(1_000)
    world.all_report("INITIALIZING", "RUNNING").wait(0)


@pytest.mark.parametrize("kind", ["flinkbuf.errors.CorruptDataError", "builtins.FileNotFoundError"])
def test_restarts_from_state_that_cannot_be_read_end_after_a_few(kind):
    world = CheckpointWorld(retained=2, tolerable_failures=-1).begin()
    world.complete()
    world.complete(span_ms=1_000)
    older, latest = (each.location for each in (*world.checkpoints.store.older, world.checkpoints.latest))
    for _ in range(TRIES - 1):
        restart(world, unreadable(world, kind))
        assert world.job.status is JobStatus.RUNNING
    fail(world, unreadable(world, kind))
    assert world.end[0] == "FAILED"
    for text in (world.job.failure.message, world.job.failure.text):
        assert f"the job has begun {TRIES} times from checkpoint 2 in {latest} and cannot read it" in text
        assert f"execution.state-recovery.fall-back: true, such as {older}" in text
    assert world.job.failure.text.startswith("Traceback")


def test_other_failures_and_newer_checkpoints_begin_the_count_anew():
    world = CheckpointWorld(retained=1, tolerable_failures=-1).begin()
    world.complete()
    for _ in range(TRIES + 2):
        restart(world, error("boom"))
    for _ in range(3):
        for _ in range(TRIES - 1):
            restart(world, unreadable(world))
        world.complete(span_ms=1_000)
    assert world.job.status is JobStatus.RUNNING


def test_recover_begins_from_an_older_checkpoint_only_where_it_is_told_to(tmp_path, capsys):
    options = {
        "execution.target": "embedded",
        "pipeline.progress": "false",
        "high-availability.storageDir": str(tmp_path / "ha"),
        "execution.checkpointing.num-retained": "2",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options)).set_parallelism(1)
    env.enable_checkpointing(3_600_000)
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"

    def map_number(number):
        begun.touch()
        time.sleep(0 if go_on.exists() else 0.002)
        return number

    source = NumberSequenceSource(1, 5_000)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(map_number).print()
    job = env.execute_async("counts")._job
    while not begun.exists():
        time.sleep(0.01)
    ids = [job.trigger_checkpoint().result() for _ in range(2)]
    job.suspend("its program has ended")
    with pytest.raises(JobSuspendedError):
        job.wait(60)
    older, newest = HaStore(str(tmp_path / "ha"), "default", "counts").peek().pointers
    assert [older.checkpoint_id, newest.checkpoint_id] == ids
    damage(os.path.dirname(newest.path))
    go_on.touch()
    assert main(["recover", str(tmp_path / "ha")]) == 1
    text = capsys.readouterr().out
    assert f"counts: CorruptDataError: {newest.path} is damaged at byte " in text
    assert f"; {os.path.dirname(older.path)} is older and whole: " in text and "recover --fall-back`" in text
    assert main(["recover", str(tmp_path / "ha"), "--fall-back"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "counts: FINISHED" and lines[-2] == "5000"


class DamageAndFail(KeyedProcessFunction):
    """Once checkpoint 2 is there: damages its state, and fails."""

    def __init__(self, directory):
        self.directory = directory

    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, context):
        self.count.update((self.count.value() or 0) + 1)
        found = glob.glob(f"{self.directory}/*/chk-*/_metadata")
        if any(int(path.split("chk-")[1].partition("/")[0].partition("-")[0]) >= 2 for path in found):
            for path in glob.glob(f"{self.directory}/*/chk-*/*"):
                if not path.endswith("_metadata"):
                    os.truncate(path, os.path.getsize(path) // 2)
            raise RuntimeError("the disk lies")
        yield value


def slowly(number):
    time.sleep(0.002)  # so that barriers wait behind few records
    return number


@pytest.mark.parametrize("target", ["embedded", "local"])
def test_a_job_whose_state_is_damaged_ends_with_the_file_and_the_way_out(target, tmp_path):
    options = {
        "execution.target": target,
        "pipeline.progress": "false",
        "execution.checkpointing.dir": str(tmp_path),
        "execution.checkpointing.data-inline-threshold": "0",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.tolerable-failed-checkpoints": "-1",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options)).set_parallelism(1)
    env.enable_checkpointing(50)
    source = NumberSequenceSource(0, 20_000)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(slowly)
    numbers.key_by(lambda number: number % 5).process(DamageAndFail(str(tmp_path))).print()
    with pytest.raises(CorruptDataError) as caught:
        env.execute("counts")
    text = str(caught.value)
    assert f"the job has begun {TRIES} times from checkpoint " in text
    assert f" in {tmp_path}/" in text and "execution.state-recovery.fall-back: true" in text
