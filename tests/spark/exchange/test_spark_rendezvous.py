"""The rendezvous: tasks that come over the control plane, and what a driver keeps, opens and closes for them.

Who may come in at all is told by tests/control; what each of them is told, by test_spark_exchange_runs.py.
"""

import contextlib
import logging
import threading
import time
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

import flinkbuf as fb
from flinkbuf.control import control_server
from flinkbuf.control.control_client import ControlClient
from flinkbuf.network.ports import listen
from flinkbuf.spark.exchange import exchange_runs, rendezvous
from flinkbuf.spark.exchange.membership import Membership
from flinkbuf.spark.exchange.messages import CODEC, Goodbye, Peer
from flinkbuf.spark.exchange.rendezvous import Rendezvous
from flinkbuf.spark.exchange.summary import ExchangeSummary, TaskFigures
from flinkbuf.spark.stage.driver_address import listen_for_tasks
from flinkbuf.spark.stage.stage_progress import AttemptTasks, SparkStages, StageProgress, TaskEnd

ID = "00000000000000ab"
HERE = {"spark.driver.host": "127.0.0.1"}
joined = []


@pytest.fixture(autouse=True)
def no_server_of_others(monkeypatch):
    """Jobs and exchanges of a SparkContext that other tests have used share a control server: here nobody does."""
    monkeypatch.setattr(control_server, "_shared", {})


@pytest.fixture(autouse=True)
def _members_leave():
    yield
    while joined:
        joined.pop().close()


class FakeStages:
    """Stages of which the test says how far they are; by default, Spark cannot be asked."""

    def __init__(self, *progress):
        self.now = StageProgress(*progress) if progress else None

    def progress(self, stage):
        return self.now

    def attempt_of(self, stage, task, task_count):
        return AttemptTasks(task // 100, task // 100 * 100, task_count) if self.now else None

    def failures(self, stage, attempt):
        return [TaskEnd(2, True, "OSError: no input")] if self.now.failed else []

    def end_of(self, stage, attempt, task):
        return None


def open_meeting(stages=None, conf=HERE, **options):
    return Rendezvous(lambda tls: listen_for_tasks(conf, tls), stages or FakeStages(), **options)


@pytest.fixture
def meeting():
    """A rendezvous, for an exchange of three tasks."""
    opened = open_meeting()
    yield opened
    opened.close()


def peer(index):
    return Peer(index, "127.0.0.1", 5000 + index, f"{index:02x}" * 60, 100 + index)


class Task(threading.Thread):
    """A task that joins, registers and keeps what came of it."""

    def __init__(self, meeting, index, stage=7):
        super().__init__()
        self.index, self.stage = index, stage
        self.member = Membership.join(meeting.address_of(ID, 3))
        joined.append(self.member)
        self.peers = self.error = None
        self.start()

    def run(self):
        try:
            self.peers = self.member.register(peer(self.index), self.stage, self.index)
        except Exception as error:
            self.error = error

    def result(self):
        self.join(10)
        if self.error is not None:
            raise self.error
        return self.peers


def tasks_of(meeting, indexes=(0, 1, 2), **options):
    return [Task(meeting, index, **options) for index in indexes]


@pytest.fixture
def running(meeting):
    tasks = tasks_of(meeting)
    for task in tasks:
        task.result()
    return tasks


def wait_until(is_true, seconds=5):
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def notice(member, seconds=5):
    """What the driver tells a task to end for."""
    with pytest.raises(fb.errors.PeerFailedError) as failure:
        member.wait_for_notice(seconds)
    return str(failure.value)


# ---------------------------------------------------------------- while it runs


def test_all_tasks_learn_where_all_listen_when_the_last_is_there(meeting):
    first, second = tasks_of(meeting, (2, 0))
    time.sleep(0.1)
    assert first.is_alive()
    assert second.is_alive()
    third = Task(meeting, 1)
    for task in (first, second, third):
        assert task.result() == (peer(0), peer(1), peer(2))
        task.member.check()


def test_the_address_to_listen_at_is_the_one_the_driver_was_reached_with(meeting):
    assert Task(meeting, 0).member.local_host == "127.0.0.1"


def test_the_size_of_an_exchange_is_part_of_what_is_proved(meeting):
    address, other = meeting.address_of(ID, 3), meeting.address_of(ID, 4)
    assert address.address == other.address
    with pytest.raises(fb.errors.RemoteTransportError):
        ControlClient.connect(address.address, address.group_id, other.secret)


def test_a_failure_is_told_to_all_others_with_its_reason(running, caplog):
    running[1].member.fail("ValueError: record 17: field 'delay' is None")
    for index in (0, 2):
        text = notice(running[index].member)
        assert text == "task 1 (process 101 at 127.0.0.1:5001) failed with ValueError: record 17: field 'delay' is None"
    assert f"exchange {ID}, stage 7: task 1" in caplog.text


def test_a_task_that_goes_without_a_word_is_told_to_all_others(running):
    running[2].member.close()
    for index in (0, 1):
        assert "task 2 (process 102 at 127.0.0.1:5002) went away without a word" in notice(running[index].member)


def test_the_end_of_the_driver_ends_the_tasks(running, meeting):
    meeting.close()
    for task in running:
        assert "the driver ended its connection to this task; it has stopped" in notice(task.member)


def test_a_text_of_any_length_and_kind_arrives(running):
    running[0].member.fail("😀\0\ud800" * 10_000)
    assert "😀\0\ud800" * 100 in notice(running[1].member)


@pytest.mark.parametrize("nonsense", [b"", b"\x80\x04K\x01", b"\x01[]", CODEC.encode(Goodbye()), b'\x05{"figures":1}'])
def test_who_talks_nonsense_is_sent_away_and_the_others_are_told(running, nonsense):
    running[0].member._client.send(nonsense)
    if nonsense == CODEC.encode(Goodbye()):  # what only the driver says
        running[0].member.close()
    assert "task 0" in notice(running[1].member)


def test_who_waits_for_a_task_that_failed_before_it_came_is_told_at_the_next_look(monkeypatch):
    monkeypatch.setattr(exchange_runs, "LOOK_MS", 50)
    stages = FakeStages(3, 0)
    with contextlib.closing(open_meeting(stages)) as meeting:
        tasks = tasks_of(meeting, (0, 1))
        stages.now = StageProgress(2, 0, failed=1)
        for task in tasks:
            with pytest.raises(fb.errors.PeerFailedError, match="task 2 of Spark, .* failed with OSError: no input"):
                task.result()


# ---------------------------------------------------------------- the end, and what was counted


def test_the_counts_are_with_the_driver_before_the_last_task_ends(running, meeting, caplog):
    with caplog.at_level(logging.INFO, "flinkbuf"):
        for task in running:
            assert meeting.summaries == []
            task.member.finish(TaskFigures(0, records_in=10 * task.index, buffers_in=1))
        (summary,) = meeting.summaries
    assert [one.records_in for one in summary.tasks] == [0, 10, 20]
    assert summary.total("buffers_in") == 3
    assert f"exchange {ID}, stage 7: 3 tasks, 30 records in 3 buffers" in caplog.text


def test_only_the_latest_summaries_are_kept(monkeypatch):
    monkeypatch.setattr(rendezvous, "SUMMARIES_KEPT", 2)
    with contextlib.closing(open_meeting()) as meeting:
        for stage in range(3):
            for task in tasks_of(meeting, stage=stage):
                task.result()
            for task in joined[-3:]:
                task.finish(TaskFigures(0))
        assert [summary.stage for summary in meeting.summaries] == [1, 2]


def test_the_table_has_a_line_for_each_task():
    summary = ExchangeSummary(ID, 1, 2.0, tuple(TaskFigures(index, records_in=index * 1000) for index in range(3)))
    lines = summary.table().splitlines()
    assert len(lines) == 4
    assert len(set(map(len, lines))) == 1
    assert "2,000" in lines[3]


def test_nothing_is_kept_of_exchanges_that_are_over(monkeypatch):
    monkeypatch.setattr(exchange_runs, "RUNS_KEPT_MS", 0)
    with contextlib.closing(open_meeting()) as meeting:
        for number in range(20):
            address = meeting.address_of(f"{number:016x}", 1)
            member = Membership.join(address)
            assert member.register(peer(0), number, number) == (peer(0),)
            member.finish(TaskFigures(0))
        (lease,) = meeting._leases.values()
        wait_until(lambda: not (lease.server._groups or lease.server._connections or meeting.runs._members))
        wait_until(lambda: not (meeting.runs._runs or meeting._groups or meeting._counts))
        member = Membership.join(address)  # and it may be computed again
        assert member.register(peer(0), 21, 21) == (peer(0),)
        member.close()


# ---------------------------------------------------------------- its life


def threads_besides(others):
    names = {thread.name for thread in threading.enumerate() if thread not in others}
    return {name for name in names if name.startswith("flinkbuf")}


@pytest.mark.parametrize("way", ["close", "by itself"])
def test_its_threads_and_its_socket_end_with_it(way):
    others = threading.enumerate()
    is_over = threading.Event()
    meeting = open_meeting(is_over=is_over.is_set)
    address = meeting.address_of(ID, 1)
    Membership.join(address).close()
    assert threads_besides(others) == {"flinkbuf-control", "flinkbuf-exchanges"}
    if way == "close":
        meeting.close()
        meeting.close()
    else:
        is_over.set()
        wait_until(lambda: meeting.is_closed)
    assert threads_besides(others) == set()
    with pytest.raises(fb.errors.RemoteTransportError, match="cannot reach the driver"):
        Membership.join(address)


def test_two_of_them_share_a_server_that_ends_with_the_second():
    with contextlib.closing(open_meeting()) as first:
        address = first.address_of(ID, 1).address
        with contextlib.closing(open_meeting()) as second:
            assert second.address_of(ID, 1).address == address
            assert second.address_of(ID, 1).group_id != first.address_of(ID, 1).group_id
            member = Membership.join(second.address_of(ID, 1))
            assert member.register(peer(0), 7, 0) == (peer(0),)
        assert "the driver ended its connection" in notice(member), "though the server goes on"
        Membership.join(first.address_of(ID, 1)).close()
    assert not control_server._shared


class Context:
    """What rendezvous_of() needs of a SparkContext."""

    def __init__(self, **settings):
        self.settings = {f"spark.{name.replace('_', '.')}": value for name, value in settings.items()}
        self._jsc = object()

    def getConf(self):
        return self.settings

    def accumulator(self, value, param):
        return SimpleNamespace(value=value, param=param)


def test_a_context_has_one_that_ends_when_it_stops_and_listens_where_its_configuration_says():
    with listen("127.0.0.1", 0) as probe:
        port = probe.getsockname()[1]
    context = Context(driver_host="not.me", flinkbuf_driver_bindAddress="127.0.0.1", flinkbuf_driver_port=f"{port}")
    opened = rendezvous.rendezvous_of(context)
    assert opened.address_of(ID, 3).address == ("not.me", port)
    assert rendezvous.rendezvous_of(context) is opened
    assert rendezvous.summaries_of(context) == rendezvous.summaries_of(Context()) == []
    context._jsc = None
    wait_until(lambda: opened.is_closed)
    context._jsc = object()
    again = rendezvous.rendezvous_of(context)
    assert again is not opened
    assert again.last_calls is opened.last_calls, "Spark keeps each of them for ever"
    del context
    wait_until(lambda: again.is_closed)


def test_settings_of_spark_count_where_there_are_none_of_ours():
    with listen_for_tasks(Context(driver_host="driver.example", driver_bindAddress="127.0.0.1").getConf()) as server:
        assert server.address[0] == "driver.example"
    mine = Context(
        driver_host="driver.example",
        driver_bindAddress="no such host",
        flinkbuf_driver_bindAddress="127.0.0.1",
        flinkbuf_driver_host="other.example",
    )
    with listen_for_tasks(mine.getConf()) as server:
        assert server.address[0] == "other.example"
    with pytest.raises(OSError, match="listening at no such host"):
        listen_for_tasks(Context(driver_host="no such host").getConf())
    with pytest.raises(ValueError, match="port"):
        listen_for_tasks(Context(driver_host="127.0.0.1", flinkbuf_driver_port="any").getConf())


# ---------------------------------------------------------------- what Spark is asked


def stages_over(*tasks):
    """The stages of a context whose store holds these tasks of the latest attempt."""

    def task_list(stage, attempt, start, limit, sorting, statuses):
        wanted = [task for task in tasks if not statuses or task.status() in statuses][start : start + limit]
        return SimpleNamespace(size=lambda: len(wanted), apply=wanted.__getitem__)

    context = Context()
    context._jvm = MagicMock()
    context._jvm.java.util.ArrayList = type("ArrayList", (list,), {"add": list.append})
    for status in ("FAILED", "SUCCESS"):
        setattr(context._jvm.org.apache.spark.status.api.v1.TaskStatus, status, status)
    store = SimpleNamespace(taskList=task_list)
    context._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store))
    context.statusTracker = lambda: SimpleNamespace(
        getStageInfo=lambda stage: SimpleNamespace(
            numActiveTasks=1, numCompletedTasks=1, currentAttemptId=0, numFailedTasks=1
        )
    )
    return context, SparkStages(context)


def task(number, status, error=None):
    message = SimpleNamespace(get=lambda: error, isDefined=lambda: error is not None)
    return SimpleNamespace(taskId=lambda: number, status=lambda: status, errorMessage=lambda: message)


def test_spark_says_how_far_a_stage_is_of_which_attempt_a_task_is_and_how_each_has_ended():
    lost = "ExecutorLostFailure (executor 1 exited)"
    tasks = [task(7, "SUCCESS"), task(8, "KILLED", "another one failed"), task(9, "FAILED", lost), task(10, "RUNNING")]
    context, stages = stages_over(*tasks)
    attempt = AttemptTasks(0, 7, 4)
    assert stages.progress(3) == StageProgress(1, 1, 0, 1)
    assert stages.attempt_of(3, 9, 4) == attempt
    assert stages.failures(3, 0) == [TaskEnd(9, True, lost)]
    ends = [stages.end_of(3, attempt, number) for number in range(7, 11)]
    assert ends == [TaskEnd(7), None, TaskEnd(9, True, lost), None]
    context._jsc = None  # it was stopped
    assert stages.failures(3, 0) == []
    assert stages.end_of(3, attempt, 7) is None


def test_spark_says_which_errors_code_in_python_has_raised():
    raised = "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File f\nKeyError: 7"
    lost = "FetchFailed(null, shuffleId=0, message=\norg.apache.spark.shuffle.MetadataFetchFailedException: gone"
    _, stages = stages_over(task(7, "FAILED", raised), task(8, "FAILED", lost))
    assert [(end.reason[:11], end.is_raised) for end in stages.failures(3, 0)] == [
        ("KeyError: 7", True),
        ("FetchFailed", False),
    ]


def test_stages_of_a_context_that_is_forgotten_are_not_known(monkeypatch):
    monkeypatch.setattr("flinkbuf.spark.stage.stage_progress.ATTEMPT_LOOK_S", 0)
    context, stages = stages_over()
    del context
    assert stages.progress(3) is None
    assert stages.attempt_of(3, 7, 4) is None
    assert stages.failures(3, 0) == []
