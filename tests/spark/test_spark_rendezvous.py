"""The rendezvous: who may come in, what each learns, and that every way out is told to the others."""

import contextlib
import json
import logging
import socket
import struct
import threading
import time
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

import flinkbuf as fb
from flinkbuf.network.ports import listen
from flinkbuf.spark import stage_progress
from flinkbuf.spark.exchange import membership, rendezvous, stage_run
from flinkbuf.spark.exchange.membership import Membership, Peer
from flinkbuf.spark.exchange.rendezvous import Rendezvous
from flinkbuf.spark.exchange.summary import ExchangeSummary, TaskFigures
from flinkbuf.spark.stage_progress import SparkStages, StageProgress

ID = "00000000000000ab"


joined = []


@pytest.fixture(autouse=True)
def _members_leave():
    yield
    while joined:
        joined.pop().close()


@pytest.fixture
def meeting():
    """A rendezvous, for an exchange of three tasks."""
    opened = Rendezvous("127.0.0.1", "127.0.0.1")
    yield opened
    opened.close()


def peer(index, port=None):
    return Peer(index, "127.0.0.1", 5000 + index if port is None else port, f"{index:02x}" * 60, 100 + index)


def join(meeting, secret=None, exchange_id=ID):
    secret = meeting.secret_of(ID, 3) if secret is None else secret
    joined.append(Membership.join(meeting.address, exchange_id, 3, secret, 5))
    return joined[-1]


class Task(threading.Thread):
    """A task that joins, registers and keeps what came of it."""

    def __init__(self, meeting, index, attempt=None, stage=7):
        super().__init__()
        self.index, self.attempt, self.stage = index, 10 + index if attempt is None else attempt, stage
        self.member = join(meeting)
        self.peers = self.error = None
        self.start()

    def run(self):
        try:
            self.peers = self.member.register(peer(self.index), self.stage, self.attempt)
        except Exception as error:
            self.error = error

    def result(self):
        self.join(10)
        if self.error is not None:
            raise self.error
        return self.peers


def tasks_of(meeting, indexes=(0, 1, 2), **options):
    tasks = []
    for index in indexes:
        tasks.append(Task(meeting, index, **options))
        wait_until(lambda: registered(meeting) >= len(tasks) or not tasks[-1].is_alive())
    return tasks


def registered(meeting, stage=7):
    exchange = meeting._exchanges.get(ID)
    run = exchange.runs.get(stage) if exchange else None
    return len(run.members) if run else 0


def wait_until(is_true, seconds=5):
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def notice(member, seconds=5):
    """What the driver tells a task to end for."""
    with pytest.raises(fb.CancelTaskError) as failure:
        member.wait_for_notice(seconds)
    return str(failure.value)


@contextlib.contextmanager
def raw(meeting):
    """A connection of somebody who knows the messages, but not the secret."""
    with socket.create_connection(meeting.address, 5) as connection:
        yield connection


def read_message(connection):
    head = connection.recv(4, socket.MSG_WAITALL)
    return json.loads(connection.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL)) if head else None


def is_closed(connection, seconds=5):
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


# ---------------------------------------------------------------- the way in


def test_all_tasks_learn_where_all_listen_when_the_last_is_there(meeting):
    first, second = tasks_of(meeting, (2, 0))
    assert first.is_alive()
    assert second.is_alive()
    third = Task(meeting, 1)
    for task in (first, second, third):
        assert task.result() == [peer(0), peer(1), peer(2)]
        task.member.check()


def test_the_address_to_listen_at_is_the_one_the_driver_was_reached_with(meeting):
    assert join(meeting).local_host == "127.0.0.1"


def test_a_task_with_another_secret_is_refused_and_nobody_is_disturbed(meeting, caplog):
    tasks = tasks_of(meeting, (0, 1))
    with pytest.raises(ConnectionError):
        join(meeting, b"guessed")
    with pytest.raises(ConnectionError):
        join(meeting, exchange_id="00000000000000ff")
    with pytest.raises(ConnectionError):
        join(meeting, meeting.secret_of(ID, 4))  # what it says of its size is part of the proof
    tasks.append(Task(meeting, 2))
    assert [len(task.result()) for task in tasks] == [3, 3, 3]
    assert "does not know the secret" in caplog.text


def test_a_driver_without_the_secret_is_refused_by_the_task():
    with listen("127.0.0.1", 0) as listening:

        def pretend():
            connection, _ = listening.accept()
            with connection:
                connection.sendall(membership.encode_message({"flinkbuf": 1, "nonce": "00" * 32}))
                read_message(connection)
                connection.sendall(membership.encode_message({"proof": "00" * 32}))
                is_closed(connection)

        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(ConnectionError, match="does not know the secret of this exchange"):
            Membership.join(listening.getsockname(), ID, 3, b"known to the tasks")
        thread.join()


def test_a_proof_that_was_heard_once_is_worth_nothing_later(meeting):
    with raw(meeting) as first:
        nonce = read_message(first)["nonce"]
        proof = membership.proof(meeting.secret_of(ID, 3), "task", ID, nonce, "ab" * 32)
        said = {"exchange": ID, "tasks": 3, "nonce": "ab" * 32, "proof": proof}
        first.sendall(membership.encode_message(said))
        assert "proof" in read_message(first)
    with raw(meeting) as again:
        assert read_message(again)["nonce"] != nonce
        again.sendall(membership.encode_message(said))
        assert is_closed(again)


def test_the_drivers_own_proof_does_not_pass_for_a_tasks(meeting):
    with raw(meeting) as connection:
        nonce = read_message(connection)["nonce"]
        mirrored = membership.proof(meeting.secret_of(ID, 3), "driver", ID, nonce, "ab" * 32)
        said = {"exchange": ID, "tasks": 3, "nonce": "ab" * 32, "proof": mirrored}
        connection.sendall(membership.encode_message(said))
        assert is_closed(connection)


GREETING = {"exchange": ID, "tasks": 3, "nonce": "", "proof": ""}
GARBAGE = {
    "a request of HTTP": b"GET / HTTP/1.1\r\nHost: driver\r\n\r\n",
    "a length beyond the limit": struct.pack(">I", membership.GREETING_LIMIT + 1) + b"{}",
    "no JSON": struct.pack(">I", 4) + b"\x80\x04K\x01",
    "JSON that is no message": struct.pack(">I", 2) + b"[]",
    "JSON that is nested too deep": struct.pack(">I", 4000) + b"[" * 4000,
    "a message without a proof": membership.encode_message({**GREETING, "proof": None}),
    "a proof that is a number": membership.encode_message({**GREETING, "proof": 1}),
    "a proof that is no ASCII": membership.encode_message({**GREETING, "proof": "ü"}),
    "an exchange that is half a character": membership.encode_message({**GREETING, "exchange": "\ud800"}),
    "a proof that is half a character": membership.encode_message({**GREETING, "proof": "\ud800"}),
    "an exchange of no tasks": membership.encode_message({**GREETING, "tasks": 0}),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_refused_and_nobody_is_disturbed(meeting, name, caplog):
    tasks = tasks_of(meeting, (0, 1))
    with raw(meeting) as connection:
        connection.sendall(GARBAGE[name])
        read_message(connection)
        assert is_closed(connection)
    tasks.append(Task(meeting, 2))
    assert [len(task.result()) for task in tasks] == [3, 3, 3]
    assert "Traceback" not in caplog.text


def test_who_is_slow_to_prove_anything_is_sent_away(meeting, monkeypatch):
    monkeypatch.setattr(rendezvous, "GREETING_TIMEOUT_S", 0.1)
    with raw(meeting) as silent, raw(meeting) as slow:
        read_message(silent)
        slow.sendall(b"\0\0")
        read_message(slow)
        assert is_closed(silent, 2)
        assert is_closed(slow, 2)


def test_only_so_many_strangers_are_let_wait(meeting, monkeypatch):
    monkeypatch.setattr(rendezvous, "STRANGERS_MAX", 2)
    with raw(meeting) as first, raw(meeting) as second, raw(meeting) as third:
        assert read_message(first)
        assert read_message(second)
        assert is_closed(third)
    wait_until(lambda: meeting._stranger_count == 0)
    join(meeting).close()


WRONG_REGISTRATIONS = [
    {},
    {"register": 5, "stage": 1, "attempt": 1},
    {"register": peer(3).to_message(), "stage": 1, "attempt": 1},
    {"register": peer(0, port=0).to_message(), "stage": 1, "attempt": 1},
    {"register": {**peer(0).to_message(), "index": -1}, "stage": 1, "attempt": 1},
    {"register": {**peer(0).to_message(), "partition": "zz" * 60}, "stage": 1, "attempt": 1},
    {"register": {**peer(0).to_message(), "host": "h" * 10_000}, "stage": 1, "attempt": 1},
    {"register": peer(0).to_message(), "stage": True, "attempt": 1},
]


@pytest.mark.parametrize("message", WRONG_REGISTRATIONS)
def test_a_registration_that_makes_no_sense_is_refused(meeting, message):
    member = join(meeting)
    member._send(message)
    assert "closed its connection" in notice(member)
    assert registered(meeting, 1) == 0


def test_nobody_at_the_drivers_address_is_an_os_error():
    with listen("127.0.0.1", 0) as free:
        address = free.getsockname()
    with pytest.raises(ConnectionRefusedError):
        Membership.join(address, ID, 3, b"known to the tasks")


def test_a_driver_that_says_nothing_counts_as_out_of_reach():
    with listen("127.0.0.1", 0) as silent:
        started = time.monotonic()
        with pytest.raises(OSError, match="in time|timed out"):
            Membership.join(silent.getsockname(), ID, 3, b"known to the tasks", 0.2)
        assert time.monotonic() - started < 2


# ---------------------------------------------------------------- while it runs


@pytest.fixture
def running(meeting):
    tasks = tasks_of(meeting)
    for task in tasks:
        task.result()
    return tasks


def test_a_failure_is_told_to_all_others_with_its_reason(running, caplog):
    running[1].member.fail("ValueError: record 17: field 'delay' is None")
    for index in (0, 2):
        text = notice(running[index].member)
        assert text == "task 1 (process 101 at 127.0.0.1:5001) failed with ValueError: record 17: field 'delay' is None"
    assert f"exchange {ID}, stage 7: task 1" in caplog.text


def test_a_task_that_goes_without_a_word_is_told_to_all_others(running):
    running[2].member._socket.close()
    for index in (0, 1):
        assert "task 2 (process 102 at 127.0.0.1:5002) went away without a word" in notice(running[index].member)


def test_of_several_failures_the_first_is_told(running):
    running[0].member.fail("OSError: the first")
    assert "the first" in notice(running[1].member)
    running[1].member.fail("the second")
    assert "the first" in notice(running[2].member)


def test_a_failure_while_others_wait_for_peers_is_told_at_once(meeting):
    first, second = tasks_of(meeting, (0, 1))
    second.member._socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(fb.CancelTaskError, match="task 1 .* went away without a word"):
        first.result()
    late = Task(meeting, 2)
    with pytest.raises(fb.CancelTaskError, match="task 1 .* went away without a word"):
        late.result()


def test_the_end_of_the_driver_ends_the_tasks(running, meeting):
    meeting.close()
    for task in running:
        assert "the driver closed its connection" in notice(task.member)


def test_a_text_of_any_length_and_kind_arrives(running):
    running[0].member.fail("😀\0\ud800" * 10_000)
    assert "😀\0\ud800" * 100 in notice(running[1].member)


def test_the_driver_closes_the_connection_of_a_task_that_talks_nonsense(running):
    running[0].member._socket.sendall(membership.encode_message({"peers": []}))
    assert "task 0" in notice(running[1].member)


@pytest.mark.parametrize("way", ["failed", "another attempt", "after a while"])
def test_the_others_are_told_of_a_failure_when_spark_knows_of_its_cause(watched, monkeypatch, way):
    monkeypatch.setattr(rendezvous, "FAILURE_WAIT_S", 1.0 if way == "after a while" else 60.0)
    stages = FakeStages(3, 0)
    meeting = watched(stages)
    tasks = tasks_of(meeting, (0, 1))
    tasks[0].member.fail("the cause")
    wait_until(lambda: meeting._exchanges[ID].runs[7].state == "failed")
    tasks.append(Task(meeting, 2))  # who comes late learns of it no earlier
    time.sleep(0.5)
    assert tasks[1].is_alive()
    assert tasks[2].is_alive()
    if way != "after a while":
        stages.now = StageProgress(2, 0, failed=1) if way == "failed" else StageProgress(3, 0, attempt=1)
    for task in tasks[1:]:
        with pytest.raises(fb.PeerFailedError, match="the cause"):
            task.result()


# ---------------------------------------------------------------- the end, and what was counted


def test_the_counts_are_with_the_driver_before_the_last_task_ends(running, meeting, caplog):
    with caplog.at_level(logging.INFO, "flinkbuf"):
        for task in running:
            assert meeting.summaries == []
            task.member.finish(TaskFigures(task.index, records_in=10 * task.index, buffers_in=1).to_message())
        (summary,) = meeting.summaries
    assert [one.records_in for one in summary.tasks] == [0, 10, 20]
    assert summary.total("buffers_in") == 3
    assert f"exchange {ID}, stage 7: 3 tasks, 30 records in 3 buffers" in caplog.text


def test_a_task_that_is_done_may_go_while_others_work_on(running):
    running[0].member.finish({})
    time.sleep(0.05)
    running[1].member.check()
    running[2].member.fail("something")
    assert "something" in notice(running[1].member)


def test_counts_that_are_none_are_not_believed():
    message = {"records_in": -1, "records_out": True, "bytes_in": "9", "bytes_out": 2**70, "idle_ms": 5, "index": 9}
    assert TaskFigures.from_message(2, message) == TaskFigures(2, idle_ms=5)
    assert TaskFigures.from_message(2, [1, 2]) == TaskFigures(2)


def test_only_the_latest_summaries_are_kept(monkeypatch):
    monkeypatch.setattr(rendezvous, "SUMMARIES_KEPT", 2)
    with contextlib.closing(Rendezvous("127.0.0.1", "127.0.0.1")) as meeting:
        for stage in range(3):
            for task in [Task(meeting, index, stage=stage) for index in range(3)]:
                task.result()
                task.member.finish({})
        assert [summary.stage for summary in meeting.summaries] == [1, 2]


def test_the_table_has_a_line_for_each_task():
    summary = ExchangeSummary(ID, 1, 2.0, tuple(TaskFigures(index, records_in=index * 1000) for index in range(3)))
    lines = summary.table().splitlines()
    assert len(lines) == 4
    assert len(set(map(len, lines))) == 1
    assert "2,000" in lines[3]


# ---------------------------------------------------------------- attempts


def test_tasks_of_two_jobs_over_one_exchange_do_not_meet(meeting):
    tasks = [
        Task(meeting, index, attempt=10 + 3 * stage + index, stage=stage) for index in range(3) for stage in (1, 2)
    ]
    for task in tasks:
        assert len(task.result()) == 3
    assert {stage: len(run.members) for stage, run in meeting._exchanges[ID].runs.items()} == {1: 3, 2: 3}


def test_a_stage_that_spark_runs_again_starts_afresh(running, meeting):
    running[0].member.fail("the first attempt")
    again = [Task(meeting, index, attempt=20 + index) for index in range(3)]
    assert [len(task.result()) for task in again] == [3, 3, 3]
    for task in again:
        task.member.finish({})
    assert len(meeting.summaries) == 1


def test_a_new_attempt_ends_the_old_one_that_has_not_noticed(running, meeting):
    again = [Task(meeting, index, attempt=20 + index) for index in range(3)]
    for task in again:
        task.result()
    for task in running:
        assert "started stage 7 again" in notice(task.member)
    for task in again:
        task.member.check()


def test_a_straggler_of_an_old_attempt_is_sent_away(meeting):
    tasks = tasks_of(meeting, (0, 1), attempt=None)
    old = Task(meeting, 2, attempt=3)
    with pytest.raises(fb.CancelTaskError, match="later attempt of stage 7"):
        old.result()
    tasks.append(Task(meeting, 2))
    assert [len(task.result()) for task in tasks] == [3, 3, 3]


def test_nothing_is_kept_of_exchanges_whose_runs_are_over(watched, monkeypatch):
    monkeypatch.setattr(stage_run, "RUNS_KEPT_S", 0.0)
    meeting = watched(FakeStages(3, 0))
    waiting = tasks_of(meeting, (0,))
    for stage in range(5):
        for task in [Task(meeting, index, stage=stage) for index in range(3)]:
            task.result()
            task.member.finish({})
    wait_until(lambda: list(meeting._exchanges[ID].runs) == [7])
    waiting[0].member.close()
    wait_until(lambda: not meeting._exchanges)
    again = [Task(meeting, index, attempt=20 + index) for index in range(3)]
    assert [len(task.result()) for task in again] == [3, 3, 3]


def test_spark_is_asked_again_rather_than_its_answers_kept_for_ever(monkeypatch):
    monkeypatch.setattr(stage_progress, "FIRST_TASKS_KEPT", 10)
    one = SimpleNamespace(size=lambda: 1, apply=lambda _: SimpleNamespace(taskId=lambda: 3))
    store = SimpleNamespace(taskList=lambda *_: one)
    context = Context()
    context._jvm = MagicMock()
    context._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store))
    stages = SparkStages(context)
    for stage in range(50):
        assert stages._first_task(stage, 0) == 3
    assert len(stages._first_tasks) == 10


# ---------------------------------------------------------------- who cannot reach the driver


def test_if_not_all_come_in_time_those_who_did_are_sent_to_all_gather(monkeypatch, caplog):
    monkeypatch.setattr(rendezvous, "GATHER_AFTER_S", 0.2)
    meeting = Rendezvous("127.0.0.1", "127.0.0.1")
    first, second = tasks_of(meeting, (0, 1))
    assert first.result() is None
    assert second.result() is None
    assert Task(meeting, 2).result() is None, "one that comes late goes there too"
    assert "2 of 3 tasks reached the driver" in caplog.text
    first.member.fail("still told")
    assert "still told" in notice(second.member)
    meeting.close()


# ---------------------------------------------------------------- who never comes


class FakeStages:
    """Stages of which the test says how far they are."""

    def __init__(self, *progress, first_tasks=(10,)):
        self.now = StageProgress(*progress)
        self.first_tasks = first_tasks  # of each attempt, from 0 on
        self.cancelled = []

    def progress(self, stage):
        return self.now

    def attempt_of(self, stage, task, task_count):
        found = [attempt for attempt, first in enumerate(self.first_tasks) if first <= task < first + task_count]
        return found[0] if found else None

    def cancel(self, stage, reason):
        self.cancelled.append((stage, reason))


@pytest.fixture
def watched(monkeypatch):
    """A function that opens a rendezvous for three tasks, over stages that are as far as they are said to be."""
    monkeypatch.setattr(rendezvous, "LOOK_S", 0.02)
    monkeypatch.setattr(rendezvous, "FAILURE_WAIT_S", 0.01)
    with contextlib.ExitStack() as stack:

        def open_over(stages):
            opened = Rendezvous("127.0.0.1", "127.0.0.1", stages=stages)
            stack.callback(opened.close)
            return opened

        yield open_over


def test_who_waits_for_tasks_that_have_ended_is_told(watched):
    stages = FakeStages(2, 1)
    for task in tasks_of(watched(stages), (0, 1)):
        with pytest.raises(fb.CancelTaskError, match="1 of the 3 tasks ended without taking part.*cache.*unpersist"):
            task.result()
    assert not stages.cancelled


@pytest.mark.parametrize("progress", [(3, 0), (2, 0), (0, 3), (1, 2)])
def test_tasks_that_have_not_ended_are_waited_for_whatever_an_earlier_attempt_did(watched, progress):
    stages = FakeStages(0, 0)
    meeting = watched(stages)
    tasks = tasks_of(meeting, (0, 1))
    stages.now = StageProgress(*progress)
    time.sleep(0.5)
    stages.now = StageProgress(3, 0)
    tasks.append(Task(meeting, 2))
    assert [len(task.result()) for task in tasks] == [3, 3, 3]


def test_who_waits_in_all_gather_is_ended_by_spark_but_not_who_has_met_the_others(watched, monkeypatch):
    monkeypatch.setattr(rendezvous, "GATHER_AFTER_S", 0.1)
    for has_met in (True, False):
        stages = FakeStages(2, 0)
        tasks = tasks_of(watched(stages), (0, 1))
        assert [task.result() for task in tasks] == [None, None]
        if has_met:
            for task in tasks:
                task.member.say_met()
            time.sleep(0.2)
        stages.now = StageProgress(2, 1)
        if has_met:
            time.sleep(0.5)
            assert not stages.cancelled
    wait_until(lambda: stages.cancelled)
    assert stages.cancelled[0][0] == 7
    assert "ended without taking part" in stages.cancelled[0][1]
    assert "ended without taking part" in notice(tasks[0].member)


@pytest.mark.parametrize("way", ["by the driver", "by allGather"])
def test_who_waits_for_the_records_of_a_task_that_has_ended_is_told(watched, monkeypatch, way):
    if way == "by allGather":
        monkeypatch.setattr(rendezvous, "GATHER_AFTER_S", 0.0)
    stages = FakeStages(3, 0)
    tasks = tasks_of(watched(stages))
    for task in tasks:
        task.result()
        if way == "by allGather":
            task.member.say_met()
    tasks[0].member.finish({})
    for progress in ((2, 1), (0, 2), (0, 3), (2, 0), (3, 0)):  # as it should be, and figures of another attempt
        stages.now = StageProgress(*progress)
        time.sleep(0.2)
        tasks[2].member.check()
    stages.now = StageProgress(1, 2)  # task 1 left its line open
    assert "1 of the 3 tasks ended without having sent the others all that is theirs" in notice(tasks[2].member)


def test_who_still_sends_after_the_end_of_its_task_is_waited_for(watched):
    stages = FakeStages(3, 0)
    tasks = tasks_of(watched(stages))
    for task in tasks:
        task.result()
    tasks[0].member.say_ended()
    stages.now = StageProgress(2, 1)
    time.sleep(0.5)
    tasks[2].member.check()
    stages.now = StageProgress(1, 2)  # task 1 said nothing
    assert "1 of the 3 tasks ended without" in notice(tasks[2].member)


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_task_of_an_earlier_attempt_has_no_part_in_the_next_one(watched, is_gone):
    """One task failed before it came; the numbers of those that did go on in the next attempt's."""
    stages = FakeStages(2, 0)
    meeting = watched(stages)
    old = tasks_of(meeting, (1, 2))
    if is_gone:
        for task in old:
            task.member.close()
            with pytest.raises(fb.PeerFailedError):
                task.result()
        wait_until(lambda: meeting._exchanges[ID].runs[7].state == "failed")
    stages.now = StageProgress(3, 0, 1)
    stages.first_tasks = (10, 13)
    tasks = [Task(meeting, index, attempt=13 + index) for index in range(3)]
    assert [len(task.result()) for task in tasks] == [3, 3, 3]
    if not is_gone:
        for task in old:
            with pytest.raises(fb.PeerFailedError, match="started stage 7 again"):
                task.result()


def test_tasks_of_an_earlier_attempt_that_come_late_are_sent_away(watched):
    """Two of them with one of the next attempt look like a whole one."""
    meeting = watched(FakeStages(3, 0, first_tasks=(10, 13)))
    old = tasks_of(meeting, (1,), attempt=11)
    tasks = tasks_of(meeting, (0,), attempt=13)
    with pytest.raises(fb.PeerFailedError, match="started stage 7 again"):
        old[0].result()
    with pytest.raises(fb.PeerFailedError, match="a later attempt of stage 7"):
        Task(meeting, 2, attempt=12).result()
    tasks += [Task(meeting, index, attempt=13 + index) for index in (1, 2)]
    assert [len(task.result()) for task in tasks] == [3, 3, 3]


@pytest.mark.parametrize("is_told", [True, False])
def test_spark_may_be_late_to_know_of_an_attempt(watched, monkeypatch, is_told):
    monkeypatch.setattr(rendezvous, "ATTEMPT_LOOK_S", 0.1 if is_told else 0.0)
    stages = FakeStages(3, 0)
    meeting = watched(stages)
    for task in tasks_of(meeting):
        task.result()
        task.member.fail("the attempt before")
    wait_until(lambda: meeting._exchanges[ID].runs[7].state == "failed")
    first = Task(meeting, 0, attempt=13)
    if not is_told:
        wait_until(lambda: registered(meeting) == 1)
    stages.first_tasks = (10, 13)
    tasks = [first, Task(meeting, 1, attempt=14), Task(meeting, 2, attempt=15)]
    assert [len(task.result()) for task in tasks] == [3, 3, 3]


# ---------------------------------------------------------------- its life


def test_it_ends_its_thread_and_socket_by_close_and_by_itself():
    is_over = threading.Event()
    for end in ("close", "itself"):
        meeting = Rendezvous("127.0.0.1", "127.0.0.1", is_over=is_over.is_set)
        with raw(meeting) as connection:
            read_message(connection)
            assert not meeting.is_closed
            if end == "close":
                meeting.close()
                meeting.close()
            else:
                is_over.set()
                wait_until(lambda meeting=meeting: meeting.is_closed)
            assert is_closed(connection)
        with pytest.raises(ConnectionRefusedError), raw(meeting):
            pass
        assert meeting._thread not in threading.enumerate()


class Context:
    """What rendezvous_of() needs of a SparkContext."""

    def __init__(self, **settings):
        self.settings = {f"spark.{name.replace('_', '.')}": value for name, value in settings.items()}
        self._jsc = object()

    def getConf(self):
        return self.settings


def test_a_context_has_one_that_ends_when_it_stops_and_listens_where_its_configuration_says():
    with listen("127.0.0.1", 0) as probe:
        port = probe.getsockname()[1]
    context = Context(driver_host="not.me", flinkbuf_driver_bindAddress="127.0.0.1", flinkbuf_driver_port=f"{port}")
    opened = rendezvous.rendezvous_of(context)
    assert opened.address == ("not.me", port)
    assert rendezvous.rendezvous_of(context) is opened
    assert rendezvous.summaries_of(context) == rendezvous.summaries_of(Context()) == []
    context._jsc = None
    wait_until(lambda: opened.is_closed)
    context._jsc = object()
    again = rendezvous.rendezvous_of(context)
    assert again is not opened
    del context
    wait_until(lambda: again.is_closed)


def test_settings_of_spark_count_where_there_are_none_of_ours():
    context = Context(driver_host="driver.example", driver_bindAddress="127.0.0.1")
    opened = rendezvous.rendezvous_of(context)
    assert opened.address[0] == "driver.example"
    opened.close()
    mine = Context(
        driver_host="driver.example",
        driver_bindAddress="no such host",
        flinkbuf_driver_bindAddress="127.0.0.1",
        flinkbuf_driver_host="other.example",
    )
    opened = rendezvous.rendezvous_of(mine)
    assert opened.address[0] == "other.example"
    opened.close()
    with pytest.raises(OSError, match="listening at no such host"):
        rendezvous.rendezvous_of(Context(driver_host="no such host"))
    with pytest.raises(ValueError, match="port"):
        rendezvous.rendezvous_of(Context(driver_host="127.0.0.1", flinkbuf_driver_port="any"))


def test_it_takes_the_first_port_that_is_free():
    with listen("127.0.0.1", 0) as taken, listen("127.0.0.1", 0) as probe:
        busy, free = taken.getsockname()[1], probe.getsockname()[1]
        probe.close()
        meeting = Rendezvous("127.0.0.1", "driver.example", [busy, free])
        assert meeting.address == ("driver.example", free)
        meeting.close()
        with pytest.raises(OSError, match=rf"listening at 127\.0\.0\.1:{busy}: .*in use"):
            Rendezvous("127.0.0.1", "127.0.0.1", [busy])
