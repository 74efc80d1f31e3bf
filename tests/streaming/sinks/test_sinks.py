"""Printed lines, collected records, functions and writers at the end of a chain."""

import gc
import pickle
import subprocess
import sys
import threading
import time
from dataclasses import replace
from queue import Empty

import cloudpickle
import pytest
from support.worlds.surroundings import Surroundings

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf.errors import CancelTaskError, FlinkbufError
from flinkbuf.streaming.chain.by_reference import ByReference, CannotBeginAgainError
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.sinks.collect import Collector
from flinkbuf.streaming.sinks.sink import CommitState, Committer, Sink, SinkWriter
from flinkbuf.streaming.sinks.sink_factories import (
    CallableSinkFactory,
    CollectSinkFactory,
    CommitterFactory,
    PrintSinkFactory,
    SinkFunctionFactory,
    SinkWriterFactory,
    sink_factory_of,
)
from flinkbuf.streaming.state.snapshot import OperatorSnapshot, redistribute
from flinkbuf.streaming.state.state import ListStateDescriptor
from flinkbuf.types.types import Types


def deployed(factory):
    """As a job does: pickled once, unpickled for each subtask."""
    return pickle.loads(cloudpickle.dumps(factory))()


# Print


@pytest.mark.parametrize(
    ("identifier", "subtask_index", "parallelism", "line"),
    [(None, 0, 1, "7\n"), (None, 1, 2, "2> 7\n"), ("out", 0, 1, "out> 7\n"), ("out", 3, 4, "out:4> 7\n")],
)
def test_a_line_begins_with_identifier_and_subtask(identifier, subtask_index, parallelism, line, capsys):
    around = Surroundings(subtask_index=subtask_index, parallelism=parallelism)
    around.open(deployed(PrintSinkFactory(None, identifier))).process_element(7, NO_TIMESTAMP)
    assert capsys.readouterr().out == line


def test_a_declared_type_decides_how_a_value_is_printed(capsys):
    sink = Surroundings().open(deployed(PrintSinkFactory(Types.TUPLE([Types.BOOLEAN(), Types.DOUBLE()]))))
    sink.process_element((True, 1e7), NO_TIMESTAMP)
    assert capsys.readouterr().out == "(true,1.0E7)\n"


class Stream:
    def __init__(self):
        self.text, self.flushed = "", []

    def write(self, text):
        self.text += text

    def flush(self):
        self.flushed.append(self.text)


def test_lines_are_flushed_once_a_tenth_of_a_second_and_at_the_end(monkeypatch):
    monkeypatch.setattr(sys, "stdout", stream := Stream())
    around = Surroundings()
    sink = around.open(deployed(PrintSinkFactory()))
    sink.process_element(1, NO_TIMESTAMP)
    sink.process_element(2, NO_TIMESTAMP)
    assert stream.flushed == []
    around.time.advance_to(101)
    assert stream.flushed == ["1\n2\n"]
    around.time.advance_to(1_000)
    assert len(stream.flushed) == 1
    sink.process_element(3, NO_TIMESTAMP)
    sink.close()
    assert stream.flushed[-1] == "1\n2\n3\n"


def test_lines_of_several_threads_are_never_torn(capfd):
    def print_many(index):
        sink = Surroundings(subtask_index=index, parallelism=4).open(deployed(PrintSinkFactory()))
        for _ in range(200):
            sink.process_element("x" * 500, NO_TIMESTAMP)
        sink.close()

    threads = [threading.Thread(target=print_many, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = capfd.readouterr().out.splitlines()
    assert sorted(set(lines)) == [f"{index}> {'x' * 500}" for index in range(1, 5)]
    assert len(lines) == 800


# Functions


def test_a_function_is_the_program_s_own():
    results = []
    sink = Surroundings().open(deployed(sink_factory_of(results.append)))
    sink.process_element(1, NO_TIMESTAMP)
    assert results == [1]


def test_what_is_by_reference_does_not_exist_in_another_process():
    holder = ByReference([], "the sink function f")
    code = f"import pickle; pickle.loads({pickle.dumps(holder)!r})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "RuntimeError: the sink function f exists only in process" in run.stderr
    data = pickle.dumps(holder)
    del holder
    gc.collect()
    with pytest.raises(RuntimeError, match="the sink function f exists only in process"):
        pickle.loads(data)


class Counting:
    def __init__(self):
        self.calls = []

    def open(self, runtime_context):
        self.calls.append("open")

    def invoke(self, value, context):
        self.calls.append((value, context.timestamp()))

    def close(self):
        self.calls.append("close")


class OnlyInvoke:
    def __init__(self):
        self.values = []

    def invoke(self, value):
        self.values.append(value)


def test_each_subtask_has_its_own_copy_of_a_sink_object():
    original = Counting()
    factory = sink_factory_of(original)
    assert isinstance(factory, SinkFunctionFactory)
    sink = Surroundings().open(deployed(factory))
    sink.process_element("a", 5)
    sink.close()
    assert sink.function.__self__.calls == ["open", ("a", 5), "close"]
    assert original.calls == []


def test_open_close_and_context_are_optional():
    sink = Surroundings().open(deployed(sink_factory_of(OnlyInvoke())))
    sink.process_element("a", 5)
    sink.close()
    assert sink.function.__self__.values == ["a"]


@pytest.mark.parametrize("nothing", [7, None, "text"])
def test_what_is_no_sink_is_refused_with_what_would_be_one(nothing):
    with pytest.raises(TypeError, match="add_sink takes a function of one record or an object with invoke"):
        sink_factory_of(nothing)
    with pytest.raises(TypeError, match="sink_to takes a .*Sink"):
        SinkWriterFactory(nothing)
    with pytest.raises(TypeError, match="must be callable"):
        CallableSinkFactory(nothing)


# Collect


def test_records_come_in_order_then_the_end():
    collector = Collector()
    sink = Surroundings().open(deployed(CollectSinkFactory(collector)))
    for value in (1, None, "a"):
        sink.process_element(value, NO_TIMESTAMP)
    collector.finish()
    assert list(collector) == [1, None, "a"]
    assert list(collector) == []


def test_a_second_attempt_gives_nothing_after_the_first_has_given_records():
    collector = Collector()
    factory = CollectSinkFactory(collector)
    assert factory.why_not_again() is None
    around = Surroundings()
    around.context.task = replace(around.context.task, attempt_number=1)
    sink = around.open(deployed(factory))  # the first one has failed before there was a record
    sink.process_element(1, NO_TIMESTAMP)
    assert "would get them a second time" in factory.why_not_again()
    with pytest.raises(CannotBeginAgainError, match="the job was restarted, but cannot be: the program has been given"):
        around.open(deployed(factory))


def test_a_task_waits_while_the_program_is_behind():
    collector, number = Collector(capacity=10), 0

    def produce():
        for value in range(1_000):
            collector.put(value)
        collector.finish()

    thread = threading.Thread(target=produce)
    thread.start()
    time.sleep(0.05)
    assert collector._queue.qsize() == 10
    for number, value in enumerate(collector):
        assert value == number and collector._queue.qsize() <= 11
    thread.join()
    assert number == 999


def test_the_job_s_exception_comes_once_after_the_records():
    collector = Collector()
    collector.put(1)
    collector.finish(ZeroDivisionError("in the job"))
    assert next(collector) == 1
    with pytest.raises(ZeroDivisionError, match="in the job"):
        next(collector)
    assert list(collector) == []


def test_a_limit_closes_and_cancels_the_job_once():
    canceled = []
    collector = Collector(on_close=lambda: canceled.append(True))
    for value in range(10):
        collector.put(value)
    assert collector.take(3) == [0, 1, 2]
    collector.close()
    assert canceled == [True]
    with pytest.raises(CancelTaskError, match="reads no more"):
        collector.put(11)
    assert list(collector) == []


def test_closing_after_the_end_cancels_nothing():
    canceled = []
    collector = Collector(on_close=lambda: canceled.append(True))
    collector.finish()
    assert collector.take(5) == []
    assert canceled == []


def test_the_first_end_counts():
    """A failure that was not yet come to is not forgotten where somebody else ends the records, too."""
    collector = Collector()
    collector.put(1)
    collector.finish(ValueError("boom"))
    collector.finish()
    assert next(collector) == 1
    with pytest.raises(ValueError, match="boom"):
        next(collector)


@pytest.mark.parametrize("end", ["close", "cancel"])
def test_a_waiting_task_is_let_go(end):
    collector = Collector(capacity=1)
    around = Surroundings()
    sink = around.open(deployed(CollectSinkFactory(collector)))
    sink.process_element(1, NO_TIMESTAMP)
    errors = []

    def cancel():
        raise CancelTaskError("the task was cancelled")

    def produce():
        try:
            sink.process_element(2, NO_TIMESTAMP)
        except CancelTaskError as error:
            errors.append(error)

    thread = threading.Thread(target=produce)
    thread.start()
    time.sleep(0.02)
    collector.close() if end == "close" else around.mailbox.submit(cancel)
    thread.join(5)
    assert len(errors) == 1


# Collect with checkpoints

WITH_CHECKPOINTS = ExecutionSettings(checkpointing_enabled=True)


def collecting(collector, snapshot=None, *, subtask_index=0, settings=WITH_CHECKPOINTS):
    around = Surroundings(settings=settings, subtask_index=subtask_index, parallelism=2)
    return around.open(deployed(CollectSinkFactory(collector)), snapshot)


def waiting(collector):
    records = []
    while collector._queue.qsize():
        records.append(collector._queue.get())
    return records


def test_the_program_is_given_a_record_when_its_checkpoint_counts():
    collector = Collector()
    sink = collecting(collector)
    sink.process_element(1, NO_TIMESTAMP)
    checkpoint(sink, 1)
    sink.process_element(2, NO_TIMESTAMP)
    checkpoint(sink, 2)
    sink.process_element(3, NO_TIMESTAMP)
    assert waiting(collector) == []
    sink.notify_checkpoint_complete(1)
    assert waiting(collector) == [1]
    sink.notify_checkpoint_aborted(2)
    checkpoint(sink, 3)
    sink.notify_checkpoint_complete(3)
    assert waiting(collector) == [2, 3]


COLLECT_SCRIPT = ["a", ("snap", 1), "b", ("done", 1), "c", ("snap", 2), "d", ("snap", 3), "e", ("done", 3), "f"]


@pytest.mark.parametrize("cut", range(len(COLLECT_SCRIPT) + 1))
def test_wherever_the_sink_fails_the_program_is_given_each_record_once(cut):
    collector, snapshots = Collector(), {}

    def play(sink, script):
        for step in script:
            if isinstance(step, str):
                sink.process_element(step, NO_TIMESTAMP)
            elif step[0] == "snap":
                snapshots[step[1]] = checkpoint(sink, step[1])
            else:
                sink.notify_checkpoint_complete(step[1])

    play(collecting(collector), COLLECT_SCRIPT[:cut])
    done = max(snapshots, default=0)
    sink = collecting(collector, snapshots.get(done))
    left = COLLECT_SCRIPT[COLLECT_SCRIPT.index(("snap", done)) + 1 :] if done else COLLECT_SCRIPT
    play(sink, [step for step in left if isinstance(step, str)])
    checkpoint(sink, 9)
    sink.notify_checkpoint_complete(9)
    collector.finish()
    assert list(collector) == list("abcdef")


def test_an_attempt_that_was_replaced_gives_nothing_any_more():
    collector = Collector()
    old, new = collecting(collector), collecting(collector)
    old.process_element("old", NO_TIMESTAMP)
    checkpoint(old, 1)
    old.notify_checkpoint_complete(1)
    new.process_element("new", NO_TIMESTAMP)
    collector.finish()
    assert list(collector) == ["new"]


def test_a_job_that_ends_well_gives_the_rest_and_one_that_fails_does_not():
    for error, given in ((None, [1, 2, 3]), (OSError("gone"), [])):
        collector = Collector()
        first, second = collecting(collector), collecting(collector, subtask_index=1)
        second.process_element(3, NO_TIMESTAMP)
        first.process_element(1, NO_TIMESTAMP)
        checkpoint(first, 1)
        first.process_element(2, NO_TIMESTAMP)
        collector.finish(error)
        assert waiting(collector)[:-1] == given


def test_who_has_been_given_records_cannot_begin_from_an_earlier_checkpoint():
    collector = Collector()
    sink = collecting(collector)
    snapshot = checkpoint(sink, 1)
    sink.process_element(1, NO_TIMESTAMP)
    checkpoint(sink, 2)
    sink.notify_checkpoint_complete(2)
    assert CollectSinkFactory(collector).why_not_again() is None
    with pytest.raises(
        CannotBeginAgainError, match="from checkpoint 1, but the program has been given .* checkpoint 2"
    ):
        collecting(collector, snapshot)
    with pytest.raises(CannotBeginAgainError, match="restarted from its beginning"):
        collecting(collector)


def test_checkpoints_that_are_at_least_once_hold_no_record_back():
    collector = Collector()
    settings = ExecutionSettings(checkpointing_enabled=True, is_exactly_once=False)
    sink = collecting(collector, settings=settings)
    sink.process_element(1, NO_TIMESTAMP)
    assert waiting(collector) == [1]
    assert CollectSinkFactory(collector).why_not_again() is None


# Functions with state


class Summing:
    """Keeps what it was given as state, and hears of checkpoints."""

    def initialize_state(self, context):
        self.is_restored = context.is_restored
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("sum", None))
        self.sum, self.heard = sum(self.state.get()), []

    def invoke(self, value):
        self.sum += value

    def snapshot_state(self, context):
        self.state.update([self.sum])
        self.heard.append(("snapshot", context.get_checkpoint_id()))

    def notify_checkpoint_complete(self, checkpoint_id):
        self.heard.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id):
        self.heard.append(("aborted", checkpoint_id))


def test_a_sink_object_has_state_and_hears_of_checkpoints():
    sink = Surroundings().open(deployed(sink_factory_of(Summing())))
    sink.process_element(3, NO_TIMESTAMP)
    snapshot = checkpoint(sink, 1)
    sink.notify_checkpoint_complete(1)
    sink.notify_checkpoint_aborted(2)
    function = sink.function.__self__
    assert not function.is_restored
    assert function.heard == [("snapshot", 1), ("complete", 1), ("aborted", 2)]
    again = Surroundings().open(deployed(sink_factory_of(Summing())), snapshot).function.__self__
    assert (again.is_restored, again.sum) == (True, 3)


# Writers and committers


class Journal(Sink):
    """Writes into a list that the test reads, and commits what the test lets it."""

    outcomes = ()

    def __init__(self):
        self.calls = []
        self.attempts = 0

    def create_writer(self, context):
        self.calls.append(("writer", context.subtask_index, context.parallelism))
        return JournalWriter(self.calls)

    def create_committer(self):
        return JournalCommitter(self)


class JournalWriter(SinkWriter):
    def __init__(self, calls):
        self.calls, self.pending = calls, []

    def write(self, element, context):
        self.pending.append(element)

    def write_watermark(self, watermark):
        self.calls.append(("watermark", watermark))

    def flush(self, end_of_input):
        self.calls.append(("flush", end_of_input))

    def prepare_commit(self):
        pending, self.pending = self.pending, []
        return [tuple(pending)] if pending else []

    def close(self):
        self.calls.append("close writer")


class JournalCommitter(Committer):
    def __init__(self, journal):
        self.journal = journal

    def commit(self, requests):
        self.journal.attempts += 1
        self.journal.calls.append(("commit", [request.committable for request in requests]))
        for request in requests:
            self.journal.decide(request)

    def close(self):
        self.journal.calls.append("close committer")


def journal_operator(decide=lambda request: None):
    journal = Journal()
    journal.decide = decide
    return journal, Surroundings().open(SinkWriterFactory(journal)())


def test_what_is_written_is_flushed_at_the_end_and_then_committed():
    journal, sink = journal_operator()
    sink.process_element(1, NO_TIMESTAMP)
    sink.prepare_snapshot_pre_barrier(1)
    sink.process_watermark(5)
    sink.process_element(2, NO_TIMESTAMP)
    sink.end_input(1)
    assert ("commit", [(1,), (2,)]) not in journal.calls
    sink.finish()
    sink.close()
    assert journal.calls == [
        ("writer", 0, 1),
        ("flush", False),
        ("watermark", 5),
        ("flush", True),
        ("commit", [(1,), (2,)]),
        "close writer",
        "close committer",
    ]


def test_a_failed_job_commits_nothing():
    journal, sink = journal_operator()
    sink.process_element(1, NO_TIMESTAMP)
    sink.close()
    assert journal.calls == [("writer", 0, 1), "close writer", "close committer"]


def test_in_batch_the_writer_gives_what_it_prepared_and_the_operator_behind_commits_it():
    journal = Journal()
    journal.decide = lambda request: None
    around = Surroundings()
    writer = around.open(SinkWriterFactory(journal, is_committed_behind=True)())
    writer.process_element(1, NO_TIMESTAMP)
    writer.end_input(1)
    writer.finish()
    writer.close()
    assert journal.calls == [("writer", 0, 1), ("flush", True), "close writer"]
    assert around.output.values == [(1,)]
    committer = Surroundings().open(CommitterFactory(journal)())
    committer.process_element((1,), NO_TIMESTAMP)
    committer.process_element((2,), NO_TIMESTAMP)
    committer.end_input(1)
    assert journal.attempts == 0
    committer.finish()
    committer.close()
    assert journal.calls[3:] == [("commit", [(1,), (2,)]), "close committer"]


class OneByOne(JournalCommitter):
    commits_one_by_one = True


class Alike:
    """A committer by its methods alone."""

    def __init__(self, committer):
        self.commit, self.close = committer.commit, committer.close


def test_a_committer_behind_need_not_derive_from_the_class():
    journal = Journal()
    journal.decide = lambda request: None
    journal.create_committer = lambda: Alike(JournalCommitter(journal))
    committer = Surroundings().open(CommitterFactory(journal)())
    committer.process_element((1,), NO_TIMESTAMP)
    committer.finish()
    committer.close()
    assert commits(journal) == [[(1,)]]


def test_a_committer_behind_may_want_each_when_it_comes():
    journal = Journal()
    journal.decide = lambda request: None
    journal.create_committer = lambda: OneByOne(journal)
    committer = Surroundings().open(CommitterFactory(journal)())
    committer.process_element((1,), NO_TIMESTAMP)
    committer.process_element((2,), NO_TIMESTAMP)
    committer.finish()
    committer.close()
    assert commits(journal) == [[(1,)], [(2,)]]


class HandingOver(SinkWriter):
    def __init__(self, context):
        self.hand_over = context.hand_over

    def write(self, element, context):
        if self.hand_over is not None:
            self.hand_over(element)

    def flush(self, end_of_input):
        pass


@pytest.mark.parametrize("is_committed_behind", [False, True])
def test_a_writer_may_give_what_it_prepared_before_the_end_where_another_operator_commits(is_committed_behind):
    sink = Sink()
    sink.create_writer = HandingOver
    around = Surroundings()
    around.open(SinkWriterFactory(sink, is_committed_behind=is_committed_behind)()).process_element(1, NO_TIMESTAMP)
    assert around.output.values == [1] * is_committed_behind


@pytest.mark.parametrize("attempt_number", [0, 1])
def test_a_committer_that_begins_again_says_that_it_may_have_committed(attempt_number):
    journal, said = Journal(), []
    journal.decide = lambda request: said.append(request.is_restored)
    around = Surroundings()
    task = replace(around.task, attempt_number=attempt_number)
    around.context = replace(around.context, task=task)
    committer = around.open(CommitterFactory(journal)())
    committer.process_element((1,), NO_TIMESTAMP)
    committer.finish()
    assert said == [attempt_number > 0]


def checkpointed(journal, snapshot=None):
    around = Surroundings(settings=ExecutionSettings(checkpointing_enabled=True))
    return around.open(SinkWriterFactory(journal)(), snapshot)


def checkpoint(sink, checkpoint_id):
    sink.prepare_snapshot_pre_barrier(checkpoint_id)
    return sink.snapshot_state(checkpoint_id)


def commits(journal):
    return [call[1] for call in journal.calls if call[0] == "commit"]


def test_with_checkpoints_a_commit_waits_for_the_one_it_belongs_to():
    journal, _ = journal_operator()
    sink = checkpointed(journal)
    for checkpoint_id in (1, 2, 3):
        sink.process_element(checkpoint_id, NO_TIMESTAMP)
        checkpoint(sink, checkpoint_id)
    assert commits(journal) == []
    sink.notify_checkpoint_complete(2)  # the notice of the first was lost
    assert commits(journal) == [[(1,), (2,)]]
    sink.process_element(4, NO_TIMESTAMP)
    sink.end_input(1)
    sink.finish()
    assert len(commits(journal)) == 1
    sink.notify_checkpoint_complete(3)  # it was taken before the last record came
    assert commits(journal)[1:] == [[(3,)]]
    checkpoint(sink, 4)
    sink.notify_checkpoint_complete(4)
    assert commits(journal)[2:] == [[(4,)]]
    assert [call for call in journal.calls if call[0] == "flush"].count(("flush", False)) == 3


def test_what_a_checkpoint_that_failed_held_is_committed_with_the_next():
    journal, _ = journal_operator()
    sink = checkpointed(journal)
    sink.process_element(1, NO_TIMESTAMP)
    checkpoint(sink, 1)
    sink.notify_checkpoint_aborted(1)
    sink.process_element(2, NO_TIMESTAMP)
    sink.prepare_snapshot_pre_barrier(2)  # and the snapshot itself was never taken
    checkpoint(sink, 3)
    assert commits(journal) == []
    sink.notify_checkpoint_complete(3)
    assert commits(journal) == [[(1,), (2,)]]


def test_where_no_checkpoint_follows_the_end_everything_is_committed_at_the_end():
    journal, _ = journal_operator()
    settings = ExecutionSettings(checkpointing_enabled=True, checkpoints_after_tasks_finish=False)
    sink = Surroundings(settings=settings).open(SinkWriterFactory(journal)())
    sink.process_element(1, NO_TIMESTAMP)
    checkpoint(sink, 1)
    sink.process_element(2, NO_TIMESTAMP)
    sink.end_input(1)
    sink.finish()
    assert commits(journal) == [[(1,), (2,)]]


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_at_another_parallelism_each_committable_is_committed_once_in_order(parallelism):
    snapshots = []
    for subtask in range(3):
        sink = checkpointed(journal_operator()[0])
        for checkpoint_id in (4, 5):
            sink.process_element((subtask, checkpoint_id), NO_TIMESTAMP)
            snapshot = checkpoint(sink, checkpoint_id)
        snapshots.append(OperatorSnapshot.decode(snapshot.encode()))
    committed = []
    for subtask in range(parallelism):
        journal, _ = journal_operator()
        told = []
        journal.create_writer = lambda context, told=told, journal=journal: (
            told.append((context.restored_checkpoint_id, context.operator_id)) or JournalWriter(journal.calls)
        )
        checkpointed(journal, redistribute(snapshots, parallelism, subtask))
        mine = [value for commit in commits(journal) for (value,) in commit]
        assert [value[1] for value in mine] == sorted(value[1] for value in mine)
        assert told == [(5, "0123456789abcdef0123456789abcdef")]
        committed += mine
    assert sorted(committed) == [(subtask, checkpoint_id) for subtask in range(3) for checkpoint_id in (4, 5)]


def test_a_writer_is_made_after_what_was_restored_is_committed():
    journal, _ = journal_operator()
    sink = checkpointed(journal)
    sink.process_element("a", NO_TIMESTAMP)
    snapshot = checkpoint(sink, 1)
    again, _ = journal_operator()
    checkpointed(again, snapshot)
    assert again.calls[1:] == [("commit", [("a",)]), ("writer", 0, 1)]


def test_what_a_restored_checkpoint_holds_is_committed_at_once():
    journal, _ = journal_operator()
    sink = checkpointed(journal)
    sink.process_element("a", NO_TIMESTAMP)
    sink._writer.snapshot_state = lambda checkpoint_id: ["where it was"]
    snapshot = checkpoint(sink, 1)
    again, _ = journal_operator()
    restored = []
    again.restore_writer = lambda context, states: restored.append(list(states)) or again.create_writer(context)
    sink = checkpointed(again, snapshot)
    assert restored == [["where it was"]]
    assert commits(again) == [[("a",)]]
    checkpoint(sink, 2)
    sink.notify_checkpoint_complete(2)
    assert commits(again) == [[("a",)]]


def test_what_is_to_be_retried_is_committed_again_alone():
    def decide(request):
        if request.committable == ("b",) and request.attempts < 2:
            request.retry_later()
        elif request.attempts == 2:
            request.signal_already_committed()

    journal, sink = journal_operator(decide)
    for value in "ab":
        sink.process_element(value, NO_TIMESTAMP)
        sink.prepare_snapshot_pre_barrier(1)
    sink.finish()
    assert commits(journal) == [[("a",), ("b",)], [("b",)], [("b",)]]


def test_retries_have_a_limit():
    journal, sink = journal_operator(lambda request: request.update_and_retry_later("again"))
    sink.process_element("a", NO_TIMESTAMP)
    sink.end_input(1)
    with pytest.raises(FlinkbufError, match="again could not be committed in 10 attempts"):
        sink.finish()
    assert journal.attempts == 10


def test_a_known_failure_is_told_and_the_job_goes_on(caplog):
    _, sink = journal_operator(lambda request: request.signal_failed_with_known_reason(OSError("gone")))
    sink.process_element("a", NO_TIMESTAMP)
    sink.end_input(1)
    sink.finish()
    assert "cannot be committed and is given up: gone" in caplog.text


def test_an_unknown_failure_ends_the_job():
    _, sink = journal_operator(lambda request: request.signal_failed_with_unknown_reason(OSError("gone")))
    sink.process_element("a", NO_TIMESTAMP)
    sink.end_input(1)
    with pytest.raises(OSError, match="gone"):
        sink.finish()


def test_the_committer_is_closed_even_if_the_writer_cannot_be():
    journal, sink = journal_operator()
    sink._writer.close = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        sink.close()
    assert journal.calls[-1] == "close committer"


def test_a_request_begins_pending():
    from flinkbuf.streaming.sinks.sink import CommitRequest

    assert CommitRequest("a").state is CommitState.PENDING


def test_who_is_interrupted_while_waiting_for_a_record_reads_no_more(monkeypatch):
    closed = []
    collector = Collector(on_close=lambda: closed.append(True))

    class Interrupted:
        def get_nowait(self):
            raise Empty

        def get(self, timeout):
            raise KeyboardInterrupt

        def put(self, record):
            """The end, for whoever asks again."""

    monkeypatch.setattr(collector, "_queue", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        next(collector)
    assert closed == [True]
