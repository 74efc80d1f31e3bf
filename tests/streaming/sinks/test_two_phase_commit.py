"""Transactions of an outside system: prepared with a checkpoint, committed when it counts, found after a failure."""

import os
import pickle

import cloudpickle
import pytest

from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.sinks.sink_factories import sink_factory_of
from flinkbuf.streaming.sinks.two_phase_commit import TransactionAge, TwoPhaseCommitSinkFunction
from flinkbuf.testing import ManualClock, OperatorHarness

WITH_CHECKPOINTS = ExecutionSettings(checkpointing_enabled=True)


class Folder(TwoPhaseCommitSinkFunction):
    """A transaction is a hidden file; committed it has a name."""

    def __init__(self, path):
        super().__init__()
        self.path = str(path)
        self.calls = []
        self.is_broken = False

    def open(self, runtime_context):
        self.calls.append("open")

    def begin_transaction(self):
        name = os.urandom(4).hex()
        self.file = open(f"{self.path}/.{name}", "w")  # noqa: SIM115
        return name

    def invoke(self, transaction, value, context):
        assert self.file.name.endswith(transaction)
        self.file.write(f"{value} {context.timestamp()}\n")

    def finish_processing(self, transaction):
        self.calls.append("finish_processing")

    def pre_commit(self, transaction):
        self.file.close()

    def commit(self, transaction):
        if self.is_broken:
            raise OSError("the disk is gone")
        self.calls.append("commit")
        if os.path.exists(f"{self.path}/.{transaction}"):
            os.replace(f"{self.path}/.{transaction}", f"{self.path}/{transaction}")

    def abort(self, transaction):
        self.file.close()
        os.remove(f"{self.path}/.{transaction}")

    def recover_and_abort(self, transaction):
        if os.path.exists(f"{self.path}/.{transaction}"):
            os.remove(f"{self.path}/.{transaction}")

    def close(self):
        self.calls.append("close")


def visible(path):
    lines = [line for each in path.iterdir() if not each.name.startswith(".") for line in each.read_text().splitlines()]
    return sorted(lines)


def hidden(path):
    return [each.name for each in path.iterdir() if each.name.startswith(".")]


def harness(function, **options):
    factory = pickle.loads(cloudpickle.dumps(sink_factory_of(function)))
    return OperatorHarness(factory(), **{"settings": WITH_CHECKPOINTS, "is_keyed": False, **options})


def stored(snapshot):
    return type(snapshot).decode(snapshot.encode())


def test_records_appear_when_the_checkpoint_behind_them_counts(tmp_path):
    with harness(Folder(tmp_path)) as sink:
        sink.process_element("a", 1)
        sink.snapshot(1)
        sink.process_element("b", 2)
        assert visible(tmp_path) == []
        sink.operator.notify_checkpoint_complete(1)
        assert visible(tmp_path) == ["a 1"]
        sink.snapshot(2)
        sink.process_element("c", 3)
        sink.snapshot(3)
        sink.operator.notify_checkpoint_aborted(2)  # nothing is lost: the next one commits it
        assert visible(tmp_path) == ["a 1"]
        sink.operator.notify_checkpoint_complete(3)
        assert visible(tmp_path) == ["a 1", "b 2", "c 3"]
    assert hidden(tmp_path) == []  # the one that was begun last was aborted


SCRIPT = [
    "a",
    "b",
    ("snapshot", 1),
    "c",
    ("complete", 1),
    "d",
    ("snapshot", 2),
    "e",
    ("snapshot", 3),
    ("complete", 3),
    "f",
]


def play(sink, script, snapshots):
    for step in script:
        if isinstance(step, str):
            sink.process_element(step, 0)
        elif step[0] == "snapshot":
            snapshots[step[1]] = stored(sink.snapshot(step[1]))
        else:
            sink.operator.notify_checkpoint_complete(step[1])


@pytest.mark.parametrize("cut", range(len(SCRIPT) + 1))
@pytest.mark.parametrize("parallelism", [1, 2])
def test_wherever_it_fails_each_record_comes_once(tmp_path, cut, parallelism):
    snapshots = {}
    first = harness(Folder(tmp_path))
    first.open()
    play(first, SCRIPT[:cut], snapshots)
    first.operator._sink.file.close()  # killed: nothing is closed in order, nothing aborted
    done = max(snapshots, default=0)  # it counts, though the notice of it may not have come
    left = SCRIPT[SCRIPT.index(("snapshot", done)) + 1 :] if done else SCRIPT
    others = [
        harness(
            Folder(tmp_path),
            restore=[snapshots[done]] if done else None,
            parallelism=parallelism,
            subtask_index=index,
        )
        for index in range(parallelism)
    ]
    for other in others:
        other.open()
    play(others[0], [step for step in left if isinstance(step, str)], {})
    for other in others:
        other.snapshot(9)
        other.operator.notify_checkpoint_complete(9)
        other.close()
    assert visible(tmp_path) == [f"{letter} 0" for letter in "abcdef"]


def test_at_the_end_the_last_checkpoint_commits(tmp_path):
    with harness(Folder(tmp_path)) as sink:
        sink.process_element("a", 1)
        sink.snapshot(1)
        sink.process_element("b", 2)
        sink.end_input()
        sink.finish()
        sink.operator.notify_checkpoint_complete(1)  # it was taken before "b" and must not make it visible
        assert visible(tmp_path) == ["a 1"]
        sink.snapshot(2)
        sink.snapshot(3)  # others go on: nothing is begun any more
        sink.operator.notify_checkpoint_complete(2)
        assert visible(tmp_path) == ["a 1", "b 2"] and hidden(tmp_path) == []
        assert sink.operator._sink.calls == ["open", "finish_processing", "commit", "commit"]


@pytest.mark.parametrize(
    "settings",
    [ExecutionSettings(), ExecutionSettings(checkpointing_enabled=True, checkpoints_after_tasks_finish=False)],
)
def test_where_no_checkpoint_follows_the_end_commits(tmp_path, settings):
    with harness(Folder(tmp_path), settings=settings) as sink:
        sink.process_element("a", 1)
        sink.end_input()
        sink.finish()
        assert visible(tmp_path) == ["a 1"]


def test_all_are_tried_before_the_first_error_is_raised(tmp_path):
    with harness(Folder(tmp_path)) as sink:
        for checkpoint_id in (1, 2):
            sink.process_element("a", checkpoint_id)
            sink.snapshot(checkpoint_id)
        tried = []

        def commit(transaction):
            tried.append(transaction)
            raise OSError(f"number {len(tried)}")

        sink.operator._sink.commit = commit
        with pytest.raises(OSError, match="number 1") as raised:
            sink.operator.notify_checkpoint_complete(2)
        assert len(tried) == 2
        assert "number 2" in str(raised.value.__context__)


class Plain(TwoPhaseCommitSinkFunction):
    """Its invoke asks for no context."""

    def begin_transaction(self):
        return []

    def invoke(self, transaction, value):
        transaction.append(value)

    def pre_commit(self, transaction):
        pass

    def commit(self, transaction):
        raise OSError(f"no such transaction: {transaction}")

    def abort(self, transaction):
        raise AssertionError("abort is for the current one")


def test_a_context_is_optional_and_what_is_prepared_is_not_aborted():
    sink = harness(Plain())
    sink.open()
    sink.process_element("a")
    assert stored(sink.snapshot(1)).lists["state"][0].pending[0].handle == ["a"]
    sink.operator._current = None
    sink.close()


def test_a_recovered_transaction_that_cannot_be_committed_ends_the_job_unless_it_is_too_old(caplog):
    clock = ManualClock(0)
    function = Plain().set_transaction_timeout(1_000).enable_transaction_timeout_warnings(0.5)
    first = harness(function, clock=clock)
    first.open()
    first.process_element("a")
    state = stored(first.snapshot(1))
    with pytest.raises(OSError, match="no such transaction"):
        harness(function.ignore_failures_after_transaction_timeout(), restore=state, clock=ManualClock(1_000)).open()
    assert "take checkpoints more often" in caplog.text
    again = harness(function, restore=state, clock=ManualClock(1_001))
    again.operator._sink.recover_and_abort = lambda transaction: None
    again.open()
    assert "more than its timeout" in caplog.text


def test_ages_without_a_timeout_mean_nothing():
    age = TransactionAge(Plain().ignore_failures_after_transaction_timeout())
    assert not age.excuses_failure(10**12) and not age.is_worth_a_warning(10**12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda sink: sink.set_transaction_timeout(-1), "transaction_timeout_ms must not be negative"),
        (lambda sink: sink.enable_transaction_timeout_warnings(1.5), "warning_ratio must be between 0 and 1"),
    ],
)
def test_settings_are_checked(call, words):
    with pytest.raises(ValueError, match=words):
        call(Plain())
