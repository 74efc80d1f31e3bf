"""Batch jobs as they run: region by region, from files that are gone at the end, whatever happened.

Flink: BatchShuffleITCase, BatchFineGrainedRecoveryITCase.
"""

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter

import pytest

from flinkbuf.common import Configuration, RestartStrategies, Types, WatermarkStrategy
from flinkbuf.datastream import MapFunction, RuntimeExecutionMode, SinkFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource, split_sequence
from flinkbuf.runtime.protocol.failure import JobCanceledError
from flinkbuf.streaming.sources.source import SplitEnumerator
from flinkbuf.targets.launcher_process import end_launcher

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
COUNT = 2_000


@pytest.fixture(scope="module", autouse=True)
def _no_launcher_stays():
    yield
    end_launcher()


@pytest.fixture
def disk(tmp_path):
    """Where the job may keep files; nothing is left of them."""
    path = tmp_path / "disk"
    path.mkdir()
    yield path
    assert [each.name for each in path.iterdir()] == []


def batch_env(disk, target="embedded", parallelism=2, restarts=0, **options):
    values = {"execution.target": target, "io.tmp.dirs": str(disk), "pipeline.progress": "false", **options}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))
    env.set_parallelism(parallelism).set_runtime_mode(RuntimeExecutionMode.BATCH)
    if restarts:
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(restarts, 0))
    return env


def pairs(env, function=lambda pair: pair):
    """numbers -> pairs of their last digit and themselves -> by digit -> function."""
    numbers = env.from_collection(range(COUNT), Types.LONG()).rebalance()
    keyed = numbers.map(lambda number: (number % 10, number), PAIR).key_by(lambda pair: pair[0], Types.LONG())
    return keyed.map(function, PAIR)


def collected(stream):
    with stream.execute_and_collect() as results:
        return list(results)


EXPECTED = sorted((number % 10, number) for number in range(COUNT))


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("embedded", {}),
        ("embedded", {"slotmanager.number-of-slots.max": "1"}),
        ("embedded", {"execution.batch-shuffle-mode": "ALL_EXCHANGES_PIPELINED"}),
        ("local", {}),
        ("local", {"slotmanager.number-of-slots.max": "1"}),
    ],
)
def test_every_record_comes_out_once(disk, target, options):
    assert sorted(collected(pairs(batch_env(disk, target, **options)))) == EXPECTED


class Notes(MapFunction):
    """Writes down who saw a record when: a line each, appended whole."""

    def __init__(self, path, who):
        self.path, self.who = str(path), who

    def map(self, value):
        with open(self.path, "a") as file:
            file.write(f"{self.who} {time.monotonic_ns()}\n")
        return value


def noted(path):
    """(who, when), in order."""
    lines = (line.split() for line in path.read_text().splitlines())
    return sorted(((who, int(when)) for who, when in lines), key=lambda each: each[1])


@pytest.mark.parametrize("target", ["embedded", "local"])
def test_who_reads_begins_when_all_is_written(disk, tmp_path, target):
    env = batch_env(disk, target)
    numbers = env.from_collection(range(100), Types.LONG()).rebalance().map(Notes(tmp_path / "seen", "writes"))
    keyed = numbers.key_by(lambda number: number % 7, Types.LONG())
    assert sorted(collected(keyed.map(Notes(tmp_path / "seen", "reads"), Types.LONG()))) == list(range(100))
    assert [who for who, _ in noted(tmp_path / "seen")] == ["writes"] * 100 + ["reads"] * 100


class Fails(MapFunction):
    """Does something once, at some record: `how` is given the path of the job's disk."""

    def __init__(self, mark, disk, how):
        self.mark, self.disk, self.how = str(mark), disk, how

    def map(self, value):
        if value[1] == COUNT - 7:
            try:
                os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return value
            self.how(self.disk)
        return value


def raise_error(disk):
    raise ValueError("once")


def kill_process(disk):
    os.kill(os.getpid(), signal.SIGKILL)


def delete_files(disk):
    files = [each for each in disk.rglob("*") if ".shuffle." in each.name]
    assert files, "what it reads is kept there"
    for each in files:
        each.unlink()
    raise ValueError("once, and what it read is gone")


class PinnedSequence(NumberSequenceSource):
    """Each subtask reads its own part, however late it comes."""

    def create_enumerator(self, context):
        return PinnedEnumerator(context, split_sequence(self.start, self.end, context.parallelism))


class PinnedEnumerator(SplitEnumerator):
    def __init__(self, context, splits):
        self.context, self.splits = context, {number: [split] for number, split in enumerate(splits)}

    def handle_split_request(self, subtask_index, host):
        if self.splits[subtask_index]:
            self.context.assign_split(self.splits[subtask_index].pop(), subtask_index)
        else:
            self.context.signal_no_more_splits(subtask_index)

    def add_splits_back(self, splits, subtask_index):
        self.splits[subtask_index] += splits


@pytest.mark.parametrize(
    ("target", "how"), [("embedded", raise_error), ("local", raise_error), ("local", kill_process)]
)
def test_only_who_is_needed_begins_again(disk, tmp_path, target, how):
    env = batch_env(disk, target, restarts=5)
    function = Fails(tmp_path / "mark", disk, how)
    written = (
        env.from_source(PinnedSequence(0, COUNT - 1), WatermarkStrategy.no_watermarks(), "numbers")
        .map(lambda number: (number % 10, number), PAIR)
        .map(Notes(tmp_path / "seen", "writes"), PAIR)
    )
    keyed = written.key_by(lambda pair: pair[0], Types.LONG())
    assert sorted(collected(keyed.map(function, PAIR))) == EXPECTED
    writes = Counter(who for who, _ in noted(tmp_path / "seen"))["writes"]
    if how is raise_error:
        assert writes == COUNT, "what it reads is kept: nobody writes it again"
    else:
        assert writes == COUNT + COUNT // 2, "what the process kept is written again, and no more"


@pytest.mark.parametrize("target", ["embedded", "local"])
def test_deleted_files_are_written_again(disk, tmp_path, target):
    env = batch_env(disk, target, restarts=10)
    assert sorted(collected(pairs(env, Fails(tmp_path / "mark", disk, delete_files)))) == EXPECTED


@pytest.mark.parametrize("target", ["embedded", "local"])
def test_a_job_that_fails_leaves_nothing(disk, tmp_path, target):
    with pytest.raises(ValueError, match="once"):
        collected(pairs(batch_env(disk, target), Fails(tmp_path / "mark", disk, raise_error)))


class Waits(MapFunction):
    def __init__(self, mark):
        self.mark = str(mark)

    def map(self, value):
        open(self.mark, "w").close()
        time.sleep(0.01)
        return value


@pytest.mark.parametrize("target", ["embedded", "local"])
def test_a_job_that_is_cancelled_leaves_nothing(disk, tmp_path, target):
    env = batch_env(disk, target)
    pairs(env, Waits(tmp_path / "mark")).print()
    client = env.execute_async("endless")
    while not (tmp_path / "mark").exists():
        time.sleep(0.01)
    assert list(disk.rglob("*.shuffle.data")), "it reads from files"
    client.cancel().result()
    with pytest.raises(JobCanceledError):
        client.get_job_execution_result().result()


class EndsSoon(MapFunction):
    """Says when the last record of a subtask comes by: its task writes what it has collected then."""

    last = threading.Event()

    def map(self, value):
        if value[0] >= 398:
            EndsSoon.last.set()
        return value


class Nowhere(SinkFunction):
    def invoke(self, value):
        pass


def test_a_job_is_canceled_while_its_tasks_write_their_last_records(disk):
    rng = random.Random(7)
    for _ in range(15):
        EndsSoon.last.clear()
        env = batch_env(disk)
        large = env.from_collection([(number, bytes(28_000)) for number in range(400)]).map(EndsSoon())
        large.key_by(lambda pair: pair[0] % 3).map(lambda pair: pair[0]).add_sink(Nowhere())
        job = env.execute_async()
        assert EndsSoon.last.wait(30)
        time.sleep(rng.random() * 0.02)
        job.cancel()
        with contextlib.suppress(JobCanceledError):
            job.get_job_execution_result().result()
