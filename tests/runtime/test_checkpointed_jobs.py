"""Whole jobs with checkpoints, on threads and on processes: what fails is gone over, and each result comes once.

Functions are copied, so what they share with the test lies in files.
"""

import threading
from pathlib import Path

import pytest
from support.programs.checkpointed_jobs import (
    COUNT,
    EXPECTED,
    KEYS,
    completed,
    environment,
    program,
    results,
    until,
    wait_for_all,
)

from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.common import JobStatus, WatermarkStrategy
from flinkbuf.datastream import ExternalizedCheckpointRetention, MapFunction
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.runtime.driver.savepoint_requests import SavepointError
from flinkbuf.runtime.manager.running_task import RunningTask
from flinkbuf.runtime.protocol.failure import JobCanceledError


@pytest.mark.parametrize(("target", "deed"), [("embedded", "raise"), ("local", "raise"), ("local", "kill")])
def test_a_job_goes_on_from_its_latest_checkpoint_and_counts_each_number_once(target, deed, tmp_path):
    env = environment(target)
    program(env, tmp_path, at=1500, deed=deed)
    client = env.execute_async("sums")
    client.get_job_execution_result().result()
    details = client.details()
    assert results(tmp_path) == sorted(EXPECTED)
    assert (tmp_path / "deed").exists()
    assert details["checkpoints"]["counts"]["restored"] == 1
    assert details["checkpoints"]["latest"]["restored"]["id"] > 1


@pytest.mark.parametrize("unaligned", ["false", "true"])
def test_records_that_wait_for_their_batch_count_once(unaligned, tmp_path):
    env = environment("embedded", execution_checkpointing_unaligned_enabled=unaligned)
    source = NumberSequenceSource(0, KEYS * COUNT - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    batches = numbers.rebalance().map_batches(lambda batch: batch, "bigint", input_type="bigint", max_delay=None)
    program(env, tmp_path, batches, at=1500, pause_s=0.0005)
    client = env.execute_async("sums")
    client.get_job_execution_result().result()
    assert results(tmp_path) == sorted(EXPECTED)
    assert (tmp_path / "deed").exists()


FIRST_COUNTS = threading.Event()


class FailsBehindTheFirstCheckpoint(MapFunction):
    def open(self, context):
        self.may_fail = context.get_attempt_number() == 0

    def map(self, number):
        if self.may_fail:
            assert FIRST_COUNTS.wait(30)
            raise ValueError("not now")
        return number


def test_a_split_that_comes_right_before_a_checkpoint_is_read_again(monkeypatch):
    """Events of the enumerator come to the task only together with the next trigger of a checkpoint."""
    FIRST_COUNTS.clear()
    late, deliver, trigger, notify = (
        [],
        RunningTask.deliver,
        RunningTask.trigger_checkpoint,
        RunningTask.notify_checkpoint,
    )

    def trigger_checkpoint(task, *checkpoint):
        while late:
            deliver(*late.pop(0))
        trigger(task, *checkpoint)

    def notify_checkpoint(task, *notice):
        notify(task, *notice)
        FIRST_COUNTS.set()

    monkeypatch.setattr(RunningTask, "deliver", lambda *event: late.append(event))
    monkeypatch.setattr(RunningTask, "trigger_checkpoint", trigger_checkpoint)
    monkeypatch.setattr(RunningTask, "notify_checkpoint", notify_checkpoint)
    env = environment("embedded", parallelism=1)
    numbers = env.from_source(NumberSequenceSource(0, 99), WatermarkStrategy.no_watermarks(), "numbers")
    with numbers.map(FailsBehindTheFirstCheckpoint()).execute_and_collect() as records:
        assert sorted(records) == list(range(100))


def test_execute_and_collect_gives_each_result_once(tmp_path):
    env = environment("embedded")
    with program(env, tmp_path, at=1500).execute_and_collect() as records:
        assert sorted(records) == sorted(EXPECTED)
    assert (tmp_path / "deed").exists()


def test_a_job_without_checkpoints_fails_at_its_first_failure(tmp_path):
    env = environment("embedded", interval_ms=None)
    program(env, tmp_path, at=100)
    with pytest.raises(ValueError, match="not now"):
        env.execute()


def test_nothing_is_left_of_a_job_that_has_no_directory(tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    env = environment("embedded")
    program(env, tmp_path, limit=1000)
    client = env.execute_async("sums")
    until(lambda: completed(client) >= 2)
    (directory,) = (tmp_path / "tmp").iterdir()
    assert directory.stat().st_mode & 0o777 == 0o700
    (tmp_path / "go-on").touch()
    client.get_job_execution_result().result()
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize(
    ("retention", "is_kept"),
    [
        (ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION, True),
        (ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION, False),
    ],
)
def test_what_is_left_of_a_canceled_job_is_what_was_said(tmp_path, retention, is_kept):
    env = environment("embedded")
    env._configuration.set_string("execution.checkpointing.dir", str(tmp_path / "checkpoints"))
    env.get_checkpoint_config().set_externalized_checkpoint_retention(retention)
    program(env, tmp_path, limit=1000)
    client = env.execute_async("sums")
    until(lambda: completed(client) >= 3)
    client.cancel().result()
    found = storage_of(str(tmp_path / "checkpoints")).list_checkpoints()
    assert [each.is_complete for each in found] == [True] * is_kept
    if not is_kept:
        assert not list((tmp_path / "checkpoints").iterdir())
        return
    again = environment("embedded", parallelism=3)
    again._configuration.set_string("execution.state-recovery.path", found[0].location)
    (tmp_path / "go-on").touch()
    program(again, tmp_path)
    again.execute()
    assert results(tmp_path) == sorted(EXPECTED)
    assert found[0].is_complete, "what another job has left is not deleted"


@pytest.mark.parametrize(("first", "second"), [("embedded", "local"), ("local", "embedded")])
@pytest.mark.parametrize("interval_ms", [50, None])
def test_a_job_stops_with_a_savepoint_and_goes_on_from_it_at_another_parallelism(tmp_path, first, second, interval_ms):
    env = environment(first, interval_ms=interval_ms)
    env.set_default_savepoint_directory(str(tmp_path / "savepoints"))
    program(env, tmp_path, limit=500, pause_s=0.0)  # no subtask of the source ends before it
    client = env.execute_async("sums")
    wait_for_all(client)
    path = client.stop_with_savepoint(False).result()
    (tmp_path / "go-on").touch()  # not before: a task that has ended could not be asked any more
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert Path(path).parent == tmp_path / "savepoints"
    again = environment(second, parallelism=3, interval_ms=interval_ms)
    again._configuration.set_string("execution.state-recovery.path", path)
    program(again, tmp_path, pause_s=0.0)
    again.execute()
    assert results(tmp_path) == sorted(EXPECTED)
    assert (Path(path) / "_metadata").exists()


def test_a_savepoint_can_be_made_while_a_job_goes_on(tmp_path):
    env = environment("embedded")
    program(env, tmp_path, limit=500)
    client = env.execute_async("sums")
    until(lambda: completed(client) >= 1)
    path = client.trigger_savepoint(str(tmp_path / "savepoints")).result()
    assert storage_of(path).read_metadata(path).is_savepoint
    last = client.cancel_with_savepoint(str(tmp_path / "savepoints")).result()
    assert last != path and (Path(last) / "_metadata").exists()
    with pytest.raises(JobCanceledError):
        client.get_job_execution_result().result()


@pytest.mark.parametrize("is_default", [False, True])
def test_a_savepoint_lies_below_the_directory_that_the_program_stands_in(tmp_path, monkeypatch, is_default):
    monkeypatch.chdir(tmp_path)
    env = environment("embedded")
    env._configuration.set_string("execution.checkpointing.data-inline-threshold", "0 b")
    env.set_default_savepoint_directory("default/savepoints")
    program(env, tmp_path, limit=500)
    client = env.execute_async("sums")
    until(lambda: completed(client) >= 1)
    path = client.trigger_savepoint(None if is_default else "own/savepoints").result()
    assert Path(path).parent == tmp_path / ("default" if is_default else "own") / "savepoints"
    with pytest.raises(SavepointError, match="with credentials, s3://"):
        client.trigger_savepoint("s3://user:word@bucket/savepoints").result()
    (tmp_path / "go-on").touch()
    client.get_job_execution_result().result()
    assert client.details()["checkpoints"]["counts"]["restored"] == 0


def test_a_savepoint_that_cannot_be_written_says_why_and_the_job_goes_on(tmp_path):
    env = environment("embedded")
    program(env, tmp_path, limit=500)
    client = env.execute_async("sums")
    until(lambda: completed(client) >= 1)
    (tmp_path / "file").touch()
    with pytest.raises(SavepointError, match="file"):
        client.trigger_savepoint(str(tmp_path / "file")).result()
    (tmp_path / "go-on").touch()
    client.get_job_execution_result().result()
    assert results(tmp_path) == sorted(EXPECTED)


def test_what_is_no_checkpoint_is_refused_before_anything_starts(tmp_path):
    env = environment("embedded")
    env._configuration.set_string("execution.state-recovery.path", str(tmp_path / "nothing"))
    program(env, tmp_path)
    with pytest.raises(FileNotFoundError, match="nothing"):
        env.execute()


def test_a_directory_that_cannot_be_written_is_refused_before_anything_starts(tmp_path):
    (tmp_path / "file").touch()
    env = environment("embedded")
    env._configuration.set_string("execution.checkpointing.dir", str(tmp_path / "file" / "checkpoints"))
    program(env, tmp_path)
    with pytest.raises(OSError, match="file"):
        env.execute()
