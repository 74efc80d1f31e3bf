"""Sinks of batch jobs: rows are there once, whoever fails behind the commit.

Flink: BatchExecutionFileSinkITCase, SinkV2ITCase.
"""

import os
import signal
import time

import pytest

from flinkbuf.common import Configuration, Encoder, RestartStrategies, Types
from flinkbuf.datastream import MapFunction, RuntimeExecutionMode, SinkFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.base import Committer, Sink, SinkWriter
from flinkbuf.datastream.connectors.file_system import BucketAssigner, FileSink
from flinkbuf.targets.launcher_process import end_launcher

COUNT = 100


@pytest.fixture(scope="module", autouse=True)
def _no_launcher_stays():
    yield
    end_launcher()


def batch_env(target="embedded", parallelism=2, **options):
    values = {"execution.target": target, "pipeline.progress": "false", **options}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))
    env.set_parallelism(parallelism).set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 0))


def numbers(env):
    return env.from_collection(range(COUNT), Types.LONG()).rebalance().map(lambda number: number, Types.LONG())


def file_sink(folder):
    sink = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    return sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def rows(folder):
    """All that is visible."""
    files = [path for path in folder.iterdir() if not path.name.startswith(".")] if folder.exists() else []
    return sorted(int(line) for path in files for line in path.read_text().splitlines())


def once(mark):
    """Return True the first time that somebody asks."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class FailsBehind(SinkFunction):
    """Raises when the other sink's rows are there, or when they were given time to be."""

    def __init__(self, folder, mark):
        self.folder, self.mark = folder, str(mark)

    def invoke(self, value):
        if value != COUNT - 1 or os.path.exists(self.mark):
            return
        deadline = time.monotonic() + 0.2
        while rows(self.folder) != list(range(COUNT)) and time.monotonic() < deadline:
            time.sleep(0.01)
        if once(self.mark):
            raise ValueError("once, behind the other sink")


@pytest.mark.parametrize("parallelism", [1, 2])
def test_another_task_of_the_region_fails_behind_the_sink(tmp_path, parallelism):
    env = batch_env(parallelism=parallelism, **{"execution.batch-shuffle-mode": "ALL_EXCHANGES_PIPELINED"})
    stream = numbers(env)
    stream.sink_to(file_sink(tmp_path / "rows"))
    stream.key_by(lambda number: number % 3, Types.LONG()).add_sink(FailsBehind(tmp_path / "rows", tmp_path / "mark"))
    env.execute()
    assert (tmp_path / "mark").exists()
    assert rows(tmp_path / "rows") == list(range(COUNT))
    assert [path.name for path in (tmp_path / "rows").iterdir() if path.name.startswith(".")] == []


class Dies(MapFunction):
    """Kills its process when the rows of the sink are there."""

    def __init__(self, folder, mark):
        self.folder, self.mark = folder, str(mark)

    def map(self, value):
        if value == COUNT - 1 and not os.path.exists(self.mark):
            deadline = time.monotonic() + 20
            while rows(self.folder) != list(range(COUNT)) and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(0.2)  # the job hears that the sink has finished
            if once(self.mark):
                os.kill(os.getpid(), signal.SIGKILL)
        return value


def test_a_process_is_lost_that_has_written_for_a_sink_which_is_complete(tmp_path):
    env = batch_env("local")
    stream = numbers(env)
    stream.sink_to(file_sink(tmp_path / "rows"))
    dies = Dies(tmp_path / "rows", tmp_path / "mark")
    keyed = stream.key_by(lambda number: number % 3, Types.LONG()).map(dies, Types.LONG()).set_parallelism(1)
    with keyed.execute_and_collect() as results:
        assert sorted(results) == list(range(COUNT)), "who writes for others than the sink begins again"
    assert (tmp_path / "mark").exists()
    assert rows(tmp_path / "rows") == list(range(COUNT))


class Ledger(Sink):
    """Notes each commit; the committer dies once, behind some of them."""

    def __init__(self, path):
        self.path = str(path)

    def create_writer(self, context):
        return Entries(context.subtask_index, context.task.attempt_number)

    def create_committer(self):
        return Bookkeeper(self.path)


class Entries(SinkWriter):
    def __init__(self, subtask_index, attempt_number):
        self.name, self.values = f"{subtask_index}#{attempt_number}", []

    def write(self, element, context):
        self.values.append(element)

    def flush(self, end_of_input):
        pass

    def prepare_commit(self):
        values, self.values = self.values, []
        return [(f"{self.name}.{place}", value) for place, value in enumerate(values)]


class Bookkeeper(Committer):
    def __init__(self, path):
        self.path = path

    def commit(self, requests):
        with open(self.path, "a") as ledger:
            for place, request in enumerate(requests):
                name, value = request.committable
                ledger.write(f"{name} {value} {request.is_restored}\n")
                ledger.flush()
                if place == len(requests) // 2 and once(f"{self.path}.mark"):
                    raise ValueError("once, between two commits")


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_committer_that_fails_between_two_commits_gets_the_same_again(tmp_path, parallelism):
    env = batch_env(parallelism=parallelism)
    numbers(env).sink_to(Ledger(tmp_path / "ledger"))
    env.execute()
    lines = [line.split() for line in (tmp_path / "ledger").read_text().splitlines()]
    values = {name: int(value) for name, value, _ in lines}
    assert len(values) == COUNT and sorted(values.values()) == list(range(COUNT)), "no writer has begun again"
    again = {name for name, _, is_restored in lines if is_restored == "True"}
    assert len(lines) > COUNT and len(again) == COUNT // parallelism
