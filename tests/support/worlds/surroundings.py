"""What stands around one source or sink in a test: time that the test moves, a mailbox it empties, records it reads."""

import threading
from collections import deque

from flinkbuf._core.operators.source_operator import SourceOutput
from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf.streaming.chain.operator_config import ExecutionSettings, TaskInfo
from flinkbuf.streaming.chain.operator_context import OperatorContext
from flinkbuf.streaming.state.operator_state import OperatorStateBackend
from flinkbuf.types.values import StreamRecord, Watermark, WatermarkStatus

OPERATOR_ID = "0123456789abcdef0123456789abcdef"


class ManualTime:
    """Clock and processing-time service in one; a timer fires once the clock is past its time."""

    def __init__(self, now_ms=0):
        self.now = now_ms
        self.timers = []

    def now_ms(self):
        return self.now

    def register_timer(self, timestamp_ms, callback):
        timer = ManualTimer(timestamp_ms, callback)
        self.timers.append(timer)
        return timer

    def advance_to(self, now_ms):
        while due := [each for each in self.timers if each.timestamp_ms < now_ms]:
            timer = min(due, key=lambda each: each.timestamp_ms)
            self.timers.remove(timer)
            if not timer.is_canceled:
                self.now = max(self.now, timer.timestamp_ms + 1)
                timer.callback(timer.timestamp_ms)
        self.now = now_ms


class ManualTimer:
    def __init__(self, timestamp_ms, callback):
        self.timestamp_ms, self.callback, self.is_canceled = timestamp_ms, callback, False

    def cancel(self):
        self.is_canceled = True


class ManualMailbox:
    """Mails that any thread sends and the test runs."""

    def __init__(self):
        self.mails = deque()
        self.woken = threading.Event()
        self.wakes = 0  # that somebody asked for

    def submit(self, mail, description=""):
        self.mails.append(mail)
        self.woken.set()

    def wake(self):
        self.wakes += 1
        self.woken.set()

    def run(self):
        while self.mails:
            self.mails.popleft()()

    def try_yield(self):
        if not self.mails:
            return False
        self.mails.popleft()()
        return True

    def yield_(self):
        assert self.woken.wait(10), "nothing came"
        self.woken.clear()
        self.try_yield()


class Elements(SourceOutput):
    """Keeps what is emitted, as the elements of a stream; must_yield says what the test sets."""

    def __init__(self):
        self.elements = []
        self.yields_after = None

    def must_yield(self):
        return self.yields_after is not None and len(self.elements) >= self.yields_after

    def collect(self, value, timestamp):
        self.elements.append(StreamRecord(value, None if timestamp == NO_TIMESTAMP else timestamp))

    def emit_watermark(self, timestamp):
        self.elements.append(Watermark(timestamp))

    def emit_watermark_status(self, is_idle):
        self.elements.append(WatermarkStatus.IDLE if is_idle else WatermarkStatus.ACTIVE)

    def emit_latency_marker(self, marker):
        self.elements.append(marker)

    @property
    def values(self):
        return [each.value for each in self.elements if isinstance(each, StreamRecord)]


class MailedCoordinator:
    """A coordinator in this process, as one operator knows it."""

    def __init__(self, coordinator, mailbox):
        self._coordinator = coordinator
        self._mailbox = mailbox
        self._operator = None
        self.handle_event, self.reader_ended = coordinator.handle_event, coordinator.reader_ended

    def register_reader(self, subtask_index, operator):
        self._operator = operator
        self._coordinator.register_reader(subtask_index, self)

    def send(self, event):
        self._mailbox.submit(lambda: self._operator.handle_event(event))


class Surroundings:
    """Everything that an operator is given, and the operator once it was set up."""

    def __init__(self, *, subtask_index=0, parallelism=1, settings=None, coordinator=None, time=None):
        self.time = ManualTime() if time is None else time
        self.mailbox = ManualMailbox()
        self.output = Elements()
        self.task = TaskInfo("job", "a job", "vertex", "a task", subtask_index, parallelism)
        self.context = OperatorContext(
            task=self.task,
            operator_id=OPERATOR_ID,
            operator_name="an operator",
            settings=settings or ExecutionSettings(),
            clock=self.time,
            processing_time=self.time,
            mailbox=self.mailbox,
            operator_state=OperatorStateBackend(),
            wake=self.mailbox.wake,
            coordinator=None if coordinator is None else MailedCoordinator(coordinator, self.mailbox),
        )

    def open(self, operator, snapshot=None):
        operator.setup(self.context, self.output)
        operator.initialize_state(snapshot)
        operator.open()
        return operator

    def run_source(self, operator, max_records=100, turns=10_000):
        """Turns until the source has ended or waits; returns its last status."""
        for _ in range(turns):
            status = operator.emit_next(self.output, max_records)
            if status != 0:
                return status
        raise AssertionError("the source did not come to an end")

    def wait_for_end(self, operator, max_records=100, timeout_s=10):
        """The same for one that threads of its own feed, mails included."""
        while (status := self.run_source(operator, max_records)) == 1:
            assert self.mailbox.woken.wait(timeout_s), "the source was never woken"
            self.mailbox.woken.clear()
            self.mailbox.run()
        return status
