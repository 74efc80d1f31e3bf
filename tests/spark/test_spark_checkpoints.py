"""Checkpoints of jobs on Spark: processes that die, savepoints that go on elsewhere, input that Spark gives again."""

import threading
from pathlib import Path

import pytest
from checkpointed_jobs import EXPECTED, completed, environment, program, results, until, wait_for_all

from flinkbuf.common import JobStatus, Types

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def does_not_hang(sc):
    """A job that hangs keeps no slot from the tests that follow."""
    timer = threading.Timer(60, sc.cancelAllJobs)
    timer.start()
    yield
    timer.cancel()
    timer.join()


@pytest.mark.parametrize("deed", ["raise", "kill"])
def test_a_job_goes_on_from_its_latest_checkpoint(sc, deed, tmp_path):
    env = environment("spark")
    program(env, tmp_path, at=1500, deed=deed)
    client = env.execute_async("sums")
    client.get_job_execution_result().result()
    assert results(tmp_path) == sorted(EXPECTED)
    assert (tmp_path / "deed").exists()
    assert client.details()["checkpoints"]["latest"]["restored"]["id"] > 1


@pytest.mark.parametrize(("first", "second"), [("spark", "local"), ("embedded", "spark")])
def test_a_savepoint_of_one_target_is_gone_on_with_on_the_other(sc, tmp_path, first, second):
    env = environment(first, interval_ms=None)
    program(env, tmp_path, limit=1000)
    client = env.execute_async("sums")
    until(lambda: client.get_job_status().result() is JobStatus.RUNNING)
    wait_for_all(client)
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    (tmp_path / "go-on").touch()
    again = environment(second, parallelism=1, interval_ms=None)
    again._configuration.set_string("execution.state-recovery.path", path)
    program(again, tmp_path, pause_s=0.0)
    again.execute()
    assert results(tmp_path) == sorted(EXPECTED)
    assert Path(path, "_metadata").exists()


@pytest.mark.parametrize("partitions", [2, 5])
def test_input_of_spark_is_read_again_and_what_was_counted_passed_over(sc, tmp_path, partitions):
    env = environment("spark")
    numbers = env.from_rdd(sc.parallelize(range(2000), partitions), Types.LONG())
    program(env, tmp_path, numbers=numbers, at=1500)
    client = env.execute_async("sums")
    client.get_job_execution_result().result()
    assert results(tmp_path) == sorted(EXPECTED)
    assert (tmp_path / "deed").exists()
    assert client.details()["checkpoints"]["latest"]["restored"]["id"] > 1


def test_who_has_read_all_of_its_input_waits_for_the_others_and_is_counted_in_each_checkpoint(sc, tmp_path):
    env = environment("spark")
    skewed = sc.parallelize([range(10), range(10, 2000)], 2).flatMap(lambda numbers: numbers)
    program(env, tmp_path, numbers=env.from_rdd(skewed, Types.LONG()), at=1900)
    client = env.execute_async("sums")
    client.get_job_execution_result().result()
    assert results(tmp_path) == sorted(EXPECTED)
    assert client.details()["checkpoints"]["latest"]["restored"]["id"] > 5


def test_a_job_whose_result_goes_to_spark_keeps_no_checkpoints_and_says_so(sc, tmp_path):
    env = environment("spark")
    doubled = env.from_rdd(sc.parallelize(range(10), 2), Types.LONG()).map(lambda n: 2 * n, Types.LONG())
    with pytest.warns(UserWarning, match="keeps no checkpoints"):
        rdd = doubled.to_rdd()
    assert rdd.sum() == 90


def test_without_a_directory_executors_of_their_own_machines_send_their_state_to_the_driver(sc, tmp_path, monkeypatch):
    from flinkbuf.spark.job import SparkTarget

    monkeypatch.setattr(SparkTarget, "shares_files", lambda self: False)
    env = environment("spark")
    program(env, tmp_path, at=1500)
    client = env.execute_async("sums")
    until(lambda: completed(client) >= 1)
    assert not client.details()["checkpoints"]["latest"]["completed"]["external_path"].startswith("/")
    client.get_job_execution_result().result()
    assert results(tmp_path) == sorted(EXPECTED)
