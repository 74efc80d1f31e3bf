"""Timers of a task. Flink: SystemProcessingTimeServiceTest, ProcessingTimeServiceImplTest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf._core.ground.wakeup import TaskBell
from flinkbuf._core.task.task_mailbox import MIN_PRIORITY, TaskMailbox
from flinkbuf.streaming.time.processing_time import OperatorTimerService, TaskTimerService, TimerQueue
from flinkbuf.testing import ManualClock


class Bench:
    def __init__(self, now_ms=0):
        self.clock = ManualClock(now_ms)
        self.mailbox = TaskMailbox(TaskBell())
        self.service = TaskTimerService(self.clock, self.mailbox)
        self.fired = []

    def move_to(self, time):
        """Move the clock and run what is due."""
        self.clock.advance_to(time)
        self.service.post_due()
        self.run()

    def run(self):
        while (mail := self.mailbox.try_take(MIN_PRIORITY)) is not None:
            mail.action()


def test_a_timer_fires_when_its_millisecond_is_over():
    bench = Bench()
    bench.service.register_timer(10, bench.fired.append)
    bench.move_to(10)
    assert bench.fired == []
    bench.move_to(11)
    assert bench.fired == [10]


def test_a_timer_in_the_past_fires_at_once_and_with_its_own_time():
    bench = Bench(100)
    bench.service.register_timer(7, bench.fired.append)
    assert bench.fired == []  # as a mail, not within the call
    bench.move_to(100)
    assert bench.fired == [7]


def test_a_timer_for_now_waits_for_the_next_millisecond():
    bench = Bench(100)
    bench.service.register_timer(100, bench.fired.append)
    bench.move_to(100)
    assert bench.fired == []
    bench.move_to(101)
    assert bench.fired == [100]


def test_timers_fire_in_the_order_of_their_times_then_of_registering():
    bench = Bench()
    for timestamp, name in [(5, "b"), (3, "a"), (5, "c")]:
        bench.service.register_timer(timestamp, lambda _, name=name: bench.fired.append(name))
    bench.move_to(50)
    assert bench.fired == ["a", "b", "c"]


def test_it_says_how_long_to_sleep():
    bench = Bench(100)
    assert bench.service.post_due() is None
    bench.service.register_timer(150, bench.fired.append)
    assert bench.service.post_due() == 51


def test_a_cancelled_timer_does_not_fire_and_nobody_waits_for_it():
    bench = Bench()
    timer = bench.service.register_timer(5, bench.fired.append)
    timer.cancel()
    assert bench.service.post_due() is None
    bench.move_to(50)
    assert bench.fired == []


def test_a_timer_can_be_cancelled_while_its_mail_waits():
    bench = Bench()
    timer = bench.service.register_timer(5, bench.fired.append)
    bench.clock.advance_to(6)
    bench.service.post_due()
    timer.cancel()
    bench.run()
    assert bench.fired == []


def test_a_callback_may_register_the_next_timer():
    bench = Bench()

    def again(timestamp):
        bench.fired.append(timestamp)
        bench.service.register_timer(timestamp + 10, again)

    bench.service.register_timer(0, again)
    for time in (1, 11, 21):
        bench.move_to(time)
    assert bench.fired == [0, 10, 20]


def test_after_quiesce_nothing_fires():
    bench = Bench()
    bench.service.register_timer(5, bench.fired.append)
    bench.service.register_timer(6, bench.fired.append)
    bench.clock.advance_to(6)
    bench.service.post_due()  # the first one is a mail already
    bench.service.quiesce()
    bench.service.register_timer(7, bench.fired.append).cancel()
    bench.move_to(50)
    assert bench.fired == []


def test_timers_are_mails_of_their_operator():
    bench = Bench()
    OperatorTimerService(bench.service, 3).register_timer(5, bench.fired.append)
    OperatorTimerService(bench.service, 1).register_timer(5, bench.fired.append)
    bench.clock.advance_to(6)
    bench.service.post_due()
    mail = bench.mailbox.try_take(2)
    assert mail.mail_priority == 3
    assert bench.mailbox.try_take(2) is None


def test_one_operator_is_quiesced_while_others_go_on():
    bench = Bench()
    first, second = OperatorTimerService(bench.service, 1), OperatorTimerService(bench.service, 2)
    first.register_timer(5, lambda _: bench.fired.append("first"))
    second.register_timer(5, lambda _: bench.fired.append("second"))
    first.quiesce()
    first.register_timer(6, lambda _: bench.fired.append("first again"))
    bench.move_to(50)
    assert bench.fired == ["second"]
    assert first.now_ms() == 50


def test_an_error_of_a_timer_is_located_and_goes_on():
    bench, located = Bench(), []

    def fail(timestamp):
        raise LookupError(timestamp)

    OperatorTimerService(bench.service, 1, located.append).register_timer(5, fail)
    with pytest.raises(LookupError) as caught:
        bench.move_to(6)
    assert located == [caught.value]


@given(st.lists(st.one_of(st.tuples(st.just("add"), st.integers(0, 30)), st.tuples(st.just("move"), st.integers(0, 5)),
                          st.tuples(st.just("cancel"), st.integers(0, 40)))))  # fmt: skip
def test_a_queue_is_a_sorted_list(steps):
    queue, now, timers, model, given_out = TimerQueue(), 0, [], [], []
    for step, number in steps:
        if step == "add":
            due = number + 1 if number >= now else now
            model.append((due, len(timers)))
            timers.append(queue.register(number, now, None))
        elif step == "cancel" and number < len(timers):
            timers[number].cancel()
            model = [each for each in model if each[1] != number]
        elif step == "move":
            now += number
            given_out = [timers.index(timer) for timer in queue.pop_due(now)]
            assert given_out == [index for due, index in sorted(model) if due <= now]
            model = [each for each in model if each[0] > now]
        assert queue.next_due_ms == (min(model)[0] if model else None)
