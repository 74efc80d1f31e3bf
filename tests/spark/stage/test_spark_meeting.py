"""The meeting: tasks that come to the driver over the control plane, and what it keeps, opens and closes for them.

Who may come in at all is told by tests/control; what is decided about them, by test_spark_stage_runs.py; here the jobs
are those of pipelined exchanges, whose tasks are played by the test.
"""

import contextlib
import logging
import threading
import time
import uuid
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from support.waiting import wait_until

import flinkbuf as fb
from flinkbuf.control import control_server
from flinkbuf.control.control_client import ControlClient
from flinkbuf.network.ports import listen
from flinkbuf.records.partitioner import as_partitioner
from flinkbuf.runtime.protocol.control_link import ControlLink
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import (
    AcknowledgeReport,
    CancelTask,
    DeployTasks,
    RegisterManager,
    RegistrationRefused,
    ReleaseManager,
    TaskStateReport,
)
from flinkbuf.spark.exchange import exchange_job
from flinkbuf.spark.exchange.blocking import WriteTask
from flinkbuf.spark.exchange.exchange_job import Exchanges
from flinkbuf.spark.exchange.summary import ExchangeSummary, TaskFigures
from flinkbuf.spark.stage import meeting, stage_runs
from flinkbuf.spark.stage.barrier_task import CODEC, StageTask
from flinkbuf.spark.stage.driver_address import listen_for_tasks
from flinkbuf.spark.stage.meeting import Meeting
from flinkbuf.spark.stage.stage_progress import AttemptTasks, SparkStages, StageProgress, TaskEnd

ID = "00000000000000ab"
HERE = {"spark.driver.host": "127.0.0.1"}
came = []


@pytest.fixture(autouse=True)
def no_server_of_others(monkeypatch):
    """Jobs and exchanges of a SparkContext that other tests have used share a control server: here nobody does."""
    monkeypatch.setattr(control_server, "_shared", {})


@pytest.fixture(autouse=True)
def _tasks_leave():
    yield
    while came:
        came.pop().link.close()


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
    return Meeting(lambda tls: listen_for_tasks(conf, tls), stages or FakeStages(), **options)


def write(count=3, number=0xAB):
    return WriteTask(number, fb.Types.LONG(), as_partitioner("rebalance"), count, count)


@pytest.fixture
def exchanges():
    """Exchanges of a meeting of their own."""
    with contextlib.closing(open_meeting()) as opened:
        yield Exchanges(opened)


class Task:
    """A task manager with one task, as the test has it: says what it is told to, and keeps what it hears."""

    def __init__(self, exchanges, index, stage=7, **which):
        self.index, self.deployment = index, None
        client = exchanges.address_of(write(**which)).connect()
        self.local_host = client.local_host
        self.link = ControlLink(client, CODEC)
        came.append(self)
        self.link.send(StageTask(stage, index))
        me = f"{uuid.uuid4().hex}"
        self.link.send(RegisterManager(me, 0, index, "127.0.0.1", 5000 + index, 1, 100 + index))

    def hear(self, *kinds, seconds=5):
        """The next message of these kinds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            message = self.link.receive(deadline - time.monotonic())
            if isinstance(message, kinds):
                return message
        raise TimeoutError(f"task {self.index} has heard nothing of {kinds}")

    def deployed(self):
        self.deployment = self.hear(DeployTasks)
        return self.deployment.descriptors[0]

    def report(self, state, failure=None, **metrics):
        attempt, session = self.deployment.tasks[0].attempt, self.deployment.session_id
        self.link.send(TaskStateReport(session, attempt, state, failure, metrics=metrics))

    def reason(self):
        """Why it is to end."""
        return self.hear(RegistrationRefused, ReleaseManager).reason


def tasks_of(exchanges, indexes=(0, 1, 2), **options):
    return [Task(exchanges, index, **options) for index in indexes]


@pytest.fixture
def running(exchanges):
    tasks = tasks_of(exchanges)
    for task in tasks:
        task.deployed()
        task.report("RUNNING")
    return tasks


# ---------------------------------------------------------------- while it runs


def test_all_tasks_learn_where_all_listen_when_the_last_is_there(exchanges):
    first, second = tasks_of(exchanges, (2, 0))
    with pytest.raises(TimeoutError):
        first.hear(DeployTasks, seconds=0.1)
    third = Task(exchanges, 1)
    for task in (second, third, first):
        (gate,) = task.deployed().gates
        assert [(each.host, each.port) for each in gate.locations] == [("127.0.0.1", 5000 + each) for each in range(3)]
        assert gate.subpartition_index == task.index
        (partition,) = task.deployment.tasks[0].partitions
        assert (partition.partition_id, partition.subpartition_count) == (gate.locations[task.index].partition_id, 3)


def test_where_each_sends_to_itself_alone_it_reads_from_itself_alone(exchanges):
    address = exchanges.address_of(WriteTask(1, fb.Types.LONG(), as_partitioner("forward"), 2, 2))
    graph = exchange_job.graph_of("ab", 2, is_pointwise=True)
    assert address.group_id.endswith("/2/pointwise")
    (edge,) = graph.edges
    assert [edge.channels_of(index) for index in range(2)] == [[(0, 0)], [(1, 0)]]


def test_the_address_to_listen_at_is_the_one_the_driver_was_reached_with(exchanges):
    assert Task(exchanges, 0).local_host == "127.0.0.1"


def test_the_size_of_an_exchange_is_part_of_what_is_proved(exchanges):
    address, other = exchanges.address_of(write(3)), exchanges.address_of(write(4))
    assert address.address == other.address
    with pytest.raises(fb.errors.RemoteTransportError):
        ControlClient.connect(address.address, address.group_id, other.secret)


def test_who_comes_for_nothing_that_is_known_is_not_let_in(exchanges):
    address = exchanges.meeting.address_of("another", "ab/3/all")
    with pytest.raises(fb.errors.RemoteTransportError):
        address.connect()


def test_a_failure_is_told_to_all_others_with_its_reason(running, caplog):
    running[1].report("FAILED", Failure.of(ValueError("record 17: field 'delay' is None")))
    reason = "task 1 (process 101 at 127.0.0.1:5001) failed with ValueError: record 17: field 'delay' is None"
    for index in (0, 2):
        assert running[index].reason() == reason
    assert f"exchange {ID}, stage 7: task 1" in caplog.text


def test_a_task_that_goes_without_a_word_is_told_to_all_others(running):
    running[2].link.close()
    for index in (0, 1):
        assert "task 2 (process 102 at 127.0.0.1:5002) went away without a word" in running[index].reason()


def test_the_end_of_the_driver_ends_the_tasks(running, exchanges):
    exchanges.meeting.close()
    for task in running:
        with pytest.raises(ConnectionError):
            while True:
                task.hear(ReleaseManager, CancelTask)


def test_a_text_of_any_length_and_kind_arrives(running):
    running[0].report("FAILED", Failure.of(ValueError("😀\0\ud800" * 10_000)))
    assert "😀\0\ud800" * 100 in running[1].reason()


@pytest.mark.parametrize("nonsense", [b"", b"\x80\x04K\x01", b"\x01[]", b'\x05{"figures":1}'])
def test_who_talks_nonsense_is_sent_away_and_the_others_are_told(running, nonsense):
    running[0].link._client.send(nonsense)
    assert "task 0" in running[1].reason()


def test_who_says_something_else_first_is_sent_away(exchanges):
    link = ControlLink(exchanges.address_of(write()).connect(), CODEC)
    link.send(RegisterManager("m", 0, 0, "127.0.0.1", 5000, 1, 100))
    with pytest.raises(ConnectionError):
        link.receive(5)
    link.close()


def test_who_waits_for_a_task_that_failed_before_it_came_is_told_at_the_next_look(monkeypatch):
    monkeypatch.setattr(stage_runs, "LOOK_MS", 50)
    stages = FakeStages(3, 0)
    with contextlib.closing(open_meeting(stages)) as opened:
        tasks = tasks_of(Exchanges(opened), (0, 1))
        stages.now = StageProgress(2, 0, failed=1)
        for task in tasks:
            assert "task 2 of Spark, which had not come yet, failed with OSError: no input" in task.reason()


def test_of_a_job_that_ends_as_one_the_failures_that_others_bring_about_are_left_to_it(exchanges):
    def one(group_id):
        return replace(exchanges._program(group_id), on_finished=None)

    exchanges.meeting.serve(exchange_job.WORD, one)
    tasks = tasks_of(exchanges)
    for task in tasks:
        task.deployed()
    tasks[0].report("FAILED", Failure("flinkbuf.errors.CancelTaskError", "its input is gone", is_echo=True))
    for task in tasks[1:]:
        task.hear(CancelTask)
    tasks[2].report("FAILED", Failure("builtins.KeyError", "7"))
    tasks[1].report("CANCELED")
    # Who is first, the driver that ends the tasks or the job that has come to its end; not that an input is gone.
    cause = "task 2 (process 102 at 127.0.0.1:5002) failed with KeyError: 7"
    assert tasks[1].reason() in ("the job is FAILED: 7", cause)


def test_who_comes_to_a_run_that_has_failed_is_told_the_same(exchanges):
    first, second = tasks_of(exchanges, (0, 1))
    first.link.close()
    assert "task 0 (process 100" in second.reason()
    assert "task 0 (process 100" in Task(exchanges, 2).reason()


# ---------------------------------------------------------------- the end, and what was counted


def test_the_counts_are_with_the_driver_before_the_last_task_ends(running, exchanges, caplog):
    with caplog.at_level(logging.INFO, "flinkbuf"):
        for task in running:
            assert exchanges.summaries == []
            task.report("FINISHED", records_in=10 * task.index, buffers_in=1, peak_buffers=3, total_ms=5)
            task.hear(AcknowledgeReport)
            task.link.close()  # it may go before the others have finished
        (summary,) = exchanges.summaries
    assert [one.records_in for one in summary.tasks] == [0, 10, 20]
    assert summary.total("buffers_in") == 3
    assert summary.tasks[1] == TaskFigures(1, records_in=10, buffers_in=1, peak_buffers=3, total_ms=5)
    assert f"exchange {ID}, stage 7: 3 tasks, 30 records in 3 buffers" in caplog.text


def test_only_the_latest_summaries_are_kept(monkeypatch):
    monkeypatch.setattr(exchange_job, "SUMMARIES_KEPT", 2)
    with contextlib.closing(open_meeting()) as opened:
        exchanges = Exchanges(opened)
        for stage in range(3):
            (task,) = tasks_of(exchanges, (0,), stage=stage, count=1)
            task.deployed()
            task.report("FINISHED")
            task.hear(ReleaseManager)
        assert [summary.stage for summary in exchanges.summaries] == [1, 2]


def test_the_table_has_a_line_for_each_task():
    summary = ExchangeSummary(ID, 1, 2.0, tuple(TaskFigures(index, records_in=index * 1000) for index in range(3)))
    lines = summary.table().splitlines()
    assert len(lines) == 4
    assert len(set(map(len, lines))) == 1
    assert "2,000" in lines[3]


def test_nothing_is_kept_of_exchanges_that_are_over(monkeypatch):
    monkeypatch.setattr(stage_runs, "RUNS_KEPT_MS", 0)
    threads = set(threading.enumerate())
    with contextlib.closing(open_meeting()) as opened:
        exchanges = Exchanges(opened)
        for number in range(20):
            task = Task(exchanges, 0, number, count=1, number=number)
            task.deployed()
            task.report("FINISHED")
            assert task.hear(ReleaseManager).is_finished
            task.link.close()
        (lease,) = opened._leases.values()
        wait_until(lambda: not (lease.server._groups or lease.server._connections or opened.runs._members))
        wait_until(lambda: not (opened.runs._runs or opened._groups or opened._counts or opened._jobs))
        assert not (opened._joined or opened._registering or opened._arriving)
        wait_until(lambda: threads_besides(threads) == {"flinkbuf-control", "flinkbuf-stages"})
        assert Task(exchanges, 0, 21, count=1, number=19).deployed()  # and it may be computed again


# ---------------------------------------------------------------- its life


def threads_besides(others):
    names = {thread.name for thread in threading.enumerate() if thread not in others}
    return {name for name in names if name.startswith(("flinkbuf", "job"))}


@pytest.mark.parametrize("way", ["close", "by itself"])
def test_its_threads_and_its_socket_end_with_it(way):
    others = threading.enumerate()
    is_over = threading.Event()
    opened = open_meeting(is_over=is_over.is_set)
    exchanges = Exchanges(opened)
    address = exchanges.address_of(write(1))
    address.connect().close()
    assert threads_besides(others) == {"flinkbuf-control", "flinkbuf-stages"}
    assert Task(exchanges, 0, count=1).deployed()  # a job runs, too
    if way == "close":
        opened.close()
        opened.close()
    else:
        is_over.set()
        wait_until(lambda: opened.is_closed)
    wait_until(lambda: threads_besides(others) == set())
    with pytest.raises(fb.errors.RemoteTransportError, match="cannot reach the driver"):
        address.connect()


def test_two_of_them_share_a_server_that_ends_with_the_second():
    with contextlib.closing(open_meeting()) as opened:
        first = Exchanges(opened)
        address = first.address_of(write(1))
        with contextlib.closing(open_meeting()) as other:
            second = Exchanges(other)
            assert second.address_of(write(1)).address == address.address
            assert second.address_of(write(1)).group_id != address.group_id
            task = Task(second, 0, count=1)
            task.deployed()
        with pytest.raises(ConnectionError):  # though the server goes on
            while True:
                task.hear(ReleaseManager, CancelTask)
        address.connect().close()
    assert not control_server._shared


class Context:
    """What meeting_of() needs of a SparkContext."""

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
    exchanges = exchange_job.exchanges_of(context)
    opened = exchanges.meeting
    assert exchanges.address_of(write()).address == ("not.me", port)
    assert meeting.meeting_of(context) is opened
    assert exchange_job.summaries_of(context) == exchange_job.summaries_of(Context()) == []
    context._jsc = None
    wait_until(lambda: opened.is_closed)
    context._jsc = object()
    last_calls = exchanges.last_calls
    again = exchange_job.exchanges_of(context)
    assert again.meeting is not opened
    assert again.last_calls is last_calls, "Spark keeps each of them for ever"
    opened = again.meeting
    del context, exchanges, again
    wait_until(lambda: opened.is_closed)


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
