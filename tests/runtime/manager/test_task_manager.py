"""Task managers on threads of this process, and a job master that does what the test says."""

import gc
import json
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from support.waiting import wait_until
from support.worlds.task_managers import SESSION, Master, graph_of

import flinkbuf as fb
from flinkbuf.config import NetworkConfig
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.runtime.graph.user_code import PickledChain
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.runtime.manager.manager_link import link_pair
from flinkbuf.runtime.manager.running_task import RunningTask
from flinkbuf.runtime.manager.shuffle import LocalShuffle, NetworkShuffle, segments_needed, slot_segments_needed
from flinkbuf.runtime.manager.task_executor import TaskExecutorConfig
from flinkbuf.runtime.manager.task_manager import TaskManager
from flinkbuf.runtime.protocol.messages import (
    NO_SESSION,
    CancelTask,
    ManagerLeaving,
    OperatorEventMessage,
    RegisterManager,
    RegistrationAccepted,
    RegistrationRefused,
    ReleaseManager,
    TaskStateReport,
)
from flinkbuf.runtime.protocol.operator_events import ReaderEnded, ReaderRegistered, decode_event, encode_event
from flinkbuf.streaming.chain.accumulators import IntCounter, merge_accumulators, results_of
from flinkbuf.streaming.chain.by_reference import ByReference
from flinkbuf.streaming.chain.functions import MapFunction
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.sources.source_events import NoMoreSplits
from flinkbuf.streaming.sources.source_factories import IterableSourceFactory, SourceOperatorFactory


def network_shuffle(master, **config):
    config = NetworkConfig(network_memory_min=4 * 2**20, **config)
    environment = fb.NetworkEnvironment(config, num_segments=slot_segments_needed(master.plan, config))
    return NetworkShuffle(environment)


@pytest.fixture(autouse=True)
def nothing_left():
    """No thread, socket or segment outlives a test."""
    gc.collect()
    before = set(threading.enumerate()), len(os.listdir("/proc/self/fd")), os.listdir("/proc/self/task")
    yield
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        gc.collect()
        threads = [thread for thread in threading.enumerate() if thread not in before[0]]
        if not threads and len(os.listdir("/proc/self/fd")) <= before[1]:
            return
        time.sleep(0.02)
    assert threads == []
    assert len(os.listdir("/proc/self/fd")) <= before[1]


# ---- work ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_a_job_runs_to_its_end_on_one_manager(parallelism):
    out = []
    with Master(graph_of(range(1000), lambda value: value * 2, out.append, parallelism)) as master:
        master.add(slot_count=parallelism)
        master.deploy_all()
        assert set(master.wait_for_end()) == {"FINISHED"}
        assert master.states(master.attempt(0, 0)) == ["DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED"]
        master.wait(lambda: master.managers["m0"]._executor.attempts == ())
    assert sorted(out) == [2 * value + 1 for value in range(1000)]
    assert master.reasons["m0"] == "the job is over"
    assert master.messages("m0", ManagerLeaving)[0] == ManagerLeaving("the job is over")


def test_a_job_runs_over_the_network():
    out = []
    with Master(graph_of(range(3000), lambda value: value * 2, out.append, 3)) as master:
        for index in range(3):
            master.add(f"m{index}", network_shuffle(master))
        master.deploy_all()
        assert set(master.wait_for_end()) == {"FINISHED"}
    assert sorted(out) == [2 * value + 1 for value in range(3000)]


def test_a_job_begins_anew_on_the_same_managers_while_another_runs():
    """Attempts of one job come and go; all that the first ones had is free for the next."""
    out = []

    def refuse_once(value):
        if value == 500 and not out_of_order:
            out_of_order.append(value)
            raise ValueError("once")
        return value

    out_of_order = []
    factory = of_the_program(refuse_once)
    with Master(graph_of(range(2000), factory, out.append, 2)) as master:
        for index in range(2):
            master.add(f"m{index}", network_shuffle(master))
        master.deploy_all()
        master.wait(lambda: any(report.state == "FAILED" for report in map(master.final, master.attempts()) if report))
        for attempt in master.attempts():
            master.cancel(attempt)
        states = master.wait_for_end()
        assert "FAILED" in states
        out.clear()
        master.deploy_all(number=1)
        assert set(master.wait_for_end(1)) == {"FINISHED"}
        for manager in master.managers.values():
            pool = manager._shuffle.environment.pool
            wait_until(lambda pool=pool: pool.available_segment_count == pool.total_segment_count)
    assert sorted(out) == [value + 1 for value in range(2000)]


class of_the_program:
    """A function of the program itself, not a copy."""

    def __init__(self, function):
        self.holder = ByReference(function, "the function")

    def __call__(self, value):
        return self.holder.value(value)


def test_a_source_speaks_with_its_coordinator_through_messages():
    out = []
    factory = SourceOperatorFactory(NumberSequenceSource(1, 10))
    with Master(graph_of(factory, lambda value: value, out.append)) as master:
        master.add()
        master.deploy_all()
        master.wait(lambda: len(master.events()) >= 1)
        event = master.events()[0]
        assert isinstance(decode_event(event.payload), ReaderRegistered)
        assert event.attempt == master.attempt(0, 0)
        message = OperatorEventMessage(SESSION, event.attempt, event.operator_id, encode_event(NoMoreSplits()))
        master.tell("m0", message)
        assert set(master.wait_for_end()) == {"FINISHED"}
        assert isinstance(decode_event(master.events()[-1].payload), ReaderEnded)
        master.tell("m0", message)  # too late: nobody is there
        master.heartbeat()
    assert out == []


@pytest.mark.parametrize("session_id", [SESSION, NO_SESSION])
@pytest.mark.parametrize("state", ["FINISHED", "NONSENSE"])
def test_a_tasks_report_that_comes_over_the_connection_is_none_of_a_task_here(session_id, state):
    out = []
    factory = SourceOperatorFactory(NumberSequenceSource(1, 10))
    with Master(graph_of(factory, lambda value: value, out.append)) as master:
        master.add()
        master.deploy_all()
        master.wait(lambda: len(master.events()) >= 1)
        event = master.events()[0]
        master.tell("m0", TaskStateReport(session_id, event.attempt, state))
        message = OperatorEventMessage(SESSION, event.attempt, event.operator_id, encode_event(NoMoreSplits()))
        master.tell("m0", message)  # the task goes on
        assert set(master.wait_for_end()) == {"FINISHED"}
        assert isinstance(decode_event(master.events()[-1].payload), ReaderEnded)


def test_accumulators_travel_with_heartbeats_and_the_last_report():
    class Count(MapFunction):
        def open(self, runtime_context):
            self.records = IntCounter()
            runtime_context.add_accumulator("records", self.records)

        def map(self, value):
            self.records.add(1)
            return value

    out, gate = [], threading.Event()

    def numbers():
        yield from range(100)
        gate.wait(20)
        yield from range(50)

    with Master(graph_of(IterableSourceFactory(numbers()), Count(), out.append, 2)) as master:
        master.add()
        master.deploy_all()
        wait_until(lambda: len(out) == 100)
        heard = master.heartbeat().accumulators
        assert results_of(merge_accumulators(heard.values())) == {"records": 100}
        gate.set()
        master.wait_for_end()
        finals = [master.final(attempt).accumulators for attempt in master.attempts()]
        assert results_of(merge_accumulators(finals)) == {"records": 150}


def test_log_records_of_a_task_say_which_task_it_is(caplog):
    out = []

    def log(value):
        logging.getLogger("users.own").warning("seen %s", value)
        return value

    factory = logging.getLogRecordFactory()
    with Master(graph_of([1], log, out.append)) as master, caplog.at_level(logging.WARNING):
        master.add()
        master.deploy_all()
        master.wait_for_end()
    (record,) = [record for record in caplog.records if record.name == "users.own"]
    assert (record.flinkbuf_job, record.flinkbuf_subtask, record.flinkbuf_attempt) == ("numbers", 0, 0)
    assert "first" in record.flinkbuf_task
    assert logging.getLogRecordFactory() is factory


# ---- failures ------------------------------------------------------------------------------------------


def test_the_users_exception_is_told_with_its_place():
    def refuse(value):
        raise KeyError("thirty")

    with Master(graph_of([1], refuse, [].append)) as master:
        master.add()
        master.deploy_all()
        states = master.wait_for_end()
        (report,) = [report for report in map(master.final, master.attempts()) if not report.failure.is_echo]
        assert set(states) == {"FAILED"}
        assert report.failure.type_name == "builtins.KeyError"
        assert isinstance(report.failure.exception, KeyError)
        assert report.failure.location["operator_name"] == "first"
        assert report.failure.location["record"] == "1"
        assert "refuse" in report.failure.traceback


def test_operators_that_cannot_be_unpickled_fail_their_task():
    with Master(graph_of([1], lambda value: value, [].append)) as master:
        bundle = JobBundle.of(master.graph, master.plan.job_id, master.settings)
        bundle.chains[master.plan.vertices[0].id] = PickledChain("numbers", b"\x80\x04.")
        master.add(bundle=bundle)
        master.deploy(0, 0)
        master.wait(lambda: master.final(master.attempt(0, 0)))
        report = master.final(master.attempt(0, 0))
        assert report.state == "FAILED"
        assert report.failure.location["subtask_index"] == "0"


def test_a_vertex_that_did_not_come_with_the_bundle_says_so():
    with Master(graph_of([1], lambda value: value, [].append)) as master:
        master.add(bundle=JobBundle.of(master.graph, master.plan.job_id, master.settings, vertex_ids=()))
        master.deploy(0, 0)
        master.wait(lambda: master.final(master.attempt(0, 0)))
        assert "did not come with job" in master.final(master.attempt(0, 0)).failure.message


def test_a_thread_that_cannot_be_started_fails_its_task_only(monkeypatch):
    start = threading.Thread.start

    def refuse(thread):
        if thread.name.startswith(second):
            raise RuntimeError("can't start new thread")
        start(thread)

    gate = threading.Event()

    def numbers():
        yield 1
        gate.wait(20)

    with Master(graph_of(IterableSourceFactory(numbers()), lambda value: value, [].append)) as master:
        second = master.plan.vertices[-1].name
        monkeypatch.setattr(threading.Thread, "start", refuse)
        master.add()
        master.deploy_all()
        last = len(master.plan.vertices) - 1
        master.wait(lambda: master.final(master.attempt(last, 0)))
        assert "can't start new thread" in master.final(master.attempt(last, 0)).failure.message
        assert master.final(master.attempt(0, 0)) is None
        gate.set()


def test_buffers_that_are_not_there_fail_the_task(monkeypatch):
    with Master(graph_of(range(10), lambda value: value, [].append, 4)) as master:
        master.add(shuffle=LocalShuffle(2))
        master.deploy(0, 0)
        master.wait(lambda: master.final(master.attempt(0, 0)))
        assert master.final(master.attempt(0, 0)).failure.type_name.endswith("InsufficientBuffersError")


def test_what_reads_a_partition_that_is_gone_fails_as_an_echo():
    with Master(graph_of([1], lambda value: value, [].append)) as master:
        master.add()
        last = len(master.plan.vertices) - 1
        for producer in range(last):
            master.where[master.attempt(producer, 0)] = "m0"
        master.deploy(last, 0)
        master.wait(lambda: master.final(master.attempt(last, 0)))
        assert master.final(master.attempt(last, 0)).failure.is_echo


# ---- cancelling ----------------------------------------------------------------------------------------


class Slow:
    """Holds a task in one phase of its life until it is told to go on."""

    def __init__(self, phase):
        self.phase = phase
        self.there = ByReference(threading.Event(), "a test's event")
        self.go_on = ByReference(threading.Event(), "a test's event")

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self.phase == "unpickling":
            self.hold()

    def hold(self):
        self.there.value.set()
        self.go_on.value.wait(20)


def slow_function(slow):
    class Function(MapFunction):
        def open(self, runtime_context):
            self.slow = slow
            if slow.phase == "open":
                slow.hold()

        def map(self, value):
            if slow.phase == "map":
                slow.hold()
            return value

        def close(self):
            if slow.phase == "close":
                slow.hold()

    return Function()


def check_that_nobody_failed(master):
    """But for those whose neighbour was faster to go, and they say so."""
    for report in map(master.final, master.attempts()):
        assert report.state != "FAILED" or report.failure.is_echo, report


@pytest.mark.parametrize("phase", ["unpickling", "open", "map", "close"])
def test_a_task_is_cancelled_in_every_phase(phase):
    slow = Slow(phase)
    elements = range(10) if phase == "close" else range(1000)
    with Master(graph_of(elements, slow_function(slow), [].append)) as master:
        attempts = master.attempts()
        try:
            master.add()
            master.deploy_all()
            assert slow.there.value.wait(20)
            for attempt in master.attempts():
                master.cancel(attempt)
            master.wait(lambda: all("CANCELING" in master.states(each) or master.final(each) for each in attempts))
        finally:
            slow.go_on.value.set()
        assert "CANCELED" in master.wait_for_end()
        check_that_nobody_failed(master)


def test_a_task_is_cancelled_before_its_thread_runs():
    with Master(graph_of(range(10), lambda value: value, [].append, 3)) as master:
        master.add()
        for attempt in master.attempts():
            vertex = [each.id for each in master.plan.vertices].index(attempt.vertex_id)
            master.deploy(vertex, attempt.subtask_index)
            master.cancel(attempt)
        master.wait_for_end()
        check_that_nobody_failed(master)


def test_a_task_under_back_pressure_is_cancelled():
    gate = threading.Event()

    def hold(value):
        gate.wait(20)
        return value

    settings = ExecutionSettings(task_cancellation_interval_ms=100)
    with Master(graph_of(range(10**9), of_the_program(hold), [].append, 2), settings) as master:
        for index in range(2):
            master.add(f"m{index}", network_shuffle(master))
        master.deploy_all()
        time.sleep(0.3)
        for attempt in master.attempts():
            master.cancel(attempt)
        gate.set()
        assert "CANCELED" in master.wait_for_end()
        check_that_nobody_failed(master)


def test_cancelling_what_is_unknown_is_answered():
    with Master(graph_of([1], lambda value: value, [].append)) as master:
        master.add()
        unknown = master.attempt(0, 0, 7)
        master.tell("m0", CancelTask(SESSION, unknown))
        master.wait(lambda: master.final(unknown))
        assert master.final(unknown).state == "CANCELED"


def test_a_function_that_does_not_return_is_interrupted():
    settings = ExecutionSettings(task_cancellation_interval_ms=50)

    def spin(value):
        while True:
            pass

    with Master(graph_of([1], spin, [].append), settings) as master:
        master.add()
        master.deploy_all()
        master.wait(lambda: all("RUNNING" in master.states(attempt) for attempt in master.attempts()))
        for attempt in master.attempts():
            master.cancel(attempt)
        master.wait_for_end()
        check_that_nobody_failed(master)


class SpinsWhenUnpickled:
    def __init__(self):
        self.there = ByReference(threading.Event(), "a test's event")

    def __setstate__(self, state):
        state["there"].value.set()
        while True:
            pass

    def __call__(self, value):
        return value


def test_functions_that_are_never_unpickled_are_interrupted():
    settings = ExecutionSettings(task_cancellation_interval_ms=50)
    spins = SpinsWhenUnpickled()
    with Master(graph_of([1], spins, [].append), settings) as master:
        master.add()
        master.deploy_all()
        assert spins.there.value.wait(20)
        for attempt in master.attempts():
            master.cancel(attempt)
        assert "CANCELED" in master.wait_for_end()
        check_that_nobody_failed(master)


def test_a_manager_that_fails_itself_ends_its_tasks(monkeypatch):
    with Master(graph_of(range(10**9), lambda value: value, [].append, 2)) as master:
        manager = master.add()
        master.deploy_all()
        master.wait(lambda: all("RUNNING" in master.states(attempt) for attempt in master.attempts()))

        def fail(message, now_ms):
            raise ZeroDivisionError("a fault of the manager")

        seen = []
        monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(args.exc_value))
        monkeypatch.setattr(manager._executor, "handle", fail)
        manager._tell(object())
        master.threads["m0"].join(20)
        assert not master.threads["m0"].is_alive()
        assert isinstance(seen[0], ZeroDivisionError)


KILLED = """
    import sys, threading, time
    sys.path.insert(0, {tests!r})
    from support.worlds.task_managers import Master, graph_of
    from flinkbuf.runtime.manager import task_manager
    from flinkbuf.streaming.chain.operator_config import ExecutionSettings
    from flinkbuf.runtime.manager.task_executor import TaskExecutorConfig

    def stay(value):
        while True:
            try:
                time.sleep(1000)
            except BaseException:
                pass

    def in_function(value):
        stay(value)

    master = Master(graph_of([1], in_function, [].append))
    config = TaskExecutorConfig(cancellation_interval_ms=50, cancellation_timeout_ms=300, can_kill_process=True)
    master.add(config=config)
    master.deploy_all()
    master.wait(lambda: all("RUNNING" in master.states(attempt) for attempt in master.attempts()))
    time.sleep(0.2)
    for attempt in master.attempts():
        master.cancel(attempt)
    time.sleep(30)
    print("still there")
"""


def test_a_process_whose_task_ignores_its_cancel_ends_itself():
    tests = str(Path(__file__).parents[2])
    started = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED.format(tests=tests))],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 239, ended.stderr
    assert "still there" not in ended.stdout
    assert "task.cancellation.timeout" in ended.stderr
    assert time.monotonic() - started < 20


# ---- the job master goes -------------------------------------------------------------------------------


def test_a_lost_link_ends_all_tasks():
    with Master(graph_of(range(10**9), lambda value: value, [].append, 2)) as master:
        master.add()
        master.deploy_all()
        master.wait(lambda: all("RUNNING" in master.states(attempt) for attempt in master.attempts()))
        master.connections["m0"].close()
        master.threads["m0"].join(20)
        assert "ended its link" in master.reasons["m0"]


def test_what_the_job_master_said_before_it_went_is_heard_though_nothing_can_be_sent_any_more():
    """Why it ends a manager, or that the job has finished, would be lost with the first message that cannot leave."""
    link, connection = link_pair([].append, [].append)
    connection.send(RegistrationAccepted(SESSION, 10_000, 50_000))
    connection.send(ReleaseManager(SESSION, "the job has finished", is_finished=True))
    connection.close()
    bundle = JobBundle.of(graph_of([1], lambda value: value, [].append), "7" * 32, ExecutionSettings())
    options = {"manager_id": "m0", "run": 1, "index": 0, "slot_count": 1, "make_task": RunningTask}
    assert TaskManager(bundle, link, shuffle=LocalShuffle(1), **options).run() == "the job has finished"


def test_a_silent_job_master_is_left():
    with Master(graph_of(range(10**9), lambda value: value, [].append), heartbeat_timeout_ms=300) as master:
        master.add()
        master.deploy_all()
        master.threads["m0"].join(20)
        assert master.reasons["m0"] == "the job master has been silent for 0 s"


def test_leaving_from_outside_ends_all_tasks():
    with Master(graph_of(range(10**9), lambda value: value, [].append)) as master:
        manager = master.add()
        master.deploy_all()
        manager.leave("the stage was cancelled")
        master.threads["m0"].join(20)
        assert master.reasons["m0"] == "the stage was cancelled"


def test_a_refused_manager_ends():
    with Master(graph_of([1], lambda value: value, [].append)) as master:
        master.tell, tell = (lambda manager_id, message: None), master.tell
        master.add()
        master.tell = tell
        master.tell("m0", RegistrationRefused("nobody needs it"))
        master.threads["m0"].join(20)
        assert "nobody needs it" in master.reasons["m0"]


def test_nobody_answers():
    with Master(graph_of([1], lambda value: value, [].append)) as master:
        master.tell, tell = (lambda manager_id, message: None), master.tell
        master.add(config=TaskExecutorConfig(registration_timeout_ms=100))
        master.threads["m0"].join(20)
        master.tell = tell
        assert "no job master has accepted" in master.reasons["m0"]


HOLD_GIL = """
    import ctypes, sys, threading, time
    sys.path.insert(0, {tests!r})
    from support.worlds import task_managers
    from support.worlds.task_managers import SESSION, HeartbeatRequest, Master, graph_of

    def hold(value):
        sleep = ctypes.PyDLL(None).sleep  # PyDLL keeps the GIL
        sys.setswitchinterval(1000)  # no other thread of this process asks for it from now on,
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            pass  # and those that asked have had it
        task_managers.ask()
        sleep(2)
        sys.setswitchinterval(0.005)
        return value

    def ask():
        manager._link.wake()  # the manager looks at the time once before it looks for messages
        master.tell("m0", HeartbeatRequest(SESSION, 0))

    out = []
    with Master(graph_of([1], hold, out.append), heartbeat_timeout_ms=1500) as master:
        task_managers.ask = ask  # hold is copied, with what it refers to
        manager = master.add()
        master.deploy_all()
        deadline = time.monotonic() + 20
        sequence = 0
        while not all(master.final(attempt) for attempt in master.attempts()):
            assert time.monotonic() < deadline
            sequence += 1
            master.heartbeat(sequence=sequence)
            time.sleep(0.05)
        assert set(master.wait_for_end()) == {{"FINISHED"}}, master.said
    assert out == [2], out
"""


def test_a_function_that_holds_the_interpreter_longer_than_the_timeout_is_not_the_end():
    """The heartbeat that came meanwhile lies in the inbox, and is read before the time is."""
    tests = str(Path(__file__).parents[2])
    code = textwrap.dedent(HOLD_GIL.format(tests=tests))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


# ---- sizes ---------------------------------------------------------------------------------------------


def test_segments_of_a_job_are_those_that_its_partitions_want():
    plan = Master(graph_of([1], lambda value: value, [].append, 4)).plan
    wanted = sum(
        plan.subpartition_count(edge, producer) * 2 + 8
        for edge in plan.edges
        for producer in range(plan.vertices[edge.source].parallelism)
    )
    assert segments_needed(plan) == wanted * 51 // 50 + 1


def test_a_slot_of_a_wide_job_has_buffers_for_all_its_tasks():
    plan = Master(graph_of([1], lambda value: value, [].append, 300)).plan
    config = NetworkConfig()
    environment = fb.NetworkEnvironment(config, num_segments=slot_segments_needed(plan, config))
    with environment:
        for number in range(len(plan.edges)):
            environment.create_partition(fb.network.ResultPartitionID.random(), 300, owner=number)
            channels = [
                fb.network.RemoteChannel("127.0.0.1", 9, fb.network.ResultPartitionID.random(), 0) for _ in range(300)
            ]
            gate = environment.create_gate(channels, owner=number)
            assert gate.channel_count == 300
            environment.release_gates(number)
        for number in range(len(plan.edges)):
            environment.release_owner(number)


# ---- figures -------------------------------------------------------------------------------------------


def test_figures_of_a_running_job_travel_with_heartbeats_and_stay_with_the_last_report():
    out, gate = [], threading.Event()

    def numbers():
        yield from range(1000)
        gate.wait(20)

    class Count(MapFunction):
        def open(self, runtime_context):
            self.seen = runtime_context.get_metrics_group().counter("seen")
            runtime_context.get_metrics_group().gauge("broken", lambda: 1 // 0)

        def map(self, value):
            self.seen.inc()
            return value

    with Master(graph_of(IterableSourceFactory(numbers()), Count(), out.append, 2)) as master:
        for index in range(2):
            master.add(f"m{index}", network_shuffle(master))
        master.deploy_all()
        wait_until(lambda: len(out) == 1000)
        now = {}
        for index in range(2):
            now |= master.heartbeat(f"m{index}").metrics
        json.dumps(now)
        check_figures(master, now)
        source = now[str(master.attempt(0, 0))]
        assert source["idle_ms"] + source["busy_ms"] + source["back_pressured_ms"] > 0
        assert 0 <= source["out_pool_usage"] <= 1
        gate.set()
        master.wait_for_end()
        finals = {str(attempt): master.final(attempt).metrics for attempt in master.attempts()}
        check_figures(master, finals)
        assert all(each["watermark"] == 2**63 - 1 for each in finals.values())


def check_figures(master, metrics):
    by_vertex = [
        [metrics[str(master.attempt(index, subtask))] for subtask in range(vertex.parallelism)]
        for index, vertex in enumerate(master.plan.vertices)
    ]
    assert [sum(each["records_out"] for each in tasks) for tasks in by_vertex[:-1]] == [1000] * (len(by_vertex) - 1)
    assert [sum(each["records_in"] for each in tasks) for tasks in by_vertex[1:]] == [1000] * (len(by_vertex) - 1)
    written = [sum(each["bytes_out"] for each in tasks) for tasks in by_vertex[:-1]]
    read = [sum(each["bytes_in"] for each in tasks) for tasks in by_vertex[1:]]
    # Ends of partitions are read, but nobody has written them.
    assert all(0 < here <= there + 100 for here, there in zip(read, written, strict=True))
    counted = [operator for tasks in by_vertex for each in tasks for operator in each["operators"]]
    assert sum(each["metrics"].get("seen", 0) for each in counted) == 1000
    assert all(each["metrics"]["broken"] is None for each in counted if "seen" in each["metrics"])


def test_a_hundred_attempts_of_a_job_hold_no_more_than_the_first():
    out = []
    with Master(graph_of(range(100), lambda value: value, out.append, 2)) as master:
        for index in range(2):
            master.add(f"m{index}", network_shuffle(master))

        def run(number):
            master.said = [each for each in master.said if isinstance(each[1], RegisterManager)]
            master.where.clear()
            master.deploy_all(number)
            assert set(master.wait_for_end(number)) == {"FINISHED"}

        def held():
            gc.collect()
            return threading.active_count(), len(os.listdir("/proc/self/fd")), len(gc.get_objects())

        for number in range(3):
            run(number)
        first = held()
        for number in range(3, 100):
            run(number)
        wait_until(lambda: held()[0] <= first[0])
        last = held()
        assert last[1] <= first[1]
        assert last[2] < first[2] + 500
        for manager in master.managers.values():
            environment = manager._shuffle.environment
            wait_until(lambda each=environment: each.pool.available_segment_count == each.pool.total_segment_count)
            environment.create_partition(
                fb.network.ResultPartitionID.random(), 1, owner="last"
            )  # forgets what was read
            assert len(environment._partitions) == 1
