"""A sink of files that fails and goes on from a checkpoint: each record is in one visible file, once."""

import os
import pickle
import random
import time
import uuid
from dataclasses import replace

import cloudpickle
import pytest
from support.worlds.failing_sinks import play, stored, values_of, write_with_failures

from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.common.serialization import BulkWriterFactory, Encoder
from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OnCheckpointRollingPolicy,
    RollingPolicy,
    StreamFormat,
)
from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.sinks.part_owner import PartOwner, remove_leftovers
from flinkbuf.streaming.sinks.sink_factories import SinkWriterFactory
from flinkbuf.testing import OperatorHarness

WITH_CHECKPOINTS = ExecutionSettings(checkpointing_enabled=True)


class Tail:
    """A format that has an end: nobody can go on behind it."""

    def __init__(self, file):
        self.file = file

    def add_element(self, element):
        self.file.write(f"{element}\n".encode())

    def flush(self):
        pass

    def finish(self):
        self.file.write(b"end\n")


class ByLength(BucketAssigner):
    def get_bucket_id(self, element, context):
        return str(len(element))


def sink_of(folder, kind, assigner=None):
    if kind == "bulk":
        builder = FileSink.for_bulk_format(str(folder), BulkWriterFactory(Tail))
    else:
        builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
        builder = builder.with_rolling_policy(
            RollingPolicy.on_checkpoint_rolling_policy()
            if kind == "rolled"
            else RollingPolicy.default_rolling_policy(part_size=6)
        )
    return builder.with_bucket_assigner(assigner or BucketAssigner.base_path_bucket_assigner()).build()


def harness(sink, restore=None, epoch=1, **options):
    operator = pickle.loads(cloudpickle.dumps(SinkWriterFactory(sink)))()
    made = OperatorHarness(operator, restore=restore, is_keyed=False, settings=WITH_CHECKPOINTS, **options)
    made.context.task = replace(made.context.task, epoch=epoch)
    return made


def opened(*arguments, **options):
    sink = harness(*arguments, **options)
    sink.open()
    return sink


def visible(folder):
    """The lines of all files that a reader sees."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            found += [line for line in path.read_text().splitlines() if line != "end"]
    return sorted(found)


def hidden(folder):
    return sorted(path.name for path in folder.rglob(".*") if path.is_file())


def kill(sink):
    """Its files are closed by the system, with what was written by then; nothing else is done."""
    for bucket in sink.operator._writer._buckets.values():
        if bucket._part is not None:
            bucket._part._file.close()
            bucket._part = None


SCRIPT = ["a", "bb", ("snap", 1), "c", ("done", 1), "dd", "e", ("snap", 2), "f", ("snap", 3), ("done", 3), "gg", "h"]


@pytest.mark.parametrize("kind", ["row", "rolled", "bulk"])
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("cut", range(len(SCRIPT) + 1))
def test_wherever_it_fails_each_record_is_in_one_file(tmp_path, kind, parallelism, cut):
    snapshots = {}
    first = opened(sink_of(tmp_path, kind, ByLength()))
    play(first, SCRIPT[:cut], snapshots)
    kill(first)
    done = max(snapshots, default=0)
    left = values_of(SCRIPT[SCRIPT.index(("snap", done)) + 1 :] if done else SCRIPT)
    restore = [snapshots[done]] if done else None
    for attempt in range(2):  # the second time it fails before it has done anything that counts
        others = [
            opened(sink_of(tmp_path, kind, ByLength()), restore, parallelism=parallelism, subtask_index=index)
            for index in range(parallelism)
        ]
        if attempt == 0:
            others[-1].process_element("lost")
            for other in others:
                kill(other)
    for number, value in enumerate(left):
        others[number % parallelism].process_element(value)
    for other in others:
        other.end_input()
        other.finish()
        other.snapshot(9)
        other.operator.notify_checkpoint_complete(9)
        other.close()
    assert visible(tmp_path) == sorted(values_of(SCRIPT))
    if done:
        assert hidden(tmp_path) == []


def test_a_part_of_rows_goes_on_over_a_checkpoint_and_a_failure(tmp_path):
    sink = opened(sink_of(tmp_path, "row"))
    sink.process_element("a")
    snapshot = stored(sink.snapshot(1))
    sink.process_element("b")  # behind the checkpoint: it comes again
    kill(sink)
    sink = opened(sink_of(tmp_path, "row"), snapshot)
    sink.process_element("c")
    sink.end_input()
    sink.snapshot(2)
    sink.operator.notify_checkpoint_complete(2)
    (path,) = tmp_path.glob("part-*")
    assert path.read_text() == "a\nc\n" and hidden(tmp_path) == []


def test_an_attempt_that_is_given_up_and_lives_on_spoils_nothing(tmp_path):
    old = opened(sink_of(tmp_path, "row"))
    old.process_element("a")
    snapshot = stored(old.snapshot(1))
    new = opened(sink_of(tmp_path, "row"), snapshot)
    old.process_element("not this")
    old.snapshot(2)
    new.process_element("b")
    old.process_element("nor this")
    old.close()
    new.end_input()
    new.snapshot(2)
    new.operator.notify_checkpoint_complete(2)
    assert visible(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("kind", ["row", "rolled", "bulk"])
def test_what_a_program_of_a_newer_epoch_has_in_progress_is_left_to_it(tmp_path, kind):
    first = opened(sink_of(tmp_path, kind), epoch=1)
    first.process_element("a")
    snapshot = stored(first.snapshot(1))
    newer = opened(sink_of(tmp_path, kind), snapshot, epoch=2)  # it has taken the job over
    newer.process_element("b")
    newer.snapshot(2)
    theirs = set(hidden(tmp_path))
    for sink in (first, opened(sink_of(tmp_path, kind), snapshot, epoch=1)):  # of the program that slept
        kill(sink)
    assert theirs <= set(hidden(tmp_path))
    newer.operator.notify_checkpoint_complete(2)
    newer.process_element("c")
    newer.end_input()
    third = stored(newer.snapshot(3))
    newer.operator.notify_checkpoint_complete(3)
    assert visible(tmp_path) == ["a", "b", "c"]
    before = set(hidden(tmp_path))
    newer.process_element("of nobody")
    newer.close()
    left = set(hidden(tmp_path)) - before
    opened(sink_of(tmp_path, kind), third, epoch=3).close()
    assert left and not left & set(hidden(tmp_path))


def test_who_takes_over_a_job_without_a_checkpoint_removes_what_it_had_in_progress(tmp_path):
    first = opened(sink_of(tmp_path, "row"), epoch=1)
    first.process_element("lost with its program")
    kill(first)
    assert hidden(tmp_path)
    opened(sink_of(tmp_path, "row"), epoch=2).close()
    assert hidden(tmp_path) == []


def test_what_later_checkpoints_have_completed_is_not_begun_again(tmp_path):
    sink = opened(sink_of(tmp_path, "row"))
    sink.process_element("a")
    savepoint = stored(sink.snapshot(1))
    sink.end_input()
    sink.snapshot(2)
    sink.operator.notify_checkpoint_complete(2)
    sink.close()
    with pytest.raises(FileNotFoundError, match="a later checkpoint has completed it"):
        opened(sink_of(tmp_path, "row"), savepoint)
    assert visible(tmp_path) == ["a"]


def test_a_part_that_has_lost_bytes_is_refused(tmp_path):
    sink = opened(sink_of(tmp_path, "row"))
    sink.process_element("abc")
    snapshot = stored(sink.snapshot(1))
    kill(sink)
    (path,) = tmp_path.glob(".part-*")
    os.truncate(path, 3)
    with pytest.raises(CorruptDataError, match="has 3 bytes, and the checkpoint says that it has 4"):
        opened(sink_of(tmp_path, "row"), snapshot)


def test_only_what_is_behind_the_checkpoint_and_its_own_is_removed(tmp_path):
    def owner(subtask, parallelism=2, checkpoint=None, job="job", operator="sink", epoch=2):
        return PartOwner.of(job, operator, subtask, parallelism, checkpoint, epoch)

    folder = tmp_path / "2026" / "11"
    folder.mkdir(parents=True)
    keep = [
        owner(0).hidden_name("part-0"),  # begun before the checkpoint: it may be in it
        owner(1).at(4).hidden_name("part-1"),
        owner(2).at(9).hidden_name("part-2"),  # of another subtask
        owner(1, job="other").at(9).hidden_name("part-3"),
        owner(1, operator="other").at(9).hidden_name("part-4"),
        ".part-5.inprogress.somebody-else",
        owner(1).at(9).hidden_name("part-6")[1:],  # not hidden
        owner(1, epoch=3).at(9).hidden_name("part-7"),  # of a program that has taken the job over
    ]
    remove = [
        owner(1).at(5).hidden_name("part-8"),
        owner(1).at(9).hidden_name("p"),
        owner(3, 4).at(7).hidden_name("q"),
        owner(1, epoch=1).at(9).hidden_name("part-9"),
        f".part-10.inprogress.{owner(1).sink}-1.9.{uuid.uuid4()}",  # of a version that wrote no epochs
    ]
    for name in (*keep, *remove):
        (folder / name).write_text("")
    assert remove_leftovers(str(tmp_path), owner(1, checkpoint=5)) == 5
    assert sorted(path.name for path in folder.iterdir()) == sorted(keep)


def test_buckets_with_nothing_in_them_are_forgotten(tmp_path):
    sink = opened(sink_of(tmp_path, "rolled", ByName()))
    for round in range(2):
        for number in range(1_001):
            sink.process_element(f"{number}")
        sink.snapshot(round + 1)
        assert len(sink.operator._writer._buckets) == 0
        sink.operator.notify_checkpoint_complete(round + 1)
    assert len(visible(tmp_path)) == 2 * 1_001  # none was written over by one of the same name


class ByName(BucketAssigner):
    def get_bucket_id(self, element, context):
        return element


@pytest.mark.parametrize("seed", range(20))
def test_random_failures(tmp_path, seed):
    chance = random.Random(seed)
    kind = chance.choice(["row", "rolled", "bulk"])
    records = [str(number) for number in range(60)]
    write_with_failures(records, lambda snapshot: opened(sink_of(tmp_path, kind), snapshot), kill, chance)
    assert visible(tmp_path) == sorted(records)


# --- one subtask has come to its end


class FailsOnce(MapFunction):
    """Takes its time, and fails in the midst, once some of what it made counts."""

    def __init__(self, target, mark):
        self.target, self.mark = target, mark

    def map(self, value):
        time.sleep(0.005)
        if value == "150" and not self.mark.exists():
            deadline = time.monotonic() + 30
            while not visible_lines(self.target) and time.monotonic() < deadline:
                time.sleep(0.02)
            self.mark.touch()
            raise OSError("once")
        return value


def visible_lines(folder):
    parts = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return [line for path in parts for line in path.read_text().splitlines()]


@pytest.mark.parametrize("target", ["embedded", "local"])
def test_a_subtask_that_has_ended_keeps_no_checkpoint_from_counting(tmp_path, target):
    given, out = tmp_path / "in", tmp_path / "out"
    given.mkdir()
    out.mkdir()
    (given / "short").write_text("0\n")
    (given / "long").write_text("".join(f"{number}\n" for number in range(1, 300)))
    config = Configuration()
    for key, value in {
        "execution.target": target,
        "execution.checkpointing.interval": "50ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "10ms",
    }.items():
        config.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(2)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(given)).build()
    sink = FileSink.for_row_format(str(out), Encoder.simple_string_encoder())
    sink = sink.with_rolling_policy(OnCheckpointRollingPolicy()).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    lines.map(FailsOnce(out, tmp_path / "failed"), Types.STRING()).sink_to(sink)
    job = env.execute_async("ends")
    job.get_job_execution_result().result()
    assert sorted(map(int, visible_lines(out))) == list(range(300))
    counts = job.details()["checkpoints"]["counts"]
    assert counts["completed"] >= 3 and counts["restored"] == 1, counts
