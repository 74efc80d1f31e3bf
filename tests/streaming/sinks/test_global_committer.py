"""A sink with one committer for all writers: what a checkpoint has is committed at once, and once."""

import os
import time
from pathlib import Path

import pytest
from support.worlds.failing_sinks import play, values_of
from support.worlds.global_commits import GlobalSink

from flinkbuf.common import Configuration, WatermarkStrategy
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.connectors.base import GlobalCommitter, Sink, SinkWriter
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.errors import FlinkbufError
from flinkbuf.streaming.chain.operator_config import ExecutionSettings


class Books(Sink):
    """A file for each commit, of the numbers that all writers had."""

    commits_globally = True

    def __init__(self, folder):
        self.folder = str(folder)

    def create_writer(self, context):
        return Clerk()

    def create_global_committer(self, context):
        return Bookkeeper(self.folder, context)


class Clerk(SinkWriter):
    def __init__(self):
        self.pages = []

    def write(self, element, context):
        self.pages.append(element)

    def flush(self, end_of_input):
        pass

    def prepare_commit(self):
        pages, self.pages = self.pages, []
        return [pages] if pages else []


class Bookkeeper(GlobalCommitter):
    def __init__(self, folder, context):
        self.folder, self.context = folder, context

    def combine(self, committables, checkpoint_id):
        assert committables
        return checkpoint_id, sorted(number for pages in committables for number in pages)

    def commit(self, requests):
        for request in requests:
            if os.path.exists(f"{self.folder}/refuse"):
                request.error = OSError("closed today")
                request.retry_later()
                continue
            checkpoint_id, numbers = request.committable
            Path(self.folder, f"{checkpoint_id:06d}").write_text(" ".join(map(str, numbers)))


def books(folder):
    return [list(map(int, path.read_text().split())) for path in sorted(Path(folder).glob("[0-9]*"))]


SCRIPT = [1, 2, ("snap", 1), 3, ("done", 1), 4, ("snap", 2), 5, ("snap", 3), ("done", 3), 6]


@pytest.mark.parametrize("cut", range(len(SCRIPT) + 1))
def test_a_checkpoint_is_committed_at_once(tmp_path, cut):
    snapshots, sink = {}, Books(tmp_path)
    play(GlobalSink(sink, parallelism=2), SCRIPT[:cut], snapshots)
    done = max(snapshots, default=0)
    left = values_of(SCRIPT[SCRIPT.index(("snap", done)) + 1 :] if done else SCRIPT)
    last = GlobalSink(sink, snapshots.get(done), parallelism=3)
    assert last.committer.operator._committer.context.restored_checkpoint_id == (done or None)
    for value in left:
        last.process_element(value)
    last.end(9)
    assert sorted(number for book in books(tmp_path) for number in book) == values_of(SCRIPT)
    assert books(tmp_path)[:1] == ([[1, 2]] if done else [values_of(SCRIPT)])


def test_without_a_checkpoint_behind_the_end_all_is_committed_then(tmp_path):
    for number, settings in enumerate(
        (ExecutionSettings(), ExecutionSettings(checkpointing_enabled=True, checkpoints_after_tasks_finish=False)), 1
    ):
        sink = GlobalSink(Books(tmp_path), settings=settings)
        sink.process_element(number)
        sink.end_input()
        assert len(books(tmp_path)) == number - 1 or number == 2
        sink.finish()
        sink.close()
        assert books(tmp_path) == [[number]]


def test_a_commit_that_never_goes_is_an_error(tmp_path):
    sink = GlobalSink(Books(tmp_path))
    sink.process_element(1)
    sink.snapshot(1)
    (tmp_path / "refuse").touch()
    with pytest.raises(FlinkbufError, match="could not be committed in 10 attempts: closed today"):
        sink.notify_checkpoint_complete(1)


@pytest.mark.parametrize("unaligned", [False, True])
def test_a_job_that_fails_commits_each_number_once(tmp_path, unaligned):
    flag = str(tmp_path / "failed")
    config = Configuration()
    config.set_string("execution.target", "embedded")
    config.set_string("restart-strategy.type", "fixed-delay")
    config.set_string("restart-strategy.fixed-delay.delay", "1 ms")
    config.set_string("execution.checkpointing.unaligned.enabled", str(unaligned).lower())
    env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(2)
    env.enable_checkpointing(20)

    def slow(number):
        time.sleep(0.001)
        if number == 350 and not os.path.exists(flag):
            with open(flag, "w"):
                raise RuntimeError("the planted failure")
        return number

    numbers = env.from_source(NumberSequenceSource(1, 400), WatermarkStrategy.no_watermarks(), "numbers").map(slow)
    numbers.sink_to(Books(tmp_path)).name("books").uid("books")
    env.execute()
    assert sorted(number for book in books(tmp_path) for number in book) == list(range(1, 401))
    assert len(books(tmp_path)) > 1 and os.path.exists(flag)
    if not unaligned:  # numbers of both writers are in one
        assert any(min(book) <= 200 < max(book) for book in books(tmp_path))


def test_names_and_ids_are_those_of_both(tmp_path, capsys):
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    env.get_config().disable_auto_generated_uids()
    numbers = env.from_source(NumberSequenceSource(1, 4), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    sink = numbers.sink_to(Books(tmp_path)).name("books").uid("books").set_parallelism(1)
    sink.slot_sharing_group("own")
    env.explain()
    told = capsys.readouterr().out
    assert "books: Writer -> Sink: books: Committer  x 1" in told
    numbers.sink_to(Books(tmp_path)).set_uid_hash("c" * 32)
    env.get_execution_plan()
