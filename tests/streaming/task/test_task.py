"""The life of a task in every outcome. Flink: TaskTest, StreamTaskTest."""

import cProfile
import gc
import os
import threading
import time
import weakref

import pytest
from support.worlds.stream_tasks import (
    InputConfig,
    ListSink,
    ListSource,
    MapOperator,
    chain_of,
    edge,
    make_task,
    operator,
    run_all,
    source,
)

import flinkbuf as fb
from flinkbuf._core.operators.source_operator import SourceOperatorBase
from flinkbuf._core.operators.stream_operator import StreamOperator
from flinkbuf.streaming.chain.mailbox import MailboxClosedError
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.task.task_events import TaskStateChanged
from flinkbuf.streaming.task.task_state import TaskState
from flinkbuf.testing import ManualClock

LONG = fb.Types.LONG()
INPUT = (InputConfig(LONG, (0,)),)
HEALTHY = [TaskState.DEPLOYING, TaskState.INITIALIZING, TaskState.RUNNING, TaskState.FINISHED]


@pytest.fixture
def pool():
    return fb.NetworkBufferPool(64, segment_size=4096)


class Probe(StreamOperator):
    """Passes records on, writes down its calls, and does in each what a test says."""

    def __init__(self, calls, acts=None):
        self.calls, self.acts = calls, acts or {}

    def note(self, method, *arguments):
        self.calls.append(method)
        if method in self.acts:
            self.acts[method](self, *arguments)

    def setup(self, context, output):
        super().setup(context, output)
        self.note("setup")

    def initialize_state(self, snapshot):
        self.note("initialize_state")

    def open(self):
        self.note("open")

    def process_element(self, value, timestamp):
        self.note("process_element", value)
        self.output.collect(value, timestamp)

    def process_watermark(self, timestamp):
        self.note("process_watermark")
        self.output.emit_watermark(timestamp)

    def end_input(self, number):
        self.note("end_input")

    def finish(self):
        self.note("finish")

    def close(self):
        self.note("close")


def probe_task(calls, acts=None, items=(1, 2), events=None, **options):
    report = {} if events is None else {"report": events.append}
    probed = operator("probe", lambda: Probe(calls, acts))
    return make_task(chain_of(source(items), probed), **report, **options)


def states(events):
    return [event.state for event in events if isinstance(event, TaskStateChanged)]


def fail(probe, *arguments):
    raise LookupError("on purpose")


class Gate:
    """A place where a task's thread stops until a test lets it go on."""

    def __init__(self):
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, probe, *arguments):
        self.reached.set()
        assert self.opened.wait(20)


class Running:
    """A task on a thread of its own."""

    def __init__(self, task):
        self.task = task
        self.thread = threading.Thread(target=task.run)
        self.thread.start()

    def join(self):
        self.thread.join(20)
        assert not self.thread.is_alive(), f"still {self.task.state}"
        assert self.task.is_over
        return self.task


# ---- the clean end -----------------------------------------------------------------------------------------


def test_a_healthy_task_goes_through_its_states_and_calls():
    calls, events = [], []
    task = probe_task(calls, events=events)
    assert (task.state, task.is_over, task.wait(0)) == (TaskState.CREATED, False, False)
    task.run()
    assert states(events) == HEALTHY
    assert calls == [
        "setup", "initialize_state", "open", "process_element", "process_element", "process_watermark", "end_input",
        "finish", "close",
    ]  # fmt: skip
    assert task.is_over and task.wait() and task.error is None


def test_a_task_runs_once():
    task = probe_task([])
    task.run()
    task.run()  # over: nothing happens
    gate = Gate()
    running = Running(probe_task([], {"open": gate}))
    assert gate.reached.wait(10)
    with pytest.raises(RuntimeError, match="runs once, this one is INITIALIZING"):
        running.task.run()
    gate.opened.set()
    running.join()


def test_after_the_end_nothing_can_be_done_to_it():
    task = probe_task([])
    task.run()
    task.cancel()
    task.fail(LookupError())
    assert not task.interrupt()
    assert (task.state, task.error) == (TaskState.FINISHED, None)


def test_after_the_end_mails_are_refused():
    mailboxes = []
    probe_task([], {"open": lambda probe: mailboxes.append(probe.context.mailbox)}).run()
    with pytest.raises(MailboxClosedError):
        mailboxes[0].submit(lambda: None)


# ---- errors ------------------------------------------------------------------------------------------------

PHASES = ["setup", "initialize_state", "open", "process_element", "process_watermark", "end_input", "finish", "close"]


@pytest.mark.parametrize("phase", PHASES)
def test_an_error_in_any_phase_fails_the_task_and_closes_once(phase):
    calls, events = [], []
    task = probe_task(calls, {phase: fail}, events=events)
    task.run()
    assert task.state is TaskState.FAILED and isinstance(task.error, LookupError)
    assert states(events)[-1] is TaskState.FAILED and events[-1].error is task.error
    assert calls.count("close") == (phase != "setup")  # an operator that was not made is not closed
    assert ("finish" in calls) == (phase in ("finish", "close"))
    if phase not in ("process_element", "process_watermark"):  # no function of a user's: its caller says where
        assert task.error.operator_name == "probe"


def test_an_error_of_a_function_says_its_operator_and_record():
    def divide(value):
        return 1 // value

    taken = []
    task = make_task(
        chain_of(
            source([1, 0, 2]),
            operator("before", lambda: MapOperator(lambda value: value)),
            operator("divide", lambda: MapOperator(divide)),
            operator("sink", lambda: ListSink(taken)),
        ),
        name="Source -> divide",
    )
    task.run()
    assert isinstance(task.error, ZeroDivisionError)
    assert (task.error.operator_name, task.error.record, task.error.subtask_index) == ("divide", 0, 0)
    assert task.error.task_name == "Source -> divide (1/1)#0"
    assert task.error.__traceback__ is not None and taken == [1]


def test_a_value_that_its_type_refuses_says_the_operator_that_made_it(pool):
    partition = fb.ResultPartition(pool, 1)
    config = chain_of(
        source([1, "x"]),
        operator("map", lambda: MapOperator(lambda value: value), network_edges=(edge(),)),
        partition_count=1,
    )
    task = make_task(config, [], [partition])
    task.run()
    assert isinstance(task.error, TypeError)
    assert (task.error.operator_name, task.error.record) == ("map", "x")


def test_an_error_of_a_mail_or_a_timer_says_its_operator():
    def submit(probe):
        probe.context.mailbox.submit(lambda: fail(probe))

    def register(probe):
        probe.context.processing_time.register_timer(-1, fail)

    for act in (submit, register):
        task = probe_task([], {"open": act})
        task.run()
        assert (type(task.error), task.error.operator_name) == (LookupError, "probe")


def test_an_error_when_it_is_closed_is_shown_behind_the_first():
    task = probe_task([], {"process_element": fail, "close": lambda probe: 1 // 0})
    task.run()
    assert isinstance(task.error, LookupError)
    assert isinstance(task.error.__context__, ZeroDivisionError)


def test_operators_are_closed_from_the_tail_and_all_of_them():
    calls = []
    names = "abc"
    probes = [
        operator(name, lambda name=name: Probe([], {"close": lambda probe, name=name: calls.append(name)}))
        for name in names
    ]
    make_task(chain_of(source([1]), *probes)).run()
    assert calls == ["c", "b", "a"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration])
def test_every_exception_fails_the_task(error):
    def raise_it(value):
        raise error

    task = make_task(chain_of(source([1]), operator("map", lambda: MapOperator(raise_it))))
    task.run()
    assert task.state is TaskState.FAILED and isinstance(task.error, error)


def test_consumers_of_a_task_that_failed_are_told(pool):
    partition = fb.ResultPartition(pool, 1)
    gate = fb.InputGate([(partition, 0)])
    broken = make_task(
        chain_of(
            source([1]),
            operator("map", lambda: MapOperator(lambda value: 1 // 0), network_edges=(edge(),)),
            partition_count=1,
        ),
        [],
        [partition],
    )
    consumer = make_task(chain_of(operator("sink", lambda: ListSink([])), inputs=INPUT), [gate], [])
    run_all(consumer, broken)
    assert broken.state is TaskState.FAILED
    assert consumer.state is TaskState.CANCELED  # it is not the one that failed


# ---- cancellation ------------------------------------------------------------------------------------------


def test_a_task_that_is_cancelled_before_it_runs_makes_nothing(pool):
    calls, events = [], []
    partition, other = fb.ResultPartition(pool, 1), fb.ResultPartition(pool, 1)
    gate = fb.InputGate([(other, 0)])
    task = make_task(
        chain_of(operator("probe", lambda: Probe(calls)), inputs=INPUT), [gate], [partition], report=events.append
    )
    task.cancel()
    task.cancel()
    assert (task.state, task.is_over) == (TaskState.CANCELED, True)
    assert gate.is_closed and partition.is_closed
    task.run()
    assert (calls, states(events)) == ([], [TaskState.CANCELED])


def test_a_task_can_fail_before_it_runs():
    task, error = probe_task([]), LookupError()
    task.fail(error)
    assert (task.state, task.error, task.is_over) == (TaskState.FAILED, error, True)


@pytest.mark.parametrize("phase", ["setup", "initialize_state", "open", "process_element", "finish"])
def test_a_task_is_cancelled_in_any_phase(phase):
    calls, events, gate = [], [], Gate()
    running = Running(probe_task(calls, {phase: gate}, items=range(1000), events=events))
    assert gate.reached.wait(10)
    running.task.cancel()
    running.task.cancel()
    assert running.task.state is TaskState.CANCELING and not running.task.is_over
    gate.opened.set()
    task = running.join()
    assert (task.state, task.error) == (TaskState.CANCELED, None)
    assert states(events)[-2:] == [TaskState.CANCELING, TaskState.CANCELED]
    assert calls.count("close") == 1
    assert ("finish" in calls) == (phase == "finish")
    assert calls.count("process_element") <= (1000 if phase == "finish" else 1)


@pytest.mark.parametrize("phase", ["open", "process_element"])
def test_a_task_that_is_failed_from_outside_fails_with_that_error(phase):
    calls, gate, error = [], Gate(), LookupError("from outside")
    running = Running(probe_task(calls, {phase: gate}, items=range(1000)))
    assert gate.reached.wait(10)
    running.task.fail(error)
    running.task.cancel()  # too late: it is decided
    gate.opened.set()
    task = running.join()
    assert (task.state, task.error, calls.count("close")) == (TaskState.FAILED, error, 1)


def test_an_error_while_it_is_cancelled_does_not_fail_it():
    gate = Gate()

    def stop_and_fail(probe, *arguments):
        gate(probe)
        raise LookupError

    running = Running(probe_task([], {"process_element": stop_and_fail}))
    assert gate.reached.wait(10)
    running.task.cancel()
    gate.opened.set()
    assert running.join().state is TaskState.CANCELED


class Waiting(SourceOperatorBase):
    """A source that never has anything."""

    def __init__(self, reached, cancelled):
        self.reached, self.cancelled = reached, cancelled

    def emit_next(self, output, max_records):
        self.reached.set()
        return InputStatus.NOTHING_AVAILABLE

    def cancel(self):
        self.cancelled.append(threading.get_ident())


def waiting_task(cancelled, reached=None, **options):
    reached = reached or threading.Event()
    task = make_task(chain_of(operator("source", lambda: Waiting(reached, cancelled), is_source=True)), **options)
    return task, reached


def test_a_task_that_waits_for_input_is_cancelled_and_its_source_is_told_once():
    cancelled = []
    task, reached = waiting_task(cancelled)
    running = Running(task)
    assert reached.wait(10)
    task.cancel()
    task.cancel()
    assert running.join().state is TaskState.CANCELED
    assert cancelled == [threading.get_ident()]


def test_a_task_that_waits_for_room_is_cancelled(pool):
    partition = fb.ResultPartition(pool, 1)
    config = chain_of(source(range(10**6), network_edges=(edge(),)), partition_count=1)
    running = Running(make_task(config, [], [partition]))
    while partition.is_available:
        time.sleep(0.001)
    running.task.cancel()
    assert running.join().state is TaskState.CANCELED
    assert partition.is_closed


def test_a_task_that_waits_in_the_middle_of_a_record_is_cancelled(pool):
    partition = fb.ResultPartition(pool, 1)
    config = chain_of(
        source([b"x" * 1_000_000], network_edges=(edge(type=fb.Types.PRIMITIVE_ARRAY(fb.Types.BYTE())),)),
        partition_count=1,
    )
    running = Running(make_task(config, [], [partition]))
    while partition.is_available:
        time.sleep(0.001)
    running.task.cancel()
    assert running.join().state is TaskState.CANCELED


def test_an_operator_that_yields_is_cancelled():
    reached = threading.Event()

    def wait(probe, value):
        reached.set()
        while True:
            probe.context.mailbox.yield_()

    running = Running(probe_task([], {"process_element": wait}))
    assert reached.wait(10)
    running.task.cancel()
    assert running.join().state is TaskState.CANCELED


def test_a_function_that_does_not_return_is_interrupted():
    reached = threading.Event()

    def spin(value):
        reached.set()
        while True:
            pass

    calls = []
    config = chain_of(source([1]), operator("spin", lambda: MapOperator(spin)), operator("probe", lambda: Probe(calls)))
    running = Running(make_task(config))
    assert reached.wait(10)
    assert not running.task.interrupt()  # nobody has cancelled it
    running.task.cancel()
    assert running.task.interrupt()
    assert running.join().state is TaskState.CANCELED
    assert calls[-1] == "close" and "finish" not in calls


def test_an_interrupt_that_comes_late_does_not_disturb_the_cleaning():
    for _ in range(50):
        calls, gate = [], Gate()
        running = Running(probe_task(calls, {"process_element": gate, "close": lambda probe: time.sleep(0)}))
        assert gate.reached.wait(10)
        running.task.cancel()
        gate.opened.set()
        while running.task.interrupt():
            pass
        assert running.join().state is TaskState.CANCELED
        assert calls.count("close") == 1


def test_reports_may_take_locks_that_others_hold_while_they_cancel():
    lock = threading.Lock()

    def report(event):
        with lock:
            pass

    for _ in range(50):
        task, _reached = waiting_task([], report=report)
        running = Running(task)
        with lock:
            task_state = task.state  # may be anything
            canceller = threading.Thread(target=task.cancel)
            canceller.start()
        canceller.join(10)
        assert running.join().state is TaskState.CANCELED, task_state


def test_a_cancelled_task_does_not_wait_for_its_timers():
    class Timed(Waiting):
        def open(self):
            self.context.processing_time.register_timer(10**15, print)

    reached = threading.Event()
    task = make_task(chain_of(operator("source", lambda: Timed(reached, []), is_source=True)), clock=ManualClock())
    running = Running(task)
    assert reached.wait(10)
    task.cancel()
    assert running.join().state is TaskState.CANCELED


def test_cancelling_at_any_moment_ends_it_and_closes_once(pool):
    for attempt in range(100):
        calls = []
        partition = fb.ResultPartition(pool, 1)
        config = chain_of(
            source(range(200)),
            operator("probe", lambda calls=calls: Probe(calls), network_edges=(edge(),)),
            partition_count=1,
        )
        task = make_task(config, [], [partition])
        running = Running(task)
        for _ in range(attempt * 20):
            pass
        task.cancel()
        assert running.join().state in (TaskState.CANCELED, TaskState.FINISHED)
        assert calls.count("close") == calls.count("setup") <= 1
        partition.abort("over")


# ---- nothing is left ---------------------------------------------------------------------------------------


def left_behind(pool):
    gc.collect()
    return threading.active_count(), pool.available_segment_count, len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("is_failing", [False, True])
def test_two_hundred_tasks_leave_nothing_behind(is_failing):
    pool = fb.NetworkBufferPool(2048, segment_size=4096)

    def pair(number):
        partition = fb.ResultPartition(pool, 1, floating_buffers=2)
        gate = fb.InputGate([(partition, 0)])
        producer = make_task(
            chain_of(source(range(50), network_edges=(edge(),)), partition_count=1), [], [partition], name=f"p{number}"
        )

        def check(value):
            if is_failing and value == 25:
                raise LookupError(number)
            return value

        consumer = make_task(
            chain_of(operator("check", lambda: MapOperator(check)), inputs=INPUT), [gate], [], name=f"c{number}"
        )
        return producer, consumer

    run_all(*pair(-1))  # threads of the process start with the first
    before = left_behind(pool)
    tasks = [task for number in range(100) for task in pair(number)]
    run_all(*tasks)
    consumers = tasks[1::2]
    assert {task.state for task in consumers} == {TaskState.FAILED if is_failing else TaskState.FINISHED}
    assert not is_failing or all(isinstance(task.error, LookupError) for task in consumers)
    del tasks, consumers
    assert left_behind(pool) == before


def test_a_task_that_ended_keeps_nothing_of_its_operators():
    references = []

    class Heavy(ListSource):
        def open(self):
            references.append(weakref.ref(self))

    task = make_task(chain_of(operator("source", lambda: Heavy([1, 2]), is_source=True)))
    task.run()
    gc.collect()
    assert task.metrics.records_out == 0
    assert [reference() for reference in references] == [None]


def test_an_interrupt_that_comes_too_late_is_dropped_without_a_trace():
    def nothing():
        pass

    def under_profile():
        profile = cProfile.Profile()
        profile.enable()
        nothing()
        profile.disable()

    for _ in range(20):
        calls, gate = [], Gate()
        running = Running(probe_task(calls, {"process_element": gate}))
        assert gate.reached.wait(10)
        running.task.cancel()
        gate.opened.set()
        running.task.interrupt()
        assert running.join().state is TaskState.CANCELED
    # "An exception waits for some thread" is a flag of the whole interpreter: under a profile each call spins on it.
    profiled = threading.Thread(target=under_profile, daemon=True)
    profiled.start()
    profiled.join(10)
    assert not profiled.is_alive()
